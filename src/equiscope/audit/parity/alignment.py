"""Align the values of two sides by their numbers, whatever the names, shapes and orders.

Two values are equal if their sorted numbers differ by rounding, so that a transposed, reshaped or permuted tensor is found too.
Of split and joined tensors both sides mostly hold the parts; where one side stacks what the other computes apart, as the results of
experts, the parts together equal the stack. Where several values match equally, the order of computation
decides. Constant tensors carry no information and are not aligned.

Where the sides differ, two more kinds of values are no difference: scores that are equal where nothing hides them, and results for
some tokens, as of an expert, that the other side computes for all.
"""

import math
from collections import defaultdict
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.linalg import vector_norm

from equiscope.audit.parity.sides import HIDDEN, MOVEMENT, ONE_PRECISION, SOFTMAX, Side, canonical
from equiscope.symmetry.measure import BORDER, PRECISION, shrinks

STORED = 2.0**-24  # the rounding error of a number that float32 stores
FAR = 1e3  # times the rounding error of a stored number: outputs that are further apart
STACK = 64  # the most values that are compared as one stack
MASKING = {"add", "radd", "Add", "masked_fill", "where", "Where"}  # steps between scores and their softmax that may hide some
DISTINCT = 3  # a tensor with fewer different numbers is not aligned


