"""Pairs: two runs of a model, and how the one's numbers follow from the other's.

Every statement that is checked comes down to this: run on these inputs, run on those, and what comes out of the second is
what comes out of the first, moved (a symmetry), or is the same in some rows (no look ahead, padding, a batch's other rows).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from equiscope.audit.subject import Pass
from equiscope.audit.subject.outputs import differing, of_size
from equiscope.symmetry import Action, relative_error
from equiscope.symmetry.inputs import Inputs

Sides = tuple[Tensor, Tensor]  # what is wanted, and what was found


class Relation:
    """How the second run's tensors follow from the first's."""

    def output(self, name: str, plain: Tensor, moved: Tensor, axes: tuple[int, ...]) -> Sides | None:
        """Of an output with one entry a token along `axes`: wanted and found; None where it says nothing about this output."""
        raise AssertionError(f"{type(self).__name__} relates no outputs")

    def inner(self, plain: Tensor, moved: Tensor) -> Sides | None:
        """The same of a tensor inside the model, whose axes are known by their sizes only."""
        raise AssertionError(f"{type(self).__name__} relates nothing inside")

    def aside(self, outputs: Iterable[str], axes: dict[str, tuple[int, ...]]) -> frozenset[str]:
        """Outputs whose errors are told but do not decide."""
        return frozenset()


@dataclass(frozen=True)
class Same(Relation):
    """Nothing changes."""

    def output(self, name: str, plain: Tensor, moved: Tensor, axes: tuple[int, ...]) -> Sides | None:
        return plain, moved

    def inner(self, plain: Tensor, moved: Tensor) -> Sides | None:
        return (plain, moved) if plain.shape == moved.shape else None


@dataclass(frozen=True)
class Moved(Relation):
    """The output moves as an action says. representations: output name -> how it moves; given: the inputs, which know its grid."""

    action: Action
    representations: dict[str, str]
    length: int | None
    given: Inputs | None = None

    def output(self, name: str, plain: Tensor, moved: Tensor, axes: tuple[int, ...]) -> Sides | None:
        return self.action.sides(plain, moved, self.representations.get(name, "invariant"), axes)

    def inner(self, plain: Tensor, moved: Tensor) -> Sides | None:
        if plain.shape != moved.shape or not self.action.acts_on:
            return None
        every = of_size(plain, self.length)
        sides = []
        for axes in dict.fromkeys((every, *((axis,) for axis in every))):  # as many sequences, or columns, as there are tokens
            ways = type(self.action).representations(plain, axes, self.given)
            sides += [self.action.sides(plain, moved, way, axes) for way in ways]
        return min(sides, key=lambda s: error(*s))


@dataclass(frozen=True)
class Rows(Relation):
    """Some rows of tokens are the same: these of the first run, those of the second; and of a batch, these sequences.

    lengths  tokens in the first run and in the second
    """

    plain: slice
    moved: slice
    lengths: tuple[int, int]
    batch: tuple[int, int] | None = None  # the sequence of the first run that is compared, and that of the second
    across: dict[str, int] | None = None  # the axis of each output that has one entry a sequence, where it is known
    sizes: tuple[int, int] = (0, 0)  # sequences in the first run and in the second
    pooled: bool = False  # whether an output without rows of tokens is the same too: a summary of the words

    def aside(self, outputs: Iterable[str], axes: dict[str, tuple[int, ...]]) -> frozenset[str]:
        """A summary that is read at one row, padding or not, is told beside outputs with a row for each token."""
        pooled = frozenset(n for n in outputs if not axes.get(n))
        return pooled if self.pooled and len(pooled) < len(list(outputs)) else frozenset()

    def output(self, name: str, plain: Tensor, moved: Tensor, axes: tuple[int, ...]) -> Sides | None:
        across = 0 if self.across is None else self.across.get(name)
        if self.batch is not None and across is None:
            return None
        return self._cut(plain, moved, axes, axes, across or 0) if axes or self._whole or self.pooled else None

    def inner(self, plain: Tensor, moved: Tensor) -> Sides | None:
        axes = differing(plain, moved, self.lengths)
        across = self._grown(plain, moved)
        if self.batch is not None and across is None:
            return None
        return self._cut(plain, moved, axes, axes, across or 0) if axes or self._whole else None

    def _grown(self, plain: Tensor, moved: Tensor) -> int | None:
        """The axis of sequences of a tensor inside: the first with as many entries as there are."""
        both = zip(plain.shape, moved.shape, strict=False)
        return next((i for i, sizes in enumerate(both) if sizes == self.sizes), None)

    @property
    def _whole(self) -> bool:
        return self.plain == self.moved == slice(None)

    def _cut(
        self, plain: Tensor, moved: Tensor, ours: tuple[int, ...], theirs: tuple[int, ...], across: int
    ) -> Sides | None:  # fmt: skip
        a, b = _along(plain, ours, self.plain), _along(moved, theirs, self.moved)
        if self.batch is not None:
            if min(a.ndim, b.ndim) <= across or a.shape[across] <= self.batch[0] or b.shape[across] <= self.batch[1]:
                return None
            a, b = a.select(across, self.batch[0]), b.select(across, self.batch[1])
        return (a, b) if a.shape == b.shape and a.numel() else None


def _along(t: Tensor, axes: tuple[int, ...], rows: slice) -> Tensor:
    for axis in axes:
        t = t[(slice(None),) * axis + (rows,)]
    return t


@dataclass(frozen=True)
class Pair:
    """Two runs and their relation.

    moved    what the second run is given; or any use of the model that answers as it does (a loop with a cache)
    element  the element of the action, or what a property changed, as plain data
    """

    plain: Inputs
    moved: Inputs | Callable[[nn.Module], Any]
    relation: Relation
    text: str
    element: dict[str, Any] = field(default_factory=dict)

    @property
    def moves(self) -> bool:
        """Whether the second run is given anything else than the first."""
        if not isinstance(self.moved, Inputs):
            return True
        values, others = self.plain.values, self.moved.values
        return values.keys() != others.keys() or any(_changed(v, others[n]) for n, v in values.items())

    def outputs(self, run: Pass) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Of both runs."""
        plain = run(self.plain)
        if isinstance(self.moved, Inputs):
            return plain, run(self.moved)
        return plain, run.made(self.moved)


