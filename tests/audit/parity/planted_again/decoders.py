"""Causal models in two hands: a nanoGPT, grouped queries with a sliding window, ALiBi, a gated linear recurrence."""

import math

import torch
from torch import nn
from torch.nn import functional as F


class Mat(nn.Module):
    """A linear layer whose weight is stored as [in, out]."""

    def __init__(self, linear, rows=slice(None), bias=True, transposed=False):
        super().__init__()
        weight = linear.weight.detach()[rows]
        self.w = nn.Parameter((weight if transposed else weight.T).clone())
        self.b = nn.Parameter(linear.bias.detach()[rows].clone()) if bias and linear.bias is not None else None

    def forward(self, x):
        y = torch.einsum("...i,ij->...j", x, self.w)
        return y if self.b is None else self.b + y


class Std(nn.Module):
    """A LayerNorm (or RMSNorm) that is written out."""

    def __init__(self, norm, eps=None, center=True, bias=True):
        super().__init__()
        self.eps, self.center = norm.eps if eps is None else eps, center
        self.g = None if norm.weight is None else nn.Parameter(norm.weight.detach().clone())
        shift = getattr(norm, "bias", None)
        self.s = nn.Parameter(shift.detach().clone()) if shift is not None and bias else None

    def forward(self, x):
        if self.center:
            x = x - x.sum(-1, keepdim=True) / x.shape[-1]
        y = x * (x.square().mean(-1, keepdim=True) + self.eps).rsqrt()
        y = y if self.g is None else self.g * y
        return y if self.s is None else y + self.s


def stir(model):
    """Norms get weights and biases that are not one and zero."""
    for module in model.modules():
        if isinstance(module, nn.LayerNorm | nn.RMSNorm) and module.weight is not None:
            nn.init.uniform_(module.weight, 0.5, 1.5)
            if getattr(module, "bias", None) is not None:
                nn.init.normal_(module.bias, std=0.3)
    return model.eval()


# nanoGPT -------------------------------------------------------------------------------------------------------------------------


class CausalSelf(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h, self.c_attn, self.c_proj = h, nn.Linear(d, 3 * d), nn.Linear(d, d)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (y.view(b, t, self.h, -1).transpose(1, 2) for y in self.c_attn(x).split(d, -1))
        return self.c_proj(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, d))


