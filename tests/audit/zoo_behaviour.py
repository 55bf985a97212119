"""Zoo: models with unusual behaviour. What they return, what they store, in which precision they compute, how they fail.

The symmetry under it is simple (a set, or a set and a table); the question is whether the check still sees it.
"""

import threading
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.audit.case import Case
from tests.audit.zoo import Attend, D, Layers, N, Table, V, features, placed, words

# ---------------------------------------------------------------------------------------------------- what is returned


@dataclass
class Answer:
    """What a model may return."""

    scores: Tensor
    aux: dict[str, Any]
    text: str = "nothing"


class Returns(nn.Module):
    """Attention to a set (`good`) and the same with a table (`bad`), in some wrapping."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.good, self.table, self.how = Attend(), Table(), how

    def forward(self, x: Tensor) -> Any:
        good = self.good(x)
        bad = self.table(good)
        return {
            "tuple": (good, good.sum(-2)),
            "tuple-bad": (good, bad),
            "dict": {"a": good, "b": {"c": [good, good.mean((-1, -2))]}},
            "dict-bad": {"a": good, "b": {"c": [good, bad]}},
            "dataclass": Answer(good, {"loss": good.sum()}),
            "dataclass-bad": Answer(good, {"inner": bad}),
            "with-none": (good, None, "words"),
            "text": "words only",
            "nothing": None,
            "pairwise": good @ good.mT,
            "front": good.mT,
        }[self.how]


class Words(nn.Module):
    """Ids only: an embedding, attention, and a table or none."""

    def __init__(self, table: bool = False) -> None:
        super().__init__()
        self.embed, self.attend = nn.Embedding(V, D), Attend()
        self.places = Table() if table else nn.Identity()

    def forward(self, input_ids: Tensor) -> Tensor:
        return self.attend(self.places(self.embed(input_ids)))


class Choice(nn.Module):
    """Whole numbers: the best word of each token, or the token of the largest feature."""

    def __init__(self, over: int) -> None:
        super().__init__()
        self.attend, self.over = Attend(), over

    def forward(self, x: Tensor) -> Tensor:
        return self.attend(x).argmax(self.over)


class Scaled(nn.Module):
    """Wants a keyword, and multiplies."""

    def __init__(self) -> None:
        super().__init__()
        self.attend = Attend()

    def forward(self, x: Tensor, *, scale: float, names: list[str]) -> Tensor:
        return self.attend(x) * scale * len(names)


class Halved(nn.Module):
    """Two tokens become one."""

    def forward(self, x: Tensor) -> Tensor:
        return x.unflatten(-2, (-1, 2)).mean(-2)


class Constant(nn.Module):
    """The same answer to everything."""

    def __init__(self, how: str = "number") -> None:
        super().__init__()
        self.answer, self.how = nn.Parameter(torch.randn(D)), how

    def forward(self, x: Tensor) -> Tensor:
        return self.answer if self.how == "number" else self.answer.expand(*x.shape[:-1], D) if self.how == "rows" else 0 * x


class Complex(nn.Module):
    """A spectrum along an axis; 0: the real part of a set, and row numbers as the imaginary part."""

    def __init__(self, axis: int) -> None:
        super().__init__()
        self.attend, self.axis = Attend(), axis

    def forward(self, x: Tensor) -> Tensor:
        out = self.attend(x)
        if self.axis:
            return torch.fft.fft(out, dim=self.axis)
        return torch.complex(out, torch.arange(x.shape[-2]).to(x.dtype)[:, None].expand_as(out).contiguous())


class Sparse(nn.Module):
    """A sparse answer."""

    def forward(self, x: Tensor) -> Tensor:
        return x.relu().to_sparse()


class Numpy(nn.Module):
    """An answer in numpy."""

    def forward(self, x: Tensor) -> Any:
        return x.detach().exp().numpy()


class Ragged(nn.Module):
    """An answer whose sequences have lengths of their own."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.nested.nested_tensor([row[: 2 + i] for i, row in enumerate(x)])


class Factor(nn.Module):
    """The answer of another model, times a number, plus a number."""

    def __init__(self, inner: nn.Module, times: float = 1.0, plus: float = 0.0) -> None:
        super().__init__()
        self.inner, self.times, self.plus = inner, times, plus

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x) * self.times + self.plus


def with_a_table() -> nn.Module:
    return Layers(places=Table(), attend=Attend())


