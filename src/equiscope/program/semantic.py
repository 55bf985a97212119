"""Functions that a watcher sees as one step (`equiscope.functional.semantic`): which operation of the page each is."""

from typing import Any


def operation_of(call: Any) -> str:
    """The page's operation that a call is; empty for calls that are not ours."""
    return str(getattr(call, "operation", ""))


def parameters(call: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """What a call gives to the operation: its inputs and its parameters, those with defaults too."""
    bound = call.signature.bind(*args, **kwargs)
    bound.apply_defaults()
    plain = {name: x for name, x in bound.arguments.items() if isinstance(x, (bool, int, float, str))}
    return [x for name, x in bound.arguments.items() if name not in plain and x is not None], plain
