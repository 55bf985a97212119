"""A step that reads another value, as keys for values or a norm for its input; a fused projection that is split otherwise."""

from collections.abc import Iterator
from itertools import combinations, islice, permutations

from torch import Tensor

from equiscope.audit.parity.causes.finding import Finding
from equiscope.audit.parity.causes.replayed import parameters_of, reproduces
from equiscope.audit.parity.causes.sums import ADDITIONS
from equiscope.audit.parity.divergence import Divergence
from equiscope.audit.parity.sides import MOVEMENT, Node, Side, rerun

NEAR = 96  # steps before the divergence among which the other value is sought
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
            if result is not None and d.hit(result) is not None and reproduces(d, {value: d.a.high[other], other: d.a.high[value]}):
                return _both(d, value, other)
    for other in d.a.parents(d.a_step.value):
        if (reader := _reader(d, other)) is not None:
            return _named(d, d.a_step.value, other, reader)
    for other in _alike(d, d.a_step.value):
        if reproduces(d, {d.a_step.value: d.a.numbers(other)}):
            if d.a_step.op in MASKING and other in d.a.parents(d.a_step.value):
                return Finding("mask", "a mask", "no mask", "{0} without the mask computes {1}'s numbers")
            if (kind := _left_out(d, other)) is not None:
                where = f" in {d.a_step.module}" if d.a_step.module else ""
                return Finding(kind, f"{d.a_step.op}{where}", "not there", "{0} without this step computes {1}'s numbers")
            ours, theirs = (described(d.a, v) for v in (d.a_step.value, d.a.source(other)))
            return Finding("exchanged", ours, f"{theirs} in its place", "{0} with this value in its place computes {1}'s numbers")
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


def _left_out(d: Divergence, other: int) -> str | None:
    """What it is called that a step is left out: one that multiplies by a number of the code, or a function of each number."""
    node = d.a_step
    if other not in d.a.parents(node.value) or len(node.inputs) > 1:
        return None
    return "scale" if node.op in SCALES else "activation" if node.op in FUNCTIONS else None


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


def _named(d: Divergence, value: int, other: int, reader: Node | None = None) -> Finding:
    node = reader or d.a_step
    one, two = d.a.source(value), d.a.source(other)
    reads = [described(d.a, v) for v in (one, two)]
    evidence = "{0}'s step with this value computes {1}'s numbers"
    follow = one in d.a.ancestors(two, 8) or two in d.a.ancestors(one, 8)
    if (node.op in ADDITIONS and follow) or _is_term(d.a, one, two) or _is_term(d.a, two, one):
        return Finding("residual", f"{node.op} reads {reads[0]}", f"it reads {reads[1]}", evidence)
    return Finding("exchanged", f"{node.op} reads {reads[0]}", f"it reads {reads[1]}", evidence)


def _is_term(side: Side, value: int, total: int) -> bool:
    """Whether this is one of the terms of a sum."""
    node = side.maker.get(total)
    return node is not None and node.op in ADDITIONS and value in node.inputs


def described(side: Side, value: int) -> str:
    """The step of a value in words."""
    node = side.maker.get(value)
    if node is None:
        return "the input"
    results = [] if node.step is None else [v for v, _ in node.step.outputs]
    part = f"part {results.index(value)} of " if len(results) > 1 else ""
    return f"{part}the {node.op} of {node.module}" if node.module else f"{part}the {node.op}"


def fused_layout(d: Divergence) -> Finding | None:
    """One projection holds several parts, as queries, keys and values: the two sides split it in other ways."""
    for value in dict.fromkeys([d.a_step.value, *d.explained_inputs()]):
        node = d.a.maker.get(value)
        if node is None or node.op not in PROJECTIONS or not parameters_of(d.a, node):
            continue
        for heads, says, moved in _layouts(d.a.numbers(value)):
            if reproduces(d, {value: moved}):
                where = f"the parts of {node.module or node.op}"
                ours, theirs = says[::-1] if _by_head(d.a, value, heads) else says
                return Finding(
                    "fused layout", f"{where}: {ours}", theirs, "{0}'s projection split in the other way gives {1}'s numbers"
                )
    return None


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
            if d.a.high[one].shape == d.a.high[other].shape and reproduces(d, {one: d.a.high[other], other: d.a.high[one]}):
                return _both(d, one, other)
    return None


def _both(d: Divergence, value: int, other: int) -> Finding:
    names = [described(d.a, x) for x in (value, other)]
    evidence = "{0} with the two exchanged computes {1}'s numbers"
    return Finding("exchanged", " and ".join(names), "each in the place of the other", evidence)


def _groups(d: Divergence) -> list[list[int]]:
    """Siblings that are explained, nearest before the divergence first."""
    found = {}
    for value in d.explained_inputs(NEAR):
        group = d.a.siblings.get(value, [])
        if len(group) > 1 and d.a.maker[value].op not in MOVEMENT and set(group) <= d.a_explained:
            found[group[0]] = group
    return list(found.values())[:2]


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


def _by_head(side: Side, value: int, heads: int) -> bool:
    """Whether this side views the projection with the heads before its parts."""
    for node in side.users.get(value, []):
        shape = list(side.high[node.value].shape)
        if heads in shape and (3 not in shape or shape.index(heads) < shape.index(3)):
            return True
    return False
