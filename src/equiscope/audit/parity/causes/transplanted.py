"""Transplants: a mask, a number of the code or an order of numbers of B in the place of A's.

What B has at the steps where the two diverge is put where A has its own, and A computes B's outputs or it does not.
"""

from collections.abc import Iterator
from itertools import permutations
from typing import Any

import torch
from torch import Tensor

from equiscope.audit.parity.alignment import difference, is_rounding, output_pairs, sorted_numbers
from equiscope.audit.parity.causes.exchanged import described
from equiscope.audit.parity.causes.finding import Finding
from equiscope.audit.parity.causes.masks import named
from equiscope.audit.parity.causes.replayed import first_nodes, reproduces
from equiscope.audit.parity.causes.scores import first_scores
from equiscope.audit.parity.causes.sums import ADDITIONS, before_softmax
from equiscope.audit.parity.divergence import Divergence
from equiscope.audit.parity.sides import HIDDEN, MOVEMENT, Node, Side
from equiscope.program.program import each, leaves_of

NEAR = 10  # steps after the divergence whose masks and numbers are transplanted
UPSTREAM = 16  # steps from such a step back to its mask
JOINING = {
    "and", "or", "invert", "bitwise_and", "bitwise_or", "bitwise_not", "logical_and", "logical_or", "logical_not", "masked_fill",
    "where", "mul", "rsub", "sub", "log", "tril", "triu", "bool",
}  # fmt: skip
ROWS = {"getitem", "embedding", "index_select", "gather"}
AXES = 5  # the most axes of a tensor of which each order is tried
SMALL = 0.05  # an epsilon is below it
PARAMETRIC = {"leaky_relu", "elu", "celu", "softplus", "hardtanh", "threshold", "hardshrink", "softshrink"}
SCALES = {"mul", "rmul", "div", "rdiv", "truediv", "mul_", "div_", "baddbmm"}
FAMILY = {"softmax scale": "scale"}  # a scale of scores is a scale; an epsilon of B is none of A's scales
TAKING = {"getitem", "select", "index_select"}
NORMS = {"group_norm", "batch_norm", "instance_norm", "layer_norm", "rms_norm", "normalize"}


def mask(d: Divergence) -> Finding | None:
    """A with B's mask computes B's numbers."""
    theirs = [d.b.high[v] for v in _masks(d.b, d.b_region)]
    for value in _masks(d.a, d.a_region):
        mine = d.a.high[value]
        for t in [*theirs, *(~x for x in theirs if x.dtype == torch.bool), _all_visible(mine)]:
            other = _like(t, mine)
            if other is None or torch.equal(other, mine):
                continue
            if reproduces(d, {value: other}):
                additive = _adds(mine)
                return _named(d, _visible(mine, additive), _visible(other, additive))
    return None


def table(d: Divergence) -> Finding | None:
    """A with B's table of integers, as of distances, or with its own transposed or off by one, computes B's numbers."""
    theirs = [(d.b.high[v], "others in their place") for v in _tables(d.b, d.b_region)]
    for value in _tables(d.a, d.a_region):
        mine = d.a.high[value]
        moved = [(mine + 1, "one more"), (mine - 1, "one less")] if _are_rows(d.a, value) else []
        for t, says in (*theirs, (mine.mT, "the same, transposed"), *moved):
            if t.numel() == mine.numel() and not torch.equal(t.reshape(mine.shape), mine) and _reproduces(d, value, t):
                kind = "position bias" if first_scores(d.a, d.a_region) is not None else "exchanged"
                evidence = "{0} with these integers computes {1}'s numbers"
                return Finding(kind, f"integers of {described(d.a, value)}", says, evidence)
    return None


def _reproduces(d: Divergence, value: int, t: Tensor) -> bool:
    """Whether A with these integers computes B's numbers. False if an index is out of range."""
    try:
        return reproduces(d, {value: t})
    except IndexError:
        return False


