"""An encoder for retrieval in the manner of ModernBERT with mean pooling, and a port without any submodule but its layers.

Each second layer attends to at most 3 tokens to each side. A adds masks to the scores, B fills them by pairs that are allowed.
"""

import torch
from torch import nn
from torch.nn import functional as F

from .decoders import rotate_half

D, HEADS, FFN, VOCAB, NEAR = 32, 4, 40, 67, 3
HEAD = D // HEADS


class Rotary(nn.Module):
    def __init__(self, base):
        super().__init__()
        f = base ** -(torch.arange(0, HEAD, 2, dtype=torch.float64) / HEAD)
        self.register_buffer("inv_freq", f)

    def forward(self, x):
        a = torch.arange(x.shape[1])[:, None] * self.inv_freq
        a = torch.cat((a, a), -1)
        return a.cos().to(x.dtype), a.sin().to(x.dtype)


class Attn(nn.Module):
    def __init__(self, local):
        super().__init__()
        self.Wqkv, self.Wo = nn.Linear(D, 3 * D, bias=False), nn.Linear(D, D, bias=False)
        self.rotary_emb, self.local = Rotary(10000.0 if local else 160000.0), local

    def forward(self, x, mask):
        n, t, _ = x.shape
        q, k, v = self.Wqkv(x).view(n, t, 3, HEADS, HEAD).transpose(1, 3).unbind(2)
        cos, sin = self.rotary_emb(x)
        q, k = q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin
        y = (q @ k.mT * HEAD**-0.5 + mask).softmax(-1) @ v
        return self.Wo(y.transpose(1, 2).reshape(n, t, D))


class GeGLU(nn.Module):
    def __init__(self):
        super().__init__()
        self.Wi, self.Wo, self.act = nn.Linear(D, 2 * FFN, bias=False), nn.Linear(FFN, D, bias=False), nn.GELU()

    def forward(self, x):
        value, gate = self.Wi(x).chunk(2, -1)
        return self.Wo(self.act(value) * gate)


class EncoderLayer(nn.Module):
    def __init__(self, index):
        super().__init__()
        self.attn_norm = nn.LayerNorm(D, bias=False) if index else nn.Identity()
        self.attn, self.mlp_norm, self.mlp = Attn(index % 2 == 1), nn.LayerNorm(D, bias=False), GeGLU()

    def forward(self, x, mask, near):
        x = x + self.attn(self.attn_norm(x), near if self.attn.local else mask)
        return x + self.mlp(self.mlp_norm(x))


class Pooling(nn.Module):
    def forward(self, x, attention_mask):
        real = attention_mask.unsqueeze(-1).to(x.dtype)
        return (x * real).sum(1) / real.sum(1).clamp(min=1e-9)


