"""Zoo: small modules with proven truth about order, positions, causality, batches and padding. Both signs of each.

Every module is a few lines of plain torch; the proof of its truth stands beside it.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.audit.case import Case

D, N, V = 8, 7, 11  # features, tokens, words


def features(n: int = N, batch: int = 2) -> tuple[Tensor]:
    return (torch.randn(batch, n, D),)


def placed(n: int = N, start: float = 0.0) -> tuple[Tensor, Tensor]:
    """Features and their coordinates [N, 1]."""
    return torch.randn(2, n, D), torch.arange(n, dtype=torch.float32)[:, None] + start


def words(n: int = N) -> tuple[Tensor]:
    return (torch.randint(V, (2, n)),)


class Attend(nn.Module):
    """Attention of one head. What a subclass adds to the scores is its whole difference."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(D, D) for _ in range(4))

    def bias(self, scores: Tensor, at: Tensor) -> Tensor:
        return scores

    def weights(self, scores: Tensor) -> Tensor:
        return scores.softmax(-1)

    def forward(self, x: Tensor, at: Tensor | None = None) -> Tensor:
        places = torch.arange(x.shape[-2]).to(x.dtype) if at is None else at[..., 0]
        scores = self.query(x) @ self.key(x).mT / math.sqrt(D)
        return self.out(self.weights(self.bias(scores, places)) @ self.value(x))


def later(scores: Tensor, reach: int = 1) -> Tensor:
    """True where the key lies `reach` or more behind the query."""
    return torch.ones_like(scores, dtype=torch.bool).triu(reach)


# ------------------------------------------------------------------------------------------------------------- order


class Table(nn.Module):
    """Adds a row of a table by the row number."""

    def __init__(self, zero: bool = False) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.zeros(64, D) if zero else torch.randn(64, D))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.table[: x.shape[-2]]


class Layers(nn.Module):
    """Modules one after another, with a sum around each that mixes tokens."""

    def __init__(self, **parts: nn.Module) -> None:
        super().__init__()
        for name, part in parts.items():
            self.add_module(name, part)

    def forward(self, x: Tensor, at: Tensor | None = None) -> Tensor:
        for part in self.children():
            x = x + part(x, at) if isinstance(part, Attend) else part(x)
        return x


class Recurrent(nn.Module):
    """A GRU."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRU(D, D, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.cell(x)[0]


class Convolved(nn.Module):
    """A convolution along the tokens, padded in some way, or on the left only."""

    def __init__(self, mode: str = "zeros", causal: bool = False) -> None:
        super().__init__()
        self.conv = nn.Conv1d(D, D, 3, padding=0 if causal else 1, padding_mode=mode)
        self.causal = causal

    def forward(self, x: Tensor) -> Tensor:
        x = x.mT
        return self.conv(F.pad(x, (2, 0)) if self.causal else x).mT


class Pooled(nn.Module):
    """Mean of all tokens, then a layer."""

    def __init__(self, how: str = "mean") -> None:
        super().__init__()
        self.head, self.how = nn.Linear(D, 3), how

    def forward(self, x: Tensor) -> Tensor:
        pooled = x.mean(-2) if self.how == "mean" else x.amax(-2) if self.how == "max" else x[:, 0]
        return self.head(pooled)


class NormTokens(nn.Module):
    """Layer norm over the tokens instead of the features; with a gain for every row or without."""

    def __init__(self, gain: bool) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(N, elementwise_affine=gain)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x.mT).mT


class LastToken(nn.Module):
    """Layers of causal attention without positions; the last token is read."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Causal() for _ in range(count))

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = x + block(x)
        return x[:, -1]


class Causal(Attend):
    """Looks at itself and back. hidden: what is added to a score that has to be hidden; reach: 1 hides all that is later."""

    def __init__(self, hidden: float = -math.inf, reach: int = 1) -> None:
        super().__init__()
        self.hidden, self.reach = hidden, reach

    def bias(self, scores: Tensor, at: Tensor) -> Tensor:
        return scores.masked_fill(later(scores, self.reach), self.hidden)


