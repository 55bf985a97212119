"""The output shape of the operations that rules nest in others."""

from collections.abc import Sequence
from typing import Any

from equiscope.program.lower.graph import broadcast

Shape = tuple[int, ...]


def shape_of(op: str, shapes: Sequence[Shape], params: dict[str, Any]) -> Shape:
    """Of operations that broadcast: the shape of both."""
    first, last = tuple(shapes[0]), tuple(shapes[-1])
    match op:
        case "matmul":
            return (*broadcast([first[:-2], last[:-2]]), *first[-2:-1], *last[-1:]) if len(last) > 1 else first[:-1]
        case "transpose":
            return (*first[:-2], first[-1], first[-2])
        case "heads":
            return (*first[:-2], params["count"], first[-2], first[-1] // params["count"])
        case "join":
            return (*first[:-3], first[-2], first[-3] * first[-1])
        case "repeat_heads":
            return (*first[:-3], first[-3] * params["times"], *first[-2:])
        case "columns":
            return (*first[:-1], params["stop"] - params["start"])
        case "pick" | "mean":
            return (*first[:-2], first[-1])
        case "flatten":
            return (*first[:-2], first[-2] * first[-1])
        case "column":
            return (*first, 1)
        case "row":
            return (*first[:-1], 1, first[-1])
        case "broadcast_heads":
            return (*first[:-2], 1, *first[-2:])
        case "squeeze":
            return first[:-1]
        case "gather":
            return (*last, *first[1:])
        case "concat":
            axis = params["axis"]
            return tuple(n + last[i] if i == len(first) + axis else n for i, n in enumerate(first))
        case _:
            return broadcast(shapes)
