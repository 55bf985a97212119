"""Numbers that torch's operations make, as steps: each by itself, joined along axes, and in products of matrices."""

import math
from collections.abc import Sequence
from typing import Any

import torch

from equiscope.errors import InputError
from equiscope.program.loops.aten import LOWERED, Lowered, lowered
from equiscope.program.loops.loop_ir import LoopIR, Value, without
from equiscope.program.loops.lower_views import cat

UNARY = (
    "abs", "ceil", "cos", "erf", "exp", "expm1", "floor", "log", "log1p", "neg", "rsqrt", "sigmoid", "sign", "sin", "sqrt", "tan",
    "tanh", "trunc",
)  # fmt: skip
BINARY = ("atan2", "fmod", "maximum", "minimum")
COMPARED = ("eq", "ne", "lt", "le", "gt", "ge")
LOGIC = {
    "logical_and": "and",
    "logical_or": "or",
    "logical_not": "not",
    "bitwise_and": "and",
    "bitwise_or": "or",
    "bitwise_not": "not",
}


def _elementwise(op: str, dtype: torch.dtype = torch.float64) -> Lowered:
    return lambda ir, *operands: ir.apply(op, *operands, dtype=dtype)


LOWERED.update({name: _elementwise(name) for name in UNARY})
LOWERED.update({name: _elementwise(name) for name in BINARY})
LOWERED.update({name: _elementwise(name, torch.bool) for name in COMPARED})


def _logic(name: str, op: str) -> Lowered:
    def how(ir: LoopIR, *operands: Value | float) -> Value:
        if name.startswith("bitwise") and any(isinstance(x, Value) and x.dtype != torch.bool for x in operands):
            raise InputError(f"A computation has {name} of booleans only. Use comparisons instead of bits of numbers.")
        return ir.apply(op, *operands, dtype=torch.bool)

    return how


LOWERED.update({name: _logic(name, op) for name, op in LOGIC.items()})


def _plus(op: str, turned: bool = False) -> Lowered:
    def how(ir: LoopIR, a: Value, b: Value | float, alpha: float = 1) -> Value:
        a, b = (b, a) if turned else (a, b)  # type: ignore[assignment]
        if alpha != 1:
            b = ir.apply("mul", b, alpha)
        return ir.apply(op, a, b, dtype=_kind(a, b))

    return how


LOWERED.update({"add": _plus("add"), "sub": _plus("sub"), "rsub": _plus("sub", turned=True)})


@lowered("mul")
def _mul(ir: LoopIR, a: Value, b: Value | float) -> Value:
    return ir.apply("mul", a, b, dtype=_kind(a, b))


@lowered("div", "true_divide")
def _div(ir: LoopIR, a: Value, b: Value | float, rounding_mode: str | None = None) -> Value:
    made = ir.apply("div", a, b)
    return made if rounding_mode is None else ir.apply(rounding_mode, made, dtype=_kind(a, b))


@lowered("remainder")
def _remainder(ir: LoopIR, a: Value, b: Value | float) -> Value:
    whole = ir.apply("floor", ir.apply("div", a, b))
    return ir.apply("sub", a, ir.apply("mul", whole, b), dtype=_kind(a, b))


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
def _axes(x: Value, dim: int | Sequence[int] | None) -> list[int]:
    some = range(len(x.shape)) if dim is None or dim == [] else [dim] if isinstance(dim, int) else dim
    return [axis % len(x.shape) for axis in some]


@lowered("sum")
def _sum(ir: LoopIR, x: Value, dim: Any = None, keepdim: bool = False, dtype: torch.dtype | None = None) -> Value:
    return ir.join("sum", x, _axes(x, dim), keepdim)


@lowered("mean")
def _mean(ir: LoopIR, x: Value, dim: Any = None, keepdim: bool = False, dtype: torch.dtype | None = None) -> Value:
    many = math.prod(x.shape[axis] for axis in _axes(x, dim))
    return ir.apply("div", ir.join("sum", x, _axes(x, dim), keepdim), float(many))


def _joining(op: str, dtype: torch.dtype | None = None) -> Lowered:
    def how(ir: LoopIR, x: Value, dim: Any = None, keepdim: bool = False) -> Value:
        made = ir.join(op, x, _axes(x, dim), keepdim)
        return made if dtype is None else Value(made.slot, made.shape, made.strides, made.offset, dtype)

    return how


LOWERED.update({"amax": _joining("amax"), "amin": _joining("amin"), "prod": _joining("prod")})
LOWERED.update({"any": _joining("amax", torch.bool), "all": _joining("amin", torch.bool)})


@lowered("linalg_vector_norm")
def _norm(
    ir: LoopIR, x: Value, order: float = 2, dim: Any = None, keepdim: bool = False, dtype: torch.dtype | None = None
) -> Value:
    if order != 2:
        raise InputError(f"A computation has the norm of order 2 only, but got {order}. Write the norm as a sum of powers.")
    made = ir.apply("sqrt", ir.dot(x, x, _axes(x, dim), True))
    return made if keepdim else without(made, _axes(x, dim))


@lowered("var_mean")
def _var_mean(ir: LoopIR, x: Value, dim: Any = None, correction: float = 1, keepdim: bool = False) -> tuple[Value, Value]:
    axes = _axes(x, dim)
    many = math.prod(x.shape[axis] for axis in axes)
    mean = ir.apply("div", ir.join("sum", x, axes, True), float(many))
    away = ir.apply("sub", x, mean)
    spread = ir.apply("div", ir.dot(away, away, axes, True), float(many - correction))
    return (spread, mean) if keepdim else (without(spread, axes), without(mean, axes))


