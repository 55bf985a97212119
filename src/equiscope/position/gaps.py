"""Gaps: how far a query's place is from a key's, on one axis or on many. Shared by the schemes that act on scores."""

from functools import reduce

import torch
from torch import Tensor

from equiscope.errors import InputError
from equiscope.position.base import Places, Position
from equiscope.trace import ops


def gap(at_q: Places, at_k: Places) -> Tensor:
    """i - j on the one axis that there is: positive where the key came before. [..., N, 1] and [..., 1, M] to [..., N, M]."""
    (i,), (j,) = at_q, at_k
    return ops.subtract(i, j, name="i−j", label="steps from the key to the query")


def gaps(at_q: Places, at_k: Places) -> list[Tensor]:
    """i - j on every axis."""
    pairs = zip(at_q, at_k, strict=True)
    return [ops.subtract(i, j, name=f"Δ{axis}", label=f"steps along axis {axis}") for axis, (i, j) in enumerate(pairs)]


def far(at_q: Places, at_k: Places) -> Tensor:
    """Distance of two places: |i - j|, Euclid's on more axes."""
    if len(at_q) == 1:
        return ops.distance(at_q[0], at_k[0], name="Δ", label="distances")
    squares = [ops.function(g, "square", name=f"Δ{axis}²") for axis, g in enumerate(gaps(at_q, at_k))]
    return ops.function(reduce(ops.add, squares), "sqrt", name="Δ", label="distances")


def whole(at_q: Places, at_k: Places) -> Tensor:
    """i - j as a whole number, for tables that are read by it: 8.37 - 7.37 is not 1. Raises InputError as `numbers` does."""
    numbers(at_q, at_k)
    return ops.function(gap(at_q, at_k), "round", name="i−j", label="whole steps from the key to the query")


def numbers(*places: Places) -> None:
    """Raises InputError where a place that a table is read by is NaN or infinite; on the CPU and uncompiled only."""
    for at in (axis for axes in places for axis in axes):
        if not torch.compiler.is_compiling() and at.device.type == "cpu" and not at.isfinite().all():
            raise InputError("Some places are NaN or infinite, so no row of a table belongs to them. Give every token a place.")


def network(x: Tensor, layers: tuple[Tensor, Tensor, Tensor, Tensor], head: Tensor) -> Tensor:
    """What a small network makes of each number, for one head: x [..., N, M] and head [H, 1, 1] (or a number) to [..., H, N, M].

    layers  weight [1, hidden] and bias [hidden], weight [hidden, H] and bias [H]; between them a relu
    """
    wide = torch.promote_types(x.dtype, layers[0].dtype)  # places are read in float32 also where weights are narrower
    first, first_bias, second, second_bias = (ops.cast(layer, wide) for layer in layers)
    column = ops.column(ops.cast(x, wide), label="each number alone")
    inner = ops.affine(column, first, first_bias, name="U", label="inside the network")
    outer = ops.affine(ops.activation(inner, "relu", label="without what is negative"), second, second_bias, name="F",
                       label="a number for each head")  # fmt: skip
    picked = ops.take(outer, ops.column(head, label="the head's column"), label="that of the head")
    return ops.squeeze(picked, name="B", label="what the network adds")


def allocated(scheme: Position, parameter: str) -> None:
    """Raises InputError where the scheme was never given its sizes."""
    if not hasattr(scheme, parameter):
        raise InputError(
            f"This {type(scheme).__name__}() does not know its sizes yet. Call .sized(width, heads, head_width), "
            "or build a model with it."
        )
