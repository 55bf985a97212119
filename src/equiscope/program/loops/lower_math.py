"""Numbers that torch's operations make, as steps: each by itself, and joined along axes."""

import math
from collections.abc import Sequence
from typing import Any

import torch

from equiscope.errors import InputError
from equiscope.program.loops.aten import LOWERED, Lowered, lowered
from equiscope.program.loops.loop_ir import LoopIR, Value, without

UNARY = (
    "abs", "ceil", "cos", "erf", "exp", "expm1", "floor", "log", "log1p", "neg", "rsqrt", "sigmoid", "sign", "sin", "sqrt", "tan",
    "tanh", "trunc",
)  # fmt: skip
BINARY = ("atan2", "fmod", "maximum", "minimum")
COMPARED = ("eq", "ne", "lt", "le", "gt", "ge")
LOGIC = {"and": "and", "or": "or", "xor": "ne", "not": "not"}


def _elementwise(op: str, dtype: torch.dtype = torch.float64) -> Lowered:
    return lambda ir, *operands: ir.apply(op, *operands, dtype=dtype)


LOWERED.update({name: _elementwise(name) for name in UNARY} | {"_neg_view": _elementwise("neg")})
LOWERED.update({name: _elementwise(name) for name in BINARY})
LOWERED.update({name: _elementwise(name, torch.bool) for name in COMPARED})


def _logic(name: str, op: str) -> Lowered:
    def how(ir: LoopIR, *operands: Value | float) -> Value:
        if name.startswith("bitwise") and any(isinstance(x, Value) and x.dtype != torch.bool for x in operands):
            raise InputError(f"A computation has {name} of booleans only. Use comparisons instead of bits of numbers.")
        operands = tuple(ir.apply("ne", x, 0.0, dtype=torch.bool) if _counts(x) else x for x in operands)
        return ir.apply(op, *operands, dtype=torch.bool)

    return how


LOWERED.update({f"{kind}_{name}": _logic(f"{kind}_{name}", op) for kind in ("logical", "bitwise") for name, op in LOGIC.items()})


def _plus(op: str, reversed_operands: bool = False) -> Lowered:
    def how(ir: LoopIR, a: Value, b: Value | float, alpha: float = 1) -> Value:
        a, b = (b, a) if reversed_operands else (a, b)  # type: ignore[assignment]
        if alpha != 1:
            b = ir.apply("mul", b, alpha)
        return ir.apply(op, a, b, dtype=_kind(a, b))

    return how


LOWERED.update({"add": _plus("add"), "sub": _plus("sub"), "rsub": _plus("sub", reversed_operands=True)})


@lowered("mul")
def _mul(ir: LoopIR, a: Value, b: Value | float) -> Value:
    return ir.apply("mul", a, b, dtype=_kind(a, b))


@lowered("div", "true_divide")
def _div(ir: LoopIR, a: Value, b: Value | float, rounding_mode: str | None = None) -> Value:
    quotient = ir.apply("div", a, b)
    return quotient if rounding_mode is None else ir.apply(rounding_mode, quotient, dtype=_kind(a, b))


@lowered("remainder")
def _remainder(ir: LoopIR, a: Value, b: Value | float) -> Value:
    whole = ir.apply("floor", ir.apply("div", a, b))
    return ir.apply("sub", a, ir.apply("mul", whole, b), dtype=_kind(a, b))


@lowered("round")
def _round(ir: LoopIR, x: Value) -> Value:
    """To the nearest whole number, and of two that are equally near to the even one."""
    up = ir.apply("floor", ir.apply("add", x, 0.5))
    half = ir.apply("eq", ir.apply("sub", up, x), 0.5, dtype=torch.bool)
    odd = ir.apply("ne", ir.apply("fmod", up, 2.0), 0.0, dtype=torch.bool)
    return ir.apply("sub", up, ir.apply("and", half, odd, dtype=torch.bool))


@lowered("reciprocal")
def _reciprocal(ir: LoopIR, x: Value) -> Value:
    return ir.apply("div", 1.0, x)


@lowered("pow")
def _pow(ir: LoopIR, base: Value | float, power: Value | float) -> Value:
    if isinstance(base, Value) and isinstance(power, float | int):
        if power == 1:
            return base
        if power == 2:
            return ir.apply("mul", base, base, dtype=base.dtype)
        if power == 3:
            return ir.apply("mul", base, ir.apply("mul", base, base))
        if power in (0.5, -0.5):
            return ir.apply("sqrt" if power > 0 else "rsqrt", base)
        if power == -1:
            return ir.apply("div", 1.0, base)
    return ir.apply("pow", base, power)


@lowered("silu")
def _silu(ir: LoopIR, x: Value) -> Value:
    return ir.apply("mul", x, ir.apply("sigmoid", x))


@lowered("relu")
def _relu(ir: LoopIR, x: Value) -> Value:
    return ir.apply("maximum", x, 0.0)


@lowered("clamp", "clamp_min", "clamp_max")
def _clamp(ir: LoopIR, x: Value, low: Value | float | None = None, high: Value | float | None = None) -> Value:
    x = x if low is None else ir.apply("maximum", x, low, dtype=x.dtype)
    return x if high is None else ir.apply("minimum", x, high, dtype=x.dtype)


LOWERED["clamp_max"] = lambda ir, x, high: _clamp(ir, x, None, high)


@lowered("where")
def _where(ir: LoopIR, condition: Value, a: Value | float, b: Value | float) -> Value:
    return ir.apply("where", condition, a, b, dtype=_kind(a, b))


@lowered("masked_fill")
def _masked_fill(ir: LoopIR, x: Value, mask: Value, value: Value | float) -> Value:
    return ir.apply("where", mask, value, x, dtype=x.dtype)


