"""One change of the numbers: a factor, a soft-cap, another row of a position table, a residual that is missing."""

import math

import torch
from torch import Tensor

from equiscope.audit.parity.alignment import difference, is_rounding, sorted_numbers
from equiscope.audit.parity.causes.finding import Finding
from equiscope.audit.parity.causes.replayed import arguments, first_nodes, kind_of, parameters_of, reproduces
from equiscope.audit.parity.divergence import Divergence
from equiscope.audit.parity.sides import MOVEMENT
from equiscope.program.program import Ref

NEAR = 6
SHIFTS = 64  # offsets of positions that are tried


def embedding_scale(d: Divergence) -> Finding | None:
    """B multiplies the token embedding by another factor than A."""
    for value in [*d.explained_inputs(4), *d.a_region[:2]]:
        near = [d.a.maker[v] for v in (value, *d.a.ancestors(value, 3)) if v in d.a.maker]
        if not any(node.op in ("embedding", "index_select", "getitem", "Gather") and parameters_of(d.a, node) for node in near):
            continue
        found = _factor(d, value)
        if found is None or not reproduces(d, {value: d.a.numbers(value) * found[0]}):
            continue
        width = d.a.high[value].shape[-1]
        words = _words(found[0], width)
        return Finding("embedding scale", "1 time the embedding", f"{words} times", f"{{0}} times {words} gives {{1}}'s numbers")
    return None


def factor(d: Divergence) -> Finding | None:
    """B's numbers are a constant multiple of A's."""
    for value in d.a_region[:NEAR]:
        found = _factor(d, value)
        if found is not None:
            words = _words(found[0], d.a.high[value].shape[-1])
            return Finding("scale", "1 times", f"{words} times", f"{{0}} times {words} gives {{1}}'s numbers")
    return None


def _factor(d: Divergence, value: int) -> tuple[float, int] | None:
    """The factor from this value of A to one of the first of B."""
    mine = sorted_numbers(d.a.numbers(value)) if d.a.is_number(value) else None
    if mine is None or not bool(mine.isfinite().all()):
        return None
    for other in d.b_region[:NEAR]:
        theirs = sorted_numbers(d.b.numbers(other)) if d.b.is_number(other) else None
        if theirs is None or theirs.shape != mine.shape or not bool(theirs.isfinite().all()):
            continue
        rate = (theirs.norm() / mine.norm()).item()
        if rate > 0 and abs(rate - 1) > 1e-9 and is_rounding(difference(theirs, mine * rate)):
            return rate, other
    return None


def _words(rate: float, width: int) -> str:
    """A factor as people write it."""
    for root in {width, *range(2, 257)}:
        if abs(rate - math.sqrt(root)) < 1e-9 * rate and math.isqrt(root) ** 2 != root:
            return f"√{root}"
        if abs(rate * math.sqrt(root) - 1) < 1e-9 and math.isqrt(root) ** 2 != root:
            return f"1/√{root}"
    return f"{rate:.6g}"


def cap(d: Divergence) -> Finding | None:
    """B caps A's numbers: cap · tanh(x / cap)."""
    for value in [*d.explained_inputs(3), *d.a_region[:2]]:
        mine = sorted_numbers(d.a.numbers(value)) if d.a.is_number(value) else None
        if mine is None or not bool(mine.isfinite().all()):
            continue
        for other in d.b_region[:NEAR]:
            theirs = sorted_numbers(d.b.numbers(other)) if d.b.is_number(other) else None
            if theirs is None or theirs.shape != mine.shape or not bool(theirs.isfinite().all()):
                continue
            bound = solve_cap(mine, theirs)
            if bound is not None:
                kind = "output cap" if d.b.source(other) in {d.b.source(v) for v in _outputs(d)} else "soft-cap"
                return Finding(kind, "no cap", f"{bound:.6g}", f"tanh(x / {bound:.6g}) · {bound:.6g} of {{0}} is {{1}}'s")
    return None


