"""Functions of attention and position schemes that torch does not have.

Each is a plain function. Through torch's override protocol, `semantic` makes its call one step of a watched model's program and
one operation on the page. Without `watch` the cost is one check.
"""

import inspect
import math
from collections.abc import Callable
from functools import partial
from typing import Any, Literal, ParamSpec, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import wrap_torch_function

from equiscope.kernels.private import transformed

P = ParamSpec("P")
R = TypeVar("R")
Layout = Literal["interleaved", "half"]
Activation = Literal["relu", "gelu", "gelu-tanh", "silu", "tanh"]


def semantic(function: Callable[P, R]) -> Callable[P, R]:
    """Make a function one step of a program, under its own name: tensors are its inputs, other arguments its parameters.

    A function that returns no tensor, such as a check that raises, is no step.
    """
    wrapped: Any = wrap_torch_function(_tensors)(function)
    wrapped.operation, wrapped.signature = function.__name__, inspect.signature(function)
    return wrapped


def _tensors(*args: Any, **kwargs: Any) -> tuple[Tensor, ...]:
    return tuple(x for x in (*args, *kwargs.values()) if isinstance(x, Tensor))


ACTIVATIONS: dict[Activation, Callable[[Tensor], Tensor]] = {
    "relu": F.relu, "gelu": F.gelu, "gelu-tanh": partial(F.gelu, approximate="tanh"), "silu": F.silu, "tanh": torch.tanh,
}  # fmt: skip


def activation(x: Tensor, kind: Activation) -> Tensor:
    """A function of each number: relu, gelu (exact, with erf), gelu-tanh (its approximation, as in GPT-2), silu or tanh."""
    return ACTIVATIONS[kind](x)


# --- positions
@semantic
def sinusoid(angles: Tensor, layout: Layout | Literal["sine"]) -> Tensor:
    """Angles [..., W] to [..., 2W]: sine and cosine of each, side by side (interleaved) or in halves; "sine" keeps [..., W]."""
    sine, cosine = angles.sin(), angles.cos()
    if layout == "sine":
        return sine
    return torch.stack([sine, cosine], -1).flatten(-2) if layout == "interleaved" else torch.cat([sine, cosine], -1)


@semantic
def rotate(x: Tensor, angles: Tensor, layout: Layout) -> Tensor:
    """Rotate pairs of columns of x [..., N, K] by +angles [N, W], W <= K/2, or [B, N, W] for x [B, H, N, K], or [..., H, N, W].

    Pairs are columns (2w, 2w+1) for "interleaved" and (w, w+W) for "half"; columns beyond 2W pass unchanged.
    (a, b) becomes (a cos - b sin, a sin + b cos), computed in float32 or better.
    """
    wide, width = torch.promote_types(x.dtype, torch.float32), 2 * angles.shape[-1]
    radians = angles.unsqueeze(-3) if 2 < angles.ndim < x.ndim else angles  # the same angles for all heads of a sequence
    rotated = _rotated(x[..., :width].to(wide), radians.to(wide), layout).to(x.dtype)
    if width < x.shape[-1]:
        rotated = torch.cat([rotated, x[..., width:].expand(*rotated.shape[:-1], -1)], -1)
    return rotated


