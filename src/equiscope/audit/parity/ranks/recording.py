"""Record one process: what goes into and comes out of every module, the parameters that it holds, and the outputs.

Every process runs the same call in float32 and in float64. A distributed tensor is recorded whole; any other tensor as this process
holds it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from equiscope.audit.diagnose.localize import features_of
from equiscope.audit.subject.outputs import flat
from equiscope.audit.subject.promote_float64 import promote_float64
from equiscope.audit.subject.subject import copy_in_dtype
from equiscope.errors import InputError
from equiscope.program.hooks import hooked
from equiscope.program.program import each

PRECISIONS = (torch.float32, torch.float64)
Parallel = Callable[[nn.Module], nn.Module | None]


@dataclass
class ModuleCall:
    """One call of a module. kind: its class; inputs: the tensors of numbers that it got; output: the first that it returned."""

    path: str
    kind: str
    inputs: list[Tensor] = field(default_factory=list)
    output: Tensor | None = None


@dataclass
class Recorded:
    """One process in one precision. calls: in the order in which they returned; parameters: by name, as this process holds them."""

    calls: list[ModuleCall]
    outputs: dict[str, Tensor]
    parameters: dict[str, Tensor]


Recordings = dict[torch.dtype, Recorded]


def record_process(
    model: nn.Module, parallel: Parallel | None, args: tuple[Any, ...], kwargs: Mapping[str, Any], seed: int,
    entered: Callable[[str], None] = lambda path: None,
) -> Recordings:  # fmt: skip
    """This process in both precisions.

    parallel  makes the parallel model of a copy of the model, in place or as a new module; None for the model itself
    entered   gets the path of every module before it runs
    raises    InputError where `parallel` returns something else
    """
    return {
        dtype: _record(_parallel_copy(model, parallel, dtype, seed), args, kwargs, dtype, seed, entered) for dtype in PRECISIONS
    }


def _parallel_copy(model: nn.Module, parallel: Parallel | None, dtype: torch.dtype, seed: int) -> nn.Module:
    copy = copy_in_dtype(model, dtype)
    if parallel is None:
        return copy
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)  # of parameters that it makes
    try:
        torch.manual_seed(seed)
        made = parallel(copy)
    finally:
        torch.set_default_dtype(before)
    if made is None:
        return copy
    if not isinstance(made, nn.Module):
        raise InputError(
            f"{getattr(parallel, '__name__', 'The function')} gets a copy of A and returns it as a parallel torch.nn.Module, but "
            f"returned {type(made).__name__}."
        )
    return made


def _record(
    model: nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    dtype: torch.dtype,
    seed: int,
    entered: Callable[[str], None],
) -> Recorded:
    moved, named = each_cast(args, kwargs, dtype)
    torch.manual_seed(seed)
    with torch.no_grad():
        if dtype == torch.float64:
            with promote_float64():
                calls, output = watch_calls(model, moved, named, entered=entered)
        else:
            calls, output = watch_calls(model, moved, named, entered=entered)
        parameters = {name: local(p).detach().cpu().clone() for name, p in model.named_parameters()}
    numbers = {name: local(t).detach().cpu() for name, t in flat(output).items() if is_number(t)}
    if not numbers:
        raise InputError(f"The model returned no tensor of numbers to compare, but {type(output).__name__}.")
    return Recorded(calls, numbers, parameters)


def watch_calls(
    model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], replaced: Mapping[tuple[str, int], Tensor] | None = None,
    entered: Callable[[str], None] = lambda path: None,
) -> tuple[list[ModuleCall], Any]:  # fmt: skip
    """Run the model: its calls in the order in which they returned, and its output.

    replaced  (path, how often the module was called before) -> what it returns instead
    """
    opened, done, seen = list[ModuleCall](), list[ModuleCall](), dict[str, int]()

    def enter(path: str, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        entered(path)
        given = flat(features_of([list(args), kwargs])).values()
        inputs = [_gathered(t) for t in given if is_number(t)]
        opened.append(ModuleCall(path, type(module).__name__.removeprefix("FSDP"), inputs))

    def leave(path: str, module: nn.Module, output: Any) -> Any:
        call = opened.pop()
        count = seen[path] = seen.get(path, -1) + 1
        result = None
        if replaced is not None and (path, count) in replaced:
            output = result = _with_first(output, replaced[path, count])
        numbers = [t for t in flat(features_of(output)).values() if is_number(t)] if output is not None else []
        call.output = _gathered(numbers[0]) if numbers else None
        done.append(call)
        return result

    with hooked(model.named_modules(), enter, leave):
        output = model(*args, **kwargs)
    return done, output


def is_number(t: Any) -> bool:
    """Whether it is a tensor of floating-point numbers with at least one entry."""
    return isinstance(t, Tensor) and t.is_floating_point() and t.numel() > 0


def local(t: Tensor) -> Tensor:
    """The numbers that this process holds; of a distributed tensor, all. Every process has to call it."""
    whole = getattr(t, "full_tensor", None)
    return t if whole is None else whole()


def _gathered(t: Tensor) -> Tensor:
    return local(t).detach().cpu().clone()


def _with_first(output: Any, value: Tensor) -> Any:
    """The output with its first tensor of numbers replaced. Raises TypeError where it is no tensor, list or tuple."""
    if isinstance(output, Tensor):
        return value.reshape(output.shape)
    if isinstance(output, (list, tuple)) and not hasattr(output, "_fields"):
        first = next(i for i, t in enumerate(output) if is_number(t))
        return type(output)(value.reshape(t.shape) if i == first else t for i, t in enumerate(output))
    raise TypeError(f"{type(output).__name__} cannot be replaced")


def each_cast(args: tuple[Any, ...], kwargs: Mapping[str, Any], dtype: torch.dtype) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The inputs with their numbers in this dtype."""
    return each(args, partial(_cast, dtype)), each(dict(kwargs), partial(_cast, dtype))


def _cast(dtype: torch.dtype, x: Any) -> Any:
    return x.detach().to(dtype) if isinstance(x, Tensor) and x.is_floating_point() else x
