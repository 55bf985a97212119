"""Calls that are operations of the page, or a few of them."""

import math
from collections.abc import Callable
from typing import Any

import torch

from equiscope.program.lower.graph import CASTS, Apply, Expression, Graph, argument, listed, operand, root
from equiscope.program.program import Ref, Step

Rule = Callable[[Graph, Step], Expression | None]
DIRECT: dict[str, Rule] = {}
WEIGHT = "weight of a linear map, transposed"


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Enter a rule for calls of these names. It gives None where the call has no operation after all."""

    def entered(how: Rule) -> Rule:
        DIRECT.update(dict.fromkeys(names, how))
        return how

    return entered


# --- products
@rule("linear")
def _linear(graph: Graph, step: Step) -> Expression | None:
    x, weight, bias = step.args[0], argument(step, 1, "weight"), argument(step, 2, "bias")
    turned = graph.step(weight, "mT", "T", "t")  # kept as [in, out], as formulas have it
    product = Apply("matmul", (x, turned.args[0] if turned is not None else Apply("transpose", (weight,), label=WEIGHT)))
    return product if bias is None else Apply("add", (product, bias))


@rule("matmul", "bmm", "mm", "rmatmul", "mv")
def _matmul(graph: Graph, step: Step) -> Expression | None:
    a, b = graph.pair(step) if "mat2" not in step.kwargs else (step.args[0], step.kwargs["mat2"])
    return Apply("matmul", (b, a) if step.op == "rmatmul" else (a, b))


@rule("addmm", "baddbmm")
def _addmm(graph: Graph, step: Step) -> Expression | None:
    c, a, b = step.args[:3]
    alpha, beta = step.kwargs.get("alpha", 1), step.kwargs.get("beta", 1)
    product: Expression = Apply("matmul", (a, b))
    product = product if alpha == 1 else Apply("scale", (product,), root(float(alpha)))
    if beta == 0:
        return product
    return Apply("add", (product, c if beta == 1 else Apply("scale", (c,), root(float(beta)))))


# --- arithmetic
@rule("add", "sub", "rsub")
def _sum(graph: Graph, step: Step) -> Expression | None:
    a, b = graph.pair(step)
    if argument(step, 2, "alpha", 1) != 1 or not _numbers(graph, step):
        return None
    a, b = (operand(x, graph.program.values[step.outputs[0][0]]) for x in ((b, a) if step.op == "rsub" else (a, b)))
    return Apply("add" if step.op == "add" else "subtract", (a, b))


@rule("mul", "div", "rdiv")
def _product(graph: Graph, step: Step) -> Expression | None:
    a, b = graph.pair(step)
    if step.kwargs.get("rounding_mode") == "floor" and (size := graph.number(b)) is not None and size > 0 and size.is_integer():
        return Apply("block", (a,), {"size": int(size)})
    if step.kwargs.get("rounding_mode") is not None or not _numbers(graph, step):
        return None
    if step.op == "rdiv":
        a, b = b, a
    if step.op == "mul":
        a, b = (b, a) if graph.number(a) is not None else (a, b)
    single = isinstance(b, Ref) and graph.tensor(b).ndim > 0  # one frequency is still a list of frequencies
    number, like = None if single else graph.number(b), graph.program.values[step.outputs[0][0]]
    if number == 1 and isinstance(a, Ref) and graph.tensor(a).shape == like.shape and graph.tensor(a).dtype == like.dtype:
        return a
    if number is not None and isinstance(a, Ref) and graph.tensor(a).shape == like.shape and (step.op == "mul" or number):
        return Apply("scale", (a,), root(number if step.op == "mul" else 1 / number))
    return Apply("multiply" if step.op == "mul" else "divide", (operand(a, like), operand(b, like)))


@rule("abs")
def _size(graph: Graph, step: Step) -> Expression | None:
    return Apply("maximum", (step.args[0], Apply("scale", (step.args[0],), {"by": -1.0})))


@rule("remainder")
def _remainder(graph: Graph, step: Step) -> Expression | None:
    by = graph.number(argument(step, 1, "other"))
    return Apply("modulo", (step.args[0],), {"by": int(by)}) if by is not None and by > 0 and by.is_integer() else None


@rule("neg")
def _negative(graph: Graph, step: Step) -> Expression | None:
    return Apply("scale", (step.args[0],), {"by": -1.0})


@rule("maximum")
def _maximum(graph: Graph, step: Step) -> Expression | None:
    return Apply("maximum", graph.pair(step))


@rule("clamp", "clamp_min")
def _clamp(graph: Graph, step: Step) -> Expression | None:
    low, high = (graph.number(argument(step, i, name)) for i, name in ((1, "min"), (2, "max")))
    if low is None:
        return None
    if high is None:
        return Apply("maximum", (step.args[0], operand(low, graph.program.values[step.outputs[0][0]])))
    return Apply("clamp", (step.args[0],), {"low": low, "high": high})


@rule("pow")
def _power(graph: Graph, step: Step) -> Expression | None:
    kinds = {2.0: "square", 0.5: "sqrt"}
    number = graph.number(argument(step, 1, "exponent"))
    return _function(step, kinds[number]) if number in kinds and isinstance(step.args[0], Ref) else None


@rule("exp", "log1p", "sqrt", "square", "floor", "round", "sigmoid")
def _each(graph: Graph, step: Step) -> Expression | None:
    return _function(step, step.op) if len(step.args) == 1 and not step.kwargs and _floats(graph, step) else None


@rule("softplus")
def _softplus(graph: Graph, step: Step) -> Expression | None:
    return _function(step, "softplus") if len(step.args) == 1 and not step.kwargs else None


@rule("sin")
def _sine(graph: Graph, step: Step) -> Expression | None:
    return Apply("sinusoid", (step.args[0],), {"layout": "sine"})


@rule("relu", "silu", "tanh")
def _activation(graph: Graph, step: Step) -> Expression | None:
    return Apply("activation", (step.args[0],), {"kind": step.op})


@rule("gelu")
def _gelu(graph: Graph, step: Step) -> Expression | None:
    kinds = {"none": "gelu", "tanh": "gelu-tanh"}
    return Apply("activation", (step.args[0],), {"kind": kinds[argument(step, 1, "approximate", "none")]})


@rule(*CASTS)
def _cast(graph: Graph, step: Step) -> Expression | None:
    x, result = step.args[0], graph.program.values[step.outputs[0][0]]
    before = graph.tensor(x).dtype
    if before == result.dtype:
        return Ref(x.id)
    if result.dtype == torch.bool or result.is_complex() or before.is_complex:
        return None
    return Apply("cast", (x,), {"dtype": str(result.dtype).removeprefix("torch.")})


# --- rows
@rule("softmax", "_softmax", "_safe_softmax")
def _softmax(graph: Graph, step: Step) -> Expression | None:
    x, result = step.args[0], graph.program.values[step.outputs[0][0]]
    if argument(step, 1, "dim") not in (-1, result.ndim - 1):
        return None
    cast = {"dtype": str(result.dtype).removeprefix("torch.")}
    return Apply("softmax", (x if graph.tensor(x).dtype == result.dtype else Apply("cast", (x,), cast),))


@rule("layer_norm", "native_layer_norm")
def _layer_norm(graph: Graph, step: Step) -> Expression | None:
    x, shape, weight, bias = (argument(step, i, n) for i, n in enumerate(("input", "normalized_shape", "weight", "bias")))
    if len(shape) != 1:
        return None
    return _scaled(Apply("norm", (x,), {"center": True, "eps": float(argument(step, 4, "eps", 1e-5))}), weight, bias)


@rule("rms_norm")
def _rms_norm(graph: Graph, step: Step) -> Expression | None:
    x, shape, weight, eps = (argument(step, i, n) for i, n in enumerate(("input", "normalized_shape", "weight", "eps")))
    if len(shape) != 1:
        return None
    eps = torch.finfo(graph.tensor(x).dtype).eps if eps is None else float(eps)
    return _scaled(Apply("norm", (x,), {"center": False, "eps": eps}), weight, None)


def _scaled(normalized: Expression, weight: Any, bias: Any) -> Expression:
    normalized = normalized if weight is None else Apply("multiply", (normalized, weight))
    return normalized if bias is None else Apply("add", (normalized, bias))


@rule("embedding")
def _embedding(graph: Graph, step: Step) -> Expression | None:
    return Apply("gather", (step.args[0], step.args[1]))


@rule("getitem")
def _row(graph: Graph, step: Step) -> Expression | None:
    """Rows of a table by whole numbers, or one of them."""
    table, index = step.args[:2]
    if isinstance(index, int) and not isinstance(index, bool):
        index = index if index >= 0 else index + len(graph.tensor(table))
        return Apply("gather", (table, torch.tensor(index)))
    if not isinstance(index, Ref) or graph.tensor(index).is_floating_point() or graph.tensor(index).dtype == torch.bool:
        return None
    return Apply("gather", (table, index)) if not bool((graph.tensor(index) < 0).any()) else None


@rule("zeros_like", "ones_like", "full_like", "new_zeros", "new_ones", "new_full")
def _of_a_shape(graph: Graph, step: Step) -> Expression | None:
    """They read a shape, and no numbers."""
    return graph.program.values[step.outputs[0][0]]


@rule("expand", "expand_as", "broadcast_to")
def _expanded(graph: Graph, step: Step) -> Expression | None:
    """As a sum with zeros of that shape, where no later operation does without."""
    x, result = step.args[0], graph.program.values[step.outputs[0][0]]
    wide = [
        n if m != n else 1
        for n, m in zip(result.shape, (1,) * (result.ndim - graph.tensor(x).ndim) + graph.tensor(x).shape, strict=True)
    ]
    return Apply("add", (x, torch.zeros(wide, dtype=result.dtype))) if _numbers(graph, step) else None


@rule("mean")
def _mean(graph: Graph, step: Step) -> Expression | None:
    x, axes = step.args[0], listed(argument(step, 1, "dim"))
    if not isinstance(x, Ref) or argument(step, 2, "keepdim", False) or step.kwargs.get("dtype") is not None:
        return None
    return Apply("mean", (x,)) if axes in ([-2], [graph.tensor(x).ndim - 2]) and graph.tensor(x).ndim > 1 else None


@rule("cat")
def _concat(graph: Graph, step: Step) -> Expression | None:
    some = [x for x in listed(argument(step, 0, "tensors")) if graph.tensor(x).numel()]
    axis = argument(step, 1, "dim", 0)
    rank = graph.program.values[step.outputs[0][0]].ndim
    axis = axis - rank if axis >= 0 else axis
    if axis not in (-1, -2) or rank < 2 or not some or any(graph.tensor(x).ndim != rank for x in some):
        return None
    joined = some[0]
    for x in some[1:]:
        joined = Apply("concat", (joined, x), {"axis": axis})
    return joined


# --- conditions
@rule("le", "ge", "lt", "gt")
def _order(graph: Graph, step: Step) -> Expression | None:
    a, b = graph.pair(step)
    number, like = graph.number(b), graph.tensor(a if isinstance(a, Ref) else b)
    if step.op == "lt" and number is not None:
        return Apply("below", (a,), {"number": number})
    a, b = operand(a, like), operand(b, like)
    if step.op in ("le", "ge"):
        return Apply("not_after", (a, b) if step.op == "le" else (b, a))
    return Apply("opposite", (Apply("not_after", (a, b) if step.op == "gt" else (b, a)),))


@rule("eq")
def _equal(graph: Graph, step: Step) -> Expression | None:
    a, b = graph.pair(step)
    like = graph.tensor(a if isinstance(a, Ref) else b)
    return Apply("equal", (operand(a, like), operand(b, like)))


@rule("logical_and", "bitwise_and", "logical_or", "bitwise_or")
def _joined(graph: Graph, step: Step) -> Expression | None:
    if any(graph.program.values[x].dtype != torch.bool for x in step.inputs):
        return None
    return Apply("both" if step.op.endswith("and") else "either", graph.pair(step))


@rule("logical_not", "bitwise_not")
def _not(graph: Graph, step: Step) -> Expression | None:
    return Apply("opposite", (step.args[0],)) if graph.tensor(step.args[0]).dtype == torch.bool else None


@rule("masked_fill")
def _masked(graph: Graph, step: Step) -> Expression | None:
    x, hidden, value = step.args[0], argument(step, 1, "mask"), graph.number(argument(step, 2, "value"))
    if value not in (-math.inf, 0):
        return None
    inverse = graph.step(hidden, "logical_not", "bitwise_not")
    visible = inverse.args[0] if inverse is not None else _opposite(graph, hidden)
    return Apply("mask" if value else "multiply", (x, visible))


@rule("where")
def _where(graph: Graph, step: Step) -> Expression | None:
    if len(step.args) != 3:
        return None
    visible, x, other = step.args
    result = graph.program.values[step.outputs[0][0]]
    if graph.number(other) != -math.inf or not isinstance(x, Ref) or graph.tensor(x).shape != result.shape:
        return None
    return Apply("mask", (x, visible))


def _opposite(graph: Graph, x: Ref) -> Expression:
    return graph.tensor(x).logical_not() if graph.is_constant(x) else Apply("opposite", (x,))


def _function(step: Step, kind: str) -> Expression:
    return Apply("function", (step.args[0],), {"kind": kind})


def _floats(graph: Graph, step: Step) -> bool:
    """Whether the result is a real floating-point number."""
    return graph.program.values[step.outputs[0][0]].is_floating_point() and _numbers(graph, step)


def _numbers(graph: Graph, step: Step) -> bool:
    """Whether the result is a real number: arithmetic on flags and complex numbers is left to loops."""
    result = graph.program.values[step.outputs[0][0]]
    return result.dtype != torch.bool and not any(graph.program.values[x].is_complex() for x in step.inputs)
