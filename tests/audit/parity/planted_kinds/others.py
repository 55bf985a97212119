"""Experts, a gated feed-forward, an embedding that is read twice, and patches, each in two hands."""

import torch
from torch import nn
from torch.nn import functional as F

from ..planted_third.start import put

DIM, HIDDEN, EXPERTS = 20, 28, 4


class Crew(nn.Module):
    """Experts as a list: each reads the tokens whose largest score is its own."""

    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(DIM, EXPERTS)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(DIM, HIDDEN), nn.GELU(), nn.Linear(HIDDEN, DIM)) for _ in range(EXPERTS)
        )

    def forward(self, x):
        flat = x.reshape(-1, DIM)
        best = self.gate(flat).softmax(-1).max(-1)
        out = torch.zeros_like(flat)
        for i, expert in enumerate(self.experts):
            mine = (best.indices == i).nonzero().squeeze(-1)
            out = out.index_copy(0, mine, expert(flat[mine]) * best.values[mine, None])
        return out.view(x.shape)


class Banked(nn.Module):
    """All experts at all tokens as batched products [E, B·T, D]."""

    def __init__(self, a, fault):
        super().__init__()
        self.fault, one = fault, a.experts
        self.w_gate = put(nn.Linear(DIM, EXPERTS), weight=a.gate.weight, bias=a.gate.bias)
        self.w1, self.w2 = (nn.Parameter(torch.stack([e[i].weight.detach().T for e in one]).clone()) for i in (0, 2))
        self.b1, self.b2 = (nn.Parameter(torch.stack([e[i].bias.detach() for e in one])[:, None].clone()) for i in (0, 2))

    def forward(self, x):
        flat = x.flatten(0, 1)
        weights = self.w_gate(flat).softmax(-1)
        chosen = F.one_hot(weights.argmax(-1), EXPERTS) * weights
        h = torch.baddbmm(self.b1, flat.expand(EXPERTS, -1, -1), self.w1)
        h = F.gelu(h, approximate="tanh") if self.fault == "activation" else F.gelu(h)
        y = torch.bmm(h, self.w2)
        y = y if self.fault == "bias of the experts" else y + self.b2
        return torch.einsum("end,ne->nd", y, chosen).view(x.shape)


class Bank(nn.Module):
    """The stacked form as A: two experts a token, gated, with biases."""

    def __init__(self):
        super().__init__()
        self.router = nn.Linear(DIM, EXPERTS, bias=False)
        self.up, self.gated = (nn.Parameter(torch.zeros(EXPERTS, HIDDEN, DIM)) for _ in range(2))
        self.down, self.bias_up = nn.Parameter(torch.zeros(EXPERTS, DIM, HIDDEN)), nn.Parameter(torch.zeros(EXPERTS, HIDDEN))

    def forward(self, x):
        top = self.router(x).topk(2, dim=-1)
        weights = torch.zeros(*x.shape[:2], EXPERTS, dtype=x.dtype).scatter(-1, top.indices, top.values.softmax(-1))
        h = torch.einsum("btd,ehd->bteh", x, self.up) + self.bias_up
        h = h * torch.sigmoid(torch.einsum("btd,ehd->bteh", x, self.gated))
        return torch.einsum("bteh,edh,bte->btd", h, self.down, weights)


class Loop(nn.Module):
    def __init__(self, a, fault):
        super().__init__()
        self.fault, self.choose = fault, put(nn.Linear(DIM, EXPERTS, bias=False), weight=a.router.weight)
        self.ups = nn.ModuleList(put(nn.Linear(DIM, HIDDEN), weight=w, bias=b) for w, b in zip(a.up, a.bias_up, strict=True))
        self.gates = nn.ModuleList(put(nn.Linear(DIM, HIDDEN, bias=False), weight=w) for w in a.gated)
        self.downs = nn.ModuleList(put(nn.Linear(HIDDEN, DIM, bias=False), weight=w) for w in a.down)

    def forward(self, x):
        flat = x.flatten(0, 1)
        scores, which = self.choose(flat).topk(2, dim=-1)
        scores, out = scores.softmax(-1), torch.zeros_like(flat)
        for e in range(EXPERTS):
            token, slot = torch.where(which == e)
            up = F.linear(flat[token], self.ups[e].weight, None if self.fault == "bias of the experts" else self.ups[e].bias)
            gate = self.gates[e](flat[token])
            h = up * (gate.tanh() if self.fault == "activation" else gate.sigmoid())
            out = out.index_add(0, token, self.downs[e](h) * scores[token, slot, None])
        return out.view(x.shape)


class Gated(nn.Module):
    """The feed-forward of a layer: one projection for what is gated and its gate."""

    def __init__(self):
        super().__init__()
        self.w12, self.w3 = nn.Linear(DIM, 2 * HIDDEN), nn.Linear(HIDDEN, DIM)

    def forward(self, x):
        value, gate = self.w12(x).chunk(2, dim=-1)
        return self.w3(F.silu(gate) * value)


class GatedApart(nn.Module):
    def __init__(self, a, fault):
        super().__init__()
        (w, g), (b, c) = a.w12.weight.chunk(2), a.w12.bias.chunk(2)
        self.gate_proj = put(nn.Linear(DIM, HIDDEN), weight=g, bias=c)
        self.up_proj = put(nn.Linear(DIM, HIDDEN, bias=fault != "bias"), weight=w, **({} if fault == "bias" else {"bias": b}))
        self.down_proj = put(nn.Linear(HIDDEN, DIM), weight=a.w3.weight, bias=a.w3.bias)

    def forward(self, x):
        return self.down_proj(self.up_proj(x) * F.silu(self.gate_proj(x)))


