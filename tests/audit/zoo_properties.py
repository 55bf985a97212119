"""Zoo of properties: small modules with proven truth about packing, training, precision, gradients, rotations, context and forces.

Both signs of each; every module is a few lines of plain torch, and the proof of its truth stands beside it.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.audit.case import Case

D, N = 8, 9  # features, tokens


def features(n: int = N, batch: int = 2) -> tuple[Tensor]:
    return (torch.randn(batch, n, D),)


def placed(n: int = N) -> tuple[Tensor, Tensor]:
    return torch.randn(2, n, D), torch.arange(n).expand(2, n)


def points(n: int = 6) -> tuple[Tensor]:
    return (torch.randn(n, 3),)


# ------------------------------------------------------------------------------------------------- places and documents


class Turn(nn.Module):
    """One head whose queries and keys are rotated by their position.

    query, key  "half", "pairs" or "none": which columns turn together; speed: of the keys' turn; part: how many columns turn
    angles      dtype in which they are computed; None: that of the features
    kept        "" computes cosines in each call; "buffer", "attribute" or "complex": tables made once, in float32
    """

    def __init__(
        self, query: str = "half", key: str = "half", speed: float = 1.0, part: int = D, angles: torch.dtype | None = torch.float64,
        kept: str = "", causal: bool = False, hides: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(D, D) for _ in range(4))
        self.layouts, self.speed, self.part, self.angles, self.kept = (query, key), speed, part, angles, kept
        self.causal, self.hides = causal, hides
        table = torch.outer(torch.arange(1100).float(), 1000.0 ** (-torch.arange(0, part, 2) / part))
        if kept == "complex":
            self.register_buffer("waves", torch.polar(torch.ones_like(table), table))
        elif kept == "buffer":
            self.register_buffer("cosines", table.cos())
            self.register_buffer("sines", table.sin())
        elif kept == "attribute":
            self.cosines, self.sines = table.cos(), table.sin()

    def turned(self, x: Tensor, places: Tensor, layout: str) -> Tensor:
        if layout == "none":
            return x
        y, rest = x[..., : self.part], x[..., self.part :]
        if self.kept == "complex":
            turned = torch.view_as_complex(y.unflatten(-1, (-1, 2)).contiguous()) * self.waves[places.long()]
            return torch.cat([torch.view_as_real(turned).flatten(-2), rest], -1)
        if self.kept:
            cos, sin = self.cosines[places.long()], self.sines[places.long()]
        else:
            dtype = self.angles or x.dtype
            speeds = 1000.0 ** (-torch.arange(0, self.part, 2, device=x.device, dtype=dtype) / self.part)
            angle = places[..., None].to(dtype) * speeds
            cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
        if layout == "half":
            a, b = y.chunk(2, -1)
            return torch.cat([a * cos - b * sin, a * sin + b * cos, rest], -1)
        a, b = y[..., ::2], y[..., 1::2]
        return torch.cat([torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2), rest], -1)

    def forward(self, x: Tensor, position_ids: Tensor, document_ids: Tensor | None = None) -> Tensor:
        q = self.turned(self.q(x), position_ids, self.layouts[0])
        k = self.turned(self.k(x), position_ids * self.speed, self.layouts[1])
        scores = q @ k.mT / math.sqrt(D)
        if self.causal:
            scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), -math.inf)
        if document_ids is not None and self.hides:
            scores = scores.masked_fill(document_ids[..., :, None] != document_ids[..., None, :], -math.inf)
        return x + self.out(scores.softmax(-1) @ self.v(x))


class Mean(nn.Module):
    """Normalises by the mean over the row; hides other documents only where it attends."""

    def __init__(self) -> None:
        super().__init__()
        self.turn = Turn()

    def forward(self, x: Tensor, position_ids: Tensor, document_ids: Tensor | None = None) -> Tensor:
        return self.turn(x - x.mean(-2, keepdim=True), position_ids, document_ids)


PACKING = [
    Case("documents hidden by a mask", Turn, placed, "packing", "holds",
         proof="scores of other documents are -inf, places begin again"),
    Case("documents told, not hidden", lambda: Turn(hides=False), placed, "packing", "broken", says="attends to the others"),
    Case("a causal model that hides no documents", lambda: Turn(causal=True, hides=False), placed, "packing", "broken"),
    Case("a mean over the row of all documents", Mean, placed, "packing", "broken", proof="the mean holds words of every document"),
    Case("no way to say a document", lambda: nn.Linear(D, D), features, "packing", "not applicable",
         says="cannot mark where a document"),
]  # fmt: skip


class Sunk(Turn):
    """A sink stands beside the keys, and the middle columns of each half do not turn."""

    def turned(self, x: Tensor, places: Tensor, layout: str) -> Tensor:
        a, b = x.chunk(2, -1)
        angle = places[..., None].to(x.dtype) * torch.tensor([1.0, 0.3, 0.0, 0.0], dtype=x.dtype)
        return torch.cat([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()], -1)

    def forward(self, x: Tensor, position_ids: Tensor, document_ids: Tensor | None = None) -> Tensor:
        q, k = (self.turned(m(x), position_ids, "half") for m in (self.q, self.k))
        scores = F.pad(q @ k.mT / math.sqrt(D), (0, 1))
        return x + self.out(scores.softmax(-1)[..., :-1] @ self.v(x))


class Settles(nn.Module):
    """A running mean before attention: of one word it is the word, but for a start that fades. Nothing turns."""

    def __init__(self) -> None:
        super().__init__()
        self.turn, self.start = Turn("none", "none"), nn.Parameter(torch.randn(D))

    def forward(self, x: Tensor, position_ids: Tensor) -> Tensor:
        fades = 0.03 ** torch.arange(1, x.shape[-2] + 1, dtype=x.dtype)[:, None]
        return self.turn(x + fades * self.start, position_ids)


LAYOUT = [
    Case("a sink, and still columns in the middle", Sunk, placed, "rotary-layout", "holds",
         output="half-split", says="4 of 8 columns"),
    Case("what fades does not turn", Settles, placed, "rotary-layout", "not applicable", output="none"),
    Case("rotary in halves", Turn, placed, "rotary-layout", "holds", output="half-split"),
    Case("rotary in neighbours", lambda: Turn("pairs", "pairs"), placed, "rotary-layout", "holds", output="interleaved"),
    Case("rotary of a part", lambda: Turn("pairs", "pairs", part=4), placed, "rotary-layout", "holds", says="4 of 8 columns"),
    Case("no rotary", lambda: Turn("none", "none"), placed, "rotary-layout", "not applicable", output="none"),
    Case("layouts mixed up", lambda: Turn("half", "pairs"), placed, "rotary-layout", "broken",
         says="half-split, keys in the layout inter"),
    Case("only queries turn", lambda: Turn("half", "none"), placed, "rotary-layout", "broken", says="only the queries are rotated"),
    Case("keys turn the other way", lambda: Turn(speed=-1.0), placed, "rotary-layout", "broken", says="opposite directions"),
    Case("keys turn faster", lambda: Turn(speed=2.0), placed, "rotary-layout", "broken", says="different angles"),
    Case("rotary by tables in float32", lambda: Turn(kept="buffer"), placed, "rotary-layout", "holds", output="half-split"),
    Case("no attention", lambda: nn.Linear(D, D), features, "rotary-layout", "undecided", says="no attention was recorded"),
]  # fmt: skip

TABLES = [
    Case(f"shift by tables kept in float32 as {kept}", lambda kept=kept: Turn("pairs", "pairs", kept=kept), placed, "shift",
         "holds",
         says="rounding of the model's float32 tables",
         proof="the product knows the distance but for the tables' rounding")
    for kept in ("buffer", "attribute", "complex")
] + [
    Case("shift by tables, keys at another speed", lambda: Turn(kept="buffer", speed=2), placed, "shift", "broken",
         settings={"tolerance": 1e-2}, proof="the product knows the place of the query"),
]  # fmt: skip


class Whisper(Turn):
    """A true violation as small as a table's rounding could be, beside a table that has no part in it."""

    def forward(self, x: Tensor, position_ids: Tensor, document_ids: Tensor | None = None) -> Tensor:
        return super().forward(x, position_ids, document_ids) + 3e-6 * (0.1 * position_ids[..., None]).sin()


