"""Further differences: A goes on from B's numbers where the two diverge first, and what then differs is judged in the same way.

A cause is mended: its change is made in A, or in B where it was found there. Where there is none, B's numbers are put into A, if
a later step of A then computes B's numbers. A difference that every layer has is one difference in several places.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import permutations

from torch import Tensor

from equiscope.audit.parity.alignment import align, difference, is_rounding, same, sorted_numbers
from equiscope.audit.parity.causes import Finding, find
from equiscope.audit.parity.causes.replayed import NEXT
from equiscope.audit.parity.divergence import Divergence, divergence
from equiscope.audit.parity.sides import MOVEMENT, Side, canonical, low_values
from equiscope.audit.subject.promote_float64 import promote_float64
from equiscope.program.program import Leaf, Program
from equiscope.record import ParityDifference, ParityStep

LAST = {"norm placement"}  # behind these, the same steps compute other things
ROUNDS = 12  # times that A goes on from B's numbers
TRIALS = 64  # pairs of values that are tried each time
STEPS = 12  # of A and of B that may belong together
NAMED = {"", "weights", "bias", "transposed", "scale", "norm weight", "norm bias"}  # two of one kind may be two differences


@dataclass
class ModelDifference:
    """A difference, and the steps of A and B where it was found, first and again."""

    finding: Finding
    steps: list[tuple[ParityStep, ParityStep | None]] = field(default_factory=list)

    def record(self) -> ParityDifference:
        """For the record."""
        (a, b), *repeated = self.steps
        return ParityDifference(
            kind=self.finding.kind, cause=self.finding.text, evidence=self.finding.proof, step_a=a, step_b=b,
            repeated=list(dict.fromkeys(step.module for step, _ in repeated)),
        )  # fmt: skip

    def is_repeated_by(self, finding: Finding, a: ParityStep) -> bool:
        """Whether another finding is this difference at another place."""
        first = self.steps[0][0]
        same_place = (_without_numbers(first.module), first.operation) == (_without_numbers(a.module), a.operation)
        if not finding.kind or not self.finding.kind:
            return same_place
        if finding.kind != self.finding.kind:
            return False
        return finding.kind not in NAMED or _without_numbers(finding.text) == _without_numbers(self.finding.text)


def _without_numbers(text: str) -> str:
    return re.sub(r"\d+", "#", text)


def steps_of(d: Divergence, finding: Finding) -> tuple[ParityStep, ParityStep | None]:
    """The first step that differs, of A and of B."""
    ours = d.a.describe(d.a_step.value if finding.at_a is None else finding.at_a)
    return ours, None if d.b_step is None else d.b.describe(d.b_step.value if finding.at_b is None else finding.at_b)


def differences(first: Divergence, finding: Finding, most: int) -> list[ModelDifference]:
    """The first difference and those behind it, in the order in which A computes, up to a number of them."""
    found = [ModelDifference(finding, [steps_of(first, finding)])]
    where: Divergence | None = first
    for _ in range(ROUNDS if most > 1 and not first.rows else 0):
        pair = None if where is None or finding.kind in LAST else _mended(where, finding)
        if pair is None:
            break
        alignment, prints, others = align(*pair)
        outputs = zip(pair[0].outputs.values(), pair[1].outputs.values(), strict=False)
        where = divergence(*pair, alignment, prints, others)
        if where is None or (pair[1].has_outputs and pair[0].has_outputs and all(same(prints, x, others, y) for x, y in outputs)):
            break
        finding = find(where)
        if not finding.kind and any(not one.finding.kind for one in found):
            break  # nothing shows that it is another one
        ours, theirs = steps_of(where, finding)
        before = next((one for one in found if one.is_repeated_by(finding, ours)), None)
        if before is not None:
            before.steps.append((ours, theirs))
        elif len(found) == most:
            break
        else:
            found.append(ModelDifference(finding, [(ours, theirs)]))
    return found


def _mended(d: Divergence, finding: Finding) -> tuple[Side, Side] | None:
    """Both sides without this difference; None where nothing shows how they go on."""
    if finding.mend_a and d.a.program is not None:
        return _changed(d.a, finding.mend_a, finding.mend_a), d.b
    if finding.mend_b and d.b.program is not None:
        return d.a, _changed(d.b, finding.mend_b, finding.mend_b)
    a = _continued(d)
    return None if a is None else (a, d.b)


def _continued(d: Divergence) -> Side | None:
    """A with B's numbers where the two diverge; None where nothing shows which of its values they are."""
    if d.a.program is None or d.b_step is None:
        return None
    for _, (x, y, order) in zip(range(TRIALS), _pairs(d), strict=False):
        numbers, own = _moved(d.b.high[y], order, d.a.high[x]), sorted_numbers(d.b.numbers(y))
        for t in _next_values(d.a, x, numbers):
            hit = d.hit(t)
            if hit is not None and hit != y and not _same_numbers(own, sorted_numbers(d.b.numbers(hit))):
                low = {x: _moved(d.b.low[y], order, numbers)} if y in d.b.low else {}
                return _changed(d.a, {x: numbers}, low)
    return None


