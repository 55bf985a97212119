"""Nudged: a model in which every module's output is off by one unit in the last place, up or down at random.

The change of a later value estimates the effect of rounding on it, with the amplification of the layers between.
Source: Parker 1997, "Monte Carlo Arithmetic"; here at the borders of modules alone.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from equiscope.program.hooks import hooked


@contextmanager
def nudged(model: nn.Module, seed: int = 0) -> Iterator[None]:
    """Inside, the outputs of its modules, tensors and tuples of tensors, are nudged; deterministic for a seed."""
    chance = torch.Generator().manual_seed(seed)

    def nudge(value: Any) -> Any:
        if isinstance(value, tuple) and type(value) is tuple:
            return tuple(nudge(one) for one in value)
        if not isinstance(value, Tensor) or not value.is_floating_point():
            return value
        signs = torch.randint(0, 2, value.shape, generator=chance).to(value.device, value.dtype) * 2 - 1
        return value * (1 + torch.finfo(value.dtype).eps * signs)

    with hooked(model.named_modules(), after=lambda _, __, output: nudge(output)):
        yield
