"""Deep copy of any model, whatever it holds.

`copy.deepcopy` fails on old-style weight norm (the weight is not a leaf of the graph) and on objects with a lock or an open file.
Here such weights are copied as numbers, and such objects are shared.
"""

import copy
from typing import Any

import torch
from torch import Tensor, nn

PLAIN = (int, float, bool, str, type(None), torch.Size, torch.dtype)


def deepcopy(model: nn.Module) -> nn.Module:
    """A copy. Raises the error of `copy.deepcopy` where no copy is possible."""
    return copy.deepcopy(model, _memo(model))


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
