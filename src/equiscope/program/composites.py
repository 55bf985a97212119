"""Calls that torch has as one and a reader as several: computed beside the model's own call, by steps that are recorded."""

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from equiscope.program.private import safe_softmax


def attention(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, dropout_p: float = 0.0, is_causal: bool = False,
    scale: float | None = None, enable_gqa: bool = False,
) -> Tensor:  # fmt: skip
    """F.scaled_dot_product_attention: product, scale, mask, softmax, product. A row that may attend to nothing gives 0."""
    if enable_gqa and query.shape[-3] != key.shape[-3]:
        key, value = (t.repeat_interleave(query.shape[-3] // t.shape[-3], -3) for t in (key, value))
    scores = torch.matmul(query, key.transpose(-2, -1)) * (1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    if is_causal:
        visible = torch.ones(scores.shape[-2:], dtype=torch.bool, device=query.device).tril()
        scores = scores.masked_fill(visible.logical_not(), -math.inf)
    if attn_mask is not None:
        hidden = attn_mask.logical_not() if attn_mask.dtype == torch.bool else None
        scores = scores + attn_mask if hidden is None else scores.masked_fill(hidden, -math.inf)
    weights = safe_softmax(scores)
    return torch.matmul(torch.dropout(weights, dropout_p, True) if dropout_p else weights, value)


def drawn(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a call of attention drops weights: what it drew cannot be seen beside it, so its parts run in its place."""
    return bool(kwargs.get("dropout_p", args[4] if len(args) > 4 else 0.0))


COMPOSITES: dict[Any, Callable[..., Tensor]] = {F.scaled_dot_product_attention: attention}
