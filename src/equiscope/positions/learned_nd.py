"""Learned on a grid: a table with one row for every cell, added to the token. It is undefined beyond the grid.

`resized` interpolates the rows for another grid, as is usual before a vision transformer is fine-tuned on larger images.
Source: Dosovitskiy et al. 2021, "An Image is Worth 16x16 Words", section 3.2 and appendix D.4.
"""

import math
from functools import reduce
from itertools import product
from operator import add, mul
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from equiscope.errors import InputError
from equiscope.functional import semantic
from equiscope.positions.base import Added


class LearnedNd(Added):
    """Adds the row of a cell. The table is [cells, D], cells in reading order (the last axis runs fastest), as in ViT's files.

    shape    cells along each axis: (h, w) for positions (y, x), (t, h, w) for positions (t, y, x)
    between  positions may lie between cells, whose rows are interpolated linearly; else integers only
    raises   InputError past the grid, for positions between cells (without `between`), for NaN, and before `sized`.
             On a GPU, reading the positions would synchronise: there a device-side assertion fails
    """

    name = "learned-nd"
    title = "learned grid"
    summary = "A table holds one trained row for every cell of a grid; positions beyond the grid have none."
    source = "Dosovitskiy 2021, section 3.2"
    formula = "xᵢ + T[y, x]"
    longer = "DeiT-S 224 → 384 pixels, interpolated rows: 80.4 → 79.4 %, B 83.4 → 82.8, L 84.6 → 84.2 (rope-vit's README, Heo 2024)"
    cost = "N·D sums, once; D parameters a cell"
    because = "LearnedNd adds a separate row for every cell"
    legend: ClassVar[dict[str, tuple[str, str, str]]] = {
        "table.weight": ("T", "position feature", "table of cells, in reading order")
    }

    def __init__(self, shape: tuple[int, ...] = (14, 14), between: bool = False) -> None:
        super().__init__()
        if not shape or min(shape) < 1:
            raise InputError(f"A grid has one cell or more along each axis, but got shape={tuple(shape)}.")
        self.shape, self.between = tuple(shape), between
        self.axes = len(self.shape)

    def allocate(self, width: int, heads: int, head_width: int) -> None:
        self.table = nn.Embedding.from_pretrained(torch.randn(math.prod(self.shape), width) * 0.02, freeze=False)

    def encode(self, positions: Tensor, width: int) -> Tensor:
        if not hasattr(self, "table"):
            raise InputError("This LearnedNd() has no table yet. Call .sized(width, heads, head_width), or build a model with it.")
        self.check(positions)
        self._inside(positions)
        wide = positions.to(torch.promote_types(positions.dtype, torch.float32))
        axes = [wide[..., a : a + 1] for a in range(len(self.shape))]
        return self._interpolated(axes) if self.between else self._rows(axes)

    def _rows(self, axes: list[Tensor]) -> Tensor:
        """Rows of the cells: a column [..., N, 1] for each axis to [..., N, D]."""
        strides = [math.prod(self.shape[a + 1 :]) for a in range(len(self.shape))]
        steps = [positions * s if s > 1 else positions for positions, s in zip(axes, strides, strict=True)]
        cell = reduce(add, steps)
        return self.table(cell.squeeze(-1).long())

    def _interpolated(self, axes: list[Tensor]) -> Tensor:
        """Multilinear interpolation of the rows of all cells around a position."""
        sides = []
        for positions, cells in zip(axes, self.shape, strict=True):
            below = positions.floor()
            above = (below + 1).clamp(0, cells - 1)
            part = positions - below
            sides.append(((below, 1 - part), (above, part)))
        corners = []
        for corner in product(*sides):
            share = reduce(mul, [part for _, part in corner])
            corners.append(share * self._rows([cell for cell, _ in corner]))
        return reduce(add, corners)

    @semantic
    def _inside(self, positions: Tensor) -> None:
        """Raise for positions that have no row; never read numbers on a GPU, on "meta" or under a compiler."""
        if positions.numel() == 0 or positions.is_meta or torch.compiler.is_compiling():
            return
        end = positions.new_tensor(self.shape) - 1
        inside = ((positions >= 0) & (positions <= end)).all()
        whole = (positions == positions.floor()).all()
        if not positions.is_cpu:
            torch._assert_async(inside & (whole | self.between), f"LearnedNd knows a grid of {self.shape} cells")
            return
        if not inside:
            cells_of = positions.reshape(-1, len(self.shape))
            worst = cells_of[((cells_of < 0) | (cells_of > end)).any(-1)][0]
            raise InputError(
                f"LearnedNd knows a grid of {' × '.join(map(str, self.shape))} cells, counted from 0, but got "
                f"({', '.join(f'{c:g}' for c in worst.tolist())}). "
                "Use a larger shape, resized(scheme, shape), or a scheme without a table such as AxialRope()."
            )
        if not self.between and not whole:
            raise InputError(
                "LearnedNd has rows for whole numbers only. For positions between cells use between=True or AxialRope()."
            )


def resized(scheme: LearnedNd, shape: tuple[int, ...], smooth: bool = False) -> LearnedNd:
    """A new LearnedNd for another grid, its rows interpolated from the old one's: bicubic in the plane, linear on 1 or 3 axes.

    As ViT's checkpoints are resized: cells are areas, whose borders stay (align_corners=False).
    smooth  torch's antialias, in the plane: timm's way, with another cubic kernel, which blurs when it reduces.
            Google's and Hugging Face's is without
    raises  InputError where the scheme has no table yet, or the grids have other axes or more than three
    """
    if not hasattr(scheme, "table"):
        raise InputError("This LearnedNd() has no table to resize. Call .sized(width, heads, head_width), or take it from a model.")
    axes = len(scheme.shape)
    if len(shape) != axes or axes > 3:
        raise InputError(f"A grid of {axes} axes becomes one of as many, 3 at most, but got shape={tuple(shape)}.")
    fresh = LearnedNd(shape, scheme.between)
    old = scheme.table.weight.detach()
    wide = old.to(torch.promote_types(old.dtype, torch.float32))
    image = wide.unflatten(0, scheme.shape).movedim(-1, 0).unsqueeze(0)
    mode = ("linear", "bicubic", "trilinear")[axes - 1]
    rows = F.interpolate(image, size=tuple(shape), mode=mode, align_corners=False, antialias=smooth and axes == 2)[0].flatten(1).T
    fresh.table = nn.Embedding.from_pretrained(rows.to(old.dtype).contiguous(), freeze=not scheme.table.weight.requires_grad)
    return fresh
