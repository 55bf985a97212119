"""Zoo of blocks: chunks, windows, scans, spectra and running statistics. Who reads a later token, and at which lengths only.

A module that leaks within complete blocks of 37 tokens is causal at every length below. The size stands where people write it: an
attribute, a configuration, a default argument, a global, a closure, a literal, the size of a kernel, a buffer or a table.
"""

import functools
import math
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.audit.case import Case
from tests.audit.zoo import Attend, Causal, D, Layers, features, later, words

# ------------------------------------------------------------------------------------------------------- sums of blocks


def own_block(x: Tensor, block: int) -> Tensor:
    """Every token of a complete block gets the mean of its block: the first reads the last."""
    n = x.shape[1] // block * block
    cut = x[:, :n].unflatten(1, (-1, block)) if n else x[:, :0, None]
    return torch.cat([(cut + cut.mean(2, keepdim=True)).flatten(1, 2), x[:, n:]], 1)


def blocks_before(x: Tensor, block: int) -> Tensor:
    """Every token gets the mean of the block before its own, complete by then."""
    n = x.shape[1]
    means = F.pad(x, (0, 0, 0, -n % block)).unflatten(1, (-1, block)).mean(2)
    return x + F.pad(means, (0, 0, 1, -1)).repeat_interleave(block, 1)[:, :n]


class Attribute(nn.Module):
    """The size is an attribute."""

    def __init__(self, size: int, sums: Any = own_block) -> None:
        super().__init__()
        self.inner, self.block, self.sums = nn.Linear(D, D), size, sums

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(self.sums(x, self.block))


class OddlyNamed(nn.Module):
    """The size is an attribute whose name says nothing."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.inner, self.w = nn.Linear(D, D), size

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(own_block(x, self.w))


class Configured(nn.Module):
    """The size stands in a configuration among other numbers: as an object, a dict or a dataclass."""

    def __init__(self, size: int, kind: str, name: str = "block") -> None:
        super().__init__()
        numbers = {"hidden": 8, "heads": 2, "layers": 12, "vocab": 50, name: size, "inner": 48}
        self.inner, self.name = nn.Linear(D, D), name
        if kind == "settings":
            self.settings = SimpleNamespace(**numbers)
        elif kind == "dict":
            self.options = numbers
        elif kind == "dataclass":
            self.cfg = Numbers(chunk=size)
            self.name = "chunk"
        else:
            self.config = SimpleNamespace(**numbers)

    def forward(self, x: Tensor) -> Tensor:
        held = next(v for n in ("settings", "options", "cfg", "config") if (v := getattr(self, n, None)) is not None)
        return self.inner(own_block(x, held[self.name] if isinstance(held, dict) else getattr(held, self.name)))


@dataclass
class Numbers:
    """A configuration."""

    width: int = 8
    chunk: int = 3


class Default(nn.Module):
    """The size is a default argument of a method."""

    def mixed(self, x: Tensor, size: int = 13) -> Tensor:
        return own_block(x, size)

    def forward(self, x: Tensor) -> Tensor:
        return self.mixed(x)


PAGE = 37


class Global(nn.Module):
    """The size is a constant of the file."""

    def forward(self, x: Tensor) -> Tensor:
        return own_block(x, PAGE)


class OfClass(nn.Module):
    """The size is an attribute of the class."""

    BLOCK = 29

    def forward(self, x: Tensor) -> Tensor:
        return own_block(x, self.BLOCK)


class Literal(nn.Module):
    """The size is a literal."""

    def forward(self, x: Tensor) -> Tensor:
        n = x.shape[1] // 100 * 100
        return torch.cat([x[:, :n].unflatten(1, (-1, 100)).flip(2).flatten(1, 2), x[:, n:]], 1) if n else x


class Measured(nn.Module):
    """The size stands in a dict, and the length is measured by `len`, which notes nothing."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.numbers = {"width": D, "most": size}

    def forward(self, x: Tensor) -> Tensor:
        return x + x[:, -1:] if len(x[0]) > self.numbers["most"] else x


class Product(nn.Module):
    """The size is nowhere: it is the product of two numbers."""

    def __init__(self, heads: int, each: int) -> None:
        super().__init__()
        self.heads, self.each = heads, each

    def forward(self, x: Tensor) -> Tensor:
        return own_block(x, self.heads * self.each)


