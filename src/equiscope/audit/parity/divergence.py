"""The first step that differs, on both sides.

A value is explained if the other side holds an equal one, if a later value that was computed from it has an equal, or if it only
moves explained numbers. The first unexplained value whose inputs are all explained is where the two sides diverge. So a query that
one side scales before the product and the other after it is no difference: the scores are equal.
"""

from collections.abc import Set
from dataclasses import dataclass, field
from functools import cached_property

from torch import Tensor

from equiscope.audit.parity.alignment import (
    ONE_PRECISION,
    STORED,
    Alignment,
    Fingerprints,
    difference,
    is_rounding,
    size_of,
    sorted_numbers,
)
from equiscope.audit.parity.sides import MOVEMENT, Node, Side

REGION = 400  # values after the divergence in which a cause is sought


@dataclass(frozen=True, eq=False)
class Divergence:
    """Where A and B diverge.

    a_step, b_step      the first unexplained step of each
    a_region, b_region  unexplained values from there, in order
    reproducing         changes of A's values after which A was seen to compute a value of B, in the order in which they were tried
    whole               whether a cause must explain all of the difference, as if it were the only one
    """

    a: Side
    b: Side
    alignment: Alignment
    a_step: Node
    b_step: Node | None
    a_region: list[int]
    b_region: list[int]
    a_explained: Set[int]
    b_explained: Set[int]
    reproducing: list[dict[int, Tensor]] = field(default_factory=list)
    whole: bool = True

    def mirrored(self) -> "Divergence":
        """The same with A and B exchanged."""
        assert self.b_step is not None
        exchanged = Alignment(self.alignment.back, self.alignment.pairs)
        return Divergence(
            self.b, self.a, exchanged, self.b_step, self.a_step, self.b_region, self.a_region, self.b_explained, self.a_explained,
            whole=self.whole,
        )  # fmt: skip

    @cached_property
    def _targets(self) -> list[tuple[int, Tensor, float]]:
        found = ((value, sorted_numbers(self.b.numbers(value))) for value in self.b_region if self.b.is_number(value))
        return [(value, numbers, size_of(numbers)) for value, numbers in found if numbers is not None]

    def hit(self, t: Tensor) -> int | None:
        """The first unexplained value of B with these numbers, in any order."""
        numbers = sorted_numbers(t.double())
        if numbers is None:
            return None
        single = self.a.single or self.b.single
        size = size_of(numbers)
        for value, target, other in self._targets:
            if target.shape == numbers.shape and abs(other - size) <= 1e-5 * size:
                error = difference(target, numbers)
                if is_rounding(error) or (single and error <= ONE_PRECISION * STORED):
                    return value
        return None

    def explained_inputs(self, most: int = 12) -> list[int]:
        """Explained values before the first differing step of A, nearest first; the step itself where only B goes on from it."""
        near = [self.a_step.value, *self.a.ancestors(self.a_step.value, 4 * most)]
        return [value for value in near if value in self.a_explained][:most]


def divergence(a: Side, b: Side, alignment: Alignment, first: Fingerprints, second: Fingerprints) -> Divergence | None:
    """Where two sides diverge; None where nothing does."""
    a_explained, b_explained = explained(a, set(alignment.pairs), first), explained(b, set(alignment.back), second)
    a_steps, b_steps = frontier(a, a_explained), frontier(b, b_explained)
    if not a_steps and not b_steps:
        return None
    a_steps, b_steps = a_steps or _last(a), b_steps or _last(b)
    if not a_steps:
        return None
    step = a_steps[0]
    matched = _boundary(a, step, alignment.pairs)

    def shared(node: Node) -> tuple[int, int]:
        return -len(matched & {alignment.back[x] for x in b.ancestors(node.value, 24) if x in alignment.back}), b_steps.index(node)

    other = min(b_steps, key=shared) if b_steps else None
    return Divergence(
        a, b, alignment, step, other, _region(a, step, a_explained), [] if other is None else _region(b, other, b_explained),
        a_explained, b_explained,
    )  # fmt: skip


def explained(side: Side, matched: set[int], prints: Fingerprints) -> set[int]:
    """The explained values of a side."""
    by_later = set(matched)
    for node in reversed(side.nodes):
        if node.value in by_later:
            by_later.update(value for value in node.inputs if value in side.moving)
    done = by_later | {value for value in side.leaves if value in side.moving}
    for node in side.nodes:
        if node.value in side.moving and node.value not in done:
            silent = node.op in MOVEMENT or not side.is_number(node.value) or prints.sorted(node.value) is None
            if silent and all(value in done for value in node.inputs if value in side.moving):
                done.add(node.value)
    return done


def frontier(side: Side, done: set[int]) -> list[Node]:
    """Unexplained steps whose inputs are all explained and that an output depends on, in order."""
    needed, found = set(side.outputs.values()), []
    for node in reversed(side.nodes):
        if node.value in needed:
            needed.update(node.inputs)
            unexplained = node.value in side.moving and node.value not in done
            if unexplained and all(value in done for value in node.inputs if value in side.moving):
                found.append(node)
    return found[::-1]


def _last(side: Side) -> list[Node]:
    """The step of the last output, where the other side goes on from numbers that this side returns."""
    return [side.maker[value] for value in side.outputs.values() if value in side.maker][-1:]


def _boundary(side: Side, node: Node, pairs: dict[int, int]) -> set[int]:
    return {value for value in side.ancestors(node.value, 24) if value in pairs}


def _region(side: Side, node: Node, done: set[int]) -> list[int]:
    """Unexplained values from a step on."""
    start = side.nodes.index(node)
    return [n.value for n in side.nodes[start:] if n.value in side.moving and n.value not in done][:REGION]
