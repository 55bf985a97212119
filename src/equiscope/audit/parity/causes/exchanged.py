"""A step that reads another value, as keys for values or a norm for its input; a fused projection that is split otherwise."""

from collections.abc import Iterator

from torch import Tensor

from equiscope.audit.parity.causes.finding import Finding
from equiscope.audit.parity.causes.replayed import reproduces
from equiscope.audit.parity.causes.scores import first_scores
from equiscope.audit.parity.causes.sums import ADDITIONS
from equiscope.audit.parity.divergence import Divergence
from equiscope.audit.parity.sides import MOVEMENT, Side, rerun

NEAR = 96  # steps before the divergence among which the other value is sought
MASKING = {"masked_fill", "masked_fill_", "where"}
MOST = 32  # values that are tried


def other_input(d: Divergence) -> Finding | None:
    """A's step with another explained value in the place of one that it reads computes B's numbers."""
    for value in _read(d):
        for other in _alike(d, value):
            result = _reading(d, value, other)
            alone = result is not None and reproduces(d, {d.a_step.value: result})
            if alone or reproduces(d, {value: d.a.numbers(other)}):
                return _named(d, value, other)
    for other in _alike(d, d.a_step.value):
        if reproduces(d, {d.a_step.value: d.a.numbers(other)}):
            if d.a_step.op in MASKING and other in d.a.parents(d.a_step.value):
                return Finding("mask", "a mask", "no mask", "{0} without the mask computes {1}'s numbers")
            ours, theirs = (_described(d.a, v) for v in (d.a_step.value, d.a.source(other)))
            return Finding("exchanged", ours, f"{theirs} in its place", "{0} with this value in its place computes {1}'s numbers")
    return None


def _reading(d: Divergence, value: int, other: int) -> Tensor | None:
    """The result of A's step with another value in the place of one that it reads; what else it reads stays."""
    kept = {v: d.a.high[v] for v in d.a.parents(d.a_step.value) if v != value and value not in _moved_from(d.a, v)}
    changed = d.a.numbers(other).to(d.a.high[value].dtype)
    return rerun(d.a, {value: changed, **kept}, [d.a_step.value]).get(d.a_step.value)


def _moved_from(side: Side, value: int) -> list[int]:
    found = list[int]()
    while value in side.maker and side.maker[value].op in MOVEMENT and side.parents(value):
        value = side.parents(value)[0]
        found.append(value)
    return found


def _read(d: Divergence) -> list[int]:
    """What A's step reads, and what these values were moved from."""
    found, todo = dict[int, None](), d.a.parents(d.a_step.value)
    while todo and len(found) < 8:
        value = todo.pop(0)
        if value not in d.a_explained or value in found:
            continue
        found[value] = None
        if value in d.a.maker and d.a.maker[value].op in MOVEMENT:
            todo += d.a.parents(value)
    return list(found)


def _alike(d: Divergence, value: int) -> list[int]:
    """Explained values of the same shape near the step, nearest first."""
    order = d.a.nodes.index(d.a_step)
    near = [n.value for n in [*d.a.nodes[max(0, order - NEAR) : order][::-1], *d.a.nodes[order + 1 : order + NEAR]]]
    shape, found = d.a.high[value].shape, list[int]()
    for other in near:
        known = other in d.a.moving and other in d.a_explained and d.a.is_number(other)
        if known and other != value and d.a.high[other].shape == shape and d.a_step.value not in d.a.ancestors(other, 2 * NEAR):
            found.append(other)
    return found[:MOST]


def _named(d: Divergence, value: int, other: int) -> Finding:
    one, two = d.a.source(value), d.a.source(other)
    reads = [_described(d.a, v) for v in (one, two)]
    evidence = "{0}'s step with this value computes {1}'s numbers"
    follow = one in d.a.ancestors(two, 8) or two in d.a.ancestors(one, 8)
    if (d.a_step.op in ADDITIONS and follow) or _is_term(d.a, one, two) or _is_term(d.a, two, one):
        return Finding("residual", f"{d.a_step.op} reads {reads[0]}", f"it reads {reads[1]}", evidence)
    return Finding("exchanged", f"{d.a_step.op} reads {reads[0]}", f"it reads {reads[1]}", evidence)


def _is_term(side: Side, value: int, total: int) -> bool:
    """Whether this is one of the terms of a sum."""
    node = side.maker.get(total)
    return node is not None and node.op in ADDITIONS and value in node.inputs


def _described(side: Side, value: int) -> str:
    node = side.maker.get(value)
    return "the input" if node is None else f"the {node.op} of {node.module}" if node.module else f"the {node.op}"


def fused_layout(d: Divergence) -> Finding | None:
    """One projection holds queries, keys and values: one side splits it by head first, the other by kind first."""
    scores = first_scores(d.a, d.a_region)
    if scores is None:
        return None
    for value in d.explained_inputs():
        node = d.a.maker.get(value)
        if node is None or node.op not in ("linear", "addmm", "matmul", "conv1d"):
            continue
        y = d.a.numbers(value)
        for heads, moved in _layouts(y):
            if reproduces(d, {value: moved}):
                says = [
                    "by head, each with its query, key and value",
                    f"queries, keys and values of {heads} heads one after another",
                ]
                ours, theirs = says if _by_head(d.a, value, heads) else says[::-1]
                return Finding("fused layout", ours, theirs, "{0}'s projection split in the other way gives {1}'s numbers")
    return None


def _layouts(y: Tensor) -> Iterator[tuple[int, Tensor]]:
    """(heads, the numbers in the places where the other way of splitting finds them)."""
    width = y.shape[-1]
    if width % 3:
        return
    for heads in range(2, 65):
        if (width // 3) % heads == 0:
            size = width // 3 // heads
            yield heads, y.unflatten(-1, (3, heads, size)).transpose(-3, -2).flatten(-3)
            yield heads, y.unflatten(-1, (heads, 3, size)).transpose(-3, -2).flatten(-3)


def _by_head(side: Side, value: int, heads: int) -> bool:
    """Whether this side views the projection with the heads before the three kinds."""
    for node in side.users.get(value, []):
        shape = list(side.high[node.value].shape)
        if heads in shape and (3 not in shape or shape.index(heads) < shape.index(3)):
            return True
    return False
