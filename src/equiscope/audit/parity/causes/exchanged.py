"""A step that reads another value, as keys for values or a norm for its input; a fused projection that is split otherwise."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations, islice, permutations

import torch
from torch import Tensor

from equiscope.audit.parity.causes.finding import Finding
from equiscope.audit.parity.causes.replayed import downstream, first_nodes, parameters_of, references, reproduces
from equiscope.audit.parity.causes.sums import ADDITIONS, before_softmax
from equiscope.audit.parity.divergence import Divergence
from equiscope.audit.parity.sides import HIDDEN, MOVEMENT, Node, Side, rerun

NEAR = 96  # steps before the divergence among which the other value is sought
BLOCK = 200  # values of a part of a model that a residual skips
NEXT = 8  # steps after the divergence that may be the one, where the two sides have no values in common
MASKING = {"masked_fill", "masked_fill_", "where"}
PROJECTIONS = {"linear", "addmm", "matmul", "conv1d", "einsum", "bmm", "baddbmm", "mm", "add", "radd"}
JOINS = {"cat", "stack", "concat", "concatenate", "hstack"}
SCALES = {"mul", "rmul", "div", "truediv", "mul_", "div_"}
FUNCTIONS = {
    "gelu",
    "silu",
    "relu",
    "tanh",
    "sigmoid",
    "softplus",
    "elu",
    "leaky_relu",
    "mish",
    "hardswish",
    "relu6",
    "exp",
    "selu",
}
PARTS = 4  # the most parts of which each order is tried
STACK = 8  # the most siblings of which each pair is tried
MOST = 32  # values that are tried


def other_input(d: Divergence) -> Finding | None:
    """A's step with another explained value in the place of one that it reads computes B's numbers."""
    for value in _read(d):
        for other in _alike(d, value):
            result = _reading(d, value, other)
            alone = result is not None and reproduces(d, {d.a_step.value: result})
            if alone or reproduces(d, {value: d.a.numbers(other)}):
                return _named(d, value, other)
            parts = _are_parts(d.a, value, other) or (result is not None and d.hit(result) is not None)
            if parts and reproduces(d, {value: d.a.high[other], other: d.a.high[value]}):
                return _both(d, value, other)
    for other in d.a.parents(d.a_step.value):
        if (reader := _reader(d, other)) is not None:
            return _named(d, d.a_step.value, other, reader)
    for other in _alike(d, d.a_step.value):
        if reproduces(d, {d.a_step.value: d.a.numbers(other)}):
            if other in d.a.parents(d.a_step.value) and (d.a_step.op in MASKING or _is_masked(d.a, d.a_step, other)):
                return Finding("mask", "a mask", "no mask", "{0} without the mask computes {1}'s numbers")
            if (kind := _left_out(d, d.a_step, other)) is not None:
                where = f" in {d.a_step.module}" if d.a_step.module else ""
                return Finding(kind, f"{d.a_step.op}{where}", "not there", "{0} without this step computes {1}'s numbers")
            ours, theirs = (described(d.a, v) for v in (d.a_step.value, d.a.source(other)))
            return Finding("exchanged", ours, f"{theirs} in its place", "{0} with this value in its place computes {1}'s numbers")
    return None


def in_sum(d: Divergence) -> Finding | None:
    """One of A's next sums adds another explained value, where a side computes the other terms together."""
    for node in first_nodes(d.a, d.a_region, NEXT) if d.gives is None else ():
        known = [x for x in d.a.parents(node.value) if x in d.a_explained and d.a.high[x].shape == d.a.high[node.value].shape]
        if node is d.a_step or node.op not in ADDITIONS or len(known) != 1:
            continue
        here = replace(d, a_step=node)
        for other in _alike(here, known[0]):
            result = _reading(here, known[0], other)
            if result is not None and reproduces(d, {node.value: result}):
                return replace(_named(here, known[0], other), at_a=node.value)
    return None