def _rotated(x: Tensor, angles: Tensor, layout: Layout) -> Tensor:
    cosine, sine = angles.cos(), angles.sin()
    if layout == "half":
        return torch.addcmul(x * torch.cat([cosine, cosine], -1), x.roll(x.shape[-1] // 2, -1), torch.cat([-sine, sine], -1))
    if not transformed(x, angles):  # (a + bi) e^(i angle), in one pass over x
        return torch.view_as_real(_complex(x) * torch.complex(cosine, sine)).flatten(-2)
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack([a * cosine - b * sine, a * sine + b * cosine], -1).flatten(-2)


def _complex(x: Tensor) -> Tensor:
    """Pairs of adjacent columns as complex numbers; a view where torch supports it."""
    *steps, last = x.stride()
    if last != 1 or x.is_neg() or x.storage_offset() % 2 or any(step % 2 for step in steps):
        x = x.resolve_neg().clone(memory_format=torch.contiguous_format)
    return torch.view_as_complex(x.unflatten(-1, (x.shape[-1] // 2, 2)))


@semantic
def bucket(gap: Tensor, buckets: int, max_distance: float, bidirectional: bool) -> Tensor:
    """T5's bucket of each gap i - j between a query's and a key's position, a whole number in 0 .. buckets - 1.

    Near gaps have one bucket each, farther ones share buckets that widen logarithmically, and all from `max_distance` on share
    one. If `bidirectional`, keys after the query (negative gaps) have the upper half of the buckets; otherwise they share bucket 0.
    Source: Raffel et al. 2020, appendix of their code; Hugging Face `_relative_position_bucket` (whose argument is j - i).
    """
    steps = gap.round()  # integer positions may be stored as floats
    half = buckets // 2 if bidirectional else buckets
    upper = (steps < 0) * half if bidirectional else torch.zeros_like(steps)
    steps = steps.abs() if bidirectional else steps.clamp(min=0)
    exact = half // 2
    wide = torch.promote_types(gap.dtype, torch.float32)
    ratio = torch.log(steps.to(wide).clamp(min=1) / exact) / math.log(max_distance / exact)
    # 1e-9: if the logarithm is an integer, rounding must not decide
    log = exact + (ratio * (half - exact) + 1e-9).floor().clamp(max=half - exact - 1)
    return (upper + torch.where(steps < exact, steps, log.to(steps.dtype))).long()


@semantic
def take(x: Tensor, index: Tensor) -> Tensor:
    """Select one number per pair: x [..., N, R], index [..., N, M] in 0 .. R-1, out[i, j] = x[i, index[i, j]]."""
    heads = -index.ndim
    if 1 < index.numel() == index.shape[0] and (x.ndim < index.ndim or x.shape[heads] == 1):
        wide = x[(None,) * (index.ndim - x.ndim)].transpose(-1, heads)
        return wide.index_select(heads, index.flatten().long())  # expanding x to every head would need a gradient of that size
    lead = leading(x.shape[:-1], index.shape[:-1])
    return x.expand(*lead, x.shape[-1]).gather(-1, index.long().expand(*lead, index.shape[-1]))


@semantic
def bins(x: Tensor, index: Tensor, count: int) -> Tensor:
    """The adjoint of `take`: out[i, r] = sum of x[i, j] over those j with index[i, j] = r. [..., N, M] to [..., N, count]."""
    lead, width = leading(x.shape[:-1], index.shape[:-1]), x.shape[-1]
    empty = torch.zeros(*lead, count, dtype=x.dtype, device=x.device)
    return empty.scatter_add(-1, index.long().expand(*lead, width), x.expand(*lead, width))


@semantic
def later(x: Tensor, positions: Tensor) -> Tensor:
    """For each column j of x [..., N, M] the sum over the columns whose position is not before j's; positions [..., 1, M].

    Of equal positions the later row counts as the later one.
    """
    index = positions.argsort(dim=-1, stable=True).expand(x.shape)
    return torch.zeros_like(x).scatter(-1, index, x.gather(-1, index).flip(-1).cumsum(-1).flip(-1))


# --- rows
@semantic
def softmax(scores: Tensor) -> Tensor:
    """Weights along the last axis that sum to 1; a row of minus infinity gives 0, never NaN. In float32 or better."""
    wide = scores.to(torch.promote_types(scores.dtype, torch.float32))
    return torch.ops.aten._safe_softmax(wide, -1).to(scores.dtype)


@semantic
def share(x: Tensor) -> Tensor:
    """Divide each row by its sum; a row that sums to 0 stays unchanged."""
    total = x.sum(-1, keepdim=True)
    return x / total.masked_fill(total == 0, 1.0)


@semantic
def mean(x: Tensor, valid: Tensor | None = None) -> Tensor:
    """Mean over rows: [..., N, D] to [..., D]; with valid [..., N], over those rows only."""
    if valid is None:
        return x.mean(-2)
    weight = valid.unsqueeze(-1).to(x.dtype)
    return (x * weight).sum(-2) / weight.sum(-2).clamp_min(1)


@semantic
def neighbours(x: Tensor, index: Tensor) -> Tensor:
    """Concatenate rows: x [..., N, C] by index [M, K] in -1 .. N-1 to [..., M, K*C]; -1 is a row of zeros (a grid's border)."""
    index = index.long()
    rows = x.index_select(-2, index.clamp_min(0).flatten()).unflatten(-2, tuple(index.shape))
    return (rows * (index >= 0).unsqueeze(-1)).flatten(-2)


@semantic
def concat(a: Tensor, b: Tensor, axis: int = -1) -> Tensor:
    """a then b: more columns (axis -1) or more rows (axis -2); leading axes broadcast."""
    lead = leading(a.shape[:-2], b.shape[:-2])
    return torch.cat([t.expand(*lead, *t.shape[-2:]) for t in (a, b)], axis)


def leading(a: torch.Size, b: torch.Size) -> tuple[int, ...]:
    """The shape that both broadcast to; without one, `expand` raises. torch.broadcast_shapes would import sympy."""
    rank = max(len(a), len(b))
    sides = ((1,) * (rank - len(shape)) + tuple(shape) for shape in (a, b))
    return tuple(n if m == 1 else m for m, n in zip(*sides, strict=True))