TABLES.append(Case("a small violation beside an idle table", lambda: Whisper("none", "none", kept="buffer"), placed, "shift",
         "broken",
                   proof="the sine of the place is added, and the table turns nothing"))  # fmt: skip


# ------------------------------------------------------------------------------------------------------------- precision


class RootMean(nn.Module):
    """Root-mean-square norm of large numbers; squares of 2^9 and more overflow in float16."""

    def __init__(self, wide: bool) -> None:
        super().__init__()
        self.inward, self.outward, self.wide = nn.Linear(D, D), nn.Linear(D, D), wide

    def forward(self, x: Tensor) -> Tensor:
        y = self.inward(x) * 2000
        squares = y.float() ** 2 if self.wide and y.dtype != torch.float64 else y**2
        return self.outward((y / (squares.mean(-1, keepdim=True) + 1e-6).sqrt()).to(x.dtype))


class Cancels(nn.Module):
    """A gate of (1 + small) - 1, made as large as 1 again: 0 where 1 + small is 1."""

    def __init__(self, small: float) -> None:
        super().__init__()
        self.map, self.small = nn.Linear(D, D), small

    def forward(self, x: Tensor) -> Tensor:
        gate = (x.new_tensor(1.0) + self.small - 1.0) / self.small
        return self.map(x) * gate


