"""Attended: queries, keys, values, scale, bias and mask of each attention of a model on one input, and the weights recomputed.

    weights[h, n, m] = softmax over m of (scale · q[h, n]·k[g, m] + bias[h, n, m]), over the m that n may attend to

Queries and keys are recorded below torch's functions; scale, bias and mask follow from the recorded scores, or from the arguments
of a fused kernel. Recomputed in float64, the weights must reproduce the model's output: the difference is measured.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from equiscope.errors import InputError
from equiscope.program.attended.calls import AttentionCall, recorded_calls

MASKED = -1e4  # a score below it is masked
EXACT = 1e-5  # of the largest score: residual of scores in float32 that are explained
NEAR = 0.1  # how far weights may change between the softmax and the product with the values
ROWS, PAIRS = 256, 2**22  # rows and pairs of a chunk
TRUSTED = 1e-3  # of the largest output: with a larger error the tensors are not trusted


@dataclass
class Attended:
    """One attention of one sequence.

    q [H, N, K], k [G, M, K], v [G, M, V]; bias, mask [1 or H, 1 or N, M] or None; sink [H] or None
    mask                  True: may attend
    weights               [H, N, M], where the model computed them explicitly; output: [H, N, V], A·V
    instances             number of sequences or windows that it ran on, of which this is the first
    reconstruction_error  max |A·V − output| / max |output|; None where the output is not known
    """

    module: str
    q: Tensor
    k: Tensor
    v: Tensor | None
    scale: float
    causal: bool = False
    cap: float = 0.0
    bias: Tensor | None = None
    mask: Tensor | None = None
    sink: Tensor | None = None
    weights: Tensor | None = None
    output: Tensor | None = None
    instances: int = 1
    reconstruction_error: float | None = None

    @property
    def heads(self) -> int:
        return len(self.q)

    @property
    def trusted(self) -> bool:
        """Whether the recomputed weights reproduce the model's output."""
        return self.reconstruction_error is not None and self.reconstruction_error < TRUSTED

    def allowed(self, head: int, rows: Tensor | None = None, columns: int | None = None) -> Tensor:
        """Which pairs may attend, causal mask included. rows: only these, by index; columns: only the first. Bool [N, M]."""
        n, m = self.q.shape[-2], self.k.shape[-2]
        rows, c = torch.arange(n) if rows is None else rows, m if columns is None else columns
        mask = torch.arange(c)[None, :] <= rows[:, None] + m - n if self.causal else torch.ones(len(rows), c, dtype=torch.bool)
        return mask if self.mask is None else mask & _rows_of(self.mask, head, rows)[:, :c]

    def scores(
        self, head: int, rows: Tensor | None = None, dtype: torch.dtype = torch.float64, columns: int | None = None
    ) -> Tensor:
        """The scores of a head before the mask. [N, M]."""
        rows = torch.arange(self.q.shape[-2]) if rows is None else rows
        key = self.k[head * len(self.k) // self.heads][:columns].to(dtype)
        scores = (self.q[head][rows].to(dtype) @ key.T).mul_(self.scale)
        scores = self.cap * torch.tanh(scores / self.cap) if self.cap else scores
        return scores if self.bias is None else scores + _rows_of(self.bias, head, rows)[:, :columns].to(dtype)

    def recomputed_weights(
        self, head: int, rows: Tensor | None = None, dtype: torch.dtype = torch.float64, columns: int | None = None
    ) -> Tensor:
        """The weights of a head, recomputed from q and k; 0 in a row that may attend to nothing. [N, M]."""
        scores, mask = self.scores(head, rows, dtype, columns), self.allowed(head, rows, columns)
        scores, width = scores.masked_fill_(~mask, -torch.inf), scores.shape[-1]
        if self.sink is not None:
            scores = torch.cat([scores, self.sink[head].to(dtype).expand(len(scores), 1)], -1)
        weights = torch.softmax(scores, -1)[:, :width]
        return weights if bool(mask.any(-1).all()) else weights.nan_to_num_(0.0)

    def row_chunks(self, pairs: int = PAIRS) -> Iterator[tuple[Tensor, int]]:
        """Chunks of row indices of at most `pairs` pairs, each with the number of columns that it may attend to."""
        n, m = self.q.shape[-2], self.k.shape[-2]
        for rows in torch.arange(n).split(max(1, min(ROWS, pairs // m))):
            yield rows, min(m, max(1, int(rows[-1]) + 1 + m - n)) if self.causal else m

    def best_weights(
        self, head: int, rows: Tensor | None = None, dtype: torch.dtype = torch.float64, columns: int | None = None
    ) -> Tensor:
        """Recomputed weights where they are trusted, else the weights that the model computed. [N, M]."""
        if self.trusted or self.weights is None:
            return self.recomputed_weights(head, rows, dtype, columns)
        own = self.weights[head] if rows is None else self.weights[head][rows]
        return own[:, :columns].to(dtype)

    def difference(self, head: int, rows: Tensor, weights: Tensor) -> float:
        """Largest difference between A·V and the model's output, or, where no values were recorded, from its weights."""
        columns = weights.shape[-1]
        if self.output is not None and self.v is not None:
            value = self.v[head * len(self.v) // self.heads][:columns].to(weights.dtype)
            return (weights @ value - self.output[head][rows]).abs().max().item()
        return 0.0 if self.weights is None else (weights - self.weights[head][rows, :columns]).abs().max().item()

    def set_reconstruction_error(self, worst: float) -> None:
        """Store the error after all heads were compared: `worst` relative to the largest number of the output."""
        if self.output is not None and self.v is not None:
            size = self.output.abs().max().item()
            self.reconstruction_error = worst / size if size else worst
        elif self.weights is not None:
            self.reconstruction_error = worst


def attended(
    model: nn.Module, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None, compare: bool = True,
    on_output: Callable[[Any], None] = lambda _: None,
) -> list[Attended]:  # fmt: skip
    """Every attention that runs in `model(*args, **kwargs)`, in order, of the first sequence of the batch.

    The model's fast path is recorded as it is. Only where no attention is found (torch's own encoder layers fuse everything) the
    model runs once more with gradients on, which turns the fast path off.
    compare    measure `reconstruction_error` now; else `survey`, which reads all weights, does it
    on_output  called with the model's output in the recorded pass
    raises     InputError where no attention is found, or where the model raises
    """
    for gradients in (False, True):
        with torch.set_grad_enabled(gradients), recorded_calls(model) as steps:
            try:
                output = model(*args, **(kwargs or {}))
            except Exception as error:
                text = " ".join(str(error).split())[:240]
                raise InputError(f"{type(model).__name__} raised {type(error).__name__} on this input: {text}") from error
        attentions = list(_assembled(steps, _cap(model)))
        if attentions:
            on_output(output)
            return [with_reconstruction_error(one) for one in attentions] if compare else attentions
    raise InputError(
        f"No attention was found in {type(model).__name__}: neither scaled_dot_product_attention nor a softmax over products of "
        "queries and keys. Convolutional, recurrent and linear-attention models have none; give a model that attends."
    )


def _cap(model: nn.Module) -> float:
    """The cap of scores in a model's configuration, as Gemma 2 has it; 0 for none."""
    cap = getattr(getattr(model, "config", None), "attn_logit_softcapping", None)
    return float(cap) if isinstance(cap, (int, float)) else 0.0


def _rows_of(table: Tensor, head: int, rows: Tensor) -> Tensor:
    """Rows of a head in a table [1 or H, 1 or N, M]."""
    own = table[min(head, len(table) - 1)]
    return own if len(own) == 1 else own[rows]


def _assembled(steps: list[AttentionCall], cap: float) -> Iterator[Attended]:
    products: list[AttentionCall] = []  # whose softmax has not run yet: content first, then position terms, as in DeBERTa
    waiting: Attended | None = None  # it has weights and no values yet
    for step in steps:
        if step.output is not None:
            yield _fused(step)
        elif step.product is not None:
            if waiting is not None and _is_of(step, waiting):
                yield _finished(waiting, step)
                waiting = None
            else:
                products.append(step)
        elif step.scores is not None and step.weights is not None:
            product = next((p for p in products if _may_follow(p, step.scores)), None)
            if product is not None:
                if waiting is not None:
                    yield waiting
                waiting, products = _written_out(product, step.scores, step.weights, cap), []
    if waiting is not None:
        yield waiting


def _fused(step: AttentionCall) -> Attended:
    assert step.q is not None
    assert step.k is not None
    assert step.v is not None
    assert step.output is not None
    q, instances = _first(step.q)
    k, v, output = _first(step.k)[0], _first(step.v)[0], _first(step.output)[0]
    bias, mask = _split_mask(step.mask, q.shape[-2])
    scale = q.shape[-1] ** -0.5 if step.scale is None else float(step.scale)
    groups = _groups(k, v)
    attention = Attended(
        step.module, q, k[:: len(k) // groups], v[:: len(v) // groups], scale, step.causal, bias=bias, mask=mask, output=output,
        instances=instances,
    )  # fmt: skip
    return _causal(attention)


def _split_mask(mask: Tensor | None, rows: int) -> tuple[Tensor | None, Tensor | None]:
    """Bias and boolean mask from the mask of a fused kernel, which has a flag or a number for each pair."""
    if mask is None:
        return None, None
    part = mask.detach()
    while part.ndim > 3:
        part = part[0]
    part = part.reshape((1,) * (3 - part.ndim) + tuple(part.shape))
    if part.shape[-2] not in (1, rows):
        part = part[..., :rows, :]
    if part.dtype == torch.bool:
        return None, None if bool(part.all()) else part.cpu()
    return _split_bias(part.cpu().float() if part.dtype != torch.float64 else part.cpu())


def _split_bias(added: Tensor) -> tuple[Tensor | None, Tensor | None]:
    """Bias and boolean mask from numbers [., ., M] that are added to scores: None for a zero bias, and for a full mask."""
    mask = added > MASKED
    bias = added.masked_fill(~mask, 0.0)
    return (bias if bool(bias.any()) else None), (None if bool(mask.all()) else mask)


def _written_out(product: AttentionCall, scores: Tensor, weights: Tensor, cap: float) -> Attended:
    """An attention that is written out: scale, cap, bias and mask from its queries, keys and scores."""
    assert product.q is not None
    assert product.k is not None
    recorded, instances = _first(scores)
    heads, n = recorded.shape[:2]
    q, k = (t.detach().cpu().reshape(-1, *t.shape[-2:])[: heads * instances] for t in (product.q, product.k))
    q, k = q[:heads], k[:heads]
    m = k.shape[-2]
    written, _ = _first(weights)
    sinks = recorded.shape[-1] == m + 1
    if sinks:  # of scores from which a row's largest was taken, as GPT-OSS does: count each row from its sink
        recorded, written = recorded[..., :m] - recorded[..., m:], written[..., :m]
    groups = _groups(k)
    attention = Attended(product.module, q, k[:: len(k) // groups], None, 1.0, weights=written, instances=instances)
    attention.scale, attention.cap, added = _explained(q, k, recorded, cap, sinks)
    bias, mask = _split_bias(added)
    if sinks:
        attention.sink = torch.zeros(heads)
        allowed = torch.ones_like(added, dtype=torch.bool) if mask is None else mask
        if bias is not None and (level := _level(bias, allowed)) is not None:
            attention.sink, bias = -level, None
    attention.bias = None if bias is None else _reduced(bias, mask)
    attention.mask = None if mask is None else _reduced(mask)
    assert attention.q.shape[-2] == n
    return _causal(attention)


def _explained(q: Tensor, k: Tensor, scores: Tensor, cap: float, level: bool) -> tuple[float, float, Tensor]:
    """The simplest scale, cap and addend with scores = cap·tanh(scale·q·k / cap) + addend.

    level  each head may add a constant of its own to all scores
    """
    products = q.double() @ k.double().transpose(-1, -2)
    recorded = scores.double()
    allowed = recorded > MASKED
    size = recorded[allowed].abs().max().item() if bool(allowed.any()) else 1.0
    fitted = (recorded * products)[allowed].sum() / (products[allowed] ** 2).sum().clamp(min=1e-300)
    candidates = [1.0, q.shape[-1] ** -0.5, float(fitted)]
    for bound in (0.0, cap) if cap else (0.0,):
        for scale in candidates:
            scores_ = bound * torch.tanh(scale * products / bound) if bound else scale * products
            rest = (recorded - scores_).masked_fill(~allowed, torch.nan)
            mean = rest.nanmean((-2, -1), keepdim=True).nan_to_num(0.0) if level else torch.zeros_like(rest[:, :1, :1])
            if (rest - mean).nan_to_num(0.0).abs().max().item() < EXACT * max(size, 1.0):
                return scale, bound, torch.where(allowed, mean.expand_as(recorded), recorded)
    ranked = sorted(candidates[:2], key=lambda scale: _unruly((recorded - scale * products).masked_fill(~allowed, torch.nan)))
    added = recorded - ranked[0] * products
    return ranked[0], 0.0, torch.where(allowed, added, recorded).to(scores.dtype)


def _unruly(added: Tensor) -> float:
    """How much of the addend depends neither on the distance alone nor on the key alone, in any head: 0 for ALiBi and T5."""
    n, m = added.shape[-2:]
    distance = torch.arange(m)[None, :] - torch.arange(n)[:, None]
    spread = []
    for d in range(-n + 1, m):
        line = added[:, distance == d]
        spread.append((line - line.nanmean(-1, keepdim=True)).nan_to_num(0.0).abs().max().item())
    column = (added - added.nanmean(-2, keepdim=True)).nan_to_num(0.0).abs().max().item()
    return min(max(spread), column)


def _causal(attention: Attended) -> Attended:
    """Replaces a mask that is causal by `causal=True`."""
    n, m = attention.q.shape[-2], attention.k.shape[-2]
    if attention.mask is not None and attention.mask.shape[-2] == n and n > 1:
        later = torch.ones(n, m, dtype=torch.bool).tril(m - n)
        if bool((attention.mask == later).all()):
            attention.mask, attention.causal = None, True
    return attention


def _level(bias: Tensor, mask: Tensor) -> Tensor | None:
    """[H], the constant that each head adds to all unmasked scores; None where it is not constant."""
    biased = bias.masked_fill(~mask, torch.nan)
    mean = biased.nanmean((-2, -1), keepdim=True)
    return mean.flatten() if bool(((biased - mean).nan_to_num(0.0).abs() < 1e-4).all()) else None


def _reduced(table: Tensor, mask: Tensor | None = None) -> Tensor:
    """Reduced to one row, or one head, where all are equal at unmasked pairs."""
    if mask is not None and table.shape[1] > 1:
        last = table[:, -1:]  # under a causal mask this row attends to all
        if bool(torch.where(mask, table - last, 0.0).abs().max() <= 1e-6 * table.abs().max()):
            table = last
    if len(table) > 1 and bool((table == table[:1]).all()):
        table = table[:1]
    return table[:, :1] if table.shape[1] > 1 and bool((table == table[:, :1]).all()) else table


def _is_of(step: AttentionCall, waiting: Attended) -> bool:
    """Whether this is the product of the waiting weights and their values."""
    assert step.q is not None
    assert waiting.weights is not None
    heads, n, m = waiting.weights.shape
    first = step.q.detach().cpu().reshape(-1, *step.q.shape[-2:])[:heads]
    return first.shape == (heads, n, m) and torch.allclose(first.double(), waiting.weights.double(), atol=NEAR)


def _finished(waiting: Attended, step: AttentionCall) -> Attended:
    assert step.q is not None
    assert step.k is not None
    assert step.product is not None
    waiting.weights = (
        step.q.detach().cpu().reshape(-1, *step.q.shape[-2:])[: waiting.heads]
    )  # as they are after dropout or renormalisation
    values, result = (t.detach().cpu().reshape(-1, *t.shape[-2:])[: waiting.heads] for t in (step.k, step.product))
    values = values.transpose(-1, -2)
    groups = _groups(values)
    waiting.v, waiting.output = values[:: len(values) // groups], result
    if len(waiting.v) != len(waiting.k):  # keys and values have one number of groups
        groups = max(len(waiting.v), len(waiting.k))
        waiting.v, waiting.k = (t.repeat_interleave(groups // len(t), 0) for t in (waiting.v, waiting.k))
    return waiting


def _may_follow(product: AttentionCall, scores: Tensor) -> bool:
    """Whether these scores can come from that product: as many rows, and as many columns or one more, for a sink."""
    assert product.product is not None
    rows, columns = product.product.shape[:-1].numel(), product.product.shape[-1]
    return rows == scores.shape[:-1].numel() and scores.shape[-1] - columns in (0, 1)


def _groups(*tensors: Tensor) -> int:
    """The number of distinct heads where neighbours repeat, as in grouped-query attention."""
    heads = len(tensors[0])
    for groups in range(1, heads):
        if heads % groups == 0:
            firsts = [t[:: heads // groups].repeat_interleave(heads // groups, 0) for t in tensors]
            if all(torch.equal(t, f) for t, f in zip(tensors, firsts, strict=True)):
                return groups
    return heads


def _first(t: Tensor) -> tuple[Tensor, int]:
    """[H, N, .] of the first sequence, and the number of sequences. Three axes: heads of one sequence."""
    t = t.detach().cpu()
    if t.ndim < 4:
        return t.reshape((1,) * (3 - t.ndim) + tuple(t.shape)), 1
    flat = t.reshape(-1, *t.shape[-3:])
    return flat[0], len(flat)


def with_reconstruction_error(attention: Attended) -> Attended:
    """The attention with its `reconstruction_error` measured."""
    heads = range(attention.heads)
    differences = (
        attention.difference(h, rows, attention.recomputed_weights(h, rows, columns=c))
        for h in heads
        for rows, c in attention.row_chunks()
    )
    attention.set_reconstruction_error(max(0.0, *differences))
    return attention
