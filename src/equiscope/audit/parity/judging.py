"""Judge two sides: each output, the first step that differs, its cause, and both sides step by step."""

import platform
import time
from typing import Any

import torch
from msgspec.structs import replace
from torch import Tensor

from equiscope import __version__
from equiscope.audit.parity.alignment import (
    STORED,
    Alignment,
    align,
    difference,
    is_rounding,
    output_pairs,
    sorted_numbers,
)
from equiscope.audit.parity.causes import Finding, find
from equiscope.audit.parity.divergence import Divergence, divergence
from equiscope.audit.parity.further import differences
from equiscope.audit.parity.rows import differing, of_rows
from equiscope.audit.parity.side_by_side import layers
from equiscope.audit.parity.sides import Side, rerun, with_tables_of
from equiscope.audit.verdict import SEVERITY, StatementErrors
from equiscope.errors import sentences
from equiscope.record import Parity, ParityRow
from equiscope.record.audit import Verdict
from equiscope.symmetry.measure import PRECISION, TOLERANCE

DRAWS, STORING = 3, 4  # roundings that are drawn; times the largest of them: a larger error is a difference
RECORDED = 3  # recorded tensors that differ and are listed, where there is no output


def compare_sides(a: Side, b: Side, seed: int = 0, most: int = 1) -> tuple[Parity, Alignment]:
    """The record of two sides, and which values are equal. most: differences that are sought, with causes and steps; 0: none."""
    start = time.perf_counter()
    pairs = output_pairs(a, b)
    rows = [_row(a, b, *pair) for pair in pairs]
    if any(row.error is None or row.error > 1e3 * PRECISION * (row.floor or 0.0) for row in rows):
        b = with_tables_of(b, a)
        a = with_tables_of(a, b)
        rows = [_row(a, b, *pair) for pair in pairs]
    if "approximate" in {row.verdict for row in rows} and (stored := _of_stored(a, b, rows, pairs)) is not None:
        rows = stored
    alignment, first, second = align(a, b) if most or not rows else (Alignment(), None, None)
    if not rows:
        assert first is not None
        assert second is not None
        rows = _recorded_rows(a, b, alignment, divergence(a, b, alignment, first, second))
    verdict = max((row.verdict for row in rows), key=SEVERITY.__getitem__)
    notes = [*a.notes, *b.notes]
    where: Divergence | None = None
    if verdict != "holds" and first is not None and second is not None:
        where = divergence(a, b, alignment, first, second)
    if where is not None and not (a.is_recorded or b.is_recorded) and (some := differing(a, b)):
        where, note = _in_rows(where, some)
        notes.append(note)
    found = [] if where is None else differences(where, find(where), most)
    finding, (step_a, step_b) = (found[0].finding, found[0].steps[0]) if found else (Finding("", ""), (None, None))
    if alignment.ties:
        notes.append(f"{alignment.ties} values had several equals in B; the order of computation decided.")
    record = Parity(
        a=a.title, b=b.title, verdict=verdict, rows=rows, kind=finding.kind, cause=finding.text, evidence=finding.proof,
        step_a=step_a, step_b=step_b, further=[one.record() for one in found[1:]],
        aligned=len(alignment.pairs), values=alignment.candidates, ties=alignment.ties, seed=seed,
        seconds=time.perf_counter() - start, notes=notes,
        layers=layers(a, b, alignment, where) if most else [],
        versions={"equiscope": __version__, "torch": str(torch.__version__), "python": platform.python_version()},
    )  # fmt: skip
    return record, alignment


def _in_rows(where: Divergence, rows: list[int]) -> tuple[Divergence, str]:
    """The divergence where only some rows of the batch differ, without values that only others depend on; and a note."""
    a, b = where.a, where.b
    size = len(b.numbers(next(iter(b.outputs.values()))))
    which = f"row{'s' * (len(rows) > 1)} {', '.join(map(str, rows))}"
    note = f"Only {which} of the batch of {size} differ{'s' * (len(rows) == 1)}, counted from 0."
    limited = [of_rows(side, rows) for side in (a, b)]
    if limited == [None, None]:
        return where, note
    a, b = (side if one is None else one for side, one in zip((a, b), limited, strict=True))
    alignment, first, second = align(a, b)
    inside = divergence(a, b, alignment, first, second, tuple(rows))
    return (where, note) if inside is None else (inside, note)


def _recorded_rows(a: Side, b: Side, alignment: Alignment, where: Divergence | None) -> list[ParityRow]:
    """Of recorded activations without outputs: the last tensor that agrees, or each that differs from the nearest value of A."""
    order = {node.value: i for i, node in enumerate(a.nodes)}
    if where is None:
        pairs = [(x, y) for x, y in alignment.pairs.items() if x in order]
        if not pairs:
            note = "no recorded tensor equals a value of the other side"
            return [ParityRow(name="recorded tensors", verdict="undecided", note=note)]
        x, y = max(pairs, key=lambda pair: order[pair[0]])
        names = [side.maker[value].name for side, value in ((a, x), (b, y)) if side.is_recorded]
        return [_row(a, b, names[-1], x, y)]
    rows = []
    for y in where.b_region[:RECORDED] if b.is_recorded else []:
        near = nearest(a, [v for v in where.a_region if a.is_number(v)], b.numbers(y))
        if near is not None:
            rows.append(_row(a, b, b.maker[y].name, near[0], y))
    return rows or [
        ParityRow(name="recorded tensors", verdict="broken", note="recorded tensors differ from all values of the other side")
    ]


