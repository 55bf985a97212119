"""A program as a graph for rules: the step of a value, dependence on inputs, constants.

A rule returns the expression of one value: a page operation on values, on numbers, or on other expressions.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from equiscope.program.program import Program, Ref, Step
from equiscope.record.computation import Computation


@dataclass(frozen=True, eq=False)
class Apply:
    """An operation of the page. loops: the computation of the operation "loops"; label: in words."""

    op: str
    inputs: "tuple[Ref | Tensor | Apply, ...]"
    params: dict[str, Any] = field(default_factory=dict)
    loops: Computation | None = None
    label: str = ""


Expression = Ref | Tensor | Apply


class Graph:
    """Queries of rules on a program. Values that depend on no leaf that can change are constants."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.moving = program.depending_on("input", "parameter", "buffer", "chance", "unknown")
        self.maker = {value: (step, place) for step in program.steps for value, place in step.outputs}

    def step(self, x: Any, *ops: str) -> Step | None:
        """The step that computes a value that can change, where it is one of these operations."""
        if not isinstance(x, Ref) or x.id not in self.moving or x.id not in self.maker:
            return None
        step = self.maker[x.id][0]
        return step if step.op in ops else None

    def uncast(self, x: Any) -> Any:
        """A value before it was cast to another floating-point type."""
        while (step := self.step(x, *CASTS)) is not None and self.tensor(step.args[0]).is_floating_point():
            if not self.tensor(x).is_floating_point():
                break
            x = step.args[0]
        return x

    def tensor(self, x: Ref) -> Tensor:
        """The recorded numbers of a value."""
        return self.program.values[x.id]

    def is_constant(self, x: Any) -> bool:
        return not isinstance(x, Ref) or x.id not in self.moving

    def number(self, x: Any) -> float | None:
        """A constant number: in Python, or the single value of a constant tensor."""
        if isinstance(x, (bool, int, float)):
            return float(x)
        if isinstance(x, Ref) and self.is_constant(x) and self.tensor(x).numel() and not self.tensor(x).is_complex():
            flat = self.tensor(x).flatten()
            return float(flat[0]) if bool((flat == flat[0]).all()) and flat.numel() == 1 else None
        return None

    def pair(self, step: Step) -> tuple[Any, Any]:
        """The two operands of a step."""
        return argument(step, 0, "input"), argument(step, 1, "other")


CASTS = ("to", "float", "double", "half", "bfloat16", "long", "int", "type", "type_as")


def argument(step: Step, index: int, name: str, default: Any = None) -> Any:
    """An argument of a call, by index or name."""
    if index < len(step.args):
        return step.args[index]
    return step.kwargs.get(name, step.kwargs.get("self", default) if index == 0 else default)


def listed(x: Any) -> list[Any]:
    """Axes or sizes as a list."""
    return list(x) if isinstance(x, (list, tuple)) else [] if x is None else [x]


def operand(x: Any, like: Tensor) -> Expression:
    """A number in Python as a constant."""
    if isinstance(x, (Ref, Apply, Tensor)):
        return x
    return torch.tensor(x, dtype=like.dtype if like.is_floating_point() else None)


def root(by: float) -> dict[str, Any]:
    """Parameters of a scale by a number: where it is 1/√n, the page writes it so."""
    n = round(1 / by**2) if by > 0 and math.isfinite(1 / by**2) else 0
    return {"by": by, "root": n} if n > 1 and abs(by * math.sqrt(n) - 1) < 1e-14 else {"by": by}


def broadcast(shapes: Sequence[Sequence[int]]) -> tuple[int, ...]:
    return tuple(torch.broadcast_shapes(*(tuple(shape) for shape in shapes)))
