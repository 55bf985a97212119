"""Grids: whether the numbers of a weight are integers times a scale, and whether they are another weight's nearest such numbers.

Nothing is read from names or attributes: the scale is the largest number of which all numbers of a tensor, a row, a column or a
group are multiples. It is found as the greatest common divisor is, and confirmed to the precision of float32.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

LEVELS = 255  # of 8 bits
BITS = (2, 3, 4, 5, 6, 8)
GROUPS = (256, 128, 64, 32, 16)  # neighbours of a row that share a scale
STORED = 2.0**-24  # the rounding error of a number that float32 stores
NEAREST = 0.5 + 1e-3  # steps: a number that was rounded in float32 may be a little further away
SAMPLE = 16  # lines that are tried first
AT_ONCE = 64  # lines for which all steps are tried at once


@dataclass(frozen=True)
class Grid:
    """Integers times a scale.

    per    "tensor", "row", "column" or a number: neighbours of a row that share a scale
    step   the scale of each number [R, C]
    bits   that the integers of one scale need
    """

    per: str | int
    step: Tensor
    bits: int


@dataclass(frozen=True)
class Judgement:
    """How a weight on a grid relates to another weight.

    kind     "nearest": the nearest numbers of the grid; "scale", "axis", "zero point", "rounding": why they are not; "" otherwise
    text     what is wrong, in words
    worst    largest distance, in steps; clipped: share of the numbers that lie beyond the grid's ends
    """

    kind: str
    text: str
    worst: float
    clipped: float = 0.0


def grid_of(v: Tensor) -> Grid | None:
    """The coarsest grid that holds the numbers of a matrix [R, C] in float64; None where 8 bits are too few."""
    for per, lines in _lines(v):
        if (found := _steps(lines)) is not None:
            step, bits = found
            wide = step[:, None].expand(lines.shape)
            return Grid(per, wide.T if per == "column" else wide.reshape(v.shape), bits)
    return None


def _lines(v: Tensor) -> Iterator[tuple[str | int, Tensor]]:
    """The numbers that may share a scale [L, n], for each way to share it."""
    yield "tensor", v.reshape(1, -1)
    yield "row", v
    yield "column", v.T
    for n in GROUPS:
        if v.shape[1] > n and v.shape[1] % n == 0:
            yield n, v.reshape(-1, n)


def _steps(lines: Tensor) -> tuple[Tensor, int] | None:
    """The step of each line [L] and the bits that its integers need; None where a line has none.

    The largest number of a line is an integer times its step: 1, 2, ... 255 are tried in turn.
    """
    if lines.shape[1] < 3 or (len(lines) > 2 * SAMPLE and _steps(lines[:: len(lines) // SAMPLE]) is None):
        return None
    if len(lines) == 1 and len(lines := lines.unique()[None]) and lines.shape[1] > LEVELS + 1:
        return None
    size = lines.abs().amax(-1)
    step, todo = torch.ones_like(size), size > 0
    candidates = size / torch.arange(1, LEVELS + 1, dtype=size.dtype, device=size.device)[:, None]
    few = lines[:, :: max(1, lines.shape[1] // 24)]  # a few numbers of each line leave few candidates
    likely = torch.cat(
        [_integers(part, steps) for part, steps in zip(few.split(AT_ONCE), candidates.split(AT_ONCE, 1), strict=True)], 1
    )
    for k in likely.any(1).nonzero().flatten().tolist():
        near = likely[k] & todo
        near[near.clone()] = _integers(lines[near], candidates[k, near])
        step, todo = torch.where(near, candidates[k], step), todo & ~near
        if not bool(todo.any()):
            break
    if bool(todo.any()):
        return None
    integers = (lines / step[:, None]).round()
    levels = int((integers.amax(-1).clamp(min=0) - integers.amin(-1).clamp(max=0)).max())
    return (step, next(b for b in BITS if levels < 2**b)) if 0 < levels <= LEVELS else None


def _integers(lines: Tensor, step: Tensor) -> Tensor:
    """Whether all numbers of a line [L, n] are integers times its step [..., L], to the precision of float32."""
    size, wide = lines.abs().amax(-1), step[..., None]
    return ((lines - (lines / wide).round() * wide).abs().amax(-1)) <= 4 * STORED * torch.maximum(size, step)


def judge(v: Tensor, w: Tensor, grid: Grid) -> Judgement:
    """Whether v holds the nearest numbers of its grid to w, and what is wrong where it does not. v, w: [R, C] in float64."""
    shift = (v - w) / grid.step
    ends = _beyond(v, w, grid)
    worst = float(shift.abs().max())
    clipped = float(ends.double().mean())
    if bool((shift.abs() <= NEAREST)[~ends].all()):
        return Judgement("nearest", "", worst, clipped)
    lines = dict(_lines(v))[grid.per], dict(_lines(w))[grid.per], dict(_lines(grid.step.contiguous()))[grid.per][:, :1]
    for test in (_zero_point, _rounded_down, _other_scale):
        if (found := test(*lines, "row" if grid.per == "row" else "column" if grid.per == "column" else "")) is not None:
            return Judgement(*found, worst)
    if grid.per in ("row", "column") and v.shape[0] == v.shape[1]:
        turned = v / grid.step * grid.step.T
        if bool(((turned - w).abs() <= NEAREST * grid.step.T).all()):
            names = ("columns", "rows") if grid.per == "column" else ("rows", "columns")
            return Judgement("axis", f"the scales of the {names[1]} are applied to the {names[0]}", worst)
    return Judgement("", "", worst, clipped)


def _beyond(v: Tensor, w: Tensor, grid: Grid) -> Tensor:
    """Numbers at an end of their line's grid whose exact number lies beyond it by more than half a step."""
    lines = dict(_lines(v))[grid.per]
    low, high = lines.amin(-1, keepdim=True).expand(lines.shape), lines.amax(-1, keepdim=True).expand(lines.shape)
    low, high = (t.T if grid.per == "column" else t.reshape(v.shape) for t in (low, high))
    half = NEAREST * grid.step
    return ((v == high) & (w > v + half)) | ((v == low) & (w < v - half))


