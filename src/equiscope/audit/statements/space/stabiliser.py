"""Stabiliser: where a turn leaves the points as they are, what the model says of them is left as it is too.

The force on the carbon of methane is 0, those on a line of atoms lie along it, those on a square within it. One run tells: of a
figure that a turn leaves, but for who stands where, the output has to be left by the turn and that exchange. A bias on arrows
breaks it, and so does a choice of the nearest among those that are equally near, which a set at random never shows.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from equiscope.audit.inputs.variations import sequence
from equiscope.audit.statements.pairs import Relation, RunPair, Sides, error
from equiscope.audit.statements.space.forces import Forces, answers, gap, places
from equiscope.audit.statements.statement import Statement, Symmetry
from equiscope.audit.subject import Crashed, Outputs, Pass, Subject
from equiscope.record.audit import Claimed
from equiscope.symmetry import Inputs, Kind
from equiscope.symmetry.actions import Permute
from equiscope.symmetry.figures import FIGURES, Figure, line, turned
from equiscope.symmetry.space import Rotate

FIXED: tuple[Kind, ...] = ("edges", "pairs", "steps", "tokens", "coordinates")  # what other points would need others of


@dataclass(frozen=True)
class Left(Relation):
    """An output of a figure is left by a turn that exchanges its points: `places` says who comes to stand where.

    ways   output name -> how it turns; sizes: output name -> size of its numbers for points at random, beside which an error counts
    """

    turn: Rotate
    places: tuple[int, ...]
    ways: dict[str, str]
    sizes: dict[str, float]

    def output(self, name: str, original: Tensor, transformed: Tensor, axes: tuple[int, ...]) -> Sides | None:
        way = "vector" if name == "forces" else self.ways.get(name, "invariant")
        axes = (original.ndim - 2,) if name == "forces" else axes
        if not axes and way == "invariant":
            return None  # it says the same of whatever turn
        if any(original.shape[axis] != len(self.places) for axis in axes):
            return None
        wanted, found = self._sides(original, way, axes)
        beside = original.new_full((1,), self.sizes.get(name, 0.0))  # where 0 is right, rounding has no size of its own
        return torch.cat([wanted.flatten(), beside]), torch.cat([found.flatten(), beside])

    def inner(self, original: Tensor, transformed: Tensor) -> Sides | None:
        axes = tuple(axis for axis, n in enumerate(original.shape) if n == len(self.places))
        if original.shape != transformed.shape or not axes:
            return None
        sides = []
        for some in dict.fromkeys((axes, axes[:1], axes[-1:])):
            ways = Rotate.representations(original, some, None)
            sides += [self._sides(original, way, some) for way in ways]
        return min(sides, key=lambda s: error(*s))

    def _sides(self, t: Tensor, way: str, axes: tuple[int, ...]) -> Sides:
        wanted, found = self.turn.moved(t, way, axes), t
        for axis in axes:
            found = found.index_select(axis, torch.tensor(self.places, device=t.device))
        return wanted, found


@dataclass(frozen=True)
class Figured(RunPair):
    """One run of a figure, seen as two: what it says, and what is left of that."""

    forces: Forces | None = None

    @property
    def changes_inputs(self) -> bool:
        return True

    def outputs(self, run: Pass) -> tuple[Outputs, Outputs]:
        once = answers(run, self.original, self.forces)
        return once, once


class Stabiliser(Statement):
    """What a turn leaves as it is, is said to be as it is."""

    name = "stabiliser"
    summary = "of points that a turn leaves as they are, outputs are left too: no force on the carbon of methane"
    inside = True
    forces: Forces | None = None

    def missing(self, subject: Subject) -> str:
        if places(subject.inputs) is None:
            return "the model is given no points in space"
        if given := [n for n in subject.inputs.of(*FIXED)]:
            return f"{given[0]} would not fit other points"
        try:
            self.forces = Forces.of(subject)
        except Crashed as crash:
            return str(crash)
        return ""

    def claimed(self, subject: Subject) -> tuple[Claimed, str]:
        claims = [Symmetry(action).claimed(subject) for action in (Rotate, Permute)]
        decided = "it follows from rotate and permute"
        if all(said == "yes" for said, _ in claims):
            return "yes", decided
        return ("no", decided) if any(said == "no" for said, _ in claims) else ("unknown", "")

    def pairs(self, run: Pass, count: int, generator: Generator) -> list[RunPair]:
        ways, sizes = self._ways(run), self._sizes(run)
        made, refused = [], set[str]()
        for figure, turn in [*turned()][: max(count, len(FIGURES))]:
            inputs = self._inputs(run, figure)
            if figure.name not in refused and inputs is not None and not self._taken(run, inputs):
                refused.add(figure.name)
            if figure.name not in refused and inputs is not None:
                made.append(self._pair(inputs, figure, turn, ways, sizes))
        if not made:  # a model of one number of points
            figure = line(run.inputs.length or 0)
            inputs = self._inputs(run, figure)
            if inputs is None or not self._taken(run, inputs):
                raise Crashed("the model takes neither methane, nor a line, a square or an octahedron")
            made = [self._pair(inputs, figure, turn, ways, sizes) for turn in figure.turns]
        return made

    def simpler(self, run: Pass, pair: RunPair) -> Iterator[RunPair]:
        relation = pair.relation
        assert isinstance(relation, Left)
        for figure in (line(2), *FIGURES):
            inputs = self._inputs(run, figure)
            if inputs is not None:
                yield from (self._pair(inputs, figure, turn, relation.ways, relation.sizes) for turn in figure.turns)

    def _pair(self, inputs: Inputs, figure: Figure, turn: Rotate, ways: dict[str, str], sizes: dict[str, float]) -> RunPair:
        left = Left(turn, tuple(figure.places(turn)), ways, sizes)
        element = {"figure": figure.name} | turn.element()
        return Figured(inputs, inputs, left, f"{turn.told()}, which leaves a {figure.name} as it is", element, self.forces)

    def _inputs(self, run: Pass, figure: Figure) -> Inputs | None:
        """The figure in the place of the points; None where there are too few of them to tell what stands where."""
        one = sequence(run.inputs, 0) if run.inputs.batch is not None else run.inputs
        rows = _rows(one)
        if rows is None:
            return None
        made = one.rows([rows[kind] for kind in figure.kinds])
        at = figure.points(gap(one))

        def placed(t: Tensor) -> Tensor:
            return at.to(t).expand(*t.shape[:-2], *at.shape).clone()

        return made.each(placed, "points").each(torch.zeros_like, "vectors")

    def _taken(self, run: Pass, inputs: Inputs) -> bool:
        try:
            answers(run, inputs, self.forces)
        except Crashed:
            return False
        return True

    def _sizes(self, run: Pass) -> dict[str, float]:
        """How large the numbers of each output are for one set of the given points."""
        one = sequence(run.inputs, 0) if run.inputs.batch is not None else run.inputs
        return {n: t.double().norm().item() for n, t in answers(run, one, self.forces).items()}

    def _ways(self, run: Pass) -> dict[str, str]:
        """How each output turns, found by turning the given points."""
        statement = Symmetry(Rotate)
        pair = statement.pair(run.inputs, Rotate((0.48, 0.6, 0.64), 100.0))
        statement.infer_representations(run, pair, run.subject.axes(run))
        return statement.representations


def _rows(inputs: Inputs) -> tuple[int, int] | None:
    """A point for the middle and one for those about it: of another kind, where there is one."""
    n = inputs.length or 0
    kinds = [t.reshape(-1, n)[0].tolist() for t in inputs.of("atoms").values()]
    real = [i for i in range(n) if all(kind[i] != 0 for kind in kinds)]
    if not real:
        return None
    other = next((i for i in real if any(kind[i] != kind[real[0]] for kind in kinds)), real[-1])
    return real[0], other


__all__ = ["Stabiliser"]
