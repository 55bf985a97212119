"""Products of two tensors: matrices, batches of them, convolutions, and pools that are one."""

from typing import Any

import torch
from torch import Tensor

from equiscope.audit.proof.elementwise import select
from equiscope.audit.proof.field import LOW, NONE, NoRule, add, bilinear, collected, inverse, listed, multiply, plain
from equiscope.audit.proof.formulas import Call, Rule, truth
from equiscope.audit.proof.reductions import softmax


def _product(call: Call) -> Tensor:
    return matrices(call.lifted(call.args[0]), call.lifted(call.args[1]))


def matrices(a: Tensor, b: Tensor) -> Tensor:
    """a @ b. What is not a number spreads along its row and its column."""
    rows, columns = (a == NONE).any(-1), (b == NONE).any(-2 if b.ndim > 1 else -1)
    if not bool(rows.any()) and not bool(columns.any()):
        return bilinear(torch.matmul, a, b)
    made = bilinear(torch.matmul, a.masked_fill(a == NONE, 0), b.masked_fill(b == NONE, 0))
    spoilt = rows.unsqueeze(-1) if b.ndim > 1 else rows
    return made.masked_fill(spoilt | (columns.unsqueeze(-2) if a.ndim > 1 and b.ndim > 1 else columns), NONE)


def _added(call: Call) -> Tensor:
    """beta * first + alpha * (second @ third)."""
    first, a, b = (call.lifted(v) for v in call.args[:3])
    made = matrices(a, b)
    alpha, beta = call.kwargs.get("alpha", 1), call.kwargs.get("beta", 1)
    made = made if alpha == 1 else multiply(made, call.lifted(alpha))
    if beta == 0:
        return made
    return add(first if beta == 1 else multiply(first, call.lifted(beta)), made)


def _linear(call: Call) -> Tensor:
    made = bilinear(torch.matmul, call.lifted(call.args[0]), call.lifted(call.args[1]).mT)
    bias = call.arg(2, "bias")
    return made if bias is None else add(made, call.lifted(bias))


def _convolution(call: Call) -> Tensor:
    x, weight, bias, stride, padding, dilation, transposed, beside, groups = call.args[:9]
    t, w = call.lifted(x), call.lifted(weight)

    def convolved(a: Tensor, b: Tensor) -> Tensor:
        return torch.ops.aten.convolution.default(a, b, None, stride, padding, dilation, transposed, beside, groups)

    made = bilinear(convolved, t, w)
    return made if bias is None else add(made, call.lifted(bias).view(-1, *[1] * (made.ndim - 2)))


def _attention(call: Call) -> Tensor:
    """softmax(scale q k^T + mask) v, with the mask's two conventions: True attends, or a number is added."""
    q, k, v = (call.lifted(t) for t in call.args[:3])
    mask, causal = call.arg(3, "attn_mask"), call.arg(5, "is_causal", False)
    scale = call.arg(6, "scale")
    if call.arg(7, "enable_gqa", False):
        k, v = (t.repeat_interleave(q.shape[-3] // t.shape[-3], -3) for t in (k, v))
    scores = bilinear(torch.matmul, q, k.mT)
    scores = multiply(scores, call.lifted(float(q.shape[-1] ** -0.5 if scale is None else scale)))
    if causal:
        seen = torch.ones(scores.shape[-2:], dtype=torch.long).tril()
        scores = select(seen, scores, torch.tensor(LOW))
    if mask is not None:
        scores = select(call.lifted(mask), scores, torch.tensor(LOW)) if truth(mask) else add(scores, call.lifted(mask))
    weights = softmax(scores, -1)
    return bilinear(torch.matmul, weights.masked_fill(weights == NONE, 0), v)  # a row that sees nothing gets nothing


def _windows(call: Call, size: list[int], stride: list[int], padding: list[int], fill: int) -> Tensor:
    """[..., windows, entries] of a pool along the last axes."""
    t = call.lifted(call.args[0])
    axes = len(size)
    t = torch.nn.functional.pad(t, [p for q in reversed(padding) for p in (q, q)], value=fill)
    for n in range(axes):
        t = t.unfold(t.ndim - axes, size[n], stride[n])  # the windows come last, so the axis stays where it was
    return t.flatten(-axes)


def _sizes(given: Any, axes: int) -> list[int]:
    made = [given] if isinstance(given, int) else list(given)
    return made * axes if len(made) == 1 else made


def _mean_pool(call: Call) -> Tensor:
    axes = int(call.name[-2])
    size = _sizes(call.args[1], axes)
    stride = _sizes(call.arg(2, "stride") or size, axes)
    padding = _sizes(call.arg(3, "padding", 0) or 0, axes)
    if (
        call.arg(4, "ceil_mode", False)
        or (any(padding) and not call.arg(5, "count_include_pad", True))
        or call.arg(6, "divisor_override")
    ):
        raise NoRule
    t = _windows(call, size, stride, padding, 0)
    if not plain(t):
        raise NoRule
    return multiply(t.sum(-1) % (2**31 - 1), inverse(torch.tensor(t.shape[-1])))


def _largest_pool(call: Call) -> Any:
    axes = int(call.name[len("max_pool")])
    size = _sizes(call.args[1], axes)
    stride = _sizes(call.arg(2, "stride") or size, axes)
    padding, dilation = _sizes(call.arg(3, "padding", 0) or 0, axes), _sizes(call.arg(4, "dilation", 1), axes)
    if call.arg(5, "ceil_mode", False) or any(d != 1 for d in dilation) or any(padding):
        raise NoRule
    t = _windows(call, size, stride, padding, 0)
    return collected("max", t, [t.ndim - 1]), listed("argmax", t, [t.ndim - 1])


RULES: dict[str, Rule] = {
    "mm": _product, "bmm": _product, "matmul": _product, "mv": _product, "dot": _product, "addmm": _added, "baddbmm": _added,
    "addmv": _added, "linear": _linear, "scaled_dot_product_attention": _attention, "convolution": _convolution,
    "avg_pool1d": _mean_pool, "avg_pool2d": _mean_pool, "avg_pool3d": _mean_pool,
    "max_pool2d_with_indices": _largest_pool, "max_pool3d_with_indices": _largest_pool,
}  # fmt: skip
