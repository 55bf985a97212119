"""The operations that a page may replay: a closed, small list, each here and in `web/src/ops`, and nowhere else.

Every function computes with torch and, if somebody is watching, notes the step. `name` is the symbol of the result in a
formula ("Q"), `label` what it is in words. Tensors may have any leading axes; rows are tokens.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from equiscope.kernels.private import transformed
from equiscope.trace.recorder import note, recording, watching

Layout = Literal["interleaved", "half"]
Activation = Literal["relu", "gelu", "gelu-tanh", "silu", "tanh"]
Function = Literal["exp", "log1p", "sqrt", "square", "floor", "round", "sigmoid", "softplus"]


# --- arithmetic -------------------------------------------------------------------------------------------------------
def matmul(a: Tensor, b: Tensor, name: str = "", label: str = "") -> Tensor:
    """[..., N, K] times [..., K, M]: each number is a row of `a` times a column of `b`."""
    return note("matmul", a @ b, [a, b], name, label)


def add(a: Tensor, b: Tensor, name: str = "", label: str = "") -> Tensor:
    """Sum, broadcast."""
    return note("add", a + b, [a, b], name, label)


def subtract(a: Tensor, b: Tensor, name: str = "", label: str = "") -> Tensor:
    """Difference, broadcast."""
    return note("subtract", a - b, [a, b], name, label)


def multiply(a: Tensor, b: Tensor, name: str = "", label: str = "") -> Tensor:
    """Product number by number, broadcast."""
    return note("multiply", a * b, [a, b], name, label)


def scale(x: Tensor, by: float, name: str = "", label: str = "", root: int = 0) -> Tensor:
    """Times one number. root: where `by` is 1/sqrt(root), say so and the page writes it so."""
    return note("scale", x * by, [x], name, label, by=by, **({"root": root} if root else {}))


def divide(a: Tensor, b: Tensor, name: str = "", label: str = "") -> Tensor:
    """Quotient number by number, broadcast."""
    return note("divide", a / b, [a, b], name, label)


def maximum(a: Tensor, b: Tensor, name: str = "", label: str = "") -> Tensor:
    """The larger of two numbers, broadcast."""
    return note("maximum", torch.maximum(a, b), [a, b], name, label)


def clamp(x: Tensor, low: float, high: float, name: str = "", label: str = "") -> Tensor:
    """Each number, but not below `low` and not above `high`."""
    return note("clamp", x.clamp(low, high), [x], name, label, low=low, high=high)


def distance(a: Tensor, b: Tensor, name: str = "", label: str = "") -> Tensor:
    """|a - b|, broadcast: how far two places are apart."""
    return note("distance", (a - b).abs(), [a, b], name, label)


def cast(x: Tensor, dtype: torch.dtype | str, name: str = "", label: str = "") -> Tensor:
    """The same numbers in another dtype; no step where the dtype is the same already. In the page all numbers are float64."""
    wanted = getattr(torch, dtype) if isinstance(dtype, str) else dtype
    if x.dtype == wanted:
        return x
    return note("cast", x.to(wanted), [x], name, label, dtype=str(wanted).removeprefix("torch."))


def activation(x: Tensor, kind: Activation, name: str = "", label: str = "") -> Tensor:
    """A function of each number: relu, gelu (exact, with erf), gelu-tanh (its approximation, as in GPT-2), silu or tanh."""
    functions: dict[str, Callable[[Tensor], Tensor]] = {
        "relu": F.relu,
        "gelu": F.gelu,
        "gelu-tanh": partial(F.gelu, approximate="tanh"),
        "silu": F.silu,
        "tanh": torch.tanh,
    }
    return note("activation", functions[kind](x), [x], name, label, kind=kind)


def function(x: Tensor, kind: Function, name: str = "", label: str = "") -> Tensor:
    """A function of each number; round goes to the nearest whole number (halves to the even one), log1p is log(1 + x)."""
    functions: dict[str, Callable[[Tensor], Tensor]] = {
        "exp": torch.exp, "log1p": torch.log1p, "sqrt": torch.sqrt, "square": torch.square, "floor": torch.floor,
        "round": torch.round, "sigmoid": torch.sigmoid, "softplus": F.softplus,
    }  # fmt: skip
    return note("function", functions[kind](x), [x], name, label, kind=kind)


# --- positions --------------------------------------------------------------------------------------------------------
def sinusoid(angles: Tensor, layout: Layout | Literal["sine"], name: str = "", label: str = "") -> Tensor:
    """Angles [..., W] to [..., 2W]: sine and cosine of each, side by side (interleaved) or in halves; "sine" keeps [..., W]."""
    sine, cosine = angles.sin(), angles.cos()
    if layout == "sine":
        out = sine
    elif layout == "interleaved":
        out = torch.stack([sine, cosine], -1).flatten(-2)
    else:
        out = torch.cat([sine, cosine], -1)
    return note("sinusoid", out, [angles], name, label, layout=layout)


def bucket(gap: Tensor, buckets: int, far: float, both: bool, name: str = "", label: str = "") -> Tensor:
    """T5's bucket of each gap i - j between a query's and a key's place, a whole number in 0 .. buckets - 1.

    Near gaps have a bucket each, farther ones share buckets that widen with the logarithm, from `far` on there is one. With
    `both`, keys after the query (negative gaps) have the upper half of the buckets; without, they share bucket 0.
    Source: Raffel et al. 2020, appendix of their code; Hugging Face `_relative_position_bucket` (whose argument is j - i).
    """
    return note("bucket", _bucket(gap, buckets, far, both), [gap], name, label, buckets=buckets, far=far, both=both)


def _bucket(gap: Tensor, buckets: int, far: float, both: bool) -> Tensor:
    steps = gap.round()  # places are whole numbers, told from one another although they may be floats
    half = buckets // 2 if both else buckets
    upper = (steps < 0) * half if both else torch.zeros_like(steps)
    steps = steps.abs() if both else steps.clamp(min=0)
    exact = half // 2
    wide = torch.promote_types(gap.dtype, torch.float32)
    ratio = torch.log(steps.to(wide).clamp(min=1) / exact) / math.log(far / exact)
    # 1e-9: where the logarithm is whole, rounding must not decide
    log = exact + (ratio * (half - exact) + 1e-9).floor().clamp(max=half - exact - 1)
    return (upper + torch.where(steps < exact, steps, log.to(steps.dtype))).long()


def rotate(x: Tensor, angles: Tensor, layout: Layout, name: str = "", label: str = "") -> Tensor:
    """Rotate pairs of columns of x [..., N, K] by +angles [N, W], W <= K/2, or [B, N, W] for x [B, H, N, K], or [..., H, N, W].

    Pairs are columns (2w, 2w+1) for "interleaved" and (w, w+W) for "half"; columns beyond 2W pass unchanged.
    (a, b) becomes (a cos - b sin, a sin + b cos), computed in float32 or better.
    """
    wide, width = torch.promote_types(x.dtype, torch.float32), 2 * angles.shape[-1]
    radians = angles.unsqueeze(-3) if 2 < angles.ndim < x.ndim else angles  # one list of angles for all heads of a sequence
    out = _rotated(x[..., :width].to(wide), radians.to(wide), layout).to(x.dtype)
    if width < x.shape[-1]:
        out = torch.cat([out, x[..., width:].expand(*out.shape[:-1], -1)], -1)
    return note("rotate", out, [x, angles], name, label, layout=layout)


def _rotated(x: Tensor, angles: Tensor, layout: Layout) -> Tensor:
    cosine, sine = angles.cos(), angles.sin()
    if layout == "interleaved" and not transformed(x, angles):  # (a + bi) e^(i angle), in one pass over x
        return torch.view_as_real(_complex(x) * torch.complex(cosine, sine)).flatten(-2)
    a, b = (x[..., 0::2], x[..., 1::2]) if layout == "interleaved" else x.chunk(2, -1)
    first, second = a * cosine - b * sine, a * sine + b * cosine
    return torch.stack([first, second], -1).flatten(-2) if layout == "interleaved" else torch.cat([first, second], -1)


def _complex(x: Tensor) -> Tensor:
    """Neighbouring columns as one complex number; a view, where torch can read them so."""
    *steps, last = x.stride()
    if last != 1 or x.is_neg() or x.storage_offset() % 2 or any(step % 2 for step in steps):
        x = x.resolve_neg().clone(memory_format=torch.contiguous_format)
    return torch.view_as_complex(x.unflatten(-1, (x.shape[-1] // 2, 2)))


# --- who may look, and how much ---------------------------------------------------------------------------------------
def not_after(a: Tensor, b: Tensor, name: str = "", label: str = "") -> Tensor:
    """Whether a <= b, broadcast."""
    return note("not_after", a <= b, [a, b], name, label)


def both(a: Tensor, b: Tensor, name: str = "", label: str = "") -> Tensor:
    """Logical and, broadcast."""
    return note("both", a & b, [a, b], name, label)


def either(a: Tensor, b: Tensor, name: str = "", label: str = "") -> Tensor:
    """Logical or, broadcast."""
    return note("either", a | b, [a, b], name, label)


def opposite(a: Tensor, name: str = "", label: str = "") -> Tensor:
    """Logical not."""
    return note("opposite", ~a, [a], name, label)


def equal(a: Tensor, b: Tensor, name: str = "", label: str = "") -> Tensor:
    """Whether a = b, broadcast."""
    return note("equal", a == b, [a, b], name, label)


def below(x: Tensor, number: float, name: str = "", label: str = "") -> Tensor:
    """Whether x < number."""
    return note("below", x < number, [x], name, label, number=number)


def modulo(x: Tensor, by: int, name: str = "", label: str = "") -> Tensor:
    """What is left after division by a whole number: in 0 .. by - 1, for negative x too."""
    return note("modulo", x % by, [x], name, label, by=by)


def block(x: Tensor, size: int, name: str = "", label: str = "") -> Tensor:
    """Which block of `size` a whole number falls into: floor(x / size)."""
    return note("block", torch.div(x, size, rounding_mode="floor"), [x], name, label, size=size)


def mask(scores: Tensor, visible: Tensor, name: str = "", label: str = "") -> Tensor:
    """Scores where visible (True = may look), minus infinity where hidden."""
    return note("mask", scores.masked_fill(~visible, -math.inf), [scores, visible], name, label)


def softmax(scores: Tensor, name: str = "", label: str = "") -> Tensor:
    """Weights along the last axis that sum to 1; a row that may look nowhere gives 0, never NaN. In float32 or better."""
    wide = scores.to(torch.promote_types(scores.dtype, torch.float32))
    return note("softmax", torch.ops.aten._safe_softmax(wide, -1).to(scores.dtype), [scores], name, label)


def share(x: Tensor, name: str = "", label: str = "") -> Tensor:
    """Each row divided by its sum; a row that sums to 0 stays as it is."""
    total = x.sum(-1, keepdim=True)
    return note("share", x / total.masked_fill(total == 0, 1.0), [x], name, label)


def later(x: Tensor, at: Tensor, name: str = "", label: str = "") -> Tensor:
    """For each column j of x [..., N, M] the sum over the columns whose place is not before j's; at [..., 1, M].

    Of equal places the later row counts as the later one.
    """
    index = at.argsort(dim=-1, stable=True).expand(x.shape)
    total = torch.zeros_like(x).scatter(-1, index, x.gather(-1, index).flip(-1).cumsum(-1).flip(-1))
    return note("later", total, [x, at], name, label)


def norm(x: Tensor, center: bool, eps: float, name: str = "", label: str = "") -> Tensor:
    """Each row divided by its size: LayerNorm's core (center) or RMSNorm's, without gain and shift. In float32 or better."""
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    y = wide - wide.mean(-1, keepdim=True) if center else wide
    out = y * torch.rsqrt(y.square().mean(-1, keepdim=True) + eps)
    return note("norm", out.to(x.dtype), [x], name, label, center=center, eps=eps)


# --- rows and columns -------------------------------------------------------------------------------------------------
def gather(table: Tensor, index: Tensor, name: str = "", label: str = "") -> Tensor:
    """Rows of table [T, ...] by index [...], which must lie in 0..T-1 (checked by who knows what the table is)."""
    return note("gather", table[index.long()], [table, index], name, label)


def neighbours(x: Tensor, index: Tensor, name: str = "", label: str = "") -> Tensor:
    """Rows side by side: x [..., N, C] by index [M, K] in -1 .. N-1 to [..., M, K*C]; -1 is a row of zeros (a grid's border)."""
    index = index.long()
    rows = x.index_select(-2, index.clamp_min(0).flatten()).unflatten(-2, tuple(index.shape))
    return note("neighbours", (rows * (index >= 0).unsqueeze(-1)).flatten(-2), [x, index], name, label)


def take(x: Tensor, index: Tensor, name: str = "", label: str = "") -> Tensor:
    """One number of each row for every pair: x [..., N, R], index [..., N, M] in 0 .. R-1, out[i, j] = x[i, index[i, j]]."""
    lead = _lead(x.shape[:-1], index.shape[:-1])
    picked = x.expand(*lead, x.shape[-1]).gather(-1, index.long().expand(*lead, index.shape[-1]))
    return note("take", picked, [x, index], name, label)


def bins(x: Tensor, index: Tensor, count: int, name: str = "", label: str = "") -> Tensor:
    """The twin of `take`: out[i, r] = sum of x[i, j] over those j with index[i, j] = r. [..., N, M] to [..., N, count]."""
    lead = _lead(x.shape[:-1], index.shape[:-1])
    width = x.shape[-1]
    empty = torch.zeros(*lead, count, dtype=x.dtype, device=x.device)
    total = empty.scatter_add(-1, index.long().expand(*lead, width), x.expand(*lead, width))
    return note("bins", total, [x, index], name, label, count=count)


def columns(x: Tensor, start: int, stop: int, name: str = "", label: str = "") -> Tensor:
    """Some columns: [..., D] to [..., stop - start]."""
    return note("columns", x[..., start:stop], [x], name, label, start=start, stop=stop)


def repeat_heads(x: Tensor, times: int, name: str = "", label: str = "") -> Tensor:
    """[..., H, N, K] to [..., H * times, N, K]: each head serves `times` heads that lie side by side (grouped queries)."""
    return note("repeat_heads", x.repeat_interleave(times, -3), [x], name, label, times=times)


def concat(a: Tensor, b: Tensor, axis: int = -1, name: str = "", label: str = "") -> Tensor:
    """a then b: more columns (axis -1) or more rows (axis -2); leading axes broadcast."""
    lead = _lead(a.shape[:-2], b.shape[:-2])
    out = torch.cat([t.expand(*lead, *t.shape[-2:]) for t in (a, b)], axis)
    return note("concat", out, [a, b], name, label, axis=axis)


def _lead(a: torch.Size, b: torch.Size) -> tuple[int, ...]:
    """The shape that both broadcast to; where there is none, `expand` says so. torch.broadcast_shapes would load sympy first."""
    rank = max(len(a), len(b))
    sides = ((1,) * (rank - len(shape)) + tuple(shape) for shape in (a, b))
    return tuple(n if m == 1 else m for m, n in zip(*sides, strict=True))


def heads(x: Tensor, count: int, name: str = "", label: str = "") -> Tensor:
    """[..., N, H*K] to [..., H, N, K]: the columns of each head become a matrix of their own."""
    return note("heads", x.unflatten(-1, (count, -1)).transpose(-3, -2), [x], name, label, count=count)


def join(x: Tensor, name: str = "", label: str = "") -> Tensor:
    """[..., H, N, V] to [..., N, H*V]: the heads side by side."""
    return note("join", x.transpose(-3, -2).flatten(-2), [x], name, label)


def transpose(x: Tensor, name: str = "", label: str = "") -> Tensor:
    """Rows become columns."""
    return note("transpose", x.transpose(-2, -1), [x], name, label)


def column(x: Tensor, name: str = "", label: str = "") -> Tensor:
    """A list [..., N] as a column [..., N, 1]."""
    return note("column", x.unsqueeze(-1), [x], name, label)


def row(x: Tensor, name: str = "", label: str = "") -> Tensor:
    """A list [..., N] as a row [..., 1, N]."""
    return note("row", x.unsqueeze(-2), [x], name, label)


def squeeze(x: Tensor, name: str = "", label: str = "") -> Tensor:
    """A column [..., N, 1] as a list [..., N]."""
    return note("squeeze", x.squeeze(-1), [x], name, label)


def broadcast_heads(x: Tensor, name: str = "", label: str = "") -> Tensor:
    """[..., N, M] to [..., 1, N, M]: the same for all heads of each sequence in a batch."""
    return note("broadcast_heads", x.unsqueeze(-3), [x], name, label)


# --- read-outs --------------------------------------------------------------------------------------------------------
def mean(x: Tensor, valid: Tensor | None = None, name: str = "", label: str = "") -> Tensor:
    """Mean over rows: [..., N, D] to [..., D]; with valid [..., N], over those rows only."""
    if valid is None:
        return note("mean", x.mean(-2), [x], name, label)
    weight = valid.unsqueeze(-1).to(x.dtype)
    return note("mean", (x * weight).sum(-2) / weight.sum(-2).clamp_min(1), [x, valid], name, label)


def pick(x: Tensor, index: int, name: str = "", label: str = "") -> Tensor:
    """One row: [..., N, D] to [..., D]; index counts from the end where negative."""
    return note("pick", x.select(-2, index), [x], name, label, index=index)


def flatten(x: Tensor, name: str = "", label: str = "") -> Tensor:
    """All rows behind one another: [..., N, D] to [..., N*D]."""
    return note("flatten", x.flatten(-2), [x], name, label)


OPERATIONS: dict[str, Callable[..., Tensor]] = {
    f.__name__: f
    for f in (
        matmul, add, subtract, multiply, divide, scale, maximum, clamp, distance, cast, activation, function, sinusoid, bucket,
        rotate, not_after, both, either, opposite, equal, below, modulo, block, mask, softmax, share, later, norm,
        gather, neighbours, take, bins, columns, concat, repeat_heads, heads, join, transpose,
        column, row, squeeze, broadcast_heads, mean, pick, flatten,
    )
}  # fmt: skip


# --- several steps that torch has as one ------------------------------------------------------------------------------
def affine(x: Tensor, weight: Tensor, bias: Tensor | None, name: str = "", label: str = "") -> Tensor:
    """x @ W (+ b): two steps when watched, one fused call otherwise."""
    if not recording():
        return F.linear(x, weight.transpose(-2, -1), bias)
    if bias is None:
        return matmul(x, weight, name=name, label=label)
    return add(matmul(x, weight, name=f"{name}_0", label="before the bias"), bias, name=name, label=label)


def linear(layer: nn.Module, x: Tensor, name: str = "", label: str = "") -> Tensor:
    """`layer(x)`: a product with the transposed weight, and a sum with the bias. What replaced an `nn.Linear` is called."""
    if not recording() or not isinstance(layer, nn.Linear):
        y: Tensor = layer(x)
        return y
    return affine(x, weight(layer), layer.bias, name=name, label=label)


def weight(layer: nn.Linear) -> Tensor:
    """The weight of a linear map as [in, out]; of one that is tied to an embedding a step, else a leaf."""
    recorder, own = watching(), layer.weight
    if recorder is None:
        return own.mT
    return (
        transpose(own, name="Eᵀ", label="embedding table, transposed") if id(own) in recorder.tables else recorder.transposed(own)
    )


def normed(layer: nn.LayerNorm | nn.RMSNorm, x: Tensor, names: tuple[str, str] | None = None) -> Tensor:
    """`layer(x)`: each row divided by its size, times the gain, plus the shift; names: of the first two, in the module around."""
    recorder = watching()
    if recorder is None:
        y: Tensor = layer(x)
        return y
    size, times = names or ("N", "N·g")
    bias = getattr(layer, "bias", None)
    with recorder.inside(None if names else layer):
        y = norm(x, center=isinstance(layer, nn.LayerNorm), eps=layer.eps or 0.0, name=size, label="every row brought to one size")
        y = multiply(y, layer.weight, name=times, label="times the gain")
        return y if bias is None else add(y, bias, name=f"{times}+s", label="plus the shift")
