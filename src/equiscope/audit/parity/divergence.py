"""The first step that differs, on both sides.

A value is explained if the other side holds an equal one, if a later value that was computed from it has an equal, or if it only
moves explained numbers. The first unexplained value whose inputs are all explained is where the two sides diverge. So a query that
one side scales before the product and the other after it is no difference: the scores are equal.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from functools import cached_property

from torch import Tensor

from equiscope.audit.parity.alignment import (
    ONE_PRECISION,
    STORED,
    Alignment,
    Fingerprints,
    align_parts,
    difference,
    is_rounding,
    output_pairs,
    size_of,
    sorted_numbers,
)
from equiscope.audit.parity.sides import MOVEMENT, Node, Side

PICKS = {"max", "min", "amax", "amin", "topk", "sort", "gather", "scatter", "index_select"}  # another step is reported rather
BEFORE = 24  # values before a step
ORDER = 1e-6  # a larger difference of outputs is no rounding
OTHERS = 2  # steps of a side that may be the first one that differs
REGION = 400  # values after the divergence in which a cause is sought


@dataclass(frozen=True, eq=False)
class Divergence:
    """Where A and B diverge.

    a_step, b_step      the first unexplained step of each
    a_region, b_region  unexplained values from there, in order
    reproducing         changes of A's values after which A was seen to compute a value of B, in the order in which they were tried
    replays             of each change that was tried, on either side, whether numbers of the other side appeared soon
    whole               whether a cause must explain all of the difference, as if it were the only one
    rows                those of the outputs that a cause has to explain; empty: all
    gives               whether A with changes of its values gives all of B's tensors, where B is recorded activations
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
    replays: list[bool] = field(default_factory=list)
    whole: bool = True
    rows: tuple[int, ...] = ()
    gives: Callable[[Mapping[int, Tensor]], bool] | None = None

    def mirrored(self) -> "Divergence":
        """The same with A and B exchanged."""
        assert self.b_step is not None
        return Divergence(
            self.b, self.a, self.alignment.mirrored(), self.b_step, self.a_step, self.b_region, self.a_region,
            self.b_explained, self.a_explained, replays=self.replays, whole=self.whole, rows=self.rows,
        )  # fmt: skip

    def others(self) -> Iterator["Divergence"]:
        """The same from other steps that differ and whose inputs are explained: where a side fuses two steps, either may be it."""
        for node in frontier(self.a, set(self.a_explained))[:OTHERS]:
            if node is not self.a_step and node.op not in PICKS:
                yield replace(self, a_step=node, a_region=_region(self.a, node, set(self.a_explained)))
        for node in frontier(self.b, set(self.b_explained))[:OTHERS]:
            if node is not self.b_step and node.op not in PICKS:
                yield replace(self, b_step=node)

    @cached_property
    def _targets(self) -> dict[int, list[tuple[int, Tensor, float, float]]]:
        """The unexplained values of B by how many numbers they have: sorted, with their norm, and how near another has to be."""
        targets: dict[int, list[tuple[int, Tensor, float, float]]] = {}
        for value in filter(self.b.is_number, self.b_region):
            if (numbers := sorted_numbers(self.b.numbers(value))) is not None:
                near = 1e-5 + 2 * self.b.unit(value)
                targets.setdefault(numbers.numel(), []).append((value, numbers, size_of(numbers), near))
        return targets

    def hit(self, t: Tensor) -> int | None:
        """The first unexplained value of B with these numbers, in any order. `t` is sorted only if a norm is equal."""
        targets = self._targets.get(t.numel())
        if targets is None:
            return None
        t = t.double()
        size = size_of(t)
        near = [(value, numbers) for value, numbers, other, within in targets if abs(other - size) <= within * size]
        numbers = sorted_numbers(t) if near else None
        if numbers is None:
            return None
        return next((value for value, target in near if self.is_same(difference(target, numbers), value)), None)

    def is_same(self, error: float, value: int) -> bool:
        """Whether numbers with this difference from a value of B are the same up to rounding."""
        single = self.a.single or self.b.single
        return is_rounding(error) or (single and error <= ONE_PRECISION * STORED + self.b.unit(value))

    def explained_inputs(self, most: int = 12) -> list[int]:
        """Explained values before the first differing step of A, nearest first; the step itself where only B goes on from it."""
        near = [self.a_step.value, *self.a.ancestors(self.a_step.value, 4 * most)]
        return [value for value in near if value in self.a_explained][:most]


