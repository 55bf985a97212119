"""Images: shifted, rotated, flipped, enlarged. An output is invariant, a feature map, or patch tokens."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from torch import Generator, Tensor
from torch.nn.functional import affine_grid, grid_sample

from equiscope.symmetry.actions import Action
from equiscope.symmetry.grids import Gridded, Layout, size_of
from equiscope.symmetry.inputs import InputKind, Inputs
from equiscope.symmetry.shifts import GridShift

PATCH = 16


class ImageShift(GridShift):
    """Shift the image by whole pixels, circularly."""

    name: ClassVar[str] = "image-shift"
    summary: ClassVar[str] = "shift the image by whole pixels, circularly"
    acts_on: ClassVar[tuple[InputKind, ...]] = ("image",)


class ImageShiftPadded(GridShift):
    """Shift the image by whole pixels, padded with zeros. An image with a blank border loses nothing."""

    name: ClassVar[str] = "image-shift-padded"
    summary: ClassVar[str] = "shift the image by whole pixels, padded with zeros"
    acts_on: ClassVar[tuple[InputKind, ...]] = ("image",)
    filled: ClassVar[bool] = True


class PatchShift(GridShift):
    """Shift the image by whole patches, circularly. The patch size is the model's if it has one."""

    name: ClassVar[str] = "patch-shift"
    summary: ClassVar[str] = "shift the image by whole patches, circularly"
    acts_on: ClassVar[tuple[InputKind, ...]] = ("image",)

    @classmethod
    def missing(cls, inputs: Inputs) -> str:
        return super().missing(inputs) or ("" if patch(inputs) else "no patch fits into the image twice")

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
    def distinguishing(cls, inputs: Any) -> "Action | None":
        size, step = size_of(inputs, cls.kind), patch(inputs)
        return cls(tuple(step * max(s // step // 2, 1) for s in size), size)

    @classmethod
    def simpler(cls, inputs: Any) -> Iterator[Self]:
        size, step = size_of(inputs, cls.kind), patch(inputs)
        yield from (cls(by, size) for by in ((0, step), (step, 0)))


class FewElements(Gridded):
    """A group of so few elements that `simpler` lists them all."""

    @classmethod
    def sample(cls, inputs: Any, generator: Generator) -> Self:
        every = list(cls.simpler(inputs))
        return every[int(torch.randint(len(every), (), generator=generator))]

    @classmethod
    def samples(cls, inputs: Any, generator: Generator, count: int) -> list[Self]:
        return list(cls.simpler(inputs))[:count]


@dataclass(frozen=True)
class ImageRotate(FewElements):
    """Rotate the image by multiples of 90 degrees, anticlockwise; an image that is not square by 180 degrees only."""

    quarters: int
    size: tuple[int, ...]
    name: ClassVar[str] = "image-rotate"
    summary: ClassVar[str] = "rotate the image by multiples of 90 degrees"
    acts_on: ClassVar[tuple[InputKind, ...]] = ("image",)

    @classmethod
    def simpler(cls, inputs: Any) -> Iterator[Self]:
        size = size_of(inputs, "image")
        yield from (cls(q, size) for q in ((1, 2, 3) if size[0] == size[1] else (2,)))

    @classmethod
    def subgroups(cls, inputs: Any) -> Iterator[tuple[str, list[Self]]]:
        size = size_of(inputs, "image")
        yield "rotations by 180 degrees", [cls(2, size)] if size[0] == size[1] else []

    def describe(self) -> str:
        return f"rotate the image by {90 * self.quarters} degrees"

    def on_grid(self, cells: Tensor) -> Tensor:
        return torch.rot90(cells, self.quarters, (-2, -1))


@dataclass(frozen=True)
class ImageFlip(FewElements):
    """Flip the image: axis -1 exchanges left and right, axis -2 top and bottom."""

    axis: int
    size: tuple[int, ...]
    name: ClassVar[str] = "image-flip"
    summary: ClassVar[str] = "flip the image"
    acts_on: ClassVar[tuple[InputKind, ...]] = ("image",)

    @classmethod
    def simpler(cls, inputs: Any) -> Iterator[Self]:
        yield from (cls(axis, size_of(inputs, "image")) for axis in (-1, -2))

    @classmethod
    def subgroups(cls, inputs: Any) -> Iterator[tuple[str, list[Self]]]:
        yield "left and right exchanged", [cls(-1, size_of(inputs, "image"))]
        yield "top and bottom exchanged", [cls(-2, size_of(inputs, "image"))]

    def describe(self) -> str:
        return "exchange left and right" if self.axis == -1 else "exchange top and bottom"

    def on_grid(self, cells: Tensor) -> Tensor:
        return cells.flip(self.axis)


@dataclass(frozen=True)
class ImageRotateAny(Gridded):
    """Rotate the image by any angle, anticlockwise, with interpolation; a disk inside is compared.

    Interpolation commutes exactly with pointwise linear maps only. A network trained for rotation invariance shows a small error
    here; `image-rotate`, which needs no interpolation, tells whether that error is due to interpolation.
    """

    degrees: float
    size: tuple[int, ...]
    name: ClassVar[str] = "image-rotate-any"
    summary: ClassVar[str] = "rotate the image by any angle, interpolated, compared in a disk"
    acts_on: ClassVar[tuple[InputKind, ...]] = ("image",)
    by_default: ClassVar[bool] = False  # interpolation alone breaks it for nearly every network

    @classmethod
    def sample(cls, inputs: Any, generator: Generator) -> Self:
        return cls(360 * torch.rand((), generator=generator, dtype=torch.float64).item(), size_of(inputs, "image"))

    @classmethod
    def samples(cls, inputs: Any, generator: Generator, count: int) -> list[Self]:
        return [cls(1.0, size_of(inputs, "image"))] + [cls.sample(inputs, generator) for _ in range(count - 1)]

    @classmethod
    def distinguishing(cls, inputs: Any) -> "Action | None":
        return cls(90.0, size_of(inputs, "image"))

    @classmethod
    def missing(cls, inputs: Inputs) -> str:
        size = size_of(inputs, "image")
        if any(not image.is_floating_point() for image in inputs.of("image").values()):
            return "an integer image cannot be interpolated"
        return super().missing(inputs) or ("" if min(size) >= 6 else "the image is too small for a disk to compare")

    @classmethod
    def simpler(cls, inputs: Any) -> Iterator[Self]:
        yield from (cls(degrees, size_of(inputs, "image")) for degrees in (1.0, 10.0, 45.0))

    @classmethod
    def subgroups(cls, inputs: Any) -> Iterator[tuple[str, list[Self]]]:
        size = size_of(inputs, "image")
        yield "rotations by 90 degrees", [cls(q, size) for q in (90.0, 180.0, 270.0)] if size[0] == size[1] else []
        yield "rotations by 180 degrees", [cls(180.0, size)]

    def describe(self) -> str:
        return f"rotate the image by {self.degrees:.6g} degrees, compared in a disk"

    def on_grid(self, cells: Tensor) -> Tensor:
        wide = cells.double().reshape(1, -1, *cells.shape[-2:])
        angle = torch.tensor(self.degrees, dtype=torch.float64).deg2rad()
        (c, s), (h, w) = (angle.cos(), angle.sin()), cells.shape[-2:]
        affine = torch.stack([torch.stack([c, -s * h / w, 0 * c]), torch.stack([s * w / h, c, 0 * c])])  # in units of half a side
        grid = affine_grid(affine[None].to(cells.device), list(wide.shape), align_corners=False)
        return grid_sample(wide, grid, align_corners=False).reshape(cells.shape).to(cells.dtype)

    def compared(self, cells: Tensor, layout: Layout) -> Tensor:
        """Cells in the disk that stays inside the image, as a list."""
        h, w = cells.shape[-2:]
        rows, columns = torch.arange(h) - (h - 1) / 2, torch.arange(w) - (w - 1) / 2
        disk = (rows[:, None] ** 2 + columns**2).sqrt() <= min(h, w) / 2 - 1.5
        return cells[..., disk.to(cells.device)]


@dataclass(frozen=True)
class ImageScale(FewElements):
    """Enlarge the image: every pixel becomes a square of pixels. Nothing is interpolated, so it is exact."""

    factor: int
    size: tuple[int, ...]
    name: ClassVar[str] = "image-scale"
    summary: ClassVar[str] = "enlarge the image, every pixel a square of pixels"
    acts_on: ClassVar[tuple[InputKind, ...]] = ("image",)

    @classmethod
    def simpler(cls, inputs: Any) -> Iterator[Self]:
        yield from (cls(factor, size_of(inputs, "image")) for factor in (2, 3))

    def describe(self) -> str:
        return f"enlarge the image {self.factor} times, every pixel a square"

    def on_grid(self, cells: Tensor) -> Tensor:
        return cells.repeat_interleave(self.factor, -2).repeat_interleave(self.factor, -1)


def patch(inputs: Any) -> int:
    """Patch size: the model's if `Inputs.extra` has it, else 16, or the largest that fits twice."""
    size = size_of(inputs, "image")
    known = inputs.extra.get("patch") if isinstance(inputs, Inputs) else None
    fitting = [p for p in range(1, min(size) // 2 + 1) if all(s % p == 0 for s in size)]
    return next((p for p in (known, PATCH) if p in fitting), max(fitting, default=0))


PICTURES: tuple[type[Action], ...] = (ImageShift, ImageShiftPadded, PatchShift, ImageRotate, ImageRotateAny, ImageFlip, ImageScale)
