"""Run a computation in Python: every step by NumPy, with no clever loop, so that it is right by reading."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from equiscope.record.array import unpack
from equiscope.record.computation import Computation

SAME = (
    "abs", "ceil", "cos", "exp", "expm1", "floor", "fmod", "log", "log1p", "maximum", "minimum", "sign", "sin", "sqrt", "tan",
    "tanh", "trunc",
)  # fmt: skip
EACH: dict[str, Any] = {name: getattr(np, name) for name in SAME} | {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "pow": np.power, "neg": np.negative,
    "atan2": np.arctan2, "rsqrt": lambda x: 1 / np.sqrt(x), "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "erf": np.vectorize(math.erf, [float]), "where": lambda c, a, b: np.where(c != 0, a, b), "copy": lambda x: x,
    "and": np.logical_and, "or": np.logical_or, "not": np.logical_not, "eq": np.equal, "ne": np.not_equal, "lt": np.less,
    "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
}  # fmt: skip
JOINED: dict[str, tuple[float, Any]] = {
    "sum": (0.0, np.add.at), "dot": (0.0, np.add.at), "prod": (1.0, np.multiply.at), "amax": (-np.inf, np.maximum.at),
    "amin": (np.inf, np.minimum.at),
}  # fmt: skip


def offsets(view: Sequence[int], shape: Sequence[int]) -> Any:
    """Where in its slot a view's numbers lie."""
    grid = np.indices(tuple(shape), sparse=True)
    return sum((n * stride for n, stride in zip(grid, view[2:], strict=True)), np.zeros(tuple(shape), dtype=int)) + view[1]


def run(record: Computation, **inputs: Tensor) -> dict[str, Tensor]:
    """The outputs by name, in float64, for these inputs."""
    return interpret(record, inputs)


def interpret(record: Computation, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The outputs by name, in float64, for these inputs by name."""
    slots = [np.full(size, np.nan) for size in record.sizes]
    for constant in record.constants:
        slots[constant.slot][:] = unpack(constant.array).reshape(-1)
    for name, place in record.inputs.items():
        slots[place.slot][:] = inputs[name].detach().cpu().double().numpy().reshape(-1)
    for step in record.steps:
        read: list[Any] = [
            slots[x[0]][offsets(x, step.shape)] if isinstance(x, list) else np.full(tuple(step.shape), x) for x in step.of
        ]
        slot, to = slots[step.to[0]], offsets(step.to, step.shape)
        if step.op == "gather":
            base = step.of[0]
            assert isinstance(base, list)
            slot[to] = slots[base[0]][offsets(base, step.shape) + read[1].astype(int)]
        elif step.op == "put":
            slot[to + read[1].astype(int)] = read[0]
        elif step.op == "scatter":
            np.add.at(slot, to + read[1].astype(int), read[0])
        elif step.op in JOINED:
            begin, join = JOINED[step.op]
            slot[to] = begin
            join(slot, to, read[0] * read[1] if step.op == "dot" else read[0])
        else:
            slot[to] = EACH[step.op](*read)
    return {name: torch.from_numpy(slots[place.slot].reshape(place.shape).copy()) for name, place in record.outputs.items()}
