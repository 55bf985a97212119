"""Attention in a program, by its structure: which values are queries, keys, scores, weights, values and output.

Weights are a softmax between two products: back to the product of two values that depend on the input (queries, keys), on to the
product whose first factor they are (values, output).
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from equiscope.program.program import Program, Step

SOFTMAX = ("softmax", "_softmax", "_safe_softmax")
PRODUCTS = ("matmul", "bmm", "einsum", "baddbmm")
TRANSPOSED = ("transpose", "mT", "T", "t", "permute", "swapaxes")
PASSES_ON = ("dropout", "to", "type", "type_as", "contiguous", "mul", "clone", "float", "expand", "reshape", "view")


class AttentionValues(NamedTuple):
    """The values of one attention, by their numbers in the program. path: of the module that computes it."""

    path: str
    q: int
    k: int
    v: int
    scores: int
    weights: int
    output: int


def attention_values(program: "Program") -> Iterator[AttentionValues]:
    """Every attention of a program, in the order in which they run."""
    maker = {value: step for step in program.steps for value, _ in step.outputs}
    users: dict[int, list[Step]] = defaultdict(list)
    for step in program.steps:
        for value in step.inputs:
            users[value].append(step)
    from_input = program.depending_on("input")
    for step in program.steps:
        if step.op not in SOFTMAX or not step.inputs:
            continue
        product = _product_before(step.inputs[0], maker, from_input)
        weights = step.outputs[0][0]
        mixing = _product_after(weights, users)
        if product is None or mixing is None:
            continue
        q, k = product.inputs[-2:]
        if k in maker and maker[k].op in TRANSPOSED:
            k = maker[k].inputs[0]
        yield AttentionValues(step.where, q, k, mixing.inputs[1], step.inputs[0], weights, mixing.outputs[0][0])


def _product_before(value: int, maker: "dict[int, Step]", from_input: set[int]) -> "Step | None":
    todo, seen = [value], set[int]()
    while todo:
        value = todo.pop(0)
        step = maker.get(value)
        if step is None or value in seen:
            continue
        seen.add(value)
        if step.op in PRODUCTS and len(step.inputs) >= 2 and all(x in from_input for x in step.inputs[-2:]):
            return step
        todo += step.inputs
    return None


def _product_after(value: int, users: "dict[int, list[Step]]") -> "Step | None":
    todo, seen = [value], set[int]()
    while todo:
        value = todo.pop(0)
        for step in users[value]:
            if step.op in PRODUCTS and step.inputs[0] == value and len(step.inputs) == 2:
                return step
            if step.op in PASSES_ON and step.outputs and step.outputs[0][0] not in seen:
                seen.add(step.outputs[0][0])
                todo.append(step.outputs[0][0])
    return None
