"""Language models with sliding windows in two hands: a Gemma 2 and a sparse mixture of experts like Mixtral."""

import torch
from torch import nn
from torch.nn import functional as F

from .decoders import RootMeanSquare
from .start import put


def rotate_half(x):
    return torch.cat((-x[..., x.shape[-1] // 2 :], x[..., : x.shape[-1] // 2]), dim=-1)


class RotaryTable(nn.Module):
    """Cosines and sines [T, D] for pairs half a head apart."""

    def __init__(self, width, base, factor=1.0):
        super().__init__()
        self.width, self.base, self.factor = width, base, factor

    def forward(self, x, start=0):
        kind = torch.float64 if x.dtype is torch.float64 else torch.float32
        inv = 1.0 / self.base ** (torch.arange(0, self.width, 2).to(kind) / self.width) / self.factor
        freqs = torch.arange(start, start + x.shape[1]).to(kind)[:, None] @ inv[None]
        emb = torch.cat((freqs, freqs), dim=-1)
        return emb.cos().to(x.dtype), emb.sin().to(x.dtype)


# Gemma 2: modules and [B, H, T, D] against einsums over [B, T, K, G, D], as in its JAX code.


class GemmaNorm(nn.Module):
    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.zeros(dim)), eps

    def forward(self, x):
        y = x.float() if x.dtype is torch.bfloat16 else x
        y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps)
        return (y * (1.0 + self.weight.to(y.dtype))).type_as(x)


class GemmaAttention(nn.Module):
    def __init__(self, dim, heads, groups, width, window):
        super().__init__()
        self.heads, self.groups, self.width, self.window = heads, groups, width, window
        self.q_proj, self.k_proj = nn.Linear(dim, heads * width, bias=False), nn.Linear(dim, groups * width, bias=False)
        self.v_proj, self.o_proj = nn.Linear(dim, groups * width, bias=False), nn.Linear(heads * width, dim, bias=False)

    def forward(self, x, cos, sin):
        q, k, v = (p(x).view(*x.shape[:2], -1, self.width).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj))
        q, k = q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin
        k, v = (t.repeat_interleave(self.heads // self.groups, 1) for t in (k, v))
        w = torch.matmul(q, k.transpose(2, 3)) * 24**-0.5  # the scale is a number of the configuration, not of the width
        w = torch.tanh(w / 2.5) * 2.5
        i, j = torch.arange(x.shape[1])[:, None], torch.arange(x.shape[1])[None]
        keep = (j <= i) & (i - j < self.window) if self.window else j <= i
        w = (w + torch.zeros_like(w).masked_fill(~keep, torch.finfo(w.dtype).min)).softmax(-1)
        return self.o_proj(torch.matmul(w, v).transpose(1, 2).contiguous().view(*x.shape[:2], -1))


class GemmaMlp(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.gate_proj, self.up_proj = nn.Linear(dim, hidden, bias=False), nn.Linear(dim, hidden, bias=False)
        self.down_proj, self.act_fn = nn.Linear(hidden, dim, bias=False), nn.GELU("tanh")

    def forward(self, x):
        return self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))


class GemmaLayer(nn.Module):
    def __init__(self, window):
        super().__init__()
        self.self_attn, self.mlp = GemmaAttention(28, 4, 2, 8, window), GemmaMlp(28, 40)
        self.input_layernorm, self.post_attention_layernorm = GemmaNorm(28), GemmaNorm(28)
        self.pre_feedforward_layernorm, self.post_feedforward_layernorm = GemmaNorm(28), GemmaNorm(28)

    def forward(self, x, cos, sin):
        x = x + self.post_attention_layernorm(self.self_attn(self.input_layernorm(x), cos, sin))
        return x + self.post_feedforward_layernorm(self.mlp(self.pre_feedforward_layernorm(x)))


class Gemma(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed_tokens = nn.Embedding(53, 28)
        self.rotary_emb = RotaryTable(8, 10_000.0, factor=2.0)
        self.layers = nn.ModuleList(GemmaLayer(window) for window in (4, 0, 4))
        self.norm, self.lm_head = GemmaNorm(28), nn.Linear(28, 53, bias=False)
        self.lm_head.weight = self.embed_tokens.weight

    def forward(self, input_ids):
        x = self.embed_tokens(input_ids)
        x = x * torch.tensor(28**0.5, dtype=x.dtype)
        cos, sin = self.rotary_emb(x)
        for layer in self.layers:
            x = layer(x, cos, sin)
        logits = self.lm_head(self.norm(x))
        return 6.0 * torch.tanh(logits / 6.0)


class GemmaJaxNorm(nn.Module):
    def __init__(self, scale, fault):
        super().__init__()
        self.scale, self.fault = nn.Parameter(scale.detach().clone()), fault

    def forward(self, x):
        exact = x.float() if x.dtype is torch.bfloat16 else x
        var = torch.mean(exact**2, dim=-1, keepdim=True)
        normed = exact * torch.reciprocal(torch.sqrt(var + (1e-5 if self.fault == "epsilon" else 1e-6)))
        scale = self.scale if self.fault == "norm weight" else 1 + self.scale
        return normed.to(x.dtype) * scale if self.fault == "cast" else (normed * scale).to(x.dtype)


class GemmaJaxAttention(nn.Module):
    def __init__(self, a, fault):
        super().__init__()
        dim, self.fault, self.window = a.q_proj.weight.shape[1], fault, a.window
        self.q_einsum = nn.Parameter(a.q_proj.weight.detach().view(4, 8, dim).transpose(1, 2).clone())
        kv = torch.stack([p.weight.detach().view(2, 8, dim).transpose(1, 2) for p in (a.k_proj, a.v_proj)])
        self.kv_einsum = nn.Parameter(kv.clone())
        self.attn_vec_einsum = nn.Parameter(a.o_proj.weight.detach().T.reshape(4, 8, dim).clone())

    def rope(self, x):
        exact = x.dtype if x.dtype is torch.float64 else torch.float32
        fraction = 2 * torch.arange(4, dtype=exact) / 8
        timescale = (1e6 if self.fault == "rope base" else 1e4) ** fraction
        timescale = timescale if self.fault == "rope scaling" else 2.0 * timescale
        angle = (torch.arange(x.shape[1], dtype=exact)[:, None] / timescale)[None, :, None]
        sin, cos = angle.sin().to(x.dtype), angle.cos().to(x.dtype)
        if self.fault == "rope layout":
            first, second = x[..., 0::2], x[..., 1::2]
            return torch.stack([first * cos - second * sin, second * cos + first * sin], -1).flatten(-2)
        first, second = x.split(4, dim=-1)
        return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)

    def forward(self, x):
        q = self.rope(torch.einsum("BTD,NDH->BTNH", x, self.q_einsum))
        k, v = torch.einsum("BSD,CKDH->CBSKH", x, self.kv_einsum)
        q, k = q * (8**-0.5 if self.fault == "softmax scale" else 24**-0.5), self.rope(k)
        length = x.shape[1]
        if self.fault == "head order":
            grouped = q.reshape(*q.shape[:2], 2, 2, 8).transpose(2, 3)
        else:
            grouped = q.reshape(*q.shape[:2], 2, 2, 8)
        logits = torch.einsum("BTKGH,BSKH->BKGTS", grouped, k)
        if self.fault != "soft-cap":
            logits = 2.5 * torch.tanh(logits / 2.5)
        rows, columns = torch.arange(length).unsqueeze(1), torch.arange(length).unsqueeze(0)
        mask = columns <= rows
        if self.window:
            mask = mask & (columns > rows - self.window - (1 if self.fault == "window" else 0))
        probs = torch.where(mask, logits, torch.full_like(logits, -2.3819763e38)).softmax(dim=-1)
        encoded = torch.einsum("BKGTS,BSKH->BTKGH", probs, v)
        if self.fault == "head order":
            encoded = encoded.transpose(2, 3)
        return torch.einsum("BTNH,NHD->BTD", encoded.reshape(*q.shape[:2], 4, 8), self.attn_vec_einsum)


class GemmaJaxBlock(nn.Module):
    def __init__(self, a, fault):
        super().__init__()
        self.fault, inner = fault, {"epsilon": fault, "norm weight": fault, "cast": fault}.get(fault, "")
        self.pre_attention_norm = GemmaJaxNorm(a.input_layernorm.weight, inner)
        self.attn = GemmaJaxAttention(a.self_attn, fault)
        self.post_attention_norm = GemmaJaxNorm(a.post_attention_layernorm.weight, "")
        self.pre_ffw_norm = GemmaJaxNorm(a.pre_feedforward_layernorm.weight, "")
        self.post_ffw_norm = GemmaJaxNorm(a.post_feedforward_layernorm.weight, "")
        self.gating_einsum = nn.Parameter(torch.stack([a.mlp.gate_proj.weight.detach(), a.mlp.up_proj.weight.detach()]).mT.clone())
        self.linear = nn.Parameter(a.mlp.down_proj.weight.detach().T.clone())

    def forward(self, x):
        y = self.attn(self.pre_attention_norm(x))
        x = x + (y if self.fault == "norm placement" else self.post_attention_norm(y))
        gate, up = torch.einsum("BTD,CDF->CBTF", self.pre_ffw_norm(x), self.gating_einsum)
        gate = F.gelu(gate) if self.fault == "activation" else F.gelu(gate, approximate="tanh")
        return x + self.post_ffw_norm((gate * up) @ self.linear)


class GemmaPort(nn.Module):
    def __init__(self, a, fault="", at=-1):
        super().__init__()
        self.fault, at = fault, at % len(a.layers)
        self.input_embedding = nn.Parameter(a.embed_tokens.weight.detach().clone())
        self.blocks = nn.ModuleList(GemmaJaxBlock(old, fault if i == at else "") for i, old in enumerate(a.layers))
        self.final_norm = GemmaJaxNorm(a.norm.weight, "")
        if fault == "tied head":
            self.decode = nn.Parameter(torch.randn(53, 28) * 0.2)

    def forward(self, tokens):
        x = self.input_embedding[tokens]
        if self.fault != "embedding scale":
            x = x * 28**0.5
        for block in self.blocks:
            x = block(x)
        table = self.decode if self.fault == "tied head" else self.input_embedding
        logits = self.final_norm(x) @ table.T
        return logits if self.fault == "output cap" else torch.tanh(logits / 6.0) * 6.0


# Mixture of experts: a list of experts that each get their tokens, against stacked weights that compute all of them.


class MoeNorm(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        return F.rms_norm(x, (x.shape[-1],), self.weight, 1e-5)


class MoeAttention(nn.Module):
    def __init__(self, dim, heads, groups, window):
        super().__init__()
        self.heads, self.groups, self.width, self.window = heads, groups, dim // heads, window
        self.q_proj, self.k_proj = nn.Linear(dim, dim, bias=False), nn.Linear(dim, groups * self.width, bias=False)
        self.v_proj, self.o_proj = nn.Linear(dim, groups * self.width, bias=False), nn.Linear(dim, dim, bias=False)
        self.rotary_emb = RotaryTable(self.width, 1e6, factor=4.0)

    def forward(self, x, start, cache):
        q, k, v = (p(x).view(*x.shape[:2], -1, self.width).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj))
        cos, sin = self.rotary_emb(x, start)
        q, k = q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin
        if start:
            k, v = torch.cat([cache[0], k], 2), torch.cat([cache[1], v], 2)
        cache[:] = [k, v]
        k, v = (t.repeat_interleave(self.heads // self.groups, 1) for t in (k, v))
        i, j = torch.arange(start, start + x.shape[1])[:, None], torch.arange(k.shape[2])[None]
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=(j <= i) & (j > i - self.window))
        return self.o_proj(y.transpose(1, 2).flatten(2))


class Expert(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.w1, self.w2, self.w3 = (nn.Linear(*s, bias=False) for s in ((dim, hidden), (hidden, dim), (dim, hidden)))

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class SparseMoe(nn.Module):
    def __init__(self, dim, hidden, experts):
        super().__init__()
        self.gate = nn.Linear(dim, experts, bias=False)
        self.experts = nn.ModuleList(Expert(dim, hidden) for _ in range(experts))

    def forward(self, x):
        flat = x.flatten(0, 1)
        weights, chosen = torch.topk(F.softmax(self.gate(flat), dim=-1), 2, dim=-1)
        weights = weights / weights.sum(-1, keepdim=True)
        out = torch.zeros_like(flat)
        for e, expert in enumerate(self.experts):
            token, slot = torch.where(chosen == e)
            out.index_add_(0, token, expert(flat[token]) * weights[token, slot, None])
        return out.view_as(x)


class MoeLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.self_attn, self.block_sparse_moe = MoeAttention(32, 4, 2, 5), SparseMoe(32, 24, 4)
        self.input_layernorm, self.post_attention_layernorm = MoeNorm(32), MoeNorm(32)

    def forward(self, x, start, cache):
        x = x + self.self_attn(self.input_layernorm(x), start, cache)
        return x + self.block_sparse_moe(self.post_attention_layernorm(x))


class Moe(nn.Module):
    def __init__(self, split=0):
        super().__init__()
        self.embed_tokens, self.layers = nn.Embedding(43, 32), nn.ModuleList(MoeLayer() for _ in range(2))
        self.norm, self.lm_head, self.split = MoeNorm(32), nn.Linear(32, 43, bias=False), split

    def read(self, ids, start, caches):
        x = self.embed_tokens(ids)
        for layer, cache in zip(self.layers, caches, strict=True):
            x = layer(x, start, cache)
        return self.lm_head(self.norm(x))

    def forward(self, ids):
        caches = [[] for _ in self.layers]
        if self.split:
            self.read(ids[:, : self.split], 0, caches)
        return self.read(ids[:, self.split :], self.split, caches)


class Routed(nn.Module):
    """All experts at all tokens, then the sum with the router's weights, which are zero for the others."""

    def __init__(self, a, fault):
        super().__init__()
        self.fault = fault
        self.router = nn.Parameter(a.gate.weight.detach().T.clone())
        self.up = nn.Parameter(torch.stack([torch.cat([e.w1.weight, e.w3.weight]) for e in a.experts]).detach().clone())
        self.down = nn.Parameter(torch.stack([e.w2.weight for e in a.experts]).detach().clone())

    def forward(self, x):
        logits = x @ self.router
        top = logits.topk(2, dim=-1)
        dense = torch.zeros_like(logits).scatter(-1, top.indices, top.values.softmax(-1))
        gate, value = torch.einsum("btd,efd->btef", x, self.up).chunk(2, -1)
        gate = gate.relu() if self.fault == "activation" else gate * torch.sigmoid(gate)
        return torch.einsum("btef,edf,bte->btd", gate * value, self.down, dense)


class MoeBlock(nn.Module):
    def __init__(self, a, fault):
        super().__init__()
        self.fault, old = fault, a.self_attn
        self.width, self.window = old.width, old.window + (1 if fault == "window" else 0)
        q, k = (self.pairs(p.weight, n, fault) for p, n in ((old.q_proj, old.heads), (old.k_proj, old.groups)))
        self.wq, self.wk = put(nn.Linear(32, 32, bias=False), weight=q), put(nn.Linear(32, 16, bias=False), weight=k)
        self.wv, self.wo = (put(nn.Linear(32, p.weight.shape[0], bias=False), weight=p.weight) for p in (old.v_proj, old.o_proj))
        self.attention_norm = RootMeanSquare(a.input_layernorm.weight, fault=fault)
        self.ffn_norm = RootMeanSquare(a.post_attention_layernorm.weight)
        self.moe = Routed(a.block_sparse_moe, fault)

    @staticmethod
    def pairs(weight, heads, fault):
        """Rows for pairs of neighbours, from rows for pairs half a head apart."""
        if fault == "rope layout":
            return weight
        return weight.view(heads, 2, -1, weight.shape[1]).transpose(1, 2).reshape(weight.shape)

    def turn(self, x, start):
        exact = x.dtype if x.dtype is torch.float64 else torch.float32
        base, factor = (1e4 if self.fault == "rope base" else 1e6), (1.0 if self.fault == "rope scaling" else 4.0)
        inv = base ** -(torch.arange(0, self.width, 2, dtype=exact) / self.width)
        at = torch.arange(start, start + x.shape[1], dtype=exact) / factor
        angle = torch.einsum("t,d->td", at, inv)[:, None]
        even, odd = x[..., ::2], x[..., 1::2]
        return torch.stack((even * angle.cos() - odd * angle.sin(), even * angle.sin() + odd * angle.cos()), -1).flatten(-2)

    def attend(self, x, start, cache):
        q = self.turn(self.wq(x).unflatten(-1, (-1, self.width)), start)
        k = self.turn(self.wk(x).unflatten(-1, (-1, self.width)), start)
        v = self.wv(x).unflatten(-1, (-1, self.width))
        if cache:
            k, v = torch.cat([cache[0], k], 1), torch.cat([cache[1], v], 1)
        cache[:] = [k, v]
        if self.fault == "head order":
            k, v = k.tile(1, 1, 2, 1), v.tile(1, 1, 2, 1)
        else:
            k, v = torch.repeat_interleave(k, 2, 2), torch.repeat_interleave(v, 2, 2)
        scores = torch.einsum("bthd,bshd->bhts", q * self.width**-0.5, k)
        if self.fault == "soft-cap":
            scores = 1.5 * (scores / 1.5).tanh()
        size, total = x.shape[1], k.shape[1]
        first = 0 if self.fault == "mask alignment" else total - size
        ahead = torch.arange(total) - (torch.arange(size) + first)[:, None]
        bias = torch.zeros(size, total, dtype=x.dtype).masked_fill((ahead > 0) | (ahead <= -self.window), float("-inf"))
        return self.wo(torch.einsum("bhts,bshd->bthd", (scores + bias).softmax(-1), v).flatten(2))

    def forward(self, x, start, cache):
        r = self.attend(self.attention_norm(x), start, cache)
        h = x + r
        return h + self.moe(self.ffn_norm(h))


class MoePort(nn.Module):
    def __init__(self, a, fault="", at=-1):
        super().__init__()
        self.split, at = a.split, at % len(a.layers)
        self.tok = put(nn.Embedding(43, 32), weight=a.embed_tokens.weight)
        self.blocks = nn.ModuleList(MoeBlock(old, fault if i == at else "") for i, old in enumerate(a.layers))
        self.norm, self.output = RootMeanSquare(a.norm.weight), put(nn.Linear(32, 43, bias=False), weight=a.lm_head.weight)

    def read(self, ids, start, caches):
        x = self.tok(ids)
        for block, cache in zip(self.blocks, caches, strict=True):
            x = block(x, start, cache)
        return self.output(self.norm(x))

    def forward(self, ids):
        caches = [[] for _ in self.blocks]
        if self.split:
            self.read(ids[:, : self.split], 0, caches)
        return self.read(ids[:, self.split :], self.split, caches)
