"""Along one axis: what has been summed, multiplied or largest so far, and which entry is the largest."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from equiscope.program.loops.aten import LOWERED, Lowered, lowered
from equiscope.program.loops.loop_ir import LoopIR, Value, without
from equiscope.program.loops.lower_math import axes_of
from equiscope.program.loops.lower_views import cat


@lowered("cumsum")
def _cumsum(ir: LoopIR, x: Value, dim: int, dtype: torch.dtype | None = None) -> Value:
    dim = dim % len(x.shape)
    many = x.shape[dim]
    before = ir.constant(torch.ones(many, many, dtype=torch.float64).triu())  # [from, to]
    last = x.along(lambda t: t.movedim(dim, -1).unsqueeze(-1))
    return ir.dot(last, before, [-2]).along(lambda t: t.movedim(-1, dim))


def _so_far(ir: LoopIR, x: Value, dim: int, join: Callable[[Value, Value], Value]) -> Value:
    """Entry by entry along an axis, each joined with what came before."""
    pieces = [x.along(partial(torch.narrow, dim=dim, start=n, length=1)) for n in range(x.shape[dim])]
    scanned = pieces[:1]
    for piece in pieces[1:]:
        scanned.append(join(scanned[-1], piece))
    return cat(ir, scanned, dim) if scanned else x


@lowered("cumprod")
def _cumprod(ir: LoopIR, x: Value, dim: int, dtype: torch.dtype | None = None) -> Value:
    return _so_far(ir, x, dim, lambda a, b: ir.apply("mul", a, b))


@lowered("logcumsumexp")
def _logcumsumexp(ir: LoopIR, x: Value, dim: int) -> Value:
    def joined(a: Value, b: Value) -> Value:
        top = ir.apply("maximum", a, b)
        raised = [ir.apply("exp", ir.apply("sub", y, top)) for y in (a, b)]
        return ir.apply("add", top, ir.apply("log", ir.apply("add", *raised)))

    return _so_far(ir, x, dim, joined)


def _extreme_so_far(op: str) -> Lowered:
    def how(ir: LoopIR, x: Value, dim: int) -> tuple[Value, Value]:
        """The values, and of equal ones the last place."""
        dim = dim % len(x.shape)
        extremes = _so_far(ir, x, dim, lambda a, b: ir.apply(op, a, b))
        there = ir.apply("where", ir.apply("eq", x, extremes, dtype=torch.bool), _indices(ir, x, dim), -1.0)
        return extremes, _so_far(ir, there, dim, lambda a, b: ir.apply("maximum", a, b))

    return how


LOWERED.update({"cummax": _extreme_so_far("maximum"), "cummin": _extreme_so_far("minimum")})


def _indices(ir: LoopIR, x: Value, dim: int) -> Value:
    shape = [1] * len(x.shape)
    shape[dim] = x.shape[dim]
    return ir.constant(torch.arange(x.shape[dim]).view(shape)).expanded(x.shape)


def _extreme(op: str) -> Lowered:
    def how(ir: LoopIR, x: Value, dim: Any = None, keepdim: bool = False) -> Any:
        """Largest or smallest; along an axis also the first place where it stands."""
        if isinstance(dim, Value):  # torch.max(a, b)
            return ir.apply("maximum" if op == "amax" else "minimum", x, dim, dtype=x.dtype)
        extremes = ir.join(op, x, axes_of(x, dim), keepdim)
        return extremes if dim is None else (extremes, _first(op, ir, x, dim, keepdim))

    return how


def _first(op: str, ir: LoopIR, x: Value, dim: int | None, keep: bool) -> Value:
    if dim is None:
        x, dim, keep = ir.copy(x).along(lambda t: t.flatten()), 0, False
    dim = dim % len(x.shape)
    best = ir.apply("eq", x, ir.join(op, x, [dim], True), dtype=torch.bool)
    return ir.join("amin", ir.apply("where", best, _indices(ir, x, dim), float("inf")), [dim], keep)


LOWERED.update({"max": _extreme("amax"), "min": _extreme("amin")})
LOWERED["argmax"] = lambda ir, x, dim=None, keepdim=False: _first("amax", ir, x, dim, keepdim)
LOWERED["argmin"] = lambda ir, x, dim=None, keepdim=False: _first("amin", ir, x, dim, keepdim)


@lowered("logsumexp")
def _logsumexp(ir: LoopIR, x: Value, dim: Any, keepdim: bool = False) -> Value:
    top = ir.top(x, axes_of(x, dim))
    total = ir.join("sum", ir.apply("exp", ir.apply("sub", x, top)), axes_of(x, dim), True)
    result = ir.apply("add", top, ir.apply("log", total))
    return result if keepdim else without(result, axes_of(x, dim))
