"""Kernels: exact attention without the matrix of all weights. `reference` is the same function, step by step.

attention       torch's fused kernel, or a faster one: a bias with a causal mask on a CPU, learned or not (`cpu.py`),
                short rows in bfloat16 on a CPU (`short.py`)
flex_attention  biases and masks as functions of row numbers, on a GPU (`flex.py`)
Nothing here changes global state. Private names of torch are in `private.py`, with the fallback without them.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from equiscope.kernels import cpu, private, short
from equiscope.kernels.bias import DistanceBias, combine_masks, dense, masked, rounded
from equiscope.kernels.flex import flex_attention

__all__ = ["DistanceBias", "attention", "flex_attention", "reference"]


def attention(
    q: Tensor, k: Tensor, v: Tensor, *, scale: float, mask: Tensor | None = None, causal: bool = False,
    bias: Tensor | DistanceBias | None = None,
) -> Tensor:  # fmt: skip
    """softmax(scale Q K^T + bias) V: q [..., N, K], k [..., M, K], v [..., M, V] to [..., N, V].

    mask    bool, True = may attend, broadcast to [..., N, M]; a row with every key masked gives 0
    causal  row i attends to rows 0 .. i, besides `mask`
    bias    added to the scaled scores: a table that broadcasts to [..., N, M], or a value for each distance
    """
    if q.ndim < 4:  # without a batch, torch selects the kernel that writes the full matrix
        index = (None,) * (4 - q.ndim)
        output = attention(q[index], k[index], v[index], scale=scale, mask=mask, causal=causal, bias=bias)
        return output[(0,) * len(index)]
    if bias is None:
        if short.supports(q, k, v):
            return short.table_attention(q, k, v, scale, mask, causal)
        return _unbiased(q, k, v, scale, mask, causal)
    if cpu.supports(q, k, v, bias):
        return cpu.biased_attention(q, k, v, scale, mask, causal, bias)
    table = masked(dense(bias), combine_masks(mask, causal, q, k)).expand(*q.shape[:-1], k.shape[-2])
    # on other devices the mask must have the dtype of the queries
    table = table.to(torch.promote_types(q.dtype, torch.float32)) if q.device.type == "cpu" else rounded(table, q.dtype)
    return _fused(q, k, v, table, False, scale)


def reference(
    q: Tensor, k: Tensor, v: Tensor, *, scale: float, mask: Tensor | None = None, causal: bool = False,
    bias: Tensor | DistanceBias | None = None,
) -> Tensor:  # fmt: skip
    """The same function step by step, in float32 or better."""
    wide = torch.promote_types(q.dtype, torch.float32)
    scores = scale * q.to(wide) @ k.to(wide).mT
    if bias is not None:
        scores = scores + dense(bias).to(wide)
    mask = combine_masks(mask, causal, q, k)
    weights = masked(scores, mask).softmax(-1)
    if mask is not None:
        weights = weights.masked_fill(~mask.any(-1, keepdim=True), 0.0)  # the softmax of nothing is NaN
    return (weights @ v.to(wide)).to(q.dtype)


def _unbiased(q: Tensor, k: Tensor, v: Tensor, scale: float, mask: Tensor | None, causal: bool) -> Tensor:
    if mask is not None:  # torch accepts a mask or is_causal, not both
        mask, causal = combine_masks(mask, causal, q, k), False
    width = v.shape[-1]
    if q.device.type == "cpu" and width < q.shape[-1]:
        v = F.pad(v, (0, q.shape[-1] - width))  # else torch selects the kernel that writes the full matrix
    mask = None if mask is None else mask.expand(*q.shape[:-1], k.shape[-2])
    output = _fused(q, k, v, mask, causal, scale)
    return output if output.shape[-1] == width else output[..., :width]


def _fused(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool, scale: float) -> Tensor:
    """torch's attention, q [B, H, N, K] with a mask or bias [B, H, N, M]; models that vmap has stacked are one larger batch."""
    if private.batched(q, k, v, mask):
        output: Tensor = _LargerBatch.apply(q, k, v, mask, causal, scale)
        return output
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal, scale=scale)


class _LargerBatch(torch.autograd.Function):
    """`_fused` under vmap: the stacked axis becomes part of the batch, so that the same kernel runs once."""

    forward = staticmethod(_fused)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        """Nothing is kept: the rule for vmap is differentiated by autograd, and nothing else calls this."""

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int | None, ...], q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool, scale: float
    ) -> tuple[Tensor, int]:  # fmt: skip
        size = info.batch_size

        def joined(x: Tensor, axis: int | None) -> Tensor:
            """[B, ...] with a stacked axis S to [S*B, ...]; what is the same for all of the batch stays a view."""
            if axis is not None:
                return x.movedim(axis, 0).flatten(0, 1)
            if x.stride(0) == 0:
                return x[:1].expand(size * len(x), *x.shape[1:])
            return x.expand(size, *x.shape).flatten(0, 1)

        q, k, v = (joined(x, axis) for x, axis in zip((q, k, v), in_dims[:3], strict=True))
        output = _fused(q, k, v, None if mask is None else joined(mask, in_dims[3]), causal, scale)
        return output.unflatten(0, (size, -1)), 0