def _are_rows(side: Side, value: int) -> bool:
    """Whether integers, perhaps changed, say which rows are read."""
    todo, seen = [value], {value}
    while todo:
        for node in side.users.get(todo.pop(), []):
            if side.is_number(node.value):
                if node.op in ROWS:
                    return True
            elif node.value not in seen and side.high[node.value].dtype != torch.bool:
                seen.add(node.value)
                todo.append(node.value)
    return False


def _tables(side: Side, region: list[int]) -> list[int]:
    """Square tables of integers that depend on no input and that the first steps read, nearest first."""
    found, todo = dict[int, None](), [x for node in first_nodes(side, region, NEAR) for x in node.inputs]
    seen = set[int]()
    while todo and len(seen) < NEAR * UPSTREAM:
        value = todo.pop(0)
        moved = value in side.maker and side.maker[value].op in MOVEMENT | ROWS
        if value in seen or (value in side.moving and not moved) or value not in side.high:
            continue
        seen.add(value)
        t = side.high[value]
        if (
            not (t.is_floating_point() or t.is_complex())
            and t.dtype != torch.bool
            and t.ndim >= 2
            and t.shape[-1] == t.shape[-2] > 1
        ):
            found[value] = None
        todo += side.maker[value].inputs if value in side.maker else ()
    return list(found)


def _masks(side: Side, region: list[int]) -> list[int]:
    """Values of two numbers, of which one hides, that the first steps read, nearest first."""
    found, todo = dict[int, None](), [x for node in first_nodes(side, region, NEAR) for x in node.inputs]
    seen = set[int]()
    while todo and len(seen) < NEAR * UPSTREAM:
        value = todo.pop(0)
        if value in seen:
            continue
        seen.add(value)
        if value not in side.high or (side.is_number(value) and value in side.moving and side.high[value].numel() > 1 << 20):
            continue
        if _is_mask(side.high[value]) and _is_read_as_mask(side, value, set(region)):
            found[value] = None
        if not side.is_number(value) or value not in side.moving or _is_mask(side.high[value]):
            todo += side.maker[value].inputs if value in side.maker else ()
    return list(found)


def _is_read_as_mask(side: Side, value: int, region: set[int]) -> bool:
    """Whether a step of the region reads this mask, perhaps after it was moved, joined with another or turned into numbers."""
    todo = [value]
    for _ in range(UPSTREAM):
        if not todo:
            return False
        for node in side.users.get(todo.pop(0), []):
            if node.value in region:
                return True
            if node.op in JOINING | MOVEMENT:
                todo.append(node.value)
    return False


def _is_mask(t: Tensor) -> bool:
    if t.numel() < 2 or t.is_complex():
        return False
    if t.dtype == torch.bool:
        return True
    hidden = t < HIDDEN
    return bool(((t == 0) | (t == 1) | hidden).all()) and bool(t.unique().numel() <= 2) and t.ndim > 0


def _adds(t: Tensor) -> bool:
    """Whether a mask is added to the scores: some of its numbers hide."""
    return t.dtype != torch.bool and bool((t < HIDDEN).any())


def _visible(t: Tensor, additive: bool) -> Tensor:
    """What a mask leaves visible: True, 0 where it is added to the scores, else 1."""
    return t if t.dtype == torch.bool else t == 0 if additive else t != 0


def _all_visible(t: Tensor) -> Tensor:
    return torch.zeros_like(t) if _adds(t) else torch.ones_like(t)


def _like(t: Tensor, mine: Tensor) -> Tensor | None:
    """B's mask in the shape and the numbers of A's; None where it has another size."""
    shape = [n for n in mine.shape if n > 1]
    own = t.squeeze()
    if list(own.shape) != shape:
        if own.ndim > len(shape) and list(own.shape[own.ndim - len(shape) :]) == shape:
            flat = own.reshape(-1, *shape)
            if not bool((flat == flat[:1]).all()):
                return None
            own = flat[0]
        else:
            return None
    own = own.reshape(mine.shape)
    if mine.dtype == torch.bool:
        return _visible(own, _adds(own))
    if own.dtype != torch.bool:
        return own.to(mine.dtype)
    return torch.where(own, 0.0, -torch.inf).to(mine.dtype) if _adds(mine) else own.to(mine.dtype)


