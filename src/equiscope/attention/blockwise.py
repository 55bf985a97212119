"""Blockwise attention with its weights, fast on the CPU. The same function as `scores.attend` step by step.

Writing a full matrix for every step (products, scaled, masked, normalised; and again in the backward pass) costs more than
computing it. Here a block of queries goes through all steps at once, and only its weights are stored. Keys that no query of a
block may attend to are skipped.
"""

import math
from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from equiscope.kernels.private import transformed

ROWS = 128  # queries of a block
BLOCK = 2**21  # numbers of a block that fit the processor's cache: 8 MiB in float32
FAINT = {
    torch.float32: 1e-30,
    torch.float64: 1e-290,
}  # smaller weights are set to 0: some processors are 100 times slower with denormal numbers

Part = tuple[slice, slice, slice]  # queries; keys that some of them attend to; keys that only some of them attend to


def blockwise_attention(
    q: Tensor, k: Tensor, v: Tensor, scale: float, mask: Tensor | None = None, bias: Tensor | None = None
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """q [..., N, K], k [..., M, K], v [..., M, V] to [..., N, V] and the weights [..., N, M]; see `supports`.

    mask  bool, True = may attend; a fully masked row gives 0
    bias  added to the scaled scores
    """
    four, one = ((None,) * (4 - q.ndim), (0,) * (4 - q.ndim))
    mask, bias = (t if t is None else t[(None,) * (4 - t.ndim)] for t in (mask, bias))
    z, weights = _BlockwiseAttention.apply(q[four], k[four], v[four], bias, mask, scale)
    return z[one], weights[one]


def supports(q: Tensor, k: Tensor, v: Tensor, *tables: Tensor | None) -> bool:
    """On the CPU, up to four axes, equal leading axes; no compiler, no torch.func transform and no forward-mode derivative."""
    alike = q.shape[:-2] == k.shape[:-2] == v.shape[:-2] and all(t is None or t.ndim <= q.ndim for t in tables)
    return q.device.type == "cpu" and q.ndim <= 4 and alike and not transformed(q, k, v, *tables)


def reference(
    q: Tensor, k: Tensor, v: Tensor, scale: float, mask: Tensor | None = None, bias: Tensor | None = None
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The reference for `blockwise_attention`."""
    scores = (q * scale) @ k.mT if bias is None else (q * scale) @ k.mT + bias
    weights = torch._safe_softmax(scores if mask is None else scores.masked_fill(~mask, -math.inf), -1)
    return weights @ v, weights


class _BlockwiseAttention(torch.autograd.Function):
    """Backward reads the stored weights, block by block. Second derivatives go through `reference`."""

    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, mask: Tensor | None, scale: float
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        z = q.new_empty(q.shape[0], q.shape[2], q.shape[1], v.shape[3]).transpose(1, 2)  # heads are concatenated without a copy
        weights = q.new_empty(*q.shape[:3], k.shape[2])
        ctx.parts = list(_parts(mask, q, k))
        for rows, keys, partial in ctx.parts:
            weights[:, :, rows, : keys.start] = 0.0
            weights[:, :, rows, keys.stop :] = 0.0
            for batch in _batches(q, rows, keys):
                scores = (q[batch, :, rows] * scale) @ k[batch, :, keys].mT
                if bias is not None:
                    scores += _block_of(bias, batch, rows, keys)
                if mask is not None and partial.start < partial.stop:
                    hidden = ~_block_of(mask, batch, rows, partial)
                    scores[..., partial.start - keys.start : partial.stop - keys.start].masked_fill_(hidden, -math.inf)
                block = torch.softmax(scores, -1)
                if bias is not None:
                    F.threshold(block, FAINT.get(block.dtype, 0.0), 0.0, inplace=True)
                mixed = block @ v[batch, :, keys]
                if mixed.isnan().any():  # some query is fully masked
                    block = torch._safe_softmax(scores, -1)
                    mixed = block @ v[batch, :, keys]
                weights[batch, :, rows, keys], z[batch, :, rows] = block, mixed
        ctx.save_for_backward(q, k, v, bias, mask, z, weights)
        ctx.set_materialize_grads(False)
        ctx.scale = scale
        return z, weights

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        q, k, v, bias, mask, z, weights = ctx.saved_tensors
        if gradients == (None, None):
            return (None,) * 6
        if torch.is_grad_enabled():  # a second derivative is needed
            return *_recomputed_gradients(ctx.scale, mask, gradients, q, k, v, bias), None, None
        g, upstream_weights = gradients
        dq, dk, dv = torch.empty_like(q), torch.zeros_like(k), torch.zeros_like(v)
        d_bias = torch.zeros_like(bias) if ctx.needs_input_grad[3] else None
        for rows, keys, _ in ctx.parts:
            for batch in _batches(q, rows, keys):
                block, queries, keys_ = weights[batch, :, rows, keys], q[batch, :, rows], k[batch, :, keys]
                change = torch.zeros_like(block) if g is None else g[batch, :, rows] @ v[batch, :, keys].mT
                if g is not None:
                    dv[batch, :, keys] += block.mT @ g[batch, :, rows]
                if g is None or upstream_weights is not None:
                    change += 0.0 if upstream_weights is None else upstream_weights[batch, :, rows, keys]
                    mean = (change * block).sum(-1, keepdim=True)
                else:
                    mean = (g[batch, :, rows] * z[batch, :, rows]).sum(-1, keepdim=True)
                change.sub_(mean).mul_(block)
                dk[batch, :, keys] += change.mT @ (queries * ctx.scale)
                dq[batch, :, rows] = change @ keys_
                if d_bias is not None:
                    own = _block_of(d_bias, batch, rows, keys)
                    own += change.sum_to_size(own.shape)
        return dq.mul_(ctx.scale), dk, dv, d_bias, None, None


def _recomputed_gradients(
    scale: float, mask: Tensor | None, gradients: tuple[Tensor | None, ...], *inputs: Tensor | None
) -> list[Tensor | None]:
    """The first derivatives, differentiable again."""
    q, k, v, bias = inputs
    assert q is not None
    assert k is not None
    assert v is not None
    block = reference(q, k, v, scale, mask, bias)
    pairs = [(out, g) for out, g in zip(block, gradients, strict=True) if g is not None and out.requires_grad]
    learned = [t is not None and t.requires_grad for t in inputs]
    upstream_weights, (outputs, upstream) = [t for t in inputs if t is not None and t.requires_grad], zip(*pairs, strict=True)
    gradients_ = iter(torch.autograd.grad(outputs, upstream_weights, upstream, create_graph=True, allow_unused=True))
    return [next(gradients_) if own else None for own in learned]


def _parts(mask: Tensor | None, q: Tensor, k: Tensor) -> Iterator[Part]:
    n, m = q.shape[2], k.shape[2]
    if mask is not None:
        mask = mask.expand(*mask.shape[:2], n, m).flatten(0, 1)
    for start in range(0, n, ROWS):
        rows = slice(start, min(start + ROWS, n))
        if mask is None:
            yield rows, slice(0, m), slice(0, 0)
        else:
            pairs = mask[:, rows].flatten(0, 1)
            keys, partial = _around(pairs.any(0)), ~pairs.all(0)
            partial[: keys.start], partial[keys.stop :] = False, False
            yield rows, keys, _around(partial)


def _around(flags: Tensor) -> slice:
    """From the first True to the last."""
    index = flags.nonzero()
    return slice(int(index[0]), int(index[-1]) + 1) if len(index) else slice(0, 0)


def _batches(q: Tensor, rows: slice, keys: slice) -> Iterator[slice]:
    """Chunks of the batch that fit the processor's cache."""
    one = q.shape[1] * (rows.stop - rows.start) * (keys.stop - keys.start)
    step = max(1, BLOCK // max(one, 1))
    return (slice(b, min(b + step, q.shape[0])) for b in range(0, q.shape[0], step))


def _block_of(table: Tensor, batch: slice, rows: slice, keys: slice) -> Tensor:
    """A block of a table [B, H, N, M], any axis of which may have size 1."""
    index = (slice(None) if size == 1 else part for size, part in zip(table.shape, (batch, slice(None), rows, keys), strict=True))
    return table[tuple(index)]
