"""Attention: scale, soft-cap and mask of the scores, order and width of heads, axis of the softmax."""

import torch
from torch import Tensor

from equiscope.audit.parity.alignment import difference, is_rounding
from equiscope.audit.parity.causes.contractions import contraction
from equiscope.audit.parity.causes.elementwise import solve_cap
from equiscope.audit.parity.causes.finding import Finding
from equiscope.audit.parity.causes.masks import named
from equiscope.audit.parity.causes.replayed import arguments, downstream, reproduces
from equiscope.audit.parity.causes.scores import CLOSE, PRODUCT, AttentionScores, close, first_scores, matched_heads
from equiscope.audit.parity.divergence import Divergence
from equiscope.audit.parity.sides import HIDDEN, MOVEMENT, SOFTMAX, Side

NEAR = 16
USES = "query heads use key heads "
Changed = tuple[Finding, Tensor] | None  # a finding, and A's attention weights with this change
SCALES = {"mul", "rmul", "Mul", "div", "Div", "truediv"}
AXES = {-1: "keys", -2: "queries"}


def softmax_axis(d: Divergence) -> Finding | None:
    """Both first steps are the softmax of the same numbers in the same order, over another axis, as of a router over tokens."""
    assert d.b_step is not None
    log = [node.op.lower().replace("_", "") == "logsoftmax" for node in (d.a_step, d.b_step)]
    if log[0] != log[1] or not (log[0] or (d.a_step.op in SOFTMAX and d.b_step.op in SOFTMAX)):
        return None
    dims = [dim for node in (d.a_step, d.b_step) if isinstance(dim := arguments(node, "input", "dim").get("dim"), int)]
    before = [side.parents(node.value) for side, node in ((d.a, d.a_step), (d.b, d.b_step))]
    if len(dims) < 2 or any(len(x) != 1 for x in before):
        return None
    x, y = d.a.numbers(before[0][0]), d.b.numbers(before[1][0])
    if x.numel() != y.numel() or not is_rounding(difference(x.flatten(), y.flatten())):
        return None
    if not reproduces(d, {d.a_step.value: y.log_softmax(dims[1]) if log[0] else y.softmax(dims[1])}, far=True):
        return None
    ours, theirs = (f"over axis {dim % t.ndim} of {list(t.shape)}" for dim, t in zip(dims, (x, y), strict=True))
    return Finding("softmax axis", ours, theirs, f"the softmax of {{0}}'s numbers {theirs} gives {{1}}'s")


def attention(d: Divergence) -> Finding | None:
    """The scores of the first softmax that differs, changed in one way, are B's."""
    a, b = first_scores(d.a, d.a_region), first_scores(d.b, d.b_region)
    if a is None or b is None:
        return None
    for other in (b, b.transposed()) if a.axis != b.axis else (b,):
        if a.logits.shape != other.logits.shape:
            found = _head_width(a, other)
        else:
            found = next(filter(None, (_replayed(d, a, hypothesis(d, a, other)) for hypothesis in OF_SCORES)), None)
        if found is not None:
            return found
    return None


def _replayed(d: Divergence, a: AttentionScores, changed: Changed) -> Finding | None:
    """The finding, if A with these attention weights computes B's numbers; heads in another order take their values along."""
    if changed is None or d.a.program is None:
        return None if changed is None else changed[0]
    finding, weights = changed
    changes = {a.weights_value: a.placed(weights)}
    if finding.kind == "head order" and (values := _values_in_order(d, a, finding)) is not None:
        return finding if reproduces(d, changes) or reproduces(d, changes | values) else None
    return finding if reproduces(d, changes) else None


def _common(a: AttentionScores, b: AttentionScores) -> Tensor:
    return a.visible & b.visible


def _softmax_axis(d: Divergence, a: AttentionScores, b: AttentionScores) -> Changed:
    order = matched_heads(a.logits, b.logits, _common(a, b))
    if a.axis == b.axis or order is None or not close(a.logits, b.logits[order], a.visible & b.visible[order]):
        return None
    whole = torch.where(b.visible[order], a.logits, -torch.inf).reshape(*a.lead, *a.logits.shape[-2:])
    other = whole.softmax(b.axis).nan_to_num().reshape(a.logits.shape)
    if close(other, b.weights[order], b.visible[order]):
        ours, theirs = (f"over {AXES.get(s.axis, 'heads or sequences')}" for s in (a, b))
        return Finding("softmax axis", ours, theirs, f"the softmax of {{0}}'s scores {theirs} is {{1}}'s"), other
    return None


