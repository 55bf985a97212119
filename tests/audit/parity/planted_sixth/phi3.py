"""A decoder with fused projections, heads rotated in part, and windows, as transformers writes Phi-4-mini, and a port.

The port separates the fused matrices and stores them as [in, out], rotates the two halves apart, and computes the groups by einsum.
Source: `modeling_phi3.py` of transformers; Ding et al. 2024, "LongRoPE", for the two lists of factors.
"""

import math

import torch
from torch import nn
from torch.nn import functional as F

from ..planted_five_a.copies import kept
from ..planted_five_a.gemma3 import rotate_half

D, HEADS, GROUPS, WIDTH, TURNED, HIDDEN, WORDS, WINDOW = 24, 4, 2, 8, 6, 40, 31, 4
SHORT, LONG, SEEN_IN_TRAINING, LONGEST = (1.0, 1.0, 1.0), (1.1, 1.5, 4.0), 16, 64


def inputs():
    torch.manual_seed(3)
    return (torch.randint(WORDS, (2, 11)),)


class Phi3RotaryEmbedding(nn.Module):
    def forward(self, x):
        factors = torch.tensor(LONG if x.shape[1] > SEEN_IN_TRAINING else SHORT, dtype=x.dtype)
        inv_freq = 1.0 / (factors * 10000.0 ** (torch.arange(0, TURNED, 2, dtype=x.dtype) / TURNED))
        emb = torch.outer(torch.arange(x.shape[1], dtype=x.dtype), inv_freq).tile(2)
        scaling = math.sqrt(1 + math.log(LONGEST / SEEN_IN_TRAINING) / math.log(SEEN_IN_TRAINING))
        return emb.cos() * scaling, emb.sin() * scaling


