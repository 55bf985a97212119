"""Parameters: a bias that one side lacks, a weight read as its transpose, other weights, a head tied to the embedding or not."""

from collections.abc import Iterable, Iterator
from itertools import combinations, islice, permutations
from typing import Any

import torch
from torch import Tensor

from equiscope.audit.parity.alignment import difference, is_rounding, sorted_numbers
from equiscope.audit.parity.causes.finding import Finding
from equiscope.audit.parity.causes.replayed import (
    arguments,
    first_nodes,
    kind_of,
    leaf_name,
    parameters_of,
    references,
    reproduces,
)
from equiscope.audit.parity.divergence import Divergence
from equiscope.audit.parity.sides import MOVEMENT, Node, Side, rerun
from equiscope.program.program import Ref

NORM = 14  # steps of a norm that is written out
SIBLINGS = 64  # the most steps of one kind of which the biases are left out together
PRODUCTS = {"linear", "addmm", "matmul", "mm", "rmatmul", "einsum", "bmm", "baddbmm"}
NEAR = 24  # steps after the divergence whose parameters may be those of another layer
LAYERS, TRIALS = 8, 96  # other layers whose parameters are tried, for one parameter and in all
LINEAR = {"linear", "addmm", "matmul", "mm", "rmatmul"}


def operands(side: Side, node: Node) -> tuple[int, int, int | None] | None:
    """Of a linear step: the ids of its input, its weight and its bias. None for another step."""
    if node.op == "linear":
        found = arguments(node, "input", "weight", "bias")
    elif node.op == "addmm":
        found = arguments(node, "bias", "input", "weight")
        found |= {n: v for n, v in arguments(node, "", "mat1", "mat2").items() if n}
    elif node.op in ("matmul", "mm"):
        found = arguments(node, "input", "weight")
    else:
        return None
    x, w, b = (found.get(name) for name in ("input", "weight", "bias"))
    if not isinstance(x, Ref) or not isinstance(w, Ref) or w.id in side.moving:
        return None
    return x.id, w.id, b.id if isinstance(b, Ref) else None


def bias(d: Divergence) -> Finding | None:
    """A adds a bias that B does not: in its first step, in all steps of its kind as those of experts, or in a part of a result."""
    node = d.a_step
    if (leaf := _bias_of(d.a, node)) is not None and bool(d.a.numbers(leaf).any()):
        if reproduces(d, {node.value: _without_bias(d.a, node, leaf)}, 1):
            return _no_bias(leaf_name(d.a, leaf))
        same = {v: one for v in d.a.siblings.get(node.value, []) if (one := _bias_of(d.a, d.a.maker[v])) is not None}
        if 1 < len(same) <= SIBLINGS:
            changes = {v: _without_bias(d.a, d.a.maker[v], one) for v, one in same.items()}
            if reproduces(d, changes, 1):
                return _no_bias(", ".join(dict.fromkeys(leaf_name(d.a, one) for one in same.values())))
    return _bias_of_part(d)


def _bias_of(side: Side, node: Node) -> int | None:
    """The bias that a step adds; None for another step."""
    given: Any = None
    if node.op in ("linear", "addmm"):
        parts = operands(side, node)
        return None if parts is None else parts[2]
    if node.op == "baddbmm":
        given = arguments(node, "bias", "batch1", "batch2").get("bias")
    elif node.op.startswith("conv"):
        given = arguments(node, "input", "weight", "bias").get("bias")
    if node.op in ("add", "radd"):
        moving, others = side.parents(node.value), [value for value in references(node) if value not in side.moving]
        if len(moving) == len(others) == 1 and side.numbers(others[0]).squeeze().ndim == 1:
            return others[0] if kind_of(side, others[0]) == "parameter" else None
    return given.id if isinstance(given, Ref) and given.id not in side.moving else None


def _without_bias(side: Side, node: Node, leaf: int) -> Tensor:
    """The result of a step less its bias."""
    if node.op in ("add", "radd"):
        return side.numbers(side.parents(node.value)[0])
    added, y = side.numbers(leaf), side.numbers(node.value)
    return y - (added.reshape(-1, *[1] * (y.ndim - 2)) if node.op.startswith("conv") else added)


