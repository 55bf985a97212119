"""Attention in two hands: one projection for queries, keys and values against a kernel for each, and three against one.

A port gets one thing wrong, `fault`. Both take numbers [B, T, D], so that no embedding stands before the attention.
"""

import math

import torch
from torch import nn
from torch.nn import functional as F

from ..planted_third.start import put

DIM, HEADS, HIDDEN = 24, 4, 40
WIDTH = DIM // HEADS


class Fused(nn.Module):
    """[B, H, T, K] from one projection; a mask of booleans, or a bias that somebody else made; a cache of keys and values."""

    def __init__(self):
        super().__init__()
        self.qkv, self.proj = nn.Linear(DIM, 3 * DIM), nn.Linear(DIM, DIM)

    def forward(self, x, keep=None, bias=None, cache=None):
        batch, length = x.shape[:2]
        q, k, v = self.qkv(x).view(batch, length, 3, HEADS, WIDTH).permute(2, 0, 3, 1, 4).unbind(0)
        if cache is not None:
            k, v = (torch.cat([old, new], 2) for old, new in zip(cache or (k[:, :, :0], v[:, :, :0]), (k, v), strict=True))
            cache[:] = [k, v]
        scores = q @ k.transpose(-1, -2) / math.sqrt(WIDTH)
        if bias is not None:
            scores = scores + bias
        if keep is not None:
            scores = scores.masked_fill(~keep, torch.finfo(x.dtype).min)
        return self.proj((scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, length, DIM))


class Kernels(nn.Module):
    """[B, T, H, K] from kernels [D, H, K]."""

    def __init__(self, a, fault):
        super().__init__()
        self.fault = fault
        kernels = [w.T.reshape(DIM, HEADS, WIDTH).detach().clone() for w in a.qkv.weight.chunk(3)]
        biases = [b.reshape(HEADS, WIDTH).detach().clone() for b in a.qkv.bias.chunk(3)]
        if fault == "scaled weights":  # somebody put the scale into the weights, and it is applied again
            kernels[0], biases[0] = kernels[0] * WIDTH**-0.5, biases[0] * WIDTH**-0.5
        self.q_kernel, self.k_kernel, self.v_kernel = (nn.Parameter(w) for w in kernels)
        self.q_bias, self.k_bias, self.v_bias = (nn.Parameter(b) for b in biases)
        self.out = put(nn.Linear(DIM, DIM), weight=a.proj.weight, bias=a.proj.bias)

    def forward(self, x, hidden=None, bias=None, cache=None):
        q, k, v = (torch.einsum("btd,dhk->bthk", x, w) for w in (self.q_kernel, self.k_kernel, self.v_kernel))
        q = q if self.fault == "bias of queries" else q + self.q_bias
        k, v = k + self.k_bias, v if self.fault == "bias of values" else v + self.v_bias
        if cache is not None:
            k, v = (torch.cat([old, new], 1) for old, new in zip(cache or (k[:, :0], v[:, :0]), (k, v), strict=True))
            cache[:] = [k, v]
        if self.fault == "scale of both":  # the root of the width for each of the two
            q, k = q * WIDTH**-0.5, k * WIDTH**-0.5
        elif self.fault == "scale of the stream":
            q, k = q * DIM**-0.25, k * DIM**-0.25
        else:
            q = q * WIDTH ** (-1 if self.fault == "scale" else -0.5)
        scores = torch.einsum("bqhk,bshk->bhqs", q, k)
        if bias is not None:
            scores = scores + bias
        if self.fault == "soft-cap":
            scores = 1.5 * torch.tanh(scores / 1.5)
        if hidden is not None:
            scores = scores + torch.zeros_like(scores).masked_fill(hidden, -1e9)
        mixed = torch.einsum("bhqs,bshk->bqhk", scores.softmax(-1), v)
        if self.fault == "heads merged":
            mixed = mixed.transpose(2, 3)
        return self.out(mixed.reshape(x.shape))


class Apart(nn.Module):
    """Three projections, and queries that are scaled before they are split into heads."""

    def __init__(self):
        super().__init__()
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = (nn.Linear(DIM, DIM) for _ in range(4))

    def forward(self, x, keep=None, bias=None, cache=None):
        q, k, v = self.q_proj(x) * WIDTH**-0.5, self.k_proj(x), self.v_proj(x)
        q, k, v = (t.unflatten(-1, (HEADS, WIDTH)).transpose(1, 2) for t in (q, k, v))
        if cache is not None:
            k, v = (torch.cat([old, new], 2) for old, new in zip(cache or (k[:, :, :0], v[:, :, :0]), (k, v), strict=True))
            cache[:] = [k, v]
        bias = 0.0 if bias is None else bias
        if keep is not None:
            bias = bias + torch.zeros(keep.shape, dtype=x.dtype).masked_fill(~keep, float("-inf"))
        weights = torch.softmax(torch.matmul(q, k.mT) + bias, dim=-1)
        return self.o_proj(torch.matmul(weights, v).transpose(1, 2).flatten(2))


