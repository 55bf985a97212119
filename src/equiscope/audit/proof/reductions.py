"""Along axes: sums, products, norms and softmax are exact; largest, sorted and the like are functions without an order."""

import math
from typing import Any

import torch
from torch import Tensor

from equiscope.audit.proof.elementwise import exponential, nonzero
from equiscope.audit.proof.field import (
    LOW,
    PRIME,
    NoRule,
    add,
    collected,
    constant,
    function,
    inverse,
    key,
    listed,
    mixed,
    multiply,
    negative,
    plain,
    power,
    product,
    total,
)  # fmt: skip
from equiscope.audit.proof.formulas import Call, Rule, truth


def _sum(call: Call) -> Tensor:
    x = call.lifted(call.args[0])
    return total(x, call.dims(1, "dim", x.ndim), call.arg(2, "keepdim", False))


def mean(x: Tensor, dims: list[int], keep: bool = False) -> Tensor:
    """The mean along axes."""
    return multiply(total(x, dims, keep), inverse(torch.tensor(count(x, dims))))


def count(x: Tensor, dims: list[int]) -> int:
    """How many entries lie along axes."""
    return math.prod(x.shape[d] for d in dims)


def _mean(call: Call) -> Tensor:
    x = call.lifted(call.args[0])
    return mean(x, call.dims(1, "dim", x.ndim), call.arg(2, "keepdim", False))


def spread(x: Tensor, dims: list[int], keep: bool, less: float = 0) -> Tensor:
    """The mean square distance from the mean; `less` is subtracted from the count."""
    off = add(x, negative(mean(x, dims, True)))
    return multiply(total(power(off, 2), dims, keep), inverse(constant(torch.tensor(float(count(x, dims) - less)))))


def _variance(call: Call) -> Any:
    x = call.lifted(call.args[0])
    if isinstance(call.arg(1, "dim"), bool):
        raise NoRule
    dims, keep = call.dims(1, "dim", x.ndim), call.kwargs.get("keepdim", False)
    correction = call.kwargs.get("correction", 1)
    found = spread(x, dims, keep, 1 if correction is None else correction)
    if "std" in call.name:
        found = function("sqrt", found)
    return (found, mean(x, dims, keep)) if call.name.endswith("_mean") else found


def _any(call: Call) -> Tensor:
    x = call.lifted(call.args[0])
    x = x if truth(call.args[0]) else nonzero(x)
    dims, keep = call.dims(1, "dim", x.ndim), call.arg(2, "keepdim", False)
    if call.name == "all":
        return product(x, dims, keep)
    return (1 - product((1 - x) % PRIME, dims, keep)) % PRIME


def _product(call: Call) -> Tensor:
    x = call.lifted(call.args[0])
    return product(x, call.dims(1, "dim", x.ndim), call.arg(2, "keepdim", False))


def extreme(name: str, x: Tensor, dims: list[int], keep: bool) -> Tensor:
    """The largest or the smallest: minus infinity is never the largest beside others."""
    if all(x.shape[d] == 1 for d in dims):
        return total(x, dims, keep)
    each = mixed(x, key(name, "each"))
    neutral = x == LOW if name == "max" else torch.zeros_like(x, dtype=torch.bool)
    made = mixed(each.masked_fill(neutral, 0).sum(dims, keep) % PRIME, key(name))
    return made.masked_fill(neutral.sum(dims, keep) == count(x, dims), LOW)


def _extreme(call: Call) -> Any:
    x, name = call.lifted(call.args[0]), call.name.removeprefix("a")
    if isinstance(call.arg(1, "dim"), Tensor):
        raise NoRule
    if call.name.startswith("a"):
        return extreme(name, x, call.dims(1, "dim", x.ndim), call.arg(2, "keepdim", False))
    if len(call.args) < 2 and "dim" not in call.kwargs:
        return extreme(name, x, list(range(x.ndim)), False)
    dims, keep = call.dims(1, "dim", x.ndim), call.arg(2, "keepdim", False)
    return extreme(name, x, dims, keep), listed(("arg", name), x, dims, keep)


