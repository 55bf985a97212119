"""Other models in two hands: encoder-decoder, ViT with a convolution stem, experts, a diffusion block, BERT with segments."""

import math

import torch
from torch import nn
from torch.nn import functional as F

from .decoders import Mat, Std

# Encoder and decoder --------------------------------------------------------------------------------------------------------------


class Attend(nn.Module):
    def __init__(self, d=24, h=4):
        super().__init__()
        self.h, self.q, self.k, self.v, self.o = h, *(nn.Linear(d, d) for _ in range(4))

    def forward(self, x, y, keep=None, causal=False):
        q, k, v = (f(z).unflatten(-1, (self.h, -1)).transpose(1, 2) for f, z in ((self.q, x), (self.k, y), (self.v, y)))
        mask = None if keep is None else keep[:, None, None]
        return self.o(F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal).transpose(1, 2).flatten(2))


class Encode(nn.Module):
    def __init__(self, d=24):
        super().__init__()
        self.norm1, self.attn, self.norm2 = nn.LayerNorm(d), Attend(d), nn.LayerNorm(d)
        self.ff = nn.Sequential(nn.Linear(d, 48), nn.ReLU(), nn.Linear(48, d))

    def forward(self, x, keep):
        y = self.norm1(x)
        x = x + self.attn(y, y, keep)
        return x + self.ff(self.norm2(x))


class Decode(nn.Module):
    def __init__(self, d=24):
        super().__init__()
        self.norm1, self.self_attn, self.norm2, self.cross = nn.LayerNorm(d), Attend(d), nn.LayerNorm(d), Attend(d)
        self.norm3, self.ff = nn.LayerNorm(d), nn.Sequential(nn.Linear(d, 48), nn.ReLU(), nn.Linear(48, d))

    def forward(self, x, memory, keep):
        y = self.norm1(x)
        x = x + self.self_attn(y, y, causal=True)
        x = x + self.cross(self.norm2(x), memory, keep)
        return x + self.ff(self.norm3(x))


class Translate(nn.Module):
    def __init__(self, d=24):
        super().__init__()
        self.embed, self.encoder = nn.Embedding(31, d), nn.ModuleList(Encode(d) for _ in range(2))
        self.decoder, self.norm, self.head = nn.ModuleList(Decode(d) for _ in range(2)), nn.LayerNorm(d), nn.Linear(d, 31)

    def forward(self, source, target, keep):
        m, x = self.embed(source), self.embed(target)
        for layer in self.encoder:
            m = layer(m, keep)
        m = self.norm(m)
        for layer in self.decoder:
            x = layer(x, m, keep)
        return self.head(x)


class Heed(nn.Module):
    def __init__(self, a, fault=""):
        super().__init__()
        self.n, self.fault = a.h, fault
        self.ask, self.tell, self.say, self.close = (Mat(f) for f in (a.q, a.k, a.v, a.o))

    def forward(self, x, y, keep=None, causal=False):
        values = x if self.fault == "values of the target" else y
        q, k, v = (f(z).unflatten(-1, (self.n, -1)) for f, z in ((self.ask, x), (self.tell, y), (self.say, values)))
        s = torch.einsum("bihc,bjhc->bijh", q, k) * (q.shape[-1] ** -0.5)
        if keep is not None and self.fault != "mask":
            s = s - 1e9 * (~keep)[:, None, :, None].to(s.dtype)
        if causal and self.fault != "causal":
            s = s.masked_fill(torch.arange(s.shape[1])[:, None, None] < torch.arange(s.shape[2])[:, None], -1e9)
        return self.close(torch.einsum("bijh,bjhc->bihc", s.softmax(1 if self.fault == "softmax axis" else 2), v).flatten(2))


class Step(nn.Module):
    def __init__(self, a, fault=""):
        super().__init__()
        two = hasattr(a, "cross")
        self.fault, self.n_self, self.own = (
            fault,
            Std(a.norm1),
            Heed(a.self_attn if two else a.attn, fault if fault == "causal" else ""),
        )
        self.n_cross, self.other = (Std(a.norm2), Heed(a.cross, fault)) if two else (None, None)
        self.n_ff, self.wide, self.slim = Std(a.norm3 if two else a.norm2), Mat(a.ff[0]), Mat(a.ff[2])

    def forward(self, x, keep=None, memory=None):
        y = self.n_self(x)
        x = self.own(y, y, keep if memory is None else None, memory is not None) + x
        if memory is not None:
            z = x if self.fault == "norm placement" else self.n_cross(x)
            x = self.other(z, memory, keep) + x
        u = self.wide(self.n_ff(x))
        u = F.gelu(u) if self.fault == "activation" else u.clamp(min=0)
        return self.slim(u) + x


