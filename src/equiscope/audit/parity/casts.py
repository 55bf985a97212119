"""Casts: two models in half precision, equal in float64, of which one rounds a norm before its weight and the other after it."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import torch
from torch import nn

from equiscope.audit.parity.alignment import align, difference
from equiscope.audit.parity.causes import Finding
from equiscope.audit.parity.drift import precision
from equiscope.audit.parity.sides import MOVEMENT, Node, Side, of_module
from equiscope.errors import InputError
from equiscope.record import Parity

HALF = (torch.bfloat16, torch.float16)
ROOTS = {"rsqrt", "sqrt", "reciprocal", "pow", "std"}
WHOLE = {"rms_norm", "layer_norm"}  # computed in float32 inside, and rounded at the end


def casts(comparison: Parity, models: tuple[nn.Module, nn.Module], args: Any, kwargs: Mapping[str, Any], seed: int) -> Parity:
    """The comparison with the norm that the two round at different places; as it is where there is none.

    comparison  of models that are equal in float64
    """
    dtypes = {precision(m) for m in models}
    if len(dtypes) > 1 or not dtypes <= set(HALF):
        return comparison
    dtype = dtypes.pop()
    try:
        a, b = (of_module(m, args, kwargs, "", seed, dtype) for m in models)
    except InputError:  # an operation without a kernel for the dtype
        return comparison
    alignment, _, _ = align(a, b)
    theirs = {node.value: (node, before) for node, before in weighted_norms(b)}
    for node, before in weighted_norms(a):
        other = theirs.get(alignment.pairs.get(node.value, -1))
        if other is None or other[1] == before:
            continue
        name = str(dtype).removeprefix("torch.")
        says = [f"to {name} {'before' if first else 'after'} the weight of the norm" for first in (before, other[1])]
        found = Finding(
            "cast", says[0], says[1], f"in float64 both compute the same; in {name} the norm is rounded at another place"
        )
        rows = [msgspec.structs.replace(row, verdict="approximate", error32=_error(a, b)) for row in comparison.rows]
        return msgspec.structs.replace(
            comparison, verdict="approximate", rows=rows, kind=found.kind, cause=found.text, evidence=found.proof,
            step_a=a.describe(node.value), step_b=b.describe(other[0].value),
        )  # fmt: skip
    return comparison


def weighted_norms(side: Side) -> Iterator[tuple[Node, bool]]:
    """(the step that applies the weight, whether its operands are in half precision) of every norm."""
    for node in side.nodes:
        low = side.low.get(node.value)
        if low is None or node.value not in side.moving:
            continue
        if node.op in WHOLE:
            yield node, False
        elif node.op in ("mul", "rmul") and len(moving := side.parents(node.value)) == 1:
            fixed = [v for v in node.inputs if v not in side.moving]
            vector = len(fixed) == 1 and side.high[fixed[0]].numel() == low.shape[-1]
            if vector and _is_normalised(side, moving[0]):
                yield node, low.dtype in HALF


def _is_normalised(side: Side, value: int) -> bool:
    """Whether this is a number times the root of a mean, or divided by it."""
    while value in side.maker and side.maker[value].op in MOVEMENT and side.parents(value):
        value = side.parents(value)[0]
    node = side.maker.get(value)
    if node is None or node.op not in ("mul", "div"):
        return False
    parts = [side.maker[v] for v in side.parents(value) if v in side.maker]
    return any(one.op in ROOTS and side.high[one.value].shape[-1:] == (1,) for one in parts)


def _error(a: Side, b: Side) -> float:
    """The largest relative difference of the outputs in half precision."""
    pairs = zip(a.outputs.values(), b.outputs.values(), strict=False)
    numbers = [(a.low[x].double().flatten(), b.low[y].double().flatten()) for x, y in pairs if x in a.low and y in b.low]
    return max((difference(x, y) for x, y in numbers if x.shape == y.shape), default=0.0)
