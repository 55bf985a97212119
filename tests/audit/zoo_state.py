"""Zoo of state: what a call writes, draws and stores, and how sequences of a batch interact. Both signs of each.

A call may change state and is pure as long as no later output depends on it: a table that grows, a counter that is never read.
"""

import collections
import functools
import itertools
import math
import random
import threading
import time
import types
import weakref
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.audit.case import Case
from tests.audit.zoo import Attend, Causal, D, features, words


def pure(name: str, factory: Any, truth: str, inputs: Any = features, **more: Any) -> Case:
    return Case(f"pure-{name}", factory, inputs, "pure", truth, **more)


# ------------------------------------------------------------------------------------------------------------ what it writes


class Writes(nn.Module):
    """Writes into what it was given, at once, through a view or by what is no copy; or into a copy."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.inner, self.how, self.relu = nn.Linear(D, D), how, nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        if self.how == "adds":
            x += 1.0
        elif self.how == "first-token":
            x[:, 0] = 0.0
        elif self.how == "view":
            x.view(-1)[0] = 9.0
        elif self.how == "contiguous":
            x = x.contiguous().mul_(2.0)
        elif self.how == "to":
            x = x.to(self.inner.weight.dtype).clamp_(-0.1, 0.1)
        elif self.how == "detach":
            x.detach().zero_()
        elif self.how == "transpose":
            x.transpose(1, 2)[..., -1] -= 1.0
        elif self.how == "relu":
            x = self.relu(x)
        elif self.how == "functional":
            x = F.dropout(F.elu(x, inplace=True), 0.0, False)
        elif self.how == "out":
            torch.mul(x, 2.0, out=x)
        elif self.how == "split":
            a, b = x.chunk(2, -1)
            a.copy_(b)
        elif self.how == "afterwards":
            out = self.inner(x)
            x.exp_()
            return out
        elif self.how == "shape":
            out = self.inner(x)
            x.unsqueeze_(0)
            return out
        elif self.how == "clone":
            x = x.clone().mul_(2.0)
        elif self.how == "padded":
            x = F.pad(x, (0, 0, 1, 0))
            x[:, 0] = 1.0
        elif self.how == "result":
            return self.relu(self.inner(x)).add_(x)
        return self.inner(x)


WRITING = ("adds", "first-token", "view", "contiguous", "to", "detach", "transpose", "relu", "functional", "out", "split",
           "afterwards", "shape")  # fmt: skip


class WritesMore(nn.Module):
    """Writes into its mask, its places, a dict or a list that it is given."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how, self.inner = how, nn.Linear(D, D)

    def forward(self, x: Tensor, attention_mask: Tensor | None = None, position_ids: Tensor | None = None,
                memory: Any = None) -> Tensor:  # fmt: skip
        if self.how == "mask" and attention_mask is not None:
            attention_mask[:, 0] = 0
        elif self.how == "places" and position_ids is not None:
            position_ids += 1
        elif self.how == "dict" and memory is not None:
            memory["seen"].add_(1.0)
        elif self.how == "dict-grows" and memory is not None:
            memory["last"] = x
        elif self.how == "list" and memory is not None:
            memory.append(x)
        return self.inner(x)


def more_inputs(how: str) -> dict[str, Any]:
    made = {
        "mask": {"attention_mask": torch.ones(2, 7, dtype=torch.long)},
        "places": {"position_ids": torch.arange(7).repeat(2, 1)},
    }
    return {"kwargs": made.get(how) or {"memory": [torch.zeros(2)] if how == "list" else {"seen": torch.zeros(2)}}}