def nearest(side: Side, values: list[int], t: Tensor) -> tuple[int, float] | None:
    """The value whose sorted numbers are most like those of a tensor, and the relative difference."""
    numbers, found = sorted_numbers(t), list[tuple[float, int]]()
    for value in values if numbers is not None else []:
        own = sorted_numbers(side.numbers(value))
        if own is not None and numbers is not None and own.shape == numbers.shape:
            found.append((difference(own, numbers), value))
    return min(found)[::-1] if found else None


def _row(a: Side, b: Side, name: str, x: int, y: int) -> ParityRow:
    """The comparison of two outputs. Their axes may be in another order, their numbers may not."""
    steps: dict[str, Any] = {"a": a.describe(x), "b": b.describe(y)}
    ours, theirs = a.numbers(x), b.numbers(y)
    if not bool(ours.isfinite().any()) or bool(ours.isnan().any() or theirs.isnan().any()):
        sides = [side for side, t in (("A", ours), ("B", theirs)) if not bool(t.isfinite().all())]
        return ParityRow(name=name, verdict="undecided", note=f"not finite in {' and '.join(sides)}", **steps)
    note, order = "", _axes(ours.shape, theirs.shape)
    if order is None:
        if ours.numel() != theirs.numel():
            shapes = f"{list(ours.shape)} and {list(theirs.shape)}"
            return ParityRow(name=name, verdict="broken", error=float("inf"), note=f"the shapes differ: {shapes}", **steps)
        order = ()
    if order:
        theirs, note = theirs.permute(order), f"the axes of B are permuted by {list(order)}"
    theirs = theirs.reshape(ours.shape)
    high = difference(ours, theirs)
    low, rounding = high, STORED
    if x in a.low:
        rounding = max(rounding, difference(ours, a.low[x].detach().double().reshape(ours.shape)))
    if x in a.low and y in b.low:
        one, other = (side.low[value].detach().double() for side, value in ((a, x), (b, y)))
        other = (other.permute(order) if order else other).reshape(one.shape)
        low, rounding = difference(one, other), difference(ours, one.reshape(ours.shape))
    if a.single or b.single:
        passes = min(a.passes, b.passes)
        return _one_precision(name, high, rounding, passes, max(a.unit(x), b.unit(y)), note, steps)
    errors = StatementErrors([high], [low], rounding)
    if errors.verdict != "holds":
        flat, others = sorted_numbers(ours), sorted_numbers(theirs)
        if flat is not None and others is not None and is_rounding(difference(flat, others), low):
            note = "the outputs hold the same numbers in another order"
    return ParityRow(name=name, verdict=errors.verdict, error=high, error32=low, floor=rounding, note=note, **steps)


def _one_precision(
    name: str, error: float, rounding: float, passes: float, unit: float, note: str, steps: dict[str, Any]
) -> ParityRow:
    """The comparison where a side has one precision: an error is rounding up to a multiple of the rounding error of one pass.

    unit  what storing a number loses, where a file stores it in less than float32
    """
    verdict: Verdict = "holds" if error <= passes * rounding + unit else "approximate" if error < TOLERANCE else "broken"
    note = sentences(note, f"one precision: an error up to {passes:g} times the rounding error of one pass counts as rounding")
    return ParityRow(name=name, verdict=verdict, error32=error, floor=max(rounding, unit), note=note, **steps)


def _of_stored(a: Side, b: Side, rows: list[ParityRow], pairs: list[tuple[str, int, int]]) -> list[ParityRow] | None:
    """The rows, where their errors are those of storing parameters in float32; None where they are larger.

    A port that stores a product of parameters, as of a convolution and the norm behind it, rounds it once more. Parameters whose
    numbers the other side has too are stored as they are: they explain nothing.
    """
    if a.program is None or b.program is None or a.single or b.single:
        return None
    spread = dict.fromkeys((row.name for row in rows), 0.0)
    for side, other, outputs in ((a, b, {n: x for n, x, _ in pairs}), (b, a, {n: y for n, _, y in pairs})):
        products = _only_here(side, other)
        for seed in range(DRAWS if products else 0):
            draw = torch.Generator().manual_seed(seed)
            changes = {
                v: t * (1 + STORED * (2 * torch.rand(t.shape, generator=draw, dtype=t.dtype) - 1)) for v, t in products.items()
            }
            new = rerun(side, changes, list(outputs.values()))
            for name, value in outputs.items():
                if value in new:
                    spread[name] = max(spread[name], difference(side.numbers(value), new[value]))
    if any(row.verdict != "holds" and not (row.error or 0.0) <= STORING * spread[row.name] for row in rows):
        return None
    note = "parameters that only one side has, as products of others, are rounded to float32: the error is no larger"
    return [replace(row, verdict="holds", note=sentences(row.note, note)) if row.verdict != "holds" else row for row in rows]


def _only_here(side: Side, other: Side) -> dict[int, Tensor]:
    """The parameters and buffers with numbers of float32 that the other side has in none."""
    leaves = [
        [
            (leaf.id, s.numbers(leaf.id))
            for leaf in s.program.leaves
            if leaf.kind in ("parameter", "buffer") and s.is_number(leaf.id)
        ]
        for s in (side, other)
        if s.program is not None
    ]
    theirs = torch.cat([torch.zeros(1, dtype=torch.float64), *(t.abs().flatten() for _, t in leaves[1])])
    stored = ((v, t) for v, t in leaves[0] if torch.equal(t, t.float().double()))
    return {v: t for v, t in stored if not bool(torch.isin(t.abs(), theirs).all())}


def _axes(a: torch.Size, b: torch.Size) -> tuple[int, ...] | None:
    """Which axis of B is which of A: nothing where the shapes are equal up to axes of size 1; None where they cannot be."""
    if [n for n in a if n > 1] == [n for n in b if n > 1]:
        return ()
    if sorted(a) == sorted(b) and len(set(a)) == len(a):
        return tuple(list(b).index(n) for n in a)
    return None
