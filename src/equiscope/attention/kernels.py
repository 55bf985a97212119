"""Kernels: exact attention without the table of all weights. Each is the same function as `scores.look_up`.

fused    torch's kernel; where a bias stands beside a causal mask, its CPU form, which skips what is hidden (the public call
         takes one or the other). Biases may be learned: their gradient is made block by block, so no table of weights is kept.
flex     FlexAttention: biases and masks as functions of row numbers, compiled into the kernel. It has no backward on CPU.
chunked  some queries at a time, step by step: for everything that no fused kernel takes.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.utils.checkpoint import checkpoint

from equiscope.attention.plan import Distances

TABLE = 2**25  # numbers of a table that is worth keeping for speed (128 MiB in float32); beyond it, blocks of rows
ROWS = 128  # queries of a block: its scores for one sequence stay in the cache


def fused(
    q: Tensor, k: Tensor, v: Tensor, scale: float, seen: Tensor | None = None, causal: bool = False,
    bias: Tensor | Distances | None = None,
) -> Tensor:  # fmt: skip
    """q [..., N, K], k [..., M, K], v [..., M, V] to [..., N, V].

    seen    bool, True = may look, broadcast to [..., N, M]; a row that may look nowhere gives 0
    causal  row i looks at rows 0 .. i, besides `seen`
    bias    added to the scaled scores: a table that broadcasts to [..., N, M], or a value for each distance
    """
    if bias is None:
        mask = None if seen is None else seen.expand(*q.shape[:-1], k.shape[-2])
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal, scale=scale)
    if q.ndim > 2 and q.device.type == "cpu" and not torch.compiler.is_compiling() and q.shape[-2] and k.shape[-2]:
        return _on_cpu(q, k, v, scale, seen, causal, bias)
    table = bias.table() if isinstance(bias, Distances) else bias
    return F.scaled_dot_product_attention(q, k, v, attn_mask=_joined(table.to(q.dtype), seen, causal, q, k), scale=scale)


def _joined(table: Tensor, seen: Tensor | None, causal: bool, q: Tensor, k: Tensor) -> Tensor:
    """A bias with what is hidden at minus infinity, [..., N, M]."""
    if causal:
        lower = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool, device=q.device).tril()
        seen = lower if seen is None else seen & lower
    if seen is not None:
        table = table.masked_fill(~seen, -math.inf)
    return table.expand(*q.shape[:-1], k.shape[-2])


def _on_cpu(
    q: Tensor, k: Tensor, v: Tensor, scale: float, seen: Tensor | None, causal: bool, bias: Tensor | Distances
) -> Tensor:  # fmt: skip
    """The same sequences with one batch axis and value rows as wide as keys, which is what the CPU kernel takes."""
    lead, width = q.shape[:-3], v.shape[-1]
    inner = max(width, q.shape[-1])
    q, k, v = (F.pad(t, (0, inner - t.shape[-1])) if t.shape[-1] < inner else t for t in (q, k, v))
    flat = [t.reshape(-1, *t.shape[-3:]) for t in (q, k, v)]
    if isinstance(bias, Distances) and seen is None:
        out = _Biased.apply(*flat, bias.values, bias.rows, causal, scale)
    else:
        table = bias.table() if isinstance(bias, Distances) else bias
        table = table if seen is None else table.masked_fill(~seen, -math.inf)
        table = table.expand(*lead, *table.shape[-3:]) if table.ndim > 4 else table
        table = table.reshape(-1, *table.shape[-3:]) if table.ndim > 3 else table.reshape(1, *(1,) * (3 - table.ndim), *table.shape)
        out = _Biased.apply(*flat, table, None, causal, scale)
    return out.reshape(*lead, *q.shape[-3:-1], inner)[..., :width]


class _Biased(torch.autograd.Function):
    """softmax(scale q k^T + bias) v on the CPU, q, k, v [B, H, N, K], with a gradient for the bias too.

    The bias is a table [1 or B, 1 or H, N, M], or (rows given) one value for each distance, [H, N + M - 1]. Forward is
    torch's own kernel. Backward makes the weights again from the kept logarithms of the sums, ROWS queries of one sequence
    at a time, as FlashAttention does (Dao et al. 2022, section 3.1), and adds the gradient of the scores up into the bias.
    """

    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, bias: Tensor, rows: int | None, causal: bool, scale: float
    ) -> Tensor:  # fmt: skip
        values = bias.detach()
        out, sums = [], []
        for start, stop, table in _tables(values, rows, q, k, causal):
            keys = k.shape[-2] if not causal or stop == q.shape[-2] else stop
            mask = table[..., :keys].to(q.dtype).expand(*q.shape[:2], stop - start, keys)
            whole = start == 0 and stop == q.shape[-2]
            if causal and not whole:
                mask = mask.masked_fill(_ahead(start, stop, keys, q.device), -math.inf)
            z, total = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
                q[:, :, start:stop], k[:, :, :keys], v[:, :, :keys], 0.0, causal and whole, attn_mask=mask, scale=scale
            )
            out.append(z)
            sums.append(total)
        z, total = (torch.cat(out, -2), torch.cat(sums, -1)) if len(out) > 1 else (out[0], sums[0])
        ctx.save_for_backward(q, k, v, z, total, bias)
        ctx.rows, ctx.causal, ctx.scale = rows, causal, scale
        return z

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, z, total, bias = ctx.saved_tensors
        wide = torch.promote_types(q.dtype, torch.float32)
        g = gradients[0].to(wide)
        inner = (g * z.to(wide)).sum(-1, keepdim=True)
        dq, dk, dv = torch.empty_like(q, dtype=wide), torch.zeros_like(k, dtype=wide), torch.zeros_like(v, dtype=wide)
        d_bias = torch.zeros_like(bias, dtype=wide) if ctx.needs_input_grad[3] else None
        n, m = q.shape[-2], k.shape[-2]
        for start in range(0, n, ROWS):
            stop = min(start + ROWS, n)
            keys = min(m, stop) if ctx.causal else m
            table = _rows(bias, ctx.rows, start, stop, m)[..., :keys].to(wide)
            hidden = _ahead(start, stop, keys, q.device) if ctx.causal else None
            for b in range(len(q)):
                asked, found, value = q[b, :, start:stop].to(wide), k[b, :, :keys].to(wide), v[b, :, :keys].to(wide)
                own = table if table.ndim == 3 else table[b if len(table) > 1 else 0]
                weights = torch.baddbmm(own.expand(len(asked), -1, -1), asked, found.mT, alpha=ctx.scale)
                weights.sub_(total[b, :, start:stop, None]).exp_()
                if hidden is not None:
                    weights.masked_fill_(hidden, 0.0)
                if ctx.rows is None:  # a table may hide a whole row, whose sum is then 0 and its logarithm none
                    weights.nan_to_num_(0.0, 0.0, 0.0)
                dv[b, :, :keys].baddbmm_(weights.mT, g[b, :, start:stop])
                change = torch.bmm(g[b, :, start:stop], value.mT).sub_(inner[b, :, start:stop]).mul_(weights)
                dk[b, :, :keys].baddbmm_(change.mT, asked, alpha=ctx.scale)
                dq[b, :, start:stop] = torch.bmm(change, found)
                if d_bias is not None:
                    _collect(d_bias, change, ctx.rows, start, stop, keys, b)
        made = [dq.mul_(ctx.scale).to(q.dtype), dk.to(k.dtype), dv.to(v.dtype), d_bias if d_bias is None else d_bias.to(bias.dtype)]
        return *made, None, None, None


def _tables(values: Tensor, rows: int | None, q: Tensor, k: Tensor, causal: bool) -> Iterator[tuple[int, int, Tensor]]:
    """All rows at once where their table is small enough, else blocks of them."""
    n, m = q.shape[-2], k.shape[-2]
    step = n if rows is None or values.shape[0] * n * m <= TABLE else 4 * ROWS
    for start in range(0, n, step):
        stop = min(start + step, n)
        yield start, stop, _rows(values, rows, start, stop, m)


def _rows(bias: Tensor, rows: int | None, start: int, stop: int, keys: int) -> Tensor:
    if rows is None:
        return bias[..., start:stop, :]
    return Distances(bias, rows).table(start, stop)


def _ahead(start: int, stop: int, keys: int, device: torch.device) -> Tensor:
    """Keys that come after the query: bool [R, keys]."""
    return torch.arange(keys, device=device) > torch.arange(start, stop, device=device)[:, None]


def _collect(d_bias: Tensor, change: Tensor, rows: int | None, start: int, stop: int, keys: int, b: int) -> None:
    """Add the gradient of some rows of scores [H, R, keys] to that of the bias."""
    if rows is None:
        own = d_bias if d_bias.ndim == 3 else d_bias[b if len(d_bias) > 1 else 0]
        own[..., start:stop, :keys] += change.sum_to_size(*own.shape[:-2], *change.shape[-2:])
        return
    heads, few, _ = change.shape  # turned upside down and padded, the diagonals of the block stand above one another
    skewed = F.pad(change.flip(-2), (0, few)).reshape(heads, -1)[:, : few * (keys + few - 1)].reshape(heads, few, -1)
    d_bias[:, rows - stop : rows - stop + keys + few - 1] += skewed.sum(1)


# --- other ways -------------------------------------------------------------------------------------------------------
def flex(
    q: Tensor, k: Tensor, v: Tensor, scale: float, seen: Callable[..., Tensor] | None, bias: Callable[..., Tensor] | None,
    compiled: bool,
) -> Tensor:  # fmt: skip
    """q [..., H, N, K] to [..., H, N, V]; seen(b, h, i, j) and bias(score, b, h, i, j) speak of one pair of rows."""
    lead, heads = q.shape[:-3], q.shape[-3]
    flat = [t.reshape(-1, *t.shape[-3:]) for t in (q, k, v)]
    mask = None
    if seen is not None:
        mask = create_block_mask(seen, len(flat[0]), None, q.shape[-2], k.shape[-2], device=str(q.device))
    kernel: Any = torch.compile(flex_attention, dynamic=False) if compiled else flex_attention
    out = kernel(*flat, score_mod=bias, block_mask=mask, scale=scale)
    return out.reshape(*lead, heads, q.shape[-2], v.shape[-1])


def chunked(attend: Callable[[int, int], Tensor], rows: int, size: int = 256) -> Tensor:
    """attend(start, stop) for a few queries at a time, made again for the backward pass: memory grows with `size` alone."""
    parts = [(start, min(start + size, rows)) for start in range(0, rows, size)] or [(0, 0)]
    if torch.is_grad_enabled():
        return torch.cat([checkpoint(attend, *part, use_reentrant=False) for part in parts], -2)
    return torch.cat([attend(*part) for part in parts], -2)
