"""Replay one side with a change, and see whether the numbers of the other side appear.

A change that gives one number of the other side need not be the cause: the largest scores of two models may be equal, and what is
done with them differ. So the replay has to give the outputs of the other side. Only where no change does so, because the models
differ in several ways, it is enough that it explains several more steps.
"""

from collections.abc import Collection, Iterable
from typing import Any

from torch import Tensor

from equiscope.audit.parity.alignment import ONE_PRECISION, STORED, difference, is_rounding, output_pairs, size_of, sorted_numbers
from equiscope.audit.parity.divergence import Divergence
from equiscope.audit.parity.sides import MOVEMENT, Node, Side, rerun
from equiscope.program.program import Ref, leaves_of

FURTHER = 200  # values after a change of which those of the other side are counted
SEVERAL = 4  # steps that a change explains, where the models differ in several ways
TENSORS = 2  # recorded tensors that a change explains then
BEFORE = 48  # values before the divergence of which those of B may be multiples
NEXT = 24  # values after each change in which the other side's numbers are sought


def reproduces(d: Divergence, changes: dict[int, Tensor], several: int = SEVERAL, far: bool = False) -> bool:
    """Whether A, replayed with these values, computes B's outputs; of models that differ in several ways, B's next steps.

    several  how many steps of B it has to explain then
    far      whether many steps may lie between the change and the first value that both sides have
    """
    shaped = _shaped(d, changes)
    if d.gives is not None and d.whole:
        found = d.gives(shaped)
        d.replays.append(found)
        if found:
            d.reproducing.append(shaped)
        return found
    found = not d.b_region or (far and d.a.program is not None) or appears(d, shaped)
    d.replays.append(found)
    if found and d.a.program is not None:  # a file cannot run again
        found = (
            _same_outputs(d, shaped)
            if d.whole or not d.b_region
            else steps_explained(d, shaped) >= (several if d.b_step is not None and d.b_step.op else min(several, TENSORS))
        )
    if found:
        d.reproducing.append(shaped)
    return found


def appears(d: Divergence, changes: dict[int, Tensor]) -> bool:
    """Whether A, replayed with these values, soon computes an unexplained value of B."""
    shaped = _shaped(d, changes)
    if any(d.hit(t) is not None for t in shaped.values()):
        return True
    return any(d.hit(t) is not None for t in rerun(d.a, shaped, _later(d, shaped)[: NEXT * len(shaped)]).values())


def _shaped(d: Divergence, changes: dict[int, Tensor]) -> dict[int, Tensor]:
    return {value: t.reshape(d.a.high[value].shape).to(d.a.high[value].dtype) for value, t in changes.items()}


def _later(d: Divergence, changes: dict[int, Tensor]) -> list[int]:
    return [value for value in downstream(d.a, set(changes)) if d.a.is_number(value)]


def _same_outputs(d: Divergence, changes: dict[int, Tensor]) -> bool:
    """Whether A with these values computes B's outputs up to rounding."""
    new = rerun(d.a, changes, list(d.a.outputs.values()))
    for _, x, y in output_pairs(d.a, d.b):
        ours, theirs = (t[list(d.rows)] if d.rows else t for t in (new.get(x, d.a.numbers(x)), d.b.numbers(y)))
        if ours.numel() != theirs.numel():
            return False
        error = difference(theirs.flatten(), ours.flatten())
        one, other = sorted_numbers(ours), sorted_numbers(theirs)
        if ours.shape != theirs.shape and one is not None and other is not None and one.shape == other.shape:
            error = min(error, difference(other, one))  # the axes are in another order
        low = max([STORED, *(difference(s.numbers(v), s.low[v].double()) for s, v in ((d.a, x), (d.b, y)) if v in s.low)])
        if not (is_rounding(error, low) or ((d.a.single or d.b.single) and error <= ONE_PRECISION * low)):
            return False
    return True


