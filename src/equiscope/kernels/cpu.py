"""Attention with a bias on a CPU, forward and backward, without the matrix of all weights.

torch's public call takes a causal mask or a bias, not both, and writes the full matrix if the bias needs a gradient. Here
  forward   torch's CPU kernel runs on blocks of queries, on those keys only that the causal mask or the bias leaves
  backward  is torch's own for a fixed bias; for a learned one the weights are recomputed, block by block, from the stored
            logarithms of the softmax's sums (Dao et al. 2022, "FlashAttention", section 3.1)
A bias by distance needs no table: with its rows in reverse order the table is a view of its values.
"""

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from equiscope.kernels import private
from equiscope.kernels.bias import DistanceBias, dense, masked
from equiscope.kernels.private import overridable

ROWS = 128  # queries of a block: its scores for one sequence stay in the cache
NEGLIGIBLE = {torch.float32: -40.0, torch.float64: -80.0}  # logarithm of a weight that no sum of this precision notices
FAINT = -70.0  # logarithm of a weight that no sum notices, in float64 neither; smaller ones make exp thirty times slower

Block = tuple[slice, slice, slice, Tensor, Callable[[Tensor], Tensor]]  # heads, rows, keys, bias, how rows are ordered


def supports(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | DistanceBias) -> bool:
    """On a CPU, with at least one query and key, without compiler or transforms."""
    if q.device.type != "cpu" or not q.shape[-2] or not k.shape[-2] or private.flash is None or private.flash_backward is None:
        return False
    return not private.transformed(q, k, v, bias.values if isinstance(bias, DistanceBias) else bias)


@overridable
def biased_attention(
    q: Tensor, k: Tensor, v: Tensor, scale: float, mask: Tensor | None, causal: bool, bias: Tensor | DistanceBias
) -> Tensor:  # fmt: skip
    """q [..., H, N, K], k [..., H, M, K], v [..., H, M, V] to [..., H, N, V]."""
    lead, value_width = q.shape[:-3], v.shape[-1]
    width = max(value_width, q.shape[-1])  # the kernel takes values as wide as keys
    q, k, v = (F.pad(x, (0, width - x.shape[-1])) if x.shape[-1] < width else x for x in (q, k, v))
    flat = [_row_major(x.reshape(-1, *x.shape[-3:])) for x in (q, k, v)]
    if isinstance(bias, DistanceBias) and mask is None:
        output = _BiasedAttention.apply(*flat, bias.values, bias.rows, causal, scale)
    else:
        table = masked(dense(bias), mask)
        table = table.expand(*table.shape[:-2], q.shape[-2], k.shape[-2])
        table = table.expand(*lead, *table.shape[-3:]) if table.ndim > 4 else table
        table = table.reshape(-1, *table.shape[-3:]) if table.ndim > 3 else table.reshape(1, *(1,) * (3 - table.ndim), *table.shape)
        output = _BiasedAttention.apply(*flat, table, None, causal, scale)
    return output.reshape(*lead, *q.shape[-3:-1], width)[..., :value_width]


class _BiasedAttention(torch.autograd.Function):
    """softmax(scale Q K^T + bias) V, q, k, v [B, H, N, K].

    The bias is a table [1 or B, 1 or H, N, M], or (rows given) one value for each distance, [H, N + M - 1].
    """

    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, bias: Tensor, rows: int | None, causal: bool, scale: float
    ) -> Tensor:  # fmt: skip
        values = _wide(bias.detach(), rows, causal, q.dtype)
        if rows is not None and causal:
            values = _without_negligible(values, rows, q, k, scale)
        output, log_sums = _room_like(q), q.new_empty(q.shape[:-1], dtype=values.dtype)
        for heads, part, keys, table, order in _blocks(values, rows, q, k, causal, _step(rows, q, causal)):
            queries, triangle = order(q[:, heads, part]), causal and rows is None
            mask = table.expand(*queries.shape[:2], *table.shape[-2:])
            z, sums = private.flash(queries, k[:, heads, keys], v[:, heads, keys], 0.0, triangle, attn_mask=mask, scale=scale)
            output[:, heads, part], log_sums[:, heads, part] = order(z), order(sums[..., None])[..., 0]
        ctx.save_for_backward(q, k, v, output, log_sums, values)
        ctx.rows, ctx.causal, ctx.scale, ctx.dtype = rows, causal, scale, bias.dtype
        return output

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        learned = ctx.needs_input_grad[3]
        with torch.autocast("cpu", enabled=False):
            dq, dk, dv, d_bias = (_backward_learned if learned else _backward_fixed)(ctx, gradients[0])
        q, k, v = ctx.saved_tensors[:3]
        return dq.to(q.dtype), dk.to(k.dtype), dv.to(v.dtype), d_bias if d_bias is None else d_bias.to(ctx.dtype), None, None, None


