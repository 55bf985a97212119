"""Functions of a distance: a basis that is smooth everywhere, and an envelope that ends at the cutoff with two derivatives.

Sources: Unke & Meuwly 2019 (PhysNet's basis), Gasteiger et al. 2020 (the polynomial envelope).
"""

import math

import torch
from torch import Tensor, nn

from equiscope.errors import InputError

TINY = 1e-8  # under the root of a squared distance: a ten-thousandth of a unit, where two points are one


class Radial(nn.Module):
    """Squared distances [...] to `count` bumps [..., count], narrow where points are near.

    exp(-b (exp(-a d) - m)²) for evenly spaced m, with a = 5 / cutoff: fixed numbers, not learned.
    """

    def __init__(self, count: int, cutoff: float) -> None:
        super().__init__()
        if count < 1 or not cutoff > 0:
            raise InputError(f"A radial basis has one function or more and a cutoff above 0, but got {count} and {cutoff}.")
        self.count, self.cutoff = count, cutoff

    def forward(self, squared_distance: Tensor) -> Tensor:
        near = (-5.0 / self.cutoff * distance(squared_distance)).exp().unsqueeze(-1)
        first = math.exp(-5.0)
        middles = torch.linspace(first, 1.0, self.count, dtype=squared_distance.dtype, device=squared_distance.device)
        decay = (2.0 / self.count * (1.0 - first)) ** -2
        return (-decay * (near - middles).square()).exp()


def distance(squared_distance: Tensor) -> Tensor:
    """The root of squared distances, with a gradient at 0 too."""
    return (squared_distance + TINY).sqrt()


def envelope(squared_distance: Tensor, cutoff: float) -> Tensor:
    """1 at 0, 0 from the cutoff on, with two derivatives everywhere: 1 - 21 x⁵ + 35 x⁶ - 15 x⁷ for x = d / cutoff."""
    x = (distance(squared_distance) / cutoff).clamp_max(1.0)
    return 1.0 - x**5 * (21.0 - 35.0 * x + 15.0 * x.square())