def _named(d: Divergence, ours: Tensor, theirs: Tensor) -> Finding:
    scores = first_scores(d.a, d.a_region)
    square = ours.ndim == 2 and ours.shape[0] == ours.shape[1]
    pairs = ours.ndim > 2 or (square if scores is None else ours.shape == scores.logits.shape[-2:])
    rows = ours.shape[-2] if pairs else 1  # else sequences and keys
    kind, says, other = named(ours.reshape(-1, rows, ours.shape[-1]), theirs.reshape(-1, rows, ours.shape[-1]))
    return Finding(kind, says, other, "{0} with {1}'s mask computes {1}'s numbers")


def number(d: Divergence) -> Finding | None:
    """A with a number of B's code in the place of its own computes B's numbers."""
    nodes = [(_kind(d.b, node), node) for node in _with_constants(d.b, first_nodes(d.b, d.b_region, 2 * NEAR))]
    for node in _with_constants(d.a, first_nodes(d.a, d.a_region, NEAR)):
        kind = _kind(d.a, node)
        theirs = {x for other, one in nodes if kind and FAMILY.get(other, other) == FAMILY.get(kind, kind) for x in _floats(one)}
        for x in _floats(node):
            for other in sorted(theirs - {x}):
                result = _with(d.a, node, x, other)
                if result is not None and reproduces(d, {node.value: result}):
                    what = f"{node.op} with {x:.6g}"
                    return Finding(kind, what, f"{other:.6g}", f"{{0}} with {other:.6g} in its place computes {{1}}'s numbers")
    return None


def _with_constants(side: Side, nodes: list[Node]) -> list[Node]:
    """Steps, and those with an epsilon that compute what they read without any input, as the root of a running variance.

    Not other numbers of such steps: a factor in a table that all layers read, as of sines, is better named by the use of the table.
    """
    found, todo = list(nodes), [x for node in nodes for x in node.inputs]
    seen = set[int]()
    while todo:
        value = todo.pop(0)
        if value not in seen and value not in side.moving and value in side.maker:
            node = side.maker[value]
            found += [node] if _kind(side, node) == "epsilon" else []
            todo += node.inputs
        seen.add(value)
    return found


def _kind(side: Side, node: Node) -> str:
    if node.op in ADDITIONS | NORMS and any(0 < x < SMALL for x in _floats(node)):
        return "epsilon"
    if node.op in SCALES:
        return "softmax scale" if before_softmax(side, node.value) else "scale"
    return "activation" if node.op in PARAMETRIC else ""


def _floats(node: Node) -> list[float]:
    given = () if node.step is None else leaves_of((node.step.args, node.step.kwargs))
    return [x for x in given if isinstance(x, float)]


def _with(side: Side, node: Node, x: float, other: float) -> Tensor | None:
    """The result of a step with another number."""
    step = node.step
    if step is None or len(step.outputs) != 1:
        return None

    def read(y: Any) -> Any:
        return side.high[y.id] if hasattr(y, "id") else other if isinstance(y, float) and y == x else y

    with torch.no_grad():
        result = step.call(*each(step.args, read), **each(step.kwargs, read))
    return result if isinstance(result, Tensor) and result.shape == side.high[node.value].shape else None


