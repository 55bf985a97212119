"""Shifts along a grid: an image or a waveform, shifted by whole pixels or samples, circularly or with zero padding.

A stride preserves shifts by its multiples only, and zero padding preserves shifts away from the border only. Both cases are
subgroups, so that a check names them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from torch import Generator, Tensor

from equiscope.errors import counted
from equiscope.symmetry.actions import Action
from equiscope.symmetry.grids import Gridded, Layout, size_of
from equiscope.symmetry.inputs import Inputs

STEPS = (2, 4, 8, 16, 32, 14, 3)  # common strides and patch sizes
MARGINS = (1, 2, 3, 4, 6, 8, 16, 32, 64)


@dataclass(frozen=True)
class GridShift(Gridded):
    """Shift every pixel or sample.

    by      along each axis; downwards, to the right, to later are positive
    margin  pixels at the border that are not compared, before and after the shift
    filled  whether zeros fill the gap; else the shift is circular
    """

    by: tuple[int, ...]
    size: tuple[int, ...]
    margin: int = 0
    filled: ClassVar[bool] = False
    unit: ClassVar[str] = "pixel"
    steps: ClassVar[tuple[int, ...]] = STEPS
    margins: ClassVar[tuple[int, ...]] = MARGINS

    @classmethod
    def sample(cls, inputs: Any, generator: Generator) -> Self:
        size, room = size_of(inputs, cls.kind), cls.room(inputs)
        if cls.filled:
            by = [int(torch.randint(-r, r + 1, (), generator=generator)) for r in room]
        else:
            by = [int(torch.randint(s, (), generator=generator)) for s in size]
        return cls(tuple(by) if any(by) else next(_single(size, 1)), size)

    @classmethod
    def samples(cls, inputs: Any, generator: Generator, count: int) -> list[Self]:
        size = size_of(inputs, cls.kind)
        elements = [cls(by, size) for by in _single(size, 1)][:count]
        return elements + [cls.sample(inputs, generator) for _ in range(count - len(elements))]

    @classmethod
    def room(cls, inputs: Any) -> tuple[int, ...]:
        """Largest shift along each axis: half a blank border, a quarter of the size without one, the whole size if circular."""
        size = size_of(inputs, cls.kind)
        if not cls.filled:
            return size
        blank = _blank(inputs, cls.kind, len(size))
        return tuple(b // 2 if b > 1 else min(max(s // 4, 1), s - 1) for b, s in zip(blank, size, strict=True))

    @classmethod
    def distinguishing(cls, inputs: Any) -> "Action | None":
        size = size_of(inputs, cls.kind)
        return cls(tuple(r if cls.filled else max(r // 2, 1) for r in cls.room(inputs)), size)

    @classmethod
    def missing(cls, inputs: Inputs) -> str:
        return super().missing(inputs) or ("" if max(size_of(inputs, cls.kind), default=0) > 1 else f"there is one {cls.unit} only")

    @classmethod
    def simpler(cls, inputs: Any) -> Iterator[Self]:
        size = size_of(inputs, cls.kind)
        for step in (1, 2, 4, 8, 16):
            yield from (cls(by, size) for by in _single(size, step))

    @classmethod
    def subgroups(cls, inputs: Any) -> Iterator[tuple[str, list[Self]]]:
        size = size_of(inputs, cls.kind)
        for step in (s for s in cls.steps if s < max(size)):
            yield f"shifts by {step}", cls._steps(size, step, 0)
        for margin in (m for m in cls.margins if 4 * m <= min(size)):
            yield f"shifts inside, {counted(margin, cls.unit)} from the border", cls._steps(size, 1, margin)
        for step in (s for s in cls.steps if 4 * s <= min(size)):
            words = f"shifts by {step} inside, {counted(min(size) // 4, cls.unit)} from the border"
            yield words, cls._steps(size, step, min(size) // 4)

    @classmethod
    def _steps(cls, size: tuple[int, ...], step: int, margin: int) -> list[Self]:
        """Shifts by a step, its opposite and twice the step, where enough cells remain to compare."""
        longest = min(size) - 2 * margin - 1
        return [cls((by,) * len(size), size, margin) for by in (step, -step, 2 * step) if abs(by) <= longest]

    def describe(self) -> str:
        directions = ("down", "to the right") if len(self.by) == 2 else ("later",)
        steps = " and ".join(f"{counted(b, self.unit)} {way}" for b, way in zip(self.by, directions, strict=True) if b)
        where = f", compared {counted(self.margin, self.unit)} from the border" if self.margin else ""
        return f"shift by {steps or 'nothing'}, {'padded with zeros' if self.filled else 'circularly'}{where}"

    def on_grid(self, cells: Tensor) -> Tensor:
        return self._moved(cells, self.by)

    def on_cells(self, cells: Tensor, layout: Layout) -> Tensor:
        return self._moved(cells, layout.along(self.by, self.size))

    def compared(self, cells: Tensor, layout: Layout) -> Tensor:
        """Interior cells whose preimage is interior too; the zeros that fill the gap are left out."""
        if not self.margin and not self.filled:
            return cells
        for axis, (step, count, size) in enumerate(zip(layout.along(self.by, self.size), layout.cells, self.size, strict=True)):
            edge = -(-self.margin * count // size)
            low, high = edge + max(step, 0), count - edge + min(step, 0)
            cells = cells.narrow(axis - len(self.by), min(low, count), max(min(high, count) - low, 0))
        return cells

    def _moved(self, cells: Tensor, by: tuple[int, ...]) -> Tensor:
        axes = tuple(range(-len(by), 0))
        if not self.filled:
            return torch.roll(cells, by, axes)
        for axis, step in zip(axes, by, strict=True):
            count = cells.shape[axis]
            step = max(-count, min(step, count))
            blank = torch.zeros_like(cells.narrow(axis, 0, abs(step)))
            rest = cells.narrow(axis, max(-step, 0), count - abs(step))
            cells = torch.cat([blank, rest] if step > 0 else [rest, blank], axis)
        return cells


def _single(size: tuple[int, ...], step: int) -> Iterator[tuple[int, ...]]:
    """Steps along one axis at a time, if the axis is longer than the step; the last axis first."""
    yield from (tuple(step * (a == b) for a in range(len(size))) for b in reversed(range(len(size))) if size[b] > step)


def _blank(inputs: Any, kind: Any, axes: int) -> tuple[int, ...]:
    """Width of the blank border along each axis, on the narrower side, common to all images."""
    tensors = list(inputs.of(kind).values()) if isinstance(inputs, Inputs) else [inputs]
    borders = []
    for axis in range(-axes, 0):
        used = [torch.nonzero((t != 0).movedim(axis, 0).flatten(1).any(1)).flatten() for t in tensors]
        sides = [min(int(u[0]), t.shape[axis] - 1 - int(u[-1])) for u, t in zip(used, tensors, strict=True) if len(u)]
        borders.append(min(sides, default=0))
    return tuple(borders)
