"""Attention with another scale, soft-cap, mask, softmax axis, order or width of heads, or without its position bias."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from equiscope.audit.parity.causes import masks
from equiscope.audit.parity.causes.contractions import Contraction, QueryKeyProduct, contraction, pairs_of
from equiscope.audit.parity.causes.finding import Finding
from equiscope.audit.parity.causes.recorded.recording import ModelChange, RecordedTensors, Values
from equiscope.audit.parity.causes.recorded.solving import solved
from equiscope.audit.parity.causes.replayed import downstream
from equiscope.audit.parity.causes.scores import AttentionScores, close, first_scores, product_before
from equiscope.audit.parity.sides import MOVEMENT, Node, Side
from equiscope.program.program import Edit

USES = "query heads use key heads "
CAPS = (50.0, 30.0, 20.0, 10.0, 5.0, 3.0, 2.0)
WINDOWS = 64  # the longest window that is tried where A has none
GIVES = "{0}'s scores so changed give {1}'s numbers"


@dataclass(frozen=True, eq=False)
class ReplayedAttention:
    """An attention of A. bias [G, N, M]: what is added to the scaled product where it is visible; None for nothing.

    product, context  the steps of the scores and of the average of the values; heads: on G
    """

    side: Side
    node: Node
    scores: AttentionScores
    product: Node
    scale: float
    bias: Tensor | None
    context: Node | None
    heads: int

    def pairs(self, values: Values) -> QueryKeyProduct:
        """Queries and keys [G, N, K] of these values."""
        found = contraction(replace(self.side, high=dict(values)), self.product)
        pairs = None if found is None else pairs_of(found)
        assert pairs is not None
        return pairs

    def weights(
        self, values: Values, scale: float = 1.0, cap: float | None = None, visible: Tensor | None = None, axis: int = -1,
        order: list[int] | None = None, biased: bool = True,
    ) -> Tensor:  # fmt: skip
        """Attention weights [G, N, M]. scale: times A's; cap: 0 for none, by default A's; order: keys of the heads."""
        pairs = self.pairs(values)
        key = pairs.key if order is None else self.of_heads(pairs.key, order)
        logits = pairs.query @ key.mT * (self.scale * scale)
        if self.bias is not None and biased:
            logits = logits + self.bias
        cap = self.scores.cap if cap is None else cap
        logits = cap * torch.tanh(logits / cap) if cap else logits
        seen = self.scores.visible if visible is None else visible
        return torch.where(seen, logits, -torch.inf).softmax(axis).nan_to_num()

    def of_heads(self, t: Tensor, order: list[int]) -> Tensor:
        """[G, …] with the heads in this order."""
        return t.unflatten(0, (-1, self.heads))[:, order].flatten(0, 1)

    def averaged(self, weights: Tensor, values: Values, order: list[int] | None = None) -> Tensor | None:
        """The average of the values by weights [G, N, M], in the axes of the program."""
        found = self._values(values)
        if found is None:
            return None
        v, place = found
        return place(weights @ (v if order is None else self.of_heads(v, order)))

    def _values(self, values: Values) -> "tuple[Tensor, Placing] | None":
        """Values [G, M, D], and how a result [G, N, D] is placed in the axes of the program."""
        c = None if self.context is None else contraction(replace(self.side, high=dict(values)), self.context)
        if c is None or len(c.summed) != 1:
            return None
        late = set(downstream(self.side, {self.scores.weights_value})) | {self.scores.weights_value}
        c = c if c.first_value in late else c.swapped()
        place = _placing(c, self.scores)
        if place is None:
            return None
        return c.factor(False, place.lead + c.summed + place.d).reshape(-1, c.sizes[c.summed], c.sizes[place.d]), place

    def joined_heads(self, values: Values) -> "tuple[Tensor, Tensor, Tensor, Placing] | None":
        """Queries, keys and values as [B, N, H * K]."""
        found = self._values(values)
        if found is None:
            return None
        pairs = self.pairs(values)
        joined = [t.unflatten(0, (-1, self.heads)).transpose(1, 2).flatten(2) for t in (pairs.query, pairs.key, found[0])]
        return joined[0], joined[1], joined[2], found[1]

    @property
    def where(self) -> str:
        return self.node.module or "the model"


@dataclass(frozen=True)
class Placing:
    """Letters of a product of weights and values: those of G, the row and the number."""

    c: Contraction
    lead: str
    n: str
    d: str

    def __call__(self, t: Tensor) -> Tensor:
        letters = self.lead + self.n + self.d
        return t.reshape([self.c.sizes[x] for x in letters]).permute([letters.index(x) for x in self.c.out])


def _placing(c: Contraction, scores: AttentionScores) -> Placing | None:
    free = [x for x in c.out if x in c.b and x not in c.a]
    if len(free) != 1:
        return None
    whole = len(c.a) == len(scores.order)
    n = c.a[scores.order[-2]] if whole else next((x for x in c.a[::-1] if x != c.summed), "")
    lead = "".join(c.a[i] for i in scores.order[:-2]) if whole else "".join(x for x in c.a if x not in (n, c.summed))
    return Placing(c, lead, n, free[0]) if set(lead + n + free[0]) == set(c.out) else None


def sites(r: RecordedTensors) -> list[ReplayedAttention]:
    """The attentions of A whose weights follow from queries and keys, in order."""
    found = list[ReplayedAttention]()
    for node in r.d.a.nodes:
        if node.value in r.d.a.moving and r.d.a.is_number(node.value) and r.d.a.high[node.value].ndim >= 2:
            site = _site(r.d.a, node)
            if site is not None and (not found or found[-1].product is not site.product):
                found.append(site)
    return found


def _site(side: Side, node: Node) -> ReplayedAttention | None:
    scores = first_scores(side, [node.value])
    if scores is None or scores.query is None or scores.key is None or scores.axis != -1:
        return None
    product = product_before(side, scores.logits_value)
    if product is None:
        return None
    scale, bias = _scale_and_bias(side, scores, product)
    late = downstream(side, {scores.weights_value})[:6]
    context = next((side.maker[v] for v in late if _is_context(side, side.maker[v], scores)), None)
    width = side.high[side.source(scores.query_value)].shape[-1] // scores.query.shape[-1]
    heads = width if width > 1 and len(scores.logits) % width == 0 and len(scores.lead) == 1 else scores.heads
    site = ReplayedAttention(side, node, scores, product, scale, bias, context, heads)
    return site if close(site.weights(side.high), scores.weights, scores.visible) else None


def _is_context(side: Side, node: Node, scores: AttentionScores) -> bool:
    found = contraction(side, node) if node.op not in MOVEMENT else None
    return found is not None and len(found.summed) == 1 and scores.weights.numel() in (
        side.high[found.first_value].numel(), side.high[found.second_value].numel(),
    )  # fmt: skip


def _scale_and_bias(side: Side, s: AttentionScores, product: Node) -> tuple[float, Tensor | None]:
    """The factor from the product to the scores, and what is added."""
    assert s.query is not None
    assert s.key is not None
    whole = s.query @ s.key.mT
    rate = ((whole * s.scores)[s.visible].sum() / whole[s.visible].square().sum()).item()
    if close(whole * rate, s.scores, s.visible):
        return rate, None
    base, scale = side.numbers(product.value), 1.0
    for value in [s.logits_value, *side.ancestors(s.logits_value, 24)]:
        t = side.numbers(value)
        if t.shape == base.shape and bool(t.isfinite().all()):
            rate = ((t * base).sum() / base.square().sum()).item()
            if bool((t - rate * base).norm() <= 1e-9 * t.norm()):
                scale = rate
                break
    return scale, torch.where(s.visible, s.scores - whole * scale, 0.0)


def _weights(site: ReplayedAttention, scale: float = 1.0, cap: float | None = None, visible: Tensor | None = None, axis: int = -1,
             biased: bool = True) -> dict[int, Edit]:  # fmt: skip
    def edit(_: Tensor, values: Values) -> Tensor:
        return site.scores.placed(site.weights(values, scale, cap, visible, axis, biased=biased))

    return {site.scores.weights_value: edit}


def _all(edits: list[dict[int, Edit]]) -> dict[int, Edit]:
    return {value: edit for one in edits for value, edit in one.items()}


def scale(r: RecordedTensors, group: list[ReplayedAttention]) -> Finding | None:
    """B's scores have another scale."""
    first = group[0]
    assert first.scores.query is not None
    ours, size = first.scale, first.scores.query.shape[-1]
    usual = [size**-0.5, 1.0, (size * first.heads) ** -0.5, 1 / size, 1 / (size * first.heads), size**-0.25, size**0.5, ours**2]

    def change(x: float) -> ModelChange:
        says = f"{ours:.6g}", f"{x:.6g}"
        evidence = f"{{0}}'s scores times {x / ours:.6g} give {{1}}'s numbers"
        return ModelChange(
            "softmax scale", *says, evidence, first.scores.logits_value, _all([_weights(s, x / ours) for s in group])
        )

    return solved(r, [x for x in dict.fromkeys(usual) if abs(x / ours - 1) > 1e-6], change) if ours > 0 else None


