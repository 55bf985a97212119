"""Drift: one model in two precisions. The implementations are compared at the narrower weights; what is left is the precision.

Where that holds, each side runs in its own dtype, and the report says how far the numbers drift apart, layer by layer, and how many
answers change. An answer is the largest number on the last axis of an output.
"""

import copy
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

import msgspec
import torch
from torch import Tensor, nn

from equiscope.audit.parity.alignment import Alignment, align, difference
from equiscope.audit.parity.judging import output_pairs
from equiscope.audit.parity.side_by_side import layer_of
from equiscope.audit.parity.sides import Side, of_module
from equiscope.errors import InputError
from equiscope.record import Parity, ParityAnswers, ParityDrift

NARROW = {torch.float16: 16, torch.bfloat16: 16, torch.float32: 32, torch.float64: 64}  # bits of a number


def precision(model: nn.Module) -> torch.dtype | None:
    """The dtype of a model's floating-point parameters; None where they have several."""
    found = {p.dtype for p in model.parameters() if p.is_floating_point()}
    return found.pop() if len(found) == 1 else None


def at_lower_precision(a: nn.Module, b: nn.Module) -> tuple[nn.Module, nn.Module] | None:
    """Both models with the weights of the narrower precision; None where neither is in half precision and the other is not."""
    dtypes = [d for d in (precision(a), precision(b)) if d is not None]
    bits = {NARROW.get(d) for d in dtypes}
    if len(dtypes) < 2 or len(bits) == 1 or 16 not in bits:
        return None
    narrow = min(dtypes, key=lambda d: NARROW.get(d, 64))
    ours, theirs = (m if d == narrow else copy.deepcopy(m).to(narrow) for m, d in zip((a, b), dtypes, strict=True))
    return ours, theirs


def drift(comparison: Parity, models: tuple[nn.Module, nn.Module], args: Any, kwargs: Mapping[str, Any], seed: int) -> Parity:
    """The comparison of models that agree at the narrower weights: how far their numbers drift apart.

    comparison  the comparison at the given weights, whose titles and errors stand
    """
    dtypes = [str(precision(m)).removeprefix("torch.") for m in models]
    both = at_lower_precision(*models)
    assert both is not None
    titles = comparison.a, comparison.b
    sides = [of_module(m, args, kwargs, title, seed) for m, title in zip(both, titles, strict=True)]
    notes, layers, changes = list(comparison.notes), list[ParityDrift](), list[ParityAnswers]()
    try:
        natives = [of_module(m, args, kwargs, title, seed, precision(m)) for m, title in zip(models, titles, strict=True)]
    except InputError as error:  # an operation without a kernel for the dtype
        notes.append(f"The drift was not measured: {error}")
    else:
        changes, layers = answers(natives), _of_natives(sides[0], sides[1], natives)
    return msgspec.structs.replace(
        comparison, verdict="approximate", kind="precision", cause=f"lower precision: {dtypes[0]} in A, {dtypes[1]} in B",
        evidence="at the weights of the lower precision both compute the same", step_a=None, step_b=None, layers=[],
        rows=[msgspec.structs.replace(row, verdict="approximate", note="") for row in comparison.rows],
        notes=[*notes, *growth(layers)], drift=layers, answers=changes,
    )  # fmt: skip


def _of_natives(a: Side, b: Side, natives: list[Side]) -> list[ParityDrift]:
    """The drift of two models that each run in their own precision, at the values that are equal in float64."""
    if any(len(side.nodes) != len(native.nodes) for side, native in zip((a, b), natives, strict=True)):
        return []
    first, second = (
        {n.value: native.low[m.value] for n, m in zip(side.nodes, native.nodes, strict=True) if m.value in native.low}
        for side, native in zip((a, b), natives, strict=True)
    )
    return by_layer(replace(a, high=first), replace(b, high=second), align(a, b)[0])


def growth(layers: list[ParityDrift]) -> list[str]:
    """Where the drift grows most, in words."""
    grown = [(one.error / last.error, one.layer) for last, one in pairwise(layers) if last.error]
    return [f"The drift grows most in {max(grown)[1]}, {max(grown)[0]:.3g} times."] if grown else []


def by_layer(a: Side, b: Side, alignment: Alignment) -> list[ParityDrift]:
    """By layer of A, the difference of the last value that the alignment pairs."""
    layers: dict[str, float] = {}
    for node in a.nodes:
        other = alignment.pairs.get(node.value)
        if other is None or not layer_of(node.module) or other not in b.high:
            continue
        x, y = a.numbers(node.value), b.numbers(other)
        if x.shape == y.shape and x.numel() > 1:
            layers[layer_of(node.module)] = difference(x, y)
    return [ParityDrift(layer=name, error=error) for name, error in layers.items()]


def answers(natives: list[Side]) -> list[ParityAnswers]:
    """How many answers change, for each output that both have in one shape."""
    found = []
    for name, *pair in output_pairs(natives[0], natives[1]):
        x, y = (side.low.get(value, side.high[value]) for side, value in zip(natives, pair, strict=True))
        if x.shape != y.shape or x.ndim < 2 or x.shape[-1] < 3:
            continue
        changed, rank, count = _flips(x.double(), y.double())
        error = difference(x.double(), y.double())
        found.append(ParityAnswers(output=name, count=count, changed=changed, rank=rank, error=error))
    return found


def _flips(a: Tensor, b: Tensor) -> tuple[int, int, int]:
    """Answers that change, the worst rank in B of A's top answer, counted from 1, and the number of answers."""
    top = a.argmax(-1, keepdim=True)
    rank = 1 + (b > b.gather(-1, top)).sum(-1)
    return int((b.argmax(-1, keepdim=True) != top).sum()), int(rank.max()), top.numel()
