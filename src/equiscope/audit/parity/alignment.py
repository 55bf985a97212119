"""Align the values of two sides by their numbers, whatever the names, shapes and orders.

Two values are equal if their sorted numbers differ by rounding, so that a transposed, reshaped or permuted tensor is found too.
Of split and joined tensors both sides mostly hold the parts; where one side stacks what the other computes apart, as the results of
experts, the parts together equal the stack. Where several values match equally, the order of computation
decides. Constant tensors carry no information and are not aligned.
"""

from collections import defaultdict
from dataclasses import dataclass, field

import torch
from torch import Tensor

from equiscope.audit.parity.sides import MOVEMENT, Side
from equiscope.symmetry.measure import PRECISION, shrinks

STORED = 2.0**-24  # the rounding error of a number that float32 stores
ONE_PRECISION = 32  # times the rounding error of one pass: where a side has one precision, a larger error is a difference
STACK = 64  # the most values that are compared as one stack
DISTINCT = 3  # a tensor with fewer different numbers is not aligned


@dataclass
class Alignment:
    """pairs: value of A -> equal value of B; back: of B -> of A. ties: pairs that order decided."""

    pairs: dict[int, int] = field(default_factory=dict)
    back: dict[int, int] = field(default_factory=dict)
    ties: int = 0
    candidates: int = 0


class Fingerprints:
    """Sorted numbers of the values of a side, computed once."""

    def __init__(self, side: Side) -> None:
        self.side = side
        self._sorted: dict[int, Tensor | None] = {}
        self._low: dict[int, Tensor] = {}

    def sorted(self, value: int) -> Tensor | None:
        """The sorted numbers; None for a tensor without information."""
        if value not in self._sorted:
            self._sorted[value] = sorted_numbers(self.side.numbers(value)) if self.side.is_number(value) else None
        return self._sorted[value]

    def low(self, value: int) -> Tensor | None:
        """The sorted numbers in float32."""
        if value not in self.side.low:
            return None
        if value not in self._low:
            self._low[value] = self.side.low[value].detach().flatten()
            t = self.side.low[value].detach()
            t = torch.view_as_real(t.resolve_conj()) if t.is_complex() else t
            self._low[value] = t.double().flatten().sort().values
        return self._low[value]


