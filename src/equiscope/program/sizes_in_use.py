"""Sizes in use: the whole numbers by which a running model splits its inputs.

Inside `recording_sizes`, the shape of a tensor consists of `_Length`s. These are ordinary integers, except that they note the
constants by which the model divides them and with which it compares them.
"""

from inspect import getattr_static
from typing import Any

import torch
from torch import Tensor

from equiscope.program.constants import is_constant
from equiscope.program.irregular_masks import MASKING, irregular_positions, masks_in_call
from equiscope.program.modes import Functions
from equiscope.program.program import leaves_of

SHAPE = getattr_static(Tensor, "shape").__get__
SIZE_FUNCTIONS = (  # whose integer arguments may be lengths
    "view", "reshape", "unflatten", "chunk", "split", "narrow", "unfold", "roll", "pad", "tensor_split", "as_strided", "fold",
    "max_pool1d", "avg_pool1d", "conv1d", "arange", "tril", "triu", "full", "zeros", "ones", "__getitem__", "__floordiv__",
    "floor_divide", "__mod__", "remainder",
)  # fmt: skip


def recording_sizes(recorded_sizes: set[int], irregular: set[int]) -> Functions:
    """Records the integers that reshaping functions receive, those that divide a length or are compared with it, and positions at
    which a mask is irregular."""

    def handler(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        name = getattr(func, "__name__", "")
        if name in SIZE_FUNCTIONS:
            recorded_sizes.update(int(v) for v in leaves_of((args, kwargs)) if is_constant(v))
        if name in MASKING:
            irregular.update(p for t in masks_in_call(name, args, kwargs) for p in irregular_positions(t))
        result = func(*args, **kwargs)
        if func not in (SHAPE, Tensor.size):  # by equality: each access gives a new getter
            return result
        if isinstance(result, tuple):
            return torch.Size([_Length(n, recorded_sizes) for n in result])
        return _Length(result, recorded_sizes)

    return Functions(handler)


class _Length(int):
    """A size of a tensor that records the integers by which it is divided and with which it is compared."""

    recorded: set[int]

    def __new__(cls, value: int, recorded: set[int]) -> "_Length":
        result = super().__new__(cls, value)
        result.recorded = recorded
        return result


def _recording(name: str) -> Any:
    """The operator of `int` of this name, which records its other operand."""
    plain = getattr(int, name)

    def operator(self: _Length, other: Any) -> Any:
        if is_constant(other):
            self.recorded.add(int(other))
        return plain(self, other)

    return operator


def _staying_length(name: str) -> Any:
    """The operator of `int` of this name, whose result is a length too: N + 1 may be divided later."""
    plain = getattr(int, name)

    def operator(self: _Length, *others: Any) -> Any:
        result = plain(self, *others)
        return _Length(result, self.recorded) if isinstance(result, int) else result

    return operator


for _name in ("__floordiv__", "__truediv__", "__mod__", "__divmod__", "__lt__", "__le__", "__gt__", "__ge__", "__eq__", "__ne__"):
    setattr(_Length, _name, _recording(_name))
for _name in ("__neg__", "__add__", "__sub__", "__radd__"):
    setattr(_Length, _name, _staying_length(_name))
