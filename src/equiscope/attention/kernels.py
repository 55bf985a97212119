"""Kernels: exact attention without the table of all weights. Each is the same function as `scores.look_up`.

fused    torch's kernel; where a bias stands beside a causal mask, its CPU form, which skips what is hidden (the public call
         takes one or the other). Biases may be learned: their gradient is made block by block, so no table of weights is kept.
flex     FlexAttention: biases and masks as functions of row numbers, compiled into the kernel. It has no backward on CPU.

What no fused kernel takes is computed step by step, some queries at a time (`chunks.chunked`).
"""

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, flex_attention

from equiscope.attention.plan import Distances
from equiscope.trace.transforms import transformed

TABLE = 2**25  # numbers of a table that is worth keeping for speed (128 MiB in float32); beyond it, blocks of rows
ROWS = 128  # queries of a block: its scores for one sequence stay in the cache
SHORT = 512  # rows up to which a table in bfloat16 is faster on a CPU than torch's kernel, forward and backward
NOTHING = {torch.float32: -40.0, torch.float64: -80.0}  # logarithm of a weight that no sum of this precision notices
FAINT = -70.0  # logarithm of a weight that no sum notices, in float64 neither; smaller ones make exp thirty times slower


def fused(
    q: Tensor, k: Tensor, v: Tensor, scale: float, seen: Tensor | None = None, causal: bool = False,
    bias: Tensor | Distances | None = None,
) -> Tensor:  # fmt: skip
    """q [..., N, K], k [..., M, K], v [..., M, V] to [..., N, V].

    seen    bool, True = may look, broadcast to [..., N, M]; a row that may look nowhere gives 0
    causal  row i looks at rows 0 .. i, besides `seen`
    bias    added to the scaled scores: a table that broadcasts to [..., N, M], or a value for each distance
    """
    if q.ndim < 4:  # without a batch torch takes the way that writes every table down
        alone = (None,) * (4 - q.ndim)
        return fused(q[alone], k[alone], v[alone], scale, seen, causal, bias)[(0,) * len(alone)]
    if bias is None:
        if learned_shortly(q, k, v):
            return in_a_table(q, k, v, scale, seen, causal)
        if seen is not None and causal:  # torch takes one or the other
            seen, causal = seen & _lower(q, k), False
        mask = None if seen is None else seen.expand(*q.shape[:-1], k.shape[-2])
        width = v.shape[-1]
        if q.device.type == "cpu" and width < q.shape[-1]:
            v = F.pad(v, (0, q.shape[-1] - width))  # or torch takes the way that writes every table down
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal, scale=scale)
        return out if out.shape[-1] == width else out[..., :width]
    held = bias.values if isinstance(bias, Distances) else bias
    if q.device.type == "cpu" and not transformed(q, k, v, held) and q.shape[-2] and k.shape[-2]:
        return _on_cpu(q, k, v, scale, seen, causal, bias)
    table = _joined(bias.table() if isinstance(bias, Distances) else bias, seen, causal, q, k)
    # other devices' kernels take a mask in the dtype of the queries only
    table = table.to(torch.promote_types(q.dtype, torch.float32)) if q.device.type == "cpu" else _narrowed(table, q.dtype)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=table, scale=scale)


def learned_shortly(q: Tensor, k: Tensor, v: Tensor) -> bool:
    """Whether bfloat16 rows on a CPU are few, and a gradient will be asked for: torch's kernel converts them again and again."""
    if q.device.type != "cpu" or q.dtype != torch.bfloat16 or torch.compiler.is_exporting():  # there a size compared is a guard
        return False
    if not _learned(q, k, v):
        return False
    if max(q.shape[-2], k.shape[-2]) > SHORT:
        return False
    return torch.compiler.is_compiling() or not transformed(q, k, v)


def _learned(*tensors: Tensor) -> bool:
    return torch.is_grad_enabled() and any(t.requires_grad for t in tensors)


