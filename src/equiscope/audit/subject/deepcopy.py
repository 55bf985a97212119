"""Deep copy: a copy of any model, whatever it holds.

`copy.deepcopy` fails on old-style weight norm (a weight that is made, no leaf of the graph) and on whatever holds a lock or an open
file. Made weights are copied as numbers, the rest is shared.
"""

import copy
from typing import Any

import torch
from torch import Tensor, nn

PLAIN = (int, float, bool, str, type(None), torch.Size, torch.dtype)


def deepcopy(model: nn.Module) -> nn.Module:
    """A copy. Raises what deepcopy does where there is no way."""
    return copy.deepcopy(model, _known(model))


def _known(model: nn.Module) -> dict[int, Any]:
    """What deepcopy is told to take instead of copying."""
    known: dict[int, Any] = {}
    for module in model.modules():
        for value in vars(module).values():
            if isinstance(value, Tensor):
                if not value.is_leaf:
                    known[id(value)] = value.detach().clone()
            elif not isinstance(value, (*PLAIN, dict, nn.Module)) and not _copies(value):
                known[id(value)] = value
    return known


def _copies(value: Any) -> bool:
    try:
        copy.deepcopy(value)
    except Exception:  # a lock, an open file, a process
        return False
    return True
