"""Rows of the batch: which of them differ, and which values they depend on.

A model may compute a right and a wrong result for the whole batch and use the wrong one in some rows. Then the values on which only
the other rows depend are no part of the comparison.
"""

from dataclasses import replace

import torch
from torch import Tensor

from equiscope.audit.parity.alignment import STORED, difference, is_rounding, output_pairs
from equiscope.audit.parity.sides import Side
from equiscope.audit.subject.promote_float64 import promote_float64


def differing(a: Side, b: Side) -> list[int]:
    """The rows along the first axis of the outputs in which they differ; empty where all of them do, or none."""
    found, size = set[int](), 0
    for _, x, y in output_pairs(a, b):
        ours, theirs = a.numbers(x), b.numbers(y)
        if ours.shape != theirs.shape or ours.ndim < 2 or size not in (0, len(ours)):
            return []
        size = len(ours)
        for i in range(size):
            low = [s.low[v].double()[i] for s, v in ((a, x), (b, y)) if v in s.low]
            rounding = max([STORED, *(difference(full, t) for full, t in zip((ours[i], theirs[i]), low, strict=False))])
            if not is_rounding(difference(ours[i], theirs[i]), rounding):
                found.add(i)
    return sorted(found) if len(found) < size else []


def of_rows(side: Side, rows: list[int]) -> Side | None:
    """The side with only the values on which these rows of its outputs depend; None where they depend on all, or it is unknown."""
    if side.program is None:
        return None
    try:
        slopes = _slopes(side, rows)
    except (RuntimeError, NotImplementedError, TypeError, ValueError, IndexError):  # a step that cannot be differentiated
        return None
    needed = set(side.outputs.values())
    for node in reversed(side.nodes):
        if node.value in needed:
            needed.update(v for v in node.inputs if (slope := slopes.get(v)) is None or bool((slope != 0).any()))
    if needed >= side.needed:
        return None
    limited = replace(side)
    limited.__dict__["needed"] = needed
    return limited


def _slopes(side: Side, rows: list[int]) -> dict[int, Tensor | None]:
    """The derivatives of these rows of the outputs by each value; None where none flows back to it, as through integers."""
    assert side.program is not None
    with promote_float64():
        run = side.program.differentiable(side.tables)
        known = {v: t for v, t in run.items() if t.requires_grad}
        chance = torch.Generator().manual_seed(0)
        total = sum(
            (run[v][i] * torch.randn(run[v][i].shape, generator=chance, dtype=run[v].dtype)).sum()
            for v in side.outputs.values()
            for i in rows
        )
        assert isinstance(total, Tensor)
        found = torch.autograd.grad(total, list(known.values()), allow_unused=True)
    return dict(zip(known, found, strict=True))
