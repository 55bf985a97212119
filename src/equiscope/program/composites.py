"""Composite calls: one torch function that a reader knows as several steps; the steps run beside the model's own call."""

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


def multi_head_attention(
    query: Tensor, key: Tensor, value: Tensor, width: int, heads: int, in_weight: Tensor | None, in_bias: Tensor | None,
    bias_k: Tensor | None, bias_v: Tensor | None, add_zero_attn: bool, dropout_p: float, out_weight: Tensor,
    out_bias: Tensor | None, training: bool = True, key_padding_mask: Tensor | None = None, need_weights: bool = True,
    attn_mask: Tensor | None = None, use_separate_proj_weight: bool = False, q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None, v_proj_weight: Tensor | None = None, static_k: Tensor | None = None,
    static_v: Tensor | None = None, average_attn_weights: bool = True, is_causal: bool = False,
) -> Any:  # fmt: skip
    """F.multi_head_attention_forward, with the batch first, as formulas have it; NotImplemented for what is seldom asked for.

    query [N, B, D], or [N, D] of one sequence; returns the output like it, and weights [B, N, M] or [N, M] where they are wanted
    """
    unusual = use_separate_proj_weight or add_zero_attn or any(x is not None for x in (bias_k, bias_v, static_k, static_v))
    if unusual or in_weight is None or (dropout_p and training):
        return NotImplemented
    q, k, v = (t.unflatten(-1, (heads, -1)).transpose(-3, -2) for t in _projected(query, key, value, width, in_weight, in_bias))
    scores = torch.matmul(q, k.transpose(-2, -1)) * (1 / math.sqrt(q.shape[-1]))
    for mask in (attn_mask, None if key_padding_mask is None else key_padding_mask[..., None, None, :]):
        if mask is not None:
            apart = mask is attn_mask and mask.ndim == query.ndim == 3  # a mask for each head of each sequence
            mask = mask.unflatten(0, (-1, heads)) if apart else mask
            scores = scores.masked_fill(mask, -math.inf) if mask.dtype == torch.bool else scores + mask
    weights = scores.softmax(-1) if need_weights else safe_softmax(scores)
    joined = torch.matmul(weights, v).transpose(-3, -2).flatten(-2)
    output = _batched(F.linear(joined, out_weight, out_bias))
    if not need_weights:
        return output, None
    return output, weights.mean(-3) if average_attn_weights else weights


def _batched(x: Tensor) -> Tensor:
    """[N, B, D] to [B, N, D], and back; one sequence [N, D] as it is."""
    return x.transpose(0, 1) if x.ndim == 3 else x


def _projected(query: Tensor, key: Tensor, value: Tensor, width: int, weight: Tensor, bias: Tensor | None) -> tuple[Tensor, ...]:
    """Queries, keys and values [B, N, D] from one packed matrix: at once where all are of the same tokens."""
    if query is key and key is value:
        packed = F.linear(_batched(query), weight, bias)
        return packed[..., :width], packed[..., width : 2 * width], packed[..., 2 * width :]
    columns = weight.t()
    projections = []
    for i, x in enumerate((query, key, value)):
        own = slice(i * width, (i + 1) * width)
        y = torch.matmul(_batched(x), columns[:, own])
        projections.append(y if bias is None else y + bias[own])
    return tuple(projections)


def drawn(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a call of scaled_dot_product_attention drops weights: its random numbers are unrecorded, so its parts run instead."""
    return bool(kwargs.get("dropout_p", args[4] if len(args) > 4 else 0.0))


COMPOSITES: dict[Any, Callable[..., Any]] = {
    F.scaled_dot_product_attention: attention,
    F.multi_head_attention_forward: multi_head_attention,
}