def divergence(
    a: Side, b: Side, alignment: Alignment, first: Fingerprints, second: Fingerprints, rows: tuple[int, ...] = ()
) -> Divergence | None:
    """Where two sides diverge, in these rows of the outputs; None where nothing does."""
    if a.is_recorded or b.is_recorded:
        return _of_recorded(a, b, alignment, first, second)
    align_parts(alignment, first, second)
    pairs, back = alignment.pairs | alignment.parts, alignment.back | alignment.parts_back
    a_explained, b_explained = explained(a, set(pairs), first), explained(b, set(back), second)
    a_steps, b_steps = frontier(a, a_explained), frontier(b, b_explained)
    if not a_steps and not b_steps:
        a_steps, b_steps = _of_outputs(a, b)
    else:
        ours, theirs = _differing(a, b)
        a_steps, b_steps = a_steps or _last(a, ours), b_steps or _last(b, theirs)
    if not a_steps:
        return None
    step = next((node for node in a_steps if node.op not in PICKS), a_steps[0])
    near, matched = _nearest(a, step, set(pairs)), {x for x in a.ancestors(step.value, BEFORE) if x in pairs}

    def shared(node: Node) -> tuple[int, int, int]:
        close = {back[x] for x in _nearest(b, node, set(back))}
        far = {back[x] for x in b.ancestors(node.value, BEFORE) if x in back}
        return -len(near & close), -len(matched & far), b_steps.index(node)

    other = min(b_steps, key=shared) if b_steps else None
    return Divergence(
        a, b, alignment, step, other, _region(a, step, a_explained), [] if other is None else _region(b, other, b_explained),
        a_explained, b_explained, rows=rows,
    )  # fmt: skip


def _of_recorded(a: Side, b: Side, alignment: Alignment, first: Fingerprints, second: Fingerprints) -> Divergence | None:
    """Where a side diverges from recorded activations, of which only the numbers are known."""
    if not b.is_recorded:
        found = _of_recorded(b, a, alignment.mirrored(), second, first)
        return None if found is None else found.mirrored()
    known = explained(a, set(alignment.pairs), first)
    steps = [node for node in a.nodes if node.value not in known] if a.is_recorded else frontier(a, known)
    unknown = unexplained(a, b, alignment, known, steps[0] if steps else None)
    others = [
        y for _, x, y in output_pairs(a, b) if b.has_outputs and alignment.back.get(y, x) != x and alignment.pairs.get(x) != y
    ]
    unknown += [y for y in others if y not in unknown]  # an output of B is a value of A, and not its output
    if not unknown or not steps:
        return None
    if a.is_recorded:  # two recordings: tensors of one name belong together
        named = {node.name: node for node in steps}
        shared = [y for y in unknown if b.maker[y].name in named]
        unknown, steps = (shared, [named[b.maker[y].name] for y in shared]) if shared else (unknown, steps)
    region = _region(a, steps[0], known)
    return Divergence(a, b, alignment, steps[0], b.maker[unknown[0]], region, unknown, known, b.moving - set(unknown))


