"""Two hand-written families of models, each in two forms with other names, layouts and functions that hold the same weights.

A form takes one planted difference. `GatedA` and `GatedB` are decoders with rotary embeddings, RMSNorm, grouped queries and a gated
feed-forward; `PlainA` and `PlainB` have learned positions, LayerNorm, biases and a tied head.
"""

import math
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import nn

WIDTH, HEADS, KV, LAYERS, VOCABULARY, TOKENS = 32, 4, 2, 2, 29, 11
K = WIDTH // HEADS


@dataclass(frozen=True)
class Options:
    """What a model does; each field is a planted difference when it is changed."""

    base: float = 10_000.0
    divided: float = 1.0
    layout: str = "half"
    rotated: int = K
    start: int = 0
    order: str = "neighbours"
    heads: int = HEADS
    scale: float = K**-0.5
    eps: float = 1e-6
    norm: str = "own"
    one_plus: bool = False
    placement: str = "pre"
    cap: float = 0.0
    output_cap: float = 0.0
    window: int = 0
    causal: bool = True
    tied: bool = True
    bias: bool = True
    activation: str = "own"
    embedding: float = 1.0
    offset: int = 0
    padding: str = "none"
    dropout: float = 0.0
    residual: bool = True
    backwards: bool = False
    norm_bias: bool = True
    transposed: bool = False
    axis: int = -1


def visible(o, n):
    i, j = torch.arange(n)[:, None], torch.arange(n)[None]
    mask = (j <= i) if o.causal else torch.ones(n, n, dtype=torch.bool)
    if o.window:
        mask = mask & (i - j < o.window)
    if o.padding != "none":
        mask = mask & ((j < n - 3) if o.padding == "right" else (j >= 3))
    return mask


ACTIVATIONS = {
    "silu": F.silu, "gelu": F.gelu, "relu": F.relu, "tanh gelu": lambda x: F.gelu(x, approximate="tanh"),
    "quick": lambda x: x * torch.sigmoid(1.702 * x), "relu2": lambda x: F.relu(x) ** 2,
}  # fmt: skip


# ------------------------------------------------------------------------------------------------------------------- gated


class NormA(nn.Module):
    """Written out: the mean of squares, then the weight."""

    def __init__(self, o):
        super().__init__()
        self.gain, self.o = nn.Parameter(1 + 0.3 * torch.randn(WIDTH)), o

    def forward(self, x):
        if self.o.norm == "other":
            x = x - x.mean(-1, keepdim=True)
        y = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.o.eps)
        return (1 + self.gain if self.o.one_plus else self.gain) * y


class NormB(nn.Module):
    """With torch's function."""

    def __init__(self, o):
        super().__init__()
        self.weight, self.o = nn.Parameter(torch.empty(WIDTH)), o

    def forward(self, x):
        weight = 1 + self.weight if self.o.one_plus else self.weight
        if self.o.norm == "other":
            return F.layer_norm(x, (WIDTH,), weight, None, self.o.eps)
        return F.rms_norm(x, (WIDTH,), weight, self.o.eps)


def frequencies(o):
    return o.base ** (-torch.arange(0, o.rotated, 2) / o.rotated) / o.divided * (-1 if o.backwards else 1)


def rotate_a(x, o):
    """[B, H, N, K] with cos and sin tables and halves, as transformers does."""
    angles = torch.outer(torch.arange(x.shape[-2], dtype=x.dtype) + o.start, frequencies(o).to(x.dtype))
    part, rest = x[..., : o.rotated], x[..., o.rotated :]
    if o.layout == "half":
        cos, sin = torch.cat([angles, angles], -1).cos(), torch.cat([angles, angles], -1).sin()
        a, b = part.chunk(2, -1)
        part = part * cos + torch.cat([-b, a], -1) * sin
    else:
        cos, sin = angles.cos().repeat_interleave(2, -1), angles.sin().repeat_interleave(2, -1)
        swapped = torch.stack([-part[..., 1::2], part[..., ::2]], -1).flatten(-2)
        part = part * cos + swapped * sin
    return torch.cat([part, rest], -1)