def in_a_table(q: Tensor, k: Tensor, v: Tensor, scale: float, seen: Tensor | None, causal: bool) -> Tensor:
    """As `fused`, with the table of all weights in the dtype of the rows: 2 to 5 times as fast for short ones in bfloat16.

    Scores are rounded to it once more, which adds a third to the error (4e-3 instead of 3e-3 of the output, normal q, k, v).
    """
    n, m = q.shape[-2], k.shape[-2]
    hidden = q.new_full((n, m), -math.inf).triu(1) if causal else q.new_zeros((1, 1))
    if seen is not None:
        seen = seen & _lower(q, k) if causal else seen
        sighted = seen.any(-1, keepdim=True)  # where a row sees none, there is no softmax of nothing
        hidden = q.new_zeros(()).masked_fill(~seen & sighted, -math.inf).expand(*q.shape[:-1], m).reshape(-1, n, m)
    asked, held, value = (t.reshape(-1, *t.shape[-2:]) for t in (q, k, v))
    z = torch.bmm(torch.baddbmm(hidden, asked, held.mT, alpha=scale).softmax(-1), value).reshape(*q.shape[:-1], v.shape[-1])
    return z if seen is None else z.masked_fill(~sighted, 0.0)


def _narrowed(table: Tensor, dtype: torch.dtype) -> Tensor:
    """A table of scores in few digits, each row's best at 0: what is rounded then weighs little, and nothing overflows."""
    if torch.promote_types(table.dtype, dtype) == dtype:
        return table.to(dtype)
    best = table.detach().amax(-1, keepdim=True)
    return (table - best.masked_fill(best.isinf(), 0.0)).to(dtype)


def _joined(table: Tensor, seen: Tensor | None, causal: bool, q: Tensor, k: Tensor) -> Tensor:
    """A bias with what is hidden at minus infinity, [..., N, M]."""
    if causal:
        seen = _lower(q, k) if seen is None else seen & _lower(q, k)
    if seen is not None:
        table = table.masked_fill(~seen, -math.inf)
    return table.expand(*q.shape[:-1], k.shape[-2])


def _lower(q: Tensor, k: Tensor) -> Tensor:
    return torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool, device=q.device).tril()


def _on_cpu(
    q: Tensor, k: Tensor, v: Tensor, scale: float, seen: Tensor | None, causal: bool, bias: Tensor | Distances
) -> Tensor:  # fmt: skip
    """The same sequences with one batch axis and value rows as wide as keys, which is what the CPU kernel takes."""
    lead, width = q.shape[:-3], v.shape[-1]
    inner = max(width, q.shape[-1])
    q, k, v = (F.pad(t, (0, inner - t.shape[-1])) if t.shape[-1] < inner else t for t in (q, k, v))
    flat = [_in_line(t.reshape(-1, *t.shape[-3:])) for t in (q, k, v)]
    if isinstance(bias, Distances) and seen is None:
        out = _Biased.apply(*flat, bias.values, bias.rows, causal, scale)
    else:
        table = bias.table() if isinstance(bias, Distances) else bias
        table = table if seen is None else table.masked_fill(~seen, -math.inf)
        table = table.expand(*table.shape[:-2], q.shape[-2], k.shape[-2])
        table = table.expand(*lead, *table.shape[-3:]) if table.ndim > 4 else table
        table = table.reshape(-1, *table.shape[-3:]) if table.ndim > 3 else table.reshape(1, *(1,) * (3 - table.ndim), *table.shape)
        out = _Biased.apply(*flat, table, None, causal, scale)
    return out.reshape(*lead, *q.shape[-3:-1], inner)[..., :width]


def _in_line(x: Tensor) -> Tensor:
    """x with the numbers of a row one after another, as the CPU kernel takes them for granted."""
    return x if x.stride(-1) == 1 else x.contiguous()


class _Biased(torch.autograd.Function):
    """softmax(scale q k^T + bias) v on the CPU, q, k, v [B, H, N, K], with a gradient for the bias too.

    The bias is a table [1 or B, 1 or H, N, M], or (rows given) one value for each distance, [H, N + M - 1]. A fixed bias goes
    through torch's own kernel, forward and backward. A learned one needs the gradient of the scores: backward makes the
    weights again from the kept logarithms of the sums, ROWS queries of one sequence at a time, as FlashAttention does
    (Dao et al. 2022, section 3.1), and adds them up.
    """

    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, bias: Tensor, rows: int | None, causal: bool, scale: float
    ) -> Tensor:  # fmt: skip
        values = _kept(bias.detach(), rows, causal, q.dtype)
        if rows is not None and causal:
            values = _heard(values, rows, q, k, scale)
        z, total = _like(q), q.new_empty(q.shape[:-1], dtype=values.dtype)
        for heads, part, keys, table, turn in _parts(values, rows, q, k, causal, _step(rows, q, causal)):
            asked, own = turn(q[:, heads, part]), causal and rows is None
            mask = table.expand(*asked.shape[:2], *table.shape[-2:])
            out, sums = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
                asked, k[:, heads, keys], v[:, heads, keys], 0.0, own, attn_mask=mask, scale=scale
            )
            z[:, heads, part], total[:, heads, part] = turn(out), turn(sums[..., None])[..., 0]
        ctx.save_for_backward(q, k, v, z, total, values)
        ctx.rows, ctx.causal, ctx.scale, ctx.dtype = rows, causal, scale, bias.dtype
        return z

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        learned = ctx.needs_input_grad[3]
        with torch.autocast("cpu", enabled=False):
            dq, dk, dv, d_bias = (_back_learned if learned else _back_fixed)(ctx, gradients[0])
        q, k, v = ctx.saved_tensors[:3]
        return dq.to(q.dtype), dk.to(k.dtype), dv.to(v.dtype), d_bias if d_bias is None else d_bias.to(ctx.dtype), None, None, None