class GptBlock(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.ln_1, self.attn, self.ln_2 = nn.LayerNorm(d), CausalSelf(d, h), nn.LayerNorm(d)
        self.fc, self.act, self.proj = nn.Linear(d, 4 * d), nn.GELU(approximate="tanh"), nn.Linear(4 * d, d)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.proj(self.act(self.fc(self.ln_2(x))))


class NanoGpt(nn.Module):
    def __init__(self, d=24, h=3, layers=3):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(41, d), nn.Embedding(16, d)
        self.h = nn.ModuleList(GptBlock(d, h) for _ in range(layers))
        self.ln_f, self.lm_head = nn.LayerNorm(d), nn.Linear(d, 41, bias=False)
        self.lm_head.weight = self.wte.weight

    def forward(self, ids):
        x = self.wte(ids) + self.wpe(torch.arange(ids.shape[1]))
        for block in self.h:
            x = block(x)
        return self.lm_head(self.ln_f(x))


class Mixer(nn.Module):
    def __init__(self, attn, fault):
        super().__init__()
        d, self.heads, self.fault = attn.c_proj.out_features, attn.h, fault
        rows = [slice(i * d, (i + 1) * d) for i in range(3)]
        if fault == "fused layout":  # the rows are read as heads of (query, key, value)
            parts = torch.arange(3 * d).view(attn.h, 3, -1)
            rows = [parts[:, i].flatten() for i in range(3)]
        self.query, self.key, self.value = (Mat(attn.c_attn, r) for r in rows)
        self.out = Mat(attn.c_proj, bias=fault != "bias")

    def forward(self, x):
        q, k, v = (f(x).unflatten(-1, (self.heads, -1)) for f in (self.query, self.key, self.value))
        scores = torch.einsum("bihc,bjhc->bhij", q / (q.shape[-1] if self.fault == "softmax scale" else q.shape[-1] ** 0.5), k)
        if self.fault != "causal":
            later = torch.ones(x.shape[1], x.shape[1]).triu(2 if self.fault == "one later" else 1).bool()
            scores = scores.masked_fill(later, -torch.inf)
        weights = scores.exp() / scores.exp().sum(-1, keepdim=True)
        return self.out(torch.einsum("bhij,bjhc->bihc", weights, v).flatten(2))


class Tier(nn.Module):
    def __init__(self, block, fault):
        super().__init__()
        self.fault = fault
        self.pre = Std(block.ln_1, eps=1e-3 if fault == "epsilon" else None)
        self.mix, self.mid = Mixer(block.attn, fault), Std(block.ln_2, bias=fault != "norm bias", center=fault != "norm kind")
        self.widen, self.narrow = Mat(block.fc), Mat(block.proj)

    def forward(self, x):
        y = self.pre(x)
        x = self.mix(y) + (y if self.fault == "residual" else x)
        u = self.widen(self.mid(x))
        if self.fault == "activation":
            return self.narrow(u * 0.5 * (1 + torch.erf(u / math.sqrt(2)))) + x
        u = self.narrow(u * torch.sigmoid(2 * math.sqrt(2 / math.pi) * (u + 0.044715 * u * u * u)))
        return u * 0.5 + x if self.fault == "scale" else u + x


class TextPort(nn.Module):
    """NanoGpt in another hand; the fault is in the tier `at`."""

    def __init__(self, a, fault="", at=-1):
        super().__init__()
        self.fault = fault
        self.words, self.places = nn.Parameter(a.wte.weight.detach().clone()), nn.Parameter(a.wpe.weight.detach().clone())
        self.tiers = nn.ModuleList(Tier(block, fault if i == at % len(a.h) else "") for i, block in enumerate(a.h))
        self.last, self.drop = Std(a.ln_f), nn.Dropout(0.2 if fault == "mode" else 0.0)
        self.unembed = nn.Parameter(torch.randn(self.words.shape) if fault == "tied head" else self.words.detach().clone())

    def forward(self, ids):
        t = ids.shape[1]
        x = self.places[1 : t + 1] if self.fault == "position offset" else self.places[:t]
        x = x + self.words[ids] * (self.words.shape[1] ** 0.5 if self.fault == "embedding scale" else 1)
        for tier in self.tiers:
            x = tier(x)
        return self.drop(self.last(x)) @ self.unembed.T


# Grouped queries, sliding window, rotary ------------------------------------------------------------------------------------------


class WindowAttention(nn.Module):
    """Six query heads on two key heads; each position sees itself and the three before."""

    def __init__(self, d=36):
        super().__init__()
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(i, o, bias=False) for i, o in ((d, 48), (d, 16), (d, 16), (48, d)))

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = (f(x).view(b, t, -1, 8).transpose(1, 2) for f in (self.wq, self.wk, self.wv))
        angle = torch.arange(t, dtype=x.dtype)[:, None] / 10000 ** (torch.arange(0, 8, 2, dtype=x.dtype) / 8)
        cos, sin = torch.cat([angle, angle], -1).cos(), torch.cat([angle, angle], -1).sin()
        q, k = (y * cos + torch.cat([-y[..., 4:], y[..., :4]], -1) * sin for y in (q, k))
        k, v = k.repeat_interleave(3, 1), v.repeat_interleave(3, 1)
        gap = torch.arange(t)[:, None] - torch.arange(t)
        scores = 30 * torch.tanh(q @ k.transpose(-1, -2) / 8**0.5 / 30)
        scores = scores.masked_fill((gap < 0) | (gap > 3), -torch.inf)
        return self.wo((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


class WindowBlock(nn.Module):
    def __init__(self, d=36):
        super().__init__()
        self.norm1, self.attention, self.norm2 = nn.RMSNorm(d, eps=1e-6), WindowAttention(d), nn.RMSNorm(d, eps=1e-6)
        self.gate, self.up, self.down = (nn.Linear(i, o, bias=False) for i, o in ((d, 64), (d, 64), (64, d)))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class WindowModel(nn.Module):
    def __init__(self, d=36, layers=2):
        super().__init__()
        self.embed, self.blocks = nn.Embedding(53, d), nn.ModuleList(WindowBlock(d) for _ in range(layers))
        self.norm, self.head = nn.RMSNorm(d, eps=1e-6), nn.Linear(d, 53, bias=False)

    def forward(self, ids):
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x)
        return 4 * torch.tanh(self.head(self.norm(x)) / 4)


class Sliding(nn.Module):
    """The same with a fused projection, grouped einsums and rotations of complex pairs."""

    def __init__(self, attention, fault):
        super().__init__()
        self.fault = fault
        fused = torch.cat([attention.wq.weight, attention.wk.weight, attention.wv.weight]).detach()
        self.into, self.back = nn.Parameter(fused.clone()), Mat(attention.wo)

    def turn(self, y):
        """y: [b, t, ..., 8], rotated by its position."""
        f, t = self.fault, y.shape[1]
        rates = torch.arange(4, dtype=y.dtype) / (5 if f == "rope width" else 4)
        rates = (500.0 if f == "rope base" else 10000.0) ** -rates
        place = torch.arange(t, dtype=y.dtype) + (1 if f == "rope offset" else 0)
        place = place / 2 if f == "rope scaling" else -place if f == "rope direction" else place
        angle = torch.outer(place, rates).view(1, t, *[1] * (y.ndim - 3), 4)
        first, second = (y[..., ::2], y[..., 1::2]) if f == "rope layout" else y.split(4, -1)
        first, second = first * angle.cos() - second * angle.sin(), second * angle.cos() + first * angle.sin()
        return torch.stack([first, second], -1).flatten(-2) if f == "rope layout" else torch.cat([first, second], -1)

    def forward(self, x):
        t, f = x.shape[1], self.fault
        q, k, v = (x @ self.into.T).split([48, 16, 16], -1)
        q = q.unflatten(-1, (3, 2, 8)).transpose(2, 3) if f == "head order" else q.unflatten(-1, (2, 3, 8))
        k, v = k.unflatten(-1, (2, 8)), v.unflatten(-1, (2, 8))
        if f != "rope":
            turned = self.turn(q)
            q, k = turned, (k if f == "keys not turned" else self.turn(k))
        scores = torch.einsum("bigrc,bjgc->bgrij", q, k) / math.sqrt(8)
        if f != "soft-cap":
            scores = torch.tanh(scores / 30) * 30
        seen = torch.ones(t, t).tril().triu(-4 if f == "window" else -3)
        y = torch.einsum("bgrij,bjgc->bigrc", torch.softmax(scores + torch.log(seen).to(scores.dtype), -1), v)
        y = y.transpose(2, 3) if f == "head order" else y
        return self.back(y.flatten(2))


class Rung(nn.Module):
    def __init__(self, block, fault):
        super().__init__()
        self.fault = fault
        self.n1, self.look = Std(block.norm1, center=False), Sliding(block.attention, fault)
        self.n2 = Std(block.norm2, center=fault == "norm kind", eps=1e-2 if fault == "epsilon" else None)
        if fault == "norm weight":
            nn.init.ones_(self.n2.g)
        pair = (block.up, block.gate) if fault == "exchanged" else (block.gate, block.up)
        self.opening, self.content, self.shut = Mat(pair[0]), Mat(pair[1]), Mat(block.down)

    def forward(self, x):
        x = self.look(self.n1(x)) + x
        y = self.n2(x)
        return self.shut(self.content(y) * (lambda g: g * torch.sigmoid(g))(self.opening(y))) + x


class WindowPort(nn.Module):
    def __init__(self, a, fault="", at=-1):
        super().__init__()
        self.cap, self.table = fault != "output cap", nn.Parameter(a.embed.weight.detach().clone())
        self.rungs = nn.ModuleList(Rung(block, fault if i == at % len(a.blocks) else "") for i, block in enumerate(a.blocks))
        self.end, self.logits = Std(a.norm, center=False), Mat(a.head)

    def forward(self, ids):
        x = F.embedding(ids, self.table)
        for rung in self.rungs:
            x = rung(x)
        y = self.logits(self.end(x))
        return torch.tanh(y * 0.25) * 4 if self.cap else y


# ALiBi ----------------------------------------------------------------------------------------------------------------------------


class AlibiAttention(nn.Module):
    """Scores fall with the distance; only the last `queries` positions ask, if it is given."""

    def __init__(self, d=32, h=4, queries=None):
        super().__init__()
        self.h, self.queries, self.qkv, self.o = h, queries, nn.Linear(d, 3 * d), nn.Linear(d, d)

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.h, -1).permute(2, 0, 3, 1, 4)
        gap = torch.arange(t)[:, None] - torch.arange(t)
        slopes = 2.0 ** -torch.arange(8 / self.h, 8.5, 8 / self.h)
        bias = (-slopes[:, None, None] * gap).masked_fill(gap < 0, -torch.inf).to(x.dtype)
        if self.queries:
            q, bias = q[:, :, -self.queries :], bias[:, -self.queries :]
        return self.o(F.scaled_dot_product_attention(q, k, v, attn_mask=bias).transpose(1, 2).flatten(2))