def cap(r: RecordedTensors, group: list[ReplayedAttention]) -> Finding | None:
    """B's scores are capped otherwise."""
    first, ours = group[0], group[0].scores.cap
    says = "no cap" if ours is None else f"{ours:.6g}"
    if ours is not None:
        edits = _all([_weights(s, cap=0.0) for s in group])
        found = r.confirmed(ModelChange("soft-cap", says, "no cap", GIVES, first.scores.logits_value, edits))
        if found is not None:
            return found

    def change(x: float) -> ModelChange:
        evidence = f"tanh(s / {x:.6g}) · {x:.6g} of {{0}}'s scores gives {{1}}'s numbers"
        return ModelChange(
            "soft-cap", says, f"{x:.6g}", evidence, first.scores.logits_value, _all([_weights(s, cap=x) for s in group])
        )

    return solved(r, [x for x in CAPS if ours is None or abs(x / ours - 1) > 1e-6], change)


def mask(r: RecordedTensors, group: list[ReplayedAttention]) -> Finding | None:
    """B hides other pairs."""
    first = group[0]
    alike = [s for s in group if torch.equal(s.scores.visible, first.scores.visible)] if len(group) > 1 else group
    for visible in _other_masks(first):
        kind, ours, theirs = masks.named(first.scores.visible, visible)
        edits = _all([_weights(s, visible=visible) for s in alike])
        evidence = "{0}'s scores with this mask give {1}'s numbers"
        found = r.confirmed(ModelChange(kind, ours, theirs, evidence, first.scores.logits_value, edits))
        if found is not None:
            return found
    return None