def _place(call: Call) -> Tensor:
    x = call.lifted(call.args[0])
    return listed(call.name, x, call.dims(1, "dim", x.ndim), call.arg(2, "keepdim", False))


def _sorted(call: Call) -> Any:
    """Numbered values have no order in what they read; their places do."""
    x = call.lifted(call.args[0])
    topk = call.name == "topk"
    dim = call.arg(2 if topk else 1, "dim", -1)
    if call.op._overloadname == "stable":
        dim = call.kwargs.get("dim", -1)
    dim = dim % x.ndim if x.ndim else 0
    size, settings = (
        call.made[0].shape[dim],
        (call.name, repr([a for a in call.args[1:] if not isinstance(a, Tensor)]), repr(call.kwargs)),
    )
    all_of, places = collected(settings, x, [dim], True), listed(settings, x, [dim], True)
    number = torch.arange(size).view([size if d == dim else 1 for d in range(x.ndim)])
    shape = call.made[0].shape
    return tuple(function((*settings, n), t.expand(shape), number.expand(shape)) for n, t in enumerate((all_of, places)))


def _middle(call: Call) -> Any:
    x = call.lifted(call.args[0])
    if len(call.args) < 2:
        return collected(call.name, x, list(range(x.ndim)))
    dims, keep = call.dims(1, "dim", x.ndim), call.arg(2, "keepdim", False)
    return collected(call.name, x, dims, keep), listed(call.name, x, dims, keep)


def _running(call: Call) -> Tensor:
    """Sums or products so far."""
    x, dim = call.lifted(call.args[0]), call.args[1]
    if not plain(x):
        raise NoRule
    if call.name == "cumsum":
        return x.cumsum(dim) % PRIME
    made, so_far = [], torch.ones_like(x.select(dim, 0))
    for piece in x.unbind(dim):
        so_far = so_far * piece % PRIME
        made.append(so_far)
    return torch.stack(made, dim)


def _running_other(call: Call) -> Any:
    x, dim = call.lifted(call.args[0]), call.args[1] % max(call.lifted(call.args[0]).ndim, 1)
    made, so_far = [], torch.zeros_like(x.select(dim, 0))
    for piece in x.unbind(dim):
        so_far = function((call.name, "step"), so_far, piece)
        made.append(so_far)
    found = torch.stack(made, dim)
    return (found, mixed(found, key(call.name, "place"))) if call.name in ("cummax", "cummin") else found


def softmax(x: Tensor, dim: int) -> Tensor:
    """exp over its sum; a row with nothing but minus infinity is not a number."""
    raised = exponential(x)
    return multiply(raised, inverse(total(raised, [dim], True)))


def _softmax(call: Call) -> Tensor:
    return softmax(call.lifted(call.args[0]), call.args[1])


def _log_softmax(call: Call) -> Tensor:
    x, dim = call.lifted(call.args[0]), call.args[1]
    return add(x, negative(function("log", total(exponential(x), [dim], True))))


def _logsumexp(call: Call) -> Tensor:
    x = call.lifted(call.args[0])
    return function("log", total(exponential(x), call.dims(1, "dim", x.ndim), call.arg(2, "keepdim", False)))


def _norm(call: Call) -> Tensor:
    x, order = call.lifted(call.args[0]), call.arg(1, "ord", 2)
    dims, keep = call.dims(2, "dim", x.ndim), call.arg(3, "keepdim", False)
    if order == 2:
        return function("sqrt", total(power(x, 2), dims, keep))
    return collected(("norm", repr(order)), x, dims, keep)