class Holds(nn.Module):
    """Writes into a parameter or a buffer, or makes a new one from it."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.inner, self.how = nn.Linear(D, D), how
        self.register_buffer("mean", torch.zeros(D))
        self.register_buffer("queue", torch.zeros(4, D))
        self.register_buffer("calls", torch.zeros((), dtype=torch.long))
        self.register_buffer("ready", torch.tensor(how == "initialised"))
        self.scale = nn.Parameter(torch.ones(D))

    @torch.no_grad()
    def before(self, x: Tensor) -> None:
        weight = self.inner.weight
        if self.how == "normalised":
            weight.div_(weight.norm())
        elif self.how == "data":
            weight.data.mul_(0.999)
        elif self.how == "rebound":
            self.inner.weight = nn.Parameter(weight * 0.9)
        elif self.how == "bias":
            self.inner.bias.add_(x.mean())
        elif self.how in ("running", "running-unread"):
            self.mean.mul_(0.9).add_(0.1 * x.mean((0, 1)))
        elif self.how == "running-rebound":
            self.mean = 0.9 * self.mean + 0.1 * x.mean((0, 1))
        elif self.how == "queue":
            self.queue = torch.cat([self.queue[1:], x[:1, 0]])
        elif self.how in ("counter", "counter-read"):
            self.calls += 1
        elif self.how in ("data-dependent", "initialised") and not self.ready:
            self.scale.data = 1 / (x.std((0, 1)) + 0.1)
            self.ready.fill_(True)
        elif self.how == "data-of-a-buffer" and not self.ready:
            self.mean.data = x.mean((0, 1))
            self.ready.fill_(True)

    def forward(self, x: Tensor) -> Tensor:
        self.before(x)
        if self.how == "counter-read":
            return self.inner(x) * self.calls
        if self.how == "computed":
            return F.linear(x, self.inner.weight / self.inner.weight.norm())
        return self.inner(x * self.scale) - (0.0 if self.how == "running-unread" else self.mean) + self.queue.mean()


class Norm(nn.Module):
    """Batch norm: in evaluation, by statistics of the batch, or kept in training by force."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.norm, self.how = nn.BatchNorm1d(D, track_running_stats=how != "untracked"), how

    def train(self, mode: bool = True) -> "Norm":
        super().train(mode)
        if self.how == "forced":
            self.norm.train()
        return self

    def forward(self, x: Tensor) -> Tensor:
        if self.how == "functional":
            return F.batch_norm(x.mT, self.norm.running_mean, self.norm.running_var, training=True).mT
        if self.how == "switched":
            self.norm.train()
        return self.norm(x.mT).mT


WRITTEN = [
    *(pure(f"writes-{how}", lambda how=how: Writes(how), "broken", says="writes into its input x") for how in WRITING),
    *(pure(f"writes-{how}", lambda how=how: Writes(how), "holds") for how in ("clone", "padded", "result", "nothing")),
    *(pure(f"writes-its-{how}", lambda how=how: WritesMore(how), "broken", settings=more_inputs(how))
      for how in ("mask", "places", "dict", "dict-grows", "list")),
    pure("writes-no-mask", lambda: WritesMore(""), "holds", settings=more_inputs("mask")),
    *(pure(f"parameter-{how}", lambda how=how: Holds(how), "broken", says="inner.weight")
      for how in ("normalised", "data", "rebound")),
    pure("parameter-bias", lambda: Holds("bias"), "broken", says="inner.bias"),
    pure("parameter-computed", lambda: Holds("computed"), "holds", proof="the norm divides a new tensor"),
    *(pure(f"buffer-{how}", lambda how=how: Holds(how), "broken") for how in
      ("running", "running-unread", "running-rebound", "queue", "counter-read", "data-dependent", "data-of-a-buffer")),
    *(pure(f"buffer-{how}", lambda how=how: Holds(how), "holds") for how in ("counter", "initialised")),
    pure("batch-norm", lambda: Norm(""), "holds", proof="in evaluation it reads its statistics"),
    pure("batch-norm-untracked", lambda: Norm("untracked"), "holds", proof="it keeps none"),
    *(pure(f"batch-norm-{how}", lambda how=how: Norm(how), "broken") for how in ("forced", "functional", "switched")),
    pure("batch-norm-in-training", lambda: Norm(""), "not applicable", settings={"mode": "train"}),
    pure("spectral-norm", lambda: torch.nn.utils.parametrizations.spectral_norm(nn.Linear(D, D)), "holds",
         proof="in evaluation it makes no step"),
    pure("dropout-in-place", lambda: nn.Sequential(nn.Linear(D, D), nn.Dropout(0.5, inplace=True)), "holds"),
    pure("relu-in-place-first", lambda: nn.Sequential(nn.ReLU(inplace=True), nn.Linear(D, D)), "broken", says="input"),
    pure("relu-in-place-second", lambda: nn.Sequential(nn.Linear(D, D), nn.ReLU(inplace=True)), "holds"),
]  # fmt: skip

