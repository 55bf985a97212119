"""Frequencies of clocks: how fast each pair of columns turns, in radians a step. Shared by sinusoids and rotations.

They are made in float64 at every call and are nobody's buffer, so `.bfloat16()` on a model cannot spoil them; angles are
float32 or better.
"""

import math
from functools import reduce
from typing import Literal

import torch
from torch import Tensor

from equiscope.errors import ShapeError
from equiscope.trace import constant, ops

Exponent = Literal["2k/D", "2(k+1)/D", "k/(D/2-1)"]


def ladder(pairs: int, base: float, exponent: Exponent = "2k/D") -> Tensor:
    """base^-e for k = 0 .. pairs-1, D = 2 * pairs: the full ladder from one radian a step down. [pairs] float64.

    "2k/D" is Vaswani 2017; "2(k+1)/D" counts k from 1; "k/(D/2-1)" is tensor2tensor's and ends at exactly 1/base.
    """
    first, last = {"2k/D": (0, pairs), "2(k+1)/D": (1, pairs), "k/(D/2-1)": (0, max(pairs - 1, 1))}[exponent]
    return torch.exp(-math.log(base) * (torch.arange(first, first + pairs, dtype=torch.float64) / last))


def one_axis(at: Tensor) -> Tensor:
    """The coordinates, if they are numbers on one line. Raises ShapeError for places on a grid or in space."""
    if at.shape[-1] != 1:
        raise ShapeError(f"This scheme reads one coordinate a token, but got {at.shape[-1]}. Use at [..., N, 1].")
    return at


def angles(at: Tensor, frequencies: Tensor, label: str = "angles of the clocks") -> Tensor:
    """Where each hand stands: at [..., N, 1] times frequencies [W] to [..., N, W] radians, float32 or better."""
    dtype = torch.promote_types(at.dtype, torch.float32)
    speed = constant(frequencies.to(at.device, dtype), "ω", "radians a step", "clock")
    return ops.multiply(ops.cast(one_axis(at), dtype), speed, name="Φ", label=label)


def directed(x: Tensor, at: Tensor, directions: Tensor, name: str = "Φ", label: str = "angles of the clocks") -> Tensor:
    """Where hands stand that turn along directions of their own, for x [..., H, N, K] (or [N, K]) at [..., N, A].

    directions  [S, A, W] in radians a step: set s serves H/S heads that lie side by side, one set all of them
    returns     [..., N, W] for one set, else [..., H, N, W]; float32 or better, sums and products only, which no autocast narrows
    raises      ShapeError where the sets do not divide the heads
    """
    sets, axes, heads = *directions.shape[:2], x.shape[-3] if x.ndim > 2 else 1
    if heads % sets:
        raise ShapeError(
            f"{sets} sets of directions cannot serve {heads} heads alike. With grouped queries, use as many sets as key heads."
        )
    dtype = torch.promote_types(at.dtype, torch.float32)
    places, speeds = ops.cast(at, dtype), ops.cast(directions, dtype)
    if sets > 1:
        speeds = ops.repeat_heads(speeds, heads // sets, label="directions of each head") if heads != sets else speeds
        while places.ndim < x.ndim:
            places = ops.broadcast_heads(places, label="places, the same for every head")
    parts = []
    for axis in range(axes):
        speed = ops.pick(speeds, axis, name=f"ω{axis}", label=f"radians a step along axis {axis}")
        place = ops.columns(places, axis, axis + 1, name=f"t{axis}", label=f"places along axis {axis}")
        parts.append(ops.multiply(place, ops.row(speed) if sets > 1 else speed, name=f"Φ{axis}", label=f"turned by axis {axis}"))
    return reduce(lambda a, b: ops.add(a, b, name=name, label=label), parts)
