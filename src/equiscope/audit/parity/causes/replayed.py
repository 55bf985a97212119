"""Replay one side with a change, and see whether the numbers of the other side appear."""

from typing import Any

from torch import Tensor

from equiscope.audit.parity.divergence import Divergence
from equiscope.audit.parity.sides import MOVEMENT, Node, Side, rerun
from equiscope.program.program import Ref, leaves_of

NEXT = 24  # values after a change in which the other side's numbers are sought


def reproduces(d: Divergence, changes: dict[int, Tensor]) -> bool:
    """Whether A, replayed with these values, computes an unexplained value of B."""
    shaped = {value: t.reshape(d.a.high[value].shape).to(d.a.high[value].dtype) for value, t in changes.items()}
    following = [value for value in downstream(d.a, set(shaped)) if d.a.is_number(value)][:NEXT]
    found = any(d.hit(t) is not None for t in shaped.values())
    found = found or any(d.hit(t) is not None for t in rerun(d.a, shaped, following).values())
    if found:
        d.reproducing.append(shaped)
    return found


def downstream(side: Side, changed: set[int]) -> list[int]:
    """Values computed from these, in order."""
    found = set(changed)
    order = []
    for node in side.nodes:
        if node.value not in changed and any(value in found for value in node.inputs):
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


def number_of(side: Side, x: Any) -> Tensor | None:
    """The numbers of an argument that is a value of the program."""
    return side.numbers(x.id) if isinstance(x, Ref) else None


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