# -------------------------------------------------------------------------------------------------------- what it remembers

MEMO: dict[Any, Any] = {}
TABLES: dict[int, Tensor] = {}
STORE = types.ModuleType("store")
STORE.memo = {}  # type: ignore[attr-defined]
LOCAL = threading.local()
COUNT = 0


class Registry:
    """A class beside the model that keeps things."""

    memo: ClassVar[dict[Any, Any]] = {}


class Slots:
    """An object without a __dict__."""

    __slots__ = ("kept",)

    def __init__(self) -> None:
        self.kept: Any = None


class Memo(dict):  # type: ignore[type-arg]
    """A dict of somebody's own."""


class Box:
    """A function of somebody's own that keeps what it saw."""

    def __init__(self) -> None:
        self.kept: dict[Any, Any] = {}

    def __call__(self, key: Any, make: Any) -> Any:
        if key not in self.kept:
            self.kept[key] = make()
        return self.kept[key]


def remembered(key: Any, make: Any, kept: list[Any] = []) -> Any:  # noqa: B006
    for known, value in kept:
        if known == key:
            return value
    kept.append((key, make()))
    return kept[-1][1]


class Remembers(nn.Module):
    """Answers a shape that it has seen with what it answered then. Where it keeps that differs."""

    class_memo: ClassVar[dict[Any, Any]] = {}

    def __init__(self, where: str) -> None:
        super().__init__()
        self.inner, self.where = nn.Linear(D, D), where
        self.memo: Any = {"subclass": Memo(), "ordered": collections.OrderedDict(), "default": collections.defaultdict(dict)}.get(
            where, {}
        )
        self.slots, self.box = Slots(), Box()
        self.partial = functools.partial(remembered, kept=[])
        if where in ("class", "global", "store", "registry"):  # begins empty in every model
            self.held().clear()

    def held(self) -> dict[Any, Any]:
        return {"class": self.class_memo, "global": MEMO, "store": STORE.memo, "registry": Registry.memo}.get(self.where, self.memo)

    def forward(self, x: Tensor) -> Tensor:
        key, make = tuple(x.shape), lambda: self.inner(x)
        if self.where == "slots":
            if self.slots.kept is None or self.slots.kept.shape != x.shape:
                self.slots.kept = make()
            return self.slots.kept
        if self.where == "box":
            return self.box(key, make)
        if self.where == "partial":
            return self.partial(key, make)
        if self.where == "weight":
            kept = self.inner.weight.__dict__.setdefault("kept", {})
            return kept.setdefault(key, make())
        if self.where == "new-attribute":
            if getattr(self, "seen", None) is None or self.seen.shape != x.shape:
                self.seen = make()
            return self.seen
        if self.where == "list":
            self.memo.setdefault("list", []).append(make())
            return next(t for t in self.memo["list"] if t.shape == x.shape)
        held = self.held()
        if key not in held:
            held[key] = make()
        return held[key]


