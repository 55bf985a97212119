"""One unknown number of a hypothesis: first the numbers that people write, then the one that fits the nearest recorded tensor."""

import math
from collections.abc import Callable, Sequence

from torch import Tensor

from equiscope.audit.parity.alignment import difference
from equiscope.audit.parity.causes.finding import Finding
from equiscope.audit.parity.causes.recorded.recording import ModelChange, RecordedTensors
from equiscope.audit.parity.sides import canonical

STEPS = 14  # of Gauss and Newton
STARTS = 2  # numbers from which they begin
PROMISING = 4  # steps after which most of the difference is explained
SMALL = 1e-5  # relative change of the number for a derivative
FITS = 0.5  # a number that leaves more of the difference is not refined


def solved(
    r: RecordedTensors, usual: Sequence[float], change: Callable[[float], ModelChange], fitted: bool = True
) -> Finding | None:
    """The change with a number that gives the recorded tensors. usual: positive numbers; change: the one with this number."""
    starts = list[tuple[float, float]]()
    near = r.nearest
    for x in usual:
        replay = r.replay(change(x).edits)
        found = r.finding(change(x), replay)
        if found is not None:
            return found
        if near is not None and replay.near is not None and bool(replay.near.isfinite().all()):
            starts.append((difference(near[2], replay.near), x))
    if not fitted or near is None:
        return None
    value, _, theirs = near
    size, before = theirs.norm(), difference(theirs, r.d.a.numbers(value))

    def residual(x: float) -> Tensor | None:
        for one, t in r.values(change(x).edits):
            if one == value:
                return (canonical(t) - theirs) / size
        return None

    for error, start in sorted(starts)[:STARTS]:
        best = _refined(residual, start, before) if error < 2 * before else None
        for one in [] if best is None else _written(best):
            found = r.confirmed(change(one))
            if found is not None:
                return found
    return None


def _refined(residual: Callable[[float], Tensor | None], start: float, before: float) -> float | None:
    """The number with the smallest residual near a start, on a logarithmic scale; None where it explains little."""
    x, error = math.log(start), math.inf
    for step_number in range(STEPS):
        here, there = residual(math.exp(x)), residual(math.exp(x + SMALL))
        if here is None or there is None or not bool(here.isfinite().all() and there.isfinite().all()):
            return None
        slope = (there - here) / SMALL
        square = slope.square().sum().item()
        error = here.norm().item()
        if step_number == PROMISING and error > FITS * before:
            return None
        if square == 0 or error == 0:
            break
        step = -(slope * here).sum().item() / square
        x += max(-1.0, min(1.0, step))
        if abs(step) < 1e-12:
            break
    return math.exp(x) if error < FITS * before else None


def _written(x: float) -> list[float]:
    """The number as people may have written it, with few digits or as a root, and as it is."""
    if not 0 < x < 1e30:
        return []
    forms = [float(f"{x:.{digits}g}") for digits in (1, 2, 3)]
    forms += [
        math.sqrt(round(x * x)),
        1 / math.sqrt(max(round(1 / (x * x)), 1)) if x < 1e15 and x > 1e-15 else x,
        1 / max(round(1 / x), 1),
    ]
    return [*dict.fromkeys(one for one in forms if one > 0 and abs(one / x - 1) < 0.05), x]
