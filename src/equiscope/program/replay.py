"""Run a recorded program again, on its own numbers or on others: what the page does, in Python."""

from collections.abc import Mapping

import torch
from torch import Tensor

from equiscope import record
from equiscope.errors import InputError, UnknownName
from equiscope.program.loops.interpret import interpret
from equiscope.program.operations import OPERATIONS


def replay(program: record.ProgramRecord, leaves: Mapping[str, Tensor] | None = None) -> dict[str, Tensor]:
    """Every value of the program by id.

    leaves  numbers to use instead of the recorded ones, by leaf id; lengths may differ where the program allows it
    raises  UnknownName for a leaf that the trace does not have
    """
    known = {leaf.id for leaf in program.leaves}
    leaves = leaves or {}
    for name in leaves:
        if name not in known:
            raise UnknownName("leaf", name, sorted(known))
    values = {leaf.id: leaves[leaf.id] if leaf.id in leaves else _tensor(leaf) for leaf in program.leaves}
    for step in program.steps:
        if isinstance(step.loops, record.Computation):
            inputs = {f"x{i}": values[x] for i, x in enumerate(step.inputs)}
            result = interpret(step.loops, inputs)["y"]
            values[step.id] = result.to(getattr(torch, str(step.params.get("dtype", "float64"))))
            continue
        if step.op not in OPERATIONS:
            raise UnknownName("operation", step.op, sorted(OPERATIONS))
        values[step.id] = OPERATIONS[step.op](*[values[i] for i in step.inputs], **_params(step))
    return values


def _tensor(leaf: record.LeafRecord) -> Tensor:
    if leaf.array is None:
        raise InputError(f"Leaf {leaf.id!r} has no numbers of its own: give them, or put the pool's array in.")
    return torch.from_numpy(record.unpack(leaf.array))


def _params(step: record.StepRecord) -> dict[str, record.program.Parameter]:
    """Records hold half-precision numbers as float32, so a replay stays there where the model went to half precision."""
    half = step.op == "cast" and step.params["dtype"] in ("bfloat16", "float16")
    return {**step.params, "dtype": "float32"} if half else step.params