def _reader(d: Divergence, other: int) -> Node | None:
    """Of several readers of A's step, as a norm and a sum, the one that reads this other value in B."""
    if d.a.high[other].shape != d.a.high[d.a_step.value].shape:
        return None
    users = d.a.users.get(d.a_step.value, [])
    modules = list(dict.fromkeys(node.module for node in users if node.module != d.a_step.module))
    for module in modules if len(users) > 1 else ():
        inside = [node for node in users if node.module == module]
        results = rerun(d.a, {d.a_step.value: d.a.high[other]}, [node.value for node in inside])
        if len(inside) < len(users) and len(results) == len(inside) and reproduces(d, results):
            return inside[0]
    return None


def _left_out(d: Divergence, node: Node, other: int) -> str | None:
    """What it is called that a step is left out: one that multiplies by a number or a parameter, or a function of each number."""
    if d.a.parents(node.value) != [other]:
        return None
    return "scale" if node.op in SCALES else "activation" if node.op in FUNCTIONS and len(node.inputs) == 1 else None


def left_out(d: Divergence) -> Finding | None:
    """B lacks one of A's next steps, which multiplies by a number or a parameter, or is a function of each number."""
    for node in [d.a_step] if d.gives is not None else first_nodes(d.a, d.a_region, NEXT):
        parents = d.a.parents(node.value)
        kind = _left_out(d, node, parents[0]) if len(parents) == 1 else None
        same = kind is not None and d.a.high[parents[0]].shape == d.a.high[node.value].shape
        if kind and same and reproduces(d, {node.value: d.a.numbers(parents[0])}, far=True):
            where = f" in {node.module}" if node.module else ""
            return Finding(kind, f"{node.op}{where}", "not there", "{0} without this step computes {1}'s numbers")
    return None


def skipped(d: Divergence) -> Finding | None:
    """B's step reads a value from which A computes one more block before it goes on so."""
    assert d.b_step is not None
    for value in [d.alignment.back[y] for y in d.b.parents(d.b_step.value) if y in d.alignment.back] if d.whole else ():
        later = [v for v in downstream(d.a, {value}) if v in d.a_region and d.a.maker[v].op not in MOVEMENT]
        ends = [v for v in later if d.a.high[v].shape == d.a.high[value].shape]
        for end in ends[:MOST]:
            if reproduces(d, {end: d.a.high[value]}, far=True):
                ours, theirs = (described(d.a, v) for v in (end, value))
                evidence = "{0} with this value in its place computes {1}'s numbers"
                return Finding("exchanged", f"{ours} is read", f"{theirs} is read in its place", evidence)
    return None


def _is_masked(side: Side, node: Node, value: int) -> bool:
    """Whether this step multiplies the value by zeros and ones."""
    others = [side.numbers(v) for v in node.inputs if v != value]
    return node.op in SCALES and len(others) == 1 and bool(((others[0] == 0) | (others[0] == 1)).all())


def _are_parts(side: Side, one: int, other: int) -> bool:
    """Whether these are two results of one step, as of a split."""
    node = side.maker.get(one)
    return node is not None and node.step is not None and other in [v for v, _ in node.step.outputs]


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
    """Explained values of the same shape near the step, nearest first, and near the value, which a skip may read from far."""
    near = list[int]()
    for node in dict.fromkeys((d.a_step, d.a.maker.get(value, d.a_step))):
        order = d.a.nodes.index(node)
        near += [n.value for n in [*d.a.nodes[max(0, order - NEAR) : order][::-1], *d.a.nodes[order + 1 : order + NEAR]]]
    shape, found = d.a.high[value].shape, list[int]()
    for other in dict.fromkeys(near):
        known = other in d.a.moving and other in d.a_explained and d.a.is_number(other)
        if known and other != value and d.a.high[other].shape == shape and d.a_step.value not in d.a.ancestors(other, 2 * NEAR):
            found.append(other)
    return found[:MOST]


