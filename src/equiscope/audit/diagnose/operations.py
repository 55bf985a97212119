"""Operations: the first operation inside a module that breaks the relation of two runs.

Once the module is known, both runs are recorded again, operation by operation, inside this module. An operation is the culprit when
its inputs satisfy the relation and its outputs do not. The output of a mean over the wrong axis has no rows to compare; it is the
culprit when the first wrong rows were computed from it.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from equiscope.audit.diagnose.localize import EXACT
from equiscope.audit.statements.pairs import RunPair, error
from equiscope.audit.subject import Pass
from equiscope.program.hooks import hooked
from equiscope.program.modes import Functions
from equiscope.symmetry import Inputs

MAX_NUMBERS = 2**23  # numbers that are recorded of one run; most faults lie near the beginning of their module
IDENTITIES = ("lift_fresh", "detach", "alias", "from_numpy")  # they return their input


@dataclass(frozen=True)
class Operation:
    """One call of a function of torch: its name, and copies of its input and output tensors.

    producers  for each input, the number of the operation that produced it; None where it comes from outside
    """

    name: str
    inputs: list[Tensor]
    outputs: list[Tensor]
    producers: list[int | None]


class _OperationRecorder:
    """Records operations with copies of their tensors, up to a limit."""

    def __init__(self) -> None:
        self.recorded: list[Operation] = []
        self.references: list[Tensor] = []  # keeps ids unique
        self.producer: dict[int, int] = {}
        self.numbers_left = MAX_NUMBERS

    def handler(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a call and record it."""
        if self.numbers_left <= 0:
            return func(*args, **kwargs)
        inputs = list(_tensors([args, kwargs]))
        copies = [self._copy(t) for t in inputs]
        outputs = func(*args, **kwargs)
        results = list(_tensors(outputs))
        if results and _name(func) not in IDENTITIES:
            producers = [self.producer.get(id(t)) for t in inputs]
            self.recorded.append(Operation(_name(func), copies, [self._copy(t) for t in results], producers))
            self.references += [*inputs, *results]
            self.producer |= {id(t): len(self.recorded) - 1 for t in results}
        return outputs

    def _copy(self, t: Tensor) -> Tensor:
        """A copy. Parameters do not change and need none."""
        if isinstance(t, nn.Parameter):
            return t.detach()
        self.numbers_left -= t.numel()
        return t.detach().clone()


def operations(run: Pass, module: nn.Module, call: Callable[[], Any]) -> list[Operation]:
    """The operations inside the first call of a module during `call()`."""
    recorder = _OperationRecorder()
    with run.within(), _inside(module, Functions(recorder.handler)):
        call()
    return recorder.recorded


@contextmanager
def _inside(module: nn.Module, recorder: Functions) -> Iterator[None]:
    """Inside, the recorder is on during the first call of the module."""
    state = {"on": False, "done": False}

    def enter(*_: Any) -> None:
        if not state["on"] and not state["done"]:
            state["on"] = True
            recorder.__enter__()

    def leave(*_: Any) -> None:
        if state["on"]:
            recorder.__exit__(None, None, None)
            state.update(on=False, done=True)

    with hooked([("", module)], enter, leave):
        try:
            yield
        finally:
            leave()


def culprit(run: Pass, pair: RunPair, module: nn.Module, other: Inputs) -> Operation | None:
    """The first operation that breaks the relation; None where none is found.

    other  inputs with other tokens: values that are equal for them do not depend on tokens, and need not satisfy the relation
    """
    recorded = _first_violation(run, pair, module, other)
    if recorded is None:
        return None
    original, transformed, _, i = recorded
    return original[_source(pair, original, transformed, i)]


def responsible_parameter(run: Pass, pair: RunPair, module: nn.Module, other: Inputs) -> str:
    """The parameter or buffer that the first violating operation adds to the tokens, or the layer that holds it; empty where there
    is none."""
    recorded = _first_violation(run, pair, module, other)
    if recorded is None or (control := recorded[2]) is None:
        return ""
    original, i = recorded[0], recorded[3]
    parameter_names = {p.data_ptr(): name for name, p in run.model.named_parameters()}
    visited, queue = set[int](), [i]
    while queue:
        number = queue.pop()
        for t, producer in zip(original[number].inputs, original[number].producers, strict=True):
            name = parameter_names.get(t.data_ptr()) or next(
                (n for n, b in run.model.named_buffers() if producer is None and _same(b, t)), ""
            )
            if name and t.ndim > 1:
                owner = run.model.get_submodule(name.rpartition(".")[0])
                return name.rpartition(".")[0] if name.count(".") and not list(owner.children()) else name
            if (
                producer is not None
                and producer not in visited
                and all(map(_same, original[producer].outputs, control[producer].outputs))
            ):
                visited.add(producer)
                queue.append(producer)
    return ""


def _first_violation(
    run: Pass, pair: RunPair, module: nn.Module, other: Inputs
) -> tuple[list[Operation], list[Operation], list[Operation] | None, int] | None:
    """The operations of both runs and of one with other tokens, and the number of the first that breaks the relation."""
    if not isinstance(pair.transformed, Inputs):
        return None
    original, transformed, control = (_record(run, module, inputs) for inputs in (pair.original, pair.transformed, other))
    if [a.name for a in original] != [b.name for b in transformed]:
        return None
    control_run = control if [o.name for o in control] == [a.name for a in original] else None
    for i, (a, b) in enumerate(zip(original, transformed, strict=True)):
        if _violates(pair, a.outputs, b.outputs, control_run[i].outputs if control_run else None):
            return original, transformed, control_run, i
    return None


def _record(run: Pass, module: nn.Module, inputs: Inputs) -> list[Operation]:
    return operations(run, module, lambda: inputs.to(run.dtype).call(run.counted_model))


def _source(pair: RunPair, original: list[Operation], transformed: list[Operation], i: int) -> int:
    """Follow inputs without rows of tokens that differ between the runs back to the operation that produced them."""
    for a, b, producer in zip(original[i].inputs, transformed[i].inputs, original[i].producers, strict=True):
        if producer is not None and a.is_floating_point() and pair.relation.inner(a, b) is None and not _same(a, b):
            return _source(pair, original, transformed, producer)
    return i


def _violates(pair: RunPair, original: list[Tensor], transformed: list[Tensor], control: list[Tensor] | None) -> bool:
    for k, (a, b) in enumerate(zip(original, transformed, strict=False)):
        if not a.is_floating_point() or (control is not None and k < len(control) and _same(a, control[k])):
            continue
        sides = pair.relation.inner(a, b)
        if sides is not None and not error(*sides) < EXACT:
            return True
    return False


def _same(a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape and torch.equal(a, b)


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _tensors(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)


def _name(func: Any) -> str:
    name = getattr(func, "__name__", str(func)).removesuffix(".default").strip("_")
    return {"rsub": "sub", "radd": "add", "rmul": "mul", "rtruediv": "div", "truediv": "div"}.get(name, name)


__all__ = ["Operation", "culprit", "operations", "responsible_parameter"]