RETURNED = [
    Case("tuple", lambda: Returns("tuple"), features, "permute", "holds"),
    Case("tuple-with-one-bad", lambda: Returns("tuple-bad"), features, "permute", "broken", where="table"),
    Case("nested-dict", lambda: Returns("dict"), features, "permute", "holds"),
    Case("nested-dict-with-one-bad", lambda: Returns("dict-bad"), features, "permute", "broken", where="table"),
    Case("dataclass", lambda: Returns("dataclass"), features, "permute", "holds"),
    Case("dataclass-with-one-bad", lambda: Returns("dataclass-bad"), features, "permute", "broken", where="table"),
    Case("tuple-with-none", lambda: Returns("with-none"), features, "permute", "holds"),
    Case("text-only", lambda: Returns("text"), features, "permute", "refused", says="no tensor"),
    Case("none-only", lambda: Returns("nothing"), features, "permute", "refused", says="no tensor"),
    Case("token-by-token-matrix", lambda: Returns("pairwise"), features, "permute", "holds", proof="rows and columns move"),
    Case("features-in-front", lambda: Returns("front"), features, "permute", "holds"),
    Case("one-good-output-picked", lambda: Returns("tuple-bad"), features, "permute", "holds", settings={"pick": "0"}),
    Case("complex", lambda: Complex(-1), features, "permute", "holds"),
    Case("complex-over-tokens", lambda: Complex(-2), features, "permute", "broken", proof="a spectrum along the tokens"),
    Case("complex-differs-in-the-imaginary-part", lambda: Complex(0), features, "permute", "broken"),
    Case("sparse", lambda: Sparse(), features, "permute", "holds"),
    Case("numpy", lambda: Numpy(), features, "permute", "holds"),
    Case("nested-tensor", lambda: Ragged(), features, "permute", "refused", says="nested tensor"),
    Case("torchscript", lambda: torch.jit.trace(Attend(), features()), features, "permute", "holds"),
    Case("torchscript-with-a-table", lambda: torch.jit.trace(Table(), features()), features, "permute", "broken"),
    Case("ids-only", Words, words, "permute", "holds"),
    Case("ids-only-with-a-table", lambda: Words(True), words, "permute", "broken", where="places"),
    Case("ids-only-causal", Words, words, "causal", "broken", where="attend"),
    Case("best-word-of-a-token", lambda: Choice(-1), features, "permute", "holds"),
    Case(
        "token-of-the-largest-feature",
        lambda: Choice(-2),
        features,
        "permute",
        "broken",
        proof="the number of a token moves with it",
    ),
    Case("keywords", Scaled, features, "permute", "holds", settings={"kwargs": {"scale": 0.5, "names": ["a", "b"]}}),
    Case("keywords-forgotten", Scaled, features, "permute", "refused", says="scale"),
    Case("half-as-many-tokens", Halved, lambda: features(6), "permute", "broken", proof="pairs of neighbours are others"),
    Case("half-as-many-tokens-causal", Halved, lambda: features(6), "causal", "undecided", says="token"),
    Case("constant", Constant, features, "permute", "holds", says="constant"),
    Case("constant-rows", lambda: Constant("rows"), features, "permute", "holds", says="constant"),
    Case("zero-times-the-input", lambda: Constant("zero"), features, "causal", "holds", says="constant"),
    Case("tiny-answers", lambda: Factor(Attend(), 1e-20), features, "permute", "holds"),
    Case("tiny-answers-with-a-table", lambda: Factor(with_a_table(), 1e-20), features, "permute", "broken"),
    Case("huge-constant", lambda: Factor(Attend(), plus=1e6), features, "permute", "holds"),
    Case("huge-constant-with-a-table", lambda: Factor(with_a_table(), plus=1e6), features, "permute", "broken"),
    Case("huge-factor-with-a-table", lambda: Factor(with_a_table(), 1e12), features, "permute", "broken"),
]


# ---------------------------------------------------------------------------------------------------- what is remembered