class Retriever(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok_embeddings, self.norm = nn.Embedding(VOCAB, D), nn.LayerNorm(D, bias=False)
        self.layers, self.final_norm = nn.ModuleList(EncoderLayer(i) for i in range(3)), nn.LayerNorm(D, bias=False)
        self.pooling, self.dense = Pooling(), nn.Linear(D, D, bias=False)

    def forward(self, input_ids, attention_mask):
        x = self.norm(self.tok_embeddings(input_ids))
        i, low = torch.arange(x.shape[1]), torch.finfo(x.dtype).min
        seen = attention_mask.bool()[:, None, None] | torch.eye(len(i), dtype=torch.bool)  # no row is empty
        mask = torch.zeros(seen.shape, dtype=x.dtype).masked_fill(~seen, low)
        near = mask.masked_fill((i[None] - i[:, None]).abs() > NEAR, low)
        for layer in self.layers:
            x = layer(x, mask, near)
        return F.normalize(self.dense(self.pooling(self.final_norm(x), attention_mask)), dim=-1)


def array(x):
    return nn.Parameter(x.detach().clone().contiguous())


class Cell(nn.Module):
    def __init__(self, a, index, fault):
        super().__init__()
        self.index, self.fault = index, fault
        w = a.attn.Wqkv.weight.view(3, HEADS, HEAD, D)
        if fault == "heads before parts":
            w = a.attn.Wqkv.weight.view(HEADS, 3, HEAD, D).transpose(0, 1)
        self.q, self.k, self.v = (array(z) for z in w)
        self.o = array(
            a.attn.Wo.weight.view(D, HEADS, HEAD) if fault != "not transposed" else a.attn.Wo.weight.T.reshape(D, HEADS, HEAD)
        )
        if index:
            self.first = array(a.attn_norm.weight)
        elif fault == "norm in the first layer":
            self.first = array(a.mlp_norm.weight)
        self.second, (value, gate) = array(a.mlp_norm.weight), a.mlp.Wi.weight.chunk(2)
        self.value, self.gate, self.down = array(value.T), array(gate.T), array(a.mlp.Wo.weight.T)

    def normed(self, x, weight):
        eps = 1e-12 if self.fault == "epsilon" else 1e-5
        if self.fault == "rms":
            return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight
        y = x - x.mean(-1, keepdim=True)
        return y / torch.sqrt(y.square().mean(-1, keepdim=True) + eps) * weight

    def rotated(self, x):
        local = self.index % 2 == 1
        if self.fault == "bases exchanged":
            local = not local
        f = (10000.0 if local or self.fault == "one base" else 160000.0) ** -(torch.arange(0, HEAD, 2, dtype=torch.float64) / HEAD)
        a = torch.arange(x.shape[2])[:, None] * (f / 4 if self.fault == "interpolated" else f)
        cos, sin = a.cos().to(x.dtype), a.sin().to(x.dtype) * (-1 if self.fault == "backwards" else 1)
        if self.fault == "neighbours":
            x, y = x[..., ::2], x[..., 1::2]
            return torch.stack((x * cos - y * sin, y * cos + x * sin), -1).flatten(-2)
        x, y = x.chunk(2, -1)
        return torch.cat((x * cos - y * sin, y * cos + x * sin), -1)

    def forward(self, x, allowed, near):
        y = self.normed(x, self.first) if hasattr(self, "first") else x
        q, k, v = (torch.einsum("btd,hkd->bhtk", y, w) for w in (self.q, self.k, self.v))
        q, k = self.rotated(q), self.rotated(k)
        scores = torch.einsum("bhqk,bhsk->bhqs", q, k)
        scores = scores / (D if self.fault == "scaled by the width" else HEAD) ** 0.5
        weights = scores.masked_fill(~(near if self.index % 2 else allowed), float("-inf")).softmax(-1)
        x = x + torch.einsum("bhqs,bhsk,dhk->bqd", weights, v, self.o)
        y = self.normed(x, self.second)
        value, gate = y @ self.value, y @ self.gate
        if self.fault == "activation on the gate":
            value, gate = gate, value
        return x + (F.gelu(value, approximate="tanh" if self.fault == "gelu by tanh" else "none") * gate) @ self.down


class Port(nn.Module):
    def __init__(self, a, fault="", layer=-1):
        super().__init__()
        self.table, self.entry, self.last = array(a.tok_embeddings.weight), array(a.norm.weight), array(a.final_norm.weight)
        self.cells = nn.ModuleList(Cell(x, i, fault if layer in (-1, i) else "") for i, x in enumerate(a.layers))
        weight = a.dense.weight if fault == "projection not transposed" else a.dense.weight.T
        self.projection, self.fault = array(weight), fault

    def pooled(self, x, real):
        if self.fault == "first token":
            return x[:, 0]
        if self.fault == "padding in the mean":
            return x.mean(1)
        x = x * real[..., None].to(x.dtype)
        if self.fault == "divided by the length with padding":  # the norm at the end undoes it: nothing changes
            return x.sum(1) / x.shape[1]
        return torch.einsum("btd->bd", x) / real.sum(1, keepdim=True).to(x.dtype)

    def forward(self, ids, real):
        t = ids.shape[1]
        allowed = torch.ones_like(real).bool() if self.fault == "padding seen" else real.bool()
        i = torch.arange(t)
        allowed = allowed[:, None, None] | (i[:, None] == i)
        distance = (i[:, None] - i[None]).abs()
        width = {"window one less": NEAR - 1, "window on both sides": 2 * NEAR}.get(self.fault, NEAR)
        near = allowed & (distance <= width)
        x = F.layer_norm(self.table[ids], (D,), self.entry)
        for cell in self.cells:
            x = cell(x, allowed, near)
        if self.fault != "no last norm":
            x = F.layer_norm(x, (D,), self.last)
        x = self.pooled(x, real) @ self.projection
        return x if self.fault == "not normalised" else x / x.square().sum(-1, keepdim=True).sqrt()


def padded(n=3, t=11):
    real = (torch.arange(t)[None] < torch.tensor([t, 8, 5])[:, None]).long()
    return torch.randint(1, VOCAB, (n, t)) * real, real