def _next_values(side: Side, x: int, numbers: Tensor) -> list[Tensor]:
    """What the next steps compute from a value with these numbers, without those that only move numbers."""
    assert side.program is not None
    made, steps, wanted = {x}, [], list[int]()
    for step in side.program.steps:
        if len(wanted) < NEXT and any(value in made for value in step.inputs) and x not in {v for v, _ in step.outputs}:
            steps.append(step)
            made.update(value for value, _ in step.outputs)
            wanted += [v for v, _ in step.outputs if step.op not in MOVEMENT and side.is_number(v)]
    read = {v for step in steps for v in step.inputs} - {v for step in steps for v, _ in step.outputs}
    leaves = [Leaf(v, str(v), "constant", numbers if v == x else side.high[v]) for v in read]
    part = Program(leaves=leaves, steps=steps, values=side.high)
    with promote_float64():
        values = part.run({v: t for v, t in side.tables.items() if v in made and v != x}, strict=False).values
    return [canonical(values[v]) for v in wanted]


def _same_numbers(a: Tensor | None, b: Tensor | None) -> bool:
    return a is not None and b is not None and a.shape == b.shape and is_rounding(difference(a, b))


def _pairs(d: Divergence) -> Iterator[tuple[int, int, tuple[int, ...]]]:
    """Values of A and B that may belong together, and the order of B's axes, the first ones first."""
    ours, theirs = (
        [v for v in region if side.is_number(v) and side.maker[v].op not in MOVEMENT][:STEPS]
        for side, region in ((d.a, d.a_region), (d.b, d.b_region))
    )
    pairs = [(i + j, x, y) for i, x in enumerate(ours) for j, y in enumerate(theirs)]
    for _, x, y in sorted(pairs, key=lambda pair: pair[0]):
        shape, other = d.a.high[x].shape, d.b.high[y].shape
        if shape.numel() != other.numel() or d.a.high[x].is_complex() != d.b.high[y].is_complex():
            continue
        if [n for n in shape if n > 1] == [n for n in other if n > 1]:
            yield x, y, tuple(range(len(other)))
        elif sorted(shape) == sorted(other):
            orders = [order for order in permutations(range(len(other))) if tuple(other[i] for i in order) == tuple(shape)]
            yield from ((x, y, order) for order in orders[:2])


def _moved(t: Tensor, order: tuple[int, ...], like: Tensor) -> Tensor:
    return t.permute(order).reshape(like.shape)


def _changed(side: Side, high: Mapping[int, Tensor], low: Mapping[int, Tensor]) -> Side:
    """A side computed again with these values, in both precisions."""
    assert side.program is not None
    tables = side.tables | dict(high)
    with promote_float64():
        values = side.program.run({v: t for v, t in tables.items()}, strict=False).values
    narrow: dict[int, Tensor] = {}
    if side.low_program is not None:
        ids = low_values(side.program, side.low_program)
        given = {ids[v]: low.get(v, t) for v, t in tables.items() if v in ids}
        run = side.low_program.run({v: t for v, t in given.items()}, strict=False).values
        narrow = {v: run[one] for v, one in ids.items() if one in run}
    return replace(side, high={v: values.get(v, t) for v, t in side.high.items()}, low=narrow, tables=tables)