def _mask(d: Divergence, a: AttentionScores, b: AttentionScores) -> Changed:
    """AttentionScores agree where both are visible, and {0}'s unmasked scores with {1}'s mask give {1}'s weights."""
    order = matched_heads(a.logits, b.logits, _common(a, b)) or list(range(len(a.logits)))
    visible, weights = b.visible[order], b.weights[order]
    both = a.visible & visible
    logits = _with_mean_of(b.logits[order], a.logits, both)
    if torch.equal(a.visible, visible) or (bool(both.any()) and not close(a.logits, logits, both)):
        return None
    full = a.logits
    if bool((visible & ~a.visible).any()):
        unmasked = _unmasked(d, a)
        if unmasked is None:
            return None
        full = unmasked
    rows = visible.any(-1, keepdim=True).expand_as(visible) & visible
    replayed = torch.where(visible, full, -torch.inf).softmax(-1).nan_to_num()
    if not close(replayed, weights, rows):
        return None
    kind, ours, theirs = named(a.visible, visible)
    return Finding(kind, ours, theirs, "{0}'s scores with {1}'s mask give {1}'s attention weights"), weights


def _with_mean_of(t: Tensor, like: Tensor, where: Tensor) -> Tensor:
    """The scores t with a number added to each row, which no softmax sees, so that their mean over these entries is the other's."""
    gap = torch.where(where, like - t, 0.0).sum(-1, keepdim=True) / where.sum(-1, keepdim=True).clamp(min=1)
    return t + gap


def _unmasked(d: Divergence, a: AttentionScores) -> Tensor | None:
    """The scores before the mask: the nearest earlier value that equals them where they are visible."""
    for value in d.a.ancestors(a.logits_value, 24):
        t = d.a.numbers(value)
        if t.numel() != a.logits.numel():
            continue
        t = t.reshape(a.logits.shape)
        if bool((t > HIDDEN).all()) and close(t, a.logits, a.visible):
            return t
    if a.query is None or a.key is None:
        return None
    product = a.query @ a.key.mT
    rate = (product * a.logits)[a.visible].sum() / product[a.visible].square().sum()
    return product * rate if close(product * rate, a.logits, a.visible) else None


def _scale(d: Divergence, a: AttentionScores, b: AttentionScores) -> Changed:
    both = _common(a, b)
    order = matched_heads(a.scores, b.scores, both)
    if order is None:
        return _scale_with_bias(a, b)
    scores, visible = b.scores[order], b.visible[order]
    both = a.visible & visible
    rate = (a.scores * scores)[both].sum() / a.scores[both].square().sum()
    if abs(rate.item() - 1) < CLOSE or not close(a.scores * rate, scores, both):
        return None
    scale_a = _scale_of(a)
    if scale_a is not None:
        scale_a *= _scaled_before(d.a, a.query_value) * _scaled_before(d.a, a.key_value)
    bounded = a.scores * rate if b.cap is None else (a.scores * rate / b.cap).tanh() * b.cap
    weights = torch.where(visible, bounded, -torch.inf).softmax(-1).nan_to_num()
    if torch.equal(a.visible, visible) and not close(weights, b.weights[order], visible):
        return None
    factor = rate.item()
    ours, theirs = (
        ("1 time the scores", f"{factor:.6g} times") if scale_a is None else (f"{scale_a:.6g}", f"{scale_a * factor:.6g}")
    )
    return Finding("softmax scale", ours, theirs, f"{{0}}'s scores times {factor:.6g} give {{1}}'s attention weights"), b.weights[
        order
    ]


def _scale_of(s: AttentionScores) -> float | None:
    """The factor from the product of queries and keys to the scores."""
    if s.query is None or s.key is None:
        return None
    product = s.query @ s.key.mT
    rate = ((product * s.scores)[s.visible].sum() / product[s.visible].square().sum()).item()
    return rate if close(product * rate, s.scores, s.visible) else None


def _scaled_before(side: Side, value: int) -> float:
    """The factor by which queries or keys were multiplied before their product."""
    factor = 1.0
    while (node := side.maker.get(value)) is not None and len(before := side.parents(value)) == 1:
        x, y = side.numbers(before[0]).flatten(), side.numbers(value).flatten()
        if node.op in SCALES and x.shape == y.shape:
            rate = ((x * y).sum() / x.square().sum()).item()
            if not is_rounding(difference(y, x * rate)):
                break
            factor *= rate
        elif node.op not in MOVEMENT:
            break
        value = before[0]
    return factor


