"""Stabiliser: outputs for a symmetric figure have the symmetry of the figure.

The force on the carbon of methane is 0, forces on a line of atoms lie along it, those on a square within it. One run decides: where
a rotation maps a figure to itself, up to a permutation of its points, the output has to be unchanged by that rotation and
permutation. A bias on vectors breaks it, and so does a choice of the nearest among equally near points, which random points never
show.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from equiscope.audit.inputs.variations import sequence
from equiscope.audit.statements.pairs import Relation, RunPair, Sides, error
from equiscope.audit.statements.space.forces import Forces, nearest_distance, outputs_with_forces, points_of
from equiscope.audit.statements.statement import Statement, Symmetry
from equiscope.audit.subject import ModelError, Outputs, Pass, Subject
from equiscope.record.audit import Claimed
from equiscope.symmetry import InputKind, Inputs
from equiscope.symmetry.actions import Permute
from equiscope.symmetry.figures import FIGURES, Figure, figure_rotations, line
from equiscope.symmetry.space import Rotate

FIXED_KINDS: tuple[InputKind, ...] = (
    "edges",
    "adjacency",
    "pairs",
    "steps",
    "tokens",
    "coordinates",
    "lengths",
)  # arguments that would have to change with the points


@dataclass(frozen=True)
class FixedByRotation(Relation):
    """An output for a figure is unchanged by a rotation that permutes the points of the figure.

    permutation      of the points under the rotation
    representations  output name -> how it transforms
    sizes            output name -> its norm for random points, which sets the scale of errors
    """

    rotation: Rotate
    permutation: tuple[int, ...]
    representations: dict[str, str]
    sizes: dict[str, float]

    def output(self, name: str, original: Tensor, transformed: Tensor, axes: tuple[int, ...]) -> Sides | None:
        representation = "vector" if name == "forces" else self.representations.get(name, "invariant")
        axes = (original.ndim - 2,) if name == "forces" else axes
        if not axes and representation == "invariant":
            return None  # any rotation leaves it unchanged
        if any(original.shape[axis] != len(self.permutation) for axis in axes):
            return None
        expected, actual = self._sides(original, representation, axes)
        scale = original.new_full((1,), self.sizes.get(name, 0.0))  # where 0 is expected, an error needs another scale
        return torch.cat([expected.flatten(), scale]), torch.cat([actual.flatten(), scale])

    def inner(self, original: Tensor, transformed: Tensor) -> Sides | None:
        axes = tuple(axis for axis, n in enumerate(original.shape) if n == len(self.permutation))
        if original.shape != transformed.shape or not axes:
            return None
        sides = []
        for tried_axes in dict.fromkeys((axes, axes[:1], axes[-1:])):
            representations = Rotate.representations(original, tried_axes, None)
            sides += [self._sides(original, representation, tried_axes) for representation in representations]
        return min(sides, key=lambda s: error(*s))

    def _sides(self, t: Tensor, representation: str, axes: tuple[int, ...]) -> Sides:
        expected, actual = self.rotation.moved(t, representation, axes), t
        for axis in axes:
            actual = actual.index_select(axis, torch.tensor(self.permutation, device=t.device))
        return expected, actual


@dataclass(frozen=True)
class FigurePair(RunPair):
    """One run of a figure, whose outputs are compared with themselves after the rotation."""

    forces: Forces | None = None

    @property
    def changes_inputs(self) -> bool:
        return True

    def outputs(self, run: Pass) -> tuple[Outputs, Outputs]:
        outputs = outputs_with_forces(run, self.original, self.forces)
        return outputs, outputs


class Stabiliser(Statement):
    """Outputs for a figure are unchanged by the rotations that leave the figure unchanged."""

    name = "stabiliser"
    summary = "outputs for symmetric points have their symmetry: no force on the carbon of methane"
    inside = True
    forces: Forces | None = None

    def missing(self, subject: Subject) -> str:
        if points_of(subject.inputs) is None:
            return "the inputs have no points in space"
        if fixed_arguments := [n for n in subject.inputs.of(*FIXED_KINDS)]:
            return f"{fixed_arguments[0]} would not fit other points"
        try:
            self.forces = Forces.of(subject)
        except ModelError as crash:
            return str(crash)
        return ""

    def claimed(self, subject: Subject) -> tuple[Claimed, str]:
        claims = [Symmetry(action).claimed(subject) for action in (Rotate, Permute)]
        decided = "it follows from rotate and permute"
        if all(claim == "yes" for claim, _ in claims):
            return "yes", decided
        return ("no", decided) if any(claim == "no" for claim, _ in claims) else ("unknown", "")

    def pairs(self, run: Pass, count: int, generator: Generator) -> list[RunPair]:
        representations, sizes = self._representations(run), self._sizes(run)
        pairs, rejected = [], set[str]()
        for figure, rotation in [*figure_rotations()][: max(count, len(FIGURES))]:
            inputs = self._inputs(run, figure)
            if figure.name not in rejected and inputs is not None and not self._accepted(run, inputs):
                rejected.add(figure.name)
            if figure.name not in rejected and inputs is not None:
                pairs.append(self._pair(inputs, figure, rotation, representations, sizes))
        if not pairs:  # a model with a fixed number of points
            figure = line(run.inputs.length or 0)
            inputs = self._inputs(run, figure)
            if inputs is None or not self._accepted(run, inputs):
                raise ModelError("the model accepts neither methane, nor a line, a square or an octahedron")
            pairs = [self._pair(inputs, figure, rotation, representations, sizes) for rotation in figure.rotations]
        return pairs

    def simpler(self, run: Pass, pair: RunPair) -> Iterator[RunPair]:
        relation = pair.relation
        assert isinstance(relation, FixedByRotation)
        for figure in (line(2), *FIGURES):
            inputs = self._inputs(run, figure)
            if inputs is not None:
                yield from (
                    self._pair(inputs, figure, rotation, relation.representations, relation.sizes) for rotation in figure.rotations
                )

    def _pair(
        self, inputs: Inputs, figure: Figure, rotation: Rotate, representations: dict[str, str], sizes: dict[str, float]
    ) -> RunPair:
        relation = FixedByRotation(rotation, tuple(figure.permutation(rotation)), representations, sizes)
        element = {"figure": figure.name} | rotation.element()
        return FigurePair(
            inputs, inputs, relation, f"{rotation.describe()}, which maps a {figure.name} to itself", element, self.forces
        )

    def _inputs(self, run: Pass, figure: Figure) -> Inputs | None:
        """Inputs with the figure as points; None where no point of the inputs can be used."""
        single = sequence(run.inputs, 0) if run.inputs.batch is not None else run.inputs
        rows = _center_and_others(single)
        if rows is None:
            return None
        pairs = single.rows([rows[kind] for kind in figure.kinds])
        positions = figure.points(nearest_distance(single))

        def with_figure(t: Tensor) -> Tensor:
            return positions.to(t).expand(*t.shape[:-2], *positions.shape).clone()

        return pairs.each(with_figure, "points").each(torch.zeros_like, "vectors")

    def _accepted(self, run: Pass, inputs: Inputs) -> bool:
        try:
            outputs_with_forces(run, inputs, self.forces)
        except ModelError:
            return False
        return True

    def _sizes(self, run: Pass) -> dict[str, float]:
        """The norm of each output for one set of the given points."""
        single = sequence(run.inputs, 0) if run.inputs.batch is not None else run.inputs
        return {n: t.double().norm().item() for n, t in outputs_with_forces(run, single, self.forces).items()}

    def _representations(self, run: Pass) -> dict[str, str]:
        """How each output transforms, inferred by rotating the given points."""
        statement = Symmetry(Rotate)
        pair = statement.pair(run.inputs, Rotate((0.48, 0.6, 0.64), 100.0))
        statement.infer_representations(run, pair, run.subject.axes(run))
        return statement.representations


def _center_and_others(inputs: Inputs) -> tuple[int, int] | None:
    """A point for the center and one for the points around it, of different kinds if there are several kinds."""
    n = inputs.length or 0
    kinds = [t.reshape(-1, n)[0].tolist() for t in inputs.of("atoms").values()]
    real_points = [i for i in range(n) if all(kind[i] != 0 for kind in kinds)]
    if not real_points:
        return None
    other = next((i for i in real_points if any(kind[i] != kind[real_points[0]] for kind in kinds)), real_points[-1])
    return real_points[0], other


__all__ = ["Stabiliser"]
