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

    def output(self, name: str, original: Tensor, transformed: Tensor, axes: tuple[int, ...]) -> Sides | None:
        """Of an output with one entry a token along `axes`: wanted and found; None where it says nothing about this output."""
        raise AssertionError(f"{type(self).__name__} relates no outputs")

    def inner(self, original: Tensor, transformed: Tensor) -> Sides | None:
        """The same of a tensor inside the model, whose axes are known by their sizes only."""
        raise AssertionError(f"{type(self).__name__} relates nothing inside")

    def secondary(self, outputs: Iterable[str], axes: dict[str, tuple[int, ...]]) -> frozenset[str]:
        """Outputs whose errors are told but do not decide."""
        return frozenset()


@dataclass(frozen=True)
class Unchanged(Relation):
    """Nothing changes."""

    def output(self, name: str, original: Tensor, transformed: Tensor, axes: tuple[int, ...]) -> Sides | None:
        return original, transformed

    def inner(self, original: Tensor, transformed: Tensor) -> Sides | None:
        return (original, transformed) if original.shape == transformed.shape else None


@dataclass(frozen=True)
class Equivariant(Relation):
    """The output moves as an action says. representations: output name -> how it moves; given: the inputs, which know its grid."""

    action: Action
    representations: dict[str, str]
    length: int | None
    inputs: Inputs | None = None

    def output(self, name: str, original: Tensor, transformed: Tensor, axes: tuple[int, ...]) -> Sides | None:
        return self.action.sides(original, transformed, self.representations.get(name, "invariant"), axes)

    def inner(self, original: Tensor, transformed: Tensor) -> Sides | None:
        if original.shape != transformed.shape or not self.action.acts_on:
            return None
        every = of_size(original, self.length)
        sides = []
        for axes in dict.fromkeys((every, *((axis,) for axis in every))):  # as many sequences, or columns, as there are tokens
            ways = type(self.action).representations(original, axes, self.inputs)
            sides += [self.action.sides(original, transformed, way, axes) for way in ways]
        return min(sides, key=lambda s: error(*s))


@dataclass(frozen=True)
class SameRows(Relation):
    """Some rows of tokens are the same: these of the first run, those of the second; and of a batch, these sequences.

    lengths  tokens in the first run and in the second
    """

    original_rows: slice
    transformed_rows: slice
    lengths: tuple[int, int]
    sequences: tuple[int, int] | None = None  # the sequence of the first run that is compared, and that of the second
    batch_axes: dict[str, int] | None = None  # the axis of each output that has one entry a sequence, where it is known
    batch_sizes: tuple[int, int] = (0, 0)  # sequences in the first run and in the second
    pooled: bool = False  # whether an output without rows of tokens is the same too: a summary of the words

    def secondary(self, outputs: Iterable[str], axes: dict[str, tuple[int, ...]]) -> frozenset[str]:
        """A summary that is read at one row, padding or not, is told beside outputs with a row for each token."""
        pooled = frozenset(n for n in outputs if not axes.get(n))
        return pooled if self.pooled and len(pooled) < len(list(outputs)) else frozenset()

    def output(self, name: str, original: Tensor, transformed: Tensor, axes: tuple[int, ...]) -> Sides | None:
        batch_axes = 0 if self.batch_axes is None else self.batch_axes.get(name)
        if self.sequences is not None and batch_axes is None:
            return None
        return self._cut(original, transformed, axes, axes, batch_axes or 0) if axes or self._whole or self.pooled else None

    def inner(self, original: Tensor, transformed: Tensor) -> Sides | None:
        axes = differing(original, transformed, self.lengths)
        batch_axes = self._grown(original, transformed)
        if self.sequences is not None and batch_axes is None:
            return None
        return self._cut(original, transformed, axes, axes, batch_axes or 0) if axes or self._whole else None

    def _grown(self, original: Tensor, transformed: Tensor) -> int | None:
        """The axis of sequences of a tensor inside: the first with as many entries as there are."""
        both = zip(original.shape, transformed.shape, strict=False)
        return next((i for i, sizes in enumerate(both) if sizes == self.batch_sizes), None)

    @property
    def _whole(self) -> bool:
        return self.original_rows == self.transformed_rows == slice(None)

    def _cut(
        self, original: Tensor, transformed: Tensor, ours: tuple[int, ...], theirs: tuple[int, ...], batch_axes: int
    ) -> Sides | None:  # fmt: skip
        a, b = _along(original, ours, self.original_rows), _along(transformed, theirs, self.transformed_rows)
        if self.sequences is not None:
            if (
                min(a.ndim, b.ndim) <= batch_axes
                or a.shape[batch_axes] <= self.sequences[0]
                or b.shape[batch_axes] <= self.sequences[1]
            ):
                return None
            a, b = a.select(batch_axes, self.sequences[0]), b.select(batch_axes, self.sequences[1])
        return (a, b) if a.shape == b.shape and a.numel() else None


