"""Gaps: how far a query's place is from a key's, on one axis or on many. Shared by the schemes that act on scores."""

from functools import reduce
from operator import add

import torch
from torch import Tensor, nn
from torch.func import functional_call

from equiscope.errors import InputError
from equiscope.functional import semantic, take
from equiscope.init import uniform
from equiscope.positions.base import AxisPositions, Position

NETWORK = {  # what a scheme with a network `mlp` calls its parameters and what its layers return
    "mlp.0.weight": ("W₁", ". hidden", "first layer of the network"),
    "mlp.0.bias": ("b₁", "hidden", "bias of the first layer"),
    "mlp.2.weight": ("W₂", "hidden head", "second layer of the network"),
    "mlp.2.bias": ("b₂", "head", "bias of the second layer"),
    "mlp.0": ("inner", "", "hidden layer of the network, before its relu"),
    "mlp.1": ("hidden", "", "hidden layer of the network"),
    "mlp.2": ("outer", "", "a number for each head"),
}


def gap(at_q: AxisPositions, at_k: AxisPositions) -> Tensor:
    """i - j on the one axis that there is: positive where the key came before. [..., N, 1] and [..., 1, M] to [..., N, M]."""
    (i,), (j,) = at_q, at_k
    return i - j


def gaps(at_q: AxisPositions, at_k: AxisPositions) -> list[Tensor]:
    """i - j on every axis."""
    pairs = zip(at_q, at_k, strict=True)
    return [i - j for i, j in pairs]


def far(at_q: AxisPositions, at_k: AxisPositions) -> Tensor:
    """Distance of two places: |i - j|, Euclid's on more axes."""
    if len(at_q) == 1:
        return (at_q[0] - at_k[0]).abs()
    squares = [gap.square() for gap in gaps(at_q, at_k)]
    return reduce(add, squares).sqrt()


def whole(at_q: AxisPositions, at_k: AxisPositions) -> Tensor:
    """i - j as a whole number, for tables that are read by it: 8.37 - 7.37 is not 1. Raises InputError as `numbers` does."""
    numbers(*at_q, *at_k)
    return gap(at_q, at_k).round()


@semantic
def numbers(*places: Tensor) -> None:
    """Raises InputError where a place that a table is read by is NaN or infinite; on the CPU and uncompiled only."""
    for positions in places:
        if not torch.compiler.is_compiling() and positions.device.type == "cpu" and not positions.isfinite().all():
            raise InputError("Some places are NaN or infinite, so no row of a table belongs to them. Give every token a place.")


def network(inputs: int, hidden: int, heads: int, bias: bool = True) -> nn.Sequential:
    """A small network that makes a number for each head; bias: whether its last layer adds one."""
    return nn.Sequential(uniform(inputs, hidden), nn.ReLU(), uniform(hidden, heads, bias))


def apply_network(mlp: nn.Module, x: Tensor, head: Tensor) -> Tensor:
    """What a network makes of each pair, for one head: x [..., N, M, A] and head [H, 1, 1] (or a number) to [..., H, N, M].

    Positions are read in float32 or better, also where they are whole numbers or the model's weights are narrower.
    """
    learned = {name: p for name, p in mlp.named_parameters() if p.is_floating_point()}
    wide = reduce(torch.promote_types, (p.dtype for p in learned.values()), torch.promote_types(x.dtype, torch.float32))
    narrow = {name: p.to(wide) for name, p in learned.items() if p.dtype != wide}
    outer = functional_call(mlp, narrow, x.to(wide))
    return of_head(outer, head)


def of_head(x: Tensor, head: Tensor) -> Tensor:
    """Of numbers for all heads those of one: x [..., N, M, H] and head [H, 1, 1] (or a number) to [..., H, N, M]."""
    picked = take(x, head.unsqueeze(-1))
    return picked.squeeze(-1)


def allocated(scheme: Position, parameter: str) -> None:
    """Raises InputError where the scheme was never given its sizes."""
    if not hasattr(scheme, parameter):
        raise InputError(
            f"This {type(scheme).__name__}() does not know its sizes yet. Call .sized(width, heads, head_width), "
            "or build a model with it."
        )
