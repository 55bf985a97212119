"""Decoders with grouped queries and rotary embeddings: A as transformers writes them, B as ports to JAX and C++ do.

B has one matrix [in, out] for queries, keys and values, rotates neighbouring pairs (its weights are permuted as in Meta's
checkpoints), does not repeat keys and values, and stores Gemma's norm weights with the one added.
"""

import math
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F

D, HEADS, KV, HEAD, FFN, VOCAB = 32, 4, 2, 16, 48, 61


@dataclass(frozen=True)
class Config:
    """What the checkpoints differ in; the defaults are those of Qwen2."""

    base: float = 10000.0
    llama3: bool = False  # frequencies scaled as in Llama 3.1
    rotary: int = HEAD  # width of the rotated part of a head
    window: int = 0  # of the even layers
    cap: float = 0.0
    final_cap: float = 0.0
    gemma: bool = False
    qk_norm: bool = False
    sinks: bool = False
    layers: int = 2


def frequencies(width, base, llama3):
    """Angles per position [width / 2], in float64."""
    f = base ** -(torch.arange(0, width, 2, dtype=torch.float64) / width)
    if llama3:
        length, factor, low, high = 64, 8.0, 1.0, 4.0
        smooth = ((length * f / (2 * math.pi) - low) / (high - low)).clamp(0, 1)
        f = (1 - smooth) * f / factor + smooth * f
    return f


def at_least_float32(x):
    return x.to(torch.promote_types(x.dtype, torch.float32))


class RMSNorm(nn.Module):
    def __init__(self, dim, plus_one=False):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(dim))
        self.plus_one = plus_one

    def forward(self, x):
        y = at_least_float32(x)
        y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-6)
        return (1.0 + self.weight) * y.to(x.dtype) if self.plus_one else self.weight * y.to(x.dtype)


