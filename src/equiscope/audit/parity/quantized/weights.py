"""The weight matrices of two sides, matched by their numbers: each of B is A's rounded to a grid, A's as it is, or another one."""

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from equiscope.audit.parity.alignment import difference, is_rounding
from equiscope.audit.parity.quantized.grids import Grid, Judgement, grid_of, judge
from equiscope.audit.parity.sides import Node, Side

SIMILAR = 0.5  # correlation of two weights above which one may be the other, rounded
ROW = 0.8  # correlation of two rows above which they are the same one, rounded
SAMPLE = 16  # rows that are looked for in all weights; numbers that tell one row from another
TABLES = {"embedding", "Gather"}  # also read at positions that do not depend on the input
READERS = {  # steps that multiply with a weight or look it up
    "linear", "addmm", "matmul", "mm", "rmatmul", "bmm", "baddbmm", "einsum", "conv1d", "conv2d", "conv3d", "MatMul", "Gemm",
    "Conv", *TABLES,
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Weight:
    """A weight matrix where a step reads it. step, value: in the program of its side; numbers: [R, C], rows are outputs."""

    step: Node
    value: int
    name: str
    numbers: Tensor
    is_transposed: bool

    def transposed(self) -> "Weight":
        """The same with rows and columns exchanged."""
        return replace(self, numbers=self.numbers.T)


@dataclass(frozen=True, eq=False)
class Match:
    """A weight of B beside that of A with the most similar numbers.

    a          its name; None where no weight of A is similar
    state      "quantized", "equal" or "other"
    exact      A's numbers in the shape and the order in which B's step reads its own
    """

    b: Weight
    a: str | None
    state: Literal["quantized", "equal", "other"]
    exact: Tensor | None = None
    grid: Grid | None = None
    judgement: Judgement | None = None
    error: float | None = None


def weights_of(side: Side) -> list[Weight]:
    """Every weight matrix that a step reads, in order; one that several steps read stands there for each."""
    found = []
    for node in side.nodes:
        if node.op not in READERS or not (node.value in side.moving or node.op in TABLES):
            continue
        for value in dict.fromkeys(node.inputs):
            t = side.high[value]
            if value in side.moving or not side.is_number(value) or t.ndim < 2 or t.numel() < SAMPLE:
                continue
            is_transposed = _is_transposed(side, node, t)
            rows = t.flatten(0, 1) if t.ndim == 3 and node.op != "conv1d" else t.flatten(1)  # a matrix for each expert
            numbers = rows.detach().double()
            found.append(Weight(node, value, _name(side, value), numbers.T if is_transposed else numbers, is_transposed))
    return found


def _is_transposed(side: Side, node: Node, t: Tensor) -> bool:
    """Whether the step reads the weight as [inputs, outputs]."""
    return node.op in ("addmm", "matmul", "mm", "MatMul") and t.ndim == 2 and t.shape[-1] == side.high[node.value].shape[-1]


def _name(side: Side, value: int) -> str:
    """The name of a weight, or of the largest tensor that it is computed from."""
    program = side.program
    if program is None:
        return side.names.get(value, str(value))
    leaves = {leaf.id: leaf for leaf in program.leaves}
    todo, found = [value], []
    while todo:
        one = todo.pop(0)
        found += [leaves[one]] if one in leaves else []
        todo += side.maker[one].inputs if one in side.maker else ()
    return max(found, key=lambda leaf: leaf.value.numel()).name if found else program.name(value)


def matches(a: Side, b: Side) -> list[Match]:
    """Every weight of B with its match in A, in the order in which B reads them."""
    ours, theirs = weights_of(a), weights_of(b)
    by_shape: dict[tuple[int, ...], list[Weight]] = defaultdict(list)
    for w in ours:
        by_shape[tuple(sorted(w.numbers.shape))].append(w)
    normed = {id(w.numbers): _normed(w.numbers) for w in ours}
    used = defaultdict[int, int](int)
    found = [_match(weight, ours, by_shape[tuple(sorted(weight.numbers.shape))], normed, used) for weight in theirs]
    if not any(one.grid is not None for one in found):  # B is not quantized, and a grid takes long to seek
        return found
    return [replace(one, grid=grid_of(one.b.numbers)) if one.a is None else one for one in found]


def _match(b: Weight, ours: list[Weight], candidates: list[Weight], normed: dict[int, Tensor], used: dict[int, int]) -> Match:
    v = b.numbers
    same = _whole(v, candidates, normed, used) or _by_rows(v, ours)
    if same is None and (columns := _by_rows(v.T, [w.transposed() for w in ours])) is not None:
        same = columns[0], columns[1].T.contiguous()
    return Match(b, None, "other") if same is None else _judged(b, *same)


def _whole(v: Tensor, candidates: list[Weight], normed: dict[int, Tensor], used: dict[int, int]) -> tuple[str, Tensor] | None:
    """The name and the numbers of A's most similar weight of this shape, also of its transpose."""
    mine = _normed(v)
    found: tuple[float, Weight, bool] | None = None
    for w in candidates:
        for is_transposed in (False, True):
            other = w.numbers.T if is_transposed else w.numbers
            if other.shape != v.shape:
                continue
            cosine = float((mine * (normed[id(w.numbers)].T if is_transposed else normed[id(w.numbers)])).sum())
            key = (round(cosine, 6), -used[id(w)])
            if cosine > SIMILAR and (found is None or key > (round(found[0], 6), -used[id(found[1])])):
                found = cosine, w, is_transposed
    if found is None:
        return None
    _, a, is_transposed = found
    used[id(a)] += 1
    return a.name, (a.numbers.T if is_transposed else a.numbers).contiguous()


def _by_rows(v: Tensor, candidates: list[Weight]) -> tuple[str, Tensor] | None:
    """A's most similar rows, from any of its weights: for a fused projection, or for heads in another order."""
    wide = [w for w in candidates if w.numbers.shape[1] == v.shape[1] >= SAMPLE]
    rows = _normed_rows(v)
    some = rows[:: max(1, len(rows) // SAMPLE)]
    near = [w for w in wide if bool(((some @ _normed_rows(w.numbers).T).amax(-1) > ROW).any())]
    if not near:
        return None
    pool = torch.cat([w.numbers for w in near])
    best = (rows @ _normed_rows(pool).T).max(-1)
    if not bool((best.values > ROW).all()):
        return None
    return ", ".join(dict.fromkeys(w.name for w in near)), pool[best.indices]


def _normed_rows(t: Tensor) -> Tensor:
    return torch.nn.functional.normalize(t.float(), dim=-1)


def _judged(b: Weight, name: str, w: Tensor) -> Match:
    """The match of a weight with these numbers of A's, in its own layout."""
    v = b.numbers
    error, exact = difference(w, v), (w.T if b.is_transposed else w).contiguous()
    if is_rounding(error):
        return Match(b, name, "equal", exact, error=error)
    grid = grid_of(v)
    if grid is None:
        return Match(b, name, "other", exact, error=error)
    judgement = judge(v, w, grid)
    return Match(b, name, "quantized" if judgement.kind == "nearest" else "other", exact, grid, judgement, error)


def _normed(t: Tensor) -> Tensor:
    """Around zero, of length 1, in float32: for a comparison of directions."""
    t = t.float() - t.float().mean()
    return t / t.norm().clamp(min=torch.finfo(torch.float32).tiny)