def _back_fixed(ctx: Any, g: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    q, k, v, z, total, values = ctx.saved_tensors
    g, dq, dk, dv = _in_line(g), _like(q), _like(k, values.dtype).zero_(), _like(v, values.dtype).zero_()
    for heads, part, keys, table, turn in _parts(values, ctx.rows, q, k, ctx.causal, _step(ctx.rows, q, ctx.causal)):
        asking, own = turn(q[:, heads, part]), ctx.causal and ctx.rows is None
        mask = table.expand(*asking.shape[:2], *table.shape[-2:])
        asked, found, value = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward(
            turn(g[:, heads, part]), asking, k[:, heads, keys], v[:, heads, keys], turn(z[:, heads, part]),
            turn(total[:, heads, part, None])[..., 0], 0.0, own, attn_mask=mask, scale=ctx.scale,
        )  # fmt: skip
        dq[:, heads, part] = turn(asked)
        dk[:, heads, keys] += found
        dv[:, heads, keys] += value
    return dq, dk, dv, None


def _back_learned(ctx: Any, g: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    q, k, v, z, total, values = ctx.saved_tensors
    q, k, v, z, g = (t.to(values.dtype) for t in (q, k, v, z, g))
    dq, dk, dv, d_bias = _like(q), _like(k).zero_(), _like(v).zero_(), torch.zeros_like(values)
    for _, part, seen, table, turn in _parts(values, ctx.rows, q, k, ctx.causal, ROWS, False):
        keys = seen.stop
        asking, coming, sums = turn(q[:, :, part]), turn(g[:, :, part]), turn(total[:, :, part, None])
        inner = (coming * turn(z[:, :, part])).sum(-1, keepdim=True)
        room = q.new_empty(q.shape[1], len(table[0, 0]), keys + len(table[0, 0]) - 1)
        room[..., keys:] = 0.0
        change = room[..., :keys]  # the gradient of the scores, with room for `_collect`
        for b in range(len(q)):
            found, value = k[b, :, :keys], v[b, :, :keys]
            own = table[b if len(table) > 1 else 0].expand(q.shape[1], -1, -1)
            weights = torch.baddbmm(own, asking[b], found.mT, alpha=ctx.scale).sub_(sums[b])
            F.threshold(weights, FAINT, -math.inf, inplace=True).exp_()
            if ctx.causal and ctx.rows is None:
                weights[..., part.start :].tril_()
            dv[b, :, :keys].baddbmm_(weights.mT, coming[b])
            torch.sub(torch.bmm(coming[b], value.mT), inner[b], out=change).mul_(weights)
            dk[b, :, :keys].baddbmm_(change.mT, asking[b], alpha=ctx.scale)
            dq[b, :, part] = turn(torch.bmm(change, found))
            _collect(d_bias, room, ctx.rows, part, keys, b)
    return dq.mul_(ctx.scale), dk, dv, d_bias


def _like(x: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """Room for [B, H, N, K] that lies in memory as [B, N, H, K], so that heads are joined without a copy."""
    return torch.empty_like(x.transpose(1, 2), dtype=dtype, memory_format=torch.contiguous_format).transpose(1, 2)


def _kept(bias: Tensor, rows: int | None, causal: bool, dtype: torch.dtype) -> Tensor:
    """The bias in float32 or better; of distances, those ahead of the query are hidden if causal."""
    wide = torch.promote_types(dtype, torch.float32)
    if rows is None or not causal:
        return bias.to(wide)
    return torch.cat([bias[:, :rows].to(wide), bias.new_full((len(bias), bias.shape[-1] - rows), -math.inf, dtype=wide)], -1)


def _heard(values: Tensor, rows: int, q: Tensor, k: Tensor, scale: float) -> Tensor:
    """Values of distances, without those that weigh nothing beside a query's own place, whatever the queries and keys here say.

    Of a bias that falls far, as ALiBi's, they would become the smallest numbers there are, with which some processors compute a
    hundred times slower.
    """
    longest = [x.detach().square().sum(-1).amax().sqrt().to(values) for x in (q, k)]
    apart = 2 * abs(scale) * longest[0] * longest[1]  # as far as two scores of a row can be without a bias
    weakest = values[:, rows - 1 : rows] - apart + NOTHING[values.dtype]
    return values.masked_fill(values < weakest, -math.inf)


def _step(rows: int | None, q: Tensor, causal: bool) -> int:
    """How many queries torch's kernel gets at once: all, but where causality is told by distances, so few that little is hidden."""
    n = q.shape[-2]
    return n if rows is None or not causal else ROWS if n <= 8 * ROWS else 2 * ROWS


def _parts(
    values: Tensor, rows: int | None, q: Tensor, k: Tensor, causal: bool, step: int, skip: bool = True
) -> Iterator[tuple[slice, slice, slice, Tensor, Callable[[Tensor], Tensor]]]:  # fmt: skip
    """Blocks of queries: which heads, rows and keys, their bias [1 or B, 1 or heads, R, keys], and how rows are to stand.

    Of distances no table is made. A table with bias[i, j] = values[j - i + N - 1] needs a step of -1 from row to row, which
    torch has not; with its rows upside down that step is +1, and the table is a view of the values. `turn` turns rows so.
    skip: heads for which a bias hides what is far have blocks of their own, without what all of their rows do not see.
    """
    n, m, whole = q.shape[-2], k.shape[-2], slice(0, q.shape[1])
    far = _far(values[:, :rows]) if rows is not None and skip and causal and len(values) == q.shape[1] else []
    for start in range(0, n, step):
        stop = min(start + step, n)
        keys = min(m, stop) if causal else m
        if rows is None:
            yield whole, slice(start, stop), slice(0, keys), values[..., start:stop, :keys], lambda x: x
            continue
        table = values[:, n - stop :].unfold(-1, keys, 1)[None, :, : stop - start]
        firsts = [max(0, start - reach) // step * step for reach in far]
        head = 0
        for first, alike in itertools.groupby(firsts):
            heads = slice(head, head + len(list(alike)))
            head = heads.stop
            yield heads, slice(start, stop), slice(first, keys), table[:, heads, :, first:], lambda x: x.flip(-2)
        if not firsts:
            yield whole, slice(start, stop), slice(0, keys), table, lambda x: x.flip(-2)


def _far(values: Tensor) -> list[int]:
    """Of each head, how many rows back something is seen: values [H, N] of distances N - 1 to 0."""
    seen = values > -math.inf
    return (seen.shape[-1] - 1 - seen.int().argmax(-1)).tolist()


def _collect(d_bias: Tensor, room: Tensor, rows: int | None, part: slice, keys: int, b: int) -> None:
    """Add the gradient of some rows of scores, the first columns of room [H, R, keys + R - 1], to that of the bias."""
    heads, few, wide = room.shape
    if rows is None:
        own = d_bias[b if len(d_bias) > 1 else 0][..., part, :keys]
        own += room[..., :keys].sum_to_size(own.shape)
    else:  # one step less from row to row, and what belongs to one distance stands in one column
        d_bias[:, rows - part.stop :][:, :wide] += room.as_strided((heads, few, wide), (few * wide, wide - 1, 1)).sum(1)


# --- other ways -------------------------------------------------------------------------------------------------------
def flex(
    q: Tensor, k: Tensor, v: Tensor, scale: float, mask: BlockMask | None, bias: Callable[..., Tensor] | None, compiled: bool,
) -> Tensor:  # fmt: skip
    """q [..., H, N, K] to [..., H, N, V]; bias(score, b, h, i, j) speaks of one pair of rows."""
    lead, heads = q.shape[:-3], q.shape[-3]
    flat = [t.reshape(-1, *t.shape[-3:]) for t in (q, k, v)]
    kernel: Any = torch.compile(flex_attention) if compiled else flex_attention
    out = kernel(*flat, score_mod=bias, block_mask=mask, scale=scale)
    return out.reshape(*lead, heads, q.shape[-2], v.shape[-1])