class RotaryEmbedding(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.register_buffer("inv_freq", frequencies(o.rotary, o.base, o.llama3), persistent=False)

    def forward(self, x):
        angles = torch.arange(x.shape[1], device=x.device)[:, None] * self.inv_freq
        angles = torch.cat((angles, angles), -1)
        return angles.cos().to(x.dtype), angles.sin().to(x.dtype)


def rotate_half(x):
    a, b = x.chunk(2, -1)
    return torch.cat((-b, a), -1)


class Attention(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.o = o
        self.q_proj = nn.Linear(D, HEADS * HEAD)
        self.k_proj, self.v_proj = nn.Linear(D, KV * HEAD), nn.Linear(D, KV * HEAD)
        self.o_proj = nn.Linear(HEADS * HEAD, D, bias=False)
        if o.qk_norm:
            self.q_norm, self.k_norm = RMSNorm(HEAD), RMSNorm(HEAD)
        if o.sinks:
            self.sinks = nn.Parameter(torch.empty(HEADS))

    def forward(self, x, cos, sin, mask):
        n, t, _ = x.shape
        q, k, v = (p(x).view(n, t, -1, HEAD).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj))
        if self.o.qk_norm:
            q, k = self.q_norm(q), self.k_norm(k)
        w = self.o.rotary
        q, k = (torch.cat((z[..., :w] * cos + rotate_half(z[..., :w]) * sin, z[..., w:]), -1) for z in (q, k))
        k, v = (z.repeat_interleave(HEADS // KV, 1) for z in (k, v))
        scores = q @ k.transpose(-1, -2) * HEAD**-0.5
        if self.o.cap:
            scores = torch.tanh(scores / self.o.cap) * self.o.cap
        scores = scores + mask
        if self.o.sinks:
            sinks = self.sinks.view(1, -1, 1, 1).expand(n, -1, t, 1)
            weights = torch.cat((scores, sinks), -1).softmax(-1)[..., :-1]
        else:
            weights = scores.softmax(-1)
        return self.o_proj((weights @ v).transpose(1, 2).reshape(n, t, -1))


class MLP(nn.Module):
    def __init__(self, gemma):
        super().__init__()
        self.gate_proj, self.up_proj = nn.Linear(D, FFN, bias=False), nn.Linear(D, FFN, bias=False)
        self.down_proj = nn.Linear(FFN, D, bias=False)
        self.act_fn = nn.GELU(approximate="tanh") if gemma else nn.SiLU()

    def forward(self, x):
        return self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))


class DecoderLayer(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.self_attn, self.mlp, self.gemma = Attention(o), MLP(o.gemma), o.gemma
        self.input_layernorm, self.post_attention_layernorm = RMSNorm(D, o.gemma), RMSNorm(D, o.gemma)
        if o.gemma:
            self.pre_feedforward_layernorm, self.post_feedforward_layernorm = RMSNorm(D, True), RMSNorm(D, True)

    def forward(self, x, cos, sin, mask):
        y = self.self_attn(self.input_layernorm(x), cos, sin, mask)
        if self.gemma:
            x = x + self.post_attention_layernorm(y)
            return x + self.post_feedforward_layernorm(self.mlp(self.pre_feedforward_layernorm(x)))
        x = x + y
        return x + self.mlp(self.post_attention_layernorm(x))


class Decoder(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.o = o
        self.embed_tokens = nn.Embedding(VOCAB, D)
        self.rotary_emb = RotaryEmbedding(o)
        self.layers = nn.ModuleList(DecoderLayer(o) for _ in range(o.layers))
        self.norm = RMSNorm(D, o.gemma)
        self.lm_head = nn.Linear(D, VOCAB, bias=False)
        self.lm_head.weight = self.embed_tokens.weight

    def mask(self, x, window, attention_mask):
        i = torch.arange(x.shape[1], device=x.device)
        allowed = (i[None] <= i[:, None])[None, None]
        if window:
            allowed = allowed & (i[:, None] - i[None] < window)
        if attention_mask is not None:
            allowed = allowed & attention_mask.bool()[:, None, None] | torch.eye(len(i), dtype=torch.bool)
        return torch.zeros(allowed.shape, dtype=x.dtype).masked_fill(~allowed, torch.finfo(x.dtype).min)

    def forward(self, input_ids, attention_mask=None):
        x = self.embed_tokens(input_ids)
        if self.o.gemma:
            x = x * D**0.5
        cos, sin = self.rotary_emb(x)
        masks = [self.mask(x, w, attention_mask) for w in (self.o.window, 0)]
        for i, layer in enumerate(self.layers):
            x = layer(x, cos, sin, masks[i % 2])
        x = self.lm_head(self.norm(x))
        return torch.tanh(x / self.o.final_cap) * self.o.final_cap if self.o.final_cap else x


def pairs(weight, heads, width):
    """Rows of each head so that neighbours are rotated together: half layout to interleaved layout."""
    rows = weight.reshape(heads, HEAD, -1)
    first, rest = rows[:, :width], rows[:, width:]
    first = first.view(heads, 2, width // 2, -1).transpose(1, 2).reshape(heads, width, -1)
    return torch.cat((first, rest), 1).reshape(weight.shape)


class Rms(nn.Module):
    def __init__(self, weight, eps=1e-6, multiply_first=False):
        super().__init__()
        self.g, self.eps, self.multiply_first = nn.Parameter(weight.detach().clone()), eps, multiply_first

    def forward(self, x):
        if x.dtype == torch.bfloat16:
            y = F.rms_norm(x.float(), self.g.shape, None, self.eps)
            return (y * self.g.float()).to(x.dtype) if self.multiply_first else y.to(x.dtype) * self.g
        return F.rms_norm(x, self.g.shape, self.g, self.eps)


class Mixer(nn.Module):
    def __init__(self, a, o, fault):
        super().__init__()
        self.o, self.fault = o, fault
        width = HEAD if fault == "rotary width" else o.rotary
        self.width = width
        wq, bq, wk, bk = a.q_proj.weight, a.q_proj.bias, a.k_proj.weight, a.k_proj.bias
        if fault == "transposed keys":
            wk = wk.T
        if fault != "not permuted":
            wq, bq = pairs(wq, HEADS, width), pairs(bq, HEADS, width)
        if fault == "permuted as one head":  # n_head //= n_head_kv in the converter
            wk, bk = (z.reshape(1, 2, KV * HEAD // 2, -1).transpose(1, 2).reshape(z.shape) for z in (wk, bk))
        elif fault != "not permuted":
            wk, bk = pairs(wk, KV, width), pairs(bk, KV, width)
        if fault == "no bias":
            bk = torch.zeros_like(bk)
        b = torch.cat((bq, bk, a.v_proj.bias))
        self.wqkv = nn.Parameter(torch.cat((wq, wk, a.v_proj.weight)).T.contiguous())
        self.bqkv = nn.Parameter(b.detach().clone())
        self.wo = nn.Parameter(a.o_proj.weight.T.contiguous())
        if o.qk_norm:
            self.qn, self.kn = (Rms(pairs(w, 1, o.rotary)) for w in (a.q_norm.weight, a.k_norm.weight))
        if o.sinks:
            self.sink = nn.Parameter(a.sinks.detach().view(KV, -1).clone())

    def rotated(self, x, offset=0):
        f = frequencies(self.width, 500000.0 if self.fault == "base" else self.o.base, self.o.llama3 and self.fault != "unscaled")
        angles = (torch.arange(x.shape[1]) + offset)[:, None] * f
        cos, sin = (z.to(x.dtype).view(1, -1, *[1] * (x.dim() - 3), self.width // 2) for z in (angles.cos(), angles.sin()))
        if self.fault == "backwards":
            sin = -sin
        even, odd = x[..., : self.width : 2], x[..., 1 : self.width : 2]
        turned = torch.stack((even * cos - odd * sin, odd * cos + even * sin), -1).flatten(-2)
        return torch.cat((turned, x[..., self.width :]), -1) if self.width < HEAD else turned

    def forward(self, x, allowed):
        n, t, _ = x.shape
        q, k, v = torch.split(x @ self.wqkv + self.bqkv, (HEADS * HEAD, KV * HEAD, KV * HEAD), -1)
        k, v = k.reshape(n, t, KV, HEAD), v.reshape(n, t, KV, HEAD)
        if self.fault == "tiled":
            q = q.reshape(n, t, HEADS // KV, KV, HEAD).transpose(2, 3)
        else:
            q = q.reshape(n, t, KV, HEADS // KV, HEAD)
        if self.o.qk_norm and self.fault != "norm after rotation":
            q, k = self.qn(q), self.kn(k)
        q, k = self.rotated(q), self.rotated(k, 1 if self.fault == "keys one on" else 0)
        if self.fault == "norm after rotation":
            q, k = self.qn(q), self.kn(k)
        scale = (D // HEADS) ** -0.5 if self.fault == "width of a head" else HEAD**-0.5
        scores = torch.einsum("btgrd,bsgd->bgrts", q * scale, k)
        cap = 0 if self.fault == "no cap" else self.o.cap
        if cap:
            scores = cap * torch.tanh(scores / cap)
        scores = scores.masked_fill(~allowed[:, None, None], float("-inf"))
        if self.o.sinks and self.fault != "no sink":
            sink = self.sink[None, :, :, None, None]
            if self.fault == "sink by sigmoid":
                weights = scores.softmax(-1) * torch.sigmoid(-sink)
            else:
                top = torch.maximum(scores.amax(-1, keepdim=True), sink)
                e = torch.exp(scores - top)
                weights = e / (e.sum(-1, keepdim=True) + torch.exp(sink - top))
        else:
            weights = scores.softmax(-1)
        out = torch.einsum("bgrts,bsgd->btgrd", weights, v)
        if self.fault == "tiled":
            out = out.transpose(2, 3)
        return out.reshape(n, t, -1) @ self.wo


class Ffn(nn.Module):
    def __init__(self, a, gemma, fault):
        super().__init__()
        first, second = (a.up_proj, a.gate_proj) if fault == "gate and up" else (a.gate_proj, a.up_proj)
        self.w13 = nn.Parameter(torch.cat((first.weight, second.weight)).T.contiguous())
        self.w2 = nn.Parameter(a.down_proj.weight.T.contiguous())
        self.gemma, self.fault = gemma, fault

    def forward(self, x):
        g, u = (x @ self.w13).chunk(2, -1)
        if self.gemma:
            g = F.gelu(g, approximate="none" if self.fault == "exact gelu" else "tanh")
        else:
            g = F.gelu(g) if self.fault == "gelu" else g * torch.sigmoid(g)
        return (g * u) @ self.w2


class Stage(nn.Module):
    def __init__(self, a, o, fault):
        super().__init__()
        eps = {"epsilon": 1e-5}.get(fault, 1e-6)
        one = 0.0 if fault == "without the one" or not o.gemma else 1.0
        first = fault == "cast"
        self.norm1, self.mixer = Rms(a.input_layernorm.weight + one, eps, first), Mixer(a.self_attn, o, fault)
        self.norm2, self.ffn = Rms(a.post_attention_layernorm.weight + one, eps, first), Ffn(a.mlp, o.gemma, fault)
        if o.gemma:
            after = 1e-5 if fault == "epsilon after" else eps
            self.norm2.eps = after
            self.norm3 = Rms(a.pre_feedforward_layernorm.weight + one, eps)
            self.norm4 = Rms(a.post_feedforward_layernorm.weight + one, after)
        self.gemma, self.fault = o.gemma, fault

    def forward(self, x, allowed):
        if self.gemma:
            h = self.mixer(self.norm1(x), allowed)
            x = self.norm2(x + h) if self.fault == "norm over the residual" else x + self.norm2(h)
            return x + self.norm4(self.ffn(self.norm3(x)))
        h = x + self.mixer(self.norm1(x), allowed)
        if self.fault == "parallel":
            return h + self.ffn(self.norm2(x))
        return h + self.ffn(self.norm2(h))


class Port(nn.Module):
    """B. fault: what is wrong; layer: the only layer that has it, or -1."""

    def __init__(self, a, fault="", layer=-1):
        super().__init__()
        self.o, self.fault = a.o, fault
        self.tok = nn.Parameter(a.embed_tokens.weight.detach().clone())
        self.stack = nn.ModuleList(Stage(x, a.o, fault if layer in (-1, i) else "") for i, x in enumerate(a.layers))
        if fault == "layer before":
            self.stack[1].ffn = Ffn(a.layers[0].mlp, a.o.gemma, "")
        self.out_norm = Rms(
            a.norm.weight + (1.0 if a.o.gemma and fault != "without the one" else 0.0), multiply_first=fault == "cast"
        )
        if fault == "stale head":
            self.unembed = nn.Parameter(torch.randn(D, VOCAB) * 0.2)

    def forward(self, tokens, lengths_mask=None):
        t = tokens.shape[1]
        distance = torch.arange(t)[:, None] - torch.arange(t)[None]
        causal = distance >= (-1 if self.fault == "one ahead" else 0)
        far = distance <= self.o.window if self.fault == "window plus one" else distance < self.o.window
        windows = [causal & far if self.o.window else causal, causal]
        if self.fault == "window in the odd layers":
            windows.reverse()
        if self.fault == "window nowhere":
            windows[0] = causal
        masks = []
        for mask in windows:
            mask = mask[None].expand(len(tokens), t, t)
            if lengths_mask is not None and self.fault != "padding seen":
                keep = lengths_mask.bool()
                if self.fault == "padding at the end":
                    keep = torch.arange(t)[None] < keep.sum(-1, keepdim=True)
                mask = mask & keep[:, None] | torch.eye(t, dtype=torch.bool)
            masks.append(mask)
        x = self.tok[tokens]
        if self.o.gemma and self.fault != "embedding not scaled":
            x = x * math.sqrt(D)
        for i, stage in enumerate(self.stack):
            x = stage(x, masks[i % 2])
        if self.fault != "no last norm":
            x = self.out_norm(x)
        x = x @ (self.unembed if self.fault == "stale head" else self.tok.T)
        cap = 0 if self.fault == "no final cap" else self.o.final_cap
        return cap * torch.tanh(x / cap) if cap else x


def tokens(n=2, t=10):
    return torch.randint(0, VOCAB, (n, t))


def left_padded(n=3, t=10):
    """Tokens and a mask of rows with 10, 7 and 6 tokens at the end."""
    return torch.randint(0, VOCAB, (n, t)), (torch.arange(t)[None] >= torch.tensor([0, 3, 4])[:, None]).long()
