"""Planted differences in two models that no library has: a hand-written GPT, and convolutions between attentions.

`Gpt` and `GptAgain`, and `Mixed` and `MixedAgain`, compute the same with other names, layouts and operations, apart from `wrong`.
"""

import copy
import math

import torch
from torch import nn
from torch.nn import functional as F

from .cases import Case
from .forms import as_dump
from .healthy import pair

WIDTH, HEADS, TOKENS, LENGTH = 24, 3, 30, 9


def drawn(model, seed):
    """Draw each parameter, so that every bias and weight matters."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in model.named_parameters():
            noise = torch.randn(p.shape, generator=generator)
            p.copy_(noise * (1.2 / p.shape[-1] ** 0.5 if p.ndim > 1 else 0.3) + (p if p.ndim == 1 and "bias" not in name else 0))
    return model.eval()


class Layer(nn.Module):
    """Attention, then a feed-forward network, each after a norm."""

    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.c_attn, self.c_proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.fc, self.out = nn.Linear(WIDTH, 40), nn.Linear(40, WIDTH)

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (HEADS, -1)).transpose(1, 2) for t in self.c_attn(self.ln_1(x)).split(WIDTH, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(-2)
        x = x + self.c_proj(y)
        return x + self.out(F.gelu(self.fc(self.ln_2(x))))


class Gpt(nn.Module):
    """Token and position tables, two layers, a norm and a head."""

    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(TOKENS, WIDTH), nn.Embedding(16, WIDTH)
        self.layers = nn.ModuleList([Layer(), Layer()])
        self.ln_f, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, TOKENS, bias=False)

    def forward(self, ids):
        x = self.wte(ids) + self.wpe(torch.arange(ids.shape[1]))
        for layer in self.layers:
            x = layer(x)
        return self.head(self.ln_f(x))


class Scaling(nn.Module):
    """A layer norm from its formula."""

    def __init__(self, norm, wrong=()):
        super().__init__()
        self.a, self.b, self.wrong = nn.Parameter(norm.weight.detach().clone()), nn.Parameter(norm.bias.detach().clone()), wrong

    def forward(self, x):
        if "missing" in self.wrong:
            return x
        mean = 0 if "root mean square" in self.wrong else x.mean(-1, keepdim=True)
        d = x - mean
        v = (d**2).sum(-1, keepdim=True) / (WIDTH - ("unbiased" in self.wrong))
        eps = 1e-3 if "epsilon" in self.wrong else 1e-5
        d = d / (v.sqrt() + eps) if "outside" in self.wrong else d * torch.rsqrt(v + eps)
        d = d if "no weight" in self.wrong else d * (1 + self.a if "one more" in self.wrong else self.a)
        return d if "no bias" in self.wrong else d + self.b


class Part(nn.Module):
    """A layer of `GptAgain`, with weights [in, out] and heads in the einsum."""

    def __init__(self, layer, wrong, norms):
        super().__init__()
        self.pre, self.mid, self.wrong = Scaling(layer.ln_1, norms.get("pre", ())), Scaling(layer.ln_2, norms.get("mid", ())), wrong
        weight, bias = layer.c_attn.weight.detach(), layer.c_attn.bias.detach()
        self.w = nn.Parameter(weight.T.reshape(WIDTH, 3, HEADS, -1).clone())
        self.c = nn.Parameter(bias.reshape(3, HEADS, 1, -1).clone())
        self.join, self.wide, self.thin = layer.c_proj, layer.fc, layer.out
        self.drop = nn.Dropout(0.2)

    def forward(self, x):
        h = x if "post norm" in self.wrong else self.pre(x)
        q, k, v = torch.einsum("bni,ithk->tbhnk", h, self.w) + self.c[:, None]
        s = torch.einsum("bhnk,bhmk->bhnm", q, k) / math.sqrt(WIDTH // HEADS)
        n = x.shape[1]
        s = s.masked_fill(torch.ones(n, n).triu(1).bool(), -math.inf)
        o = torch.einsum("bhnm,bhmk->bnhk", s.softmax(-1), v).flatten(-2)
        o = self.join(o)
        x = x + self.drop(self.pre(o) if "post norm" in self.wrong else o)
        other = self.pre(x) if "one norm" in self.wrong else self.mid(x)
        return x + self.thin(F.relu(self.wide(other)) if "relu" in self.wrong else F.gelu(self.wide(other)))


class GptAgain(nn.Module):
    """`Gpt` from its parameters, apart from `wrong`."""

    def __init__(self, gpt, wrong=(), layer=0, **norms):
        super().__init__()
        self.words, self.places, self.wrong = gpt.wte, nn.Parameter(gpt.wpe.weight.detach().clone()), wrong
        parts = [Part(one, wrong if i == layer else (), norms if i == layer else {}) for i, one in enumerate(gpt.layers)]
        self.parts = nn.ModuleList(parts)
        self.end, self.read = Scaling(gpt.ln_f, norms.get("end", ())), gpt.head

    def forward(self, ids):
        x = self.words(ids) * (WIDTH**0.5 if "scaled" in self.wrong else 1) + self.places[: ids.shape[1]]
        for part in self.parts:
            x = part(x)
        return self.read(self.end(x))


class Rms(nn.Module):
    """Root-mean-square norm in float32, or wider; `cast` says whether it rounds before or after its weight."""

    def __init__(self, width, cast="before", eps=1e-6):
        super().__init__()
        self.weight, self.cast, self.eps = nn.Parameter(torch.ones(width)), cast, eps

    def forward(self, x):
        wide = x.float() if x.dtype != torch.float64 else x
        z = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.eps)
        if self.cast == "before":
            return self.weight * z.to(x.dtype)
        return (z * self.weight.to(wide.dtype)).to(x.dtype)


class Mixed(nn.Module):
    """A gated convolution, attention with normalised queries and keys, and a pooled answer."""

    def __init__(self, wrong=(), cast="before", eps=1e-6):
        super().__init__()
        self.wrong = wrong
        self.stem, self.conv = nn.Linear(10, WIDTH), nn.Conv1d(WIDTH, 2 * WIDTH, 3, padding=1)
        self.conv_norm, self.attn_norm, self.end = Rms(WIDTH, cast, eps), Rms(WIDTH, cast), Rms(WIDTH, cast)
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))
        self.q_norm, self.k_norm = Rms(WIDTH // HEADS, cast), Rms(WIDTH // HEADS, cast)
        self.drop, self.answer = nn.Dropout(0.3), nn.Linear(WIDTH, 5)

    def forward(self, x):
        x = self.drop(self.stem(x))
        a, b = self.conv(self.conv_norm(x).mT).chunk(2, 1)
        x = x + (a * b.sigmoid()).mT
        h = x if "no attention norm" in self.wrong else self.attn_norm(x)
        q, k, v = (f(h).unflatten(-1, (HEADS, -1)).transpose(1, 2) for f in (self.q, self.k, self.v))
        if "no query and key norm" not in self.wrong:
            q, k = (q if "no query norm" in self.wrong else self.q_norm(q)), self.k_norm(k)
        s = (q @ k.mT * (WIDTH // HEADS) ** -0.5).softmax(-1)
        x = x + self.o((s @ v).transpose(1, 2).flatten(-2))
        return self.answer(x if "no end norm" in self.wrong else self.end(x)).float()


SMALL: list[Case] = []
PLACES = {  # where it is: in A, in B; L is the number of the layer
    "pre": (r"layers\.L\.ln_1", r"parts\.L\.pre"),
    "mid": (r"layers\.L(\.ln_2)?", r"parts\.L(\.mid)?"),
    "first norm again": (r"layers\.L(\.ln_2)?", r"parts\.L\.pre"),
    "end": (r"ln_f", r"(end|parts\.1|read)?"),  # a side without the norm goes on with the head
    "pre or next": (r"layers\.L\.(ln_1|c_attn)", r"parts\.L(\.pre)?"),
    "feed-forward": (r"layers\.L", r"parts\.L"),
    "embedding": (r"(wte)?", r""),
    "dropout": (r"layers\.L(\.\w+)?", r"parts\.L\.drop"),
}


def plant(cause, kinds, place, wrong=(), note="", form="torch", layer=0, train=False, **norms):
    """A difference in the hand-written GPT."""

    def make():
        torch.manual_seed(0)
        gpt = drawn(Gpt(), 1)
        again = GptAgain(gpt, wrong, layer, **norms).train(train)
        inputs = (torch.randint(0, TOKENS, (2, LENGTH), generator=torch.Generator().manual_seed(3)),)
        return gpt, as_dump(again, inputs) if form == "npz" else again, inputs, {}

    a, b = (pattern.replace("L", str(layer)) for pattern in PLACES[place])
    name = "-".join(part.replace(" ", "_") for part in (cause, "nanogpt", form, note) if part)
    SMALL.append(Case(name, cause, frozenset(kinds.split("|")), "nanogpt", form, a, b, make))


def plant_mixed(cause, kinds, a, b, note="", dtype=None, train=False, cast="before", wrong=(), eps=1e-6):
    """A difference in the model of convolutions and attention."""

    def make():
        one = drawn(Mixed(), 2)
        other = Mixed(wrong, cast, eps).eval()
        other.load_state_dict(one.state_dict())
        if dtype is not None:
            one, other = one.to(dtype), other.to(dtype)
        x = torch.randn(2, LENGTH, 10, generator=torch.Generator().manual_seed(4))
        return one, other.train(train), (x if dtype is None else x.to(dtype),), {}

    name = "-".join(part.replace(" ", "_") for part in (cause, "mixed", "torch", note) if part)
    SMALL.append(Case(name, cause, frozenset(kinds.split("|")), "mixed", "torch", a, b, make))


plant("norm kind", "norm kind", "pre", note="rms", pre={"root mean square"})
plant("norm kind", "norm kind|epsilon", "pre", note="unbiased", pre={"unbiased"})
plant("norm kind", "norm kind|epsilon", "mid", note="unbiased_second", mid={"unbiased"})
plant("norm kind", "norm kind|epsilon", "pre", note="epsilon_outside", pre={"outside"}, layer=1)
plant("norm kind", "norm kind", "end", note="rms_at_the_end", end={"root mean square"})
plant("norm kind", "norm kind", "pre", note="rms", form="npz", pre={"root mean square"})
plant("epsilon", "epsilon", "mid", note="second_norm", mid={"epsilon"})
plant("norm weight", "norm weight", "pre", note="missing", pre={"no weight"})
plant("norm weight", "norm weight", "mid", note="one_more", mid={"one more"})
plant("norm bias", "norm bias", "end", note="missing", end={"no bias"})
plant("norm missing", "norm placement", "pre or next", note="first", pre={"missing"})
plant("norm missing", "norm placement", "end", note="end", end={"missing"})
plant("norm missing", "norm placement", "end", note="end", form="npz", end={"missing"})
plant("norm placement", "norm placement", "pre or next", {"post norm"}, note="post", layer=1)
plant("one norm for two", "norm weight|weights", "first norm again", {"one norm"})
plant("activation", "activation", "feed-forward", {"relu"}, form="npz")
plant("embedding scale", "embedding scale", "embedding", {"scaled"})
plant("training mode", "mode", "dropout", train=True)
for dtype in (torch.bfloat16, torch.float16):
    plant_mixed("cast after the weight", "cast", "conv_norm", "conv_norm", str(dtype)[6:], dtype, cast="after")
plant_mixed("norm missing", "norm placement", "[qk]_norm", "", "queries_and_keys", wrong={"no query and key norm"})
plant_mixed("norm missing", "norm placement", "q_norm", "", "queries", wrong={"no query norm"})
plant_mixed("norm missing", "norm placement", "attn_norm", "[qkv]", "attention", wrong={"no attention norm"})
plant_mixed("norm missing", "norm placement", "end", "(answer)?", "end", wrong={"no end norm"})
plant_mixed("epsilon", "epsilon", "conv_norm", "conv_norm", eps=1e-3)
plant_mixed("training mode", "mode", "conv_norm|conv|", "drop", train=True)


def nanogpt():
    gpt = drawn(Gpt(), 1)
    return gpt, GptAgain(gpt).eval(), (torch.randint(0, TOKENS, (2, LENGTH), generator=torch.Generator().manual_seed(3)),), {}


def mixed(dtype, cast="before"):
    one = drawn(Mixed(cast=cast), 2).to(dtype)
    return one, copy.deepcopy(one), (torch.randn(2, LENGTH, 10, generator=torch.Generator().manual_seed(4)).to(dtype),), {}


pair("nanogpt-again", nanogpt)
pair("mixed-bfloat16", lambda: mixed(torch.bfloat16))
pair("mixed-float16", lambda: mixed(torch.float16, "after"))