@dataclass
class Alignment:
    """pairs: value of A -> equal value of B; back: of B -> of A. ties: pairs that order decided.

    parts, parts_back  the same of values that are equal only in what counts: see `align_parts`
    """

    pairs: dict[int, int] = field(default_factory=dict)
    back: dict[int, int] = field(default_factory=dict)
    parts: dict[int, int] = field(default_factory=dict)
    parts_back: dict[int, int] = field(default_factory=dict)
    ties: int = 0
    candidates: int = 0

    def mirrored(self) -> "Alignment":
        """The same with A and B exchanged."""
        return Alignment(self.back, self.pairs, self.parts_back, self.parts)


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
    if flat.numel() < DISTINCT:
        return None
    flat = flat.sort().values  # NaN comes last
    first, last = flat[0].item(), flat[-1].item()
    if math.isnan(last):
        return None
    finite = flat if math.isfinite(first) and math.isfinite(last) else flat[flat.isfinite()]
    if finite.numel() < DISTINCT:
        return None
    low, middle, high = finite[0], finite[len(finite) // 2], finite[-1]
    spread = (high - low).item()
    if spread <= 1e-9 * max(abs(low.item()), abs(high.item())) or not low < high:
        return None
    return None if len(finite) < 64 and len(finite.unique()) < DISTINCT and middle in (low, high) else flat


def difference(a: Tensor, b: Tensor) -> float:
    """Relative difference of two tensors; infinite where they have other shapes, or not both are finite."""
    if a.shape != b.shape:
        return float("inf")
    error = vector_norm(a - b).item()
    if not math.isfinite(error):
        finite = a.isfinite()
        if not torch.equal(finite, b.isfinite()) or not torch.equal(a[~finite], b[~finite]):
            return float("inf")
        a, b = a[finite], b[finite]
        error = vector_norm(a - b).item()
    size = vector_norm(a).item()
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
            if abs(norm - size) <= _sizes(a, b, other) * size and same(first, value, second, other)
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
    _stacked(alignment.mirrored(), second, first)
    return alignment, first, second


def _stacked(alignment: Alignment, first: Fingerprints, second: Fingerprints) -> None:
    """Add the values of A that are, together, one value of B."""
    a, b = first.side, second.side
    free = [
        n.value
        for n in b.nodes
        if n.op and n.value in b.moving and n.value in b.needed and n.value not in alignment.back and b.is_number(n.value)
    ]
    groups = {id(group): group for group in a.siblings.values() if 1 < len(group) <= STACK}.values()
    for group in groups:
        known = a.is_number(group[0]) and a.maker[group[0]].op not in MOVEMENT
        if not known or all(value in alignment.pairs for value in group):
            continue
        size = sum(a.high[value].numel() for value in group)
        alike = [value for value in free if b.high[value].numel() == size and second.sorted(value) is not None]
        mine = sorted_numbers(torch.cat([a.numbers(value).flatten() for value in group])) if alike else None
        for value in alike if mine is not None else ():
            numbers = second.sorted(value)
            assert numbers is not None
            assert mine is not None
            error = difference(numbers, mine)
            if is_rounding(error) or ((a.single or b.single) and error <= _limit(a, b, floor(second, value)) + b.unit(value)):
                alignment.back[value] = group[0]
                alignment.pairs.update({one: value for one in group if one not in alignment.pairs})
                break


def align_parts(alignment: Alignment, first: Fingerprints, second: Fingerprints) -> None:
    """Add values that are equal in what counts: scores where nothing hides them, and results for some of the tokens.

    Where the outputs are far apart, values that differ by no more than storing a parameter in float32 are equal too.
    """
    _scores(alignment, first.side, second.side)
    _stored(alignment, first, second)
    _rows(alignment, first, second)
    _rows(alignment.mirrored(), second, first)


def _scores(alignment: Alignment, a: Side, b: Side) -> None:
    """Scores of A and B that differ only in the number that hides a pair."""
    mine, theirs = (
        {v: shown for v in _values(side) if v not in paired and (shown := _visible(side, v)) is not None}
        for side, paired in ((a, alignment.pairs), (b, alignment.back))
    )
    for value, numbers in mine.items():
        for other, given in theirs.items():
            if a.high[value].numel() != b.high[other].numel() or numbers.shape != given.shape:
                continue
            if is_rounding(difference(numbers, given)) and (_are_scores(a, value) or _are_scores(b, other)):
                alignment.parts.setdefault(value, other)
                alignment.parts_back.setdefault(other, value)


def _stored(alignment: Alignment, first: Fingerprints, second: Fingerprints) -> None:
    """Values that differ as a parameter does that one side scaled before it was stored."""
    a, b = first.side, second.side
    pairs = output_pairs(a, b)
    far = [
        difference(a.numbers(x).flatten(), b.numbers(y).flatten()) for _, x, y in pairs if a.high[x].numel() == b.high[y].numel()
    ]
    if far and max(far) < FAR * STORED:
        return
    mine, theirs = (
        [(v, t, size_of(t)) for v in _values(side) if v not in paired and v in side.maker and (t := prints.sorted(v)) is not None]
        for side, prints, paired in ((a, first, alignment.pairs), (b, second, alignment.back))
    )
    for value, numbers, size in mine:
        for other, given, norm in theirs:
            if given.shape == numbers.shape and abs(size - norm) <= 4 * STORED * size and difference(numbers, given) <= 2 * STORED:
                alignment.parts.setdefault(value, other)
                alignment.parts_back.setdefault(other, value)


def _visible(side: Side, value: int) -> Tensor | None:
    """The numbers, sorted, that are not hidden; None where none is hidden."""
    if not side.is_number(value) or value not in side.maker:
        return None
    t = side.numbers(value)
    return sorted_numbers(t[t > HIDDEN]) if bool((t <= HIDDEN).any()) and not bool(t.isnan().any()) else None


def _are_scores(side: Side, value: int) -> bool:
    """Whether a softmax alone reads these numbers, perhaps moved or added to."""
    todo, seen = [value], {value}
    while todo:
        for node in side.users.get(todo.pop(), []):
            if node.op in SOFTMAX or node.value in seen:
                continue
            if node.op not in MOVEMENT | MASKING:
                return False
            seen.add(node.value)
            todo.append(node.value)
    return not seen & set(side.outputs.values())


def _rows(alignment: Alignment, first: Fingerprints, second: Fingerprints) -> None:
    """Add the values of A, results of one kind for some of the tokens each, whose rows are rows of one value of B."""
    a, b = first.side, second.side
    known, single = set(alignment.pairs) | set(alignment.parts), a.single or b.single
    rows: dict[tuple[int, int], ProjectedRows] = {}
    for group in {id(group): group for group in a.siblings.values() if 1 < len(group) <= STACK}.values():
        some = [v for v in group if v in a.needed and a.is_number(v) and a.high[v].numel() and a.high[v].ndim > 1]
        tokens = {v: tuple(float(a.numbers(x).sum()) for x in a.parents(v)[:1] if a.is_number(x)) for v in some}
        if len(set(tokens.values())) < 2 or known >= set(some) or (width := a.high[some[0]].shape[-1]) < DISTINCT:
            continue
        mine = {v: ProjectedRows.of(a.numbers(v)) for v in some}
        for other in _values(b):
            t = b.high[other]
            for axis in (i for i, n in enumerate(t.shape) if n == width and b.is_number(other) and not t.is_complex()):
                if (other, axis) not in rows:
                    rows[other, axis] = ProjectedRows.of(b.numbers(other).movedim(axis, -1))
                hits = [v for v in some if rows[other, axis].hold(mine[v], single)]
                alignment.parts.update({v: other for v in hits if v not in alignment.parts})
                whole = len(hits) > 1 and {tokens[v] for v in hits} == set(tokens.values())
                expert = len(hits) == 1 and len(b.siblings.get(other, ())) > 1 and _is_fed(alignment, b, other)
                if whole or expert:  # one that this side applies to all tokens
                    alignment.parts_back.setdefault(other, some[0])


def _is_fed(alignment: Alignment, b: Side, value: int) -> bool:
    """Whether all that this value of B is computed from has an equal in A, at least for some of the tokens."""
    equals = alignment.back.keys() | alignment.parts_back.keys()
    return all(x in equals for x in b.parents(value) if x in b.moving)


@dataclass(frozen=True, eq=False)
class ProjectedRows:
    """The rows [R, K] of a tensor, in the order of their products with one direction."""

    rows: Tensor
    products: Tensor

    @classmethod
    def of(cls, t: Tensor) -> "ProjectedRows":
        """Along the last axis."""
        rows = t.reshape(-1, t.shape[-1])
        products = rows @ torch.randn(t.shape[-1], dtype=torch.float64, generator=torch.Generator().manual_seed(0))
        order = products.argsort()
        return cls(rows[order], products[order])

    def hold(self, wanted: "ProjectedRows", single: bool) -> bool:
        """Whether each of the wanted rows is one of these, up to rounding."""
        if not len(self.rows) or sorted_numbers(wanted.rows) is None:
            return False
        after = torch.searchsorted(self.products, wanted.products).clamp(max=len(self.rows) - 1)
        before = (after - 1).clamp(min=0)
        gaps = [(self.products[i] - wanted.products).abs() for i in (before, after)]
        if not bool((torch.minimum(*gaps) <= 1e-4 * wanted.products.abs().max()).all()):
            return False
        error = difference(wanted.rows, self.rows[torch.where(gaps[0] < gaps[1], before, after)])
        return is_rounding(error) or (single and error <= ONE_PRECISION * STORED)


def same(first: Fingerprints, a: int, second: Fingerprints, b: int) -> bool:
    """Whether two values have the same numbers, in any order, up to rounding."""
    high, other = first.sorted(a), second.sorted(b)
    if high is None or other is None or high.shape != other.shape:
        return False
    error = difference(high, other)
    if first.side.single or second.side.single:
        unit = max(first.side.unit(a), second.side.unit(b))
        return error <= _limit(first.side, second.side, max(floor(first, a), floor(second, b))) + unit
    return is_rounding(error) or (error < 1e-6 and is_rounding(error, floor(first, a)))


def allowed(a: Side, value: int, b: Side) -> float:
    """The largest error of a value of A that is rounding, beside what B's numbers lose as they are stored."""
    low = STORED
    if value in a.low:
        mine, narrow = sorted_numbers(a.numbers(value)), sorted_numbers(canonical(a.low[value]))
        if mine is not None and narrow is not None and mine.shape == narrow.shape:
            low = max(low, min(difference(mine, narrow), 1e-3))
    return _limit(a, b, low) if a.single or b.single else low * PRECISION**BORDER


def _limit(a: Side, b: Side, low: float) -> float:
    """The largest error that is rounding where a side has one precision, from the rounding error of one pass."""
    return min(a.passes, b.passes) * low


def _sizes(a: Side, b: Side, other: int) -> float:
    """How much the norms of equal values may differ."""
    return max(1e-4, 2 * b.unit(other), 0.1 * (b.passes < ONE_PRECISION)) if a.single or b.single else 1e-6


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
    size = float(vector_norm(t.detach()))
    return size if math.isfinite(size) else float(vector_norm(t[t.isfinite()].detach()))


__all__ = [
    "MOVEMENT",
    "ONE_PRECISION",
    "Alignment",
    "Fingerprints",
    "align",
    "align_parts",
    "allowed",
    "difference",
    "floor",
    "is_rounding",
    "output_pairs",
    "same",
    "size_of",
    "sorted_numbers",
]