class DefaultArgument(nn.Module):
    """Answers a shape as before: it stands in a default argument."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(D, D)
        remembered.__defaults__[0].clear()  # type: ignore[index]

    def forward(self, x: Tensor) -> Tensor:
        return remembered(tuple(x.shape), lambda: self.inner(x))


def enclosed() -> nn.Module:
    """Keeps the last answer in a variable of the function that made it."""
    last = None

    class Inside(nn.Module):
        """What is made inside."""

        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(D, D)

        def forward(self, x: Tensor) -> Tensor:
            nonlocal last
            out = self.inner(x)
            if last is not None and last.shape == out.shape:
                out = 0.5 * (out + last)
            last = out
            return out

    return Inside()


def hooked(reads: bool) -> nn.Module:
    """A layer with a hook that keeps what goes through, and adds the mean of it or not."""
    seen: list[Tensor] = []
    model = nn.Linear(D, D)

    def hook(module: nn.Module, inputs: Any, output: Tensor) -> Tensor | None:
        seen.append(output.mean())
        return output + sum(seen) if reads else None

    model.register_forward_hook(hook)
    return model


class Counts(nn.Module):
    """Counts its calls, somewhere; and answers by the number, or not."""

    def __init__(self, where: str, reads: bool = True) -> None:
        super().__init__()
        self.inner, self.where, self.reads = nn.Linear(D, D), where, reads
        self.number, self.ticks, self.history = 0, itertools.count(), collections.deque(maxlen=8)
        self.steps = self.endless()
        self.hidden: Tensor | None = None

    @staticmethod
    def endless() -> Iterator[int]:
        number = 0
        while True:
            number += 1
            yield number

    def count(self, x: Tensor) -> float:
        global COUNT
        if self.where == "global":
            COUNT += 1
            return COUNT
        if self.where == "itertools":
            return next(self.ticks)
        if self.where == "generator":
            return next(self.steps)
        if self.where == "deque":
            self.history.append(float(x.mean()))
            return sum(self.history)
        if self.where == "function":
            Counts.endless.calls = getattr(Counts.endless, "calls", 0) + 1  # type: ignore[attr-defined]
            return Counts.endless.calls  # type: ignore[attr-defined]
        self.number += 1
        if self.where == "from-the-third":
            return float(self.number > 2)
        if self.where == "alternates":
            return float(self.number % 2)
        return float(self.number)

    def forward(self, x: Tensor) -> Tensor:
        number = self.count(x)
        return self.inner(x) + number if self.reads else self.inner(x)


class Carries(nn.Module):
    """A recurrent layer that begins where the last call ended, or at zero; it keeps the last state either way."""

    def __init__(self, carries: bool) -> None:
        super().__init__()
        self.cell, self.carries, self.state = nn.RNN(D, D, batch_first=True), carries, None

    def forward(self, x: Tensor) -> Tensor:
        begin = self.state if self.carries and self.state is not None and self.state.shape[1] == x.shape[0] else None
        out, state = self.cell(x, begin)
        self.state = state.detach()
        return out


class Tables(nn.Module):
    """Positions from a table that is made when it is first needed.

    "first" keeps that of the first length and cuts or repeats it; "grows" makes a longer one; "angles" is a rotary table as most
    models keep it; "scaled" has frequencies that follow the longest text so far; "words" is made of the first words; "batch" has a
    row for each sequence of the first batch; "mask" keeps the first mask of padding; "mask-by-shape" one for each shape;
    "causal" a mask of its own for each length; "halved" is halved in place after use; "centred" follows the first length only in
    its mean
    """

    def __init__(self, how: str) -> None:
        super().__init__()
        self.inner, self.how, self.table = nn.Linear(D, D), how, None
        self.masks: dict[Any, Tensor] = {}
        self.register_buffer("angles", None, persistent=False)

    def rows(self, n: int, x: Tensor) -> Tensor:
        at = torch.arange(n, device=x.device).to(x.dtype)[:, None]
        rates = 100.0 ** -(torch.arange(D, device=x.device).to(x.dtype) / D)
        if self.how == "scaled":
            rates = rates / max(n / 8, 1.0)
        return (at * rates).sin()

    def forward(self, x: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        n = x.shape[1]
        if self.how in ("grows", "scaled"):
            if self.table is None or len(self.table) < n:
                self.table = self.rows(n, x)
            return self.inner(x + self.table[:n])
        if self.how == "angles":
            if self.angles is None or len(self.angles) < n or self.angles.dtype != x.dtype:
                self.angles = self.rows(max(2 * n, 16), x)
            return self.inner(x + self.angles[:n])
        if self.how in ("first", "centred", "halved"):
            if self.table is None:
                self.table = self.rows(n, x)
            table = self.rows(n, x) + self.table.mean() if self.how == "centred" else self.table[torch.arange(n) % len(self.table)]
            out = self.inner(x + table)
            if self.how == "halved":
                self.table *= 0.5
            return out
        if self.how == "words":
            self.table = x[:1].mean(1) if self.table is None else self.table
            return self.inner(x + self.table)
        if self.how == "batch":
            self.table = x.new_zeros(x.shape[0], 1, 1) if self.table is None else self.table
            return self.inner(x + self.table)
        if self.how == "causal":
            if n not in self.masks:
                self.masks[n] = torch.ones(n, n, dtype=torch.bool).tril()
            return (x @ x.mT).masked_fill(~self.masks[n], -math.inf).softmax(-1) @ x
        if attention_mask is None:
            return self.inner(x)
        key = attention_mask.shape if self.how == "mask-by-shape" else ""
        if key not in self.masks or self.masks[key].shape != attention_mask.shape:
            self.masks[key] = attention_mask.clone()
        return self.inner(x) * self.masks[key][..., None]


@functools.lru_cache
def table_of(n: int) -> Tensor:
    return torch.arange(n)[:, None] / 10.0


@functools.cache
def noise_of(n: int) -> Tensor:
    return torch.zeros(n, 1)


class Cached(nn.Module):
    """Functions whose results are kept: by the length, by what is written into afterwards, or by the model's own first words."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.inner, self.how = nn.Linear(D, D), how
        self.ids: dict[int, Any] = {}
        self.weak: Any = weakref.WeakValueDictionary() if how == "weak" else None
        self.first: Tensor | None = None

    @functools.cached_property
    def scale(self) -> Tensor:
        return self.inner.weight.norm().detach()

    @functools.cached_property
    def mean(self) -> Tensor:
        assert self.first is not None
        return self.first.mean()

    @functools.lru_cache(maxsize=4)  # noqa: B019
    def named(self, n: int) -> Tensor:
        assert self.first is not None
        return self.first.mean() * n

    def forward(self, x: Tensor) -> Tensor:
        n = x.shape[1]
        if self.how == "length":
            return self.inner(x) + table_of(n).to(x.dtype)
        if self.how == "written-into":
            kept = noise_of(n)
            kept += float(x.mean())
            return self.inner(x) + kept.to(x.dtype)
        if self.how == "property":
            return self.inner(x) / self.scale
        self.first = x if self.first is None or self.how == "method" else self.first
        if self.how == "property-of-words":
            return self.inner(x) + self.mean
        if self.how == "method":
            return self.inner(x) + self.named(n)
        if self.how == "id":  # the tensor is kept, so that no other gets its id
            if id(x) not in self.ids:
                self.ids[id(x)] = x, self.inner(x)
            return self.ids[id(x)][1]
        if self.how == "address":
            if (x.data_ptr(), x.shape) not in self.ids:
                self.ids[x.data_ptr(), x.shape] = x, self.inner(x)  # type: ignore[index]
            return self.ids[x.data_ptr(), x.shape][1]  # type: ignore[index]
        if self.how in ("ends", "sum", "beginning"):
            key = {"ends": (x[0, 0].sum(), x[-1, -1].sum()), "sum": (x.sum(),), "beginning": (x[:, :-1].sum(),)}[self.how]
            rounded = (x.shape, *(round(float(k), 3) for k in key))
            if rounded not in self.ids:
                self.ids[rounded] = self.inner(x)  # type: ignore[index]
            return self.ids[rounded]  # type: ignore[index]
        if self.how == "contents":  # by the numbers themselves
            key = x.detach().cpu().numpy().tobytes()
            if key not in self.ids:
                self.ids[key] = self.inner(x)  # type: ignore[index]
            return self.ids[key]  # type: ignore[index]
        return self.inner(x)