class TranslatePort(nn.Module):
    def __init__(self, a, fault="", at=-1):
        super().__init__()
        self.fault, self.table = fault, nn.Parameter(a.embed.weight.detach().clone())
        self.up = nn.ModuleList(Step(layer) for layer in a.encoder)
        self.down = nn.ModuleList(Step(layer, fault if i == at % 2 else "") for i, layer in enumerate(a.decoder))
        self.n, self.words = Std(a.norm), Mat(a.head)

    def forward(self, source, target, keep):
        m, x = self.table[source], self.table[target]
        for step in self.up:
            m = step(m, keep)
        m = m if self.fault == "memory without norm" else self.n(m)
        for step in self.down:
            x = step(x, keep, m)
        return self.words(x)


# ViT ------------------------------------------------------------------------------------------------------------------------------


class VitBlock(nn.Module):
    def __init__(self, d=24):
        super().__init__()
        self.norm1, self.attn, self.norm2 = nn.LayerNorm(d, eps=1e-6), Attend(d), nn.LayerNorm(d, eps=1e-6)
        self.mlp, self.ls = nn.Sequential(nn.Linear(d, 60), nn.GELU(), nn.Linear(60, d)), nn.Parameter(torch.rand(d) + 0.2)

    def forward(self, x):
        y = self.norm1(x)
        x = x + self.attn(y, y)
        return x + self.ls * self.mlp(self.norm2(x))


class ConvVit(nn.Module):
    """Two convolutions, a place per cell, blocks, a mean over the cells."""

    def __init__(self, d=24):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 12, 3, 2, 1), nn.GELU(), nn.Conv2d(12, d, 3, 2, 1))
        self.pos, self.blocks = nn.Parameter(torch.randn(1, 16, d)), nn.ModuleList(VitBlock(d) for _ in range(2))
        self.norm, self.head = nn.LayerNorm(d, eps=1e-6), nn.Linear(d, 9)

    def forward(self, image):
        x = self.stem(image).flatten(2).transpose(1, 2) + self.pos
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x).mean(1))


class Sheet(nn.Module):
    def __init__(self, a, fault):
        super().__init__()
        self.fault, self.na, self.nb = fault, Std(a.norm1), Std(a.norm2, eps=1e-2 if fault == "epsilon" else None)
        self.look, self.wide, self.slim = Heed(a.attn, fault), Mat(a.mlp[0]), Mat(a.mlp[2], bias=fault != "bias")
        self.amount = nn.Parameter(a.ls.detach().clone())

    def forward(self, x):
        y = self.na(x)
        x = self.look(y, y) + x
        u = self.wide(self.nb(x))
        u = self.slim(F.gelu(u, approximate="tanh") if self.fault == "activation" else u * 0.5 * (1 + torch.erf(u / math.sqrt(2))))
        return (u if self.fault == "no layer scale" else u * self.amount) + x


class VitPortAgain(nn.Module):
    def __init__(self, a, fault="", at=-1):
        super().__init__()
        parts = (a.stem[0].weight, a.stem[2].weight, a.stem[0].bias, a.stem[2].bias)
        self.fault, (self.c1, self.c2, self.b1, self.b2) = fault, (nn.Parameter(p.detach().clone()) for p in parts)
        if fault == "stem bias":
            self.b2 = None
        place = a.pos.detach().view(4, 4, -1)
        self.place = nn.Parameter((place.transpose(0, 1) if fault == "weights" else place).clone())
        self.sheets = nn.ModuleList(Sheet(block, fault if i == at % 2 else "") for i, block in enumerate(a.blocks))
        self.n, self.classes = Std(a.norm), Mat(a.head)

    def forward(self, image):
        y = F.gelu(F.conv2d(image, self.c1, self.b1, stride=2, padding=1))
        x = F.conv2d(y, self.c2, self.b2, stride=2, padding=1).permute(0, 2, 3, 1) + self.place
        x = x.reshape(x.shape[0], 16, -1)
        for sheet in self.sheets:
            x = sheet(x)
        x = self.n(x)
        return self.classes(x.amax(1) if self.fault == "maximum" else x.sum(1) / 16)


# Experts --------------------------------------------------------------------------------------------------------------------------


class Expert(nn.Module):
    def __init__(self, d=18):
        super().__init__()
        self.up, self.down = nn.Linear(d, 30), nn.Linear(30, d)

    def forward(self, x):
        return self.down(F.silu(self.up(x)))