def _zero_point(v: Tensor, w: Tensor, step: Tensor, name: str) -> tuple[str, str] | None:
    """Every number of a line is too large by the same number of steps."""
    shift = (v - w) / step
    off = shift.mean(-1, keepdim=True).round()
    if not bool(off.any()) or bool(((shift - off).abs() > NEAREST).any()):
        return None
    return "zero point", f"{_counted(off != 0, name)}the zero point is off by {_range(-off[off != 0])}"


def _rounded_down(v: Tensor, w: Tensor, step: Tensor, name: str) -> tuple[str, str] | None:
    """Rounded to the next lower number, or to the next one towards zero."""
    del name
    rest = (w - v) / step
    for side, words in ((rest, "down"), (rest * w.sign(), "towards zero")):
        if bool(((side > -1e-3) & (side < 1 + 1e-3)).all()):
            return "rounding", f"numbers are rounded {words}, not to the nearest"
    return None


def _other_scale(v: Tensor, w: Tensor, step: Tensor, name: str) -> tuple[str, str] | None:
    """The numbers of a line are the nearest ones of a grid, times a factor: it lies in an interval that every number narrows."""
    low, high = (v - NEAREST * step) / w, (v + NEAREST * step) / w
    low, high = torch.minimum(low, high), torch.maximum(low, high)
    small = w.abs() <= 1e-12
    low, high = torch.where(small, -torch.inf, low), torch.where(small, torch.inf, high)
    ends = (v == v.amax(-1, keepdim=True)) | (v == v.amin(-1, keepdim=True))  # clipped numbers only bound it from below
    low, high = low.amax(-1), torch.where(ends, torch.inf, high).amin(-1)
    if bool((low > high).any()) or bool((high <= 0).any()):
        return None
    wrong = (low > 1) | (high < 1)
    factor = torch.where(high.isfinite(), (low + high) / 2, low)[wrong]
    return "scale", f"{_counted(wrong, name)}the scale is {_range(factor)} times as large"


def _counted(wrong: Tensor, name: str) -> str:
    return f"in {int(wrong.sum())} of {wrong.numel()} {name}s " if name and not bool(wrong.all()) else ""


def _range(t: Tensor) -> str:
    low, high = float(t.min()), float(t.max())
    return f"{low:.3g}" if high - low <= 0.01 * abs(high) else f"{low:.3g} to {high:.3g}"
