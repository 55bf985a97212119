"""Attended: each attention of a model on one input, taken apart into what its weights are made of, and put together again.

    weights[h, n, m] = softmax over m of (scale · q[h, n]·k[g, m] + bias[h, n, m]), among the m that n may see

Queries and keys are seen below torch's functions; scale, bias and who is hidden follow from the scores that were seen, or from what
a fused kernel was given. Put together in float64, they must give the output that the model computed: the difference is measured.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from equiscope.errors import InputError
from equiscope.program.attended.seen import Seen, watching

HIDES = -1e4  # a score below it is no score, but a mask
EXACT = 1e-5  # of the largest score: what is left of scores in float32 when all that made them is taken away
NEAR = 0.1  # what may be done to weights between their softmax and the values
ROWS, PAIRS = 256, 2**22  # that are weighed at once
TRUSTED = 1e-3  # of the largest output: beyond, the parts are not those of the model


@dataclass
class Attended:
    """One attention of one sequence.

    q [H, N, K], k [G, M, K], v [G, M, V]; bias, seen [1 or H, 1 or N, M] or None; sink [H] or None
    weights  [H, N, M], where the model wrote them down; result [H, N, V], what the values were mixed to
    apart    how many sequences or windows it ran on, of which this is the first
    rebuilt  |A·V − result| by the largest number of the result; None where there is no result
    """

    module: str
    q: Tensor
    k: Tensor
    v: Tensor | None
    scale: float
    causal: bool = False
    cap: float = 0.0
    bias: Tensor | None = None
    seen: Tensor | None = None
    sink: Tensor | None = None
    weights: Tensor | None = None
    result: Tensor | None = None
    apart: int = 1
    rebuilt: float | None = None

    @property
    def heads(self) -> int:
        return len(self.q)

    @property
    def trusted(self) -> bool:
        """Whether the parts give what the model gave."""
        return self.rebuilt is not None and self.rebuilt < TRUSTED

    def visible(self, head: int, rows: Tensor | None = None, columns: int | None = None) -> Tensor:
        """Which tokens may be seen by which. rows: of these alone, by number; columns: of the first so many. Bool [N, M]."""
        n, m = self.q.shape[-2], self.k.shape[-2]
        rows, c = torch.arange(n) if rows is None else rows, m if columns is None else columns
        made = torch.arange(c)[None, :] <= rows[:, None] + m - n if self.causal else torch.ones(len(rows), c, dtype=torch.bool)
        return made if self.seen is None else made & _rows_of(self.seen, head, rows)[:, :c]

    def scores(
        self, head: int, rows: Tensor | None = None, dtype: torch.dtype = torch.float64, columns: int | None = None
    ) -> Tensor:
        """What the softmax of a head reads, before anything is hidden. [N, M]."""
        rows = torch.arange(self.q.shape[-2]) if rows is None else rows
        key = self.k[head * len(self.k) // self.heads][:columns].to(dtype)
        made = (self.q[head][rows].to(dtype) @ key.T).mul_(self.scale)
        made = self.cap * torch.tanh(made / self.cap) if self.cap else made
        return made if self.bias is None else made + _rows_of(self.bias, head, rows)[:, :columns].to(dtype)

    def weigh(
        self, head: int, rows: Tensor | None = None, dtype: torch.dtype = torch.float64, columns: int | None = None
    ) -> Tensor:
        """A head's weights from their parts; 0 in a row that may see nothing. [N, M]."""
        made, seen = self.scores(head, rows, dtype, columns), self.visible(head, rows, columns)
        made, wide = made.masked_fill_(~seen, -torch.inf), made.shape[-1]
        if self.sink is not None:
            made = torch.cat([made, self.sink[head].to(dtype).expand(len(made), 1)], -1)
        made = torch.softmax(made, -1)[:, :wide]
        return made if bool(seen.any(-1).all()) else made.nan_to_num_(0.0)

    def pieces(self, pairs: int = PAIRS) -> Iterator[tuple[Tensor, int]]:
        """All rows, at most `pairs` (query, key) pairs at a time, and how many keys, the first ones, these may attend to."""
        n, m = self.q.shape[-2], self.k.shape[-2]
        for rows in torch.arange(n).split(max(1, min(ROWS, pairs // m))):
            yield rows, min(m, max(1, int(rows[-1]) + 1 + m - n)) if self.causal else m

    def shown(
        self, head: int, rows: Tensor | None = None, dtype: torch.dtype = torch.float64, columns: int | None = None
    ) -> Tensor:
        """The weights that a person should see: put together where that can be trusted, else as the model had them. [N, M]."""
        if self.trusted or self.weights is None:
            return self.weigh(head, rows, dtype, columns)
        mine = self.weights[head] if rows is None else self.weights[head][rows]
        return mine[:, :columns].to(dtype)

    def difference(self, head: int, rows: Tensor, weights: Tensor) -> float:
        """How far these weights are from what the model gave: its output, or, where no values were seen, its weights."""
        columns = weights.shape[-1]
        if self.result is not None and self.v is not None:
            value = self.v[head * len(self.v) // self.heads][:columns].to(weights.dtype)
            return (weights @ value - self.result[head][rows]).abs().max().item()
        return 0.0 if self.weights is None else (weights - self.weights[head][rows, :columns]).abs().max().item()

    def compared(self, worst: float) -> None:
        """Say how far the weights are, when all heads were compared: by the largest number of the output."""
        if self.result is not None and self.v is not None:
            size = self.result.abs().max().item()
            self.rebuilt = worst / size if size else worst
        elif self.weights is not None:
            self.rebuilt = worst


def attended(
    model: nn.Module, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None, compare: bool = True,
    answered: Callable[[Any], None] = lambda _: None,
) -> list[Attended]:  # fmt: skip
    """Every attention that runs in `model(*args, **kwargs)`, in order, of the first sequence of the batch.

    The fast path of the model is watched as it is. Only where it shows nothing (torch's own encoder layers fuse all they do) the
    model runs once more with gradients on, which turns that off.
    compare measure `rebuilt` now; else whoever looks at all weights does, which is `roles.survey`
    answered is given what the model answered in the pass that was seen
    raises  InputError where no attention is seen, or where the model raises
    """
    for gradients in (False, True):
        with torch.set_grad_enabled(gradients), watching(model) as steps:
            try:
                answer = model(*args, **(kwargs or {}))
            except Exception as error:
                text = " ".join(str(error).split())[:240]
                raise InputError(f"{type(model).__name__} raised {type(error).__name__} on this input: {text}") from error
        found = list(_assembled(steps, _cap(model)))
        if found:
            answered(answer)
            return [rebuilt(one) for one in found] if compare else found
    raise InputError(
        f"No attention was seen in {type(model).__name__}: neither scaled_dot_product_attention nor a softmax over products of "
        "queries and keys. Convolutional, recurrent and linear-attention models have none; give a model that attends."
    )


def _cap(model: nn.Module) -> float:
    """The bound of scores that a configuration tells, as Gemma 2's does."""
    said = getattr(getattr(model, "config", None), "attn_logit_softcapping", None)
    return float(said) if isinstance(said, (int, float)) else 0.0


def _rows_of(table: Tensor, head: int, rows: Tensor) -> Tensor:
    """Of [1 or H, 1 or N, M] these rows of a head."""
    mine = table[min(head, len(table) - 1)]
    return mine if len(mine) == 1 else mine[rows]


def _assembled(steps: list[Seen], cap: float) -> Iterator[Attended]:
    products: list[Seen] = []  # whose softmax has not come: content first, then terms of places, as DeBERTa's
    waiting: Attended | None = None  # it has weights, and no values yet
    for step in steps:
        if step.result is not None:
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


def _fused(step: Seen) -> Attended:
    assert step.q is not None
    assert step.k is not None
    assert step.v is not None
    assert step.result is not None
    q, apart = _first(step.q)
    k, v, result = _first(step.k)[0], _first(step.v)[0], _first(step.result)[0]
    bias, seen = _told(step.mask, len(q), q.shape[-2])
    scale = q.shape[-1] ** -0.5 if step.scale is None else float(step.scale)
    groups = _groups(k, v)
    made = Attended(
        step.module, q, k[:: len(k) // groups], v[:: len(v) // groups], scale, step.causal, bias=bias, seen=seen, result=result,
        apart=apart,
    )  # fmt: skip
    return _causal(made)


def _told(mask: Tensor | None, heads: int, rows: int) -> tuple[Tensor | None, Tensor | None]:
    """What is added, and who may be seen, from the mask of a fused kernel: a flag or a number for each pair."""
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
    return _parted(part.cpu().float() if part.dtype != torch.float64 else part.cpu())


def _parted(added: Tensor) -> tuple[Tensor | None, Tensor | None]:
    """[., ., M] of numbers: those that hide become flags, the others stay; nothing where all are 0, or all may be seen."""
    seen = added > HIDES
    bias = added.masked_fill(~seen, 0.0)
    return (bias if bool(bias.any()) else None), (None if bool(seen.all()) else seen)


def _written_out(product: Seen, scores: Tensor, weights: Tensor, cap: float) -> Attended:
    """From queries, keys and the scores that a softmax read: how the ones became the others."""
    assert product.q is not None
    assert product.k is not None
    read, apart = _first(scores)
    heads, n = read.shape[:2]
    q, k = (t.detach().cpu().reshape(-1, *t.shape[-2:])[: heads * apart] for t in (product.q, product.k))
    q, k = q[:heads], k[:heads]
    m = k.shape[-2]
    written, _ = _first(weights)
    sinks = read.shape[-1] == m + 1
    if sinks:  # of scores from which a row's largest was taken, as GPT-OSS does: count each row from its sink
        read, written = read[..., :m] - read[..., m:], written[..., :m]
    groups = _groups(k)
    made = Attended(product.module, q, k[:: len(k) // groups], None, 1.0, weights=written, apart=apart)
    made.scale, made.cap, added = _explained(q, k, read, cap, sinks)
    bias, seen = _parted(added)
    if sinks:
        made.sink = torch.zeros(heads)
        open_ = torch.ones_like(added, dtype=torch.bool) if seen is None else seen
        if bias is not None and (level := _level(bias, open_)) is not None:
            made.sink, bias = -level, None
    made.bias = None if bias is None else _short(bias, seen)
    made.seen = None if seen is None else _short(seen)
    assert made.q.shape[-2] == n
    return _causal(made)


def _explained(q: Tensor, k: Tensor, scores: Tensor, cap: float, level: bool) -> tuple[float, float, Tensor]:
    """scale, cap and what was added: scores = cap·tanh(scale·q·k / cap) + added. The simplest of what could be meant.

    level  each head may add a number of its own to all scores
    """
    products = q.double() @ k.double().transpose(-1, -2)
    read = scores.double()
    open_ = read > HIDES
    size = read[open_].abs().max().item() if bool(open_.any()) else 1.0
    fitted = (read * products)[open_].sum() / (products[open_] ** 2).sum().clamp(min=1e-300)
    candidates = [1.0, q.shape[-1] ** -0.5, float(fitted)]
    for bound in (0.0, cap) if cap else (0.0,):
        for scale in candidates:
            made = bound * torch.tanh(scale * products / bound) if bound else scale * products
            rest = (read - made).masked_fill(~open_, torch.nan)
            mean = rest.nanmean((-2, -1), keepdim=True).nan_to_num(0.0) if level else torch.zeros_like(rest[:, :1, :1])
            if (rest - mean).nan_to_num(0.0).abs().max().item() < EXACT * max(size, 1.0):
                return scale, bound, torch.where(open_, mean.expand_as(read), read)
    ranked = sorted(candidates[:2], key=lambda scale: _unruly((read - scale * products).masked_fill(~open_, torch.nan)))
    added = read - ranked[0] * products
    return ranked[0], 0.0, torch.where(open_, added, read).to(scores.dtype)


def _unruly(added: Tensor) -> float:
    """How much of what was added follows neither the distance alone nor the token alone, in any head: 0 for ALiBi and T5's."""
    n, m = added.shape[-2:]
    distance = torch.arange(m)[None, :] - torch.arange(n)[:, None]
    spread = []
    for d in range(-n + 1, m):
        line = added[:, distance == d]
        spread.append((line - line.nanmean(-1, keepdim=True)).nan_to_num(0.0).abs().max().item())
    column = (added - added.nanmean(-2, keepdim=True)).nan_to_num(0.0).abs().max().item()
    return min(max(spread), column)


def _causal(made: Attended) -> Attended:
    """Flags that hide what is later become a word for it."""
    n, m = made.q.shape[-2], made.k.shape[-2]
    if made.seen is not None and made.seen.shape[-2] == n and n > 1:
        later = torch.ones(n, m, dtype=torch.bool).tril(m - n)
        if bool((made.seen == later).all()):
            made.seen, made.causal = None, True
    return made


def _level(bias: Tensor, seen: Tensor) -> Tensor | None:
    """[H] of the number that a head adds to all scores that are seen; None where it is not one."""
    shown = bias.masked_fill(~seen, torch.nan)
    mean = shown.nanmean((-2, -1), keepdim=True)
    return mean.flatten() if bool(((shown - mean).nan_to_num(0.0).abs() < 1e-4).all()) else None


def _short(table: Tensor, seen: Tensor | None = None) -> Tensor:
    """One row, or one head, where all are alike, in what is seen."""
    if seen is not None and table.shape[1] > 1:
        last = table[:, -1:]  # under a causal mask this row sees all
        if bool(torch.where(seen, table - last, 0.0).abs().max() <= 1e-6 * table.abs().max()):
            table = last
    if len(table) > 1 and bool((table == table[:1]).all()):
        table = table[:1]
    return table[:, :1] if table.shape[1] > 1 and bool((table == table[:, :1]).all()) else table


def _is_of(step: Seen, waiting: Attended) -> bool:
    """Whether this product mixes values by the weights that wait."""
    assert step.q is not None
    assert waiting.weights is not None
    heads, n, m = waiting.weights.shape
    first = step.q.detach().cpu().reshape(-1, *step.q.shape[-2:])[:heads]
    return first.shape == (heads, n, m) and torch.allclose(first.double(), waiting.weights.double(), atol=NEAR)


def _finished(waiting: Attended, step: Seen) -> Attended:
    assert step.q is not None
    assert step.k is not None
    assert step.product is not None
    waiting.weights = step.q.detach().cpu().reshape(-1, *step.q.shape[-2:])[: waiting.heads]  # with what was done to them since
    values, result = (t.detach().cpu().reshape(-1, *t.shape[-2:])[: waiting.heads] for t in (step.k, step.product))
    values = values.transpose(-1, -2)
    groups = _groups(values)
    waiting.v, waiting.result = values[:: len(values) // groups], result
    if len(waiting.v) != len(waiting.k):  # keys and values have one number of groups
        groups = max(len(waiting.v), len(waiting.k))
        waiting.v, waiting.k = (t.repeat_interleave(groups // len(t), 0) for t in (waiting.v, waiting.k))
    return waiting


def _may_follow(product: Seen, scores: Tensor) -> bool:
    """Whether these scores may be that product: as many rows, and as many columns or one more, a sink."""
    assert product.product is not None
    rows, columns = product.product.shape[:-1].numel(), product.product.shape[-1]
    return rows == scores.shape[:-1].numel() and scores.shape[-1] - columns in (0, 1)


def _groups(*tensors: Tensor) -> int:
    """How many different heads there are where neighbours repeat, as keys do that several queries share."""
    heads = len(tensors[0])
    for groups in range(1, heads):
        if heads % groups == 0:
            firsts = [t[:: heads // groups].repeat_interleave(heads // groups, 0) for t in tensors]
            if all(torch.equal(t, f) for t, f in zip(tensors, firsts, strict=True)):
                return groups
    return heads


def _first(t: Tensor) -> tuple[Tensor, int]:
    """[H, N, .] of the first sequence, and how many there were. Three axes are heads: attention over one sequence."""
    t = t.detach().cpu()
    if t.ndim < 4:
        return t.reshape((1,) * (3 - t.ndim) + tuple(t.shape)), 1
    flat = t.reshape(-1, *t.shape[-3:])
    return flat[0], len(flat)


def rebuilt(made: Attended) -> Attended:
    """With the difference between what its parts give and what the model gave."""
    heads = range(made.heads)
    differences = (made.difference(h, rows, made.weigh(h, rows, columns=c)) for h in heads for rows, c in made.pieces())
    made.compared(max(0.0, *differences))
    return made
