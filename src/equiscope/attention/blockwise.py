"""Shown: the look-up with its weights in sight, at speed on the CPU. The same function as `scores.look` step by step.

A table of weights for every step (products, scaled, hidden, shared out; and again on the way back) costs more to write down than
to compute. Here some queries go through all steps at a time, and only their weights are kept; what no query of a block may see
is not computed.
"""

import math
from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from equiscope.kernels.private import transformed

ROWS = 128  # queries of a block
BLOCK = 2**21  # numbers of a block that stay in the cache: 8 MiB in float32
FAINT = {
    torch.float32: 1e-30,
    torch.float64: 1e-290,
}  # weights below are 0: with the smallest numbers some processors take 100 times as long

Part = tuple[slice, slice, slice]  # some queries; the keys that some of them see; those of these that not all of them see


def blockwise_attention(
    q: Tensor, k: Tensor, v: Tensor, scale: float, mask: Tensor | None = None, bias: Tensor | None = None
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """q [..., N, K], k [..., M, K], v [..., M, V] to [..., N, V] and the weights [..., N, M]; what it takes, `takes` says.

    seen  bool, True = may look; a row that may look nowhere gives 0
    bias  added to the scaled scores
    """
    four, one = ((None,) * (4 - q.ndim), (0,) * (4 - q.ndim))
    mask, bias = (t if t is None else t[(None,) * (4 - t.ndim)] for t in (mask, bias))
    z, weights = _BlockwiseAttention.apply(q[four], k[four], v[four], bias, mask, scale)
    return z[one], weights[one]


def supports(q: Tensor, k: Tensor, v: Tensor, *tables: Tensor | None) -> bool:
    """On the CPU, up to four axes, leading ones alike; no compiler, no torch.func and no forward derivative at work."""
    alike = q.shape[:-2] == k.shape[:-2] == v.shape[:-2] and all(t is None or t.ndim <= q.ndim for t in tables)
    return q.device.type == "cpu" and q.ndim <= 4 and alike and not transformed(q, k, v, *tables)


def reference(
    q: Tensor, k: Tensor, v: Tensor, scale: float, mask: Tensor | None = None, bias: Tensor | None = None
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """What `shown` computes, in the fewest words."""
    scores = (q * scale) @ k.mT if bias is None else (q * scale) @ k.mT + bias
    weights = torch._safe_softmax(scores if mask is None else scores.masked_fill(~mask, -math.inf), -1)
    return weights @ v, weights


class _BlockwiseAttention(torch.autograd.Function):
    """Backward reads the weights that were kept, block by block. Second derivatives go through `in_steps`."""

    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, mask: Tensor | None, scale: float
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        z = q.new_empty(q.shape[0], q.shape[2], q.shape[1], v.shape[3]).transpose(1, 2)  # heads are joined without a copy
        weights = q.new_empty(*q.shape[:3], k.shape[2])
        ctx.parts = list(_parts(mask, q, k))
        for rows, keys, unsure in ctx.parts:
            weights[:, :, rows, : keys.start] = 0.0
            weights[:, :, rows, keys.stop :] = 0.0
            for few in _few(q, rows, keys):
                scores = (q[few, :, rows] * scale) @ k[few, :, keys].mT
                if bias is not None:
                    scores += _of(bias, few, rows, keys)
                if mask is not None and unsure.start < unsure.stop:
                    hidden = ~_of(mask, few, rows, unsure)
                    scores[..., unsure.start - keys.start : unsure.stop - keys.start].masked_fill_(hidden, -math.inf)
                made = torch.softmax(scores, -1)
                if bias is not None:
                    F.threshold(made, FAINT.get(made.dtype, 0.0), 0.0, inplace=True)
                mixed = made @ v[few, :, keys]
                if mixed.isnan().any():  # some query may look nowhere
                    made = torch._safe_softmax(scores, -1)
                    mixed = made @ v[few, :, keys]
                weights[few, :, rows, keys], z[few, :, rows] = made, mixed
        ctx.save_for_backward(q, k, v, bias, mask, z, weights)
        ctx.set_materialize_grads(False)
        ctx.scale = scale
        return z, weights

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        q, k, v, bias, mask, z, weights = ctx.saved_tensors
        if gradients == (None, None):
            return (None,) * 6
        if torch.is_grad_enabled():  # somebody wants a second derivative
            return *_recomputed_gradients(ctx.scale, mask, gradients, q, k, v, bias), None, None
        g, wanted = gradients
        dq, dk, dv = torch.empty_like(q), torch.zeros_like(k), torch.zeros_like(v)
        d_bias = torch.zeros_like(bias) if ctx.needs_input_grad[3] else None
        for rows, keys, _ in ctx.parts:
            for few in _few(q, rows, keys):
                made, asked, found = weights[few, :, rows, keys], q[few, :, rows], k[few, :, keys]
                change = torch.zeros_like(made) if g is None else g[few, :, rows] @ v[few, :, keys].mT
                if g is not None:
                    dv[few, :, keys] += made.mT @ g[few, :, rows]
                if g is None or wanted is not None:
                    change += 0.0 if wanted is None else wanted[few, :, rows, keys]
                    mean = (change * made).sum(-1, keepdim=True)
                else:
                    mean = (g[few, :, rows] * z[few, :, rows]).sum(-1, keepdim=True)
                change.sub_(mean).mul_(made)
                dk[few, :, keys] += change.mT @ (asked * ctx.scale)
                dq[few, :, rows] = change @ found
                if d_bias is not None:
                    own = _of(d_bias, few, rows, keys)
                    own += change.sum_to_size(own.shape)
        return dq.mul_(ctx.scale), dk, dv, d_bias, None, None


def _recomputed_gradients(
    scale: float, mask: Tensor | None, gradients: tuple[Tensor | None, ...], *inputs: Tensor | None
) -> list[Tensor | None]:
    """The first derivatives as something that can be derived once more."""
    q, k, v, bias = inputs
    assert q is not None
    assert k is not None
    assert v is not None
    made = reference(q, k, v, scale, mask, bias)
    pairs = [(out, g) for out, g in zip(made, gradients, strict=True) if g is not None and out.requires_grad]
    learned = [t is not None and t.requires_grad for t in inputs]
    wanted, (outputs, given) = [t for t in inputs if t is not None and t.requires_grad], zip(*pairs, strict=True)
    found = iter(torch.autograd.grad(outputs, wanted, given, create_graph=True, allow_unused=True))
    return [next(found) if own else None for own in learned]


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
            keys, unsure = _around(pairs.any(0)), ~pairs.all(0)
            unsure[: keys.start], unsure[keys.stop :] = False, False
            yield rows, keys, _around(unsure)


def _around(flags: Tensor) -> slice:
    """From the first True to the last."""
    index = flags.nonzero()
    return slice(int(index[0]), int(index[-1]) + 1) if len(index) else slice(0, 0)


def _few(q: Tensor, rows: slice, keys: slice) -> Iterator[slice]:
    """Some sequences of the batch at a time: as many as stay in the cache."""
    one = q.shape[1] * (rows.stop - rows.start) * (keys.stop - keys.start)
    step = max(1, BLOCK // max(one, 1))
    return (slice(b, min(b + step, q.shape[0])) for b in range(0, q.shape[0], step))


def _of(table: Tensor, few: slice, rows: slice, keys: slice) -> Tensor:
    """A block of a table [B, H, N, M], any of whose axes may be 1."""
    index = (slice(None) if size == 1 else part for size, part in zip(table.shape, (few, slice(None), rows, keys), strict=True))
    return table[tuple(index)]