class Leaky(Causal):
    """Ten is subtracted from what should be hidden: e^-10 of it comes through."""

    def bias(self, scores: Tensor, at: Tensor) -> Tensor:
        return scores - 10.0 * later(scores)


class Emptied(Causal):
    """Rows that may attend to nothing give 0."""

    def weights(self, scores: Tensor) -> Tensor:
        return scores.softmax(-1).nan_to_num(0.0)


ORDER = [
    Case("attention-alone", Attend, features, "permute", "holds", proof="softmax and sum know no order"),
    Case("attention-and-a-table", lambda: Layers(places=Table(), attend=Attend()), features, "permute", "broken", where="places"),
    Case("attention-and-a-zero-table", lambda: Layers(places=Table(zero=True), attend=Attend()), features, "permute", "broken",
         where="places", says="at the given parameters", proof="a table of zeros is none, a trained one is"),
    Case("gru", lambda: Layers(gru=Recurrent()), features, "permute", "broken"),
    Case("each-token-alone", lambda: nn.Sequential(nn.Linear(D, D), nn.GELU(), nn.Linear(D, D)), features, "permute", "holds"),
    Case("convolution-padded-with-zeros", Convolved, features, "permute", "broken", subgroup=""),
    Case("convolution-circular", lambda: Convolved("circular"), features, "permute", "broken", subgroup="cyclic shifts"),
    Case("mean-of-tokens", Pooled, features, "permute", "holds"),
    Case("largest-of-tokens", lambda: Pooled("max"), features, "permute", "holds"),
    Case("first-token", lambda: Pooled("first"), features, "permute", "broken", subgroup="order of all but the first token"),
    Case("norm-over-tokens-without-gain", lambda: NormTokens(False), features, "permute", "holds"),
    Case("norm-over-tokens-with-gain", lambda: NormTokens(True), features, "permute", "broken", where="norm",
         proof="at the given parameters every gain is one"),
    Case("causal-attention-order", Causal, features, "permute", "broken"),
    Case("one-causal-layer-last-token", lambda: LastToken(1), features, "permute", "broken",
         subgroup="order of all but the last token", proof="the last row attends to a set"),
    Case("two-causal-layers-last-token", lambda: LastToken(2), features, "permute", "broken", subgroup="",
         proof="the second layer sees rows that differ by what each could see"),
    Case("two-tokens-attention", Attend, lambda: features(2), "permute", "holds"),
    Case("two-tokens-table", Table, lambda: features(2), "permute", "broken"),
    Case("one-token", Attend, lambda: features(1), "permute", "not applicable", says="only one token"),
]  # fmt: skip


# ------------------------------------------------------------------------------------------------------------ places


class AddAt(nn.Module):
    """Adds a function of the coordinate to the features."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.lift, self.how = nn.Linear(1, D), how
        self.table = nn.Parameter(torch.randn(4, D))

    def forward(self, x: Tensor, at: Tensor) -> Tensor:
        if self.how == "span":  # 0 at the first token, 1 at the last
            return x + self.lift((at - at.amin(-2, keepdim=True)) / (at.amax(-2, keepdim=True) - at.amin(-2, keepdim=True)))
        if self.how == "length":
            return x + self.lift(at / x.shape[-2])
        if self.how == "clipped":
            return x + self.table[at[..., 0].clamp(0, 3).long()]
        if self.how == "strided":
            return x + self.table[at[..., 0].long() % 4]
        return x


class Relative(Attend):
    """A bias by the distance: of the key from the query, clipped, in both directions or one."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.table, self.how = nn.Parameter(torch.randn(7)), how

    def bias(self, scores: Tensor, at: Tensor) -> Tensor:
        gap = at[..., None, :] - at[..., :, None]
        if self.how == "clipped":
            return scores + self.table[gap.clamp(-3, 3).long() + 3]
        if self.how == "both-sides":
            return scores - 0.5 * gap.abs()
        if self.how == "key":  # ALiBi counted from the key: each row gets the same constant when all move
            return scores + 0.3 * at[..., None, :]
        if self.how == "product":
            return scores + 0.1 * at[..., None, :] * at[..., :, None]
        return scores