def _other_masks(site: ReplayedAttention) -> Iterator[Tensor]:
    """Masks that people take for A's: another window, alignment, padding side, or none."""
    seen = site.scores.visible
    g, n, m = seen.shape
    gap = torch.arange(m) - torch.arange(n).unsqueeze(-1)
    padding = ~seen.any(1, keepdim=True)
    pads = [padding, torch.zeros_like(padding), padding.flip(-1)] if bool(padding.any()) else [padding]
    union = seen.any(0)
    low, high = (int(x) for x in (gap[union].min(), gap[union].max()))
    lowest, highest = int(gap.min()), int(gap.max())
    lows = [low, lowest, *(low + step for step in (-1, 1, -2, 2))]
    highs = [high, highest, 0, m - n, *(high + step for step in (-1, 1))]
    bands = [(x, y) for y in highs for x in lows] + [(-high, high), (low, -low)]
    bands += [(low + step, high - step) for step in (-1, 1, -2, 2)]
    if low == lowest:
        bands += [(1 - w, high) for w in range(1, min(n, WINDOWS))]
    found = list[Tensor]()
    for pad in pads:
        for x, y in dict.fromkeys(bands):
            band = (gap >= max(x, lowest)) & (gap <= min(y, highest))
            other = (band.expand(g, n, m) & ~pad).contiguous()
            if bool(other.any()) and not torch.equal(other, seen) and not any(torch.equal(other, one) for one in found):
                found.append(other)
                yield other


