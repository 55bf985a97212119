"""Decoders whose attention and MLP read the same norm: as GPT-J (partial rotary), Falcon (ALiBi, two norms) and Cohere 2 (window).

The port computes attention and MLP of a layer in one projection inward and one outward, as PaLM does, and rotates halves where the
model rotates neighbours.
"""

import math
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F

from .port import Port, copied

VOCABULARY, D, MLP = 29, 32, 48


@dataclass
class Config:
    """rotary: rotated columns of a head; rotates: for each layer; window, scale and cap: of attention, of the logits."""

    heads: int = 2
    groups: int = 2
    rotary: int = 8
    rotates: tuple = (True, True)
    windows: tuple = (0, 0)
    alibi: bool = False
    two_norms: bool = False
    packed: bool = False
    biases: bool = True
    tied: bool = False
    logit_scale: float = 1.0

    @property
    def width(self):
        return D // self.heads


def gelu_new(x):
    return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3.0)))


class Norm(nn.Module):
    """A layer norm with no bias, computed in float32, as Cohere's."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(D))

    def forward(self, x):
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        y = (wide - wide.mean(-1, keepdim=True)) * torch.rsqrt(wide.var(-1, keepdim=True, correction=0) + 1e-5)
        return (self.weight.to(wide.dtype) * y).to(x.dtype)


def slopes(heads):
    return torch.tensor([2 ** (-8 * (i + 1) / heads) for i in range(heads)])


class Attention(nn.Module):
    def __init__(self, c, i):
        super().__init__()
        self.c, self.i = c, i
        if c.packed:
            self.query_key_value = nn.Linear(D, (c.heads + 2 * c.groups) * c.width, bias=False)
        else:
            self.q_proj = nn.Linear(D, D, bias=False)
            self.k_proj, self.v_proj = (nn.Linear(D, c.groups * c.width, bias=False) for _ in "kv")
        self.out_proj = nn.Linear(D, D, bias=False)

    def parts(self, x):
        """Queries, keys and values [B, N, heads, width]; packed: for each group its queries, its key and its value."""
        c = self.c
        if not c.packed:
            return (m(x).unflatten(-1, (-1, c.width)) for m in (self.q_proj, self.k_proj, self.v_proj))
        grouped = self.query_key_value(x).unflatten(-1, (c.groups, c.heads // c.groups + 2, c.width))
        return grouped[..., :-2, :].flatten(2, 3), grouped[..., -2, :], grouped[..., -1, :]

    def rotate(self, x, at):
        r = self.c.rotary
        angle = at[:, None].to(x.dtype) / (10000 ** (torch.arange(0, r, 2, dtype=x.dtype) / r))
        sin, cos = angle.sin().repeat_interleave(2, -1)[:, None], angle.cos().repeat_interleave(2, -1)[:, None]
        front, rest = x[..., :r], x[..., r:]
        pairs = torch.stack((-front[..., 1::2], front[..., 0::2]), -1).flatten(-2)
        return torch.cat((front * cos + pairs * sin, rest), -1)

    def forward(self, x, mask):
        c, n = self.c, x.shape[1]
        q, k, v = self.parts(x)
        at = torch.arange(n)
        if c.rotates[self.i]:
            q, k = self.rotate(q, at), self.rotate(k, at)
        q, k, v = q.transpose(1, 2), *(t.transpose(1, 2).repeat_interleave(c.heads // c.groups, 1) for t in (k, v))
        scores = q @ k.mT
        if c.alibi:
            scores = scores + slopes(c.heads).to(x.dtype)[:, None, None] * at.to(x.dtype)
        distance = at[:, None] - at
        seen = (distance >= 0) & ((distance < c.windows[self.i]) if c.windows[self.i] else True)
        seen = seen if mask is None else seen & mask[:, None, None].bool()
        scores = torch.where(seen, scores / math.sqrt(c.width), torch.finfo(x.dtype).min)
        return self.out_proj((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


class MLPart(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.fc_in, self.fc_out = nn.Linear(D, MLP, bias=c.biases), nn.Linear(MLP, D, bias=c.biases)

    def forward(self, x):
        return self.fc_out(gelu_new(self.fc_in(x)))


class Layer(nn.Module):
    def __init__(self, c, i):
        super().__init__()
        self.ln_attn, self.ln_mlp = Norm() if not c.biases else nn.LayerNorm(D), nn.LayerNorm(D) if c.two_norms else None
        self.attn, self.mlp = Attention(c, i), MLPart(c)

    def forward(self, x, mask):
        y = self.ln_attn(x)
        return x + self.attn(y, mask) + self.mlp(y if self.ln_mlp is None else self.ln_mlp(x))


class Decoder(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c, self.wte, self.h = c, nn.Embedding(VOCABULARY, D), nn.ModuleList(Layer(c, i) for i in range(2))
        self.ln_f, self.lm_head = (
            Norm() if not c.biases else nn.LayerNorm(D),
            nn.Linear(D, VOCABULARY, bias=c.biases and not c.tied),
        )
        if c.tied:
            self.lm_head.weight = self.wte.weight

    def forward(self, ids, mask=None):
        x = self.wte(ids)
        for layer in self.h:
            x = layer(x, mask)
        return self.lm_head(self.ln_f(x)) * self.c.logit_scale


class Block(Port):
    """i: the number of the layer."""

    def __init__(self, a, c, i, fault, at):
        super().__init__(fault, at)
        self.c, self.i = c, i
        h, g, w = c.heads, c.groups, c.width
        if c.packed:
            rows = a.attn.query_key_value.weight.unflatten(0, (g, h // g + 2, w))
            q, k, v = rows[:, :-2].flatten(0, 1), rows[:, -2], rows[:, -1]
            if self.has("groups ignored", i):
                q, k, v = a.attn.query_key_value.weight.unflatten(0, (-1, w)).split([h, g, g])
        else:
            q, k, v = (m.weight.unflatten(0, (-1, w)) for m in (a.attn.q_proj, a.attn.k_proj, a.attn.v_proj))
        if c.rotates[i] and not self.has("not permuted", i):
            q, k = (torch.cat((t[:, 0 : c.rotary : 2], t[:, 1 : c.rotary : 2], t[:, c.rotary :]), 1) for t in (q, k))
        self.inward = copied(torch.cat((q.flatten(0, 1), k.flatten(0, 1), v.flatten(0, 1)), 0))
        out = a.attn.out_proj.weight
        self.outward = copied(torch.cat((out.T if self.has("output not transposed", i) else out, a.mlp.fc_out.weight), 1).T)
        self.up = copied(a.mlp.fc_in.weight)
        self.up_bias = copied(a.mlp.fc_in.bias) if c.biases else None
        self.down_bias = copied(a.mlp.fc_out.bias) if c.biases and not self.has("no bias outward", i) else None
        self.n1 = copied(a.ln_attn.weight)
        self.n1_bias = copied(a.ln_attn.bias) if c.biases else None
        self.n2, self.n2_bias = (copied(a.ln_mlp.weight), copied(a.ln_mlp.bias)) if c.two_norms else (None, None)

    def norm(self, x, weight, bias):
        eps = 1e-6 if self.has("epsilon", self.i) else 1e-5
        if bias is not None:
            return F.layer_norm(x, (D,), weight, bias, eps)
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        if self.has("rms", self.i):
            return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps) * weight).to(x.dtype)
        y = F.layer_norm(wide, (D,), eps=eps)
        return weight * y.to(x.dtype) if self.has("cast", self.i) else (y * weight).to(x.dtype)

    def rotate(self, x, at):
        c = self.c
        r = 4 if self.has("rotary width", self.i) else c.rotary
        base = 500000.0 if self.has("base", self.i) else 10000.0
        whole = c.width if self.has("frequencies of the whole head", self.i) else r
        rate = base ** (-torch.arange(0, r, 2, dtype=x.dtype) / whole)
        rate = rate / 4 if self.has("interpolated", self.i) else rate
        angle = torch.outer(at.to(x.dtype), rate)
        sin, cos = angle.sin()[:, None], angle.cos()[:, None]
        sin = -sin if self.has("backwards", self.i) else sin
        left, right, rest = x.split([r // 2, r // 2, c.width - r], -1)
        return torch.cat((left * cos - right * sin, right * cos + left * sin, rest), -1)

    def attend(self, q, k, v, mask):
        c, i, n = self.c, self.i, q.shape[1]
        q, k, v = (t.unflatten(-1, (-1, c.width)) for t in (q, k, v))
        at = torch.arange(n)
        if c.rotates[i] or self.has("rotary everywhere"):
            q, k = self.rotate(q, at), self.rotate(k, at + (1 if self.has("keys one on", i) else 0))
        share = c.heads // c.groups
        if self.has("tiled", i):
            k, v = k.repeat(1, 1, share, 1), v.repeat(1, 1, share, 1)
        else:
            k, v = (t[:, :, :, None].expand(-1, -1, -1, share, -1).flatten(2, 3) for t in (k, v))
        window = c.windows[i] + (self.has("window plus one", i) if c.windows[i] else 0)
        window = 0 if self.has("no window", i) else window
        seen = torch.ones(n, n, dtype=torch.bool).tril()
        if window:
            seen = seen & ~torch.ones(n, n, dtype=torch.bool).tril(-window)
        if mask is not None and not self.has("padding seen"):
            real = mask.flip(1) if self.has("padding at the end") else mask
            seen = seen & (real != 0)[:, None, None]
        bias = torch.zeros(seen.shape, dtype=q.dtype).masked_fill(~seen, torch.finfo(q.dtype).min)
        if c.alibi:
            s = slopes(c.heads).flip(0) if self.has("slopes backwards", i) else slopes(c.heads)
            s = s.to(q.dtype)[:, None, None] / (1 if self.has("alibi not scaled", i) else math.sqrt(c.width))
            bias = bias - s * (at[:, None] - at).to(q.dtype)
        scale = {"width of the model": D**-0.5, "not scaled": 1.0}.get(self.fault if self.layer in (-1, i) else "", c.width**-0.5)
        if self.has("capped", i) or self.has("softmax plus one", i):
            scores = torch.einsum("bihd,bjhd->bhij", q, k) * scale
            scores = (4 * torch.tanh(scores / 4) if self.has("capped", i) else scores) + bias
            scores = F.pad(scores, (1, 0)) if self.has("softmax plus one", i) else scores
            return torch.einsum("bhij,bjhd->bihd", scores.softmax(-1)[..., -n:], v).flatten(2)
        q, k, v = (t.transpose(1, 2) for t in (q, k, v))
        return F.scaled_dot_product_attention(q, k, v, attn_mask=bias, scale=scale).transpose(1, 2).flatten(2)

    def forward(self, x, mask):
        c, i = self.c, self.i
        y = self.norm(x, self.n1, self.n1_bias)
        z = y if self.n2 is None else self.norm(x, self.n2, self.n2_bias)
        if self.has("one norm for both", i):
            z = y
        qkv = F.linear(y, self.inward)
        attended = self.attend(*qkv.split([D, c.groups * c.width, c.groups * c.width], -1), mask)
        if self.has("sequential", i):
            between = x + attended @ self.outward[:D]
            up = F.linear(self.norm(between, self.n1, self.n1_bias), self.up, self.up_bias)
            return between + F.gelu(up, approximate="tanh") @ self.outward[D:] + (0 if self.down_bias is None else self.down_bias)
        up = F.gelu(F.linear(z, self.up, self.up_bias), approximate="none" if self.has("exact gelu", i) else "tanh")
        y = torch.cat((attended, up), -1) @ self.outward
        y = y if self.down_bias is None else y + self.down_bias
        return (
            y
            if self.has("no residual", i)
            else y + (self.norm(x, self.n1, self.n1_bias) if self.has("residual of the norm", i) else x)
        )


class Ported(Port):
    def __init__(self, a, fault="", layer=-1):
        super().__init__(fault, layer)
        self.c = a.c
        self.embed = copied(a.wte.weight)
        sources = [a.h[0], a.h[0] if fault == "first layer twice" else a.h[1]]
        self.blocks = nn.ModuleList(Block(m, a.c, i, fault, layer) for i, m in enumerate(sources))
        self.gain = copied(a.ln_f.weight)
        self.offset = copied(a.ln_f.bias) if a.c.biases else None
        head = a.lm_head.weight.roll(1, 0) if fault == "head one on" else a.lm_head.weight
        self.unembed = copied(a.wte.weight if fault == "tied" else head)
        self.unembed_bias = None if a.lm_head.bias is None or fault == "no bias of the head" else copied(a.lm_head.bias)

    def forward(self, ids, mask=None):
        x = F.embedding(ids, self.embed)
        x = x * math.sqrt(D) if self.has("embedding scaled") else x
        for block in self.blocks:
            x = block(x, mask)
        x = self.blocks[0].norm(x, self.gain, self.offset) if not self.has("no last norm") else x
        x = x if self.has("logits not scaled") else x * self.c.logit_scale
        logits = F.linear(x, self.unembed, self.unembed_bias)
        return 5 * torch.tanh(logits / 5) if self.has("logits capped") else logits


def tokens():
    return (torch.randint(0, VOCABULARY, (2, 9)),)


def left_padded():
    mask = torch.ones(2, 9, dtype=torch.long)
    mask[1, :3] = 0
    return *tokens(), mask
