"""Casts: two models in half precision, equal in float64, of which one rounds a norm before its weight and the other after it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import torch
from torch import Tensor, nn

from equiscope.audit.parity.alignment import difference
from equiscope.audit.parity.causes import Finding
from equiscope.audit.parity.causes.replayed import parameters_of
from equiscope.audit.parity.drift import precision
from equiscope.audit.parity.sides import MOVEMENT, Side, nodes_of, of_module, outputs_of
from equiscope.errors import InputError
from equiscope.record import Parity
from equiscope.record.parity import ParityStep

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
    a, b = _in_half(a), _in_half(b)
    theirs = list(weighted_norms(b))
    for norm in weighted_norms(a):
        other = next((one for one in theirs if _equal(one.weight.to(dtype), norm.weight.to(dtype))), None)
        if other is None:
            continue
        theirs.remove(other)
        if other.before == norm.before:
            continue
        name = str(dtype).removeprefix("torch.")
        says = [f"to {name} {'before' if first else 'after'} the weight of the norm" for first in (norm.before, other.before)]
        found = Finding(
            "cast", says[0], says[1], f"in float64 both compute the same; in {name} the norm is rounded at another place"
        )
        rows = [msgspec.structs.replace(row, verdict="approximate", error32=_error(a, b)) for row in comparison.rows]
        return msgspec.structs.replace(
            comparison, verdict="approximate", rows=rows, kind=found.kind, cause=found.text, evidence=found.proof,
            step_a=norm.step, step_b=other.step,
        )  # fmt: skip
    return comparison


@dataclass(frozen=True, eq=False)
class WeightedNorm:
    """step: that applies the weight of a norm; before: whether its operands are in half precision."""

    step: ParityStep
    before: bool
    weight: Tensor


def _in_half(side: Side) -> Side:
    """The run in half precision, which may take other steps than that in float64."""
    program = side.low_program
    assert program is not None
    moving, leaves = program.depending_on("input", "chance"), {leaf.id for leaf in program.leaves}
    return Side(side.title, nodes_of(program), program.values, {}, moving, outputs_of(program), leaves, program)


def weighted_norms(side: Side) -> Iterator[WeightedNorm]:
    """The norms of a run in half precision, in order."""
    for node in side.nodes:
        if node.value not in side.moving:
            continue
        if node.op in WHOLE and len(weights := parameters_of(side, node)) == 1:
            yield WeightedNorm(side.describe(node.value), False, side.high[weights[0]])
        elif node.op in ("mul", "rmul") and len(moving := side.parents(node.value)) == 1:
            fixed = [v for v in node.inputs if v not in side.moving]
            y = side.high[node.value]
            vector = len(fixed) == 1 and side.high[fixed[0]].numel() == y.shape[-1]
            if vector and _is_normalised(side, moving[0]):
                yield WeightedNorm(side.describe(node.value), y.dtype in HALF, side.high[fixed[0]])


def _equal(a: Tensor, b: Tensor) -> bool:
    return a.numel() == b.numel() and torch.equal(a.flatten(), b.flatten())


def _is_normalised(side: Side, value: int) -> bool:
    """Whether this is a number times the root of a mean, or divided by it."""
    while value in side.maker and side.maker[value].op in MOVEMENT and side.parents(value):
        value = side.parents(value)[0]
    node = side.maker.get(value)
    if node is None or node.op not in ("mul", "div"):
        return node is not None and node.op in WHOLE
    parts = [side.maker[v] for v in side.parents(value) if v in side.maker]
    return any(one.op in ROOTS and side.high[one.value].shape[-1:] == (1,) for one in parts)


def _error(a: Side, b: Side) -> float:
    """The largest relative difference of the outputs in half precision."""
    pairs = zip(a.outputs.values(), b.outputs.values(), strict=False)
    numbers = [(a.numbers(x).flatten(), b.numbers(y).flatten()) for x, y in pairs]
    return max((difference(x, y) for x, y in numbers if x.shape == y.shape), default=0.0)
