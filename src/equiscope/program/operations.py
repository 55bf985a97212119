"""The operations of a page: a closed, small list, each here and in `web/src/core/ops`, and nowhere else.

Tensors may have any leading axes; rows are tokens.
"""

import math
from collections.abc import Callable
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from equiscope.functional import activation, bins, bucket, concat, later, mean, neighbours, rotate, share, sinusoid, softmax, take

Function = Literal["exp", "log1p", "sqrt", "square", "floor", "round", "sigmoid", "softplus"]
FUNCTIONS: dict[Function, Callable[[Tensor], Tensor]] = {
    "exp": torch.exp, "log1p": torch.log1p, "sqrt": torch.sqrt, "square": torch.square, "floor": torch.floor,
    "round": torch.round, "sigmoid": torch.sigmoid, "softplus": F.softplus,
}  # fmt: skip


# --- arithmetic
def matmul(a: Tensor, b: Tensor) -> Tensor:
    """[..., N, K] times [..., K, M]: each number is a row of `a` times a column of `b`."""
    return a @ b


def add(a: Tensor, b: Tensor) -> Tensor:
    """Sum, broadcast."""
    return a + b


def subtract(a: Tensor, b: Tensor) -> Tensor:
    """Difference, broadcast."""
    return a - b


def multiply(a: Tensor, b: Tensor) -> Tensor:
    """Product number by number, broadcast."""
    return a * b


def scale(x: Tensor, by: float, root: int = 0) -> Tensor:
    """Times one number. root: where `by` is 1/sqrt(root), the page writes it so."""
    return x * by


def divide(a: Tensor, b: Tensor) -> Tensor:
    """Quotient number by number, broadcast."""
    return a / b


def maximum(a: Tensor, b: Tensor) -> Tensor:
    """The larger of two numbers, broadcast."""
    return torch.maximum(a, b)


def clamp(x: Tensor, low: float, high: float) -> Tensor:
    """Each number, but not below `low` and not above `high`."""
    return x.clamp(low, high)


def distance(a: Tensor, b: Tensor) -> Tensor:
    """|a - b|, broadcast."""
    return (a - b).abs()


def cast(x: Tensor, dtype: str) -> Tensor:
    """The same numbers in another dtype. In the page all numbers are float64; in a whole-number dtype they lose their fraction."""
    return x.to(getattr(torch, dtype))


def function(x: Tensor, kind: Function) -> Tensor:
    """A function of each number; round goes to the nearest whole number (halves to the even one), log1p is log(1 + x)."""
    return FUNCTIONS[kind](x)


# --- which pairs are visible
def not_after(a: Tensor, b: Tensor) -> Tensor:
    """Whether a <= b, broadcast."""
    return a <= b


def both(a: Tensor, b: Tensor) -> Tensor:
    """Logical and, broadcast."""
    return a & b


def either(a: Tensor, b: Tensor) -> Tensor:
    """Logical or, broadcast."""
    return a | b


def opposite(a: Tensor) -> Tensor:
    """Logical not."""
    return ~a


def equal(a: Tensor, b: Tensor) -> Tensor:
    """Whether a = b, broadcast."""
    return a == b


def below(x: Tensor, number: float) -> Tensor:
    """Whether x < number."""
    return x < number


def modulo(x: Tensor, by: int) -> Tensor:
    """The remainder of a division by a whole number: in 0 .. by - 1, also for negative x."""
    return x % by


def block(x: Tensor, size: int) -> Tensor:
    """Which block of `size` a whole number falls into: floor(x / size)."""
    return torch.div(x, size, rounding_mode="floor")


def mask(scores: Tensor, visible: Tensor) -> Tensor:
    """Scores where visible, minus infinity where not."""
    return scores.masked_fill(~visible, -math.inf)


def norm(x: Tensor, center: bool, eps: float) -> Tensor:
    """Each row divided by its size: LayerNorm's core (center) or RMSNorm's, without gain and shift. In float32 or better."""
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    y = wide - wide.mean(-1, keepdim=True) if center else wide
    return (y * torch.rsqrt(y.square().mean(-1, keepdim=True) + eps)).to(x.dtype)


# --- rows and columns
def gather(table: Tensor, index: Tensor) -> Tensor:
    """Rows of table [T, ...] by index [...], which must lie in 0..T-1."""
    return table[index.long()]


def columns(x: Tensor, start: int, stop: int) -> Tensor:
    """Some columns: [..., D] to [..., stop - start]."""
    return x[..., start:stop]


def repeat_heads(x: Tensor, times: int) -> Tensor:
    """[..., H, N, K] to [..., H * times, N, K]: each head serves `times` heads that lie side by side (grouped queries)."""
    return x.repeat_interleave(times, -3)


def heads(x: Tensor, count: int) -> Tensor:
    """[..., N, H*K] to [..., H, N, K]: the columns of each head become a matrix of their own."""
    return x.unflatten(-1, (count, -1)).transpose(-3, -2)


def join(x: Tensor) -> Tensor:
    """[..., H, N, V] to [..., N, H*V]: the heads side by side."""
    return x.transpose(-3, -2).flatten(-2)


def transpose(x: Tensor) -> Tensor:
    """Rows become columns."""
    return x.transpose(-2, -1)


def column(x: Tensor) -> Tensor:
    """A list [..., N] as a column [..., N, 1]."""
    return x.unsqueeze(-1)


def row(x: Tensor) -> Tensor:
    """A list [..., N] as a row [..., 1, N]."""
    return x.unsqueeze(-2)


def squeeze(x: Tensor) -> Tensor:
    """A column [..., N, 1] as a list [..., N]."""
    return x.squeeze(-1)


def broadcast_heads(x: Tensor) -> Tensor:
    """[..., N, M] to [..., 1, N, M]: the same for all heads of each sequence in a batch."""
    return x.unsqueeze(-3)


def pick(x: Tensor, index: int) -> Tensor:
    """One row: [..., N, D] to [..., D]; index counts from the end where negative."""
    return x.select(-2, index)


def flatten(x: Tensor) -> Tensor:
    """All rows behind one another: [..., N, D] to [..., N*D]."""
    return x.flatten(-2)


OPERATIONS: dict[str, Callable[..., Tensor]] = {
    f.__name__: f
    for f in (
        matmul, add, subtract, multiply, divide, scale, maximum, clamp, distance, cast, activation, function, sinusoid, bucket,
        rotate, not_after, both, either, opposite, equal, below, modulo, block, mask, softmax, share, later, norm,
        gather, neighbours, take, bins, columns, concat, repeat_heads, heads, join, transpose,
        column, row, squeeze, broadcast_heads, mean, pick, flatten,
    )
}  # fmt: skip