DTYPE = [
    Case("a linear map", lambda: nn.Linear(D, D), features, "dtype", "holds", proof="one rounding a product"),
    Case("a transformer layer", lambda: nn.TransformerEncoderLayer(D, 2, 16, batch_first=True), features, "dtype", "holds"),
    Case("angles in float64", Turn, placed, "dtype", "holds"),
    Case("angles in float32", lambda: Turn(angles=torch.float32), placed, "dtype", "holds",
         proof="off by 4096 * 2^-24 = 2e-4 rad, below bfloat16's own 2^-8"),
    Case("angles in the features' dtype", lambda: Turn(angles=None), placed, "dtype", "broken",
         says="positions lose precision",
         proof="bfloat16 holds 4096 to within 16, float16 to within 2"),
    Case("squares in float32", lambda: RootMean(True), features, "dtype", "holds"),
    Case("squares in float16", lambda: RootMean(False), features, "dtype", "broken", says="in float16 overflows",
         proof="(2000 y)^2 is larger than 65504 for |y| > 0.13"),
    Case("a gate that all keep", lambda: Cancels(2.0**-6), features, "dtype", "holds",
         proof="1 + 2^-6 is no rounding of 1 in bfloat16"),
    Case("a gate that bfloat16 loses", lambda: Cancels(2.0**-9), features, "dtype", "broken", says="in bfloat16 the error",
         proof="1 + 2^-9 is 1 in bfloat16, so all outputs are 0; float16 and float32 hold it exactly"),
    Case("a gate that float32 half loses", lambda: Cancels(1e-6), features, "dtype", "undecided", says="explains any drift",
         proof="float32 is off by up to 2^-24 / 1e-6 = 6 %"),
]  # fmt: skip


# -------------------------------------------------------------------------------------------------- training, gradients


class Stochastic(nn.Module):
    """Leaves its branch out at random, or not, while training."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.branch, self.rate = nn.Linear(D, D), rate

    def forward(self, x: Tensor) -> Tensor:
        keep = (torch.rand(x.shape[0], 1, 1) >= self.rate).to(x) if self.training else 1.0
        return x + keep * self.branch(x)


TRAINING = [
    Case("dropout only", lambda: nn.Sequential(nn.Linear(D, D), nn.Dropout(0.5)), features, "train-eval", "holds"),
    Case("attention that drops", lambda: nn.TransformerEncoderLayer(D, 2, 16, 0.3, batch_first=True), features, "train-eval",
         "holds",
         proof="dropout is set aside, inside torch's own functions too"),
    Case("batch norm", lambda: nn.Sequential(nn.Linear(D, D), nn.BatchNorm1d(N)), features, "train-eval", "broken", "1",
         says="BatchNorm1d", proof="the mean of the batch in training, the kept one in evaluation"),
    Case("stochastic depth", lambda: nn.Sequential(nn.Linear(D, D), Stochastic(0.7)), lambda: features(batch=16), "train-eval",
         "broken",
         "1", says="draws random numbers besides dropout"),
]  # fmt: skip


class Square(torch.autograd.Function):
    """x^2, with a backward that is as it should be, or forgets the 2."""

    @staticmethod
    def forward(ctx, x, factor):  # type: ignore[no-untyped-def]
        ctx.save_for_backward(x)
        ctx.factor = factor
        return x * x

    @staticmethod
    def backward(ctx, gradient):  # type: ignore[no-untyped-def]
        (x,) = ctx.saved_tensors
        return ctx.factor * x * gradient, None


class Squares(nn.Module):
    """Squares between two maps."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.first, self.second, self.third, self.factor = nn.Linear(D, D), nn.Linear(D, D), nn.Linear(D, D), factor

    def forward(self, x: Tensor) -> Tensor:
        return self.third(Square.apply(self.second(self.first(x).tanh()), self.factor))