class Draws(nn.Module):
    """Draws from one source of random numbers; or from one that restarts at every call."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.inner, self.source = nn.Linear(D, D), source
        self.generator, self.python, self.numpy = torch.Generator().manual_seed(0), random.Random(0), np.random.default_rng(0)

    def forward(self, x: Tensor) -> Tensor:
        s, out = self.source, self.inner(x)
        if s == "torch":
            return out + torch.randn(())
        if s == "bernoulli":
            return out * torch.bernoulli(torch.full((D,), 0.5)).to(x.dtype)
        if s == "python":
            return out + random.random()
        if s == "choice":
            return out * random.choice([1.0, 2.0, 3.0, 4.0, 5.0])
        if s == "numpy":
            return out + float(np.random.rand())
        if s == "generator":
            return out + torch.randn((), generator=self.generator)
        if s == "own-python":
            return out + self.python.random()
        if s == "own-numpy":
            return out + float(self.numpy.random())
        if s == "clock":
            return out + time.perf_counter_ns() % 997
        if s == "system":
            return out + random.SystemRandom().random()
        if s == "restarted":
            return out + torch.randn(D, generator=torch.Generator().manual_seed(3)).to(x.dtype)
        return out + random.Random(7).random()


KEPT = ("attribute", "subclass", "ordered", "default", "class", "global", "store", "registry", "slots", "box", "partial", "weight",
        "new-attribute", "list")  # fmt: skip
MASKED = {"kwargs": {"attention_mask": torch.ones(2, 7, dtype=torch.long)}}

REMEMBERED = [
    *(pure(f"memo-by-shape-{where}", lambda where=where: Remembers(where), "broken", proof="other words get the first one's answer")
      for where in KEPT),
    pure("memo-by-shape-default-argument", DefaultArgument, "broken"),
    pure("memo-closure", enclosed, "broken"),
    pure("hook-that-adds", lambda: hooked(True), "broken"),
    pure("hook-that-keeps", lambda: hooked(False), "holds"),
    *(pure(f"counts-{where}", lambda where=where: Counts(where), "broken")
      for where in ("number", "global", "itertools", "generator", "deque", "function", "from-the-third", "alternates")),
    *(pure(f"counts-{where}-unread", lambda where=where: Counts(where, False), "holds", proof="no answer reads the number")
      for where in ("number", "global", "itertools", "generator", "deque")),
    pure("state-carried-on", lambda: Carries(True), "broken"),
    pure("state-kept-unread", lambda: Carries(False), "holds"),
    *(pure(f"table-{how}", lambda how=how: Tables(how), "broken")
      for how in ("first", "scaled", "words", "batch", "halved", "centred")),
    *(pure(f"table-{how}", lambda how=how: Tables(how), "holds") for how in ("grows", "angles", "causal")),
    *(pure(f"table-{how}", lambda how=how: Tables(how), "broken", settings=MASKED, proof="another mask is not read")
      for how in ("mask", "mask-by-shape")),
    *(pure(f"cached-by-{how}", lambda how=how: Cached(how), "holds") for how in ("length", "property", "contents", "nothing")),
    *(pure(f"cached-{how}", lambda how=how: Cached(how), "broken") for how in ("written-into", "property-of-words", "method")),
    *(pure(f"cached-by-{how}", lambda how=how: Cached(how), "broken", proof="a tensor that was refilled gets the old output")
      for how in ("id", "address")),
    *(pure(f"cached-by-its-{how}", lambda how=how: Cached(how), "broken", proof="another text has the same")
      for how in ("ends", "sum", "beginning")),
    pure("lazy-layer", lambda: nn.LazyLinear(D), "refused", says="no shape yet"),
    *(pure(f"draws-{source}", lambda source=source: Draws(source), "broken")
      for source in ("torch", "bernoulli", "python", "choice", "numpy", "generator", "own-python", "own-numpy", "clock", "system")),
    *(pure(f"draws-{source}", lambda source=source: Draws(source), "holds") for source in ("restarted", "python-restarted")),
]  # fmt: skip

# ------------------------------------------------------------------------------------------- what rows of a batch have in common


class Masked(nn.Module):
    """Attention with a mask of padding, that of its own row or of another.

    how  "own" is right; "row-0", "last" and "any" read that of one row, or of all rows together; "trimmed" cuts what is padding in
         all rows and is right; "count" divides by the words of all rows
    """

    def __init__(self, how: str) -> None:
        super().__init__()
        self.embed, self.how = nn.Embedding(11, D), how
        self.query, self.key = nn.Linear(D, D), nn.Linear(D, D)

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        x = self.embed(input_ids)
        real = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        if self.how == "count":
            return x + (x * real[..., None]).sum(1, keepdim=True) * len(x) / real.sum()
        if self.how == "row-0":
            real = real[:1]
        elif self.how == "last":
            real = real[-1:]
        elif self.how == "any":
            real = real.amax(0, keepdim=True)
        elif self.how == "trimmed":
            n = int(real.cumsum(1).argmax(1).max()) + 1
            out = self.attended(x[:, :n], real[:, :n])
            return F.pad(out, (0, 0, 0, x.shape[1] - n))
        return self.attended(x, real)

    def attended(self, x: Tensor, real: Tensor) -> Tensor:
        scores = (self.query(x) @ self.key(x).mT).masked_fill(real[:, None] == 0, -1e9)
        return (scores.softmax(-1) @ x) * real[..., None]


class Flagged(nn.Module):
    """Words with segments or places, those of the own row or of the first."""

    def __init__(self, row_0: bool, places: bool = False) -> None:
        super().__init__()
        self.words, self.segments, self.row_0, self.places = nn.Embedding(11, D), nn.Embedding(64, D), row_0, places

    def forward(self, input_ids: Tensor, token_type_ids: Tensor | None = None, position_ids: Tensor | None = None) -> Tensor:
        flags = position_ids if self.places else token_type_ids
        flags = torch.zeros_like(input_ids) if flags is None else flags
        return self.words(input_ids) + self.segments(flags[:1] if self.row_0 else flags)


class Shares(nn.Module):
    """Something that all rows share, or that looks so."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.gate, self.inner, self.how = nn.Linear(D, 1), nn.Linear(D, D), how

    def forward(self, x: Tensor) -> Tensor:
        b, n, h = len(x), x.shape[1], self.how
        score, out = self.gate(x)[..., 0], self.inner(x)
        if h == "mean":
            return out - x.mean(0)
        if h == "deviation":
            return out / (x.std((0, 1), correction=0) + 0.1)
        if h == "softmax":
            return x.softmax(0) * out
        if h == "norm":
            return out / x.norm()
        if h == "size":
            return out / b
        if h == "rolled":
            return out + x.roll(1, 0)
        if h == "capacity":  # as many places as tokens of one sequence, given out over the batch
            return out * (torch.ones(b * n).cumsum(0).view(b, n, 1) <= n)
        if h == "capacity-of-a-row":
            return out * (torch.ones(b, n).cumsum(1)[..., None] <= 4)
        if h == "top":  # the best of the batch
            best = score.flatten().topk(n).values.min()
            return out * (score >= best)[..., None]
        if h == "top-of-a-row":
            return out * (score >= score.topk(3, 1).values[:, -1:])[..., None]
        if h == "branch":
            return out if x[0, 0, 0] > 0 else -out
        if h == "any":
            return out / 2 if (x.abs() > 3).any() else out
        if h == "sorted":
            return out[score.mean(1).argsort()]
        if h == "sorted-back":
            order = score.mean(1).argsort()
            return self.inner(x[order])[order.argsort()]
        if h == "unique":
            rows, back = x.unique(dim=0, return_inverse=True)
            return self.inner(rows)[back]
        if h == "loop":
            return torch.stack([self.inner(row) for row in x])
        if h == "reshaped":  # [B, N, D] read as [N, B, D]
            return out + x.reshape(n, b, D).cumsum(0).reshape(b, n, D)
        if h == "groups-of-four":  # a ghost batch
            return torch.cat([part - part.mean(0) if len(part) == 4 else part for part in x.split(4)])
        if h.startswith("beyond"):
            return out + x.mean(0) if b > {"beyond-five": 5, "beyond-sixty": 60}[h] else out
        if h == "third-reads-first":
            return torch.cat([out[:2], out[2:] + x[:1]])
        if h == "quantized":
            step = x.abs().max() / 8
            return self.inner((x / step).round() * step)
        return out