class Fire(Attend):
    """log(c |i - j| + 1) / log(c max(i, L) + 1), then a small network."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(1, 8), nn.ReLU(), nn.Linear(8, 1))

    def bias(self, scores: Tensor, at: Tensor) -> Tensor:
        gap = (at[:, None] - at[None, :]).abs()
        share = torch.log(gap + 1) / torch.log(at.clamp(min=3.0)[:, None] + 1)
        return (scores + self.net(share[..., None])[..., 0]).masked_fill(later(scores), -math.inf)


class Turned(Attend):
    """Rotary positions. how: as they are; frequencies that follow the length beyond 4; those of queries or keys doubled."""

    def __init__(self, how: str = "") -> None:
        super().__init__()
        self.how = how

    def forward(self, x: Tensor, at: Tensor | None = None) -> Tensor:
        n = x.shape[-2]
        places = torch.arange(n).to(x.dtype) if at is None else at[..., 0]
        base = (
            100.0 * max(n / 4, 1.0)
            if self.how == "length"
            else 100.0 * max(1.0, float(places.max()) / 4)
            if self.how == "far"
            else 100.0
        )
        rates = base ** -(torch.arange(D // 2).to(x.dtype) / (D // 2))
        q, k = turn(self.query(x), places, rates), turn(self.key(x), places * (2 if self.how == "double" else 1), rates)
        scores = (q @ k.mT / math.sqrt(D)).masked_fill(later(q @ k.mT), -math.inf)
        return self.out(scores.softmax(-1) @ self.value(x))


def turn(x: Tensor, at: Tensor, rates: Tensor) -> Tensor:
    """Pairs (i, i + D/2) turned by at * rates."""
    angle = at[..., None] * rates
    a, b = x.chunk(2, -1)
    return torch.cat([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()], -1)


PLACES = [
    Case("span-shift", lambda: AddAt("span"), placed, "shift", "holds", proof="(at + s - (min + s)) / span"),
    Case("span-reverse", lambda: AddAt("span"), placed, "reverse", "broken"),
    Case("span-permute", lambda: AddAt("span"), placed, "permute", "broken"),
    Case("length-shift", lambda: AddAt("length"), placed, "shift", "broken"),
    Case("clipped-absolute-shift", lambda: AddAt("clipped"), placed, "shift", "broken", where="",
         proof="places 0 to 3 differ, moved by 1 they do not stay what they were"),
    Case("clipped-relative-shift", lambda: Relative("clipped"), placed, "shift", "holds"),
    Case("clipped-relative-reverse", lambda: Relative("clipped"), placed, "reverse", "broken"),
    Case("both-sides-reverse", lambda: Relative("both-sides"), placed, "reverse", "holds"),
    Case("both-sides-shift", lambda: Relative("both-sides"), placed, "shift", "holds"),
    Case("both-sides-permute", lambda: Relative("both-sides"), placed, "permute", "broken"),
    Case("no-places-reverse", Attend, placed, "reverse", "holds"),
    Case("no-places-shift", Attend, placed, "shift", "holds"),
    Case("bias-of-the-key-shift", lambda: Relative("key"), placed, "shift", "holds", proof="a constant in a row stays none"),
    Case("bias-of-the-key-reverse", lambda: Relative("key"), placed, "reverse", "broken"),
    Case("bias-of-a-product-shift", lambda: Relative("product"), placed, "shift", "broken"),
    Case("fire-shift", Fire, placed, "shift", "broken", proof="the normalisation grows with the query's own place"),
    Case("fire-causal", Fire, placed, "causal", "holds"),
    Case("rotary-shift", Turned, placed, "shift", "holds"),
    Case("rotary-shift-two-layers", lambda: Layers(a=Turned(), b=Turned()), placed, "shift", "holds"),
    Case("rotary-double-shift", lambda: Layers(a=Turned(), b=Turned("double")), placed, "shift", "broken", where="b"),
    Case("rotary-reverse", Turned, placed, "reverse", "broken"),
    Case("rotary-by-length-shift", lambda: Turned("length"), placed, "shift", "holds", proof="the length stays"),
    Case("rotary-by-length-causal", lambda: Turned("length"), placed, "causal", "broken", proof="the length is ahead"),
    Case("rotary-by-furthest-shift", lambda: Turned("far"), placed, "shift", "broken"),
    Case("strided-shift", lambda: AddAt("strided"), placed, "shift", "broken", subgroup="shifts by 4"),
    Case("shift-without-places", Attend, features, "shift", "not applicable", says="no "),
]  # fmt: skip


# ------------------------------------------------------------------------------------------------ causality, batches


class Clock(nn.Module):
    """Adds the share of the text that has been read."""

    def forward(self, x: Tensor) -> Tensor:
        n = x.shape[-2]
        return x + (torch.arange(n).to(x.dtype) / n)[:, None]


class Running(nn.Module):
    """The mean of all tokens so far, or of all there are."""

    def __init__(self, all_of_them: bool = False) -> None:
        super().__init__()
        self.all_of_them, self.head = all_of_them, nn.Linear(D, D)

    def forward(self, x: Tensor) -> Tensor:
        if self.all_of_them:
            return self.head(x - x.mean(-2, keepdim=True))
        return self.head(x.cumsum(-2) / torch.arange(1, x.shape[-2] + 1).to(x.dtype)[:, None])


class Batched(nn.Module):
    """Batch norm over batch and tokens."""

    def __init__(self, track: bool = True) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(D, track_running_stats=track)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x.mT).mT


class AcrossRows(nn.Module):
    """Divides by the largest number of the batch, or of each sequence, or of each token."""

    def __init__(self, axes: tuple[int, ...]) -> None:
        super().__init__()
        self.axes, self.head = axes, nn.Linear(D, D)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(x / x.abs().amax(self.axes, keepdim=True))


class WrongFirst(nn.Module):
    """torch's attention given [batch, token] and believing it is [token, batch]."""

    def __init__(self, batch_first: bool) -> None:
        super().__init__()
        self.attend = nn.MultiheadAttention(D, 2, batch_first=batch_first)

    def forward(self, x: Tensor) -> Tensor:
        return self.attend(x, x, x, need_weights=False)[0]