def _along(t: Tensor, axes: tuple[int, ...], rows: slice) -> Tensor:
    for axis in axes:
        t = t[(slice(None),) * axis + (rows,)]
    return t


@dataclass(frozen=True)
class RunPair:
    """Two runs and their relation.

    moved    what the second run is given; or any use of the model that answers as it does (a loop with a cache)
    element  the element of the action, or what a property changed, as plain data
    """

    original: Inputs
    transformed: Inputs | Callable[[nn.Module], Any]
    relation: Relation
    text: str
    element: dict[str, Any] = field(default_factory=dict)

    @property
    def moves(self) -> bool:
        """Whether the second run is given anything else than the first."""
        if not isinstance(self.transformed, Inputs):
            return True
        values, others = self.original.values, self.transformed.values
        return values.keys() != others.keys() or any(_changed(v, others[n]) for n, v in values.items())

    def outputs(self, run: Pass) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Of both runs."""
        original = run(self.original)
        if isinstance(self.transformed, Inputs):
            return original, run(self.transformed)
        return original, run.outputs_of(self.transformed)


def _changed(a: Any, b: Any) -> bool:
    if hasattr(a, "x") and hasattr(b, "x"):
        return any(_changed(getattr(a, n), getattr(b, n)) for n in ("x", "positions", "order", "valid", "document"))
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return a.shape != b.shape or not torch.equal(a, b)
    return a is not b


NOT_FINITE = float("nan")


def error(expected: Tensor, actual: Tensor) -> float:
    """Relative error; equal infinities are equal; not a number where a NaN, or an infinity on one side, is left."""
    if expected.shape != actual.shape:
        return float("inf")
    expected, actual = expected.double(), actual.double()
    endless = torch.isinf(expected) & (expected == actual)
    if bool(endless.any()):
        expected, actual = expected.masked_fill(endless, 0.0), actual.masked_fill(endless, 0.0)
    if bool(torch.isnan(actual).any() or torch.isnan(expected).any()) or expected.norm().item() == float("inf"):
        return NOT_FINITE
    return relative_error(actual, expected)


@dataclass(frozen=True)
class MeasuredPair:
    """One pair, measured: the worst of the outputs that decide.

    compared  how many outputs said something; outputs: the error of each; aside: those that do not decide
    """

    pair: RunPair
    error: float
    output: str
    compared: int
    outputs: dict[str, float] = field(default_factory=dict)
    secondary: frozenset[str] = frozenset()


def measure_pair(run: Pass, pair: RunPair, axes: dict[str, tuple[int, ...]]) -> MeasuredPair:
    """Run both and compare every output. Raises Crashed where the model raises."""
    original, transformed = pair.outputs(run)
    errors: dict[str, float] = {}
    for name, t in original.items():
        if name not in transformed:
            errors[name] = float("inf")
            continue
        sides = pair.relation.output(name, t, transformed[name], axes.get(name, ()))
        if sides is not None:
            errors[name] = error(*sides)
    secondary = pair.relation.secondary(errors, axes)
    decide = [(e, name) for name, e in errors.items() if name not in secondary]
    worst = max(decide, key=lambda f: float("inf") if f[0] != f[0] else f[0], default=(0.0, ""))
    return MeasuredPair(pair, *worst, len(errors), errors, secondary)