class Shifted(nn.Module):
    """The size is a power of an attribute."""

    def __init__(self, bits: int) -> None:
        super().__init__()
        self.bits = bits

    def forward(self, x: Tensor) -> Tensor:
        return own_block(x, 1 << self.bits)


class Property(nn.Module):
    """The size is computed by a property."""

    def __init__(self, hop: int) -> None:
        super().__init__()
        self.hop = hop

    @property
    def span(self) -> int:
        return 2 * self.hop + 1

    def forward(self, x: Tensor) -> Tensor:
        return own_block(x, self.span)


def enclosed(size: int) -> nn.Module:
    """The size is in a closure."""

    class Inside(nn.Module):
        """What is made inside."""

        def forward(self, x: Tensor) -> Tensor:
            return own_block(x, size)

    return Inside()


class Held(nn.Module):
    """The size is that of a buffer, or of a table with a row for each place in a block."""

    def __init__(self, size: int, kind: str) -> None:
        super().__init__()
        if kind == "buffer":
            self.register_buffer("weights", torch.rand(1, size, 1))
        else:
            self.table = nn.Parameter(torch.randn(size, D))

    def forward(self, x: Tensor) -> Tensor:
        size = self.weights.shape[1] if hasattr(self, "weights") else len(self.table)
        by = self.weights if hasattr(self, "weights") else self.table[None]
        n = x.shape[1] // size * size
        cut = x[:, :n].unflatten(1, (-1, size)) if n else x[:, :0, None]
        return torch.cat([(cut + (cut * by[:, None]).sum(2, keepdim=True) if n else cut).flatten(1, 2), x[:, n:]], 1)


