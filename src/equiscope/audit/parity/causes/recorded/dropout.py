"""Dropout that was on while B was recorded: each number of a value is zero or a constant multiple of A's."""

import torch
from torch import Tensor

from equiscope.audit.parity.alignment import allowed
from equiscope.audit.parity.causes.finding import Finding
from equiscope.audit.parity.causes.recorded.recording import RecordedTensors, arrangements

LARGE = 0.25  # times the mean size: numbers of which it is counted how many are zero
LEAST = 32  # numbers of which at least four are zero
NEAR = 24  # values behind the divergence that may be dropped


def dropout(r: RecordedTensors) -> Finding | None:
    """A recorded tensor is a value of A of which some numbers are zero and the others are divided by 1 - p, alone or in a sum."""
    for value in [*r.d.explained_inputs(), *r.d.a_region[:NEAR]]:
        if not r.d.a.is_number(value) or value not in r.d.a.maker:
            continue
        node = r.d.a.maker[value]
        for dropped, kept in _terms(r, value):
            for target in r.targets:
                for theirs in arrangements(r.d.b.numbers(target), r.d.a.numbers(value)):
                    rate = _rate(dropped, theirs - kept, allowed(r.d.a, value, r.d.b) + r.d.b.unit(target))
                    if rate is not None:
                        name = r.d.b.maker[target].name
                        evidence = f"{rate:.0%} of the numbers of {name} are zero, the others are one multiple of {{0}}'s"
                        says = "evaluation mode", f"training mode: dropout of {rate:.2g}"
                        return Finding("mode", *says, evidence, node.value, target, {value: theirs})
    return None


def _terms(r: RecordedTensors, value: int) -> list[tuple[Tensor, Tensor]]:
    """What may be dropped of a value, and what is added to it: the whole value, or one term of a sum."""
    whole = r.d.a.numbers(value)
    node = r.d.a.maker[value]
    found = [(whole, torch.zeros_like(whole))]
    parents = [v for v in r.d.a.parents(value) if r.d.a.high[v].shape == r.d.a.high[value].shape]
    if node.op in ("add", "radd", "iadd") and len(parents) == 2:
        one, other = (r.d.a.numbers(v) for v in parents)
        found += [(one, other), (other, one)]
    return found


def _rate(x: Tensor, y: Tensor, limit: float) -> float | None:
    """The share of numbers that are zero in y, where all others are one multiple of x; None where they are not."""
    if x.numel() < LEAST or not bool(x.isfinite().all() and y.isfinite().all()):
        return None
    size = x.abs().mean()
    some = x.abs() > LARGE * size  # a small number may be zero by rounding
    zero = y.abs() <= 8 * limit * size
    kept = some & ~zero
    share = (zero & some).sum().item() / max(int(some.sum()), 1)
    if 16 * limit > LARGE or int((zero & some).sum()) < 4 or share > 0.9 or int(kept.sum()) < 8:
        return None
    factor = (x * y)[kept].sum() / x[kept].square().sum()
    off = (y - factor * x)[kept].norm() / y[kept].norm()
    return share if factor > 1 and bool(off <= 8 * limit) and abs(1 - 1 / factor.item() - share) < 0.25 else None
