"""The tensor that a module takes or returns: the first one of floats among arguments or results, also inside Tokens."""

import dataclasses
from typing import Any

from torch import Tensor


def main_tensor(some: Any) -> Tensor | None:
    """The first tensor of floats in nested arguments or results; of an object with features `x` (Tokens) these."""
    if isinstance(some, Tensor):
        return some if some.is_floating_point() else None
    if isinstance(some, (list, tuple)):
        return next((found for x in some if (found := main_tensor(x)) is not None), None)
    if isinstance(some, dict):
        return main_tensor(list(some.values()))
    x = getattr(some, "x", None)
    return x if isinstance(x, Tensor) and dataclasses.is_dataclass(some) else None


def holder(some: Any, name: str) -> str:
    """The expression of that tensor: "output[0]", "args[0].x"; empty where there is none."""
    if isinstance(some, Tensor):
        return name if some.is_floating_point() else ""
    items = enumerate(some) if isinstance(some, (list, tuple)) else some.items() if isinstance(some, dict) else ()
    for key, x in items:
        if found := holder(x, f"{name}[{key!r}]"):
            return found
    return f"{name}.x" if not items and main_tensor(some) is not None else ""


def with_main_tensor(some: Any, value: Tensor) -> Any:
    """The same with another tensor in the place of the main one."""
    return _with_main_tensor(some, value)[0]


def _with_main_tensor(some: Any, value: Tensor) -> tuple[Any, bool]:
    if isinstance(some, Tensor):
        return (value, True) if some.is_floating_point() else (some, False)
    if isinstance(some, (list, tuple)):
        items = list(some)
        for i, x in enumerate(items):
            items[i], done = _with_main_tensor(x, value)
            if done:
                return (items if isinstance(some, list) else type(some)(*items) if hasattr(some, "_fields") else tuple(items)), True
        return some, False
    if isinstance(some, dict):
        for name, x in some.items():
            new, done = _with_main_tensor(x, value)
            if done:
                changed = some.copy()
                changed[name] = new
                return changed, True
        return some, False
    if main_tensor(some) is not None:
        return dataclasses.replace(some, x=value), True
    return some, False
