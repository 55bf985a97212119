"""Sinusoidal: clock hands of many speeds, added to the word.

p[i, 2k] = sin(i / 10000^(2k/D)), p[i, 2k+1] = cos(i / 10000^(2k/D)). Moving by s turns every hand by a fixed angle, the same
from wherever one starts, yet the network around it is not equivariant: the hands are added to what the word is.
Source: Vaswani et al. 2017, section 3.5.
"""

import math
from typing import Literal

import torch
from torch import Tensor

from equiscope.errors import InputError, ShapeError
from equiscope.position.base import Added
from equiscope.position.frequencies import Exponent, angles, ladder
from equiscope.trace import ops

Waves = Literal["ladder", "pair", "sine"]


class Sinusoidal(Added):
    """Adds sines and cosines of the place.

    base      the slowest clock turns about once in 2 pi * base steps
    layout    "interleaved" (sine, cosine side by side, as in the paper) or "half" (all sines, then all cosines)
    exponent  how speeds fall from clock to clock; others than "2k/D" are for weights trained elsewhere
    waves     for study: "pair" has one speed only, "sine" one speed and no cosine
    period    of that one speed, in steps
    raises    ShapeError for an odd width, where a sine would lack its cosine
    """

    name = "sinusoidal"
    title = "sinusoidal"
    summary = "Clock hands of many speeds: their sines and cosines are added to the word."
    source = "Vaswani 2017, section 3.5"
    because = "Sinusoidal adds clock hands to the word"

    def __init__(
        self, base: float = 10000.0, layout: ops.Layout = "interleaved", exponent: Exponent = "2k/D",
        waves: Waves = "ladder", period: float = 36.0,
    ) -> None:  # fmt: skip
        super().__init__()
        if not (base > 0 and period > 0):
            raise InputError(f"base and period are lengths of turns and larger than 0, but got {base} and {period}.")
        self.base, self.layout, self.exponent, self.waves, self.period = base, layout, exponent, waves, period

    def allocate(self, width: int, heads: int, head_width: int) -> None:
        self.frequencies(width)

    def frequencies(self, width: int) -> Tensor:
        """Radians a step of every clock, [width / 2] (of every sine, [width], for waves="sine")."""
        if self.waves != "sine" and width % 2:
            raise ShapeError(f"Sinusoidal pairs a sine with a cosine, but the width is {width}. Use {width + 1} or {width - 1}.")
        if self.waves == "ladder":
            return ladder(width // 2, self.base, self.exponent)
        count = width if self.waves == "sine" else width // 2
        return torch.full((count,), 2 * math.pi / self.period, dtype=torch.float64)

    def encode(self, at: Tensor, width: int) -> Tensor:
        layout = "sine" if self.waves == "sine" else self.layout
        return ops.sinusoid(angles(at, self.frequencies(width)), layout, name="P", label="the places as clock hands")