class Remembers(nn.Module):
    """Attention to a set, and something that a call moves."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.attend, self.how = Attend(), how
        self.seen: list[float] = []
        self.count = 0
        self.register_buffer("calls", torch.zeros(()))
        self.register_buffer("mean", torch.zeros(D))

    def forward(self, x: Tensor) -> Tensor:
        out = self.attend(x)
        if self.how == "counter":
            self.calls += 1
            return out * self.calls
        if self.how == "replaced":
            self.calls = self.calls + 1
            return out * self.calls
        if self.how == "number":
            self.count += 1
            return out + self.count
        if self.how == "list":
            self.seen.append(1.0)
            return out + len(self.seen)
        if self.how == "unread":
            self.calls += 1
            return out
        self.mean.mul_(0.9).add_(0.1 * x.mean((0, 1)))
        return out - self.mean


class Draws(nn.Module):
    """Dropout: as a module, always on, or noise."""

    def __init__(self, how: str, table: bool = False) -> None:
        super().__init__()
        self.attend, self.how, self.drop = Attend(), how, nn.Dropout(0.5)
        self.places = Table() if table else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        out = self.attend(self.places(x))
        if self.how == "module":
            return self.drop(out)
        return F.dropout(out, 0.5) if self.how == "always" else out + torch.randn_like(out)


def remembering(how: str, statement: str, truth: str, **more: Any) -> Case:
    return Case(f"{how}-{statement}", lambda: Remembers(how), features, statement, truth, **more)


REMEMBERED = [
    *(remembering(how, "deterministic", "broken") for how in ("counter", "replaced", "number", "list", "running")),
    remembering("unread", "deterministic", "holds", says="calls"),
    *(remembering(how, "permute", "holds") for how in ("counter", "replaced", "number", "list", "unread", "running")),
    *(remembering(how, "batch", "holds") for how in ("counter", "number", "list", "unread")),
    remembering("running", "batch", "broken", proof="the mean is that of all sequences"),
    Case("dropout-module", lambda: Draws("module"), features, "deterministic", "holds"),
    Case("dropout-module-permute", lambda: Draws("module"), features, "permute", "holds"),
    Case("dropout-module-in-training-permute", lambda: Draws("module"), features, "permute", "holds", settings={"mode": "train"}),
    Case("dropout-always", lambda: Draws("always"), features, "deterministic", "broken", says="random"),
    Case("dropout-always-permute", lambda: Draws("always"), features, "permute", "holds", says="random", proof="without its noise"),
    Case("dropout-always-and-a-table", lambda: Draws("always", table=True), features, "permute", "broken", where="places"),
    Case("noise", lambda: Draws("noise"), features, "deterministic", "broken", says="random"),
    Case("noise-permute", lambda: Draws("noise"), features, "permute", "undecided", says="random"),
]


# ---------------------------------------------------------------------------------------------------- how it computes


class Casts(nn.Module):
    """Attention that casts on the way, as most code does; with a table or none."""

    def __init__(self, how: str, table: float = 0.0) -> None:
        super().__init__()
        self.inner, self.how, self.size = Attend(), how, table
        self.rows = nn.Parameter(torch.randn(64, D))
        self.angles = 1.0 / 100 ** (torch.arange(0, D, dtype=torch.float32) / D)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.size * self.rows[: x.shape[-2]]
        if self.how == "float":
            return self.inner(F.layer_norm(x.float(), (D,)).to(x.dtype))
        if self.how == "bfloat16":
            return self.inner(x.to(torch.bfloat16).to(x.dtype))
        if self.how == "half":
            return self.inner((x.half() * 2).type_as(x))
        if self.how == "softmax":
            q, k, v = self.inner.query(x), self.inner.key(x), self.inner.value(x)
            return torch.softmax(q @ k.mT, dim=-1, dtype=torch.float32).to(x.dtype) @ v
        if self.how == "attribute":
            return self.inner(x * self.angles.to(x.dtype))
        if self.how == "constant":
            return self.inner(x * torch.tensor([0.1], dtype=torch.float32).to(x.dtype))
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return self.inner(x).to(x.dtype)


CASTS = ("float", "bfloat16", "half", "softmax", "attribute", "constant", "autocast")


class Overflows(nn.Module):
    """Numbers that float16 does not reach."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Attend()

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x) * 1e4 * 1e4


class NotNumbers(nn.Module):
    """One number that is none."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x[:, :1] * float("nan"), x[:, 1:]], 1)


class Endless(nn.Module):
    """The logarithm of what is not positive is minus infinity in places that move with the tokens."""

    def forward(self, x: Tensor) -> Tensor:
        return x.clamp(min=0).log()


def halves(dtype: torch.dtype) -> tuple[Tensor]:
    return (features()[0].to(dtype),)


COMPUTED = [
    *(Case(f"casts-{how}", lambda how=how: Casts(how), features, "permute", "holds") for how in CASTS),
    *(Case(f"casts-{how}-and-a-table", lambda how=how: Casts(how, 1.0), features, "permute", "broken") for how in CASTS),
    *(Case(f"casts-{how}-and-a-faint-table", lambda how=how: Casts(how, 1e-4), features, "permute", "broken",
           proof="far below the rounding of bfloat16, and still no rounding") for how in ("bfloat16", "float", "autocast")),
    Case("bfloat16-model", lambda: Attend().bfloat16(), lambda: halves(torch.bfloat16), "permute", "holds"),
    Case("bfloat16-model-with-a-table", lambda: with_a_table().bfloat16(), lambda: halves(torch.bfloat16), "permute", "broken",
         where="places"),
    Case("bfloat16-model-causal", lambda: Attend().bfloat16(), lambda: halves(torch.bfloat16), "causal", "broken"),
    Case("float64-model", lambda: Attend().double(), lambda: halves(torch.float64), "permute", "holds"),
    Case("float16-model", lambda: Attend().half(), lambda: halves(torch.float16), "permute", "holds"),
    Case("float16-overflow", lambda: Overflows().half(), lambda: halves(torch.float16), "permute", "undecided", says="not finite"),
    Case("float32-of-the-same", Overflows, features, "permute", "holds"),
    Case("not-a-number", NotNumbers, features, "permute", "undecided", says="not finite"),
    Case("not-a-number-batch", NotNumbers, features, "batch", "undecided", says="not finite"),
    Case("not-a-number-deterministic", NotNumbers, features, "deterministic", "undecided", says="not finite"),
    Case("minus-infinities-that-move", Endless, features, "permute", "holds", proof="log 0 is the same everywhere"),
]  # fmt: skip


# ---------------------------------------------------------------------------------------------------- how it fails


class OneLength(nn.Module):
    """Takes seven tokens, no more and no fewer; causal or not."""

    def __init__(self, causal: bool) -> None:
        super().__init__()
        self.mix = nn.Parameter(torch.randn(N, N))
        self.causal = causal

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[-2] != N:
            raise ValueError(f"wants {N} tokens, got {x.shape[-2]}")
        return (self.mix.tril() if self.causal else self.mix) @ x


class Counted(nn.Module):
    """A table of 16 places that are given."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(16, D)

    def forward(self, x: Tensor, position_ids: Tensor) -> Tensor:
        return x + self.table(position_ids)