def _scale_with_bias(a: AttentionScores, b: AttentionScores) -> Changed:
    """The scores differ by a multiple of the product of queries and keys: one is scaled, and the same bias is added to both."""
    if a.query is None or a.key is None or not torch.equal(a.visible, b.visible):
        return None
    product, gap = a.query @ a.key.mT, torch.where(a.visible, b.scores - a.scores, 0.0)
    rate = ((product * gap)[a.visible].sum() / product[a.visible].square().sum()).item()
    if not close(product * rate, gap, a.visible):
        return None
    says = "1 time the product of queries and keys", f"{1 + rate:.6g} times"
    return Finding("softmax scale", *says, "the scores differ by a multiple of it"), b.weights


def _cap(d: Divergence, a: AttentionScores, b: AttentionScores) -> Changed:
    if a.cap != b.cap and close(a.scores, b.scores, _common(a, b)):
        says = ["no cap" if s.cap is None else f"{s.cap:.6g}" for s in (a, b)]
        return Finding("soft-cap", says[0], says[1], "the scores of {0} and {1} are equal before their caps"), b.weights
    ours, theirs = a.logits[a.visible].sort().values, b.logits[b.visible].sort().values  # a cap keeps the order, heads may not
    bound = solve_cap(ours, theirs) if ours.shape == theirs.shape and ours.numel() else None
    if bound is None:
        return None
    evidence = f"tanh(s / {bound:.6g}) · {bound:.6g} of {{0}}'s scores gives {{1}}'s scores"
    capped = torch.where(a.visible, bound * torch.tanh(a.logits / bound), -torch.inf).softmax(-1).nan_to_num()
    return Finding("soft-cap", "no cap", f"{bound:.6g}", evidence), capped


def _head_order(d: Divergence, a: AttentionScores, b: AttentionScores) -> Changed:
    """Each query head with another key head of A gives B's scores."""
    scale = _scale_of(a)
    if a.query is None or a.key is None or scale is None:
        return None
    heads, size = a.heads, len(a.logits) // a.heads
    query, key, logits, ours = (t.unflatten(0, (size, heads)) for t in (a.query, a.key, b.scores, a.scores))
    visible = logits > HIDDEN
    keys = key[:, [i for i in range(heads) if not any(torch.equal(key[:, i], key[:, j]) for j in range(i))]]
    index_a, index_b, places, theirs = [], [], list[int](), set(range(heads))
    for head in range(heads):
        index_a.append(next(j for j in range(keys.shape[1]) if torch.equal(keys[:, j], key[:, head])))
        products = [query[:, head] @ keys[:, j].mT * scale for j in range(keys.shape[1])]
        hits = [
            (j, other)
            for other in sorted(theirs, key=lambda x: abs(x - head))
            for j, product in enumerate(products)
            if close(product, logits[:, other], visible[:, other])
        ]
        if not hits or not close(ours[:, head], products[index_a[-1]], a.visible.unflatten(0, (size, heads))[:, head]):
            return None
        index_b.append(hits[0][0])
        theirs.remove(hits[0][1])
        places.append(hits[0][1])
    if index_a == index_b:
        return None
    says = [f"{USES}{', '.join(map(str, index))}" for index in (index_a, index_b)]
    weights = b.weights.unflatten(0, (size, heads))[:, places].flatten(0, 1)
    return Finding("head order", says[0], says[1], "{0}'s queries with the keys in {1}'s order give {1}'s scores"), weights


def _values_in_order(d: Divergence, a: AttentionScores, finding: Finding) -> dict[int, Tensor] | None:
    """The values of A's product with the weights, repeated for the query heads in B's order."""
    index_a, index_b = (says.removeprefix(USES).split(", ") for says in (finding.a, finding.b))
    for value in downstream(d.a, {a.weights_value})[:4]:
        found = contraction(d.a, d.a.maker[value])
        if found is None or len(found.summed) != 1 or found.second.ndim < 3:
            continue
        values = found.second if found.second_value not in downstream(d.a, {a.weights_value}) else found.first
        if values.shape[-3] == len(index_a):
            return {found.second_value: values[..., [index_a.index(i) for i in index_b], :, :]}
    return None