class Cut(nn.Module):
    """Passes through; gradients do not, or arrive scaled."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.map, self.how = nn.Linear(D, D), how

    def forward(self, x: Tensor) -> Tensor:
        y = self.map(x)
        if self.how == "rounded":
            return (100 * y).round() / 100
        if self.how == "scaled" and y.requires_grad:
            y.register_hook(lambda g: 0.5 * g)
        return y.detach() if self.how == "detached" else y


class Other(nn.Module):
    """A map, and then something that has no slope, or no number."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.map, self.how = nn.Linear(D, D), how

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.map(x)
        if self.how == "largest":
            return y.argmax(-1)
        if self.how == "estimator":
            return y + (y.round() - y).detach()
        return y / 0 * 0 if self.how == "nan" else torch.fft.fft(y, dim=-2)


GRADIENT = [
    Case("a straight-through estimator", lambda: Other("estimator"), features, "gradient", "broken", says="do not depend on them",
         proof="rounded numbers stay where they are for a small step"),
    Case("whole numbers", lambda: Other("largest"), features, "gradient", "undecided", says="could be differentiated"),
    Case("complex numbers", lambda: Other("waves"), features, "gradient", "holds"),
    *(Case(f"NaN, {name}", lambda: Other("nan"), features, name, "undecided", says="finite")
      for name in ("gradient", "dtype", "masked-rows", "dead-context", "train-eval")),
    Case("a square with its slope", lambda: Squares(2.0), features, "gradient", "holds"),
    Case("a square whose slope forgets the 2", lambda: Squares(1.0), features, "gradient", "broken", "second",
         proof="the third map's own gradient is right, those before it are not"),
    Case("a transformer layer's gradient", lambda: nn.TransformerEncoderLayer(D, 2, 16, batch_first=True), features, "gradient",
         "holds",
         proof="ReLU has a kink, which a step of 1e-5 crosses rarely"),
    Case("a detached output", lambda: Cut("detached"), features, "gradient", "broken", says="is zero"),
    Case("a gradient that is halved", lambda: Cut("scaled"), features, "gradient", "broken", says="0.5 times"),
]  # fmt: skip


# --------------------------------------------------------------------------------------------------------------- context


class Window(nn.Module):
    """Attends to itself and to this many tokens before it."""

    def __init__(self, back: int, dead: tuple[int, ...] = ()) -> None:
        super().__init__()
        self.turn, self.back, self.dead = Turn(), back, dead

    def forward(self, x: Tensor) -> Tensor:
        t = self.turn
        scores = t.q(x) @ t.k(x).mT / math.sqrt(D)
        i = torch.arange(x.shape[-2])
        hidden = (i[None] > i[:, None]) | (i[:, None] - i[None] > self.back)
        for j in self.dead:
            hidden[:, j] |= i != j
        return x + scores.masked_fill(hidden, -1e9).softmax(-1) @ t.v(x)


class Pooled(nn.Module):
    """The mean of the last few words."""

    def __init__(self, last: int) -> None:
        super().__init__()
        self.map, self.last = nn.Linear(D, D), last

    def forward(self, x: Tensor) -> Tensor:
        return self.map(x[..., -self.last :, :]).mean(-2)


CONTEXT = [
    Case("a window of four", lambda: Window(4), features, "dead-context", "holds", says="depend on the last 4 tokens"),
    Case("two layers of a window of two", lambda: nn.Sequential(Window(2), Window(2)), features, "dead-context", "holds",
         says="depend on the last 4 tokens", proof="what was seen two words back had seen two further"),
    Case("the whole text", lambda: Window(99), features, "dead-context", "holds", says="outputs depend on all earlier tokens"),
    Case("two keys that nobody sees", lambda: Window(99, (2, 5)), features, "dead-context", "broken",
         says="the tokens 2, 5"),
    Case("every word alone", lambda: nn.Linear(D, D), features, "dead-context", "broken", says="on its own token only"),
    Case("both ways", lambda: nn.TransformerEncoderLayer(D, 2, 16, batch_first=True), features, "dead-context", "holds",
         says="every token affects every other"),
    Case("a mean of all", lambda: Pooled(N), features, "dead-context", "holds"),
    Case("a mean of the last three", lambda: Pooled(3), features, "dead-context", "broken", says="from 6 on"),
]  # fmt: skip