class Residuals(nn.Module):
    """Two feed-forwards of either kind, each behind a norm."""

    def __init__(self, parts, norms=None):
        super().__init__()
        self.parts = nn.ModuleList(parts)
        self.norms = nn.ModuleList(norms or [nn.LayerNorm(DIM) for _ in parts])
        if norms:
            self.norms = nn.ModuleList(put(nn.LayerNorm(DIM), weight=n.weight, bias=n.bias) for n in norms)

    def forward(self, x):
        for norm, part in zip(self.norms, self.parts, strict=True):
            x = x + part(norm(x))
        return x


class Translator(nn.Module):
    """One table for source and target, and rows times the root of the width as "Attention is all you need" has them."""

    def __init__(self):
        super().__init__()
        self.table, self.spots = nn.Embedding(31, DIM), nn.Embedding(12, DIM)
        self.first, self.second, self.out = nn.Linear(DIM, DIM), nn.Linear(DIM, DIM), nn.Linear(DIM, 31)
        self.norm = nn.LayerNorm(DIM)

    def embed(self, ids):
        return self.table(ids) * DIM**0.5 + self.spots(torch.arange(ids.shape[1]))

    def forward(self, source, target):
        memory = self.norm(torch.tanh(self.first(self.embed(source))))
        y = self.second(self.embed(target))
        weights = (y @ memory.mT / DIM**0.5).softmax(-1)
        return self.out(y + weights @ memory)


class TranslatorPort(nn.Module):
    """fault "embedding scale": in both; "embedding scale of the target": in one."""

    def __init__(self, a, fault):
        super().__init__()
        self.fault = fault
        self.words, self.at = (nn.Parameter(t.weight.detach().clone()) for t in (a.table, a.spots))
        self.norm = put(nn.LayerNorm(DIM), weight=a.norm.weight, bias=a.norm.bias)
        self.w = nn.ParameterList(p.weight.detach().T.clone() for p in (a.first, a.second, a.out))
        self.b = nn.ParameterList(p.bias.detach().clone() for p in (a.first, a.second, a.out))

    def embed(self, ids, wrong):
        x = self.words[ids]
        x = x if wrong else x * torch.tensor(DIM, dtype=x.dtype).sqrt()
        return x + self.at[: ids.shape[1]]

    def forward(self, source, target):
        x = self.embed(source, self.fault == "embedding scale")
        memory = self.norm((x @ self.w[0] + self.b[0]).tanh())
        y = self.embed(target, self.fault.startswith("embedding scale")) @ self.w[1] + self.b[1]
        y = y + F.scaled_dot_product_attention(y[:, None], memory[:, None], memory[:, None])[:, 0]
        return y @ self.w[2] + self.b[2]


class Spectrogram(nn.Module):
    """Patches of a picture of sound by a convolution, row by row."""

    def __init__(self):
        super().__init__()
        self.patches, self.spots = nn.Conv2d(1, DIM, (3, 2), (3, 2)), nn.Parameter(torch.zeros(1, 12, DIM))
        self.norm, self.mlp, self.head = nn.LayerNorm(DIM), nn.Linear(DIM, DIM), nn.Linear(12 * DIM, 5)

    def forward(self, x):
        x = self.patches(x).flatten(2).mT + self.spots
        x = x + self.mlp(self.norm(x)).tanh()
        return self.head(x.flatten(1))


class SpectrogramPort(nn.Module):
    def __init__(self, a, fault):
        super().__init__()
        self.fault = fault
        self.w, self.b = nn.Parameter(a.patches.weight.detach().flatten(1).T.clone()), nn.Parameter(a.patches.bias.detach().clone())
        self.places = nn.Parameter(a.spots.detach()[0].clone())
        self.ln, self.mlp = (nn.LayerNorm(DIM), nn.Linear(DIM, DIM))
        put(self.ln, weight=a.norm.weight, bias=a.norm.bias)
        put(self.mlp, weight=a.mlp.weight, bias=a.mlp.bias)
        self.last = put(nn.Linear(12 * DIM, 5), weight=a.head.weight, bias=a.head.bias)

    def forward(self, x):
        cut = x.squeeze(1).unfold(1, 3, 3).unfold(2, 2, 2)
        cut = cut.transpose(1, 2) if self.fault == "order of patches" else cut
        x = cut.reshape(len(x), 12, 6) @ self.w + self.b + self.places
        x = x + torch.tanh(self.mlp(self.ln(x)))
        return self.last(x.reshape(len(x), -1))


class Frames(nn.Module):
    """Two frames of sound become one token."""

    def __init__(self):
        super().__init__()
        self.stem, self.norm, self.head = nn.Linear(14, DIM), nn.LayerNorm(DIM), nn.Linear(DIM, 6)

    def forward(self, x):
        x = self.stem(x.reshape(len(x), -1, 14))
        return self.head(self.norm(F.gelu(x)).mean(1))


class FramesPort(nn.Module):
    def __init__(self, a, fault):
        super().__init__()
        self.fault = fault
        self.w, self.b = nn.Parameter(a.stem.weight.detach().clone()), nn.Parameter(a.stem.bias.detach().clone())
        self.ln = put(nn.LayerNorm(DIM), weight=a.norm.weight, bias=a.norm.bias)
        self.out = put(nn.Linear(DIM, 6), weight=a.head.weight, bias=a.head.bias)

    def forward(self, x):
        pairs = x.unflatten(1, (-1, 2))
        pairs = pairs.mT if self.fault == "order in a token" else pairs
        x = F.linear(pairs.flatten(2), self.w, self.b)
        return self.out(self.ln(F.gelu(x)).mean(dim=1))