@lowered("var")
def _var(ir: LoopIR, x: Value, dim: Any = None, correction: float = 1, keepdim: bool = False) -> Value:
    return _var_mean(ir, x, dim, correction, keepdim)[0]


@lowered("native_layer_norm")
def _layer_norm(
    ir: LoopIR, x: Value, shape: Sequence[int], weight: Value | None, bias: Value | None, eps: float
) -> tuple[Value, Value, Value]:
    axes = list(range(len(x.shape) - len(shape), len(x.shape)))
    spread, mean = _var_mean(ir, x, axes, 0, True)
    sharp = ir.apply("rsqrt", ir.apply("add", spread, eps))
    made = ir.apply("mul", ir.apply("sub", x, mean), sharp)
    made = made if weight is None else ir.apply("mul", made, weight)
    return made if bias is None else ir.apply("add", made, bias), mean, sharp


@lowered("_softmax")
def _softmax(ir: LoopIR, x: Value, dim: int, half: bool = False) -> Value:
    raised = ir.apply("exp", ir.apply("sub", x, ir.join("amax", x, [dim], True)))
    return ir.apply("div", raised, ir.join("sum", raised, [dim], True))


@lowered("_log_softmax")
def _log_softmax(ir: LoopIR, x: Value, dim: int, half: bool = False) -> Value:
    lower = ir.apply("sub", x, ir.join("amax", x, [dim], True))
    return ir.apply("sub", lower, ir.apply("log", ir.join("sum", ir.apply("exp", lower), [dim], True)))


@lowered("cumsum")
def _cumsum(ir: LoopIR, x: Value, dim: int, dtype: torch.dtype | None = None) -> Value:
    dim = dim % len(x.shape)
    many = x.shape[dim]
    before = ir.constant(torch.ones(many, many, dtype=torch.float64).triu())  # [from, to]
    last = x.along(lambda t: t.movedim(dim, -1).unsqueeze(-1))
    return ir.dot(last, before, [-2]).along(lambda t: t.movedim(-1, dim))


# --- products of matrices
@lowered("mm", "bmm")
def _matmul(ir: LoopIR, a: Value, b: Value) -> Value:
    left, right = a.along(lambda t: t.unsqueeze(-1)), b.along(lambda t: t.unsqueeze(-3))
    return ir.dot(left, right, [-2])


@lowered("mv", "dot")
def _mv(ir: LoopIR, a: Value, b: Value) -> Value:
    return ir.dot(a, b, [-1])


@lowered("addmm", "baddbmm")
def _addmm(ir: LoopIR, c: Value, a: Value, b: Value, beta: float = 1, alpha: float = 1) -> Value:
    made = _matmul(ir, a, b)
    made = made if alpha == 1 else ir.apply("mul", made, alpha)
    return ir.apply("add", made, c if beta == 1 else ir.apply("mul", c, beta))


@lowered("convolution")
def _convolution(
    ir: LoopIR, x: Value, weight: Value, bias: Value | None, stride: Sequence[int], padding: Sequence[int],
    dilation: Sequence[int], transposed: bool, output_padding: Sequence[int], groups: int,
) -> Value:  # fmt: skip
    """Every window of x times the kernel: a sum over channels and over the kernel's places."""
    if transposed:
        raise InputError("A computation has no steps for a transposed convolution.")
    axes, kernel = len(x.shape) - 2, weight.shape[2:]
    wide = LOWERED["constant_pad_nd"](ir, x, [n for pad in reversed(padding) for n in (pad, pad)])
    spans = [d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True)]
    outs = [(n - span) // s + 1 for n, span, s in zip(wide.shape[2:], spans, stride, strict=True)]
    batch, channels, many = x.shape[0], x.shape[1] // groups, weight.shape[0] // groups
    step = wide.strides
    windows = wide.seen(
        (batch, groups, 1, *outs, channels, *kernel),
        (
            step[0], channels * step[1], 0, *(s * own for s, own in zip(stride, step[2:], strict=True)), step[1],
            *(d * own for d, own in zip(dilation, step[2:], strict=True)),
        ),
        wide.offset,
    )  # fmt: skip
    own = weight.strides
    kernels = weight.seen(
        (1, groups, many, *([1] * axes), channels, *kernel), (0, many * own[0], own[0], *([0] * axes), *own[1:]), weight.offset
    )
    made = ir.dot(windows, kernels, range(-1 - axes, 0)).along(lambda t: t.flatten(1, 2))
    return made if bias is None else ir.apply("add", made, bias.along(lambda t: t.view(-1, *([1] * axes))))


@lowered("linalg_cross")
def _cross(ir: LoopIR, a: Value, b: Value, dim: int = -1) -> Value:
    def rolled(x: Value, by: int) -> Value:
        twice = cat(ir, [x, x], dim)
        return twice.along(lambda t: t.narrow(dim, by, 3))

    first = ir.apply("mul", rolled(a, 1), rolled(b, 2))
    return ir.apply("sub", first, ir.apply("mul", rolled(a, 2), rolled(b, 1)))


def _kind(*operands: Value | float) -> torch.dtype:
    """The dtype of what is made of them."""
    kinds = [x.dtype if isinstance(x, Value) else torch.float64 if isinstance(x, float) else torch.int64 for x in operands]
    return next(kind for kind in (torch.float64, torch.float32, torch.int64, torch.bool) if kind in kinds)