class Refuses(nn.Module):
    """Wants its first word to be the smallest, and says so."""

    def forward(self, x: Tensor) -> Tensor:
        if x[0, 0, 0] != x[0, :, 0].min():
            raise RuntimeError("the first word has to be the smallest")
        return x


class NoCopy(nn.Module):
    """Cannot be copied."""

    def __init__(self, table: bool = False) -> None:
        super().__init__()
        self.attend = Layers(places=Table(), attend=Attend()) if table else Attend()

    def __deepcopy__(self, memo: Any) -> Any:
        raise TypeError("cannot pickle '_thread.lock' object")

    def forward(self, x: Tensor) -> Tensor:
        return self.attend(x)


class Held(nn.Module):
    """Attention that holds what deepcopy does not take."""

    def __init__(self, how: str, table: bool = False) -> None:
        super().__init__()
        self.attend, self.places = Attend(), Table() if table else nn.Identity()
        if how == "weight-norm":
            self.attend.query = torch.nn.utils.weight_norm(self.attend.query)
            self.attend(torch.randn(1, 2, D))
        self.lock = threading.Lock() if how == "lock" else None

    def forward(self, x: Tensor) -> Tensor:
        return self.attend(self.places(x))


class Quantized(nn.Module):
    """A layer in eight bits, whose scale is that of all numbers that come in."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.ao.quantization.quantize_dynamic(nn.Sequential(nn.Linear(D, D)), {nn.Linear}, dtype=torch.qint8)

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x)


def counted() -> tuple[Tensor, Tensor]:
    return features()[0], torch.arange(N).expand(2, -1)


def smallest_first() -> tuple[Tensor]:
    x = features()[0]
    return (x[:, x[0, :, 0].argsort()],)


FAILED = [
    Case("one-length-causal", lambda: OneLength(True), features, "causal", "holds"),
    Case("one-length-not-causal", lambda: OneLength(False), features, "causal", "broken"),
    Case("one-length-permute", lambda: OneLength(False), features, "permute", "broken"),
    Case("wrong-length", lambda: OneLength(False), lambda: features(5), "permute", "refused", says="wants 7 tokens, got 5"),
    Case("table-of-sixteen-places", Counted, counted, "shift", "broken", says="IndexError", proof="a shift by 1 still fits"),
    Case("refuses-moved-words", Refuses, smallest_first, "permute", "undecided", says="the first word has to be the smallest"),
    Case("cannot-be-copied", NoCopy, features, "permute", "undecided", says="copied"),
    Case("cannot-be-copied-with-a-table", lambda: NoCopy(True), features, "permute", "broken", where="attend.places"),
    Case(
        "weight-norm", lambda: Held("weight-norm"), features, "permute", "holds", proof="its weight is made, no leaf of the graph"
    ),
    Case("weight-norm-with-a-table", lambda: Held("weight-norm", table=True), features, "permute", "broken", where="places"),
    Case("holds-a-lock", lambda: Held("lock"), features, "permute", "holds"),
    Case("quantized-permute", lambda: Quantized(), features, "permute", "holds", says="bfloat16"),
    Case("quantized-batch", lambda: Quantized(), features, "batch", "broken", proof="one scale for all numbers of the batch"),
    Case("places-not-used", Attend, placed, "shift", "holds"),
]

CASES = [*RETURNED, *REMEMBERED, *COMPUTED, *FAILED]