def _no_bias(name: str) -> Finding:
    return Finding("bias", f"{name} is added", "no bias is added", "{0} without it computes {1}'s numbers")


def _bias_of_part(d: Divergence) -> Finding | None:
    """B adds no bias to one part of what A's projection gives, as the queries of one for queries, keys and values."""
    for value in d.explained_inputs():
        node = d.a.maker.get(value)
        leaf = None if node is None else _bias_of(d.a, node)
        if node is None or leaf is None or not bool(d.a.numbers(leaf).any()):
            continue
        without = _without_bias(d.a, node, leaf)
        for part in _parts(d.a, d.a_step, value):
            changed = rerun(d.a, {value: without}, [part])[part]
            if not torch.equal(changed, d.a.numbers(part)) and reproduces(d, {part: changed}, 1):
                return _no_bias(f"{leaf_name(d.a, leaf)}{_which(d.a, node, part)}")
    return None


def _parts(side: Side, node: Node, whole: int) -> list[int]:
    """What a step reads that is a part of this value, moved."""
    found = []
    for value in side.parents(node.value):
        at, size = value, side.high[value].numel()
        while at != whole and at in side.maker and side.maker[at].op in MOVEMENT and len(side.parents(at)) == 1:
            at = side.parents(at)[0]
        if at == whole and size < side.high[whole].numel():
            found.append(value)
    return found


def _which(side: Side, node: Node, part: int) -> str:
    """Which entries of the last axis of a step's result a part of it holds, as an index."""
    y = side.high[node.value]
    if node.op.startswith("conv"):
        return ""
    entries = torch.arange(y.shape[-1], dtype=y.dtype).expand(y.shape)
    found = rerun(side, {node.value: entries}, [part])[part].abs().unique().long()
    first, last = int(found[0]), int(found[-1])
    return f"[{first}:{last + 1}]" if len(found) == last - first + 1 else " in part"


def transposed(d: Divergence) -> Finding | None:
    """B uses A's weight with two axes of one size exchanged, as the transpose of a square matrix or of a kernel."""
    product = d.a_step.op in PRODUCTS or d.a_step.op.startswith("conv")
    for value in parameters_of(d.a, d.a_step) if product else ():
        weight = d.a.high[value]
        for i, j in combinations(range(weight.ndim), 2):
            if weight.shape[i] == weight.shape[j] > 1 and reproduces(d, {value: weight.transpose(i, j)}):
                name, axes = leaf_name(d.a, value), "" if weight.ndim == 2 else f" in the axes {i} and {j}"
                evidence = "{0} with the transpose computes {1}'s numbers"
                return Finding("transposed", f"{name} is used as it is", f"its transpose{axes} is used", evidence)
    return None


def tied(d: Divergence) -> Finding | None:
    """A's output map with the weights of A's embedding gives B's numbers."""
    parts, table = operands(d.a, d.a_step), embedding_table(d.a)
    if parts is None or table is None or d.a.high[parts[1]].shape != d.a.high[table].shape:
        return None
    weight = d.a.numbers(parts[1])
    if torch.equal(weight, d.a.numbers(table)) or not reproduces(d, {parts[1]: d.a.numbers(table)}):
        return None
    ours = "own weights, " + leaf_name(d.a, parts[1])
    return Finding("tied head", ours, "the weights of the embedding", "{0} with its embedding's weights computes {1}'s numbers")


def other_weights(d: Divergence) -> Finding | None:
    """A's step with B's parameter gives B's result."""
    assert d.b_step is not None
    ours = parameters_of(d.a, d.a_step)
    theirs = [value for node in first_nodes(d.b, d.b_region, 2) for value in parameters_of(d.b, node)]
    for value in ours:
        for other in dict.fromkeys(theirs):
            mine, given = d.a.numbers(value), d.b.numbers(other)
            if mine.numel() != given.numel() or _equal(mine, given):
                continue
            for candidate in (given, given.mT if given.ndim == 2 else given):
                if candidate.shape == mine.shape and _step_reproduces(d, {value: candidate}):
                    return _named(d, value, other)
    return _all_others(d, ours) if len(ours) > 1 else None