class Encoder(nn.Module):
    """torch's encoder, with a causal mask or without."""

    def __init__(self, causal: bool) -> None:
        super().__init__()
        self.inner = nn.TransformerEncoder(nn.TransformerEncoderLayer(D, 2, 16, batch_first=True), 2, enable_nested_tensor=False)
        self.causal = causal

    def forward(self, x: Tensor) -> Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[-2], dtype=x.dtype) if self.causal else None
        return self.inner(x, mask=mask)


CAUSAL = [
    Case("causal-mask", Causal, features, "causal", "holds"),
    Case("causal-mask-two-layers", lambda: Layers(a=Causal(), b=Causal()), features, "causal", "holds"),
    Case("no-mask", lambda: Layers(a=Causal(), b=Attend()), features, "causal", "broken", where="b"),
    Case("mask-off-by-one", lambda: Layers(a=Causal(), b=Causal(reach=2), c=Causal()), features, "causal", "broken", where="b"),
    Case("mask-of-minus-a-billion", lambda: Causal(-1e9), features, "causal", "holds", proof="exp(-1e9) is 0 in every precision"),
    Case("mask-of-minus-ten", lambda: Layers(a=Causal(), b=Leaky()), features, "causal", "broken", where="b"),
    Case("strict-mask-of-minus-a-billion", lambda: Causal(-1e9, reach=0), features, "causal", "broken",
         proof="the first row may attend to nothing, so all its scores are equal and it attends to everything"),
    Case("strict-mask-of-minus-infinity", lambda: Causal(reach=0), features, "causal", "undecided", says="not finite"),
    Case("strict-mask-emptied", lambda: Emptied(reach=0), features, "causal", "holds"),
    Case("running-mean", Running, features, "causal", "holds"),
    Case("mean-of-the-whole", lambda: Layers(a=Running(), b=Running(True)), features, "causal", "broken", where="b"),
    Case("clock-of-the-length", Clock, features, "causal", "broken", proof="no later word is seen, but how many there are"),
    Case("convolution-on-the-left", lambda: Convolved(causal=True), features, "causal", "holds"),
    Case("convolution-around", Convolved, features, "causal", "broken"),
    Case("convolution-circular-causal", lambda: Convolved("circular"), features, "causal", "broken"),
    Case("gru-causal", Recurrent, features, "causal", "holds"),
    Case("norm-over-tokens-causal", lambda: NormTokens(False), features, "causal", "broken", where="norm"),
    Case("batch-norm-in-training-causal", lambda: Layers(a=Causal(), b=Batched()), features, "causal", "broken", where="b.norm",
         settings={"mode": "train"}),
    Case("batch-norm-in-evaluation-causal", Batched, features, "causal", "holds"),
    Case("attention-over-the-batch-causal", lambda: WrongFirst(False), features, "causal", "holds", proof="tokens never meet"),
    Case("encoder-causal", lambda: Encoder(True), features, "causal", "holds"),
    Case("encoder-causal-without-a-mask", lambda: Encoder(False), features, "causal", "broken"),
    Case("two-tokens-causal", Causal, lambda: features(2), "causal", "holds"),
    Case("two-tokens-not-causal", Attend, lambda: features(2), "causal", "broken"),
    Case("pooled-causal", Pooled, features, "causal", "undecided", says="one entry for each token"),
]  # fmt: skip

