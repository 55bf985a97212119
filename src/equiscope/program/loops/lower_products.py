"""Sums of products: of matrices, of windows with a kernel, attention; and the windows of pools."""

import math
from collections.abc import Sequence

import torch

from equiscope.errors import InputError
from equiscope.program.loops.aten import LOWERED, lowered
from equiscope.program.loops.loop_ir import LoopIR, Value, without
from equiscope.program.loops.lower_views import cat, reshaped


@lowered("mm", "bmm")
def _matmul(ir: LoopIR, a: Value, b: Value) -> Value:
    left, right = a.along(lambda t: t.unsqueeze(-1)), b.along(lambda t: t.unsqueeze(-3))
    return ir.dot(left, right, [-2])


@lowered("mv", "dot")
def _mv(ir: LoopIR, a: Value, b: Value) -> Value:
    return ir.dot(a, b, [-1])


@lowered("addmm", "baddbmm")
def _addmm(ir: LoopIR, c: Value, a: Value, b: Value, beta: float = 1, alpha: float = 1) -> Value:
    product = _matmul(ir, a, b)
    product = product if alpha == 1 else ir.apply("mul", product, alpha)
    return ir.apply("add", product, c if beta == 1 else ir.apply("mul", c, beta))


@lowered("linear")
def _linear(ir: LoopIR, x: Value, weight: Value, bias: Value | None = None) -> Value:
    product = _matmul(ir, x, weight.along(lambda t: t.mT))
    return product if bias is None else ir.apply("add", product, bias)


