"""Gaps: how far a query's place is from a key's, on one axis or on many. Shared by the schemes that act on scores."""

from functools import reduce
from operator import add

import torch
import torch.nn.functional as F
from torch import Tensor

from equiscope.errors import InputError
from equiscope.functional import semantic, take
from equiscope.positions.base import Places, Position


def gap(at_q: Places, at_k: Places) -> Tensor:
    """i - j on the one axis that there is: positive where the key came before. [..., N, 1] and [..., 1, M] to [..., N, M]."""
    (i,), (j,) = at_q, at_k
    return i - j


def gaps(at_q: Places, at_k: Places) -> list[Tensor]:
    """i - j on every axis."""
    pairs = zip(at_q, at_k, strict=True)
    return [i - j for i, j in pairs]


def far(at_q: Places, at_k: Places) -> Tensor:
    """Distance of two places: |i - j|, Euclid's on more axes."""
    if len(at_q) == 1:
        return (at_q[0] - at_k[0]).abs()
    squares = [gap.square() for gap in gaps(at_q, at_k)]
    return reduce(add, squares).sqrt()


def whole(at_q: Places, at_k: Places) -> Tensor:
    """i - j as a whole number, for tables that are read by it: 8.37 - 7.37 is not 1. Raises InputError as `numbers` does."""
    numbers(*at_q, *at_k)
    return gap(at_q, at_k).round()


@semantic
def numbers(*places: Tensor) -> None:
    """Raises InputError where a place that a table is read by is NaN or infinite; on the CPU and uncompiled only."""
    for at in places:
        if not torch.compiler.is_compiling() and at.device.type == "cpu" and not at.isfinite().all():
            raise InputError("Some places are NaN or infinite, so no row of a table belongs to them. Give every token a place.")


def network(x: Tensor, layers: tuple[Tensor, Tensor, Tensor, Tensor], head: Tensor) -> Tensor:
    """What a small network makes of each number, for one head: x [..., N, M] and head [H, 1, 1] (or a number) to [..., H, N, M].

    layers  weight [1, hidden] and bias [hidden], weight [hidden, H] and bias [H]; between them a relu
    """
    wide = torch.promote_types(torch.promote_types(x.dtype, torch.float32), layers[0].dtype)  # also of whole-number positions
    first, first_bias, second, second_bias = (layer.to(wide) for layer in layers)
    inner = F.linear(x.to(wide).unsqueeze(-1), first.mT, first_bias)
    outer = F.linear(inner.relu(), second.mT, second_bias)
    picked = take(outer, head.unsqueeze(-1))
    return picked.squeeze(-1)


def allocated(scheme: Position, parameter: str) -> None:
    """Raises InputError where the scheme was never given its sizes."""
    if not hasattr(scheme, parameter):
        raise InputError(
            f"This {type(scheme).__name__}() does not know its sizes yet. Call .sized(width, heads, head_width), "
            "or build a model with it."
        )