def _named(d: Divergence, value: int, other: int, reader: Node | None = None) -> Finding:
    node = reader or d.a_step
    one, two = d.a.source(value), d.a.source(other)
    reads = [described(d.a, v) for v in (one, two)]
    evidence = "{0}'s step with this value computes {1}'s numbers"
    if node.op in ADDITIONS and before_softmax(d.a, node.value) and any(_masks(d.a, v) for v in (value, other)):
        return Finding("mask", f"{node.op} reads {reads[0]}", f"it reads {reads[1]}", evidence)
    for here, skipped in ((one, two), (two, one)):
        maker = d.a.maker.get(here)
        if maker is not None and d.a.source(maker.inputs[0]) == skipped and (kind := _left_out(d, maker, maker.inputs[0])):
            says = described(d.a, here), "it is not there"
            ours, theirs = says if here == one else says[::-1]
            return Finding(kind, ours, theirs, evidence)
    if torch.equal(d.a.numbers(value), -d.a.numbers(other)):
        return Finding("scale", f"{node.op} reads {reads[0]} as it is", "it reads -1 times this", evidence)
    follow = one in d.a.ancestors(two, 8) or two in d.a.ancestors(one, 8)
    others = [x for v in node.inputs if v != value for x in d.a.ancestors(v, BLOCK)]
    skipped = node.op in ADDITIONS and follow and (one in others or two in others)
    if skipped or _is_skipped(d.a, one, two) or _is_skipped(d.a, two, one):
        return Finding("residual", f"{node.op} reads {reads[0]}", f"it reads {reads[1]}", evidence)
    return Finding("exchanged", f"{node.op} reads {reads[0]}", f"it reads {reads[1]}", evidence)


def _masks(side: Side, value: int) -> bool:
    """Whether these numbers hide a pair when they are added to its score."""
    return bool((side.numbers(value) < HIDDEN).any())


def _is_skipped(side: Side, value: int, total: int) -> bool:
    """Whether the total is a residual sum, of a value and what is computed from it, and this is one of its two terms."""
    node = side.maker.get(total)
    if node is None or node.op not in ADDITIONS or value not in node.inputs:
        return False
    terms = [side.source(x) for x in side.parents(total)]
    return any(one in side.ancestors(other, BLOCK) for one in terms for other in terms if one != other)


def described(side: Side, value: int) -> str:
    """The step of a value in words."""
    node = side.maker.get(value)
    if node is None:
        return "the input"
    results = [] if node.step is None else [v for v, _ in node.step.outputs]
    part = f"part {results.index(value)} of " if sum(v in side.needed for v in results) > 1 else ""
    return f"{part}the {node.op} of {node.module}" if node.module else f"{part}the {node.op}"


def fused_layout(d: Divergence) -> Finding | None:
    """One projection holds several parts, as queries, keys and values: the two sides split it in other ways."""
    near = [] if d.gives is not None else d.a_region[:NEXT]  # beside recorded activations each step is tried in turn
    for value in dict.fromkeys([d.a_step.value, *d.explained_inputs(), *near]):
        node = d.a.maker.get(value)
        if node is None or node.op not in PROJECTIONS or not parameters_of(d.a, node):
            continue
        for heads, says, moved in _layouts(d.a.numbers(value)):
            if reproduces(d, {value: moved}):
                where = f"the parts of {node.module or node.op}"
                ours, theirs = says[::-1] if _by_head(d.a, value, heads) else says
                if _is_read_whole(d.a, value):
                    evidence = "{0} with these numbers in the other order gives {1}'s numbers"
                    return Finding("exchanged", f"the numbers of {node.module or node.op}: {ours}", theirs, evidence)
                return Finding(
                    "fused layout", f"{where}: {ours}", theirs, "{0}'s projection split in the other way gives {1}'s numbers"
                )
    return _order_of_split(d) or (_packed(d) if d.gives is None else None)