BATCH = [
    Case("attention-batch", Attend, features, "batch", "holds"),
    Case("batch-norm-in-evaluation", Batched, features, "batch", "holds"),
    Case("batch-norm-in-training", lambda: Layers(a=Attend(), b=Batched()), features, "batch", "broken", where="b.norm",
         settings={"mode": "train"}),
    Case("batch-norm-in-training-permute", Batched, features, "permute", "holds", settings={"mode": "train"},
         proof="mean and spread over batch and tokens know no order"),
    Case("batch-norm-without-statistics", lambda: Batched(False), features, "batch", "broken", where="norm"),
    Case("largest-of-the-batch", lambda: Layers(a=Attend(), b=AcrossRows((0, 1, 2))), features, "batch", "broken", where="b"),
    Case("largest-of-a-sequence", lambda: AcrossRows((1, 2)), features, "batch", "holds"),
    Case("largest-of-a-token", lambda: AcrossRows((2,)), features, "batch", "holds"),
    Case("attention-over-the-batch", lambda: WrongFirst(False), features, "batch", "broken", where="attend"),
    Case("attention-over-tokens", lambda: WrongFirst(True), features, "batch", "holds"),
    Case("pooled-batch", Pooled, features, "batch", "holds"),
    Case("encoder-batch", lambda: Encoder(True), features, "batch", "holds"),
    Case("one-sequence-batch", lambda: AcrossRows((0, 1, 2)), lambda: features(batch=1), "batch", "broken",
         proof="a second one is put beside it"),
]  # fmt: skip

CASES = [*ORDER, *PLACES, *CAUSAL, *BATCH]