class AlibiModel(nn.Module):
    """Two layers, of which the second one asks for the last three positions."""

    def __init__(self, d=32):
        super().__init__()
        self.read, self.first, self.second = nn.Linear(6, d), AlibiAttention(d), AlibiAttention(d, queries=3)
        self.norm, self.out = nn.LayerNorm(d), nn.Linear(d, 5)

    def forward(self, x):
        x = self.read(x)
        x = x + self.first(x)
        return self.out(self.norm(x[:, -3:] + self.second(x)))


class Slanted(nn.Module):
    def __init__(self, attention, fault):
        super().__init__()
        d, self.heads, self.queries, self.fault = attention.o.in_features, attention.h, attention.queries, fault
        self.q, self.k, self.v = (Mat(attention.qkv, slice(i * d, (i + 1) * d)) for i in range(3))
        self.o = Mat(attention.o)

    def forward(self, x):
        asked = x[:, -self.queries :] if self.queries else x
        q, k, v = (f(y).unflatten(-1, (self.heads, -1)).movedim(2, 1) for f, y in ((self.q, asked), (self.k, x), (self.v, x)))
        n, t = asked.shape[1], x.shape[1]
        first = 0 if self.fault == "mask alignment" else t - n
        gap = first + torch.arange(n)[:, None] - torch.arange(t)
        far = t - n + torch.arange(n)[:, None] - torch.arange(t)
        steep = torch.tensor([2.0 ** (-(8 if self.fault != "slopes" else 4) * (i + 1) / self.heads) for i in range(self.heads)])
        scores = (q * q.shape[-1] ** -0.5) @ k.mT
        if self.fault != "no position bias":
            scores = scores - (steep.view(-1, 1, 1) * far).to(x.dtype)
        weights = torch.where(gap >= 0, scores, -torch.inf).softmax(-1)
        return self.o((weights @ v).movedim(1, 2).flatten(2))


