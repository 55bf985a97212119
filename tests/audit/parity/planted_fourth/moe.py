"""A decoder with a mixture of experts.

A visits the experts in turn, as transformers does; B computes all of them and weighs the results, as JAX ports do.
"""

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F

from .decoders import Rms, RMSNorm, rotate_half

D, HEADS, KV, HEAD, FFN, EXPERTS, TOP, VOCAB = 32, 4, 2, 8, 24, 4, 2, 51


@dataclass(frozen=True)
class Config:
    """Qwen3-MoE; with a window as Mixtral, a cap as Grok, sinks as gpt-oss, a part of the head rotated as GLM."""

    window: int = 0
    cap: float = 0.0
    sinks: bool = False
    rotary: int = HEAD


class Expert(nn.Module):
    def __init__(self, width=FFN):
        super().__init__()
        self.gate_proj, self.up_proj = nn.Linear(D, width, bias=False), nn.Linear(D, width, bias=False)
        self.down_proj = nn.Linear(width, D, bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class SparseMoe(nn.Module):
    """Qwen2-MoE's, with the scale of DeepSeek."""

    def __init__(self):
        super().__init__()
        self.gate, self.experts = nn.Linear(D, EXPERTS, bias=False), nn.ModuleList(Expert() for _ in range(EXPERTS))
        self.shared_expert, self.shared_expert_gate = Expert(2 * FFN), nn.Linear(D, 1, bias=False)

    def forward(self, x):
        flat = x.reshape(-1, D)
        weights, chosen = torch.topk(self.gate(flat).softmax(-1), TOP, -1)
        weights = weights / weights.sum(-1, keepdim=True) * 2.5
        y = torch.zeros_like(flat)
        for i, expert in enumerate(self.experts):
            row, slot = torch.where(chosen == i)
            y = y.index_add(0, row, expert(flat[row]) * weights[row, slot, None])
        y = y + torch.sigmoid(self.shared_expert_gate(flat)) * self.shared_expert(flat)
        return y.view(x.shape)


class MoeAttention(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.o = o
        if o.sinks:
            self.sinks = nn.Parameter(torch.empty(HEADS))
        self.q_proj, self.k_proj, self.v_proj = nn.Linear(D, D), nn.Linear(D, KV * HEAD), nn.Linear(D, KV * HEAD)
        self.o_proj, self.q_norm, self.k_norm = nn.Linear(D, D, bias=False), RMSNorm(HEAD), RMSNorm(HEAD)

    def forward(self, x):
        n, t, _ = x.shape
        q, k, v = (m(x).view(n, t, -1, HEAD) for m in (self.q_proj, self.k_proj, self.v_proj))
        q, k, v = self.q_norm(q).transpose(1, 2), self.k_norm(k).transpose(1, 2), v.transpose(1, 2)
        w = self.o.rotary
        f = 1e4 ** -(torch.arange(0, w, 2, dtype=torch.float64) / w)
        angles = torch.arange(t)[:, None] * torch.cat((f, f))
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        q, k = (torch.cat((z[..., :w] * cos + rotate_half(z[..., :w]) * sin, z[..., w:]), -1) for z in (q, k))
        k, v = (z[:, :, None].expand(-1, -1, HEADS // KV, -1, -1).reshape(n, HEADS, t, HEAD) for z in (k, v))
        i = torch.arange(t)
        allowed = (i[None] <= i[:, None]) & (i[:, None] - i[None] < (self.o.window or t))
        if self.o.cap or self.o.sinks:
            scores = q @ k.transpose(2, 3) * HEAD**-0.5
            if self.o.cap:
                scores = self.o.cap * torch.tanh(scores / self.o.cap)
            scores = scores + torch.zeros(t, t, dtype=x.dtype).masked_fill(~allowed, torch.finfo(x.dtype).min)
            if self.o.sinks:
                scores = torch.cat((scores, self.sinks.view(1, -1, 1, 1).expand(n, -1, t, 1)), -1)
            y = scores.softmax(-1)[..., :t] @ v
        else:
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=allowed)
        return self.o_proj(y.transpose(1, 2).reshape(n, t, D))


class MoeLayer(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.self_attn, self.mlp = MoeAttention(o), SparseMoe()
        self.input_layernorm, self.post_attention_layernorm = RMSNorm(D), RMSNorm(D)

    def forward(self, x):
        x = x + self.self_attn(self.input_layernorm(x))
        return x + self.mlp(self.post_attention_layernorm(x))


class Moe(nn.Module):
    def __init__(self, o=Config()):
        super().__init__()
        self.embed_tokens, self.layers, self.norm = nn.Embedding(VOCAB, D), nn.ModuleList(MoeLayer(o) for _ in range(2)), RMSNorm(D)
        self.lm_head = nn.Linear(D, VOCAB, bias=False)

    def forward(self, ids):
        x = self.embed_tokens(ids)
        for layer in self.layers:
            x = layer(x)
        return self.lm_head(self.norm(x))


class Experts(nn.Module):
    """All experts at once: stacked [E, D, 2 F] with gate and up in turn, as in gpt-oss."""

    def __init__(self, a, fault):
        super().__init__()
        experts = [*a.experts[1:], a.experts[0]] if fault == "experts rotated" else list(a.experts)
        turns = [torch.stack((e.gate_proj.weight, e.up_proj.weight), 1).flatten(0, 1).T for e in experts]
        self.gate_up = nn.Parameter(torch.stack(turns).detach().clone())
        self.down = nn.Parameter(torch.stack([e.down_proj.weight.T for e in experts]).detach().clone())
        self.router = nn.Parameter(a.gate.weight.detach().T.contiguous())
        s = a.shared_expert
        self.shared_in = nn.Parameter(torch.cat((s.gate_proj.weight, s.up_proj.weight)).detach().T.contiguous())
        self.shared_out = nn.Parameter(s.down_proj.weight.detach().T.contiguous())
        self.shared_gate = nn.Parameter(a.shared_expert_gate.weight.detach().T.contiguous())
        self.fault = fault

    def weights(self, logits):
        """The weight of each expert [..., E], zero for those that are not chosen."""
        if self.fault == "sigmoid router":
            p = torch.sigmoid(logits)
        else:
            p = logits.softmax(1 if self.fault == "softmax over the tokens" else -1)
        k = 1 if self.fault == "one expert" else TOP
        least = p.topk(k, -1).values[..., -1:]
        chosen = torch.where(p >= least, p, torch.zeros_like(p))
        if self.fault != "weights not normalised":
            chosen = chosen / chosen.sum(-1, keepdim=True)
        return chosen if self.fault == "no routed scale" else chosen * 2.5

    def forward(self, x):
        weights = self.weights(x @ self.router)
        h = torch.einsum("btd,edf->btef", x, self.gate_up)
        gate, up = h.chunk(2, -1) if self.fault == "halves" else (h[..., ::2], h[..., 1::2])
        gate = F.gelu(gate) if self.fault == "gelu" else F.silu(gate)
        y = torch.einsum("btef,efd,bte->btd", gate * up, self.down, weights)
        gate, up = (x @ self.shared_in).chunk(2, -1)
        shared = (F.silu(gate) * up) @ self.shared_out
        if self.fault == "no shared expert":
            return y
        return y + (shared if self.fault == "shared expert without gate" else shared * torch.sigmoid(x @ self.shared_gate))


class GroupedAttention(nn.Module):
    """Queries of a key head beside each other; heads are the last but one axis; pairs are halves, as in A."""

    def __init__(self, a, fault):
        super().__init__()
        self.wq, self.bq = nn.Parameter(a.q_proj.weight.detach().T.contiguous()), nn.Parameter(a.q_proj.bias.detach().clone())
        kv = torch.cat((a.k_proj.weight, a.v_proj.weight)).detach().T.contiguous()
        self.wkv, self.bkv = nn.Parameter(kv), nn.Parameter(torch.cat((a.k_proj.bias, a.v_proj.bias)).detach().clone())
        if fault == "no bias of values":
            self.bkv.data[KV * HEAD :] = 0
        if a.o.sinks:
            self.sink = nn.Parameter(a.sinks.detach().view(KV, -1).clone())
        self.o = a.o
        self.wo = nn.Parameter((a.o_proj.weight if fault == "not transposed" else a.o_proj.weight.T).detach().clone())
        eps = 1e-5 if fault == "epsilon of the head norms" else 1e-6
        self.qn, self.kn, self.fault = Rms(a.q_norm.weight, eps), Rms(a.k_norm.weight, eps), fault

    def rotated(self, x, start=0):
        w = HEAD if self.fault == "rotary width" else self.o.rotary
        x, rest = x[..., :w], x[..., w:]
        f = (1e6 if self.fault == "base" else 1e4) ** -(torch.arange(0, w, 2, dtype=torch.float64) / w)
        angles = torch.arange(start, start + x.shape[1])[:, None] * f / (2.0 if self.fault == "interpolated" else 1.0)
        cos, sin = angles.cos().to(x.dtype)[:, None], angles.sin().to(x.dtype)[:, None]
        if self.fault == "backwards":
            sin = -sin
        if self.fault == "neighbours":
            a, b = x[..., ::2], x[..., 1::2]
            return torch.stack((a * cos - b * sin, b * cos + a * sin), -1).flatten(-2)
        a, b = x[..., : w // 2], x[..., w // 2 :]
        return torch.cat((a * cos - b * sin, b * cos + a * sin, rest), -1)

    def forward(self, x):
        n, t, _ = x.shape
        q = (x @ self.wq + self.bq).view(n, t, HEADS, HEAD)
        k, v = (x @ self.wkv + self.bkv).view(n, t, 2, KV, HEAD).unbind(2)
        if self.fault != "no head norms":
            q, k = self.qn(q), self.kn(k)
        q, k = self.rotated(q), self.rotated(k, 1 if self.fault == "keys one on" else 0)
        q = q.view(n, t, KV, -1, HEAD)
        if self.fault == "tiled":
            q = q.reshape(n, t, -1, KV, HEAD).transpose(2, 3)
        scores = torch.einsum("btgrd,bsgd->bgrts", q, k) / HEAD**0.5
        if self.o.cap and self.fault != "no cap":
            scores = torch.tanh(scores / self.o.cap) * self.o.cap
        width = (
            t if not self.o.window or self.fault == "no window" else self.o.window + (1 if self.fault == "window plus one" else 0)
        )
        near = torch.ones(t, t, dtype=torch.bool).tril().triu(1 - width)
        scores = scores.masked_fill(~near, float("-inf"))
        if self.o.sinks and self.fault != "no sink":
            sink = (self.sink.flip(0) if self.fault == "sinks of other heads" else self.sink)[None, :, :, None, None]
            scores = scores - torch.logaddexp(scores.logsumexp(-1, keepdim=True), sink)
            weights = scores.exp()
        else:
            weights = scores.softmax(-1)
        y = torch.einsum("bgrts,bsgd->btgrd", weights, v)
        return (y.transpose(2, 3) if self.fault == "tiled" else y).reshape(n, t, D) @ self.wo


class Stage(nn.Module):
    def __init__(self, a, fault):
        super().__init__()
        first = fault == "cast"
        self.pre, self.attend = Rms(a.input_layernorm.weight, multiply_first=first), GroupedAttention(a.self_attn, fault)
        self.mid, self.route = Rms(a.post_attention_layernorm.weight, multiply_first=first), Experts(a.mlp, fault)
        self.fault = fault

    def forward(self, x):
        x = x + self.attend(self.pre(x))
        y = self.mid(x)
        return x + self.route(x if self.fault == "experts without norm" else y)


class Port(nn.Module):
    def __init__(self, a, fault="", layer=-1):
        super().__init__()
        self.emb = nn.Parameter(a.embed_tokens.weight.detach().clone())
        self.stages = nn.ModuleList(Stage(x, fault if layer in (-1, i) else "") for i, x in enumerate(a.layers))
        self.final, self.fault = Rms(a.norm.weight, multiply_first=fault == "cast"), fault
        self.unembed = nn.Parameter((a.embed_tokens if fault == "tied" else a.lm_head).weight.detach().T.contiguous())

    def forward(self, ids):
        x = self.emb[ids]
        for stage in self.stages:
            x = stage(x)
        return self.final(x) @ self.unembed


def tokens(n=2, t=8):
    return (torch.randint(0, VOCAB, (n, t)),)
