"""Frequencies of sinusoids and rotations: the angle of each pair of columns per step, in radians.

They are computed in float64 at every call and are not buffers, so `.bfloat16()` on a model does not round them; angles are
float32 or better.
"""

import math
from functools import reduce
from operator import add
from typing import Literal

import torch
from torch import Tensor

from equiscope.errors import ShapeError

Exponent = Literal["2k/D", "2(k+1)/D", "k/(D/2-1)"]


def geometric_frequencies(pairs: int, base: float, exponent: Exponent = "2k/D") -> Tensor:
    """base^-e for k = 0 .. pairs-1, D = 2 * pairs: from one radian a step down, in a geometric progression. [pairs] float64.

    "2k/D" is Vaswani 2017; "2(k+1)/D" counts k from 1; "k/(D/2-1)" is tensor2tensor's and ends at exactly 1/base.
    """
    first, last = {"2k/D": (0, pairs), "2(k+1)/D": (1, pairs), "k/(D/2-1)": (0, max(pairs - 1, 1))}[exponent]
    return torch.exp(-math.log(base) * (torch.arange(first, first + pairs, dtype=torch.float64) / last))


def one_axis(positions: Tensor) -> Tensor:
    """The positions, if they have one axis. Raises ShapeError for positions on a grid or in space."""
    if positions.shape[-1] != 1:
        raise ShapeError(f"This scheme reads one coordinate a token, but got {positions.shape[-1]}. Use positions [..., N, 1].")
    return positions


def angles(positions: Tensor, frequencies: Tensor) -> Tensor:
    """Angles: positions [..., N, 1] times frequencies [W] to [..., N, W] radians, float32 or better."""
    dtype = torch.promote_types(positions.dtype, torch.float32)
    omega = frequencies.to(positions.device, dtype)
    return one_axis(positions).to(dtype) * omega


def directed(x: Tensor, positions: Tensor, directions: Tensor) -> Tensor:
    """Angles along several directions, for x [..., H, N, K] (or [N, K]) at positions [..., N, A].

    directions  [S, A, W] in radians a step: set s serves H/S adjacent heads, a single set all heads
    returns     [..., N, W] for one set, else [..., H, N, W], float32 or better; elementwise, so autocast does not change it
    raises      ShapeError where the sets do not divide the heads
    """
    sets, axes, heads = *directions.shape[:2], x.shape[-3] if x.ndim > 2 else 1
    if heads % sets:
        raise ShapeError(
            f"{sets} sets of directions cannot serve {heads} heads alike. With grouped queries, use as many sets as key heads."
        )
    dtype = torch.promote_types(positions.dtype, torch.float32)
    wide, speeds = positions.to(dtype), directions.to(dtype)
    if sets > 1:
        speeds = speeds.repeat_interleave(heads // sets, -3) if heads != sets else speeds
        while wide.ndim < x.ndim:
            wide = wide.unsqueeze(-3)
    parts = []
    for axis in range(axes):
        speed = speeds.select(-2, axis)
        coordinate = wide[..., axis : axis + 1]
        parts.append(coordinate * (speed.unsqueeze(-2) if sets > 1 else speed))
    return reduce(add, parts)