def shared(how: str, truth: str = "broken", batch: int = 2, **more: Any) -> Case:
    return Case(f"batch-{how}-{batch}", lambda: Shares(how), lambda: features(batch=batch), "batch", truth, **more)


def unequal(name: str) -> dict[str, Any]:
    """Flags whose rows differ."""
    made = torch.ones(2, 9, dtype=torch.long)
    made[1, 5:] = 0
    return {"kwargs": {name: torch.arange(9).repeat(2, 1) + made.sum(1, keepdim=True) if name == "position_ids" else made}}


def of_masks(how: str, truth: str, given: bool = False, statement: str = "batch") -> Case:
    settings = unequal("attention_mask") if given else {}
    return Case(
        f"mask-{how}-{statement}" + "-given" * given, lambda: Masked(how), lambda: words(9), statement, truth, settings=settings
    )


SHARED = [
    *(of_masks(how, "broken", given) for how in ("row-0", "last", "any", "count") for given in (False, True)),
    *(of_masks(how, "holds", given) for how in ("own", "trimmed") for given in (False, True)),
    *(of_masks(how, "broken", statement="right-padding") for how in ("row-0", "any")),
    *(of_masks("own", "holds", statement=side) for side in ("left-padding", "right-padding")),
    *(Case(f"segments-of-{'row-0' if row else 'its-own'}", lambda row=row: Flagged(row), lambda: words(9), "batch",
           "broken" if row else "holds", settings=unequal("token_type_ids")) for row in (True, False)),
    *(Case(f"places-of-{'row-0' if row else 'its-own'}", lambda row=row: Flagged(row, True), lambda: words(9), "batch",
           "broken" if row else "holds", settings=unequal("position_ids")) for row in (True, False)),
    *(shared(how) for how in ("mean", "deviation", "softmax", "norm", "size", "rolled", "capacity", "top", "branch", "any",
                              "sorted", "reshaped", "quantized")),
    *(shared(how) for how in ("groups-of-four", "beyond-five", "beyond-sixty", "third-reads-first")),
    *(shared(how, batch=6) for how in ("groups-of-four", "third-reads-first")),
    *(shared(how, "holds") for how in ("capacity-of-a-row", "top-of-a-row", "sorted-back", "unique", "loop", "nothing")),
    *(Case(f"batch-of-batch-norm-{how or 'plain'}", lambda how=how: Norm(how), features, "batch", truth)
      for how, truth in (("", "holds"), ("forced", "broken"), ("functional", "broken"), ("untracked", "broken"))),
    Case("batch-of-batch-norm-training", lambda: Norm(""), features, "batch", "broken", settings={"mode": "train"}),
    Case("batch-of-dropout-training", lambda: nn.Sequential(nn.Linear(D, D), nn.Dropout(0.5)), features, "batch", "holds",
         settings={"mode": "train"}, proof="dropout is switched off"),
]  # fmt: skip

