"""The quantized side with what it rounds in full: the other side's weights in place of its own, and its activations not rounded.

What it then computes is compared as any two models are, so that a difference behind the quantization is found and named.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from equiscope.audit.parity.sides import CASTS, Node, Side, in_float32, nodes_of
from equiscope.audit.subject.promote_float64 import promote_float64
from equiscope.program.program import Leaf, Program, Ref, Step, each
from equiscope.record.report import percent

ROUNDINGS = {"round", "fake_quantize_per_tensor_affine", "fake_quantize_per_channel_affine"}
LIMITS = {"clamp", "clip", "minimum", "maximum"}
BETWEEN = {"add", "sub", "to", "radd", *LIMITS}  # steps between a rounding and the limits of its integers
INTEGERS = (torch.int8, torch.uint8, torch.int16, torch.int32)


def roundings(side: Side) -> list[Node]:
    """The steps that round numbers which depend on the input, and those that keep the integers within their limits."""
    found: dict[int, Node] = {}
    for node in side.nodes:
        if node.value not in side.moving or node.step is None:
            continue
        casts = node.op == "to" and side.high[node.value].dtype in INTEGERS and side.is_number(node.inputs[0])
        if node.op in ROUNDINGS or casts or (node.op in LIMITS and _after_rounding(side, node, found)):
            found[node.value] = node
    return list(found.values())


def _after_rounding(side: Side, node: Node, before: Mapping[int, Node]) -> bool:
    value: int | None = node.inputs[0] if node.inputs else None
    while value is not None and value in side.maker:
        if value in before:
            return True
        node = side.maker[value]
        moving = [v for v in node.inputs if v in side.moving]
        value = moving[0] if node.op in BETWEEN and moving else None
    return False


def clipped_activations(side: Side, unrounded: list[Node]) -> list[str]:
    """Where the limits of the integers cut off more than half a step of an activation, in words."""
    found = []
    for node in unrounded:
        if node.op in LIMITS:
            before = next(v for v in node.inputs if v in side.moving)
            cut = (side.numbers(before) - side.numbers(node.value)).abs() > 0.501
            if bool(cut.any()):
                share = percent(float(cut.double().mean()))
                found.append(
                    f"{node.module or 'The model'} cuts off {share} of the numbers that it rounds: its scale is too small."
                )
    return found


def exact_side(side: Side, weights: Mapping[tuple[int, int], Tensor], unrounded: list[Node]) -> Side:
    """A recorded side, computed again with other weights and without some roundings.

    weights    by step and by the value that it reads as its weight: the numbers in place of it
    unrounded  steps whose first tensor passes as it is
    """
    assert side.program is not None
    off = {node.value for node in unrounded}
    edits = [_edit(step, weights, off) for step in _counted(side.program)]
    with promote_float64():
        high = _edited(side.program, edits)
    low = None if side.low_program is None else _edited(side.low_program, edits)
    narrow = {} if low is None else in_float32(high, low)
    return replace(
        side, nodes=nodes_of(high), high=high.values, low=narrow, moving=high.depending_on("input", "chance"),
        leaves={leaf.id for leaf in high.leaves}, program=high, low_program=low, tables={},
    )  # fmt: skip


Edit = dict[int, Tensor] | bool | None  # the numbers of inputs by their position; True: the first tensor passes as it is


def _counted(program: Program) -> list[Step]:
    """The steps that both precisions have."""
    return [step for step in program.steps if step.op not in CASTS or _to_integers(program, step)]


def _to_integers(program: Program, step: Step) -> bool:
    return any(program.values[value].dtype in INTEGERS for value, _ in step.outputs)


def _edit(step: Step, weights: Mapping[tuple[int, int], Tensor], off: set[int]) -> Edit:
    values = [value for value, _ in step.outputs]
    if any(value in off for value in values):
        return True
    found = {i: weights[v, one] for i, one in enumerate(step.inputs) for v in values if (v, one) in weights}
    return found or None


def _edited(program: Program, edits: list[Edit]) -> Program:
    """A program with these edits of its steps, run again."""
    steps = _counted(program)
    assert len(steps) == len(edits)
    by_step = {id(step): edit for step, edit in zip(steps, edits, strict=True) if edit is not None}
    leaves, changed, fresh = list(program.leaves), [], max(program.values) + 1
    for step in program.steps:
        edit = by_step.get(id(step))
        if edit is True:
            step = replace(step, call=_first)
        elif edit:
            given: dict[int, int] = {}
            for position, numbers in edit.items():
                old = program.values[step.inputs[position]]
                value = numbers.reshape(old.shape).to(old.dtype)
                leaves.append(Leaf(fresh, program.name(step.inputs[position]), "parameter", value, step.where))
                given[position], fresh = fresh, fresh + 1
            positions = iter(range(len(step.inputs)))

            def read(x: Any, positions: Iterator[int] = positions, given: dict[int, int] = given) -> Any:
                return Ref(given.get(next(positions), x.id)) if isinstance(x, Ref) else x

            args, kwargs = each(step.args, read), each(step.kwargs, read)
            inputs = tuple(given.get(i, one) for i, one in enumerate(step.inputs))
            step = replace(step, args=args, kwargs=kwargs, inputs=inputs)
        changed.append(step)
    made = replace(program, leaves=leaves, steps=changed)
    made.values = made.run(strict=False).values
    return made


def _first(*args: Any, **_: Any) -> Any:
    """The first tensor of a call."""
    return next(x for x in args if isinstance(x, Tensor))
