"""Recorded tensors as a test of a cause: A replayed with it has to give all that A does not compute as it is.

The tensors of a file have names and numbers, and their order says nothing: safetensors sorts its names. So a replay is compared
with all of them at once. A tensor that A computes nowhere, in no layer, is B's own way of writing, such as a fused projection,
and is excused where the others are given.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import permutations

import torch
from torch import Tensor

from equiscope.audit.parity.alignment import allowed, difference, output_pairs, size_of, sorted_numbers
from equiscope.audit.parity.causes.finding import Finding
from equiscope.audit.parity.divergence import Divergence
from equiscope.audit.parity.sides import MOVEMENT, canonical
from equiscope.audit.subject.promote_float64 import promote_float64
from equiscope.program.program import Edit

BETTER = 4.0  # a cause makes the difference from a recorded tensor that many times smaller
REPLAYS = 3000  # the most that are made
PATIENCE = 80  # steps of A behind the value that is most like a recorded tensor in which a replay has to give one
ALIKE = 0.9  # a value of A and a recorded tensor whose relative difference is larger are not taken for the same


@dataclass(frozen=True, eq=False)
class ModelChange:
    """A hypothesis that A can compute: by value, how it is computed instead. at: the first value that is."""

    kind: str
    a: str
    b: str
    evidence: str
    at: int
    edits: Mapping[int, Edit]


@dataclass
class Replay:
    """Recorded tensors that a replay of A gives, each with the value.

    agreeing  recorded tensors that it gives up to rounding, although A alone was almost as near
    numbers  of the edited values; near: of the value that is most like a recorded tensor; complete: whether all are given
    """

    hits: dict[int, int] = field(default_factory=dict)
    agreeing: set[int] = field(default_factory=set)
    numbers: dict[int, Tensor] = field(default_factory=dict)
    near: Tensor | None = None
    complete: bool = False


@dataclass(eq=False)
class RecordedTensors:
    """The recorded tensors of B beside the program of A. left: replays until the search ends."""

    d: Divergence
    left: int = REPLAYS
    _failed: set[int] = field(default_factory=set)

    def gives(self, changes: Mapping[int, Tensor]) -> bool:
        """Whether A with these values gives the recorded tensors. What was tried before is known."""
        key = hash(tuple((value, t.double().numpy().tobytes()) for value, t in changes.items()))
        if key in self._failed:
            return False
        complete = self.replay({value: _constant(t) for value, t in changes.items()}).complete
        if not complete:
            self._failed.add(key)
        return complete

    @cached_property
    def targets(self) -> list[int]:
        """Recorded tensors with information that A does not compute."""
        side, region = self.d.b, set(self.d.b_region)
        free = [n.value for n in side.nodes if n.value in region or n.value not in self.d.alignment.back]
        return [value for value in free if sorted_numbers(side.numbers(value)) is not None]

    @cached_property
    def _by_size(self) -> dict[int, list[tuple[int, Tensor, float]]]:
        found: dict[int, list[tuple[int, Tensor, float]]] = defaultdict(list)
        for value in self.targets:
            numbers = sorted_numbers(self.d.b.numbers(value))
            assert numbers is not None
            found[numbers.numel()].append((value, numbers, size_of(numbers)))
        return found

    @cached_property
    def _groups(self) -> dict[str, list[int]]:
        """By name without numbers, the recorded tensors of that name in all layers."""
        groups: dict[str, list[int]] = defaultdict(list)
        for node in self.d.b.nodes:
            groups[re.sub(r"\d+", "#", node.name)].append(node.value)
        return groups

    @cached_property
    def _file_order(self) -> dict[int, int]:
        return {node.value: i for i, node in enumerate(self.d.b.nodes)}

    @cached_property
    def _order(self) -> dict[int, int]:
        return {node.value: i for i, node in enumerate(self.d.a.nodes)}

    @cached_property
    def _patience(self) -> int:
        """The place in A after which a replay that has given nothing gives nothing."""
        return len(self._order) if self.nearest is None else self._order[self.nearest[0]] + PATIENCE

    def values(self, edits: Mapping[int, Edit]) -> Iterator[tuple[int, Tensor]]:
        """What A computes with these edits, in order, as far as it changes."""
        side = self.d.a
        assert side.program is not None
        found = side.program.edited(side.high, edits, side.tables)
        while True:
            with promote_float64():  # not around what the reader of a value computes
                one = next(found, None)
            if one is None:
                return
            yield one

    def replay(self, edits: Mapping[int, Edit]) -> Replay:
        """A with these edits beside the recorded tensors."""
        if self.left <= 0:
            return Replay()
        self.left -= 1
        found, outputs, done = Replay(), dict[int, Tensor](), set(self.d.a.outputs.values())
        last, near = self._patience, -1 if self.nearest is None else self.nearest[0]
        for value, t in self.values(edits):
            if value in edits:
                found.numbers[value] = t
            if value == near:
                found.near = canonical(t)
            if value in done:
                outputs[value] = canonical(t)
            if t.numel() in self._by_size and t.is_floating_point():
                self._find(value, t, found)
            if not found.hits and self._order.get(value, -1) > last:
                return found
        found.complete = bool(found.hits) and self._is_complete(found, outputs)
        return found

    def _find(self, value: int, t: Tensor, replay: Replay) -> None:
        """Add the recorded tensors that this value of A is, now that it has these numbers, besides earlier ones."""
        limit, size, numbers = self._of(value)[0], size_of(t.double()), None
        for target, theirs, other in self._by_size[t.numel()]:
            if target in replay.hits or abs(other - size) > 2 * (limit + self.d.b.unit(target)) * other:
                continue
            numbers = sorted_numbers(canonical(t)) if numbers is None else numbers
            if numbers is None:
                break
            error = difference(theirs, numbers)
            if error <= limit + self.d.b.unit(target):
                if BETTER * error <= self._before(value, theirs):
                    replay.hits[target] = value
                else:
                    replay.agreeing.add(target)

    @cached_property
    def _limits(self) -> dict[int, tuple[float, Tensor | None]]:
        return {}

    def _of(self, value: int) -> tuple[float, Tensor | None]:
        """Of a value of A, the largest error that is rounding, and its sorted numbers."""
        if value not in self._limits:
            self._limits[value] = allowed(self.d.a, value, self.d.b), sorted_numbers(self.d.a.numbers(value))
        return self._limits[value]

    def _before(self, value: int, theirs: Tensor) -> float:
        """The difference of a recorded tensor from this value as A computes it."""
        mine = self._of(value)[1]
        return torch.inf if mine is None or mine.shape != theirs.shape else difference(theirs, mine)

    def _is_complete(self, replay: Replay, outputs: Mapping[int, Tensor]) -> bool:
        named = [(x, y) for _, x, y in output_pairs(self.d.a, self.d.b) if self.d.b.has_outputs]
        for x, y in named:
            mine, theirs = outputs.get(x, self.d.a.numbers(x)), self.d.b.numbers(y)
            if mine.numel() == theirs.numel() and not any(
                difference(theirs, one) <= allowed(self.d.a, x, self.d.b) + self.d.b.unit(y) for one in arrangements(mine, theirs)
            ):
                return False
        given = {*replay.hits, *replay.agreeing}
        return all(target in given or self._is_own(target, replay.hits, bool(named)) for target in self.targets)

    def _is_own(self, target: int, hits: Mapping[int, int], given: bool) -> bool:
        """Whether only B computes such a tensor: A has none of this name in any layer. given: whether the outputs agree."""
        if self.d.b.is_ordered and any(self._file_order[hit] > self._file_order[target] for hit in hits):
            return True  # what follows from it is A's
        group = next(group for group in self._groups.values() if target in group)
        return (given or len(group) > 1) and not any(value in hits or value in self.d.alignment.back for value in group)

    @cached_property
    def nearest(self) -> tuple[int, int, Tensor] | None:
        """A value of A, the recorded tensor that is most like it without being equal, and its numbers in the order of A's."""
        order = self._order
        best: tuple[float, int, int, Tensor] | None = None
        for node in self.d.a.nodes:
            value = node.value
            known = value in self.d.a_explained or value not in self.d.a.moving or not self.d.a.is_number(value)
            if known or node.op in MOVEMENT or self.d.a.high[value].is_complex():
                continue
            mine = self.d.a.numbers(value)
            for target, _, _ in self._by_size.get(mine.numel(), ()):
                for theirs in arrangements(self.d.b.numbers(target), mine):
                    error = difference(mine, theirs)
                    if error < ALIKE and (best is None or (error, order[value]) < best[:2]):
                        best = error, order[value], target, theirs
        return None if best is None else (self.d.a.nodes[best[1]].value, best[2], best[3])

    def confirmed(self, change: ModelChange) -> Finding | None:
        """The finding, if A with this change gives the recorded tensors."""
        return self.finding(change, self.replay(change.edits))

    def finding(self, change: ModelChange, replay: Replay) -> Finding | None:
        """The finding of a change that was replayed, if it gives the recorded tensors."""
        if not replay.complete:
            return None
        first = min(replay.hits, key=lambda target: self._order.get(replay.hits[target], -1))
        return Finding(change.kind, change.a, change.b, change.evidence, change.at, first, replay.numbers)


def _constant(t: Tensor) -> Edit:
    def edit(_: Tensor, __: "Values") -> Tensor:
        return t

    return edit


def arrangements(t: Tensor, like: Tensor) -> list[Tensor]:
    """A tensor in the shape of another one: as it is, or with its axes in another order."""
    if t.numel() != like.numel():
        return []
    shape, other = ([n for n in x.shape if n > 1] for x in (t, like))
    if shape == other:
        return [t.reshape(like.shape)]
    if sorted(shape) != sorted(other) or len(shape) > 4:
        return []
    flat = t.reshape(shape)
    orders = [order for order in permutations(range(len(shape))) if [shape[i] for i in order] == other]
    return [flat.permute(order).reshape(like.shape) for order in orders[:4]]


Values = Mapping[int, Tensor]