@lowered("scaled_dot_product_attention")
def _attention(
    ir: LoopIR, q: Value, k: Value, v: Value, attn_mask: Value | None = None, dropout_p: float = 0.0,
    is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False,
) -> Value:  # fmt: skip
    """softmax(scale q kᵀ + mask) v. A mask is True where a query attends, or is added; a query that attends to nothing gets 0."""
    if enable_gqa:
        k, v = (_shared(ir, x, q.shape[-3] // x.shape[-3]) for x in (k, v))
    scores = _matmul(ir, q, k.along(lambda t: t.mT))
    scores = ir.apply("mul", scores, q.shape[-1] ** -0.5 if scale is None else scale)
    mask = attn_mask
    if is_causal:
        mask = ir.constant(torch.ones(scores.shape[-2:], dtype=torch.bool).tril())
    if mask is None:
        return _matmul(ir, LOWERED["_softmax"](ir, scores, -1), v)
    none = float("-inf")
    scores = ir.apply("where", mask, scores, none) if mask.dtype == torch.bool else ir.apply("add", scores, mask)
    nothing = ir.apply("eq", ir.join("amax", scores, [-1], True), none, dtype=torch.bool)
    return _matmul(ir, ir.apply("where", nothing, 0.0, LOWERED["_softmax"](ir, scores, -1)), v)


def _shared(ir: LoopIR, x: Value, many: int) -> Value:
    """Keys or values with each head repeated for its `many` query heads."""
    *before, heads, length, width = x.shape
    wide = x.along(lambda t: t.unsqueeze(-3)).expanded([*before, heads, many, length, width])
    return reshaped(ir, wide, [*before, heads * many, length, width])


@lowered("convolution")
def _convolution(
    ir: LoopIR, x: Value, weight: Value, bias: Value | None, stride: Sequence[int], padding: Sequence[int],
    dilation: Sequence[int], transposed: bool, output_padding: Sequence[int], groups: int,
) -> Value:  # fmt: skip
    """Every window of x times the kernel: a sum over channels and over the positions of the kernel."""
    axes = len(x.shape) - 2
    stride, padding, dilation = (list(some) * axes if len(some) == 1 else some for some in (stride, padding, dilation))
    if transposed:
        x, weight, pads = _transposed_convolution(ir, x, weight, stride, padding, dilation, output_padding, groups)
        stride = [1] * axes
    else:
        pads = [n for pad in reversed(padding) for n in (pad, pad)]
    kernel = weight.shape[2:]
    wide = LOWERED["constant_pad_nd"](ir, x, pads)
    windows_view = _windows(wide, kernel, stride, dilation)
    channels, many = x.shape[1] // groups, weight.shape[0] // groups
    n, batch, whole = windows_view.shape[2 : 2 + axes], x.shape[0], windows_view.strides
    windows = windows_view.view(
        (batch, groups, 1, *n, channels, *kernel),
        (whole[0], channels * whole[1], 0, *whole[2 : 2 + axes], whole[1], *whole[2 + axes :]),
        windows_view.offset,
    )
    own = weight.strides
    kernels = weight.view(
        (1, groups, many, *([1] * axes), channels, *kernel), (0, many * own[0], own[0], *([0] * axes), *own[1:]), weight.offset
    )
    product = ir.dot(windows, kernels, range(-1 - axes, 0)).along(lambda t: t.flatten(1, 2))
    return product if bias is None else ir.apply("add", product, bias.along(lambda t: t.view(-1, *([1] * axes))))


def _transposed_convolution(
    ir: LoopIR, x: Value, weight: Value, stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int],
    extra: Sequence[int], groups: int,
) -> tuple[Value, Value, list[int]]:  # fmt: skip
    """A transposed convolution as a plain one: x with zeros between its entries, the kernel turned around, and the padding."""
    sizes = [(n - 1) * s + 1 for n, s in zip(x.shape[2:], stride, strict=True)]
    wide = ir.fresh([*x.shape[:2], *sizes], x.dtype)
    ir.step("copy", wide, 0.0)
    steps = [s * own for s, own in zip(stride, wide.strides[2:], strict=True)]
    ir.step("copy", wide.view(x.shape, [*wide.strides[:2], *steps], 0), x)
    inputs, many, *kernel = weight.shape
    flipped = LOWERED["flip"](ir, weight, range(2, len(weight.shape)))
    parted = reshaped(ir, flipped, [groups, inputs // groups, many, *kernel])
    weight = reshaped(ir, parted.along(lambda t: t.transpose(1, 2)), [groups * many, inputs // groups, *kernel])
    extra = list(extra) * len(kernel) if len(extra) == 1 else extra
    least = [d * (k - 1) - p for d, k, p in zip(dilation, kernel, padding, strict=True)]
    return wide, weight, [n for a, b in zip(reversed(least), reversed(extra), strict=True) for n in (a, a + b)]


def _windows(x: Value, kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int]) -> Value:
    """[B, C, windows along each axis, entries of a window along each axis] of the same numbers."""
    spans = [d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True)]
    many = [(n - span) // s + 1 for n, span, s in zip(x.shape[2:], spans, stride, strict=True)]
    own = x.strides[2:]
    between = [s * step for s, step in zip(stride, own, strict=True)]
    inside = [d * step for d, step in zip(dilation, own, strict=True)]
    return x.view([*x.shape[:2], *many, *kernel], [*x.strides[:2], *between, *inside], x.offset)


# --- pools
def _pooled(
    ir: LoopIR, x: Value, size: Sequence[int], stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int], fill: float
) -> Value:
    """The windows of a pool; what is padded is `fill`."""
    axes = len(size)
    stride, padding, dilation = (list(some) * axes if len(some) == 1 else some for some in (stride or size, padding, dilation))
    lead = [1] * (2 + axes - len(x.shape))  # one picture without a batch
    x = x.view([*lead, *x.shape], [0] * len(lead) + list(x.strides), x.offset)
    wide = LOWERED["constant_pad_nd"](ir, x, [n for pad in reversed(padding) for n in (pad, pad)], fill)
    view = _windows(wide, size, stride, dilation)
    return view.view(view.shape[len(lead) :], view.strides[len(lead) :], view.offset)


@lowered("avg_pool2d", "avg_pool3d")
def _mean_pool(
    ir: LoopIR, x: Value, size: Sequence[int], stride: Sequence[int] = (), padding: Sequence[int] = (0,), ceil_mode: bool = False,
    count_padding: bool = True, divisor: int | None = None,
) -> Value:  # fmt: skip
    if ceil_mode or (any(padding) and not count_padding):
        raise InputError("A computation has mean pools of whole windows only. Set ceil_mode=False and count_include_pad=True.")
    windows = _pooled(ir, x, size, stride, padding, (1,), 0.0)
    return ir.apply("div", ir.join("sum", windows, range(-len(size), 0)), float(divisor or math.prod(size)))


@lowered("max_pool2d_with_indices", "max_pool3d_with_indices")
def _largest_pool(
    ir: LoopIR, x: Value, size: Sequence[int], stride: Sequence[int] = (), padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,), ceil_mode: bool = False,
) -> tuple[Value, Value]:  # fmt: skip
    if ceil_mode:
        raise InputError("A computation has pools of whole windows only. Set ceil_mode=False.")
    axes = len(size)
    windows = _pooled(ir, x, size, stride, padding, dilation, float("-inf"))
    grid = ir.constant(torch.arange(math.prod(x.shape[-axes:])).view(x.shape[-axes:])).expanded(x.shape)
    places = _pooled(ir, grid, size, stride, padding, dilation, -1.0)
    top = ir.join("amax", windows, range(-axes, 0), True)
    first = ir.apply("where", ir.apply("eq", windows, top, dtype=torch.bool), places, float("inf"))
    return without(top, [len(top.shape) + axis for axis in range(-axes, 0)]), ir.join("amin", first, range(-axes, 0))


@lowered("linalg_cross")
def _cross(ir: LoopIR, a: Value, b: Value, dim: int = -1) -> Value:
    def rolled(x: Value, by: int) -> Value:
        twice = cat(ir, [x, x], dim)
        return twice.along(lambda t: t.narrow(dim, by, 3))

    first = ir.apply("mul", rolled(a, 1), rolled(b, 2))
    return ir.apply("sub", first, ir.apply("mul", rolled(a, 2), rolled(b, 1)))
