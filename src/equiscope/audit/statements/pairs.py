"""Pairs: two runs of a model, and the relation that their outputs have to satisfy.

Every statement comes down to such pairs. The outputs of the second run are the transformed outputs of the first (a symmetry), or
equal them in some rows (causality, padding, the other sequences of a batch).
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

Sides = tuple[Tensor, Tensor]  # expected, actual


class Relation:
    """How the tensors of the second run follow from those of the first."""

    def output(self, name: str, original: Tensor, transformed: Tensor, axes: tuple[int, ...]) -> Sides | None:
        """Expected and actual values of an output with one entry a token along `axes`; None where the relation omits it."""
        raise AssertionError(f"{type(self).__name__} relates no outputs")

    def inner(self, original: Tensor, transformed: Tensor) -> Sides | None:
        """The same for a tensor inside the model, whose axes are recognised by their sizes only."""
        raise AssertionError(f"{type(self).__name__} relates nothing inside")

    def secondary(self, outputs: Iterable[str], axes: dict[str, tuple[int, ...]]) -> frozenset[str]:
        """Outputs whose errors are reported but do not decide the verdict."""
        return frozenset()


@dataclass(frozen=True)
class Unchanged(Relation):
    """The outputs of both runs are equal."""

    def output(self, name: str, original: Tensor, transformed: Tensor, axes: tuple[int, ...]) -> Sides | None:
        return original, transformed

    def inner(self, original: Tensor, transformed: Tensor) -> Sides | None:
        return (original, transformed) if original.shape == transformed.shape else None


@dataclass(frozen=True)
class Equivariant(Relation):
    """The outputs transform under the action.

    representations  output name -> how it transforms
    inputs           of the first run: they hold the grid of a picture or sound
    """

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
    """Some rows of tokens are equal in both runs.

    original_rows    rows of the first run; transformed_rows: of the second
    lengths          tokens in the first run and in the second
    sequences        of a batch: the sequence of the first run that is compared, and that of the second
    batch_axes       output name -> the axis with one entry a sequence, where it is known
    batch_sizes      sequences in the first run and in the second
    pooled           whether outputs without an axis of tokens (pooled over the sequence) are equal too
    """

    original_rows: slice
    transformed_rows: slice
    lengths: tuple[int, int]
    sequences: tuple[int, int] | None = None
    batch_axes: dict[str, int] | None = None
    batch_sizes: tuple[int, int] = (0, 0)
    pooled: bool = False

    def secondary(self, outputs: Iterable[str], axes: dict[str, tuple[int, ...]]) -> frozenset[str]:
        """A pooled output is secondary beside outputs with a row for each token: it may be read at a row of padding."""
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
        """The batch axis of a tensor inside the model: the first whose sizes are the two batch sizes."""
        both = zip(original.shape, transformed.shape, strict=False)
        return next((i for i, sizes in enumerate(both) if sizes == self.batch_sizes), None)

    @property
    def _whole(self) -> bool:
        return self.original_rows == self.transformed_rows == slice(None)

    def _cut(
        self, original: Tensor, transformed: Tensor, ours: tuple[int, ...], theirs: tuple[int, ...], batch_axes: int
    ) -> Sides | None:  # fmt: skip
        if original.ndim <= max(ours, default=-1) or transformed.ndim <= max(theirs, default=-1):  # axes of one entry are left out
            return None
        a, b = _along(original, ours, self.original_rows), _along(transformed, theirs, self.transformed_rows)
        if self._whole and a.ndim == b.ndim:  # a model that takes lengths may leave out the rows beyond the longest
            for axis in ours:
                rows = min(a.shape[axis], b.shape[axis])
                a, b = a.narrow(axis, 0, rows), b.narrow(axis, 0, rows)
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

    original     inputs of the first run
    transformed  inputs of the second run; or a function of the model that returns its outputs (a loop with a cache)
    text         what is done to the inputs, in words
    element      the element of the action, or what a property changed, as plain data
    """

    original: Inputs
    transformed: Inputs | Callable[[nn.Module], Any]
    relation: Relation
    text: str
    element: dict[str, Any] = field(default_factory=dict)

    @property
    def changes_inputs(self) -> bool:
        """Whether the inputs of the two runs differ."""
        if not isinstance(self.transformed, Inputs):
            return True
        values, others = self.original.values, self.transformed.values
        return values.keys() != others.keys() or any(_changed(v, others[n]) for n, v in values.items())

    def outputs(self, run: Pass) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """The outputs of both runs."""
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
    """Relative error. Equal infinities are equal; NaN where a NaN, or an infinity on one side only, is left."""
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
    """One pair and its errors.

    error, output  the worst of the outputs that decide the verdict, and its name
    compared       the number of outputs that the relation covers
    errors         the error of each; secondary: outputs that do not decide
    """

    pair: RunPair
    error: float
    output: str
    compared: int
    errors: dict[str, float] = field(default_factory=dict)
    secondary: frozenset[str] = frozenset()


def measure_pair(run: Pass, pair: RunPair, axes: dict[str, tuple[int, ...]]) -> MeasuredPair:
    """Run both and compare all outputs. Raises ModelError where the model raises."""
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