def _changed(a: Any, b: Any) -> bool:
    if hasattr(a, "x") and hasattr(b, "x"):
        return any(_changed(getattr(a, n), getattr(b, n)) for n in ("x", "positions", "order", "valid", "document"))
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return a.shape != b.shape or not torch.equal(a, b)
    return a is not b


NOT_FINITE = float("nan")


def error(wanted: Tensor, found: Tensor) -> float:
    """Relative error; equal infinities are equal; not a number where a NaN, or an infinity on one side, is left."""
    if wanted.shape != found.shape:
        return float("inf")
    wanted, found = wanted.double(), found.double()
    endless = torch.isinf(wanted) & (wanted == found)
    if bool(endless.any()):
        wanted, found = wanted.masked_fill(endless, 0.0), found.masked_fill(endless, 0.0)
    if bool(torch.isnan(found).any() or torch.isnan(wanted).any()) or wanted.norm().item() == float("inf"):
        return NOT_FINITE
    return relative_error(found, wanted)


@dataclass(frozen=True)
class Sample:
    """One pair, measured: the worst of the outputs that decide.

    compared  how many outputs said something; outputs: the error of each; aside: those that do not decide
    """

    pair: Pair
    error: float
    output: str
    compared: int
    outputs: dict[str, float] = field(default_factory=dict)
    aside: frozenset[str] = frozenset()


def measured(run: Pass, pair: Pair, axes: dict[str, tuple[int, ...]]) -> Sample:
    """Run both and compare every output. Raises Crashed where the model raises."""
    plain, moved = pair.outputs(run)
    found: dict[str, float] = {}
    for name, t in plain.items():
        if name not in moved:
            found[name] = float("inf")
            continue
        sides = pair.relation.output(name, t, moved[name], axes.get(name, ()))
        if sides is not None:
            found[name] = error(*sides)
    aside = pair.relation.aside(found, axes)
    decide = [(e, name) for name, e in found.items() if name not in aside]
    worst = max(decide, key=lambda f: float("inf") if f[0] != f[0] else f[0], default=(0.0, ""))
    return Sample(pair, *worst, len(found), found, aside)