def value_heads(d: Divergence) -> Finding | None:
    """The weights agree, and each head averages the values of another head."""
    assert d.b_step is not None
    if d.a_step.op not in PRODUCT or d.b_step.op not in PRODUCT:
        return None
    factors = [x for x in d.a_step.inputs if x in d.a.moving]
    if len(factors) != 2:
        return None
    weights, values = (d.a.numbers(x) for x in factors)
    if weights.ndim < 3 or weights.shape[:-2] != values.shape[:-2]:
        return None
    result, heads = d.b.numbers(d.b_step.value), weights.shape[-3]
    if result.shape != (*weights.shape[:-1], values.shape[-1]):
        return None
    order = []
    for head in range(heads):
        products = [weights[..., head, :, :] @ values[..., j, :, :] for j in range(heads)]
        hits = [j for j, p in enumerate(products) if bool((p - result[..., head, :, :]).norm() <= 1e-10 * p.norm())]
        if not hits:
            return None
        order.append(hits[0])
    if not reproduces(
        d, {d.a_step.value: torch.stack([weights[..., i, :, :] @ values[..., j, :, :] for i, j in enumerate(order)], -3)}
    ):
        return None
    says = f"heads average the values of heads {', '.join(map(str, order))}"
    return Finding(
        "head order", "each head averages its own values", says, "{0}'s weights with the values in {1}'s order give {1}'s"
    )


def _position_bias(d: Divergence, a: AttentionScores, b: AttentionScores) -> Changed:
    """The scores differ by a number that depends on the distance alone."""
    both = _common(a, b)
    if not torch.equal(a.visible, b.visible):
        return None
    gap = torch.where(both, b.logits - a.logits, 0.0)
    if gap.shape[-2] == gap.shape[-1] and bool(both.diagonal(0, -2, -1).any()):  # as if the distance 0 had none
        own = gap.diagonal(0, -2, -1).unsqueeze(-1)
        gap = torch.where(both, gap - own, 0.0) if not _by_distance(gap, both) else gap
    if not (gap.abs().max() > 0 and gap[both].std() > 1e-12):
        return None
    what = "a bias by distance" if _by_distance(gap, both) else "a bias by position"
    if what.endswith("position") and not _same_for_all_inputs(gap, a):
        return None
    says = ["no bias" if _scale_of(side) is not None else what for side in (a, b)]
    if says[0] == says[1] == what:
        says[1] = what.replace("a bias", "another bias")
    if says[0] == says[1]:
        return None
    return Finding("position bias", says[0], says[1], "the scores differ by the same numbers for every input"), b.weights


def _by_distance(gap: Tensor, both: Tensor) -> bool:
    """Whether it is one number for each distance of query and key, in each head."""
    n, m = gap.shape[-2:]
    for offset in range(-n + 1, m):
        line, seen = gap.diagonal(offset, -2, -1), both.diagonal(offset, -2, -1)
        for values, visible in zip(line, seen, strict=True):
            values = values[visible]
            if values.numel() and bool((values - values[0]).abs().max() > 1e-10 * gap.abs().max()):
                return False
    return True


def _same_for_all_inputs(gap: Tensor, a: AttentionScores) -> bool:
    """Whether it is the same for each sequence of the batch, although the scores are not."""

    def same(t: Tensor) -> bool:
        apart = t.unflatten(0, (-1, a.heads))
        return len(apart) > 1 and bool((apart - apart[:1]).abs().max() <= 1e-10 * t.abs().max())

    return same(gap) and not same(torch.where(a.visible, a.scores, 0.0))


def _head_width(a: AttentionScores, b: AttentionScores) -> Finding | None:
    """A's queries and keys, split into heads of B's width, give B's scores."""
    if a.query is None or a.key is None or b.query is None:
        return None
    size = len(a.logits) // a.heads
    width, n, m = a.query.shape[-1] * a.heads, a.query.shape[1], a.key.shape[1]
    if b.heads * b.query.shape[-1] != width or (n, m) != b.logits.shape[-2:]:
        return None

    def split(t: Tensor) -> Tensor:
        rows = t.unflatten(0, (size, a.heads)).transpose(1, 2).flatten(-2)
        return rows.unflatten(-1, (b.heads, -1)).transpose(1, 2).flatten(0, 1)

    product = split(a.query) @ split(a.key).mT
    rate = (product * b.logits)[b.visible].sum() / product[b.visible].square().sum()
    if not close(product * rate, b.logits, b.visible):
        return None
    ours, theirs = (f"{s.heads} heads of width {width // s.heads}" for s in (a, b))
    return Finding("head width", ours, theirs, f"{{0}}'s queries and keys as {theirs} give {{1}}'s scores")


OF_SCORES = (_softmax_axis, _mask, _scale, _cap, _head_order, _position_bias)