class Phi3Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv_proj = nn.Linear(D, (HEADS + 2 * GROUPS) * WIDTH, bias=False)
        self.o_proj = nn.Linear(HEADS * WIDTH, D, bias=False)

    def forward(self, x, cos, sin, mask):
        b, t, _ = x.shape
        q, k, v = self.qkv_proj(x).view(b, t, -1, WIDTH).transpose(1, 2).split([HEADS, GROUPS, GROUPS], 1)
        q, k = (torch.cat((y[..., :TURNED] * cos + rotate_half(y[..., :TURNED]) * sin, y[..., TURNED:]), dim=-1) for y in (q, k))
        k, v = (y[:, :, None].expand(b, GROUPS, HEADS // GROUPS, t, WIDTH).reshape(b, HEADS, t, WIDTH) for y in (k, v))
        weights = F.softmax(torch.matmul(q, k.transpose(2, 3)) * WIDTH**-0.5 + mask, dim=-1)
        return self.o_proj(torch.matmul(weights, v).transpose(1, 2).reshape(b, t, -1))


class Phi3DecoderLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.self_attn, self.input_layernorm, self.post_attention_layernorm = Phi3Attention(), *(nn.RMSNorm(D, 1e-5) for _ in "12")
        self.gate_up_proj, self.down_proj = nn.Linear(D, 2 * HIDDEN, bias=False), nn.Linear(HIDDEN, D, bias=False)

    def forward(self, x, cos, sin, mask):
        x = x + self.self_attn(self.input_layernorm(x), cos, sin, mask)
        gate, up = self.gate_up_proj(self.post_attention_layernorm(x)).chunk(2, dim=-1)
        return x + self.down_proj(up * F.silu(gate))


class Phi3(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed_tokens, self.rotary_emb = nn.Embedding(WORDS, D), Phi3RotaryEmbedding()
        self.layers = nn.ModuleList(Phi3DecoderLayer() for _ in range(2))
        self.norm, self.lm_head = nn.RMSNorm(D, 1e-5), nn.Linear(D, WORDS, bias=False)

    def forward(self, input_ids):
        x, at = self.embed_tokens(input_ids), torch.arange(input_ids.shape[1])
        hidden = (at[None] > at[:, None]) | (at[None] <= at[:, None] - WINDOW)
        mask = torch.zeros(hidden.shape, dtype=x.dtype).masked_fill(hidden, torch.finfo(x.dtype).min)
        cos, sin = self.rotary_emb(x)
        for layer in self.layers:
            x = layer(x, cos, sin, mask)
        return self.lm_head(self.norm(x))


class Rms(nn.Module):
    def __init__(self, norm, eps=1e-5):
        super().__init__()
        self.gain, self.eps = kept(norm.weight), eps

    def forward(self, x):
        return x / torch.sqrt(torch.mean(x * x, -1, keepdim=True) + self.eps) * self.gain


class Heads(nn.Module):
    def __init__(self, attn, fault):
        super().__init__()
        self.fault, self.per = fault, HEADS // GROUPS
        w = attn.qkv_proj.weight.view(-1, WIDTH, D)
        if fault == "matrix by groups":  # the queries of a group, its key and its value, as in InternLM2
            q, k, v = (y.flatten(0, 1) for y in w.view(GROUPS, self.per + 2, WIDTH, D).split([self.per, 1, 1], 1))
        else:
            q, k, v = w.split([HEADS, GROUPS, GROUPS])
        self.wq, self.wk, self.wv, self.wo = (kept(y.T) for y in (*(y.reshape(-1, D) for y in (q, k, v)), attn.o_proj.weight))
        self.scale = (TURNED if fault == "scaled by the rotated width" else WIDTH) ** -0.5

    def turned(self, x, cos, sin):
        n, last = 2 * cos.shape[-1], self.fault == "end of the head rotated"
        x, rest = (x[..., WIDTH - n :], x[..., : WIDTH - n]) if last else (x[..., :n], x[..., n:])
        (a, b), cos, sin = x.chunk(2, -1), cos[:, None], sin[:, None]
        parts = a * cos - b * sin, a * sin + b * cos
        return torch.cat([rest, *parts] if last else [*parts, rest], -1)

    def forward(self, x, cos, sin, seen):
        q, k, v = ((x @ w).unflatten(-1, (-1, WIDTH)) for w in (self.wq, self.wk, self.wv))
        q, k = self.turned(q, cos, sin), self.turned(k, cos, sin)
        tiled = self.fault == "keys tiled"
        q = q.unflatten(2, (self.per, GROUPS)).transpose(2, 3) if tiled else q.unflatten(2, (GROUPS, self.per))
        p = torch.einsum("bigpw,bjgw->bgpij", q, k).mul(self.scale).masked_fill(~seen, -torch.inf).softmax(-1)
        y = torch.einsum("bgpij,bjgw->bigpw", p, v)
        return (y.transpose(2, 3) if tiled else y).flatten(2) @ self.wo


class Block(nn.Module):
    def __init__(self, layer, fault):
        super().__init__()
        self.n1, self.n2 = Rms(layer.input_layernorm), Rms(layer.post_attention_layernorm)
        self.heads = Heads(layer.self_attn, fault)
        gate, up = (y.T for y in layer.gate_up_proj.weight.chunk(2))
        if fault == "gain of the norm in the matrices":
            gate, up, self.n2.gain = gate * self.n2.gain[:, None], up * self.n2.gain[:, None], kept(torch.ones(D))
        self.gate, self.up, self.down = kept(gate), kept(up), kept(layer.down_proj.weight.T)

    def forward(self, x, cos, sin, seen):
        x = x + self.heads(self.n1(x), cos, sin, seen)
        y = self.n2(x)
        gate = y @ self.gate
        return x + (gate * gate.sigmoid() * (y @ self.up)) @ self.down


class Port(nn.Module):
    def __init__(self, a, fault="", layer=-1):
        super().__init__()
        self.fault, self.layer, self.table, self.head = fault, layer, kept(a.embed_tokens.weight), kept(a.lm_head.weight.T)
        self.blocks = nn.ModuleList(Block(x, fault if layer in (-1, i) else "") for i, x in enumerate(a.layers))
        self.last = Rms(a.norm, 1e-6 if fault == "epsilon of the last norm" else 1e-5)

    def forward(self, ids):
        x, t = self.table[ids], ids.shape[1]
        width = WIDTH if self.fault == "whole head rotated" else TURNED
        rates = 10000.0 ** (-torch.arange(0, width, 2, dtype=x.dtype) / width)
        rates = rates / torch.tensor(LONG, dtype=x.dtype) if self.fault == "long factors" else rates
        angles = torch.arange(t, dtype=x.dtype)[:, None] * rates
        factor = 1.0 if self.fault == "no factor of the attention" else (1 + math.log(4, 16)) ** 0.5
        back = torch.arange(t)[:, None] - torch.arange(t)
        near = (back >= 0) & (back < WINDOW + (self.fault == "window plus one"))
        for i, block in enumerate(self.blocks):
            seen = back >= 0 if self.fault == "no window" and i == self.layer else near
            x = block(x, angles.cos() * factor, angles.sin() * factor, seen)
        return self.last(x) @ self.head
