"""Names of axes through an operation: what a column or a row of the result stands for."""

from collections.abc import Sequence
from typing import Any

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