def unexplained(a: Side, b: Side, alignment: Alignment, explained_values: Set[int], step: Node | None) -> list[int]:
    """Recorded tensors of B that are not A's, the first ones first, without those that only B computes in this form.

    explained_values  of A; step: its first one that is not
    Only B computes a tensor that A has in no layer, as a fused projection, if A has nothing unexplained of its size, or if a tensor
    of the last of these layers is one of A's.
    """
    open_sizes = {a.high[node.value].numel() for node in a.nodes if node.value in a.moving and node.value not in explained_values}
    groups: dict[str, list[Node]] = {}
    for node in b.nodes:
        groups.setdefault(re.sub(r"\d+", "#", node.name), []).append(node)
    equal = [numbers_in(node.name) for node in b.nodes if node.value in alignment.back]
    found = list[Node]()
    for group in groups.values():
        free = [node for node in group if node.value not in alignment.back and sorted_numbers(b.numbers(node.value)) is not None]
        never = len(free) == len(group)
        last = max(numbers_in(node.name) for node in group)
        own = never and len(group) > 1 and any(numbers >= last for numbers in equal)
        found += [node for node in free if not own and b.high[node.value].numel() in open_sizes]
    places = {node.value: i for i, node in enumerate(b.nodes)}
    if not b.is_ordered:
        order = sorted(found, key=lambda n: (not numbers_in(n.name), numbers_in(n.name), places[n.value]))
        return [node.value for node in order]
    before = [] if step is None else a.ancestors(step.value, BEFORE)
    equals = [places[alignment.pairs[v]] for v in before if v in alignment.pairs]
    later = [node for node in found if places[node.value] > max(equals, default=-1)] or found
    return [node.value for node in sorted(later, key=lambda n: places[n.value])]


def numbers_in(name: str) -> tuple[int, ...]:
    """The numbers in a name, as those of layers."""
    return tuple(int(n) for n in re.findall(r"\d+", name))


def explained(side: Side, matched: set[int], prints: Fingerprints) -> set[int]:
    """The explained values of a side."""
    by_later = set(matched)
    for node in reversed(side.nodes):
        if node.value in by_later:
            by_later.update(value for value in node.inputs if value in side.moving and side.is_number(value))
    done = by_later | {value for value in side.leaves if value in side.moving}
    for node in side.nodes:
        if node.value in side.moving and node.value not in done:
            silent = node.op in MOVEMENT or not side.is_number(node.value) or prints.sorted(node.value) is None
            if silent and all(value in done for value in node.inputs if value in side.moving):
                done.add(node.value)
    return done


def frontier(side: Side, done: set[int]) -> list[Node]:
    """Unexplained steps whose inputs are all explained and that an output depends on, in order."""
    steps = (node for node in side.nodes if node.value in side.needed and node.value in side.moving and node.value not in done)
    return [node for node in steps if all(value in done for value in node.inputs if value in side.moving)]


def _of_outputs(a: Side, b: Side) -> tuple[list[Node], list[Node]]:
    """The last steps of an output that differs although all values have equals.

    Its numbers are in another order, or too few to be aligned.
    """
    for _, x, y in output_pairs(a, b):
        ours, theirs = a.numbers(x), b.numbers(y)
        if ours.shape == theirs.shape and difference(ours, theirs) > ORDER and x in a.maker and y in b.maker:
            return [a.maker[x]], [b.maker[y]]
    return [], []


def _differing(a: Side, b: Side) -> tuple[list[int], list[int]]:
    """The outputs of A and of B that differ."""
    found = [
        (x, y)
        for _, x, y in output_pairs(a, b)
        if a.high[x].shape != b.high[y].shape or not difference(a.numbers(x), b.numbers(y)) <= ORDER
    ]
    return [x for x, _ in found], [y for _, y in found]


def _last(side: Side, outputs: list[int]) -> list[Node]:
    """The step of the last of these outputs, where the other side goes on from numbers that this side returns."""
    return [side.maker[value] for value in outputs or side.outputs.values() if value in side.maker][-1:]


def _nearest(side: Side, node: Node, paired: set[int]) -> set[int]:
    """The values with an equal on the other side from which this step goes on."""
    found, todo, seen = set[int](), side.parents(node.value), set[int]()
    while todo and len(seen) < BEFORE:
        value = todo.pop(0)
        if value not in seen:
            seen.add(value)
            if value in paired:
                found.add(value)
            else:
                todo += side.parents(value)
    return found


def _region(side: Side, node: Node, done: set[int]) -> list[int]:
    """Unexplained values from a step on."""
    start = side.nodes.index(node)
    later = (n for n in side.nodes[start:] if n.value in side.moving and n.value not in done)
    return [n.value for n in later if n.value in side.needed or not n.op][:REGION]
