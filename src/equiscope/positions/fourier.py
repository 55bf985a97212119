"""Fourier features: a position on any number of axes is encoded by cosines and sines along random directions.

Directions are drawn once from a normal distribution of scale `sigma` and kept, so the product of two encodings depends on the
difference of their positions only and approaches D/2 exp(-(sigma |x - y|)^2 / 2): it is large for near positions only.
Source: Rahimi & Recht 2007, "Random Features"; Tancik et al. 2020, "Fourier Features" (whose B is W / 2 pi).
"""

from typing import ClassVar

import torch
from torch import Tensor, nn

from equiscope.errors import InputError, ShapeError
from equiscope.functional import concat, sinusoid
from equiscope.positions.base import Added


class Fourier(Added):
    """Adds cosines, then sines of the position times random directions W [A, D/2].

    axes     numbers in a coordinate: 1 for text or times, 2 for images, 3 for points in space
    sigma    scale of the directions in radians a step: larger values resolve nearer positions
    seed     of the random directions
    trained  learn the directions too; they are then a parameter, and as precise as the model's dtype
    raises   ShapeError for an odd width and for coordinates of another number of axes; InputError before `sized`
    """

    name = "fourier"
    title = "Fourier features"
    summary = "Cosines and sines of the position along random directions are added to the token."
    source = "Rahimi 2007; Tancik 2020"
    formula = "xᵢ + [cos(pᵢW), sin(pᵢW)]"
    longer = "–"
    cost = "N·A·D/2 products, once"
    because = "Fourier adds an encoding of the absolute position to the token"
    axes = None
    legend: ClassVar[dict[str, tuple[str, str, str]]] = {"directions": ("W", "axis clock", "directions, in radians a step")}

    def __init__(self, axes: int = 1, sigma: float = 1.0, seed: int = 0, trained: bool = False) -> None:
        super().__init__()
        if axes < 1 or not sigma > 0:
            raise InputError(f"axes and sigma are larger than 0, but got {axes} and {sigma}.")
        self.axes, self.sigma, self.seed, self.trained = axes, sigma, seed, trained

    def allocate(self, width: int, heads: int, head_width: int) -> None:
        if width % 2:
            raise ShapeError(f"Fourier pairs a cosine with a sine, but the width is {width}. Use {width + 1} or {width - 1}.")
        generator = torch.Generator().manual_seed(self.seed)
        drawn = torch.randn(self.axes or 1, width // 2, generator=generator, dtype=torch.float64, device="cpu") * self.sigma
        self.directions = (
            nn.Parameter(drawn.to(torch.get_default_dtype())) if self.trained else drawn
        )  # no buffer: see `frequencies`

    def encode(self, positions: Tensor, width: int) -> Tensor:
        if not hasattr(self, "directions"):
            raise InputError(
                "This Fourier() has no directions yet. Call .sized(width, heads, head_width), or build a model with it."
            )
        self.check(positions)
        dtype = torch.promote_types(positions.dtype, torch.float32)
        theta = positions.to(dtype) @ self.directions.to(positions.device, dtype)
        waves, half = sinusoid(theta, "half"), theta.shape[-1]
        return concat(waves[..., half:], waves[..., :half])
