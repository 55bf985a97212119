"""The scores of an attention as a program computes them: logits before the softmax, weights after it, and the queries and keys."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from equiscope.audit.parity.sides import MOVEMENT, Side

SOFTMAX = {"softmax", "_softmax", "safe_softmax", "_safe_softmax", "Softmax"}
PRODUCT = {"matmul", "bmm", "einsum", "baddbmm", "mm", "MatMul", "Einsum"}
HIDDEN = -5e3  # scores below it are masked
CLOSE = 1e-6  # of scores that one change explains: a table or a constant may be float32
EARLIER = 12  # recorded values before the weights that may be the logits
PATH = 60  # values between the scores and the product


@dataclass(frozen=True, eq=False)
class AttentionScores:
    """All heads of all sequences on one axis G.

    logits, weights [G, N, M]: before and after the softmax; logits_value, weights_value: their values in the program
    scores [G, N, M]: the logits before a soft-cap; cap: its bound, or None where there is none
    query [G, N, K], key [G, M, K]: the factors of the product; None where it was not found
    query_value, key_value  their values in the program; heads: on the axis of heads
    """

    logits: Tensor
    weights: Tensor
    logits_value: int
    weights_value: int
    scores: Tensor
    cap: float | None = None
    query: Tensor | None = None
    key: Tensor | None = None
    query_value: int = -1
    key_value: int = -1
    heads: int = 1

    @property
    def visible(self) -> Tensor:
        """[G, N, M]: which pairs are not masked."""
        return self.logits > HIDDEN


def first_scores(side: Side, region: list[int]) -> AttentionScores | None:
    """The scores of the first softmax among unexplained values; of recorded activations the first values that are one."""
    for value in region:
        node = side.maker[value]
        if side.high[value].ndim < 2 or not (node.op in SOFTMAX or not node.op):
            continue
        if node.op:
            before = next((x for x in node.inputs if x in side.moving and side.is_number(x)), None)
        else:
            before = _recorded_logits(side, value)
        if before is None or side.high[before].shape != side.high[value].shape:
            continue
        logits, weights = (_heads(side.numbers(v)) for v in (before, value))
        heads = math.prod(side.high[before].shape[1 if side.high[before].ndim > 3 else 0 : -2])
        capped = _before_cap(side, before, logits)
        scores, cap = capped or (logits, None)
        found = _factors(side, before, logits, heads) or (None, None, -1, -1)
        query, key, query_value, key_value = found
        return AttentionScores(logits, weights, before, value, scores, cap, query, key, query_value, key_value, heads)
    return None


def _before_cap(side: Side, logits_value: int, logits: Tensor) -> tuple[Tensor, float] | None:
    """The scores whose cap · tanh(scores / cap) are these logits where they are visible, and the cap."""
    visible = logits > HIDDEN
    for value in side.ancestors(logits_value, EARLIER):
        node = side.maker.get(value)
        if node is None or node.op.lower() != "tanh" or side.high[value].numel() != logits.numel():
            continue
        bounded, before = (side.numbers(v).reshape(logits.shape) for v in (value, side.parents(value)[0]))
        cap = ((logits * bounded)[visible].sum() / bounded[visible].square().sum()).item()
        if close(bounded * cap, logits, visible):
            return torch.where(visible, before * cap, logits), cap
    return None


def _recorded_logits(side: Side, weights: int) -> int | None:
    """The earliest of the values before these weights whose softmax they are."""
    w = side.numbers(weights)
    if not bool((w >= 0).all()) or not bool(((w.sum(-1) - 1).abs() < 1e-5).all()):
        return None
    found = None
    for value in side.ancestors(weights, EARLIER):
        x = side.numbers(value)
        if x.shape == w.shape and bool((x.softmax(-1) - w).abs().max() < CLOSE):
            found = value
    return found


def _heads(t: Tensor) -> Tensor:
    return t.reshape(-1, *t.shape[-2:])


def _factors(side: Side, logits_value: int, logits: Tensor, heads: int) -> tuple[Tensor, Tensor, int, int] | None:
    """Queries and keys: the factors of the product with the shape of the logits, each with one row a token."""
    g, n, m = logits.shape
    for value in [logits_value, *side.ancestors(logits_value, PATH)]:
        node = side.maker.get(value)
        if node is None or node.op not in PRODUCT or side.high[value].numel() != logits.numel():
            continue
        moving = [x for x in dict.fromkeys(node.inputs) if x in side.moving and side.is_number(x)]
        if len(moving) != 2:
            continue
        product = _heads(side.numbers(value)) if side.high[value].ndim > 2 else None
        product = side.numbers(value).reshape(g, n, m) if product is None or product.shape != logits.shape else product
        query, key = (side.numbers(x) for x in moving)
        for queries in _rows(query, g, n):
            for keys in [*_rows(key, g, m), *arranged(key, (g, m, queries.shape[-1]), heads)]:
                if queries.shape[-1] == keys.shape[-1] and _is_multiple(queries @ keys.mT, product):
                    return queries, keys, moving[0], moving[1]
    return None


def arranged(t: Tensor, shape: tuple[int, ...], heads: int) -> list[Tensor]:
    """A value as [G, N, K], in each way that its shape allows; fewer key heads are repeated."""
    g, n, k = shape
    found = []
    for groups in {g, *(g * own // heads for own in range(1, heads) if heads % own == 0)}:
        if t.numel() != groups * n * k:
            continue
        own = groups * heads // g
        forms = []
        if t.shape[-2:] == (n, k):
            forms.append(t.reshape(groups, n, k))
        if t.shape[-1] == own * k:
            forms.append(t.reshape(-1, n, own, k).transpose(1, 2).reshape(groups, n, k))
        if t.ndim >= 3 and t.shape[-2:] == (own, k) and t.shape[-3] == n:
            forms.append(t.reshape(-1, n, own, k).transpose(1, 2).reshape(groups, n, k))
        for form in forms:
            if own == heads:
                found.append(form)
            else:
                split, times = form.unflatten(0, (-1, own)), heads // own
                found += [split.repeat_interleave(times, 1).flatten(0, 1), split.repeat(1, times, 1, 1).flatten(0, 1)]
    return found


def _rows(t: Tensor, g: int, n: int) -> list[Tensor]:
    """A factor as [G, N, K], in each way that its shape allows."""
    k = t.numel() // (g * n)
    if k * g * n != t.numel():
        return []
    found = []
    if t.shape[-2:] == (n, k):
        found.append(t.reshape(g, n, k))
    if t.shape[-2:] == (k, n):
        found.append(t.reshape(g, k, n).mT)
    if t.ndim == 5 and t.shape[-4] == n and t.shape[-1] == k:  # [B, N, H, R, K]: R query heads for each key head
        found.append(t.permute(0, 2, 3, 1, 4).reshape(g, n, k))
    if t.ndim >= 3 and t.shape[-3] == n and t.shape[-1] == k:  # [B, N, H, K]
        batch = t.numel() // (n * t.shape[-2] * k)
        found.append(t.reshape(batch, n, t.shape[-2], k).transpose(1, 2).reshape(g, n, k))
    return found


def _is_multiple(a: Tensor, b: Tensor) -> bool:
    """Whether b is a constant multiple of a."""
    rate = (b * a).sum() / a.square().sum()
    return bool((b - rate * a).norm() <= 1e-10 * b.norm())


def close(a: Tensor, b: Tensor, where: Tensor) -> bool:
    """Whether two tensors agree up to rounding at these entries."""
    a, b = a[where], b[where]
    return a.numel() > 0 and bool((a - b).norm() <= CLOSE * b.norm()) and bool(b.norm() > 0)


def matched_heads(a: Tensor, b: Tensor, where: Tensor) -> list[int] | None:
    """For each head of a, a head of b that is a positive multiple of it where both are visible; the same head if it is one."""
    order: list[int] = []
    for i in range(len(a)):
        for j in [i, *(j for j in range(len(b)) if j != i)]:
            entries = where[i] & (b[j] > HIDDEN)
            x, y = a[i][entries], b[j][entries]
            if x.numel() < 3 or j in order:
                continue
            if bool((x * y).sum() > (1 - 1e-12) * x.norm() * y.norm() > 0):
                order.append(j)
                break
        else:
            return None
    return order


__all__ = ["HIDDEN", "MOVEMENT", "AttentionScores", "close", "first_scores", "matched_heads", "torch"]