def _outputs(d: Divergence) -> list[int]:
    """The outputs of B, and the value before each."""
    return [v for output in d.b.outputs.values() for v in (output, *d.b.parents(output))]


def solve_cap(x: Tensor, y: Tensor) -> float | None:
    """The cap with y = cap · tanh(x / cap), if there is one that explains at least 99 % of the change from x to y."""
    change = difference(y, x)
    if is_rounding(change):
        return None
    i = int(x.abs().argmax())
    start, end = x[i].item(), y[i].item()
    if not 0 < end / (start or 1.0) < 1:
        return None
    low, high = math.log(abs(end)), math.log(abs(start) * 1e4)
    for _ in range(200):
        middle = (low + high) / 2
        bound = math.exp(middle)
        low, high = (middle, high) if bound * math.tanh(abs(start) / bound) < abs(end) else (low, middle)
    bound = math.exp((low + high) / 2)
    return bound if difference(y, bound * torch.tanh(x / bound)) < min(1e-7, change / 100) else None


def position_offset(d: Divergence) -> Finding | None:
    """B adds the position rows of A, some rows later."""
    node = d.a_step
    if node.op == "embedding":
        given = arguments(node, "input", "weight")
        index, table = given.get("input"), given.get("weight")
        if isinstance(index, Ref) and isinstance(table, Ref):
            rows, ids = d.a.numbers(table.id), d.a.high[index.id].long()
            for shift in _shifts():
                moved = ids + shift
                if int(moved.min()) >= 0 and int(moved.max()) < len(rows) and reproduces(d, {node.value: rows[moved]}):
                    return _offset(shift)
        return None
    if node.op not in ("add", "radd"):
        return None
    moving = d.a.parents(node.value)
    added = [v for v in node.inputs if v not in d.a.moving and d.a.is_number(v)]
    if len(moving) != 1 or len(added) != 1:
        return None
    x, rows = d.a.numbers(moving[0]), d.a.numbers(added[0])
    rows = rows.reshape(rows.shape[-2:]) if rows.numel() == rows.shape[-1] * rows.shape[-2] else rows
    tables = [
        leaf.id
        for leaf in (d.a.program.leaves if d.a.program else ())
        if leaf.value.ndim >= 2 and leaf.value.shape[-1] == rows.shape[-1]
    ]
    for table in tables:
        if kind_of(d.a, table) not in ("parameter", "buffer", "constant"):
            continue
        whole = d.a.numbers(table).reshape(-1, rows.shape[-1])
        start = next((i for i in range(len(whole) - len(rows) + 1) if torch.equal(whole[i : i + len(rows)], rows)), None)
        if start is None:
            continue
        for shift in _shifts():
            if 0 <= start + shift <= len(whole) - len(rows):
                moved = whole[start + shift : start + shift + len(rows)]
                if d.hit(x + moved) is not None:
                    return _offset(shift)
    return None


def _shifts() -> list[int]:
    return [s for n in range(1, SHIFTS + 1) for s in (n, -n)]


def _offset(shift: int) -> Finding:
    says = f"{abs(shift)} {'later' if shift > 0 else 'earlier'}"
    return Finding("position offset", "positions as they are", says, f"{{0}}'s table read {says} gives {{1}}'s numbers")


def residual(d: Divergence) -> Finding | None:
    """B does not add the residual: A without one of the terms of its sum computes B's numbers."""
    for node in [d.a_step, *first_nodes(d.a, d.a_region, 2)]:
        terms = d.a.parents(node.value)
        if node.op not in ("add", "radd") or len(terms) != 2 or not set(terms) <= d.a_explained:
            continue
        for kept in terms:
            if reproduces(d, {node.value: d.a.numbers(kept)}):
                where = node.module or "the model"
                return Finding("residual", f"a sum of two terms in {where}", "one of them", "{0} without the other computes {1}'s")
    return None


__all__ = ["MOVEMENT", "cap", "embedding_scale", "factor", "position_offset", "residual", "solve_cap"]