def rotate_b(x, o):
    """[B, N, H, K] with complex numbers, as Meta's Llama does; `half` brings the halves together first."""
    angles = torch.outer(torch.arange(x.shape[1], dtype=x.dtype) + o.start, frequencies(o).to(x.dtype))
    phase = torch.polar(torch.ones_like(angles), angles)[:, None]
    part, rest = x[..., : o.rotated], x[..., o.rotated :]
    if o.layout == "half":
        a, b = part.chunk(2, -1)
        part = torch.stack([a, b], -1).flatten(-2)
    y = torch.view_as_real(torch.view_as_complex(part.unflatten(-1, (-1, 2)).contiguous()) * phase).flatten(-2)
    if o.layout == "half":
        y = torch.cat([y[..., ::2], y[..., 1::2]], -1)
    return torch.cat([y, rest], -1)


class GatedLayerA(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.o = o
        self.q_proj, self.o_proj = nn.Linear(WIDTH, WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)
        self.k_proj, self.v_proj = nn.Linear(WIDTH, KV * K, bias=False), nn.Linear(WIDTH, KV * K, bias=False)
        self.gate_proj, self.up_proj = nn.Linear(WIDTH, 48, bias=False), nn.Linear(WIDTH, 48, bias=False)
        self.down_proj = nn.Linear(48, WIDTH, bias=False)
        self.input_norm, self.post_norm = NormA(o), NormA(o)

    def attend(self, x):
        o, (b, n, _) = self.o, x.shape
        q = self.q_proj(x).view(b, n, HEADS, K).transpose(1, 2)
        k, v = (p(x).view(b, n, KV, K).transpose(1, 2) for p in (self.k_proj, self.v_proj))
        q, k = rotate_a(q, o), rotate_a(k, replace(o, start=0))
        if o.order == "neighbours":
            k, v = (t.repeat_interleave(HEADS // KV, 1) for t in (k, v))
        else:
            k, v = (t.repeat(1, HEADS // KV, 1, 1) for t in (k, v))
        scores = torch.matmul(q, k.transpose(2, 3)) * o.scale
        if o.cap:
            scores = o.cap * torch.tanh(scores / o.cap)
        scores = scores + torch.where(visible(o, n), 0.0, torch.finfo(x.dtype).min)
        weights = F.dropout(F.softmax(scores, o.axis), o.dropout, self.training)
        return self.o_proj(torch.matmul(weights, v).transpose(1, 2).reshape(b, n, WIDTH))

    def forward(self, x):
        o = self.o
        if o.placement == "pre":
            x = x + self.attend(self.input_norm(x))
        elif o.placement == "none":
            x = x + self.attend(x)
        else:
            x = self.input_norm(x + self.attend(x))
        h = self.post_norm(x)
        f = self.down_proj(ACTIVATIONS["silu" if o.activation == "own" else o.activation](self.gate_proj(h)) * self.up_proj(h))
        return x + f if o.residual else f


class GatedA(nn.Module):
    def __init__(self, o=Options()):
        super().__init__()
        self.o = o
        self.embed_tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList(GatedLayerA(o) for _ in range(LAYERS))
        self.norm, self.lm_head = NormA(o), nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, ids):
        x = self.embed_tokens(ids) * self.o.embedding
        for layer in self.layers:
            x = layer(x)
        x = self.norm(x)
        logits = F.linear(x, self.embed_tokens.weight) if not self.o.tied else self.lm_head(x)
        return self.o.output_cap * torch.tanh(logits / self.o.output_cap) if self.o.output_cap else logits


class GatedLayerB(nn.Module):
    """One fused projection with the rotary pairs side by side, SDPA, one fused gate and up."""

    def __init__(self, o):
        super().__init__()
        self.o = o
        self.wqkv, self.wo = nn.Linear(WIDTH, WIDTH + 2 * KV * K, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)
        self.w13, self.w2 = nn.Linear(WIDTH, 96, bias=False), nn.Linear(48, WIDTH, bias=False)
        self.attention_norm, self.ffn_norm = NormB(o), NormB(o)

    def mix(self, x):
        o, (b, n, _) = self.o, x.shape
        q, k, v = self.wqkv(x).split([WIDTH, KV * K, KV * K], -1)
        q, k = rotate_b(q.view(b, n, HEADS, K), o), rotate_b(k.view(b, n, KV, K), replace(o, start=0))
        q, k, v = (t.transpose(1, 2) for t in (q, k, v.view(b, n, KV, K)))
        if o.order != "neighbours":
            k, v = (t.repeat(1, HEADS // KV, 1, 1) for t in (k, v))
        if o.cap or o.axis != -1:
            k, v = (t.repeat_interleave(HEADS // t.shape[1], 1) for t in (k, v))
            s = torch.einsum("bhnk,bhmk->bhnm", q * o.scale, k)
            s = o.cap * torch.tanh(s / o.cap) if o.cap else s
            y = torch.softmax(s.masked_fill(~visible(o, n), -torch.inf), o.axis) @ v
        else:
            dropout = o.dropout if self.training else 0.0
            y = F.scaled_dot_product_attention(q, k, v, visible(o, n), dropout, scale=o.scale, enable_gqa=True)
        return self.wo(y.transpose(1, 2).flatten(2))

    def forward(self, x):
        o = self.o
        if o.placement == "pre":
            x = x + self.mix(self.attention_norm(x))
        elif o.placement == "none":
            x = x + self.mix(x)
        else:
            x = self.attention_norm(x + self.mix(x))
        gate, up = self.w13(self.ffn_norm(x)).chunk(2, -1)
        f = self.w2(ACTIVATIONS["silu" if o.activation == "own" else o.activation](gate) * up)
        return x + f if o.residual else f


class GatedB(nn.Module):
    def __init__(self, o=Options()):
        super().__init__()
        self.o = o
        self.tok = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.ModuleList(GatedLayerB(o) for _ in range(LAYERS))
        self.final, self.output = NormB(o), nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, ids):
        x = self.tok(ids)
        x = x * self.o.embedding if self.o.embedding != 1 else x
        for block in self.blocks:
            x = block(x)
        x = self.final(x)
        logits = x @ self.tok.weight.T if not self.o.tied else self.output(x)
        return self.o.output_cap * torch.tanh(logits / self.o.output_cap) if self.o.output_cap else logits


def interleaved(weight):
    """Rows of a projection with halves as rows with pairs side by side."""
    heads = weight.unflatten(0, (-1, K))
    return torch.stack([heads[:, : K // 2], heads[:, K // 2 :]], 2).flatten(0, 2)


@torch.no_grad()
def gated_b(a, o=None, permuted=False):
    """B with A's weights. permuted: rotary pairs lie side by side in B, and its weights are permuted to fit."""
    o = a.o if o is None else o
    b = GatedB(replace(o, layout="interleaved") if permuted else o)
    bring = interleaved if permuted else lambda w: w
    b.tok.weight.copy_(a.embed_tokens.weight)
    b.output.weight.copy_(a.lm_head.weight)
    b.final.weight.copy_(a.norm.gain)
    for x, y in zip(a.layers, b.blocks, strict=True):
        y.wqkv.weight.copy_(torch.cat([bring(x.q_proj.weight), bring(x.k_proj.weight), x.v_proj.weight]))
        y.wo.weight.copy_(x.o_proj.weight)
        y.w13.weight.copy_(torch.cat([x.gate_proj.weight, x.up_proj.weight]))
        y.w2.weight.copy_(x.down_proj.weight)
        y.attention_norm.weight.copy_(x.input_norm.gain)
        y.ffn_norm.weight.copy_(x.post_norm.gain)
    return b.eval()


# ------------------------------------------------------------------------------------------------------------------- plain


class PlainLayerA(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.o = o
        self.query, self.key, self.value, self.dense = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.ln_1, self.ln_2 = nn.LayerNorm(WIDTH, eps=o.eps), nn.LayerNorm(WIDTH, eps=o.eps)
        self.fc_in, self.fc_out, self.drop = nn.Linear(WIDTH, 64), nn.Linear(64, WIDTH), nn.Dropout(o.dropout)

    def attend(self, x):
        o, n = self.o, x.shape[1]
        q, k, v = (p(x).unflatten(-1, (o.heads, -1)).transpose(1, 2) for p in (self.query, self.key, self.value))
        scores = q @ k.mT / (1 / (o.scale if o.heads == HEADS else (WIDTH // o.heads) ** -0.5))
        scores = o.cap * torch.tanh(scores / o.cap) if o.cap else scores
        weights = scores.masked_fill(visible(o, n).logical_not(), -torch.inf).softmax(o.axis)
        joined = (self.drop(weights) @ v).transpose(1, 2).flatten(2)
        return F.linear(joined, self.dense.weight, self.dense.bias if o.bias else None)

    def forward(self, x):
        o = self.o
        act = ACTIVATIONS["tanh gelu" if o.activation == "own" else o.activation]
        if o.placement == "post":
            x = self.ln_1(x + self.attend(x))
            return self.ln_2(x + self.fc_out(act(self.fc_in(x))))
        x = x + self.attend(self.ln_1(x) if o.placement == "pre" else x)
        f = self.fc_out(act(self.fc_in(self.ln_2(x))))
        return x + f if o.residual else f


class PlainA(nn.Module):
    def __init__(self, o=Options(eps=1e-5)):
        super().__init__()
        self.o = o
        self.tokens, self.places = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(64, WIDTH)
        self.h, self.ln_f = nn.ModuleList(PlainLayerA(o) for _ in range(LAYERS)), nn.LayerNorm(WIDTH, eps=o.eps)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        for p in self.parameters():
            if p.ndim == 1:
                nn.init.normal_(p, float(p.mean() > 0.5), 0.2)

    def forward(self, ids):
        x = self.tokens(ids) * self.o.embedding + self.places(torch.arange(ids.shape[1]) + self.o.offset)
        for layer in self.h:
            x = layer(x)
        x = self.ln_f(x)
        logits = F.linear(x, self.tokens.weight) if self.o.tied else self.head(x)
        return self.o.output_cap * torch.tanh(logits / self.o.output_cap) if self.o.output_cap else logits


class Conv1D(nn.Module):
    """A linear map whose weight is [in, out], as in GPT-2."""

    def __init__(self, n, m):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.empty(n, m)), nn.Parameter(torch.empty(m))

    def forward(self, x):
        return torch.addmm(self.bias, x.reshape(-1, x.shape[-1]), self.weight).view(*x.shape[:-1], -1)


class WrittenNorm(nn.Module):
    """LayerNorm written out."""

    def __init__(self, o):
        super().__init__()
        self.g, self.b, self.o = nn.Parameter(torch.empty(WIDTH)), nn.Parameter(torch.empty(WIDTH)), o

    def forward(self, x):
        if self.o.norm == "other":
            y = x * torch.rsqrt((x * x).mean(-1, keepdim=True) + self.o.eps)
        elif self.o.norm == "unbiased":
            y = (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + self.o.eps)
        else:
            mean = x.mean(-1, keepdim=True)
            y = (x - mean) / torch.sqrt(((x - mean) ** 2).mean(-1, keepdim=True) + self.o.eps)
        return y * self.g + self.b if self.o.norm_bias else y * self.g


class PlainLayerB(nn.Module):
    """One fused projection [in, out], heads in another order, SDPA, gelu written out."""

    def __init__(self, o):
        super().__init__()
        self.o = o
        self.c_attn, self.c_proj = Conv1D(WIDTH, 3 * WIDTH), Conv1D(WIDTH, WIDTH)
        self.norm_a, self.norm_b = WrittenNorm(o), WrittenNorm(o)
        self.c_fc, self.c_out = Conv1D(WIDTH, 64), Conv1D(64, WIDTH)

    def attend(self, x):
        o, n = self.o, x.shape[1]
        q, k, v = (t.unflatten(-1, (o.heads, -1)).transpose(1, 2) for t in self.c_attn(x).chunk(3, -1))
        if o.cap or o.axis != -1:
            s = torch.einsum("bhnk,bhmk->bhnm", q * o.scale, k)
            s = o.cap * torch.tanh(s / o.cap) if o.cap else s
            y = s.masked_fill(~visible(o, n), -torch.inf).softmax(o.axis) @ v
        else:
            scale = o.scale if o.heads == HEADS else (WIDTH // o.heads) ** -0.5
            y = F.scaled_dot_product_attention(q, k, v, visible(o, n), o.dropout if self.training else 0.0, scale=scale)
        y = y.transpose(1, 2).flatten(2)
        if o.transposed:
            return y @ self.c_proj.weight.T + self.c_proj.bias
        return self.c_proj(y) if o.bias else y @ self.c_proj.weight

    def activate(self, x):
        if self.o.activation != "own":
            return ACTIVATIONS[self.o.activation](x)
        return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))

    def forward(self, x):
        o = self.o
        if o.placement == "post":
            x = self.norm_a(x + self.attend(x))
            return self.norm_b(x + self.c_out(self.activate(self.c_fc(x))))
        x = x + self.attend(self.norm_a(x) if o.placement == "pre" else x)
        f = self.c_out(self.activate(self.c_fc(self.norm_b(x))))
        return x + f if o.residual else f


class PlainB(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.o = o
        self.wte, self.wpe = nn.Embedding(VOCABULARY, WIDTH), nn.Parameter(torch.empty(64, WIDTH))
        self.blocks, self.norm_f = nn.ModuleList(PlainLayerB(o) for _ in range(LAYERS)), WrittenNorm(o)
        self.unembed = nn.Parameter(torch.empty(VOCABULARY, WIDTH))

    def forward(self, ids):
        x = self.wte(ids)
        x = x * self.o.embedding if self.o.embedding != 1 else x
        x = x + self.wpe[self.o.offset : self.o.offset + ids.shape[1]]
        for block in self.blocks:
            x = block(x)
        x = self.norm_f(x)
        logits = x @ (self.wte.weight if self.o.tied else self.unembed).T
        return self.o.output_cap * torch.tanh(logits / self.o.output_cap) if self.o.output_cap else logits


@torch.no_grad()
def plain_b(a, o=None, permuted=False):
    """B with A's weights. permuted: B computes the heads in another order."""
    o = a.o if o is None else o
    b, order = PlainB(o), [2, 0, 3, 1] if permuted else [0, 1, 2, 3]
    rows = torch.arange(WIDTH).unflatten(0, (HEADS, K))[order].flatten()
    b.wte.weight.copy_(a.tokens.weight)
    b.wpe.copy_(a.places.weight)
    b.unembed.copy_(a.head.weight)
    b.norm_f.g.copy_(a.ln_f.weight)
    b.norm_f.b.copy_(a.ln_f.bias)
    for x, y in zip(a.h, b.blocks, strict=True):
        y.c_attn.weight.copy_(torch.cat([p.weight[rows].T for p in (x.query, x.key, x.value)], 1))
        y.c_attn.bias.copy_(torch.cat([p.bias[rows] for p in (x.query, x.key, x.value)]))
        y.c_proj.weight.copy_(x.dense.weight.T[rows])
        y.c_proj.bias.copy_(x.dense.bias)
        for ours, theirs in ((x.fc_in, y.c_fc), (x.fc_out, y.c_out)):
            theirs.weight.copy_(ours.weight.T)
            theirs.bias.copy_(ours.bias)
        for ours, theirs in ((x.ln_1, y.norm_a), (x.ln_2, y.norm_b)):
            theirs.g.copy_(ours.weight)
            theirs.b.copy_(ours.bias)
    return b.eval()


def ids(seed=0):
    return torch.randint(VOCABULARY, (1, TOKENS), generator=torch.Generator().manual_seed(seed))


def made(family, options=None, **changed):
    """A of a family with the seed 0."""
    torch.manual_seed(0)
    options = replace(Options(eps=1e-5) if family is PlainA else Options(), **changed) if options is None else options
    return family(options).eval()
