"""Sinusoids on a grid: each axis has its own part of the width, with its own frequencies.

A shift along one axis changes its part only. As on one axis, the encoding is added to the content, so the network is not
equivariant.
Sources: Vaswani et al. 2017, section 3.5, for each axis; Chen et al. 2021, "MoCo v3", section 4; He et al. 2022, "MAE".
"""

from collections.abc import Sequence
from functools import reduce

from torch import Tensor

from equiscope.errors import InputError, ShapeError
from equiscope.functional import Layout, concat, sinusoid
from equiscope.positions.base import Added
from equiscope.positions.frequencies import angles, geometric_frequencies


class SinusoidalNd(Added):
    """Adds sines and cosines of every coordinate, the width split evenly over the axes.

    axes    numbers in a coordinate: 2 for images at (y, x), 3 for video at (t, y, x)
    base    the slowest pair of every axis makes about one period in 2 pi * base steps
    layout  within a part: "half" (all sines, then all cosines, as in MAE) or "interleaved"
    order   which axis has the first part, which the second: (0, 1) for (y, x) by default. MAE's own weights, and those of
            Hugging Face's ViTMAE, have x first: (1, 0). SimpleViT's and Aimv2's have y first
    raises  ShapeError for a width that does not give every axis as many sines as cosines, InputError for another order
    """

    name = "sinusoidal-nd"
    title = "sinusoidal on a grid"
    summary = "Each axis has its own part of the width, to which its sines and cosines are added."
    source = "Chen 2021 (MoCo v3); He 2022 (MAE)"
    formula = "xᵢ + [sin(yω), cos(yω), sin(xω), cos(xω)]"
    longer = "–"
    cost = "N·D sums, once"
    because = "SinusoidalNd adds an encoding of the absolute position on every axis to the token"

    def __init__(self, axes: int = 2, base: float = 10000.0, layout: Layout = "half", order: tuple[int, ...] | None = None) -> None:
        super().__init__()
        if axes < 1 or not base > 0:
            raise InputError(f"axes and base are larger than 0, but got {axes} and {base}.")
        if order is not None and sorted(order) != list(range(axes)):
            raise InputError(
                f"order names each of the axes 0..{axes - 1} once, but got {tuple(order)}. Use None for the order of the axes."
            )
        self.axes, self.base, self.layout = axes, base, layout
        self.order: tuple[int, ...] | None = _optional_tuple(order)

    def allocate(self, width: int, heads: int, head_width: int) -> None:
        self.part(width)

    def part(self, width: int) -> int:
        """Columns of each axis."""
        axes = self.axes or 1
        if width % (2 * axes):
            step = 2 * axes
            near = [w for w in (width - width % step, width - width % step + step) if w]
            raise ShapeError(
                f"SinusoidalNd gives each of {axes} axes as many sines as cosines, but the width is {width}. "
                f"Use a multiple of {step}, such as {' or '.join(map(str, near))}."
            )
        return width // axes

    def encode(self, positions: Tensor, width: int) -> Tensor:
        self.check(positions)
        speeds = geometric_frequencies(self.part(width) // 2, self.base)
        parts = []
        for axis in self.order or range(self.axes or 1):
            coordinate = positions[..., axis : axis + 1]
            parts.append(sinusoid(angles(coordinate, speeds), self.layout))
        return reduce(concat, parts)


def _optional_tuple(order: Sequence[int] | None) -> tuple[int, ...] | None:
    return None if order is None else tuple(order)