class Experts(nn.Module):
    """The two best of four experts, weighted by their renormalized probabilities."""

    def __init__(self, d=18):
        super().__init__()
        self.norm, self.router, self.experts = nn.LayerNorm(d), nn.Linear(d, 4), nn.ModuleList(Expert(d) for _ in range(4))

    def forward(self, x):
        y = self.norm(x)
        weight, index = self.router(y).softmax(-1).topk(2, -1)
        weight = weight / weight.sum(-1, keepdim=True)
        full = torch.zeros(*x.shape[:-1], 4, dtype=x.dtype).scatter(-1, index, weight)
        return x + sum(full[..., i : i + 1] * expert(y) for i, expert in enumerate(self.experts))


class ExpertModel(nn.Module):
    def __init__(self, d=18):
        super().__init__()
        self.into, self.layers, self.out = nn.Linear(5, d), nn.ModuleList(Experts(d) for _ in range(2)), nn.Linear(d, 3)

    def forward(self, x):
        x = self.into(x)
        for layer in self.layers:
            x = layer(x)
        return self.out(x)


class Crew(nn.Module):
    """All experts in stacked weights; the softmax is over the two best scores."""

    def __init__(self, a, fault):
        super().__init__()
        self.fault, self.n, self.choose = fault, Std(a.norm), Mat(a.router)
        order = [0, 1, 3, 2] if fault == "weights" else [0, 1, 2, 3]
        stack = lambda name, part: nn.Parameter(torch.stack([getattr(getattr(a.experts[i], name), part).detach() for i in order]))  # noqa: E731
        self.w1, self.b1, self.w2, self.b2 = (
            stack("up", "weight"),
            stack("up", "bias"),
            stack("down", "weight"),
            stack("down", "bias"),
        )

    def forward(self, x):
        y = self.n(x)
        score = self.choose(y)
        if self.fault == "softmax axis":
            score = score.softmax(1).log()
        best = score.topk(2, -1).values[..., 1:]
        kept = score.masked_fill(score < best, -torch.inf)
        share = score.softmax(-1) * (score >= best) if self.fault == "not renormalized" else kept.softmax(-1)
        u = torch.einsum("bti,eoi->bteo", y, self.w1) + self.b1
        u = F.gelu(u) if self.fault == "activation" else u * u.sigmoid()
        z = torch.einsum("bteo,edo->bted", u, self.w2) + (0 if self.fault == "bias" else self.b2)
        return torch.einsum("bted,bte->btd", z, share) + x


class ExpertPort(nn.Module):
    def __init__(self, a, fault="", at=-1):
        super().__init__()
        self.begin, self.finish = Mat(a.into), Mat(a.out)
        self.crews = nn.ModuleList(Crew(layer, fault if i == at % 2 else "") for i, layer in enumerate(a.layers))

    def forward(self, x):
        x = self.begin(x)
        for crew in self.crews:
            x = crew(x)
        return self.finish(x)


# Diffusion ------------------------------------------------------------------------------------------------------------------------


class Denoise(nn.Module):
    """Attention and MLP whose norms are scaled and shifted, and whose results are gated, by a condition."""

    def __init__(self, d=24):
        super().__init__()
        self.norm1, self.norm2 = (nn.LayerNorm(d, eps=1e-6, elementwise_affine=False) for _ in range(2))
        self.attn, self.mlp = Attend(d), nn.Sequential(nn.Linear(d, 40), nn.GELU("tanh"), nn.Linear(40, d))
        self.modulation = nn.Sequential(nn.SiLU(), nn.Linear(d, 6 * d))

    def forward(self, x, c):
        s1, g1, o1, s2, g2, o2 = self.modulation(c)[:, None].chunk(6, -1)
        y = self.norm1(x) * (1 + g1) + s1
        x = x + o1 * self.attn(y, y)
        return x + o2 * self.mlp(self.norm2(x) * (1 + g2) + s2)


class Diffusion(nn.Module):
    def __init__(self, d=24):
        super().__init__()
        self.patch, self.time = nn.Linear(8, d), nn.Sequential(nn.Linear(16, d), nn.SiLU(), nn.Linear(d, d))
        self.blocks, self.out = nn.ModuleList(Denoise(d) for _ in range(2)), nn.Linear(d, 8)

    def forward(self, x, t):
        angle = t[:, None] * torch.exp(-math.log(100) * torch.arange(8, dtype=x.dtype) / 8)
        x, c = self.patch(x), self.time(torch.cat([angle.cos(), angle.sin()], -1))
        for block in self.blocks:
            x = block(x, c)
        return self.out(x)


