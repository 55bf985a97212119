"""Deep copy of any model, whatever it holds.

`copy.deepcopy` fails on old-style weight norm (the weight is not a leaf of the graph) and on objects with a lock or an open file.
Here such weights are copied as numbers, and such objects are shared. A function that holds parts of the model in its closure (a
hook, a replaced `forward`) is copied with them: shared, it would go on calling the original.
"""

import copy
import types
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

PLAIN = (int, float, bool, str, type(None), torch.Size, torch.dtype)


def deepcopy(model: nn.Module) -> nn.Module:
    """A copy. Raises the error of `copy.deepcopy` where no copy is possible."""
    memo = _memo(model)
    with _copying_closures():
        return copy.deepcopy(model, memo)


@contextmanager
def _copying_closures() -> Iterator[None]:
    """Inside, `copy.deepcopy` copies functions with a closure, with what the closure holds."""
    dispatch: dict[type, Any] = copy._deepcopy_dispatch  # type: ignore[attr-defined]
    plain = dispatch[types.FunctionType]
    dispatch[types.FunctionType] = _copied_function
    try:
        yield
    finally:
        dispatch[types.FunctionType] = plain


def _copied_function(function: types.FunctionType, memo: dict[int, Any]) -> Any:
    original = getattr(function, "_torchdynamo_orig_callable", None)  # compiled: the copy is plain
    if original is not None:
        return copy.deepcopy(original, memo)
    if not function.__closure__:
        return function
    cells = [types.CellType() for _ in function.__closure__]
    result = types.FunctionType(function.__code__, function.__globals__, function.__name__, function.__defaults__, tuple(cells))
    result.__kwdefaults__, result.__qualname__, result.__module__ = (
        function.__kwdefaults__,
        function.__qualname__,
        function.__module__,
    )
    result.__dict__.update(function.__dict__)
    memo[id(function)] = result
    for cell, held in zip(cells, function.__closure__, strict=True):
        try:
            value = held.cell_contents
        except ValueError:  # not filled yet
            continue
        try:
            cell.cell_contents = copy.deepcopy(value, memo)
        except Exception:  # a lock, an open file
            cell.cell_contents = value
    return result


def _memo(model: nn.Module) -> dict[int, Any]:
    """The memo for `copy.deepcopy`: id -> the object to use instead of a copy."""
    memo: dict[int, Any] = {}
    for module in model.modules():
        for value in vars(module).values():
            if isinstance(value, Tensor):
                if not value.is_leaf:
                    memo[id(value)] = value.detach().clone()
            elif not isinstance(value, (*PLAIN, dict, nn.Module)) and not _is_copyable(value):
                memo[id(value)] = value
    return memo


def _is_copyable(value: Any) -> bool:
    try:
        copy.deepcopy(value)
    except Exception:  # a lock, an open file, a process
        return False
    return True
