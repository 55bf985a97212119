"""Activation: which function of each number the two sides compute."""

import math
from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from equiscope.audit.parity.alignment import difference, is_rounding, sorted_numbers
from equiscope.audit.parity.causes.finding import Finding
from equiscope.audit.parity.causes.replayed import reproduces
from equiscope.audit.parity.divergence import Divergence
from equiscope.audit.parity.sides import Node, Side

CANDIDATES: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu (exact)": F.gelu, "gelu (tanh)": partial(F.gelu, approximate="tanh"),
    "quick gelu": lambda x: x * torch.sigmoid(1.702 * x), "silu": F.silu, "relu": F.relu,
    "squared relu": lambda x: F.relu(x).square(), "tanh": torch.tanh, "sigmoid": torch.sigmoid,
    "leaky relu": F.leaky_relu, "elu": F.elu, "softplus": F.softplus, "mish": F.mish, "hard swish": F.hardswish,
    "shifted softplus": lambda x: F.softplus(x) - math.log(2),
}  # fmt: skip
NEAR = 16  # values after the divergence that may be the activation


def activation(d: Divergence) -> Finding | None:
    """Both sides apply an activation of the list to the same numbers, and not the same one."""
    for value in d.explained_inputs(4):
        x = d.a.numbers(value)
        if not bool(x.isfinite().all()):
            continue
        results = {name: f(x) for name, f in CANDIDATES.items()}
        ours = next((name for name, y in results.items() if _computes(d.a, d.a_region[:NEAR], y)), "")
        if not ours:
            continue
        step = next(v for v in d.a_region[:NEAR] if _computes(d.a, [v], results[ours]))
        apart = {v: d.a.numbers(source) for v in d.a.siblings.get(step, [step]) if (source := _source(d.a, v, ours)) is not None}
        others = (name for name in results if name != ours)
        theirs = next((n for n in others if reproduces(d, {v: CANDIDATES[n](x) for v, x in apart.items()})), "")
        if theirs:
            at_a, at_b = _elsewhere(d.a, step, d.a_step), _elsewhere(d.b, d.hit(CANDIDATES[theirs](x)), d.b_step)
            return Finding("activation", ours, theirs, f"{theirs} of {{0}}'s input gives {{1}}'s numbers", at_a, at_b)
    return None


def _elsewhere(side: Side, value: int | None, first: Node | None) -> int | None:
    """The value of an activation in another module than the first step, as after a product that one side fuses with others."""
    apart = value is not None and first is not None and value in side.maker and side.maker[value].module != first.module
    return value if apart else None


def _source(side: Side, value: int, name: str) -> int | None:
    """The value before this one of which it is this activation."""
    for earlier in side.ancestors(value, NEAR):
        if side.high[earlier].shape == side.high[value].shape and _computes(side, [value], CANDIDATES[name](side.numbers(earlier))):
            return earlier
    return None


def _computes(side: Side, region: list[int], result: Tensor) -> bool:
    numbers = sorted_numbers(result)
    if numbers is None:
        return False
    for value in region:
        if side.high[value].numel() == numbers.numel() and side.is_number(value):
            own = sorted_numbers(side.numbers(value))
            if own is not None and is_rounding(difference(own, numbers)):
                return True
    return False
