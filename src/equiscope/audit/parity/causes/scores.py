"""The scores of an attention as a program computes them: logits before the softmax, weights after it, and the queries and keys."""

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from equiscope.audit.parity.causes.contractions import PRODUCT, QueryKeyProduct, contraction, pairs_of
from equiscope.audit.parity.causes.replayed import arguments
from equiscope.audit.parity.sides import HIDDEN, MOVEMENT, SOFTMAX, Node, Side

CLOSE = 1e-6  # of scores that one change explains: a table or a constant may be float32
EARLIER = 12  # values before the weights that may be the logits
PATH = 60  # values between the scores and the product


@dataclass(frozen=True, eq=False)
class AttentionScores:
    """All heads of all sequences on one axis G.

    logits, weights [G, N, M]: before and after the softmax; logits_value, weights_value: their values in the program
    scores [G, N, M]: the logits before a soft-cap; cap: its bound, or None where there is none
    query [G, N, K], key [G, M, K]: the factors of the product; None where it was not found
    query_value, key_value  their values in the program; heads: on the axis of heads
    order   the axes of the weights in the program that are G…, N, M; lead: the sizes of those of G
    axis    over which the softmax goes, counted from the end: -1 over keys, -2 over queries, further: over those of G
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
    order: tuple[int, ...] = ()
    lead: tuple[int, ...] = ()
    axis: int = -1

    @property
    def visible(self) -> Tensor:
        """[G, N, M]: which pairs are not masked."""
        return self.logits > HIDDEN

    def transposed(self) -> "AttentionScores":
        """With queries and keys exchanged."""
        return replace(
            self, logits=self.logits.mT, weights=self.weights.mT, scores=self.scores.mT, query=self.key, key=self.query,
            query_value=self.key_value, key_value=self.query_value, axis={-1: -2, -2: -1}.get(self.axis, self.axis),
            order=(*self.order[:-2], *self.order[:-3:-1]),
        )  # fmt: skip

    def placed(self, t: Tensor) -> Tensor:
        """Weights [G, N, M] in the axes of the program."""
        whole = t.reshape(*self.lead, *t.shape[-2:])
        return whole.permute([self.order.index(i) for i in range(len(self.order))])


def first_scores(side: Side, region: list[int]) -> AttentionScores | None:
    """The scores of the first softmax among unexplained values, also of one that is written out."""
    for value in region:
        found = _softmax(side, value)
        if found is None:
            continue
        before, axis = found
        shape = side.high[before].shape
        pairs = _product(side, before)
        order = tuple(range(len(shape)))
        if pairs is not None and len(pairs.order) == len(shape) and _permuted(shape, pairs.order) == (
            *pairs.lead, pairs.query.shape[1], pairs.key.shape[1],
        ):  # fmt: skip
            order = pairs.order
        lead = _permuted(shape, order)[:-2]
        logits, weights = (side.numbers(v).permute(order).reshape(-1, *_permuted(shape, order)[-2:]) for v in (before, value))
        heads = math.prod(lead[1 if len(lead) > 1 else 0 :])
        capped = _before_cap(side, before, logits, order)
        scores, cap = capped or (logits, None)
        if pairs is not None and pairs.query.shape[:2] + pairs.key.shape[1:2] != logits.shape:
            pairs = None
        query, key = (None, None) if pairs is None else (pairs.query, pairs.key)
        query_value, key_value = (-1, -1) if pairs is None else (pairs.query_value, pairs.key_value)
        return AttentionScores(
            logits, weights, before, value, scores, cap, query, key, query_value, key_value, heads, order, lead,
            order.index(axis) - len(order),
        )  # fmt: skip
    return None


def _permuted(shape: torch.Size, order: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(shape[i] for i in order)


def _softmax(side: Side, value: int) -> tuple[int, int] | None:
    """What a softmax reads and its axis. One that is written out, or recorded, is known by its numbers."""
    node, w = side.maker[value], side.high[value]
    if w.ndim < 2 or not side.is_number(value) or w.is_complex():
        return None
    if node.op in SOFTMAX:
        before = next((x for x in node.inputs if x in side.moving and side.is_number(x)), None)
        dim = arguments(node, "input", "dim").get("dim", -1)
        same = before is not None and side.high[before].shape == w.shape
        return (before, dim % w.ndim) if same and before is not None and isinstance(dim, int) else None
    if node.op in MOVEMENT or not bool((w >= 0).all()):
        return None
    close = 1e-5 if side.single else 1e-9
    for axis in reversed(range(w.ndim)):
        sums = w.sum(axis)
        if w.shape[axis] < 2 or not bool((((sums - 1).abs() < close) | (sums == 0)).all()):
            continue
        before = None
        for earlier in side.ancestors(value, EARLIER):
            x = side.numbers(earlier)
            if x.shape == w.shape and bool((x.softmax(axis).nan_to_num() - w).abs().max() < (CLOSE if side.single else close)):
                before = earlier
        if before is not None:
            return before, axis
    return None


def _product(side: Side, logits: int) -> QueryKeyProduct | None:
    """Queries and keys of the nearest product before these logits that has their size."""
    node = product_before(side, logits)
    found = None if node is None else contraction(side, node)
    return None if found is None else pairs_of(found)


def product_before(side: Side, logits: int) -> Node | None:
    """The nearest product of queries and keys before these logits that has their size."""
    for value in [logits, *side.ancestors(logits, PATH)]:
        node = side.maker.get(value)
        if node is None or node.op not in PRODUCT or side.high[value].numel() != side.high[logits].numel():
            continue
        found = contraction(side, node)
        if found is not None and pairs_of(found) is not None:
            return node
    return None


def _before_cap(side: Side, logits_value: int, logits: Tensor, order: tuple[int, ...]) -> tuple[Tensor, float] | None:
    """The scores whose cap · tanh(scores / cap) are these logits where they are visible, and the cap."""
    visible = logits > HIDDEN
    for value in side.ancestors(logits_value, EARLIER):
        node = side.maker.get(value)
        if node is None or node.op.lower() != "tanh" or side.high[value].numel() != logits.numel():
            continue
        bounded, before = (side.numbers(v) for v in (value, side.parents(value)[0]))
        if bounded.ndim == len(order):
            bounded, before = bounded.permute(order), before.permute(order)
        bounded, before = bounded.reshape(logits.shape), before.reshape(logits.shape)
        cap = ((logits * bounded)[visible].sum() / bounded[visible].square().sum()).item()
        if close(bounded * cap, logits, visible):
            return torch.where(visible, before * cap, logits), cap
    return None


def arranged(t: Tensor, shape: tuple[int, ...], heads: int) -> list[Tensor]:
    """A value as [G, N, K], in each way that its shape allows; fewer key heads are repeated."""
    g, n, k = shape
    t = t.flatten(2, -2) if t.ndim > 4 and t.shape[1] == n else t  # [B, N, H, R, K]
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
