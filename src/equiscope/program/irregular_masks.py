"""Irregular masks: positions at which a mask is not constant along its diagonals, because a block ends there."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

MASKING = ("softmax", "masked_fill", "masked_fill_", "where", "mul", "__mul__", "scaled_dot_product_attention")
MASKED_BELOW = 1e4  # a score that is smaller than the largest of its row by more than this is masked


def irregular_positions(mask: Tensor) -> set[int]:
    """Columns j at which mask[i, j] != mask[i - 1, j - 1] for some row i < j, of the first matrix of a batch.

    Causal masks and windows are constant along each diagonal. A mask that is open within blocks, or at the end of a block, is not.
    """
    n = mask.shape[-1] if mask.ndim > 1 else 0
    if n < 4 or mask.shape[-2] != n or mask.is_complex() or mask.is_meta:
        return set()
    mask = mask.detach().reshape(-1, n, n)[0]
    if mask.dtype != torch.bool:
        values = mask.unique()
        if len(values) != 2:
            return set()
        mask = mask == values[1]
    changes = (mask[1:, 1:] != mask[:-1, :-1]).triu(1)
    return {j + 1 for j in changes.any(0).nonzero().flatten().tolist()}


def masks_in_call(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[Tensor]:
    """Square masks among the arguments of a function; for a softmax, where the scores are not masked."""
    for t in (t for t in (*args, *kwargs.values()) if isinstance(t, Tensor) and t.ndim > 1 and t.shape[-1] == t.shape[-2] > 4):
        if name == "softmax":
            t = t.detach().reshape(-1, *t.shape[-2:])[0]
            yield t > t.amax(-1, keepdim=True) - MASKED_BELOW
        elif name != "scaled_dot_product_attention" or t is kwargs.get("attn_mask", args[3] if len(args) > 3 else None):
            yield t