def steps_explained(d: Divergence, changes: dict[int, Tensor]) -> int:
    """How many steps of B are explained by A with these values; none unless all that the change alters comes to numbers of B.

    None either where all these numbers are multiples of A's own: a factor at another place is no difference.
    """
    assert d.b_step is not None
    results = changes | rerun(d.a, changes, _later(d, changes)[:FURTHER])
    hits = {value: hit for value, t in results.items() if (hit := d.hit(t)) is not None}
    found = set(hits.values())
    for node in reversed(d.b.nodes):
        if node.value in found:
            found.update(value for value in node.inputs if value in d.b.moving and value not in d.b_explained)
    steps = [value for value in found if value in d.b.maker and d.b.maker[value].op not in MOVEMENT and d.b.is_number(value)]
    if d.b_step.value not in found or _reaches_outputs(d.a, changes, hits):
        return 0
    read = [x for v in d.a_region for x in (v, *d.a.parents(v))]
    near = dict.fromkeys([*d.a.ancestors(d.a_step.value, BEFORE), *read])
    own = [t / size_of(t) for v in near if d.a.is_number(v) and (t := sorted_numbers(d.a.numbers(v))) is not None]
    return 0 if all(_is_multiple(d.b.numbers(hit), own) for hit in set(hits.values())) else len(steps)


def _is_multiple(t: Tensor, own: list[Tensor]) -> bool:
    """Whether the numbers of a tensor are a multiple of those of another one. own: these, sorted and of norm 1."""
    numbers = sorted_numbers(t)
    for one in (numbers, -numbers.flip(0)) if numbers is not None else ():
        unit = one / size_of(one)
        if any(other.shape == unit.shape and is_rounding(difference(other, unit)) for other in own):
            return True
    return False


def _reaches_outputs(side: Side, changes: Iterable[int], hits: Collection[int]) -> bool:
    """Whether an output depends on a change other than through hits values."""
    reached = set(changes) - set(hits)
    for node in side.nodes:
        if node.value not in hits and not reached.isdisjoint(node.inputs):
            reached.add(node.value)
    return not reached.isdisjoint(side.outputs.values())


def downstream(side: Side, changed: set[int]) -> list[int]:
    """Values computed from these, in order."""
    found = set(changed)
    order = []
    for node in side.nodes:
        if node.value not in changed and not found.isdisjoint(node.inputs):
            found.add(node.value)
            order.append(node.value)
    return order


def arguments(node: Node, *names: str) -> dict[str, Any]:
    """The arguments of a call by name, as far as they are given: positional ones in the order of the names."""
    step = node.step
    if step is None:
        return {}
    found = dict(zip(names, step.args, strict=False)) | {n: v for n, v in step.kwargs.items() if n in names}
    return {name: value for name, value in found.items() if value is not None}


def lookup(node: Node, side: Side) -> tuple[int, int] | None:
    """Of an embedding, the values of its table and of its indices, in whichever order they were given."""
    if node.op != "embedding" or node.step is None:
        return None
    given = [x.id for x in leaves_of((node.step.args, node.step.kwargs)) if isinstance(x, Ref)][:2]
    if len(given) != 2:
        return None
    table, index = given if side.is_number(given[0]) else given[::-1]
    return (table, index) if side.is_number(table) and not side.is_number(index) else None


def references(node: Node) -> list[int]:
    """The values that a call read, in the order of its arguments."""
    return [] if node.step is None else [x.id for x in leaves_of((node.step.args, node.step.kwargs)) if isinstance(x, Ref)]


def parameters_of(side: Side, node: Node) -> list[int]:
    """The parameters that a call read, also through steps that only move numbers."""
    found, todo = list[int](), references(node) if node.step is not None else list(node.inputs)
    while todo:
        value = todo.pop(0)
        if kind_of(side, value) == "parameter":
            found.append(value)
        elif value in side.maker and value not in side.moving and side.maker[value].op in MOVEMENT:
            todo += side.maker[value].inputs
    return list(dict.fromkeys(found))


def first_reader(side: Side, value: int) -> Node | None:
    """The first step that computes with a value, perhaps after it was moved."""
    todo = {value}
    for node in side.nodes:
        if todo.intersection(node.inputs):
            if node.op not in MOVEMENT:
                return node
            todo.add(node.value)
    return None


def kind_of(side: Side, value: int) -> str:
    """The kind of a leaf: parameter, buffer, constant, ...; empty for what a step computes."""
    if side.program is None:
        return "parameter" if value in side.leaves and value not in side.moving else ""
    leaves = side.program.leaves
    return next((leaf.kind for leaf in leaves if leaf.id == value), "")


def leaf_name(side: Side, value: int) -> str:
    """The name of a leaf."""
    if side.program is None:
        return side.names.get(value, str(value))
    return next((leaf.name for leaf in side.program.leaves if leaf.id == value), str(value))


def first_nodes(side: Side, region: list[int], most: int) -> list[Node]:
    """The first steps of a region."""
    return [side.maker[value] for value in region[:most] if value in side.maker]