def _packed(d: Divergence) -> Finding | None:
    """A has one projection for each part, as queries, keys and values; B has them in one, whose numbers it splits otherwise."""
    for value in d.explained_inputs():
        read = d.a.maker[value].inputs[:1] if value in d.a.maker else ()
        group = [d.a.maker[v] for v in d.a.siblings.get(value, []) if d.a.maker[v].op == "linear"]
        group = [node for node in group if node.inputs[:1] == read]
        given = [references(node)[1:] for node in group]  # a weight, and perhaps a bias
        if len(group) not in (2, 3) or len({tuple(d.a.high[x].shape for x in one) for one in given}) > 1:
            continue
        rows = torch.cat([torch.cat([d.a.high[x].reshape(len(d.a.high[x]), -1) for x in one], 1) for one in given])
        widths = [d.a.high[x][0].numel() for x in given[0]]
        for _, (ours, theirs), moved in _layouts(rows.mT):
            parts = [t.split(widths, 1) for t in moved.mT.chunk(len(group))]
            changes = {x: t for one, part in zip(given, parts, strict=True) for x, t in zip(one, part, strict=True)}
            if reproduces(d, changes, far=True):
                where = ", ".join(dict.fromkeys(node.module or node.op for node in group))
                evidence = "{0} with its weights in this order computes {1}'s numbers"
                return Finding("fused layout", f"{where}: {ours}", theirs, evidence)
    return None


def _order_of_split(d: Divergence) -> Finding | None:
    """B takes the parts of a projection, of several widths, in another order."""
    for value in d.explained_inputs():
        for node in d.a.users.get(value, []):
            parts = [] if node.step is None else [v for v, _ in node.step.outputs]
            widths = [d.a.high[v].shape[-1] for v in parts]
            if not 2 <= len(parts) <= PARTS or len(set(widths)) < 2 or sum(widths) != d.a.high[value].shape[-1]:
                continue
            for order in islice(permutations(range(len(parts))), 1, None):
                taken = d.a.high[value].split([widths[i] for i in order], -1)
                if reproduces(d, {parts[i]: t for i, t in zip(order, taken, strict=True)}):
                    ours = f"the parts of {described(d.a, value)}, of widths {', '.join(map(str, widths))}"
                    theirs = f"in the order {', '.join(map(str, order))}"
                    return Finding("fused layout", ours, theirs, "{0} with the parts in this order computes {1}'s numbers")
    return None


def _is_read_whole(side: Side, value: int) -> bool:
    """Whether a step reads all numbers of a projection at once, as a rotation those of the keys; a fused one is split before."""
    todo, size = [value], side.high[value].numel()
    while todo:
        for node in side.users.get(todo.pop(0), []):
            if side.high[node.value].numel() == size and node.op in MOVEMENT | ADDITIONS:
                todo.append(node.value)
            elif node.op not in MOVEMENT:
                return True
    return False


def order_of_parts(d: Divergence) -> Finding | None:
    """B joins the same parts in another order, or takes the results of siblings, such as experts, in another order."""
    for value in _read(d):
        node = d.a.maker.get(value)
        if node is None or node.op not in JOINS or node.step is None or not 2 <= len(node.inputs) <= PARTS:
            continue
        parts = [d.a.high[x] for x in node.inputs]
        for order in islice(permutations(range(len(parts))), 1, None):
            if any(parts[i].shape != parts[j].shape for i, j in enumerate(order)):
                continue
            changed = rerun(d.a, {x: parts[i] for x, i in zip(node.inputs, order, strict=True)}, [value])
            if value in changed and reproduces(d, {value: changed[value]}):
                says = f"in the order {', '.join(map(str, order))}"
                what = f"{node.op} of {len(parts)} parts in {node.module or 'the model'}"
                return Finding("exchanged", what, f"the parts {says}", "{0} with the parts in this order computes {1}'s numbers")
    for group in _groups(d):
        for one, other in combinations(group[:STACK], 2):
            same = d.a.high[one].shape == d.a.high[other].shape
            if same and reproduces(d, {one: d.a.high[other], other: d.a.high[one]}, far=True):
                return _both(d, one, other)
        for turned in (group[1:] + group[:1], group[-1:] + group[:-1]) if len(group) == 3 else ():
            if reproduces(d, {one: d.a.high[other] for one, other in zip(group, turned, strict=True)}):
                ours, theirs = (", ".join(described(d.a, x) for x in names) for names in (group, turned))
                evidence = "{0} with these values in the places of one another computes {1}'s numbers"
                return Finding("exchanged", ours, f"{theirs} in their places", evidence)
    return None