class Adapt(nn.Module):
    def __init__(self, a, fault):
        super().__init__()
        self.fault, self.steer = fault, Mat(a.modulation[1])
        self.na, self.nb = Std(a.norm1), Std(a.norm2, eps=1e-2 if fault == "epsilon" else None, center=fault != "norm kind")
        self.look, self.wide, self.slim = (
            Heed(a.attn, "softmax axis" if fault == "softmax axis" else ""),
            Mat(a.mlp[0]),
            Mat(a.mlp[2]),
        )

    def forward(self, x, c):
        f = self.fault
        parts = self.steer(c if f == "condition without silu" else c * c.sigmoid()).unflatten(-1, (6, -1)).unsqueeze(2).unbind(1)
        shift, gain, gate, shift2, gain2, gate2 = parts
        if f == "exchanged":
            shift2, gain2 = gain2, shift2
        y = torch.addcmul(shift, self.na(x), gain + 1)
        x = torch.addcmul(x, gate, self.look(y, y))
        y = self.nb(x)
        y = torch.addcmul(shift2, y, gain2 if f == "without one" else gain2 + 1)
        u = self.slim(F.gelu(self.wide(y), approximate="tanh"))
        return x + u if f == "no gate" else torch.addcmul(x, gate2, u)


class DiffusionPort(nn.Module):
    def __init__(self, a, fault="", at=-1):
        super().__init__()
        self.fault, self.cells, self.t1, self.t2, self.pixels = fault, Mat(a.patch), Mat(a.time[0]), Mat(a.time[2]), Mat(a.out)
        self.units = nn.ModuleList(Adapt(block, fault if i == at % 2 else "") for i, block in enumerate(a.blocks))

    def forward(self, x, t):
        rate = 100 ** (-torch.arange(8, dtype=x.dtype) / 8)
        wave = torch.outer(t, rate)
        both = (wave.sin(), wave.cos()) if self.fault == "sine first" else (wave.cos(), wave.sin())
        c = self.t1(torch.cat(both, 1))
        c = self.t2(c / (1 + torch.exp(-c)))
        x = self.cells(x)
        for unit in self.units:
            x = unit(x, c)
        return self.pixels(x)


# BERT -----------------------------------------------------------------------------------------------------------------------------


class BertLayer(nn.Module):
    def __init__(self, d=24):
        super().__init__()
        self.attention, self.ln1, self.ln2 = Attend(d), nn.LayerNorm(d, eps=1e-12), nn.LayerNorm(d, eps=1e-12)
        self.intermediate, self.output = nn.Linear(d, 56), nn.Linear(56, d)

    def forward(self, x, keep):
        x = self.ln1(x + self.attention(x, x, keep))
        return self.ln2(x + self.output(F.gelu(self.intermediate(x))))


class Bert(nn.Module):
    def __init__(self, d=24):
        super().__init__()
        self.words, self.places, self.segments = nn.Embedding(37, d), nn.Embedding(16, d), nn.Embedding(2, d)
        self.norm, self.layers = nn.LayerNorm(d, eps=1e-12), nn.ModuleList(BertLayer(d) for _ in range(2))
        self.pooler = nn.Sequential(nn.Linear(d, d), nn.Tanh())

    def forward(self, ids, segments, keep):
        x = self.norm(self.words(ids) + self.segments(segments) + self.places(torch.arange(ids.shape[1])))
        for layer in self.layers:
            x = layer(x, keep)
        return self.pooler(x[:, 0])


class Ply(nn.Module):
    def __init__(self, a, fault):
        super().__init__()
        self.fault, self.look = fault, Heed(a.attention, fault)
        self.p1, self.p2 = Std(a.ln1, eps=1e-3 if fault == "epsilon" else None), Std(a.ln2, bias=fault != "norm bias")
        self.wide, self.slim = Mat(a.intermediate), Mat(a.output)

    def forward(self, x, keep):
        y = self.look(x, x, keep)
        x = self.p1(y if self.fault == "residual" else y + x)
        u = self.wide(x)
        return self.p2(self.slim(u * 0.5 * (1 + torch.erf(u * 0.5**0.5))) + x)


class BertPortAgain(nn.Module):
    def __init__(self, a, fault="", at=-1):
        super().__init__()
        self.fault = fault
        self.tw, self.tp, self.ts = (nn.Parameter(e.weight.detach().clone()) for e in (a.words, a.places, a.segments))
        self.n, self.plies = Std(a.norm), nn.ModuleList(Ply(x, fault if i == at % 2 else "") for i, x in enumerate(a.layers))
        self.pool = Mat(a.pooler[0])

    def forward(self, ids, segments, keep):
        f, start = self.fault, 2 if self.fault == "position offset" else 0
        which = 1 - segments if f == "segments exchanged" else segments
        x = self.tp[start : start + ids.shape[1]] + self.tw[ids]
        x = x if f == "no segments" else x + self.ts[which]
        x = x if f == "norm placement" else self.n(x)
        for ply in self.plies:
            x = ply(x, keep)
        y = self.pool(x.select(1, 0))
        return y.relu() if f == "activation" else y.tanh()
