"""Grids: how the cells of an output correspond to the pixels or samples of the input, and how they transform with them.

An output for an image is a map [..., C, H', W'], a map with channels last, or patch tokens with or without a class token before
them; an output for a waveform is a waveform [..., C, T'] or frames [..., T', D]. A coarser output has a stride: it shifts by one
cell when the input shifts by that many pixels. Zero padding makes border cells differ; `margin` leaves them out.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from equiscope.errors import ShapeError, UnknownName
from equiscope.symmetry.actions import Action
from equiscope.symmetry.inputs import InputKind, Inputs
from equiscope.symmetry.representations import family

LAYOUTS = {1: ("wave", "frames"), 2: ("map", "map-last", "patches")}
FIRST = 6  # rows that may precede the patches: a class token, registers


@dataclass(frozen=True)
class Layout:
    """Where an output has its cells. cells: how many along each axis; extra: rows before them."""

    name: str
    cells: tuple[int, ...]
    extra: int = 0

    def opened(self, output: Tensor) -> Tensor:
        """The cells in the last axes."""
        d = len(self.cells)
        if self.name in ("map", "wave"):
            return output
        if self.name == "patches":
            output = output[..., self.extra :, :].unflatten(-2, self.cells)
        return output.movedim(-1, -d - 1)

    def closed(self, cells: Tensor, output: Tensor) -> Tensor:
        """The output with these cells in place of its own."""
        d = len(self.cells)
        if self.name in ("map", "wave"):
            return cells
        cells = cells.movedim(-d - 1, -1)
        if self.name != "patches":
            return cells
        rows = cells.flatten(-d - 1, -2)
        return rows if not self.extra else torch.cat([output[..., : self.extra, :], rows], -2)

    def along(self, by: tuple[int, ...], size: tuple[int, ...]) -> tuple[int, ...]:
        """A way in pixels as whole cells: what is less than a cell is lost; where cells do not tile the grid, the nearest."""
        each = zip(by, self.cells, size, strict=True)
        return tuple(b * c // s if s % c == 0 or c % s == 0 else round(b * c / s) for b, c, s in each)


def layouts(shape: tuple[int, ...], size: tuple[int, ...]) -> dict[str, Layout]:
    """Every way in which an output of this shape may have its cells on a grid of this size."""
    d, n = len(size), len(shape)
    plain, last = LAYOUTS[d][:2]
    layouts_ = {}
    if (n > d and _fits(shape[-d:], size)) or shape == size:
        layouts_[plain] = Layout(plain, shape[-d:])
    if n > d and _fits(shape[-d - 1 : -1], size):
        layouts_[last] = Layout(last, shape[-d - 1 : -1])
    if d == 2 and (n == 3 or (n > 3 and not layouts_)):
        for extra in range(FIRST):
            if cells := _patches(shape[-2] - extra, size):
                layouts_["patches"] = Layout("patches", cells, extra)
                break
    return layouts_


def _fits(cells: tuple[int, ...], size: tuple[int, ...]) -> bool:
    """Whether the cells have the shape of the grid, up to the pixels that a convolution without padding loses."""
    if all(c >= s for c, s in zip(cells, size, strict=True)):
        return (
            all(c % s == 0 for c, s in zip(cells, size, strict=True))
            and len({c // s for c, s in zip(cells, size, strict=True)}) == 1
        )
    ratios = [s / c if c else math.inf for c, s in zip(cells, size, strict=True)]
    return max(ratios) < math.inf and max(ratios) <= 1.5 * min(ratios)


def _patches(count: int, size: tuple[int, ...]) -> tuple[int, ...]:
    """Rows and columns of a grid with this number of square patches; empty if none fits."""
    sides = [p for p in range(1, min(size) + 1) if all(s % p == 0 for s in size) and math.prod(s // p for s in size) == count]
    return tuple(s // sides[0] for s in size) if sides and count > 1 else ()


def size_of(inputs: Any, kind: InputKind) -> tuple[int, ...]:
    """The grid of the first picture or sound."""
    d = 2 if kind == "image" else 1
    tensors = inputs.of(kind).values() if isinstance(inputs, Inputs) else (inputs,)
    return next((tuple(t.shape[-d:]) for t in tensors if isinstance(t, Tensor) and t.ndim >= d), ())


class Gridded(Action):
    """An action on the cells of a grid: the same on pixels and on the cells of an output.

    size  of the grid that goes in
    """

    size: tuple[int, ...]
    kind: ClassVar[InputKind] = "image"
    inside: ClassVar[bool] = False  # attention weights between patches follow too, but along two axes at once
    shortens: ClassVar[bool] = False

    def on_grid(self, cells: Tensor) -> Tensor:
        """Pixels or samples, in the last axes."""
        raise AssertionError(f"{type(self).__name__} does not say how it acts on a grid")

    def on_cells(self, cells: Tensor, layout: Layout) -> Tensor:
        """Cells of an output."""
        return self.on_grid(cells)

    def compared(self, cells: Tensor, layout: Layout) -> Tensor:
        """The cells that can be compared."""
        return cells

    def on_input(self, inputs: Any) -> Any:
        return inputs.each(self.on_grid, self.kind) if isinstance(inputs, Inputs) else self.on_grid(inputs)

    def on_output(self, output: Tensor) -> Tensor:
        return self.moved(output, LAYOUTS[len(self.size)][0], ())

    def moved(self, output: Tensor, representation: str, axes: tuple[int, ...]) -> Tensor:
        layout = self._layout(output, representation)
        return output if layout is None else layout.closed(self.on_cells(layout.opened(output), layout), output)

    def sides(self, plain: Tensor, moved: Tensor, representation: str, axes: tuple[int, ...]) -> tuple[Tensor, Tensor]:
        layout, wanted = self._layout(plain, representation), self.moved(plain, representation, axes)
        if layout is None or wanted.shape != moved.shape or type(self).compared is Gridded.compared:
            return wanted, moved
        sides = [self.compared(layout.opened(t), layout) for t in (wanted, moved)]
        return (sides[0], sides[1]) if all(t.numel() for t in sides) else (wanted, moved)  # too few cells to leave any out

    def _layout(self, output: Tensor, representation: str) -> Layout | None:
        if representation in ("invariant", "permuted", "moved"):
            return None
        known = LAYOUTS[len(self.size)]
        if representation not in known:
            raise UnknownName(f"representation under {self.name}", representation, ["invariant", *known])
        layout = layouts(tuple(output.shape), self.size).get(representation)
        if layout is None:
            grid = " × ".join(map(str, self.size))
            raise ShapeError(
                f"An output of shape {list(output.shape)} is declared as {representation!r}, but a grid of {grid} has none."
            )
        return layout

    @classmethod
    def possible_representations(cls, given: str | None, output: Tensor, axes: tuple[int, ...], inputs: Any) -> tuple[str, ...]:
        own = given is not None and (given == "invariant" or family(given) == "grid")
        return (given,) if own and given else cls.representations(output, axes, inputs)

    @classmethod
    def representations(cls, output: Tensor, axes: tuple[int, ...], inputs: Any) -> tuple[str, ...]:
        size = size_of(inputs, cls.kind) if inputs is not None else ()
        return ("invariant", *layouts(tuple(output.shape), size)) if size else ("invariant",)
