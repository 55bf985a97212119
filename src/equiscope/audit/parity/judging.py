"""Judge two sides: each output, the first step that differs, its cause, and both sides step by step."""

import platform
import time
from typing import Any

import torch

from equiscope import __version__
from equiscope.audit.parity.alignment import (
    ONE_PRECISION,
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
from equiscope.audit.parity.sides import Side, with_tables_of
from equiscope.audit.verdict import SEVERITY, StatementErrors
from equiscope.errors import sentences
from equiscope.record import Parity, ParityRow
from equiscope.record.audit import Verdict
from equiscope.symmetry.measure import PRECISION, TOLERANCE


def compare_sides(a: Side, b: Side, seed: int = 0, most: int = 1) -> tuple[Parity, Alignment]:
    """The record of two sides, and which values are equal. most: differences that are sought, with causes and steps; 0: none."""
    start = time.perf_counter()
    rows = [_row(a, b, *pair) for pair in output_pairs(a, b)]
    if any(row.error is None or row.error > 1e3 * PRECISION * (row.floor or 0.0) for row in rows):
        b = with_tables_of(b, a)
        a = with_tables_of(a, b)
        rows = [_row(a, b, *pair) for pair in output_pairs(a, b)]
    verdict = max((row.verdict for row in rows), key=SEVERITY.__getitem__)
    notes = [*a.notes, *b.notes]
    where: Divergence | None = None
    alignment, first, second = align(a, b) if most else (Alignment(), None, None)
    if verdict != "holds" and first is not None and second is not None:
        where = divergence(a, b, alignment, first, second)
    if where is not None and (some := differing(a, b)):
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
        return _one_precision(name, high, rounding, note, steps)
    errors = StatementErrors([high], [low], rounding)
    if errors.verdict != "holds":
        flat, others = sorted_numbers(ours), sorted_numbers(theirs)
        if flat is not None and others is not None and is_rounding(difference(flat, others), low):
            note = "the outputs hold the same numbers in another order"
    return ParityRow(name=name, verdict=errors.verdict, error=high, error32=low, floor=rounding, note=note, **steps)


def _one_precision(name: str, error: float, rounding: float, note: str, steps: dict[str, Any]) -> ParityRow:
    """The comparison where a side has one precision: an error is rounding up to a multiple of the rounding error of one pass."""
    verdict: Verdict = "holds" if error <= ONE_PRECISION * rounding else "approximate" if error < TOLERANCE else "broken"
    note = sentences(note, f"one precision: an error up to {ONE_PRECISION} times the rounding error of one pass counts as rounding")
    return ParityRow(name=name, verdict=verdict, error32=error, floor=rounding, note=note, **steps)


def _axes(a: torch.Size, b: torch.Size) -> tuple[int, ...] | None:
    """Which axis of B is which of A: nothing where the shapes are equal up to axes of size 1; None where they cannot be."""
    if [n for n in a if n > 1] == [n for n in b if n > 1]:
        return ()
    if sorted(a) == sorted(b) and len(set(a)) == len(a):
        return tuple(list(b).index(n) for n in a)
    return None
