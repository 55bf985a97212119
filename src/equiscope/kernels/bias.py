"""Biases on the scores before the softmax: a dense table, or one value per distance."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class DistanceBias:
    """A bias that depends on the distance of two rows only: bias[h, i, j] = values[h, j - i + N - 1], values [H, N + M - 1]."""

    values: Tensor
    rows: int

    def table(self, start: int = 0, stop: int | None = None) -> Tensor:
        """The rows start .. stop - 1 of the dense table [H, R, M], copied from the values."""
        stop = self.rows if stop is None else stop
        columns = self.values.shape[-1] - self.rows + 1
        return self.values[..., self.rows - stop : self.rows - start + columns - 1].unfold(-1, columns, 1).flip(-2)


def dense(bias: Tensor | DistanceBias) -> Tensor:
    """A table [..., N, M]."""
    return bias.table() if isinstance(bias, DistanceBias) else bias


def causal_mask(q: Tensor, k: Tensor) -> Tensor:
    """bool [N, M]: row i may attend to rows 0 .. i."""
    return torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool, device=q.device).tril()


def combine_masks(mask: Tensor | None, causal: bool, q: Tensor, k: Tensor) -> Tensor | None:
    """Combine a mask and a causal mask; None if neither is given."""
    if not causal:
        return mask
    return causal_mask(q, k) if mask is None else mask & causal_mask(q, k)


def masked(table: Tensor, mask: Tensor | None) -> Tensor:
    """A bias that is minus infinity where the mask is False."""
    return table if mask is None else table.masked_fill(~mask, -math.inf)


def rounded(table: Tensor, dtype: torch.dtype) -> Tensor:
    """A bias in lower precision, shifted so that each row has the maximum 0: rounding affects small weights only."""
    if torch.promote_types(table.dtype, dtype) == dtype:
        return table.to(dtype)
    largest = table.detach().amax(-1, keepdim=True)
    return (table - largest.masked_fill(largest.isinf(), 0.0)).to(dtype)