def in_another_order(d: Divergence) -> Finding | None:
    """The parameter of A's step with the same numbers in the order in which B's step has them."""
    assert d.b_step is not None
    theirs = [value for node in first_nodes(d.b, d.b_region, 2) for value in parameters_of(d.b, node)]
    for value in parameters_of(d.a, d.a_step):
        for other in theirs:
            mine, given = d.a.numbers(value), d.b.numbers(other)
            if not _equal(mine, given):
                continue
            for t in (given, given.mT if given.ndim == 2 else given):
                if t.shape == mine.shape and not torch.equal(t, mine) and reproduces(d, {value: t}):
                    names = leaf_name(d.a, value), f"the numbers of {leaf_name(d.b, other)} in another order"
                    return Finding("weights", *names, "{0} with {1}'s parameter computes {1}'s numbers")
    return None


def of_sibling(d: Divergence) -> Finding | None:
    """The parameters of another layer: A computes B's numbers with those of a module that differs in one number of its name."""
    for changes, ours, theirs in islice(_of_siblings(d), TRIALS):
        if reproduces(d, changes, far=True):
            near = (d.a.maker[v] for v in d.a_region if v in d.a.maker)
            first = next((node for node in near if not changes.keys().isdisjoint(_behind(d.a, node))), d.a_step)
            at = None if first is d.a_step else first.value
            return Finding("weights", ours, theirs, "{0} with these weights computes {1}'s numbers", at)
    return None


def _of_siblings(d: Divergence) -> Iterator[tuple[dict[int, Tensor], str, str]]:
    """(changes, what A has, what B has): one with the weights of another, the two exchanged, all of them turned by one."""
    leaves = {leaf.name: leaf.id for leaf in d.a.program.leaves if leaf.kind in ("parameter", "buffer")} if d.a.program else {}
    known = {x: name for name, x in leaves.items()}
    near = [d.a_step, *(first_nodes(d.a, d.a_region, NEAR) if d.gives is None else ())]
    names = dict.fromkeys(known[value] for node in near for value in _behind(d.a, node) if value in known)

    def placed(pairs: Iterable[tuple[str, str]]) -> dict[int, Tensor]:
        """The changes that give each module the parameters of another; none where they do not fit or are equal."""
        to = {x: leaves.get(other + n.removeprefix(one), -1) for one, other in pairs for n, x in leaves.items() if _is_in(n, one)}
        fit = all(y >= 0 and d.a.high[x].shape == d.a.high[y].shape for x, y in to.items())
        changed = fit and any(not torch.equal(d.a.high[x], d.a.high[y]) for x, y in to.items())
        return {x: d.a.high[y] for x, y in to.items()} if changed else {}

    for module in dict.fromkeys(m for name in names for m in _modules(name)):
        for group in _siblings(module, leaves):
            for other in group:
                if changes := placed([(module, other)]):
                    yield changes, f"{module} has its own", f"it has those of {other}"
                    yield placed([(module, other), (other, module)]), f"{module} and {other} have their own", "each has the other's"
            order = sorted([module, *group], key=lambda one: [int(x) if x.isdecimal() else -1 for x in one.split(".")])
            for step, which in ((1, "the next"), (-1, "the one before")) if len(order) > 2 else ():
                if changes := placed(zip(order, order[step:] + order[:step], strict=True)):
                    yield changes, f"{order[0]} to {order[-1]} have their own", f"each has those of {which}"


def _behind(side: Side, node: Node) -> list[int]:
    """The leaves that a step reads, also through steps that depend on no input."""
    found, todo = dict[int, None](), [x for x in node.inputs if x not in side.moving]
    while todo:
        value = todo.pop(0)
        if value not in found:
            found[value] = None
            todo += side.maker[value].inputs if value in side.maker else ()
    return list(found)


