"""Names of axes through an operation: what a column or a row of the result stands for."""

from collections.abc import Mapping, Sequence
from typing import Any

from equiscope.record import ProgramRecord

Axes = tuple[str, ...]


def output_axes(op: str, axes: Sequence[Axes], shapes: Sequence[tuple[int, ...]], params: dict[str, Any]) -> Axes:
    """Axes of an operation's output from those of its inputs."""
    first, last = axes[0], axes[-1]
    match op:
        case "matmul":
            lead = broadcast([first[:-2], last[:-2]], [shapes[0][:-2], shapes[-1][:-2]])
            return (*lead, *first[-2:-1], last[-1])  # a row [D] times a matrix is a row
        case "transpose":
            return (*first[:-2], first[-1], first[-2])
        case "heads":
            return (*first[:-2], "head", first[-2], first[-1])
        case "join":
            return (*first[:-3], first[-2], first[-1])
        case "column":
            return (*first, "")
        case "row":
            return (*first[:-1], "", first[-1])
        case "squeeze" | "mean" | "flatten" | "pick":
            return {"squeeze": first[:-1], "flatten": (*first[:-2], "channel")}.get(op, (*first[:-2], first[-1]))
        case "gather":
            return (*last, *first[1:])
        case "neighbours":
            return (*first[:-2], last[0], "neighbour")
        case "take":
            return broadcast([(*first[:-1], last[-1]), last], [(*shapes[0][:-1], shapes[-1][-1]), shapes[-1]])
        case "bins":
            lead = broadcast([first[:-1], last[:-1]], [shapes[0][:-1], shapes[-1][:-1]])
            return (*lead, "bin")
        case "later" | "repeat_heads" | "columns":
            return first
        case "broadcast_heads":
            return (*first[:-2], "head", *first[-2:])
        case _:
            return broadcast(axes, shapes)


def broadcast(axes: Sequence[Axes], shapes: Sequence[tuple[int, ...]]) -> Axes:
    """Right-aligned as in torch; each axis takes the name from the input that really has it."""
    width = max((len(a) for a in axes), default=0)
    return tuple(_name([(a[i], s[i]) for a, s in zip(axes, shapes, strict=True) if -i <= len(a)]) for i in range(-width, 0))


def _name(entries: list[tuple[str, int]]) -> str:
    named = sorted(entries, key=lambda entry: (entry[1] <= 1, entry[0] in ("", "axis")))
    return named[0][0]


BROADCAST = {"add", "subtract", "multiply", "divide", "maximum", "distance", "mask", "equal", "not_after", "both", "either"}
EACH = {"scale", "clamp", "cast", "activation", "function", "softmax", "opposite", "below", "modulo", "block", "norm"}


def backward(program: ProgramRecord, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Axes]:
    """Axes of every value, where one without a name has that of the result that it is an axis of."""
    axes_of_value = {leaf.id: tuple(leaf.axes) for leaf in program.leaves} | {step.id: tuple(step.axes) for step in program.steps}
    for step in reversed(program.steps):
        if step.op not in BROADCAST | EACH:
            continue
        for x in step.inputs:
            axes, shape, after = axes_of_value[x], shapes[x], axes_of_value[step.id]
            if len(axes) > len(after):
                continue
            ends = zip(axes, after[len(after) - len(axes) :], shape, shapes[step.id][len(after) - len(axes) :], strict=True)
            axes_of_value[x] = tuple(b if a in ("", "channel") and n == m else a for a, b, n, m in ends)
    return axes_of_value
