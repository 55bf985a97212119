"""Differences and distances of positions of queries and keys, on one axis or several. Shared by schemes that act on scores."""

from collections.abc import Sequence
from functools import reduce
from operator import add

import torch
from torch import Tensor, nn
from torch.func import functional_call

from equiscope.errors import InputError
from equiscope.functional import semantic, take
from equiscope.init import uniform
from equiscope.positions.base import AxisPositions, Position

NETWORK = {  # symbols of the parameters and layers of a scheme's network `mlp`
    "mlp.0.weight": ("W₁", ". hidden", "first layer of the network"),
    "mlp.0.bias": ("b₁", "hidden", "bias of the first layer"),
    "mlp.2.weight": ("W₂", "hidden head", "second layer of the network"),
    "mlp.2.bias": ("b₂", "head", "bias of the second layer"),
    "mlp.0": ("inner", "", "hidden layer of the network, before its relu"),
    "mlp.1": ("hidden", "", "hidden layer of the network"),
    "mlp.2": ("outer", "", "a number for each head"),
}


def gap(at_q: AxisPositions, at_k: AxisPositions) -> Tensor:
    """i - j on the only axis: positive for earlier keys. [..., N, 1] and [..., 1, M] to [..., N, M]."""
    (i,), (j,) = at_q, at_k
    return i - j


def gaps(at_q: AxisPositions, at_k: AxisPositions) -> list[Tensor]:
    """i - j on every axis."""
    pairs = zip(at_q, at_k, strict=True)
    return [i - j for i, j in pairs]


def distances(at_q: AxisPositions, at_k: AxisPositions) -> Tensor:
    """Distance of two positions: |i - j|, Euclidean on several axes."""
    if len(at_q) == 1:
        return (at_q[0] - at_k[0]).abs()
    return norm(gaps(at_q, at_k))


def norm(vector: Sequence[Tensor]) -> Tensor:
    """Euclidean length, from one tensor per axis."""
    squares = [axis.square() for axis in vector]
    return reduce(add, squares).sqrt()


def whole(at_q: AxisPositions, at_k: AxisPositions) -> Tensor:
    """i - j rounded to an integer, to index tables: 8.37 - 7.37 is not exactly 1. Raises InputError as `check_finite` does."""
    check_finite(*at_q, *at_k)
    return gap(at_q, at_k).round()


@semantic
def check_finite(*positions: Tensor) -> None:
    """Raises InputError where a position that indexes a table is NaN or infinite; on the CPU and uncompiled only."""
    for axis in positions:
        if not torch.compiler.is_compiling() and axis.device.type == "cpu" and not axis.isfinite().all():
            raise InputError("Some positions are NaN or infinite, so they index no row of a table. Give every token a position.")


def network(inputs: int, hidden: int, heads: int, bias: bool = True) -> nn.Sequential:
    """A small network with an output for each head; bias: whether its last layer has one."""
    return nn.Sequential(uniform(inputs, hidden), nn.ReLU(), uniform(hidden, heads, bias))


def apply_network(mlp: nn.Module, x: Tensor, head: Tensor) -> Tensor:
    """The network's output for each pair and head: x [..., N, M, A] and head [H, 1, 1] (or a number) to [..., H, N, M].

    Positions are read in float32 or better, also if they are integers or the weights have a lower precision.
    """
    parameters = {name: p for name, p in mlp.named_parameters() if p.is_floating_point()}
    wide = reduce(torch.promote_types, (p.dtype for p in parameters.values()), torch.promote_types(x.dtype, torch.float32))
    cast = {name: p.to(wide) for name, p in parameters.items() if p.dtype != wide}
    outer = functional_call(mlp, cast, x.to(wide))
    return of_head(outer, head)


def of_head(x: Tensor, head: Tensor) -> Tensor:
    """Select the head: x [..., N, M, H] and head [H, 1, 1] (or a number) to [..., H, N, M]."""
    picked = take(x, head.unsqueeze(-1))
    return picked.squeeze(-1)


def allocated(scheme: Position, parameter: str) -> None:
    """Raises InputError if `sized` was not called."""
    if not hasattr(scheme, parameter):
        raise InputError(
            f"This {type(scheme).__name__}() has no parameters yet. Call .sized(width, heads, head_width), "
            "or build a model with it."
        )