def _backward_fixed(ctx: Any, g: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    q, k, v, output, log_sums, values = ctx.saved_tensors
    g, dq, dk, dv = _row_major(g), _room_like(q), _room_like(k, values.dtype).zero_(), _room_like(v, values.dtype).zero_()
    for heads, part, keys, table, order in _blocks(values, ctx.rows, q, k, ctx.causal, _step(ctx.rows, q, ctx.causal)):
        queries, triangle = order(q[:, heads, part]), ctx.causal and ctx.rows is None
        mask = table.expand(*queries.shape[:2], *table.shape[-2:])
        of_queries, of_keys, of_values = private.flash_backward(
            order(g[:, heads, part]), queries, k[:, heads, keys], v[:, heads, keys], order(output[:, heads, part]),
            order(log_sums[:, heads, part, None])[..., 0], 0.0, triangle, attn_mask=mask, scale=ctx.scale,
        )  # fmt: skip
        dq[:, heads, part] = order(of_queries)
        dk[:, heads, keys] += of_keys
        dv[:, heads, keys] += of_values
    return dq, dk, dv, None


def _backward_learned(ctx: Any, g: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    q, k, v, output, log_sums, values = ctx.saved_tensors
    q, k, v, output, g = (x.to(values.dtype) for x in (q, k, v, output, g))
    dq, dk, dv, d_bias = _room_like(q), _room_like(k).zero_(), _room_like(v).zero_(), torch.zeros_like(values)
    for _, part, columns, table, order in _blocks(values, ctx.rows, q, k, ctx.causal, ROWS, by_reach=False):
        keys = columns.stop
        queries, upstream, sums = order(q[:, :, part]), order(g[:, :, part]), order(log_sums[:, :, part, None])
        inner = (upstream * order(output[:, :, part])).sum(-1, keepdim=True)
        room = q.new_empty(q.shape[1], len(table[0, 0]), keys + len(table[0, 0]) - 1)
        room[..., keys:] = 0.0
        d_scores = room[..., :keys]  # with room for `_add_to_bias`
        for b in range(len(q)):
            block_k, block_v = k[b, :, :keys], v[b, :, :keys]
            bias = table[b if len(table) > 1 else 0].expand(q.shape[1], -1, -1)
            weights = torch.baddbmm(bias, queries[b], block_k.mT, alpha=ctx.scale).sub_(sums[b])
            F.threshold(weights, FAINT, -math.inf, inplace=True).exp_()
            if ctx.causal and ctx.rows is None:
                weights[..., part.start :].tril_()
            dv[b, :, :keys].baddbmm_(weights.mT, upstream[b])
            torch.sub(torch.bmm(upstream[b], block_v.mT), inner[b], out=d_scores).mul_(weights)
            dk[b, :, :keys].baddbmm_(d_scores.mT, queries[b], alpha=ctx.scale)
            dq[b, :, part] = order(torch.bmm(d_scores, block_k))
            _add_to_bias(d_bias, room, ctx.rows, part, keys, b)
    return dq.mul_(ctx.scale), dk, dv, d_bias


def _row_major(x: Tensor) -> Tensor:
    """x with the numbers of a row one after another, as the CPU kernel takes them for granted."""
    return x if x.stride(-1) == 1 else x.contiguous()


def _room_like(x: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """An empty [B, H, N, K] that lies in memory as [B, N, H, K], so that heads are joined without a copy."""
    return torch.empty_like(x.transpose(1, 2), dtype=dtype, memory_format=torch.contiguous_format).transpose(1, 2)


def _wide(bias: Tensor, rows: int | None, causal: bool, dtype: torch.dtype) -> Tensor:
    """The bias in float32 or better; by distance, what lies ahead of the query is masked if causal."""
    wide = torch.promote_types(dtype, torch.float32)
    if rows is None or not causal:
        return bias.to(wide)
    return torch.cat([bias[:, :rows].to(wide), bias.new_full((len(bias), bias.shape[-1] - rows), -math.inf, dtype=wide)], -1)


def _without_negligible(values: Tensor, rows: int, q: Tensor, k: Tensor, scale: float) -> Tensor:
    """Values by distance, masked where their weights are negligible beside distance 0, whatever these queries and keys are.

    Of a bias that falls far, such as ALiBi's, those weights would be denormal numbers, with which some processors compute a
    hundred times slower.
    """
    longest = [x.detach().square().sum(-1).amax().sqrt().to(values) for x in (q, k)]
    spread = 2 * abs(scale) * longest[0] * longest[1]  # the largest difference of two scores of a row without a bias
    smallest = values[:, rows - 1 : rows] - spread + NEGLIGIBLE[values.dtype]
    return values.masked_fill(values < smallest, -math.inf)


def _step(rows: int | None, q: Tensor, causal: bool) -> int:
    """How many queries torch's kernel gets at once: all, but where distances say what is causal, so few that little is masked."""
    n = q.shape[-2]
    return n if rows is None or not causal else ROWS if n <= 8 * ROWS else 2 * ROWS


def _blocks(
    values: Tensor, rows: int | None, q: Tensor, k: Tensor, causal: bool, step: int, by_reach: bool = True
) -> Iterator[Block]:  # fmt: skip
    """Blocks of queries: which heads, rows and keys, their bias [1 or B, 1 or heads, R, keys], and how rows are ordered.

    By distance no table is made. A table with bias[i, j] = values[j - i + N - 1] needs a stride of -1 from row to row, which torch
    does not have; with its rows reversed the stride is +1, and the table is a view of the values. `order` reverses rows so.
    by_reach  heads whose bias masks what is far have blocks of their own, without keys that all of their rows have masked
    """
    n, m, all_heads = q.shape[-2], k.shape[-2], slice(0, q.shape[1])
    reach = _reach(values[:, :rows]) if rows is not None and by_reach and causal and len(values) == q.shape[1] else []
    for start in range(0, n, step):
        stop = min(start + step, n)
        keys = min(m, stop) if causal else m
        if rows is None:
            yield all_heads, slice(start, stop), slice(0, keys), values[..., start:stop, :keys], lambda x: x
            continue
        table = values[:, n - stop :].unfold(-1, keys, 1)[None, :, : stop - start]
        firsts = [max(0, start - far) // step * step for far in reach]
        head = 0
        for first, alike in itertools.groupby(firsts):
            heads = slice(head, head + len(list(alike)))
            head = heads.stop
            yield heads, slice(start, stop), slice(first, keys), table[:, heads, :, first:], lambda x: x.flip(-2)
        if not firsts:
            yield all_heads, slice(start, stop), slice(0, keys), table, lambda x: x.flip(-2)


def _reach(values: Tensor) -> list[int]:
    """Of each head, how many rows back its bias is not minus infinity: values [H, N] of distances N - 1 to 0."""
    open_ = values > -math.inf
    return (open_.shape[-1] - 1 - open_.int().argmax(-1)).tolist()


def _add_to_bias(d_bias: Tensor, room: Tensor, rows: int | None, part: slice, keys: int, b: int) -> None:
    """Add the gradient of some rows of scores, the first columns of room [H, R, keys + R - 1], to that of the bias."""
    heads, count, columns = room.shape
    if rows is None:
        own = d_bias[b if len(d_bias) > 1 else 0][..., part, :keys]
        own += room[..., :keys].sum_to_size(own.shape)
    else:  # a stride one shorter from row to row puts what belongs to one distance into one column
        by_distance = room.as_strided((heads, count, columns), (count * columns, columns - 1, 1)).sum(1)
        d_bias[:, rows - part.stop :][:, :columns] += by_distance