class AlibiPort(nn.Module):
    def __init__(self, a, fault="", at=-1):
        super().__init__()
        self.inlet, self.lower, self.upper = Mat(a.read), Slanted(a.first, ""), Slanted(a.second, fault)
        self.n, self.outlet = Std(a.norm), Mat(a.out)

    def forward(self, x):
        x = self.inlet(x)
        x = self.lower(x) + x
        return self.outlet(self.n(self.upper(x) + x.narrow(1, x.shape[1] - 3, 3)))


# Gated linear recurrence ----------------------------------------------------------------------------------------------------------


class Recurrence(nn.Module):
    """h = a h + (1 - a) v, with a gate a per position and channel, step by step."""

    def __init__(self, d=20):
        super().__init__()
        self.norm, self.decay, self.value, self.gate, self.out = (nn.LayerNorm(d), *(nn.Linear(d, d) for _ in range(4)))

    def forward(self, x):
        y = self.norm(x)
        a, v, h, hs = torch.sigmoid(self.decay(y)), self.value(y), torch.zeros_like(x[:, 0]), []
        for t in range(x.shape[1]):
            h = a[:, t] * h + (1 - a[:, t]) * v[:, t]
            hs.append(h)
        return x + self.out(torch.stack(hs, 1) * F.silu(self.gate(y)))


class RecurrentModel(nn.Module):
    def __init__(self, d=20):
        super().__init__()
        self.into, self.cells, self.out = nn.Linear(7, d), nn.ModuleList(Recurrence(d) for _ in range(3)), nn.Linear(d, 4)

    def forward(self, x):
        x = self.into(x)
        for cell in self.cells:
            x = cell(x)
        return self.out(x)


class Scan(nn.Module):
    """All positions at once: products of decays from exponents of sums."""

    def __init__(self, cell, fault):
        super().__init__()
        self.fault, self.n = fault, Std(cell.norm)
        self.forget, self.content = Mat(cell.decay, bias=fault != "bias"), Mat(cell.value)
        self.open, self.back = Mat(cell.gate), Mat(cell.out, transposed=fault == "transposed")

    def forward(self, x):
        y = self.n(x)
        raw = self.forget(y)
        logs = F.logsigmoid(raw)
        fresh = torch.sqrt(1 - torch.exp(2 * logs)) if self.fault == "other input gate" else torch.sigmoid(-raw)
        total = logs.cumsum(1)
        products = torch.exp(total[:, :, None] - total[:, None])
        products = products * torch.ones(x.shape[1], x.shape[1], dtype=x.dtype).tril()[None, :, :, None]
        h = torch.einsum("bijc,bjc->bic", products, fresh * self.content(y))
        z = self.open(y)
        y = self.back(h * (F.gelu(z) if self.fault == "activation" else z / (1 + torch.exp(-z))))
        return y if self.fault == "residual" else y + x


class RecurrentPort(nn.Module):
    def __init__(self, a, fault="", at=-1):
        super().__init__()
        self.start, self.end = Mat(a.into), Mat(a.out)
        self.scans = nn.ModuleList(Scan(cell, fault if i == at % 3 else "") for i, cell in enumerate(a.cells))

    def forward(self, x):
        x = self.start(x)
        for scan in self.scans:
            x = scan(x)
        return self.end(x)
