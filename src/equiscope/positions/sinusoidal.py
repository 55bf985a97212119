"""Sinusoidal: sines and cosines of many frequencies, added to the token.

p[i, 2k] = sin(i / 10000^(2k/D)), p[i, 2k+1] = cos(i / 10000^(2k/D)). A shift by s rotates every pair by a fixed
angle, whatever the position, yet the network is not equivariant, because the encoding is added to the content.
Source: Vaswani et al. 2017, section 3.5.
"""

import math
from typing import Literal

import torch
from torch import Tensor

from equiscope.errors import InputError, ShapeError
from equiscope.functional import Layout, sinusoid
from equiscope.positions.base import Added
from equiscope.positions.frequencies import Exponent, angles, geometric_frequencies

Waves = Literal["geometric", "pair", "sine"]


class Sinusoidal(Added):
    """Adds sines and cosines of the position.

    base      the slowest pair makes about one period in 2 pi * base steps
    layout    "interleaved" (sine, cosine side by side, as in the paper) or "half" (all sines, then all cosines)
    exponent  how frequencies fall from pair to pair; values other than "2k/D" are for weights of other libraries
    waves     "geometric": frequencies in a geometric progression; for study, "pair" has a single frequency, and "sine" a single
              frequency and no cosine
    period    of that frequency, in steps; several periods are dealt to the pairs one by one
    raises    ShapeError for an odd width, where a sine would lack its cosine, and for more periods than pairs
    """

    name = "sinusoidal"
    title = "sinusoidal"
    summary = "Sines and cosines of many frequencies are added to the token."
    source = "Vaswani 2017, section 3.5"
    formula = "xᵢ + [sin(i·ωₖ), cos(i·ωₖ)], ωₖ = 10000^(−2k/D)"
    longer = "weak: a model trained at 1024 words must be trained at 2048 to match ALiBi there (Press 2022)"
    cost = "N·D sums, once"
    because = "Sinusoidal adds an encoding of the absolute position to the token"

    def __init__(
        self, base: float = 10000.0, layout: Layout = "interleaved", exponent: Exponent = "2k/D",
        waves: Waves = "geometric", period: float | tuple[float, ...] = 36.0,
    ) -> None:  # fmt: skip
        super().__init__()
        periods = period if isinstance(period, tuple) else (period,)
        if not (base > 0 and periods and min(periods) > 0):
            raise InputError(f"base and period are periods and larger than 0, but got {base} and {period}.")
        self.base, self.layout, self.exponent, self.waves, self.period = base, layout, exponent, waves, period

    @property
    def uniform(self) -> bool:
        return self.waves == "sine" and (not isinstance(self.period, tuple) or len(self.period) == 1)

    def allocate(self, width: int, heads: int, head_width: int) -> None:
        self.frequencies(width)

    def frequencies(self, width: int) -> Tensor:
        """Radians a step of every pair, [width / 2] (of every sine, [width], for waves="sine")."""
        if self.waves != "sine" and width % 2:
            raise ShapeError(f"Sinusoidal pairs a sine with a cosine, but the width is {width}. Use {width + 1} or {width - 1}.")
        if self.waves == "geometric":
            return geometric_frequencies(width // 2, self.base, self.exponent)
        count = width if self.waves == "sine" else width // 2
        periods = self.period if isinstance(self.period, tuple) else (self.period,)
        if len(periods) > count:
            raise ShapeError(
                f"Sinusoidal has {len(periods)} periods, but a width of {width} has {count} frequencies. Use fewer, or widen."
            )
        return 2 * math.pi / torch.tensor([periods[k % len(periods)] for k in range(count)], dtype=torch.float64)

    def encode(self, positions: Tensor, width: int) -> Tensor:
        layout = "sine" if self.waves == "sine" else self.layout
        return sinusoid(angles(positions, self.frequencies(width)), layout)


def sinusoids_half_from_interleaved(table: Tensor) -> Tensor:
    """Columns [..., D] that alternate sine and cosine, reordered to all sines, then all cosines; exact, a permutation.

    The token embedding, to which the positions are added, is reordered alike. Raises ShapeError for an odd D.
    """
    _even(table)
    return torch.cat([table[..., 0::2], table[..., 1::2]], -1)


def sinusoids_interleaved_from_half(table: Tensor) -> Tensor:
    """The inverse of `sinusoids_half_from_interleaved`."""
    _even(table)
    return torch.stack(table.chunk(2, -1), -1).flatten(-2)


def _even(table: Tensor) -> None:
    if table.shape[-1] % 2:
        raise ShapeError(f"Sines and cosines come in pairs, but the table has {table.shape[-1]} columns. Give all of them.")