def _is_in(name: str, module: str) -> bool:
    return name == module or name.startswith(module + ".")


def _modules(name: str) -> list[str]:
    """A parameter and the modules that hold it, as far as their names have a number, the smallest first."""
    parts = name.split(".")
    return [".".join(parts[:n]) for n in range(len(parts), 0, -1) if any(x.isdecimal() for x in parts[:n])]


def _siblings(module: str, names: Iterable[str]) -> list[list[str]]:
    """The modules of the same name but for one number, nearest first, for each number in the name a list; then those beside it."""
    parts, found = module.split("."), list[list[str]]()
    for i, part in enumerate(parts):
        if part.isdecimal():
            head, tail = "".join(f"{x}." for x in parts[:i]), ".".join(["", *parts[i + 1 :]])
            numbers = {name.removeprefix(head).split(".")[0] for name in names if name.startswith(head)}
            near = sorted((int(n) for n in numbers if n.isdecimal() and n != part), key=lambda n: abs(n - int(part)))
            found.append([f"{head}{n}{tail}" for n in near[:LAYERS]])
    head, last = module.rpartition(".")[::2]
    if not last.isdecimal():
        beside = dict.fromkeys(n.removeprefix(f"{head}.").partition(".")[0] for n in names if n.startswith(f"{head}."))
        found.append([f"{head}.{other}" for other in beside if other != last][:LAYERS])
    return found


def _all_others(d: Divergence, ours: list[int]) -> Finding | None:
    """All parameters of A's step, as the weight and the bias of a norm, with those of B's first steps."""
    near = [value for node in first_nodes(d.b, d.b_region, NORM) for value in parameters_of(d.b, node)]
    theirs = [v for v in dict.fromkeys(near) if not any(_equal(d.a.numbers(x), d.b.numbers(v)) for x in ours)]
    for chosen in permutations(theirs[: len(ours) + 1], len(ours)):
        changes = {x: d.b.numbers(v) for x, v in zip(ours, chosen, strict=True)}
        if all(d.a.high[x].numel() == t.numel() for x, t in changes.items()) and _step_reproduces(d, changes):
            names = [", ".join(leaf_name(side, v) for v in values) for side, values in ((d.a, ours), (d.b, chosen))]
            return Finding("weights", names[0], names[1], "{0} with {1}'s parameters computes {1}'s numbers")
    return None


def _step_reproduces(d: Divergence, parameters: dict[int, Tensor]) -> bool:
    """Whether A computes B's numbers with these parameters; where the models differ in several ways, in this step alone."""
    if d.whole or d.a.program is None:
        return reproduces(d, parameters, 1)
    shaped = {value: t.reshape(d.a.high[value].shape).to(d.a.high[value].dtype) for value, t in parameters.items()}
    return reproduces(d, rerun(d.a, shaped, [d.a_step.value]), 1)


def _named(d: Divergence, value: int, other: int) -> Finding:
    evidence = "{0} with {1}'s parameter computes {1}'s numbers"
    names = leaf_name(d.a, value), leaf_name(d.b, other)
    for tied, side in enumerate((d.a, d.b)):
        table = embedding_table(side)
        if d.a_step.op in LINEAR and table is not None and _equal(side.numbers((value, other)[tied]), side.numbers(table)):
            says = ["own weights, " + name for name in names]
            says[tied] = "the weights of the embedding"
            return Finding("tied head", says[0], says[1], evidence)
    return Finding("weights", names[0], names[1], evidence)


def embedding_table(side: Side) -> int | None:
    """The table of the first embedding of tokens."""
    for node in side.nodes:
        if node.op in ("embedding", "Gather") and node.value in side.moving:
            return next((v for v in parameters_of(side, node) if side.high[v].ndim == 2), None)
    return None


def _equal(a: Tensor, b: Tensor) -> bool:
    first, second = sorted_numbers(a), sorted_numbers(b)
    if first is None or second is None:
        return bool(a.shape == b.shape and (a == b).all())
    return first.shape == second.shape and is_rounding(difference(first, second))