class Packed(nn.Module):
    """One matrix for queries, keys and values, and torch's fused attention."""

    def __init__(self, a, fault):
        super().__init__()
        three, self.fault = (a.q_proj, a.k_proj, a.v_proj), fault
        self.w = nn.Parameter(torch.cat([p.weight.detach() for p in three]).clone())
        biases = [p.bias.detach() for p in three]
        if fault == "bias of queries":
            biases[0] = torch.zeros_like(biases[0])
        if fault == "scaled weights":
            self.w.data[:DIM] *= WIDTH**-0.5
            biases[0] = biases[0] * WIDTH**-0.5
        self.b = nn.Parameter(torch.cat(biases).clone())
        self.wo = nn.Parameter(a.o_proj.weight.detach().T.clone())
        self.bo = nn.Parameter(a.o_proj.bias.detach().clone())

    def forward(self, x, hidden=None, bias=None, cache=None):
        q, k, v = (t.unflatten(-1, (HEADS, WIDTH)).transpose(1, 2) for t in F.linear(x, self.w, self.b).split(DIM, -1))
        if cache is not None:
            k, v = (torch.cat([old, new], 2) for old, new in zip(cache or (k[:, :, :0], v[:, :, :0]), (k, v), strict=True))
            cache[:] = [k, v]
        if self.fault == "scale of both":
            q, k = q * WIDTH**-0.5, k * WIDTH**-0.5
        if bias is None and hidden is not None:
            bias = ~hidden
        elif hidden is not None:
            bias = bias.masked_fill(hidden, -1e9)
        scale = {"scale of both": 1.0, "scale": 1 / WIDTH}.get(self.fault)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=bias, scale=scale)
        return torch.addmm(self.bo, y.transpose(1, 2).reshape(-1, DIM), self.wo).view(x.shape)


class Block(nn.Module):
    def __init__(self, attention):
        super().__init__()
        self.norm1, self.attn, self.norm2 = nn.LayerNorm(DIM), attention(), nn.LayerNorm(DIM)
        self.fc1, self.act, self.fc2 = nn.Linear(DIM, HIDDEN), nn.GELU(), nn.Linear(HIDDEN, DIM)

    def forward(self, x, *more):
        x = x + self.attn(self.norm1(x), *more)
        return x + self.fc2(self.act(self.fc1(self.norm2(x))))


class PortedBlock(nn.Module):
    def __init__(self, a, port, fault):
        super().__init__()
        self.fault, self.mix = fault, port(a.attn, fault)
        self.g1, self.c1, self.g2, self.c2 = (
            nn.Parameter(p.detach().clone()) for p in (a.norm1.weight, a.norm1.bias, a.norm2.weight, a.norm2.bias)
        )
        self.up, self.down = nn.Parameter(a.fc1.weight.detach().T.clone()), nn.Parameter(a.fc2.weight.detach().T.clone())
        self.b_up, self.b_down = (nn.Parameter(p.detach().clone()) for p in (a.fc1.bias, a.fc2.bias))

    @staticmethod
    def normed(x, g, c):
        y = x - x.mean(-1, keepdim=True)
        return y / torch.sqrt(y.square().mean(-1, keepdim=True) + 1e-5) * g + c

    def forward(self, x, *more):
        x = x + self.mix(self.normed(x, self.g1, self.c1), *more)
        h = self.normed(x, self.g2, self.c2) @ self.up + self.b_up
        h = F.relu(h) if self.fault == "activation" else F.gelu(h)
        return x + h @ self.down + self.b_down


class Stack(nn.Module):
    """What the attentions get is made here, once, by `masks`: it returns `keep` and `bias`."""

    def __init__(self, attention, masks=lambda x, *more: ()):
        super().__init__()
        self.blocks, self.head = nn.ModuleList(Block(attention) for _ in range(2)), nn.Linear(DIM, 9)
        self.masks = masks

    def forward(self, x, *more):
        masks = self.masks(x, *more)
        for block in self.blocks:
            x = block(x, *masks)
        return self.head(x)


class PortedStack(nn.Module):
    def __init__(self, a, port, fault, masks=lambda x, *more: ()):
        super().__init__()
        self.layers = nn.ModuleList(PortedBlock(old, port, fault if i == 1 else "") for i, old in enumerate(a.blocks))
        self.logits = put(nn.Linear(DIM, 9), weight=a.head.weight, bias=a.head.bias)
        self.masks = masks

    def forward(self, x, *more):
        masks = self.masks(x, *more)
        for layer in self.layers:
            x = layer(x, *masks)
        return self.logits(x)


class Chunked(nn.Module):
    """Either of them on numbers that come in two chunks; `mask(first, length)`: what the attentions get."""

    def __init__(self, inner, split, mask):
        super().__init__()
        self.inner, self.split, self.mask = inner, split, mask

    def forward(self, x):
        layers = getattr(self.inner, "blocks", None) or self.inner.layers
        caches, y = [[] for _ in layers], x
        for first, part in ((0, x[:, : self.split]), (self.split, x[:, self.split :])):
            y = part
            for layer, cache in zip(layers, caches, strict=True):
                y = layer(y, self.mask(first, part.shape[1]), None, cache)
        return (self.inner.head if hasattr(self.inner, "head") else self.inner.logits)(y)


class OneRow(nn.Module):
    """The wrong model in one row of the batch, and the right one in the others; both read the whole batch."""

    def __init__(self, right, wrong, row, how):
        super().__init__()
        self.right, self.wrong, self.row, self.how = right, wrong, row, how

    def forward(self, x, *more):
        right, wrong = self.right(x, *more), self.wrong(x, *more)
        if self.how == "where":
            return torch.where((torch.arange(len(x)) == self.row)[:, None, None], wrong, right)
        return right.index_copy(0, torch.tensor([self.row]), wrong[self.row : self.row + 1])