def axis(r: RecordedTensors, group: list[ReplayedAttention]) -> Finding | None:
    """B's softmax goes over the queries."""
    first = group[0]
    edits = _all([_weights(s, axis=-2) for s in group])
    evidence = "the softmax of {0}'s scores over queries gives {1}'s numbers"
    return r.confirmed(ModelChange("softmax axis", "over keys", "over queries", evidence, first.scores.weights_value, edits))


def bias(r: RecordedTensors, group: list[ReplayedAttention]) -> Finding | None:
    """B adds no position bias."""
    if any(s.bias is None for s in group):
        return None
    edits = _all([_weights(s, biased=False) for s in group])
    evidence = "{0}'s scores without it give {1}'s numbers"
    at = group[0].scores.logits_value
    return r.confirmed(ModelChange("position bias", "a bias is added to the scores", "it is not", evidence, at, edits))


def order(r: RecordedTensors, group: list[ReplayedAttention]) -> Finding | None:
    """B's query heads use other key and value heads."""
    first = group[0]
    assert first.scores.key is not None
    keys = first.scores.key.unflatten(0, (-1, first.heads))
    ours = [next(j for j in range(h + 1) if torch.equal(keys[:, j], keys[:, h])) for h in range(first.heads)]
    own = sorted(set(ours))
    index, times = [own.index(j) for j in ours], first.heads // len(own)
    if times < 2 or len(own) < 2:
        return None
    for other in ([h // times for h in range(first.heads)], [h % len(own) for h in range(first.heads)]):
        if other != index:
            edits = _all([_in_order(s, [own[j] for j in other]) for s in group])
            says = [f"{USES}{', '.join(map(str, x))}" for x in (index, other)]
            evidence = "{0}'s queries with the keys and values in this order give {1}'s numbers"
            found = r.confirmed(ModelChange("head order", says[0], says[1], evidence, first.scores.logits_value, edits))
            if found is not None:
                return found
    return None


def _in_order(site: ReplayedAttention, heads: list[int]) -> dict[int, Edit]:
    def weights(_: Tensor, values: Values) -> Tensor:
        return site.scores.placed(site.weights(values, order=heads))

    def context(t: Tensor, values: Values) -> Tensor:
        found = site.averaged(site.weights(values, order=heads), values, heads)
        return t if found is None else found

    edits: dict[int, Edit] = {site.scores.weights_value: weights}
    return edits if site.context is None else edits | {site.context.value: context}


def width(r: RecordedTensors, group: list[ReplayedAttention]) -> Finding | None:
    """B has more and narrower heads, or fewer and wider ones."""
    first = group[0]
    apart = first.joined_heads(first.side.high)
    if apart is None or first.bias is not None or apart[0].shape[-1] != apart[2].shape[-1]:
        return None
    whole = apart[0].shape[-1]
    size = whole // first.heads
    for heads in [h for h in range(1, whole // 2 + 1) if whole % h == 0 and h != first.heads]:
        for scale in dict.fromkeys((first.scale * math.sqrt(size * heads / whole), first.scale)):
            edits = _all([_of_width(s, heads, scale) for s in group])
            says = f"{first.heads} heads of {size}", f"{heads} of {whole // heads}"
            evidence = "{0}'s queries, keys and values in heads of this width give {1}'s numbers"
            found = r.confirmed(ModelChange("head width", *says, evidence, first.scores.logits_value, edits))
            if found is not None:
                return found
    return None


def _of_width(site: ReplayedAttention, heads: int, scale: float) -> dict[int, Edit]:
    def edit(t: Tensor, values: Values) -> Tensor:
        found = site.joined_heads(values)
        if found is None:
            return t
        q, k, v = (x.unflatten(-1, (heads, -1)).transpose(1, 2) for x in found[:3])
        visible = site.scores.visible.unflatten(0, (-1, site.heads))[:, :1]
        logits = q @ k.mT * scale
        cap = site.scores.cap
        logits = cap * torch.tanh(logits / cap) if cap else logits
        weights = torch.where(visible, logits, -torch.inf).softmax(-1).nan_to_num()
        y = (weights @ v).transpose(1, 2).flatten(2)  # [B, N, H * K]
        return found[3](y.unflatten(-1, (site.heads, -1)).transpose(1, 2).flatten(0, 1))

    return {} if site.context is None else {site.context.value: edit}