# ------------------------------------------------------------------------------------- other rows over models that are not pure

BESIDE = [
    *(Case(f"causal-of-one-that-{name}", factory, features, "causal", truth, says="measured") for name, factory, truth in (
        ("writes-into-its-input", lambda: Writes("adds"), "holds"),
        ("memoises-by-shape", lambda: Remembers("attribute"), "holds"),
        ("counts", lambda: Counts("number"), "holds"),
        ("changes-a-parameter", lambda: Holds("normalised"), "holds"))),
    Case("batch-of-one-that-writes", lambda: Writes("contiguous"), features, "batch", "holds", says="copies of its inputs"),
    *(Case(f"deterministic-of-{name}", factory, features, "deterministic", truth) for name, factory, truth in (
        ("one-that-writes", lambda: Writes("adds"), "holds"), ("a-memo", lambda: Remembers("global"), "broken"),
        ("a-counter-unread", lambda: Counts("number", False), "holds"), ("running-statistics", lambda: Holds("running"), "broken"),
        ("a-first-table", lambda: Tables("first"), "broken"), ("a-table-that-grows", lambda: Tables("grows"), "holds"))),
]  # fmt: skip

# ------------------------------------------------------------------------------------------- nothing to ask, so nothing that holds


class Pooled(nn.Module):
    """One answer a text."""

    def forward(self, x: Tensor) -> Tensor:
        return x.mean(1)


def one_row() -> tuple[Tensor]:
    return (torch.randn(7, D),)


NOTHING = [
    *(Case(f"nothing-to-ask-{statement}", factory, inputs, statement, "not applicable") for statement, factory, inputs in (
        ("left-padding", Attend, features), ("right-padding", Causal, features), ("packing", Attend, features),
        ("cache", Attend, features), ("rotary-layout", Attend, features), ("conservative", Attend, features),
        ("digits", Attend, features), ("smooth", Attend, features))),
    Case("nothing-to-ask-causal-of-one-token", Attend, lambda: features(1), "causal", "not applicable"),
    Case("nothing-to-ask-batch-of-none", Attend, one_row, "batch", "not applicable"),
    Case("nothing-to-ask-shift-without-places", Attend, features, "shift", "not applicable"),
    Case("nothing-to-ask-causal-of-a-pool", Pooled, features, "causal", "undecided", says="one entry for each token"),
]  # fmt: skip

CASES = [*WRITTEN, *REMEMBERED, *SHARED, *BESIDE, *NOTHING]