class Partial(nn.Module):
    """The size is bound by functools.partial."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.mix = functools.partial(own_block, block=size)

    def forward(self, x: Tensor) -> Tensor:
        return self.mix(x)


class Sized(nn.Module):
    """Pools blocks with a kernel and hands every token the mean of its own, or of the one before."""

    def __init__(self, size: int, before: bool) -> None:
        super().__init__()
        self.pool, self.size, self.before = nn.AvgPool1d(size, ceil_mode=True), size, before

    def forward(self, x: Tensor) -> Tensor:
        means = self.pool(x.mT).mT
        means = F.pad(means, (0, 0, 1, -1)) if self.before else means
        return x + means.repeat_interleave(self.size, 1)[:, : x.shape[1]]


class Strided(nn.Module):
    """A strided convolution and back: a token gets the summary of its own block, or of the one before."""

    def __init__(self, size: int, before: bool) -> None:
        super().__init__()
        self.size, self.before = size, before
        self.down, self.up = nn.Conv1d(D, D, size, size), nn.ConvTranspose1d(D, D, size, size)

    def forward(self, x: Tensor) -> Tensor:
        n = x.shape[1]
        short = self.down(F.pad(x.mT, (0, -n % self.size)))
        return x + self.up(F.pad(short, (1, -1)) if self.before else short)[..., :n].mT


def kept(name: str, factory: Any, truth: str = "broken", n: int = 11, **more: Any) -> Case:
    proof = "a token gets the mean of its own block" if truth == "broken" else "blocks before its own are complete"
    return Case(f"block-{name}", factory, lambda: features(n), "causal", truth, **({"proof": proof} | more))


STORED = [
    *(kept(f"of-{size}", lambda size=size: Attribute(size)) for size in (2, 3, 7, 16, 129, 511, 512)),
    *(kept(f"before-of-{size}", lambda size=size: Attribute(size, blocks_before), "holds") for size in (2, 3, 7, 37, 129, 511)),
    kept("under-an-odd-name", lambda: OddlyNamed(61)),
    *(kept(f"in-a-{kind}", lambda kind=kind: Configured(53, kind)) for kind in ("settings", "dict", "config")),
    kept("in-a-dataclass", lambda: Configured(101, "dataclass")),
    kept("in-a-config-under-an-odd-name", lambda: Configured(83, "config", "quux")),
    kept("as-default", Default),
    kept("as-global", Global),
    kept("as-class-attribute", OfClass),
    kept("as-literal", Literal, proof="a complete block of 100 is reversed"),
    kept("as-product", lambda: Product(7, 11)),
    kept("as-large-product", lambda: Product(17, 30)),
    kept("measured-by-len", lambda: Measured(510), proof="beyond 510 tokens the last is read by all"),
    kept("as-power", lambda: Shifted(6)),
    kept("as-property", lambda: Property(21)),
    kept("in-closure", lambda: enclosed(47)),
    kept("in-partial", lambda: Partial(41)),
    kept("as-buffer", lambda: Held(59, "buffer")),
    kept("as-table", lambda: Held(43, "table")),
    *(kept(f"pooled-by-{size}", lambda size=size: Sized(size, False)) for size in (5, 31)),
    *(kept(f"pooled-before-by-{size}", lambda size=size: Sized(size, True), "holds") for size in (5, 31)),
    *(kept(f"strided-by-{size}", lambda size=size: Strided(size, False)) for size in (4, 27)),
    *(kept(f"strided-before-by-{size}", lambda size=size: Strided(size, True), "holds") for size in (4, 27)),
    kept("in-the-second-layer", lambda: Layers(a=Causal(), b=Attribute(64)), where="b"),
    kept("longer-than-given", lambda: Attribute(37), n=36),
    kept("given-whole", lambda: Attribute(37), n=37),
]

# ------------------------------------------------------------------------------------------------- masks, borders, lengths


class Windowed(nn.Module):
    """Attention with a mask that is causal but for what `wrong` says.

    wrong  "" is right; "block": all of its own block; "end": the last token of a block sees the next one; "start": the first of a
           block sees the next; "partial": the last block, where it is not complete, is not masked; "first": token 0 sees all;
           "one": at one row of the mask only; "window": the last so many and one ahead; "dilated": every so many, ahead too
    """

    def __init__(self, size: int, wrong: str = "", window: bool = False) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(D, D) for _ in range(3))
        self.size, self.wrong, self.window = size, wrong, window

    def mask(self, n: int) -> Tensor:
        at = torch.arange(n)
        gap, b = at[:, None] - at, self.size
        seen = (gap >= 0) & (gap < b) if self.window else gap >= 0
        if self.wrong == "block":
            seen |= at[:, None] // b == at // b
        elif self.wrong == "end":
            seen |= (gap == -1) & (at[:, None] % b == b - 1)
        elif self.wrong == "start":
            seen |= (gap == -1) & (at[:, None] % b == 0) & (at[:, None] > 0)
        elif self.wrong == "partial":
            seen |= (at[:, None] // b == at // b) & (at // b == n // b)
        elif self.wrong == "first":
            seen[0] = True
        elif self.wrong == "one" and n > b:
            seen[b - 1, b] = True
        elif self.wrong == "window":
            seen = (gap >= -1) & (gap < b)
        elif self.wrong == "dilated":
            seen |= gap % b == 0
        return seen

    def forward(self, x: Tensor) -> Tensor:
        scores = self.query(x) @ self.key(x).mT / math.sqrt(D)
        return scores.masked_fill(~self.mask(x.shape[1]), -math.inf).softmax(-1) @ self.value(x)


class OnlyWhere(nn.Module):
    """Reads the last token at some lengths only."""

    def __init__(self, when: Any) -> None:
        super().__init__()
        self.when, self.inner = when, nn.Linear(D, D)

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x) + x[:, -1:] if self.when(x.shape[1]) else self.inner(x)


class Switched(nn.Module):
    """A mask for short texts, and none beyond a length that stands in the code."""

    def __init__(self) -> None:
        super().__init__()
        self.attend = Attend()
        self.causal = Causal()

    def forward(self, x: Tensor) -> Tensor:
        return self.attend(x) if x.shape[1] > 200 else self.causal(x)


class Root(nn.Module):
    """Blocks as long as the root of the length: their size follows the text."""

    def forward(self, x: Tensor) -> Tensor:
        return own_block(x, max(math.isqrt(x.shape[1]), 2))


class Halves(nn.Module):
    """The first half gets the mean of the second, from 64 tokens on."""

    def forward(self, x: Tensor) -> Tensor:
        n = x.shape[1]
        return torch.cat([x[:, : n // 2] + x[:, n // 2 :].mean(1, keepdim=True), x[:, n // 2 :]], 1) if n >= 64 else x


def windowed(name: str, size: int, wrong: str = "", window: bool = False, n: int = 11, proof: str = "", **more: Any) -> Case:
    truth = "broken" if wrong else "holds"
    made = lambda: Windowed(size, wrong, window)  # noqa: E731
    return Case(f"window-{name}", made, lambda: features(n), "causal", truth, proof=proof or "the mask is the proof", **more)


WINDOWS = [
    *(windowed(f"right-{size}", size, window=True) for size in (3, 13, 128)),
    *(windowed(f"own-block-{size}", size, "block") for size in (3, 13, 37)),
    *(windowed(f"end-of-a-block-{size}", size, "end") for size in (7, 13, 37, 100, 129)),
    *(windowed(f"start-of-a-block-{size}", size, "start") for size in (7, 64)),
    *(windowed(f"last-partial-block-{size}", size, "partial") for size in (5, 16, 37)),
    windowed("token-0-sees-all", 8, "first"),
    *(windowed(f"one-row-{size}", size, "one", n=n) for size, n in ((7, 11), (29, 64), (37, 11), (100, 11), (129, 11))),
    windowed("one-row-of-the-given", 90, "one", n=120),
    windowed("one-ahead", 4, "window"),
    *(windowed(f"dilated-{size}", size, "dilated") for size in (3, 37)),
    Case("leak-at-even-lengths", lambda: OnlyWhere(lambda n: n % 2 == 0), features, "causal", "broken"),
    Case("leak-at-odd-lengths", lambda: OnlyWhere(lambda n: n % 2), lambda: features(8), "causal", "broken"),
    Case("leak-at-multiples-of-three", lambda: OnlyWhere(lambda n: n % 3 == 0), features, "causal", "broken"),
    Case("leak-beyond-200", lambda: OnlyWhere(lambda n: n > 200), features, "causal", "broken"),
    Case("leak-below-five", lambda: OnlyWhere(lambda n: n < 5), features, "causal", "broken"),
    Case("leak-at-powers-of-two", lambda: OnlyWhere(lambda n: n & (n - 1) == 0), features, "causal", "broken"),
    Case("leak-at-one-length", lambda: OnlyWhere(lambda n: n == 67), features, "causal", "broken", proof="67 stands in its code"),
    Case("leak-at-no-length", lambda: OnlyWhere(lambda n: n < 0), features, "causal", "holds"),
    Case("mask-for-short-texts-only", Switched, features, "causal", "broken"),
    Case("blocks-of-the-root-of-the-length", Root, features, "causal", "broken"),
    Case("halves-from-64-tokens", Halves, features, "causal", "broken"),
]


class Replaced(nn.Module):
    """A mask of padding that takes the place of the causal one, or is joined to it."""

    def __init__(self, joined: bool) -> None:
        super().__init__()
        self.embed, self.joined = nn.Embedding(11, D), joined

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        x = self.embed(input_ids)
        scores = x @ x.mT
        seen = ~later(scores)
        if attention_mask is not None:
            real = attention_mask[:, None].bool()
            seen = seen & real if self.joined else real
        return scores.masked_fill(~seen, -1e9).softmax(-1) @ x


class RowOne(nn.Module):
    """Only the second sequence of a batch reads ahead, at one place."""

    def forward(self, x: Tensor) -> Tensor:
        y = x.cumsum(1)
        if len(x) > 1:
            y[1, 4] += x[1, 5]
        return y


WINDOWS += [
    Case(
        "mask-of-padding-replaces", lambda: Replaced(False), lambda: words(9), "causal", "broken", proof="with a mask all are seen"
    ),
    Case("mask-of-padding-joined", lambda: Replaced(True), lambda: words(9), "causal", "holds"),
    Case("leak-in-the-second-of-three", RowOne, lambda: features(11, 3), "causal", "broken"),
]

# ----------------------------------------------------------------------------------------------------- spectra and scans


class Spectral(nn.Module):
    """A long convolution by FFT.

    size  "double" pads to twice the length; "none" wraps around; "power": the next power of two, which wraps where it is full;
          a number pads to it, and longer texts to twice their length: what is shorter by less than the kernel wraps
    """

    def __init__(self, size: str | int, taps: int = 5) -> None:
        super().__init__()
        self.kernel, self.size = nn.Parameter(torch.randn(taps, D)), size

    def forward(self, x: Tensor) -> Tensor:
        n, taps = x.shape[1], len(self.kernel)
        size = {"double": 2 * n + taps, "none": max(n, taps), "power": 1 << (n - 1).bit_length()}.get(self.size, self.size)
        size = max(size, taps) if isinstance(self.size, str) or n <= size else 2 * n
        spectrum = torch.fft.rfft(x, size, 1) * torch.fft.rfft(self.kernel, size, 0)
        return torch.fft.irfft(spectrum, size, 1)[:, :n]


class Filtered(nn.Module):
    """Fourier mixing of tokens (FNet), of features only, a low-pass over the tokens, or over complete blocks."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how, self.window = how, 48

    def forward(self, x: Tensor) -> Tensor:
        if self.how == "features":
            return torch.fft.fft(x, dim=-1).real
        if self.how == "tokens":
            return torch.fft.fft2(x).real
        if self.how == "low":
            spectrum = torch.fft.rfft(x, dim=1)
            return torch.fft.irfft(spectrum[:, : spectrum.shape[1] // 2 + 1], x.shape[1], 1)
        n = x.shape[1] // self.window * self.window
        cut = x[:, :n].unflatten(1, (-1, self.window)) if n else x[:, :0, None]
        return torch.cat([torch.fft.fft(cut, dim=2).real.flatten(1, 2) if n else x[:, :0], x[:, n:]], 1)


class Scan(nn.Module):
    """A decaying sum over what came before, computed in one of many ways; some of them are wrong.

    "loop", "doubling" (Hillis and Steele), "chunked" are right. "rolled" wraps around, "flipped" runs from the end, "batch" runs
    over the batch, "features" over the features, "own" adds the state of its own chunk, "last" keeps the last chunk's state
    """

    def __init__(self, how: str, size: int = 16) -> None:
        super().__init__()
        self.how, self.size, self.inner = how, size, nn.Linear(D, D)

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(self.sums(x))

    def sums(self, x: Tensor) -> Tensor:
        n, b = x.shape[1], self.size
        if self.how == "loop":
            state, out = torch.zeros_like(x[:, 0]), []
            for t in range(n):
                state = 0.9 * state + x[:, t]
                out.append(state)
            return torch.stack(out, 1)
        if self.how in ("doubling", "rolled"):
            step = 1
            while step < n:
                moved = x.roll(step, 1) if self.how == "rolled" else F.pad(x, (0, 0, step, -step))
                x, step = x + 0.9**step * moved, 2 * step
            return x
        if self.how in ("chunked", "own", "last"):
            cut = F.pad(x, (0, 0, 0, -n % b)).unflatten(1, (-1, b))
            inside, states = cut.cumsum(2), cut.sum(2).cumsum(1)
            before = F.pad(states, (0, 0, 1, -1)) if self.how == "chunked" else states if self.how == "own" else states[:, -1:]
            return (inside + before[:, :, None]).flatten(1, 2)[:, :n]
        axis = {"batch": 0, "features": 2, "tokens": 1, "flipped": 1}[self.how]
        return x.flip(1).cumsum(1).flip(1) if self.how == "flipped" else x.cumsum(axis)


class Recurrent(nn.Module):
    """A GRU over tokens, over the batch, or over tokens from both ends."""

    def __init__(self, over: str) -> None:
        super().__init__()
        self.cell = nn.GRU(D, D // 2 if over == "both" else D, batch_first=over != "batch", bidirectional=over == "both")

    def forward(self, x: Tensor) -> Tensor:
        return self.cell(x)[0]


class Kernel(nn.Module):
    """Linear attention: sums of keys and values so far, over a sum of keys so far, or of all.

    "shifted" takes the largest key of all away first: it stands above and below, and cancels
    """

    def __init__(self, how: str = "") -> None:
        super().__init__()
        self.query, self.key, self.value, self.how = nn.Linear(D, D), nn.Linear(D, D), nn.Linear(D, D), how

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.query(x).exp(), self.key(x), self.value(x)
        k = (k - k.amax((1, 2), keepdim=True) if self.how == "shifted" else k).exp()
        pairs, keys = (k[..., :, None] * v[..., None, :]).cumsum(1), k.sum(1, keepdim=True) if self.how == "all" else k.cumsum(1)
        return (q[..., None, :] @ pairs)[..., 0, :] / (q * keys).sum(-1, keepdim=True)


def spectral(name: str, truth: str, size: str | int, taps: int = 5, **more: Any) -> Case:
    return Case(f"fft-{name}", lambda: Spectral(size, taps), features, "causal", truth, **more)


def scanned(how: str, statement: str, truth: str, size: int = 16, **more: Any) -> Case:
    return Case(f"scan-{how}-{size}-{statement}", lambda: Scan(how, size), features, statement, truth, **more)


SCANS = [
    spectral("padded-to-twice", "holds", "double", proof="what wraps falls on what is cut off"),
    spectral("not-padded", "broken", "none", proof="the last token wraps to the first"),
    spectral("padded-to-a-power-of-two", "broken", "power", proof="at a full power of two the last wraps to the first"),
    spectral("padded-to-128", "broken", 128, proof="at 125 to 128 tokens the last wraps to the first"),
    spectral("one-tap", "holds", "none", 1, proof="one tap has nothing that wraps"),
    Case("fft-of-features", lambda: Filtered("features"), features, "causal", "holds", proof="tokens never meet"),
    Case("fft-of-tokens", lambda: Filtered("tokens"), features, "causal", "broken"),
    Case("fft-low-pass", lambda: Filtered("low"), features, "causal", "broken"),
    Case("fft-of-complete-blocks", lambda: Filtered("blocks"), features, "causal", "broken"),
    *(scanned(how, "causal", "holds") for how in ("loop", "doubling", "chunked", "tokens", "features", "batch")),
    *(scanned(how, "causal", "broken") for how in ("rolled", "flipped", "own", "last")),
    *(scanned(how, "causal", truth, size) for size in (3, 37, 128) for how, truth in (("chunked", "holds"), ("own", "broken"))),
    scanned("batch", "batch", "broken", proof="the scan runs over the batch"),
    *(scanned(how, "batch", "holds") for how in ("loop", "features", "flipped")),
    *(Case(f"gru-over-{over}-{statement}", lambda over=over: Recurrent(over), features, statement, truth)
      for over, statement, truth in (("tokens", "batch", "holds"), ("batch", "batch", "broken"), ("batch", "causal", "holds"),
                                     ("both", "causal", "broken"))),
    Case("linear-attention", Kernel, features, "causal", "holds"),
    Case("linear-attention-over-all-keys", lambda: Kernel("all"), features, "causal", "broken"),
    Case("linear-attention-less-the-largest", lambda: Kernel("shifted"), features, "causal", "holds", proof="it cancels"),
]  # fmt: skip

# ------------------------------------------------------------------------------------------------- statistics of the text


class Statistics(nn.Module):
    """Every token over a statistic of tokens: of those so far, or of all of them."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how, self.norm = how, nn.GroupNorm(2, D) if how == "group" else nn.InstanceNorm1d(D)

    def forward(self, x: Tensor) -> Tensor:
        n = x.shape[1]
        count = torch.arange(1, n + 1, device=x.device).to(x.dtype)[:, None]
        if self.how == "mean-so-far":
            return x - x.cumsum(1) / count
        if self.how == "deviation-so-far":
            mean = x.cumsum(1) / count
            return x / ((x * x).cumsum(1) / count - mean * mean + 0.1).sqrt()
        if self.how == "largest-so-far":
            return x - x.cummax(1).values
        if self.how in ("group", "instance"):
            return self.norm(x.mT).mT
        if self.how == "over-the-length":
            return x.cumsum(1) / n
        of = {"mean": x.mean(1, keepdim=True), "largest": x.abs().amax((1, 2), keepdim=True), "median": x.median(1, True).values}
        of |= {"norm": x.norm(dim=1, keepdim=True), "quantile": x.quantile(0.9, 1, True), "sum": x.sum((1, 2), keepdim=True)}
        return x / (1 + of[self.how].abs())


class Choosing(nn.Module):
    """Tokens chosen by experts among all of the text, by each token for itself, in order, or with a limit of n // 4."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.gate, self.experts, self.how = nn.Linear(D, 2), nn.ModuleList(nn.Linear(D, D) for _ in range(2)), how

    def forward(self, x: Tensor) -> Tensor:
        scores, n = self.gate(x).softmax(-1), x.shape[1]
        chosen = F.one_hot(scores.argmax(-1), 2).to(x.dtype)
        if self.how == "experts":  # each takes the half that suits it best
            chosen = torch.zeros_like(scores).scatter(1, scores.topk((n + 1) // 2, 1).indices, 1.0)
        elif self.how == "in-order":  # the first eight of each, in the order of the text
            chosen = chosen * (chosen.cumsum(1) <= 8)
        elif self.how == "limit":  # as many as a quarter of the text
            chosen = chosen * (chosen.cumsum(1) <= n // 4)
        return x + sum(expert(x) * chosen[..., i, None] for i, expert in enumerate(self.experts))


class Moved(nn.Module):
    """Tokens moved by one: from before, from behind, around; or convolved, with padding on the left or on both sides."""

    def __init__(self, how: str, size: int = 3, dilation: int = 1) -> None:
        super().__init__()
        self.how, self.reach = how, (size - 1) * dilation
        self.conv = nn.Conv1d(D, D, size, padding=self.reach // 2 if how == "both" else 0, dilation=dilation)

    def forward(self, x: Tensor) -> Tensor:
        if self.how == "around":
            return x + x.roll(1, 1)
        if self.how in ("before", "behind"):
            return x + F.pad(x, (0, 0, 1, -1) if self.how == "before" else (0, 0, -1, 1))
        return self.conv(x.mT if self.how == "both" else F.pad(x.mT, (self.reach, 0))).mT


SO_FAR = ("mean-so-far", "deviation-so-far", "largest-so-far")
OF_ALL = ("mean", "largest", "median", "norm", "quantile", "sum", "group", "instance", "over-the-length")

COUNTED = [
    *(Case(f"statistic-{how}", lambda how=how: Statistics(how), features, "causal", "holds") for how in SO_FAR),
    *(Case(f"statistic-{how}", lambda how=how: Statistics(how), features, "causal", "broken") for how in OF_ALL),
    Case("statistic-in-the-second-layer", lambda: Layers(a=Causal(), b=Statistics("group")), features, "causal", "broken",
         where="b.norm"),
    Case("experts-choose-tokens", lambda: Choosing("experts"), features, "causal", "broken", proof="a later token takes the place"),
    Case("tokens-choose-experts", lambda: Choosing("tokens"), features, "causal", "holds"),
    Case("experts-with-places-in-order", lambda: Choosing("in-order"), lambda: features(21), "causal", "holds"),
    Case("experts-with-places-by-length", lambda: Choosing("limit"), lambda: features(21), "causal", "broken",
         proof="how many places there are follows the length"),
    *(Case(f"moved-from-{how}", lambda how=how: Moved(how), features, "causal", truth)
      for how, truth in (("before", "holds"), ("behind", "broken"), ("around", "broken"))),
    *(Case(f"convolved-{how}-{size}-{dilation}", lambda how=how, size=size, dilation=dilation: Moved(how, size, dilation),
           features, "causal", truth)
      for how, truth in (("left", "holds"), ("both", "broken")) for size, dilation in ((3, 1), (7, 1), (3, 9))),
]  # fmt: skip

# -------------------------------------------------------------------------------- blocks beside padding, documents and a cache


class Lengths(nn.Module):
    """Words with a mask of padding, and something else that counts tokens.

    "over-words" divides by the number of words; "over-rows" by the number of rows; "longest" by that of the longest row of the
    batch; "row-0" by that of the first row; "convolved" reads neighbours, padding too; "convolved-clean" empties padding first;
    "blocks" reads whole blocks of three, words only, "running" sums what came before
    """

    def __init__(self, how: str) -> None:
        super().__init__()
        self.embed, self.how, self.conv = nn.Embedding(11, D), how, nn.Conv1d(D, D, 3, padding=1)

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        real = (torch.ones_like(input_ids) if attention_mask is None else attention_mask)[..., None]
        x = self.embed(input_ids)
        clean, count = x * real, real.sum(1, keepdim=True)
        if self.how == "over-words":
            return x + clean.sum(1, keepdim=True) / count
        if self.how == "over-rows":
            return x + clean.sum(1, keepdim=True) / x.shape[1]
        if self.how == "longest":
            return x + clean.sum(1, keepdim=True) / count.max()
        if self.how == "row-0":
            return x + clean.sum(1, keepdim=True) / count[:1]
        if self.how.startswith("convolved"):
            return self.conv((clean if self.how.endswith("clean") else x).mT).mT
        return own_block(clean, 3) if self.how == "blocks" else clean.cumsum(1)


class Documents(nn.Module):
    """Sums within a document: begun again at each, or not; or a neighbour from the left, of the same document or of any."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.inner, self.how = nn.Linear(D, D), how

    def forward(self, x: Tensor, document_ids: Tensor | None = None) -> Tensor:
        number = torch.zeros(x.shape[:2], dtype=torch.long) if document_ids is None else document_ids
        same, back = number[:, :, None] == number[:, None], torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()
        if self.how == "sums":
            return self.inner((same & back).to(x.dtype) @ x)
        if self.how == "sums-of-all":
            return self.inner(back.to(x.dtype) @ x)
        before = F.pad(x, (0, 0, 1, -1))
        first = F.pad(number[:, 1:] != number[:, :-1], (1, 0))
        return x + (before.masked_fill(first[..., None], 0.0) if self.how == "neighbour" else before)


class KeepsBlocks(nn.Module):
    """Causal attention with a cache, where something happens each time that a block is full.

    "" is right; "dropped" forgets the block before its own, though one pass reads it; "rounded" halves what a full block holds;
    "window" keeps as many as its mask reads
    """

    def __init__(self, how: str = "", size: int = 16) -> None:
        super().__init__()
        self.embed, self.how, self.block = nn.Embedding(11, D), how, size
        self.query, self.key, self.value = (nn.Linear(D, D) for _ in range(3))

    def forward(self, input_ids: Tensor, past_key_values: Any = None, use_cache: bool = False) -> Any:
        x, n, b = self.embed(input_ids), input_ids.shape[-1], self.block
        k, v, start = self.key(x), self.value(x), 0
        if past_key_values is not None:
            old, values, start = past_key_values
            k, v = torch.cat([old, k], 1), torch.cat([values, v], 1)
        m, end = k.shape[1], start + n
        rows, columns = torch.arange(start, end)[:, None], torch.arange(end - m, end)
        seen = (columns <= rows) & (columns > rows - b) if self.how == "window" else columns <= rows
        out = (self.query(x) @ k.mT).masked_fill(~seen, -math.inf).softmax(-1) @ v
        keep = {"window": b, "dropped": end % b + b}.get(self.how, m)
        kept = (k[:, -keep:], v[:, -keep:], end)
        if self.how == "rounded" and end >= b > start:
            kept = (k / 2, v, end)
        return SimpleNamespace(logits=out, past_key_values=kept if use_cache else None)


def counting(how: str, statement: str, truth: str, **more: Any) -> Case:
    return Case(f"lengths-{how}-{statement}", lambda: Lengths(how), lambda: words(9), statement, truth, **more)


def masked_words(how: str, statement: str, truth: str) -> Case:
    mask = torch.ones(2, 9, dtype=torch.long)
    mask[1, 6:] = 0
    return Case(f"lengths-{how}-{statement}-with-a-mask", lambda: Lengths(how), lambda: words(9), statement, truth,
                settings={"kwargs": {"attention_mask": mask}})  # fmt: skip


BESIDE = [
    *(counting("over-words", s, "holds") for s in ("left-padding", "right-padding", "batch")),
    *(counting("over-rows", s, "broken") for s in ("left-padding", "right-padding")),
    *(counting(how, "batch", "broken") for how in ("longest", "row-0")),
    *(counting(how, "right-padding", "broken", proof="rows beside it are longer") for how in ("longest", "row-0")),
    counting("over-rows", "batch", "holds", proof="all rows have as many"),
    *(counting("convolved", s, "broken", proof="the word at the border reads padding") for s in ("left-padding", "right-padding")),
    *(counting("convolved-clean", s, "broken" if s == "none" else "holds") for s in ("left-padding", "right-padding")),
    counting("blocks", "left-padding", "broken", proof="blocks are counted from the row"),
    counting("running", "left-padding", "holds"),
    counting("running", "right-padding", "holds"),
    *(masked_words(how, "batch", "broken") for how in ("longest", "row-0")),
    masked_words("over-words", "batch", "holds"),
    *(Case(f"documents-{how}", lambda how=how: Documents(how), lambda: features(12), "packing", truth)
      for how, truth in (("sums", "holds"), ("sums-of-all", "broken"), ("neighbour", "holds"), ("neighbour-of-any", "broken"))),
    *(Case(f"cache-of-blocks-{how or 'right'}-{size}", lambda how=how, size=size: KeepsBlocks(how, size), lambda: words(9), "cache",
           truth) for how, truth in (("", "holds"), ("window", "holds"), ("dropped", "broken"), ("rounded", "broken"))
      for size in (16, 37)),
]  # fmt: skip

CASES = [*STORED, *WINDOWS, *SCANS, *COUNTED, *BESIDE]