@lowered("_to_copy", "to")
def _cast(ir: LoopIR, x: Value, dtype: torch.dtype | None = None, **rest: Any) -> Value:
    if dtype is None or dtype == x.dtype:
        return x
    if dtype == torch.bool:
        return ir.apply("ne", x, 0.0, dtype=dtype)
    if not dtype.is_floating_point and x.dtype.is_floating_point:
        return ir.apply("trunc", x, dtype=dtype)
    return Value(x.slot, x.shape, x.strides, x.offset, dtype)


# --- joined along axes
def axes_of(x: Value, dim: int | Sequence[int] | None) -> list[int]:
    """The axes that are asked for, from 0; all where none is."""
    some = range(len(x.shape)) if dim is None or dim == [] else [dim] if isinstance(dim, int) else dim
    return [axis % len(x.shape) for axis in some]


@lowered("sum")
def _sum(ir: LoopIR, x: Value, dim: Any = None, keepdim: bool = False, dtype: torch.dtype | None = None) -> Value:
    return ir.join("sum", x, axes_of(x, dim), keepdim)


@lowered("mean")
def _mean(ir: LoopIR, x: Value, dim: Any = None, keepdim: bool = False, dtype: torch.dtype | None = None) -> Value:
    many = math.prod(x.shape[axis] for axis in axes_of(x, dim))
    return ir.apply("div", ir.join("sum", x, axes_of(x, dim), keepdim), float(many))


def _joining(op: str, dtype: torch.dtype | None = None) -> Lowered:
    def how(ir: LoopIR, x: Value, dim: Any = None, keepdim: bool = False) -> Value:
        if dtype == torch.bool and x.dtype != torch.bool:
            x = ir.apply("ne", x, 0.0, dtype=dtype)
        result = ir.join(op, x, axes_of(x, dim), keepdim)
        return result if dtype is None else Value(result.slot, result.shape, result.strides, result.offset, dtype)

    return how


LOWERED.update({"amax": _joining("amax"), "amin": _joining("amin"), "prod": _joining("prod")})
LOWERED.update({"any": _joining("amax", torch.bool), "all": _joining("amin", torch.bool)})


@lowered("linalg_vector_norm")
def _norm(
    ir: LoopIR, x: Value, order: float = 2, dim: Any = None, keepdim: bool = False, dtype: torch.dtype | None = None
) -> Value:
    axes = axes_of(x, dim)
    if order == 2:
        result = ir.apply("sqrt", ir.dot(x, x, axes, True))
    elif abs(order) == math.inf:
        result = ir.join("amax" if order > 0 else "amin", ir.apply("abs", x), axes, True)
    elif order == 0:
        result = ir.join("sum", ir.apply("ne", x, 0.0, dtype=torch.bool), axes, True)
    else:
        powers = ir.apply("abs", x) if order == 1 else ir.apply("pow", ir.apply("abs", x), order)
        result = ir.join("sum", powers, axes, True)
        result = result if order == 1 else ir.apply("pow", result, 1 / order)
    return result if keepdim else without(result, axes)


@lowered("var_mean")
def _var_mean(ir: LoopIR, x: Value, dim: Any = None, correction: float | None = 1, keepdim: bool = False) -> tuple[Value, Value]:
    axes = axes_of(x, dim)
    many = math.prod(x.shape[axis] for axis in axes)
    mean = ir.apply("div", ir.join("sum", x, axes, True), float(many))
    away = ir.apply("sub", x, mean)
    spread = ir.apply("div", ir.dot(away, away, axes, True), float(many - (1 if correction is None else correction)))
    return (spread, mean) if keepdim else (without(spread, axes), without(mean, axes))


@lowered("var")
def _var(ir: LoopIR, x: Value, dim: Any = None, correction: float | None = 1, keepdim: bool = False) -> Value:
    return _var_mean(ir, x, dim, correction, keepdim)[0]


@lowered("native_layer_norm")
def _layer_norm(
    ir: LoopIR, x: Value, shape: Sequence[int], weight: Value | None, bias: Value | None, eps: float
) -> tuple[Value, Value, Value]:
    axes = list(range(len(x.shape) - len(shape), len(x.shape)))
    spread, mean = _var_mean(ir, x, axes, 0, True)
    sharp = ir.apply("rsqrt", ir.apply("add", spread, eps))
    normalised = ir.apply("mul", ir.apply("sub", x, mean), sharp)
    normalised = normalised if weight is None else ir.apply("mul", normalised, weight)
    return normalised if bias is None else ir.apply("add", normalised, bias), mean, sharp


@lowered("_softmax")
def _softmax(ir: LoopIR, x: Value, dim: int, half: bool = False) -> Value:
    raised = ir.apply("exp", ir.apply("sub", x, ir.top(x, [dim])))
    return ir.apply("div", raised, ir.join("sum", raised, [dim], True))


@lowered("_log_softmax")
def _log_softmax(ir: LoopIR, x: Value, dim: int, half: bool = False) -> Value:
    lower = ir.apply("sub", x, ir.top(x, [dim]))
    return ir.apply("sub", lower, ir.apply("log", ir.join("sum", ir.apply("exp", lower), [dim], True)))


def _counts(x: Value | float) -> bool:
    return isinstance(x, Value) and x.dtype != torch.bool


def _kind(*operands: Value | float) -> torch.dtype:
    """The dtype of what is made of them."""
    kinds = [x.dtype if isinstance(x, Value) else torch.float64 if isinstance(x, float) else torch.int64 for x in operands]
    return next(kind for kind in (torch.float64, torch.float32, torch.int64, torch.bool) if kind in kinds)
