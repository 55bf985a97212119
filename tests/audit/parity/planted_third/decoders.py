"""Language models in two hands: a Llama and a GPT-2, both with a cache of keys and values."""

import math

import torch
from torch import nn
from torch.nn import functional as F

from .start import put


class Rms(nn.Module):
    """Normalized in float32, back in the dtype of the input, then the weight."""

    def __init__(self, width, eps=1e-5):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(width)), eps

    def forward(self, x):
        y = x.float() if x.dtype is torch.bfloat16 else x
        return self.weight * (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps)).type_as(x)


class RootMeanSquare(nn.Module):
    """The same in a port: one division."""

    def __init__(self, weight, eps=1e-5, fault="", one_plus=False):
        super().__init__()
        self.scale, self.eps, self.fault, self.one_plus = nn.Parameter(weight.detach().clone()), eps, fault, one_plus

    def forward(self, x):
        eps = {"epsilon": 1e-6}.get(self.fault, self.eps)
        w = self.scale + 1 if self.one_plus and self.fault != "norm weight" else self.scale
        y = x.float() if x.dtype is torch.bfloat16 else x
        if self.fault == "norm kind":
            y = y - y.mean(dim=-1, keepdim=True)
        y = y / (y.square().mean(dim=-1, keepdim=True) + eps).sqrt()
        if self.fault == "cast":
            return (y * w.to(y.dtype)).to(x.dtype)
        return y.to(x.dtype) * w