def rows(d: Divergence) -> Finding | None:
    """A's step with other rows of a value than those that it takes, as the first token for the last one, computes B's numbers."""
    assert d.b_step is not None
    near = [d.b_step, *first_nodes(d.b, d.b_region, NEAR)]
    theirs = {v: node for node in near[::-1] for v in (node.value, *_moved(d.b, node)) if d.b.is_number(v)}
    for value in (d.a_step.value, *_moved(d.a, d.a_step)):
        node = d.a.maker.get(value)
        if node is None or node.op not in TAKING or len(d.a.parents(value)) != 1 or not d.a.is_number(value):
            continue
        mine, whole = d.a.numbers(value), d.a.numbers(d.a.parents(value)[0])
        for axis in (i for i in range(min(whole.ndim, 3)) if whole.shape[:i] + whole.shape[i + 1 :] == mine.shape):
            of_each = whole.movedim(axis, 0)
            for other, reader in theirs.items():
                given = d.b.numbers(other)
                which, taken = _rows_like(of_each, given.reshape(mine.shape), axis) if given.numel() == mine.numel() else ([], mine)
                if which and not torch.equal(taken, mine) and reproduces(d, {value: taken}, far=True):
                    own, source = _rows_like(of_each, mine, axis)[0], described(d.a, d.a.parents(value)[0])
                    says = [f"{_listed(one)} of axis {axis} of {source}" for one in (own, which)]
                    at_b = None if reader is d.b_step else reader.value
                    evidence = "{0} with these rows computes {1}'s numbers"
                    return Finding("exchanged", says[0], f"{says[1]} in their place", evidence, at_b=at_b)
    return None


def _rows_like(whole: Tensor, rows: Tensor, axis: int) -> tuple[list[int], Tensor]:
    """Which entries of the first axis these rows are, for each sequence of the batch, and the rows; none where they are not."""
    gap = whole - rows
    if axis:
        which = gap.flatten(2).norm(dim=-1).argmin(0) if gap.ndim > 2 else gap.abs().argmin(0)
        taken = whole[which, torch.arange(len(which))]
    else:
        which = gap.flatten(1).norm(dim=-1).argmin()[None]
        taken = whole[int(which)]
    return (which.tolist(), taken) if is_rounding(difference(rows, taken)) else ([], taken)


def _listed(entries: list[int]) -> str:
    return f"entry {entries[0]}" if len(set(entries)) == 1 else f"entries {', '.join(map(str, entries))}"


def constants(d: Divergence) -> Finding | None:
    """A with B's constants, which it adds to scores, or with its own in another order, computes B's numbers."""
    theirs = dict.fromkeys(v for node in first_nodes(d.b, d.b_region, NEAR) for v in node.inputs if _is_constant(d.b, v))
    evidence = "{0} with these constants computes {1}'s numbers"
    for node in first_nodes(d.a, d.a_region, 2 * NEAR):
        for value in (v for v in node.inputs if _is_constant(d.a, v)):
            mine, scores = d.a.numbers(value), node.op in ADDITIONS and before_softmax(d.a, node.value)
            ours = f"the constants that the {node.op} of {node.module or 'the model'} reads"
            if node.op in SCALES and _is_causal(mine) and reproduces(d, {value: mine.roll(1, -2).tril(-1)}):
                return Finding("mask", ours, "in each row those of the row before it", evidence)
            for given in (d.b.numbers(v) for v in theirs if d.b.high[v].numel() == mine.numel()):
                reordered = is_rounding(difference(*(t.flatten().sort().values for t in (mine, given))))
                for t in (given, *(given.permute(p) for p in _axes(mine, given))) if scores or reordered else ():
                    if [n for n in t.shape if n > 1] != [n for n in mine.shape if n > 1]:
                        continue
                    if not is_rounding(difference(mine, t.reshape(mine.shape))) and reproduces(d, {value: t}):
                        what = "the same numbers in another order" if reordered else "other numbers"
                        return Finding("position bias" if scores else "exchanged", ours, what, evidence)
    return None


def _is_causal(t: Tensor) -> bool:
    """Whether these factors hide the later keys from each query, and no other key."""
    square = t.ndim > 1 and t.shape[-1] == t.shape[-2] > 2
    return square and torch.equal(t != 0, torch.ones_like(t, dtype=torch.bool).tril())


def _is_constant(side: Side, value: int) -> bool:
    """Whether these numbers depend on no input, are more than those of one axis, and hide nothing when they are added."""
    if value not in side.high or value in side.moving or not side.is_number(value) or side.high[value].squeeze().ndim < 2:
        return False
    return bool((side.numbers(value) > HIDDEN).all())


