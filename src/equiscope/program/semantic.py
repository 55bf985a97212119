"""Functions of ours that a watcher sees as one step: torch's override protocol, so that nobody watching they cost one question.

    @semantic("rotate")
    def rotate(x, angles, layout="half"): ...

The name is that of an operation of the page: tensors are its inputs, in order, and other arguments its parameters, by name.
"""

import inspect
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from torch import Tensor
from torch.overrides import wrap_torch_function

P = ParamSpec("P")
R = TypeVar("R")


def semantic(operation: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Make a plain function of tensors one step of a program, and one operation of the page."""

    def wrapped(function: Callable[P, R]) -> Callable[P, R]:
        made: Any = wrap_torch_function(_tensors)(function)
        made.operation, made.signature = operation, inspect.signature(function)
        return made

    return wrapped


def operation_of(call: Any) -> str:
    """The page's operation that a call is; empty for calls that are not ours."""
    return str(getattr(call, "operation", ""))


def parameters(call: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """What a call gives to the operation: its inputs and its parameters, those with defaults too."""
    bound = call.signature.bind(*args, **kwargs)
    bound.apply_defaults()
    plain = {name: x for name, x in bound.arguments.items() if isinstance(x, (bool, int, float, str))}
    return [x for name, x in bound.arguments.items() if name not in plain and x is not None], plain


def _tensors(*args: Any, **kwargs: Any) -> tuple[Tensor, ...]:
    return tuple(x for x in (*args, *kwargs.values()) if isinstance(x, Tensor))
