"""Three families that `cases` lacks, with 21 planted differences: nanoGPT, shifted windows and text that attends to an image.

Each model is written twice from the same parameters: with modules and SDPA, and in one function with einsum and other layouts.
The author knew the names of the causes, not how `parity` finds them; the expected answers were fixed before the first run.
"""

import re
from functools import partial

import torch
from torch import nn
from torch.nn import functional as F

from .cases import Case

WIDTH, HEADS, HEAD, LENGTH, VOCAB = 24, 4, 6, 10, 40


def shaken(model, seed=0):
    """The model with random parameters, so that no difference hides behind a zero."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(torch.randn(p.shape, generator=generator) * 0.3 + (1.0 if p.dim() == 1 else 0.0))
    return model.eval()


def attend(q, k, v, bias=None):
    """Attention of [B, H, N, K] written out."""
    scores = torch.einsum("bhnk,bhmk->bhnm", q, k) / q.shape[-1] ** 0.5
    return torch.einsum("bhnm,bhmk->bhnk", (scores if bias is None else scores + bias).softmax(-1), v)


def split(x, heads=HEADS):
    return x.unflatten(-1, (heads, HEAD)).transpose(1, 2)


def merge(x):
    return x.transpose(1, 2).flatten(2)


class GptBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.c_attn, self.c_proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.fc, self.out = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        q, k, v = (split(y) for y in self.c_attn(self.ln_1(x)).chunk(3, -1))
        x = x + self.c_proj(merge(F.scaled_dot_product_attention(q, k, v, is_causal=True)))
        return x + self.out(F.gelu(self.fc(self.ln_2(x))))


class Gpt(nn.Module):
    """nanoGPT: one projection for q, k, v, in blocks by kind."""

    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(VOCAB, WIDTH), nn.Embedding(LENGTH + 2, WIDTH)
        self.h = nn.ModuleList(GptBlock() for _ in range(2))
        self.ln_f, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCAB, bias=False)

    def forward(self, tokens):
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1]))
        for block in self.h:
            x = block(x)
        return self.head(self.ln_f(x))


class GptMix(nn.Module):
    """Attention with its weights [in, H, 3, K]: q, k, v of one head beside each other."""

    def __init__(self, block, wrong):
        super().__init__()
        self.wrong, kinds = wrong, ("kv" in wrong and [0, 2, 1]) or [0, 1, 2]
        shape = (HEADS, 3, HEAD) if "read by kind" in wrong else (3, HEADS, HEAD)

        def by_head(rows):
            rows = rows.reshape(*shape, *rows.shape[1:])
            return (rows if "read by kind" in wrong else rows.transpose(0, 1))[:, kinds]

        self.w = nn.Parameter(by_head(block.c_attn.weight.data).clone())
        self.b = nn.Parameter(by_head(block.c_attn.bias.data).clone())
        self.wo, self.bo = nn.Parameter(block.c_proj.weight.data.T.clone()), block.c_proj.bias

    def forward(self, y):
        q, k, v = (torch.einsum("bnc,hicd->ibhnd", y, self.w.transpose(-1, -2)) + self.b.transpose(0, 1)[:, None, :, None]).unbind(
            0
        )
        i = torch.arange(y.shape[1])
        back = i[:, None] - i[None, :]
        hidden = back < 0
        if "window" in self.wrong:
            hidden = hidden | (back >= 4)
        if "sees one ahead" in self.wrong:
            hidden = back < -1
        return (
            merge(attend(q, k, v, torch.zeros(hidden.shape, dtype=y.dtype).masked_fill(hidden, float("-inf")))) @ self.wo + self.bo
        )


class GptPort(nn.Module):
    def __init__(self, model, *wrong):
        super().__init__()
        self.wrong, self.words, self.places = wrong, model.wte.weight, model.wpe.weight
        self.blocks, self.mix = model.h, nn.ModuleList(GptMix(b, wrong) for b in model.h)
        self.last = model.ln_f
        self.head = model.wte.weight if "tied" in wrong else model.head.weight

    def forward(self, tokens):
        first = 1 if "offset" in self.wrong else 0
        x = self.places[first : first + tokens.shape[1]] + self.words[tokens]
        for mix, block in zip(self.mix, self.blocks, strict=True):
            y = block.ln_1(x)
            mixed = mix(y)
            if "second row" in self.wrong:
                mixed = torch.stack([mixed[0], mixed[1] * 0.5])
            if "doubled" in self.wrong:
                mixed = mixed * 2
            after = mixed if "no residual" in self.wrong else mixed + x
            z = block.ln_2(x if "parallel" in self.wrong else after)
            x = F.gelu(z @ block.fc.weight.T + block.fc.bias) @ block.out.weight.T + block.out.bias + after
        return self.last(x) @ self.head.T


SIDE, WINDOW = 4, 2


class Swin(nn.Module):
    """One block of shifted windows over a grid [B, SIDE, SIDE, C], with a table of relative position biases."""

    def __init__(self):
        super().__init__()
        self.norm, self.qkv, self.proj = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.table = nn.Parameter(torch.zeros((2 * WINDOW - 1) ** 2, HEADS))

    def forward(self, x):
        y = into_windows(self.norm(x).roll((-1, -1), (1, 2)))
        q, k, v = (split(part) for part in self.qkv(y).chunk(3, -1))
        bias = self.table[relative()].permute(2, 0, 1) + crossing(x.shape[0]).to(x.dtype)
        y = self.proj(merge(F.scaled_dot_product_attention(q, k, v, attn_mask=bias)))
        return x + out_of_windows(y, x.shape[0]).roll((1, 1), (1, 2))


def into_windows(x):
    return x.unflatten(1, (-1, WINDOW)).unflatten(3, (-1, WINDOW)).permute(0, 1, 3, 2, 4, 5).flatten(3, 4).flatten(0, 2)


def out_of_windows(y, batch):
    n = SIDE // WINDOW
    return y.reshape(batch, n, n, WINDOW, WINDOW, -1).permute(0, 1, 3, 2, 4, 5).reshape(batch, SIDE, SIDE, -1)


def relative():
    """The row of the table of each pair of positions in a window."""
    at = torch.cartesian_prod(torch.arange(WINDOW), torch.arange(WINDOW))
    apart = at[:, None] - at[None] + WINDOW - 1
    return apart[..., 0] * (2 * WINDOW - 1) + apart[..., 1]


def crossing(batch):
    """-100 between positions that the roll brought together."""
    zone = torch.zeros(SIDE)
    zone[SIDE - WINDOW : SIDE - 1], zone[SIDE - 1 :] = 1, 2
    zones = into_windows((zone[:, None] * 3 + zone[None])[None, :, :, None]).squeeze(-1)
    return ((zones[:, :, None] != zones[:, None]) * -100.0)[:, None].repeat(batch, 1, 1, 1)


class SwinPort(nn.Module):
    def __init__(self, model, *wrong):
        super().__init__()
        self.wrong, self.model = wrong, model

    def forward(self, x):
        m, wrong = self.model, self.wrong
        shift = 1 if "shift back" in wrong else -1
        y = x if "no norm" in wrong else (x - x.mean(-1, keepdim=True)) * (x.var(-1, correction=0, keepdim=True) + 1e-5).rsqrt()
        y = y if "no norm" in wrong else y * m.norm.weight + m.norm.bias
        y = into_windows(torch.roll(y, (shift, shift), (1, 2)))
        q, k, v = (split(y @ w.T + b) for w, b in zip(m.qkv.weight.chunk(3), m.qkv.bias.chunk(3), strict=True))
        rows = relative().T if "bias transposed" in wrong else relative()
        bias = m.table[rows].permute(2, 0, 1)
        bias = torch.zeros_like(bias) if "no bias" in wrong else bias
        if "no mask" not in wrong:
            bias = bias + crossing(x.shape[0]).to(x.dtype)
        y = merge(attend(q, k, v, bias)) @ m.proj.weight.T + m.proj.bias
        return out_of_windows(y, x.shape[0]).roll((-shift, -shift), (1, 2)) + x


class Reader(nn.Module):
    """Text attends to an image behind a tanh gate; grouped queries (4 heads, 2 key and value heads); then SwiGLU."""

    def __init__(self):
        super().__init__()
        self.text_norm, self.image_norm, self.last = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.q, self.k, self.v = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 2 * HEAD), nn.Linear(WIDTH, 2 * HEAD)
        self.o, self.opened = nn.Linear(WIDTH, WIDTH), nn.Parameter(torch.zeros(1))
        self.gate, self.up, self.down = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(3))

    def forward(self, text, image):
        seen = self.image_norm(image)
        q, k, v = split(self.q(self.text_norm(text))), split(self.k(seen), 2), split(self.v(seen), 2)
        k, v = (y.repeat_interleave(2, 1) for y in (k, v))
        there = (image.abs().sum(-1) > 0)[:, None, None]
        x = text + torch.tanh(self.opened) * self.o(merge(F.scaled_dot_product_attention(q, k, v, attn_mask=there)))
        y = self.last(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class ReaderPort(nn.Module):
    def __init__(self, model, *wrong):
        super().__init__()
        self.wrong, self.model = wrong, model

    def forward(self, text, image):
        m, wrong = self.model, self.wrong
        seen, words = m.image_norm(image), m.text_norm(text)
        seen = image if "no image norm" in wrong else seen
        kv = torch.cat([m.k.weight, m.v.weight]), torch.cat([m.k.bias, m.v.bias])
        k, v = (split(y, 2) for y in (seen @ kv[0].T + kv[1]).chunk(2, -1))
        k, v = (v, k) if "kv" in wrong else (k, v)
        q = split(words @ m.q.weight.T + m.q.bias)
        k, v = (y.repeat(1, 2, 1, 1) if "tile" in wrong else y.repeat_interleave(2, 1) for y in (k, v))
        hidden = torch.zeros(image.shape[:2], dtype=text.dtype)
        if "no mask" not in wrong:
            hidden = hidden.masked_fill(image.abs().sum(-1) == 0, float("-inf"))
        y = merge(attend(q, k, v, hidden[:, None, None])) @ m.o.weight.T + m.o.bias
        y = y * (m.opened if "no tanh" in wrong else torch.tanh(m.opened))
        x = y + text
        z = m.last(x)
        gate, up = z @ m.gate.weight.T, z @ m.up.weight.T
        gate, up = (up, gate) if "gate and up" in wrong else (gate, up)
        return (gate * gate.sigmoid() * up) @ m.down.weight.T + x


def tokens():
    return (torch.randint(VOCAB, (2, LENGTH), generator=torch.Generator().manual_seed(1)),)


def grid():
    return (torch.randn(2, SIDE, SIDE, WIDTH, generator=torch.Generator().manual_seed(2)),)


def text_and_image():
    generator = torch.Generator().manual_seed(3)
    image = torch.randn(2, 7, WIDTH, generator=generator)
    image[1, 5:] = 0
    return torch.randn(2, 5, WIDTH, generator=generator), image


FAMILIES = {"nanogpt": (Gpt, GptPort, tokens), "swin": (Swin, SwinPort, grid), "reader": (Reader, ReaderPort, text_and_image)}
FURTHER: list[Case] = []


def plant(family, wrong, kinds, a, b=".*"):
    """A case whose port gets `wrong` wrong. An empty `kinds`: no cause may be named. b: the port has few modules."""

    def make():
        model, port, inputs = FAMILIES[family]
        return shaken(model()), port(shaken(model()), wrong), inputs(), {}

    name = f"further-{family}-{re.sub(r'[^a-z]', '_', wrong)}"
    FURTHER.append(Case(name, f"further, {family}", frozenset(kinds.split("|") if kinds else ()), family, "torch", a, b, make))


plant("nanogpt", "read by kind", "fused layout", r"h\.0(\.c_attn)?", r"mix\.0")
plant("nanogpt", "kv", "fused layout|exchanged", r"h\.0(\.c_attn)?", r"mix\.0")
plant("nanogpt", "offset", "position offset", r"(wpe)?", "")
plant("nanogpt", "tied", "tied head", r"(head)?", "")
plant("nanogpt", "window", "window", r"h\.0", r"mix\.0")
plant("nanogpt", "sees one ahead", "mask|mask alignment|causal|window", r"h\.0", r"mix\.0")
plant("nanogpt", "doubled", "residual|scale|count", r"h\.0(\.c_proj)?", r"(mix\.0)?")
plant("nanogpt", "no residual", "residual", r"h\.0(\.ln_2)?", r"(blocks\.0\.ln_2)?")
plant("nanogpt", "parallel", "residual|exchanged", r"h\.0(\.ln_2)?", r"(blocks\.0\.ln_2)?")
plant("nanogpt", "second row", "residual|scale", r"h\.0(\.c_proj)?", r"(mix\.0)?")
plant("swin", "shift back", "", r"|norm|qkv", "")
plant("swin", "bias transposed", "position bias", "", "")
plant("swin", "no bias", "position bias", "", "")
plant("swin", "no mask", "mask|window|position bias", "", "")
plant("swin", "no norm", "norm placement|exchanged|norm kind", r"(norm|qkv)?", "")
plant("reader", "no image norm", "norm placement|exchanged|norm kind", r"(image_norm|k|v)?", "")
plant("reader", "kv", "fused layout|exchanged", r"[kv]?", "")
plant("reader", "tile", "head order", "", "")
plant("reader", "no mask", "mask", "", "")
plant("reader", "no tanh", "activation", "", "")
plant("reader", "gate and up", "exchanged|weights|activation", r"(gate|up)?", "")


def healthy(family):
    """The two forms of a family without a difference."""
    model, port, inputs = FAMILIES[family]
    return shaken(model()), port(shaken(model())), inputs(), {}


FURTHER_HEALTHY = {f"further-{family}": partial(healthy, family) for family in FAMILIES}