def order(d: Divergence) -> Finding | None:
    """A's step with the same numbers in the order in which B has them computes B's numbers."""
    found: Finding | None = None
    if not d.a_region and not d.b_region and (found := _order_of_outputs(d)) is not None:
        return found
    for value, other in _explained(d):
        mine, theirs = d.a.numbers(value), d.b.numbers(other)
        for t in dict.fromkeys((theirs, *(theirs.permute(p) for p in _axes(mine, theirs)))):
            if d.is_same(difference(mine, t.reshape(mine.shape)), other):
                continue
            if reproduces(d, {value: t.reshape(mine.shape)}):
                at_a, at_b = d.a.source(value), d.b.source(other)
                one, two = d.a.numbers(at_a), d.b.numbers(at_b)
                moved = d.is_same(difference(one.flatten(), two.flatten()), other)
                if moved:
                    at_a, at_b = value, other  # the two make these numbers in one order, and move them otherwise
                evidence = "{0} with these numbers in {1}'s order computes {1}'s numbers"
                says = f"the numbers of {described(d.a, at_a)}", "the same numbers in another order"
                first, second = (v if v in side.maker else None for v, side in ((at_a, d.a), (at_b, d.b)))
                if not moved and any(d.is_same(difference(one, t), other) for t in _in_axes(two, one)):
                    first = second = None  # the two make these numbers with their axes in another order, and read them otherwise
                found = Finding("exchanged", *says, evidence, first, second)
                break
    return found  # where the order arises: of the values that reproduce B, the first one


def _order_of_outputs(d: Divergence) -> Finding | None:
    """All values have equals, and an output holds the same numbers in another order."""
    for _, x, y in output_pairs(d.a, d.b):
        ours, theirs = sorted_numbers(d.a.numbers(x)), sorted_numbers(d.b.numbers(y))
        if ours is None or theirs is None or torch.equal(d.a.numbers(x), d.b.numbers(y)) or x != d.a_step.value:
            continue
        if ours.shape == theirs.shape and is_rounding(difference(ours, theirs)):
            what = f"the numbers of {described(d.a, d.a.source(x))}"
            return Finding("exchanged", what, "the same numbers in another order", "sorted, the outputs of {0} and {1} are equal")
    return None


def _explained(d: Divergence) -> Iterator[tuple[int, int]]:
    """What A's first step reads, also before its numbers were moved, each with what B's first step reads of the same numbers."""
    assert d.b_step is not None
    for value in _moved(d.a, d.a_step):
        for other in _moved(d.b, d.b_step):
            if d.a.high[value].numel() == d.b.high[other].numel() and d.a.is_number(value) and d.b.is_number(other):
                first, second = d.a.numbers(value).flatten().sort().values, d.b.numbers(other).flatten().sort().values
                if d.is_same(difference(second, first), other):
                    yield value, other


def _in_axes(t: Tensor, like: Tensor) -> list[Tensor]:
    """A tensor with its axes in each order in which it has the shape of another one."""
    orders = permutations(range(t.ndim)) if t.ndim <= AXES else ()
    return [t.permute(p) for p in orders if tuple(t.shape[i] for i in p) == tuple(like.shape)]


def _moved(side: Side, node: Node) -> list[int]:
    found, todo = dict[int, None](), side.parents(node.value)
    while todo and len(found) < 12:
        value = todo.pop(0)
        if value not in found:
            found[value] = None
            todo += side.parents(value) if value in side.maker and side.maker[value].op in MOVEMENT else []
    return list(found)


def _axes(mine: Tensor, theirs: Tensor) -> list[tuple[int, ...]]:
    """The exchange of two axes that gives B's numbers A's shape."""
    pairs = [(i, j) for j in range(theirs.ndim) for i in range(j)]
    found = []
    for i, j in pairs:
        axes = list(range(theirs.ndim))
        axes[i], axes[j] = axes[j], axes[i]
        if [theirs.shape[k] for k in axes] == list(mine.shape):
            found.append(tuple(axes))
    return found