def _both(d: Divergence, value: int, other: int) -> Finding:
    names = [described(d.a, x) for x in (value, other)]
    evidence = "{0} with the two exchanged computes {1}'s numbers"
    return Finding("exchanged", " and ".join(names), "each in the place of the other", evidence)


def _groups(d: Divergence) -> list[list[int]]:
    """Siblings, or results of one step such as a split, that are explained, nearest before the divergence first."""
    found = {}
    for value in d.explained_inputs(NEAR):
        group = d.a.siblings.get(value, [])
        if len(group) > 1 and d.a.maker[value].op not in MOVEMENT and set(group) <= d.a_explained:
            found[group[0]] = group
    for value in d.explained_inputs(NEAR):
        node = d.a.maker.get(value)
        results = [v for v, _ in node.step.outputs if v in d.a.high] if node is not None and node.step is not None else []
        for shape in {d.a.high[v].shape for v in results} if len(results) > 1 else ():
            parts = [v for v in results if d.a.high[v].shape == shape]
            if len(parts) > 1 and set(parts) <= d.a_explained:
                found.setdefault(parts[0], parts)
    return list(found.values())[:4]


def _layouts(y: Tensor) -> Iterator[tuple[int, tuple[str, str], Tensor]]:
    """(heads, two ways to split y, the numbers in the places where the other way finds them)."""
    width = y.shape[-1]
    for parts in (3, 2):
        what = {3: "queries, keys and values", 2: "both parts"}[parts]
        for heads in range(2, 65) if width % parts == 0 else ():
            if (width // parts) % heads == 0:
                size = width // parts // heads
                says = f"{what} of {heads} heads one after another", f"head by head of {heads}, each with {what}"
                for shape in ((parts, heads, size), (heads, parts, size)):
                    yield heads, says, y.unflatten(-1, shape).transpose(-3, -2).flatten(-3)
                says = (
                    f"the {size} numbers of each of {heads} heads side by side",
                    f"one number of each of {heads} heads side by side",
                )
                for shape in ((parts, heads, size), (parts, size, heads)):
                    yield heads, says, y.unflatten(-1, shape).mT.flatten(-3)
        if width % parts == 0 and width > parts:
            says = f"{what} one after another", f"{what} in turn, number by number"
            for rows in (parts, width // parts):
                yield width // parts, says, y.unflatten(-1, (rows, -1)).mT.flatten(-2)
    for size in (n for n in range(4, width // 8 + 1) if width % n == 0):
        blocks = width // size
        for groups in (n for n in range(2, blocks // 4 + 1) if blocks % n == 0):
            shared = blocks // groups - 2  # query heads of a group, beside its key and its value
            place = torch.arange(blocks).view(groups, -1)
            flat = torch.cat((place[:, :shared].flatten(), place[:, shared], place[:, shared + 1]))
            says = "all queries, all keys, all values", f"in {groups} groups, each with {shared} queries, its key and its value"
            for order in (flat, flat.argsort()):
                yield groups, says, y.unflatten(-1, (blocks, size))[..., order, :].flatten(-2)


def _by_head(side: Side, value: int, heads: int) -> bool:
    """Whether this side views the projection with the heads before its parts."""
    for node in side.users.get(value, []):
        shape = list(side.high[node.value].shape)
        if heads in shape and (3 not in shape or shape.index(heads) < shape.index(3)):
            return True
    return False