def sorted_numbers(t: Tensor) -> Tensor | None:
    """The sorted numbers of a tensor; None where it has less than three different ones."""
    flat = t.flatten()
    if flat.numel() < DISTINCT or bool(flat.isnan().any()):
        return None
    flat = flat.sort().values
    finite = flat[flat.isfinite()]
    if finite.numel() < DISTINCT:
        return None
    low, middle, high = finite[0], finite[len(finite) // 2], finite[-1]
    spread = (high - low).item()
    if spread <= 1e-9 * max(abs(low.item()), abs(high.item())) or not low < high:
        return None
    return None if len(finite) < 64 and len(finite.unique()) < DISTINCT and middle in (low, high) else flat


def difference(a: Tensor, b: Tensor) -> float:
    """Relative difference of two tensors of one shape; infinite where not both are finite."""
    finite = a.isfinite()
    if not torch.equal(finite, b.isfinite()) or (not bool(finite.all()) and not torch.equal(a[~finite], b[~finite])):
        return float("inf")
    if not bool(finite.all()):
        a, b = a[finite], b[finite]
    size = a.norm().item()
    error = (a - b).norm().item()
    return 0.0 if error == 0 else error / size if size > 0 else float("inf")


def is_rounding(error: float, low: float = 0.0) -> bool:
    """Whether an error in float64 is rounding, from the error in float32, at least that of storing one number."""
    return error == 0 or shrinks(error, max(low, STORED), PRECISION)


def align(a: Side, b: Side) -> tuple[Alignment, Fingerprints, Fingerprints]:
    """The pairs of equal values, in the order of A."""
    first, second = Fingerprints(a), Fingerprints(b)
    alignment, used = Alignment(), set[int]()
    by_size: dict[int, list[tuple[float, int]]] = defaultdict(list)
    order = {node.value: number for number, node in enumerate(b.nodes)}
    for value in _values(b):
        numbers = second.sorted(value)
        if numbers is not None:
            by_size[numbers.numel()].append((size_of(numbers), value))
    for value in _values(a):
        numbers = first.sorted(value)
        if numbers is None:
            continue
        alignment.candidates += 1
        size = size_of(numbers)
        equal = [
            other
            for norm, other in by_size.get(numbers.numel(), ())
            if abs(norm - size) <= (1e-4 if a.single or b.single else 1e-6) * size and same(first, value, second, other)
        ]
        if not equal:
            continue
        sources = {b.source(other) for other in equal}
        free = [other for other in equal if other not in used] or equal
        best = min(free, key=lambda other: (b.high[other].shape != a.high[value].shape, order.get(other, -1)))
        alignment.ties += len(sources) > 1
        used.add(best)
        alignment.pairs[value] = best
        for other in equal:
            alignment.back.setdefault(other, value)
    _stacked(alignment, first, second)
    mirrored = Alignment(alignment.back, alignment.pairs)
    _stacked(mirrored, second, first)
    return alignment, first, second


def _stacked(alignment: Alignment, first: Fingerprints, second: Fingerprints) -> None:
    """Add the values of A that are, together, one value of B."""
    a, b = first.side, second.side
    free = [n.value for n in b.nodes if n.op and n.value in b.moving and n.value not in alignment.back and b.is_number(n.value)]
    groups = {id(group): group for group in a.siblings.values() if 1 < len(group) <= STACK}.values()
    for group in groups:
        known = a.is_number(group[0]) and a.maker[group[0]].op not in MOVEMENT
        if not known or all(value in alignment.pairs for value in group):
            continue
        size = len(group) * a.high[group[0]].numel()
        alike = [value for value in free if b.high[value].numel() == size and second.sorted(value) is not None]
        mine = sorted_numbers(torch.cat([a.numbers(value).flatten() for value in group])) if alike else None
        for value in alike if mine is not None else ():
            numbers = second.sorted(value)
            assert numbers is not None
            assert mine is not None
            error = difference(numbers, mine)
            if is_rounding(error) or ((a.single or b.single) and error <= ONE_PRECISION * floor(second, value)):
                alignment.back[value] = group[0]
                alignment.pairs.update({one: value for one in group if one not in alignment.pairs})
                break


def same(first: Fingerprints, a: int, second: Fingerprints, b: int) -> bool:
    """Whether two values have the same numbers, in any order, up to rounding."""
    high, other = first.sorted(a), second.sorted(b)
    if high is None or other is None or high.shape != other.shape:
        return False
    error = difference(high, other)
    if first.side.single or second.side.single:
        return error <= ONE_PRECISION * max(floor(first, a), floor(second, b))
    return is_rounding(error) or (error < 1e-6 and is_rounding(error, floor(first, a)))


def floor(prints: Fingerprints, value: int) -> float:
    """The rounding error of a value in float32."""
    high, low = prints.sorted(value), prints.low(value)
    if high is None or low is None or high.shape != low.shape:
        return STORED
    finite = high.isfinite() & low.isfinite()
    return min(difference(high[finite], low[finite]), 1e-3)


def output_pairs(a: Side, b: Side) -> list[tuple[str, int, int]]:
    """Outputs to compare: by name where names are shared, else in order."""
    shared = [name for name in a.outputs if name in b.outputs]
    if shared:
        return [(name or "output", a.outputs[name], b.outputs[name]) for name in shared]
    pairs = list(zip(a.outputs.items(), b.outputs.items(), strict=False))
    return [(name or other or "output", x, y) for (name, x), (other, y) in pairs]


def _values(side: Side) -> list[int]:
    inputs = [value for value in side.leaves if value in side.moving]
    return inputs + [node.value for node in side.nodes if node.value in side.moving and (node.value in side.needed or not node.op)]


def size_of(t: Tensor) -> float:
    """The norm of the finite numbers."""
    return float(t[t.isfinite()].detach().norm())


__all__ = [
    "MOVEMENT",
    "Alignment",
    "Fingerprints",
    "align",
    "difference",
    "floor",
    "is_rounding",
    "output_pairs",
    "same",
    "size_of",
    "sorted_numbers",
]
