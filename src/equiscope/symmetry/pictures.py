"""Pictures: shifted, turned, mirrored, enlarged. An output is invariant, or a map, or the rows of its patches, which move along."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from torch import Generator, Tensor
from torch.nn.functional import affine_grid, grid_sample

from equiscope.symmetry.actions import Action
from equiscope.symmetry.grids import Gridded, Layout, size_of
from equiscope.symmetry.inputs import Inputs, Kind
from equiscope.symmetry.shifts import GridShift

PATCH = 16


class ImageShift(GridShift):
    """Move the picture by whole pixels; what goes out on one side comes in on the other."""

    name: ClassVar[str] = "image-shift"
    summary: ClassVar[str] = "move the picture by whole pixels, round the edge"
    acts_on: ClassVar[tuple[Kind, ...]] = ("image",)


class ImageShiftPadded(GridShift):
    """Move the picture by whole pixels; zeros come in. A picture on a blank ground loses nothing."""

    name: ClassVar[str] = "image-shift-padded"
    summary: ClassVar[str] = "move the picture by whole pixels, zeros come in"
    acts_on: ClassVar[tuple[Kind, ...]] = ("image",)
    filled: ClassVar[bool] = True


class PatchShift(GridShift):
    """Move the picture by whole patches, round the edge. The patch is that of the model where it shows one."""

    name: ClassVar[str] = "patch-shift"
    summary: ClassVar[str] = "move the picture by whole patches, round the edge"
    acts_on: ClassVar[tuple[Kind, ...]] = ("image",)

    @classmethod
    def missing(cls, inputs: Inputs) -> str:
        return super().missing(inputs) or ("" if patch(inputs) else "no patch fits into the picture twice")

    @classmethod
    def sample(cls, inputs: Any, generator: Generator) -> Self:
        size, step = size_of(inputs, cls.kind), patch(inputs)
        by = tuple(step * int(torch.randint(s // step, (), generator=generator)) for s in size)
        return cls(by if any(by) else (step,) * len(size), size)

    @classmethod
    def samples(cls, inputs: Any, generator: Generator, count: int) -> list[Self]:
        size, step = size_of(inputs, cls.kind), patch(inputs)
        return [cls((0, step), size)] + [cls.sample(inputs, generator) for _ in range(count - 1)]

    @classmethod
    def telling(cls, inputs: Any) -> "Action | None":
        size, step = size_of(inputs, cls.kind), patch(inputs)
        return cls(tuple(step * max(s // step // 2, 1) for s in size), size)

    @classmethod
    def simpler(cls, inputs: Any) -> Iterator[Self]:
        size, step = size_of(inputs, cls.kind), patch(inputs)
        yield from (cls(by, size) for by in ((0, step), (step, 0)))


@dataclass(frozen=True)
class ImageRotate(Gridded):
    """Turn the picture by quarters, anticlockwise. One that is not square is turned by half only."""

    quarters: int
    size: tuple[int, ...]
    name: ClassVar[str] = "image-rotate"
    summary: ClassVar[str] = "turn the picture by quarters"
    acts_on: ClassVar[tuple[Kind, ...]] = ("image",)

    @classmethod
    def sample(cls, inputs: Any, generator: Generator) -> Self:
        every = list(cls.simpler(inputs))
        return every[int(torch.randint(len(every), (), generator=generator))]

    @classmethod
    def samples(cls, inputs: Any, generator: Generator, count: int) -> list[Self]:
        return list(cls.simpler(inputs))[:count]

    @classmethod
    def simpler(cls, inputs: Any) -> Iterator[Self]:
        size = size_of(inputs, "image")
        yield from (cls(q, size) for q in ((1, 2, 3) if size[0] == size[1] else (2,)))

    @classmethod
    def subgroups(cls, inputs: Any) -> Iterator[tuple[str, list[Self]]]:
        size = size_of(inputs, "image")
        yield "half turns", [cls(2, size)] if size[0] == size[1] else []

    def told(self) -> str:
        return f"turn the picture by {90 * self.quarters} degrees"

    def on_grid(self, cells: Tensor) -> Tensor:
        return torch.rot90(cells, self.quarters, (-2, -1))


@dataclass(frozen=True)
class ImageFlip(Gridded):
    """Mirror the picture: axis -1 exchanges left and right, axis -2 top and bottom."""

    axis: int
    size: tuple[int, ...]
    name: ClassVar[str] = "image-flip"
    summary: ClassVar[str] = "mirror the picture"
    acts_on: ClassVar[tuple[Kind, ...]] = ("image",)

    @classmethod
    def sample(cls, inputs: Any, generator: Generator) -> Self:
        return cls(-1 - int(torch.randint(2, (), generator=generator)), size_of(inputs, "image"))

    @classmethod
    def samples(cls, inputs: Any, generator: Generator, count: int) -> list[Self]:
        return list(cls.simpler(inputs))[:count]

    @classmethod
    def simpler(cls, inputs: Any) -> Iterator[Self]:
        yield from (cls(axis, size_of(inputs, "image")) for axis in (-1, -2))

    @classmethod
    def subgroups(cls, inputs: Any) -> Iterator[tuple[str, list[Self]]]:
        yield "left and right exchanged", [cls(-1, size_of(inputs, "image"))]
        yield "top and bottom exchanged", [cls(-2, size_of(inputs, "image"))]

    def told(self) -> str:
        return "exchange left and right" if self.axis == -1 else "exchange top and bottom"

    def on_grid(self, cells: Tensor) -> Tensor:
        return cells.flip(self.axis)


@dataclass(frozen=True)
class ImageTurn(Gridded):
    """Turn the picture by any angle, anticlockwise: between pixels it is interpolated, and a disk inside is compared.

    Only what is linear from pixel to pixel commutes with interpolation to the last digit. A network that was trained to be turned
    shows a small error here, and the quarter turns of `image-rotate` tell whether it is one.
    """

    degrees: float
    size: tuple[int, ...]
    name: ClassVar[str] = "image-turn"
    summary: ClassVar[str] = "turn the picture by any angle, interpolated, compared in a disk"
    acts_on: ClassVar[tuple[Kind, ...]] = ("image",)
    usual: ClassVar[bool] = False  # interpolation alone breaks it for nearly every network

    @classmethod
    def sample(cls, inputs: Any, generator: Generator) -> Self:
        return cls(360 * torch.rand((), generator=generator, dtype=torch.float64).item(), size_of(inputs, "image"))

    @classmethod
    def samples(cls, inputs: Any, generator: Generator, count: int) -> list[Self]:
        return [cls(1.0, size_of(inputs, "image"))] + [cls.sample(inputs, generator) for _ in range(count - 1)]

    @classmethod
    def telling(cls, inputs: Any) -> "Action | None":
        return cls(90.0, size_of(inputs, "image"))

    @classmethod
    def missing(cls, inputs: Inputs) -> str:
        size = size_of(inputs, "image")
        if any(not picture.is_floating_point() for picture in inputs.of("image").values()):
            return "a picture in whole numbers cannot be interpolated"
        return super().missing(inputs) or ("" if min(size) >= 6 else "in so small a picture no disk is left to compare")

    @classmethod
    def simpler(cls, inputs: Any) -> Iterator[Self]:
        yield from (cls(degrees, size_of(inputs, "image")) for degrees in (1.0, 10.0, 45.0))

    @classmethod
    def subgroups(cls, inputs: Any) -> Iterator[tuple[str, list[Self]]]:
        size = size_of(inputs, "image")
        yield "quarter turns", [cls(q, size) for q in (90.0, 180.0, 270.0)] if size[0] == size[1] else []
        yield "half turns", [cls(180.0, size)]

    def told(self) -> str:
        return f"turn the picture by {self.degrees:.6g} degrees, compared in a disk"

    def on_grid(self, cells: Tensor) -> Tensor:
        wide = cells.double().reshape(1, -1, *cells.shape[-2:])
        angle = torch.tensor(self.degrees, dtype=torch.float64).deg2rad()
        (c, s), (h, w) = (angle.cos(), angle.sin()), cells.shape[-2:]
        turn = torch.stack([torch.stack([c, -s * h / w, 0 * c]), torch.stack([s * w / h, c, 0 * c])])  # in units of half a side
        grid = affine_grid(turn[None].to(cells.device), list(wide.shape), align_corners=False)
        return grid_sample(wide, grid, align_corners=False).reshape(cells.shape).to(cells.dtype)

    def compared(self, cells: Tensor, layout: Layout) -> Tensor:
        """Cells in the disk that stays in the picture, as a list."""
        h, w = cells.shape[-2:]
        rows, columns = torch.arange(h) - (h - 1) / 2, torch.arange(w) - (w - 1) / 2
        disk = (rows[:, None] ** 2 + columns**2).sqrt() <= min(h, w) / 2 - 1.5
        return cells[..., disk.to(cells.device)]


@dataclass(frozen=True)
class ImageScale(Gridded):
    """Enlarge the picture: every pixel becomes a square of pixels. Nothing is interpolated, so it is exact."""

    factor: int
    size: tuple[int, ...]
    name: ClassVar[str] = "image-scale"
    summary: ClassVar[str] = "enlarge the picture, every pixel a square of pixels"
    acts_on: ClassVar[tuple[Kind, ...]] = ("image",)

    @classmethod
    def sample(cls, inputs: Any, generator: Generator) -> Self:
        return cls(2 + int(torch.randint(2, (), generator=generator)), size_of(inputs, "image"))

    @classmethod
    def samples(cls, inputs: Any, generator: Generator, count: int) -> list[Self]:
        return list(cls.simpler(inputs))[:count]

    @classmethod
    def simpler(cls, inputs: Any) -> Iterator[Self]:
        yield from (cls(factor, size_of(inputs, "image")) for factor in (2, 3))

    def told(self) -> str:
        return f"enlarge the picture {self.factor} times, every pixel a square"

    def on_grid(self, cells: Tensor) -> Tensor:
        return cells.repeat_interleave(self.factor, -2).repeat_interleave(self.factor, -1)


def patch(inputs: Any) -> int:
    """The side of a patch: of the model, where `Inputs.extra` has it; else 16, or the largest that fits twice."""
    size = size_of(inputs, "image")
    known = inputs.extra.get("patch") if isinstance(inputs, Inputs) else None
    fitting = [p for p in range(1, min(size) // 2 + 1) if all(s % p == 0 for s in size)]
    return next((p for p in (known, PATCH) if p in fitting), max(fitting, default=0))


PICTURES: tuple[type[Action], ...] = (ImageShift, ImageShiftPadded, PatchShift, ImageRotate, ImageTurn, ImageFlip, ImageScale)