def centred(x: Tensor, dims: list[int], eps: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Minus the mean, over the root of the spread; with both."""
    middle, root = mean(x, dims, True), function("rsqrt", add(spread(x, dims, True), eps))
    return multiply(add(x, negative(middle)), root), middle, root


def _affine(call: Call, x: Tensor, weight: Any, bias: Any, shape: list[int] | None = None) -> Tensor:
    for rule, value in ((multiply, weight), (add, bias)):
        if value is not None:
            t = call.lifted(value)
            x = rule(x, t if shape is None else t.view(shape))
    return x


def _layer_norm(call: Call) -> Any:
    x, shape, weight, bias, eps = call.args
    t = call.lifted(x)
    dims = list(range(t.ndim - len(shape), t.ndim))
    made, middle, root = centred(t, dims, call.lifted(eps))
    return _affine(call, made, weight, bias), middle, root


def _rms_norm(call: Call) -> Any:
    x, shape, weight, eps = call.args[0], call.args[1], call.arg(2, "weight"), call.arg(3, "eps")
    t = call.lifted(x)
    dims = list(range(t.ndim - len(shape), t.ndim))
    eps = torch.finfo(x.dtype).eps if eps is None else eps
    root = function("rsqrt", add(mean(power(t, 2), dims, True), call.lifted(float(eps))))
    return _affine(call, multiply(t, root), weight, None), root


def _group_norm(call: Call) -> Any:
    x, weight, bias, n, c, _, groups, eps = call.args
    t = call.lifted(x)
    made, middle, root = centred(t.reshape(n, groups, -1), [2], call.lifted(eps))
    made = _affine(call, made.view(t.shape), weight, bias, [1, c, *[1] * (t.ndim - 2)])
    return made, middle.squeeze(2), root.squeeze(2)


def _batch_norm(call: Call) -> Any:
    """In evaluation with what was counted before, in training with the batch itself."""
    x, weight, bias = call.args[:3]
    t = call.lifted(x)
    shape = [1, -1, *[1] * (t.ndim - 2)]
    if call.name == "_native_batch_norm_legit_no_training":
        middle, spread_, eps = call.args[3], call.args[4], call.args[6]
        made = multiply(
            add(t, negative(call.lifted(middle).view(shape))),
            function("rsqrt", add(call.lifted(spread_), call.lifted(eps))).view(shape),
        )
        return (_affine(call, made, weight, bias, shape), *[torch.zeros(0, dtype=torch.long)] * 2)
    if call.name == "_native_batch_norm_legit" and call.op._overloadname == "no_stats":
        made, m, root = centred(t, [d for d in range(t.ndim) if d != 1], call.lifted(call.args[5]))
        return _affine(call, made, weight, bias, shape), m.flatten(), root.flatten()
    if call.name != "_native_batch_norm_legit_functional":
        raise NoRule
    middle, spread_, training, momentum, eps = call.args[3:8]
    if not training:
        raise NoRule
    dims = [d for d in range(t.ndim) if d != 1]
    made, m, root = centred(t, dims, call.lifted(eps))
    moved = [add(multiply(call.lifted(old), call.lifted(1 - momentum)), multiply(new, call.lifted(momentum)))
             for old, new in ((middle, m.flatten()), (spread_, spread(t, dims, False)))]  # fmt: skip
    return _affine(call, made, weight, bias, shape), m.flatten(), root.flatten(), *moved


RULES: dict[str, Rule] = {
    "sum": _sum, "mean": _mean, "var": _variance, "std": _variance, "var_mean": _variance, "std_mean": _variance,
    "any": _any, "all": _any, "prod": _product, "amax": _extreme, "amin": _extreme, "max": _extreme, "min": _extreme,
    "argmax": _place, "argmin": _place, "sort": _sorted, "topk": _sorted, "median": _middle, "mode": _middle, "nanmedian": _middle,
    "cumsum": _running, "cumprod": _running, "cummax": _running_other, "cummin": _running_other,
    "logcumsumexp": _running_other, "_softmax": _softmax, "_log_softmax": _log_softmax, "logsumexp": _logsumexp,
    "linalg_vector_norm": _norm, "native_layer_norm": _layer_norm, "_fused_rms_norm": _rms_norm, "native_group_norm": _group_norm,
    "_native_batch_norm_legit": _batch_norm, "_native_batch_norm_legit_no_training": _batch_norm,
    "_native_batch_norm_legit_functional": _batch_norm,
}  # fmt: skip
