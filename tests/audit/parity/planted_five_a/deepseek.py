"""A decoder with latent attention and sigmoid-routed experts, as transformers writes DeepSeek-V3, and a port.

The port computes attention on the latent itself: the weights that expand keys go to the queries, those of the values to the output.
Its second layer computes each expert on its own tokens.
Source: DeepSeek-AI 2024, "DeepSeek-V3"; absorbed weights as in vLLM; YaRN: Peng et al. 2023.
"""

import math

import torch
from torch import nn
from torch.nn import functional as F

from .copies import kept, linear

D, HEADS, NOPE, ROPE, V, LATENT, QUERY, WORDS = 16, 2, 8, 4, 8, 8, 12, 31
EXPERTS, CHOSEN, ROUTED_SCALE = 4, 2, 2.5
BASE, FACTOR, OLD_LENGTH, ALL_DIM = 10000.0, 8.0, 16, 0.7


def inputs():
    torch.manual_seed(5)
    return (torch.randint(WORDS, (2, 9)),)


def yarn_mscale(factor, by):
    return 0.1 * by * math.log(factor) + 1.0


class RMSNorm(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight, self.variance_epsilon = nn.Parameter(torch.ones(size)), 1e-6

    def forward(self, x):
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon))


class YarnRotaryEmbedding(nn.Module):
    def forward(self, x):
        n = torch.arange(0, ROPE, 2, dtype=x.dtype)
        extra, inter = BASE ** (-n / ROPE), BASE ** (-n / ROPE) / FACTOR

        def dim(turns):
            return ROPE * math.log(OLD_LENGTH / (turns * 2 * math.pi)) / (2 * math.log(BASE))

        low, high = max(math.floor(dim(32)), 0), min(math.ceil(dim(1)), ROPE - 1)
        ramp = ((torch.arange(ROPE // 2, dtype=x.dtype) - low) / max(high - low, 0.001)).clamp(0, 1)
        rates = inter * ramp + extra * (1 - ramp)
        angles = torch.arange(x.shape[1], dtype=x.dtype)[:, None] * rates
        angles = torch.cat([angles, angles], -1)
        return angles.cos(), angles.sin()


def rotate_interleaved(x, cos, sin):
    b, h, t, d = x.shape
    x = x.view(b, h, t, d // 2, 2).transpose(4, 3).reshape(b, h, t, d)
    return x * cos + torch.cat([-x[..., d // 2 :], x[..., : d // 2]], -1) * sin


class DeepseekV3Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q_a_proj, self.q_a_layernorm = nn.Linear(D, QUERY, bias=False), RMSNorm(QUERY)
        self.q_b_proj = nn.Linear(QUERY, HEADS * (NOPE + ROPE), bias=False)
        self.kv_a_proj_with_mqa, self.kv_a_layernorm = nn.Linear(D, LATENT + ROPE, bias=False), RMSNorm(LATENT)
        self.kv_b_proj, self.o_proj = nn.Linear(LATENT, HEADS * (NOPE + V), bias=False), nn.Linear(HEADS * V, D, bias=False)
        self.scaling = (NOPE + ROPE) ** -0.5 * yarn_mscale(FACTOR, ALL_DIM) ** 2

    def forward(self, x, table, mask):
        b, t, _ = x.shape
        q = self.q_b_proj(self.q_a_layernorm(self.q_a_proj(x))).view(b, t, HEADS, -1).transpose(1, 2)
        q_pass, q_rot = q.split([NOPE, ROPE], -1)
        latent, k_rot = self.kv_a_proj_with_mqa(x).split([LATENT, ROPE], -1)
        kv = self.kv_b_proj(self.kv_a_layernorm(latent)).view(b, t, HEADS, -1).transpose(1, 2)
        k_pass, v = kv.split([NOPE, V], -1)
        q_rot, k_rot = rotate_interleaved(q_rot, *table), rotate_interleaved(k_rot.view(b, 1, t, ROPE), *table)
        q, k = torch.cat([q_pass, q_rot], -1), torch.cat([k_pass, k_rot.expand(b, HEADS, t, ROPE)], -1)
        weights = torch.softmax(q @ k.transpose(2, 3) * self.scaling + mask, -1)
        return self.o_proj((weights @ v).transpose(1, 2).reshape(b, t, -1))


class DeepseekV3MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate_proj, self.up_proj, self.down_proj = (
            nn.Linear(D, 20, bias=False), nn.Linear(D, 20, bias=False), nn.Linear(20, D, bias=False),
        )  # fmt: skip

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class DeepseekV3TopkRouter(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight, self.e_score_correction_bias = nn.Parameter(torch.zeros(EXPERTS, D)), nn.Parameter(torch.zeros(EXPERTS))

    def forward(self, x):
        scores = F.linear(x, self.weight).sigmoid()
        chosen = torch.topk(scores + self.e_score_correction_bias, CHOSEN, -1)[1]
        weights = scores.gather(-1, chosen)
        return chosen, weights / (weights.sum(-1, keepdim=True) + 1e-20) * ROUTED_SCALE


class DeepseekV3MoE(nn.Module):
    def __init__(self):
        super().__init__()
        self.experts = nn.ModuleList(DeepseekV3MLP() for _ in range(EXPERTS))
        self.gate, self.shared_experts = DeepseekV3TopkRouter(), DeepseekV3MLP()

    def forward(self, x):
        chosen, weights = self.gate(x)
        each = torch.zeros(*x.shape[:-1], EXPERTS, dtype=x.dtype).scatter(-1, chosen, weights)
        routed = sum(each[..., i, None] * expert(x) for i, expert in enumerate(self.experts))
        return routed + self.shared_experts(x)


class DeepseekV3DecoderLayer(nn.Module):
    def __init__(self, index):
        super().__init__()
        self.self_attn, self.mlp = DeepseekV3Attention(), DeepseekV3MoE() if index else DeepseekV3MLP()
        self.input_layernorm, self.post_attention_layernorm = RMSNorm(D), RMSNorm(D)

    def forward(self, x, table, mask):
        x = x + self.self_attn(self.input_layernorm(x), table, mask)
        return x + self.mlp(self.post_attention_layernorm(x))


class DeepseekV3(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed_tokens, self.rotary_emb = nn.Embedding(WORDS, D), YarnRotaryEmbedding()
        self.layers = nn.ModuleList(DeepseekV3DecoderLayer(i) for i in range(2))
        self.norm, self.lm_head = RMSNorm(D), nn.Linear(D, WORDS, bias=False)

    def forward(self, ids):
        x, t = self.embed_tokens(ids), ids.shape[1]
        table = self.rotary_emb(x)
        mask = torch.full((t, t), torch.finfo(x.dtype).min, dtype=x.dtype).triu(1)
        for layer in self.layers:
            x = layer(x, table, mask)
        return self.lm_head(self.norm(x))


class Gain(nn.Module):
    def __init__(self, norm, eps=1e-6):
        super().__init__()
        self.gain, self.eps = kept(norm.weight), eps

    def forward(self, x):
        return F.rms_norm(x, self.gain.shape, self.gain, self.eps)


class Centred(Gain):
    def forward(self, x):
        return F.layer_norm(x, self.gain.shape, self.gain, None, self.eps)


class Latent(nn.Module):
    """Attention with one key and value head, the latent."""

    def __init__(self, attn, fault):
        super().__init__()
        self.fault = fault
        self.down = linear(torch.cat([attn.q_a_proj.weight, attn.kv_a_proj_with_mqa.weight]))
        self.q_norm = (Centred if fault == "layer norm of the queries" else Gain)(attn.q_a_layernorm)
        self.kv_norm = Gain(attn.kv_a_layernorm, 1e-3 if fault == "epsilon of the latent" else 1e-6)
        self.up = linear(attn.q_b_proj.weight)
        w = attn.kv_b_proj.weight.view(HEADS, NOPE + V, LATENT)
        first, second = w[:, :NOPE], w[:, NOPE:]
        self.w_keys, self.w_values = map(kept, (second, first) if fault == "values and keys" else (first, second))
        if fault == "latent twice as large":
            self.kv_norm.gain.data *= 2
            self.w_keys.data /= 2
            self.w_values.data /= 2
        self.out = linear(attn.o_proj.weight)
        width = NOPE if fault == "scale without the rotated part" else NOPE + ROPE
        self.scale = width**-0.5 * (1.0 if fault == "no mscale" else yarn_mscale(FACTOR, ALL_DIM) ** 2)

    def rotated(self, x, angles):
        """Neighbouring numbers are a pair; angles [time, ROPE / 2]; x [batch, time, heads, ROPE]."""
        cos, sin = angles.cos()[:, None], angles.sin()[:, None]
        a, b = x.chunk(2, -1) if self.fault == "halves" else (x[..., 0::2], x[..., 1::2])
        return torch.cat([a * cos - b * sin, a * sin + b * cos], -1)

    def forward(self, x, angles):
        b, t, _ = x.shape
        q, rest = self.down(x).split([QUERY, LATENT + ROPE], -1)
        if self.fault == "rotated part first":
            k_rot, latent = rest.split([ROPE, LATENT], -1)
        else:
            latent, k_rot = rest.split([LATENT, ROPE], -1)
        latent = latent if self.fault == "no norm of the latent" else self.kv_norm(latent)
        q_pass, q_rot = self.up(self.q_norm(q)).view(b, t, HEADS, -1).split([NOPE, ROPE], -1)
        at = angles(1) if self.fault == "queries one on" else angles(0)
        q_rot, k_rot = self.rotated(q_rot, at), self.rotated(k_rot[:, :, None], angles(0))[:, :, 0]
        q_latent = torch.einsum("bthd,hdl->bthl", q_pass, self.w_keys)
        scores = (torch.einsum("bihl,bjl->bhij", q_latent, latent) + torch.einsum("bihr,bjr->bhij", q_rot, k_rot)) * self.scale
        i = torch.arange(t)
        scores = scores.masked_fill(i[None] > i[:, None], -torch.inf)
        mixed = torch.einsum("bhij,bjl->bihl", scores.softmax(-1), latent)
        return self.out(torch.einsum("bihl,hdl->bihd", mixed, self.w_values).flatten(2))


class Swiglu(nn.Module):
    def __init__(self, mlp):
        super().__init__()
        self.w13, self.w2 = linear(torch.cat([mlp.gate_proj.weight, mlp.up_proj.weight])), linear(mlp.down_proj.weight)

    def forward(self, x):
        gate, up = self.w13(x).chunk(2, -1)
        return self.w2(F.silu(gate) * up)


class Experts(nn.Module):
    def __init__(self, moe, fault):
        super().__init__()
        self.fault = fault
        self.router, self.balance = linear(moe.gate.weight), kept(moe.gate.e_score_correction_bias)
        self.every, self.shared = nn.ModuleList(map(Swiglu, moe.experts)), Swiglu(moe.shared_experts)

    def forward(self, x):
        flat = x.flatten(0, 1)
        logits = self.router(flat)
        scores = logits.softmax(-1) if self.fault == "softmax router" else logits.sigmoid()
        balanced = scores + self.balance
        found = balanced.topk(CHOSEN, -1)
        weights = found.values if self.fault == "balanced weights" else scores.gather(-1, found.indices)
        if self.fault != "weights not normalised":
            weights = weights / weights.sum(-1, keepdim=True)
        weights = weights * (1.0 if self.fault == "no routed scale" else ROUTED_SCALE)
        y = self.shared(flat)
        for i, expert in enumerate(self.every):
            row, place = torch.where(found.indices == i)
            y = y.index_add(0, row, expert(flat[row]) * weights[row, place, None])
        return y.view_as(x)


class Step(nn.Module):
    def __init__(self, layer, fault):
        super().__init__()
        self.pre, self.mid, self.attend = (
            Gain(layer.input_layernorm),
            Gain(layer.post_attention_layernorm),
            Latent(layer.self_attn, fault),
        )
        self.ffn = Experts(layer.mlp, fault) if hasattr(layer.mlp, "gate") else Swiglu(layer.mlp)

    def forward(self, x, angles):
        x = x + self.attend(self.pre(x), angles)
        return x + self.ffn(self.mid(x))


class Port(nn.Module):
    def __init__(self, a, fault="", layer=-1):
        super().__init__()
        self.fault = fault
        self.words, self.head, self.last = kept(a.embed_tokens.weight), linear(a.lm_head.weight), Gain(a.norm)
        self.steps = nn.ModuleList(Step(x, fault if layer in (-1, i) else "") for i, x in enumerate(a.layers))

    def rates(self, dtype):
        own = BASE ** (-torch.arange(ROPE // 2, dtype=dtype) * 2 / ROPE)
        if self.fault == "interpolated evenly":
            return own / FACTOR
        bounds = [ROPE * math.log(OLD_LENGTH / (n * math.tau)) / (2 * math.log(BASE)) for n in (32, 1)]
        low, high = max(math.floor(bounds[0]), 0), min(math.ceil(bounds[1]), ROPE - 1)
        keep = 1 - ((torch.arange(ROPE // 2, dtype=dtype) - low) / max(high - low, 0.001)).clamp(0, 1)
        return own * (keep + (1 - keep) / FACTOR)

    def forward(self, ids):
        x = F.embedding(ids, self.words)
        rates = self.rates(x.dtype)

        def angles(first):
            return torch.outer(torch.arange(first, first + ids.shape[1], dtype=x.dtype), rates)

        for step in self.steps:
            x = step(x, angles)
        return self.head(self.last(x))