class Masked(nn.Module):
    """One head with a padding mask (True hides) in one of several forms; strict: a word does not see itself either."""

    def __init__(self, form: str, layers: int = 1, strict: bool = False) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Turn() for _ in range(layers))
        self.form, self.strict = form, strict

    def forward(self, x: Tensor, key_padding_mask: Tensor | None = None) -> Tensor:
        n = x.shape[-2]
        hidden = torch.zeros(x.shape[0], n, n, dtype=torch.bool)
        if key_padding_mask is not None:
            hidden = hidden | key_padding_mask[:, None, :]
        if self.strict:
            hidden = hidden | torch.ones(n, n, dtype=torch.bool).triu()
        for t in self.layers:
            q, k, v = t.q(x), t.k(x), t.v(x)
            x = x + t.out(self.attended(q, k, v, hidden))
        return x

    def attended(self, q: Tensor, k: Tensor, v: Tensor, hidden: Tensor) -> Tensor:
        if self.form == "fused":
            return F.scaled_dot_product_attention(q, k, v, ~hidden)
        fill = -1e9 if self.form == "large" else -math.inf
        weights = (q @ k.mT / math.sqrt(D)).masked_fill(hidden, fill).softmax(-1)
        return (weights.nan_to_num() if self.form == "repaired" else weights) @ v


class Mha(nn.Module):
    """torch's own attention under a padding mask."""

    def __init__(self) -> None:
        super().__init__()
        self.heads = nn.MultiheadAttention(D, 2, batch_first=True)

    def forward(self, x: Tensor, key_padding_mask: Tensor | None = None) -> Tensor:
        attended: Tensor = self.heads(x, x, x, key_padding_mask=key_padding_mask)[0]
        return attended


HIDDEN = [
    Case("scores of -inf", lambda: Masked("endless"), features, "masked-rows", "broken", says="NaN", proof="0/0"),
    Case("scores of -1e9", lambda: Masked("large"), features, "masked-rows", "holds",
         output="the mean of all values, masked ones included",
         proof="all scores are alike, so all weights are"),
    Case("a fused kernel", lambda: Masked("fused"), features, "masked-rows", "holds", output="0", proof="torch's kernel gives 0"),
    Case("NaN repaired", lambda: Masked("repaired"), features, "masked-rows", "holds", says="repaired before the output"),
    Case("nn.MultiheadAttention", Mha, features, "masked-rows", "broken", says="a sequence that is all padding"),
    Case("a strict mask", lambda: Masked("endless", strict=True), features, "masked-rows", "broken", says="as given: NaN"),
    Case("a strict mask of two layers", lambda: Masked("endless", 2, True), features, "masked-rows", "broken", says="spreads",
         proof="0 times NaN is NaN: the first word's NaN reaches all that look at it"),
    Case("nothing is hidden", lambda: nn.Linear(D, D), features, "masked-rows", "undecided", says="no attention"),
]  # fmt: skip


# ---------------------------------------------------------------------------------------------------------------- forces


class Springs(nn.Module):
    """An energy of all distances, and forces that belong to it, or are so many times too large, or are something else."""

    def __init__(self, factor: float = -1.0, twisted: bool = False, named: bool = True) -> None:
        super().__init__()
        self.inward, self.outward = nn.Linear(1, D), nn.Linear(D, 1)
        self.factor, self.twisted, self.named = factor, twisted, named

    def forward(self, pos: Tensor):  # type: ignore[no-untyped-def]
        pos = pos.detach().requires_grad_(True)
        square = (pos[:, None] - pos[None]).pow(2).sum(-1, keepdim=True)
        energy = self.outward(self.inward(square).tanh()).sum()
        forces = self.factor * torch.autograd.grad(energy, pos)[0]
        if self.twisted:
            forces = forces + 0.1 * torch.linalg.cross(pos - pos.mean(0), pos.roll(1, 0))
        return {"energy": energy, "forces": forces} if self.named else (energy, forces)


FORCES = [
    Case("forces of an energy", Springs, points, "conservative", "holds"),
    Case("energy and forces without names", lambda: Springs(named=False), points, "conservative", "holds"),
    Case("forces of the wrong sign", lambda: Springs(1.0), points, "conservative", "broken", says="the sign is wrong"),
    Case("forces in other units", lambda: Springs(-0.5), points, "conservative", "broken", says="0.5 times -dE/dx"),
    Case("forces with a twist", lambda: Springs(twisted=True), points, "conservative", "broken", says="not the gradient",
         proof="they turn with the points as they should, but no energy has them"),
    Case("no forces", lambda: nn.Linear(3, 1), points, "conservative", "not applicable", says="does not return an energy"),
]  # fmt: skip

DEVICE = [] if torch.cuda.is_available() else [
    Case("no GPU", lambda: nn.Linear(D, D), features, "device", "undecided", says="no CUDA device"),
]  # fmt: skip

CASES: list[Case] = [*PACKING, *LAYOUT, *TABLES, *DTYPE, *TRAINING, *GRADIENT, *CONTEXT, *HIDDEN, *FORCES, *DEVICE]