def halves_from_pairs(weight, heads):
    """Rows of a projection whose rotated pairs are neighbours, reordered so that they are half a head apart."""
    width = weight.shape[0] // heads
    return weight.view(heads, width // 2, 2, -1).transpose(1, 2).reshape(weight.shape)


# Llama: pairs as complex numbers, [B, T, H, D], against pairs half a head apart, fused projections, [B, H, T, D].


class LlamaRotary(nn.Module):
    def __init__(self, width, base=10_000.0, factor=1.0):
        super().__init__()
        self.width, self.base, self.factor = width, base, factor

    def forward(self, x, start):
        steps = torch.arange(0, self.width, 2, device=x.device, dtype=x.dtype if x.dtype is torch.float64 else torch.float32)
        angles = torch.outer(
            (torch.arange(x.shape[1], dtype=steps.dtype) + start) / self.factor, self.base ** (-steps / self.width)
        )
        turns = torch.polar(torch.ones_like(angles), angles)
        pairs = torch.view_as_complex(x.to(steps.dtype).reshape(*x.shape[:-1], -1, 2))
        return torch.view_as_real(pairs * turns[None, :, None, :]).flatten(3).type_as(x)


class LlamaAttention(nn.Module):
    def __init__(self, dim, heads, groups, factor):
        super().__init__()
        self.heads, self.groups, self.width = heads, groups, dim // heads
        self.wq, self.wk = nn.Linear(dim, dim, bias=False), nn.Linear(dim, groups * self.width, bias=False)
        self.wv, self.wo = nn.Linear(dim, groups * self.width, bias=False), nn.Linear(dim, dim, bias=False)
        self.rotary = LlamaRotary(self.width, factor=factor)

    def forward(self, x, mask, start, cache):
        q = self.rotary(self.wq(x).unflatten(-1, (self.heads, self.width)), start)
        k = self.rotary(self.wk(x).unflatten(-1, (self.groups, self.width)), start)
        v = self.wv(x).unflatten(-1, (self.groups, self.width))
        if start:
            k, v = torch.cat([cache[0], k], 1), torch.cat([cache[1], v], 1)
        cache[:] = [k, v]
        k, v = (t.repeat_interleave(self.heads // self.groups, dim=2) for t in (k, v))
        q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
        scores = torch.matmul(q, k.transpose(2, 3)) / math.sqrt(self.width) + mask
        return self.wo(torch.matmul(F.softmax(scores, dim=-1), v).transpose(1, 2).flatten(2))


class LlamaFeedForward(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.w1, self.w2, self.w3 = (nn.Linear(*s, bias=False) for s in ((dim, hidden), (hidden, dim), (dim, hidden)))
        self.act = nn.SiLU()

    def forward(self, x):
        return self.w2(self.act(self.w1(x)) * self.w3(x))


class LlamaBlock(nn.Module):
    def __init__(self, dim, heads, groups, factor):
        super().__init__()
        self.attention_norm, self.ffn_norm = Rms(dim), Rms(dim)
        self.attention, self.feed_forward = LlamaAttention(dim, heads, groups, factor), LlamaFeedForward(dim, 56)

    def forward(self, x, mask, start, cache):
        h = x + self.attention(self.attention_norm(x), mask, start, cache)
        return h + self.feed_forward(self.ffn_norm(h))


class Llama(nn.Module):
    """split: the prompt is read in two chunks, of which the second one's logits are the result."""

    def __init__(self, factor=1.0, split=0):
        super().__init__()
        self.tok_embeddings = nn.Embedding(61, 32)
        self.layers = nn.ModuleList(LlamaBlock(32, 4, 2, factor) for _ in range(2))
        self.norm, self.output = Rms(32), nn.Linear(32, 61, bias=False)
        self.factor, self.split = factor, split

    def read(self, ids, start, caches):
        x = self.tok_embeddings(ids)
        mask = torch.full((ids.shape[1], start + ids.shape[1]), float("-inf"), dtype=x.dtype).triu(start + 1)
        for layer, cache in zip(self.layers, caches, strict=True):
            x = layer(x, mask, start, cache)
        return self.output(self.norm(x))

    def forward(self, ids):
        caches = [[] for _ in self.layers]
        if self.split:
            self.read(ids[:, : self.split], 0, caches)
        return self.read(ids[:, self.split :], self.split, caches)


class Decoder(nn.Module):
    """One layer of the port of a Llama."""

    def __init__(self, a, factor, fault):
        super().__init__()
        old, self.fault, self.factor = a.attention, fault, factor
        self.heads, self.groups, self.width = old.heads, old.groups, old.width
        q, k = old.wq.weight, old.wk.weight
        if fault != "rope layout":
            q, k = halves_from_pairs(q, old.heads), halves_from_pairs(k, old.groups)
        dim = q.shape[1]
        self.in_norm = RootMeanSquare(a.attention_norm.weight, fault=fault)
        self.qkv_proj = put(nn.Linear(dim, dim + 2 * self.groups * self.width, bias=False), weight=torch.cat([q, k, old.wv.weight]))
        self.o_proj = put(nn.Linear(dim, dim, bias=False), weight=old.wo.weight)
        self.mid_norm = RootMeanSquare(a.ffn_norm.weight, fault={"second norm kind": "norm kind"}.get(fault, ""))
        ffn = a.feed_forward
        self.gate_up = put(nn.Linear(dim, 112, bias=False), weight=torch.cat([ffn.w1.weight, ffn.w3.weight]))
        self.down = put(nn.Linear(56, dim, bias=False), weight=ffn.w2.weight)

    def rotate(self, x, start):
        exact = x.dtype if x.dtype is torch.float64 else torch.float32
        base = 500_000.0 if self.fault == "rope base" else 10_000.0
        inv = 1.0 / base ** (torch.arange(0, self.width, 2, dtype=exact) / self.width)
        inv = inv if self.fault == "rope scaling" else inv / self.factor
        angles = torch.arange(start, start + x.shape[2], dtype=exact)[:, None] * inv
        cos, sin = torch.cat([angles, angles], -1).cos(), torch.cat([angles, angles], -1).sin()
        left, right = x.to(exact).chunk(2, dim=-1)
        return (x * cos + torch.cat([-right, left], dim=-1) * sin).to(x.dtype)

    def attend(self, x, start, cache):
        batch, length, dim = x.shape
        q, k, v = self.qkv_proj(x).split([dim, self.groups * self.width, self.groups * self.width], dim=-1)
        q = self.rotate(q.view(batch, length, -1, self.width).transpose(1, 2), start)
        k = self.rotate(k.view(batch, length, -1, self.width).transpose(1, 2), start)
        v = v.view(batch, length, -1, self.width).transpose(1, 2)
        if cache:
            k, v = torch.cat([cache[0], k], 2), torch.cat([cache[1], v], 2)
        cache[:] = [k, v]
        if self.fault == "head order":
            k, v = (t.repeat(1, self.heads // self.groups, 1, 1) for t in (k, v))
        else:
            k, v = (
                t[:, :, None].expand(-1, -1, self.heads // self.groups, -1, -1).reshape(batch, self.heads, -1, self.width)
                for t in (k, v)
            )
        scale = dim**-0.5 if self.fault == "softmax scale" else None
        if self.fault == "soft-cap":
            scores = 3.0 * torch.tanh(q @ k.mT * self.width**-0.5 / 3.0)
            y = scores.masked_fill(torch.ones(length, length).triu(1).bool(), float("-inf")).softmax(-1) @ v
        elif self.fault == "mask alignment" or not start:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=scale)
        else:
            allowed = torch.arange(k.shape[2])[None] <= torch.arange(start, start + length)[:, None]
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=allowed, scale=scale)
        return self.o_proj(y.transpose(1, 2).reshape(batch, length, dim))

    def forward(self, x, start, cache):
        x = x + self.attend(self.in_norm(x), start, cache)
        gate, up = self.gate_up(self.mid_norm(x)).chunk(2, dim=-1)
        gate = F.gelu(gate) if self.fault == "activation" else F.silu(gate)
        return x + self.down(gate * up)


class LlamaPort(nn.Module):
    def __init__(self, a, fault="", at=-1):
        super().__init__()
        self.split, self.fault = a.split, fault
        self.embed = put(nn.Embedding(61, 32), weight=a.tok_embeddings.weight)
        layers, at = a.layers, at % len(a.layers)
        self.stack = nn.ModuleList(Decoder(old, a.factor, fault if i == at else "") for i, old in enumerate(layers))
        self.final = RootMeanSquare(a.norm.weight, fault={"last epsilon": "epsilon"}.get(fault, ""))
        self.head = put(nn.Linear(32, 61, bias=False), weight=a.tok_embeddings.weight if fault == "tied head" else a.output.weight)

    def read(self, ids, start, caches):
        x = self.embed(ids)
        for layer, cache in zip(self.stack, caches, strict=True):
            x = layer(x, start, cache)
        return self.head(self.final(x))

    def forward(self, ids):
        caches = [[] for _ in self.stack]
        if self.split:
            self.read(ids[:, : self.split], 0, caches)
        return self.read(ids[:, self.split :], self.split, caches)


# GPT-2: weights as [in, out] with one matrix for queries, keys and values, against einsum over separate matrices per head.


class Conv1D(nn.Module):
    def __init__(self, n_in, n_out):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.empty(n_in, n_out)), nn.Parameter(torch.zeros(n_out))

    def forward(self, x):
        return torch.addmm(self.bias, x.reshape(-1, x.shape[-1]), self.weight).view(*x.shape[:-1], -1)


class Gpt2Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.c_attn, self.c_proj, self.heads = Conv1D(dim, 3 * dim), Conv1D(dim, dim), heads

    def forward(self, x, past):
        size, dim = x.shape[1:]
        q, k, v = (t.view(*t.shape[:2], self.heads, -1).transpose(1, 2) for t in self.c_attn(x).split(dim, dim=2))
        if past:
            k, v = torch.cat((past[0], k), dim=-2), torch.cat((past[1], v), dim=-2)
        past[:] = [k, v]
        w = torch.matmul(q, k.transpose(-1, -2)) / v.shape[-1] ** 0.5
        total = k.shape[-2]
        causal = torch.ones(total, total, dtype=torch.bool).tril()[total - size : total]
        w = torch.where(causal, w, torch.finfo(w.dtype).min).softmax(dim=-1)
        return self.c_proj(torch.matmul(w, v).transpose(1, 2).reshape(x.shape))


class Gpt2Mlp(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.c_fc, self.c_proj = Conv1D(dim, 4 * dim), Conv1D(4 * dim, dim)

    def forward(self, x):
        h = self.c_fc(x)
        return self.c_proj(0.5 * h * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (h + 0.044715 * torch.pow(h, 3.0)))))


class Gpt2Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.ln_1, self.attn, self.ln_2, self.mlp = nn.LayerNorm(dim), Gpt2Attention(dim, heads), nn.LayerNorm(dim), Gpt2Mlp(dim)

    def forward(self, x, past):
        x = x + self.attn(self.ln_1(x), past)
        return x + self.mlp(self.ln_2(x))


class Gpt2(nn.Module):
    def __init__(self, split=0):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(47, 24), nn.Embedding(20, 24)
        self.h, self.ln_f = nn.ModuleList(Gpt2Block(24, 4) for _ in range(2)), nn.LayerNorm(24)
        self.lm_head = nn.Linear(24, 47, bias=False)
        self.lm_head.weight = self.wte.weight
        self.split = split

    def read(self, ids, start, pasts):
        x = self.wte(ids) + self.wpe(torch.arange(start, start + ids.shape[1]))
        for block, past in zip(self.h, pasts, strict=True):
            x = block(x, past)
        return self.lm_head(self.ln_f(x))

    def forward(self, ids):
        pasts = [[] for _ in self.h]
        if self.split:
            self.read(ids[:, : self.split], 0, pasts)
        return self.read(ids[:, self.split :], self.split, pasts)


class LensBlock(nn.Module):
    """A layer of the port: W_Q [H, E, D] and the like, [B, T, H, D], dropout where GPT-2 has it."""

    def __init__(self, a, heads, fault):
        super().__init__()
        self.fault = fault
        heads = 2 * heads if fault == "head width" else heads
        dim = a.ln_1.weight.shape[0]
        q, k, v = (w.view(dim, heads, -1).transpose(0, 1) for w in a.attn.c_attn.weight.detach().split(dim, dim=1))
        self.W_Q, self.W_K, self.W_V = (nn.Parameter(w.clone()) for w in (q, k, v))
        self.b_Q, self.b_K, self.b_V = (nn.Parameter(b.view(heads, -1).clone()) for b in a.attn.c_attn.bias.detach().split(dim))
        self.W_O = nn.Parameter(a.attn.c_proj.weight.detach().view(heads, -1, dim).clone())
        self.b_O = nn.Parameter(a.attn.c_proj.bias.detach().clone())
        self.ln1, self.ln2 = (put(nn.LayerNorm(dim), weight=n.weight, bias=n.bias) for n in (a.ln_1, a.ln_2))
        if fault == "epsilon":
            self.ln2.eps = 1e-6
        up = a.mlp.c_fc.weight
        self.mlp_in = put(nn.Linear(dim, 4 * dim), weight=up.T, bias=a.mlp.c_fc.bias)
        self.mlp_out = put(nn.Linear(4 * dim, dim), weight=a.mlp.c_proj.weight.T, bias=a.mlp.c_proj.bias)
        self.drop = nn.Dropout(0.1)

    def mix(self, x, past):
        q, k, v = (
            torch.einsum("bte,hed->bthd", x, w) + b for w, b in ((self.W_Q, self.b_Q), (self.W_K, self.b_K), (self.W_V, self.b_V))
        )
        size = x.shape[1]
        if past:
            k, v = torch.cat([past[0], k], 1), torch.cat([past[1], v], 1)
        past[:] = [k, v]
        scores = torch.einsum("bqhd,bkhd->bhqk", q, k) / math.sqrt(q.shape[-1])
        shift = 0 if self.fault == "mask alignment" else k.shape[1] - size
        hidden = torch.triu(torch.ones(size, k.shape[1]), diagonal=1 + shift).bool()
        if self.fault == "soft-cap":
            scores = 4.0 * torch.tanh(scores / 4.0)
        pattern = scores.masked_fill(hidden, -1e9).softmax(dim=-1)
        z = torch.einsum("bhqk,bkhd->bqhd", pattern, v)
        out = torch.einsum("bqhd,hde->bqe", z, self.W_O)
        return self.drop(out if self.fault == "bias" else out + self.b_O)

    def forward(self, x, past):
        x = self.mix(self.ln1(x), past) + x
        h = self.mlp_in(self.ln2(x))
        return self.drop(self.mlp_out(F.gelu(h, approximate="none" if self.fault == "activation" else "tanh"))) + x


class Gpt2Port(nn.Module):
    def __init__(self, a, fault="", at=-1):
        super().__init__()
        self.fault, self.split, at = fault, a.split, at % len(a.h)
        self.W_E, self.W_pos = (nn.Parameter(e.weight.detach().clone()) for e in (a.wte, a.wpe))
        self.blocks = nn.ModuleList(LensBlock(old, 4, fault if i == at else "") for i, old in enumerate(a.h))
        self.ln_final = put(nn.LayerNorm(24), weight=a.ln_f.weight, bias=a.ln_f.bias)
        self.W_U = nn.Parameter(a.wte.weight.detach().T.clone())
        if fault == "tied head":  # a head of its own that no checkpoint filled
            self.W_U.data.normal_(0, 0.2)
        self.drop = nn.Dropout(0.1)

    def read(self, ids, start, pasts):
        first = start + (1 if self.fault == "position offset" else 0)
        x = self.drop(self.W_E[ids] + self.W_pos[first : first + ids.shape[1]])
        for block, past in zip(self.blocks, pasts, strict=True):
            x = block(x, past)
        return self.ln_final(x) @ self.W_U

    def forward(self, ids):
        pasts = [[] for _ in self.blocks]
        if self.split:
            self.read(ids[:, : self.split], 0, pasts)
        return self.read(ids[:, self.split :], self.split, pasts)
