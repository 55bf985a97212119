"""Nudged: a model in which every module's output is wrong by one unit in its last place, up or down by chance.

What that makes of a number further on is what rounding may make of it, with all that the layers between amplify.
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
    """Inside, what its modules put out, tensors and tuples of them, is nudged; the same way each time for one seed."""
    chance = torch.Generator().manual_seed(seed)

    def nudge(value: Any) -> Any:
        if isinstance(value, tuple) and type(value) is tuple:
            return tuple(nudge(one) for one in value)
        if not isinstance(value, Tensor) or not value.is_floating_point():
            return value
        signs = torch.randint(0, 2, value.shape, generator=chance).to(value.device, value.dtype) * 2 - 1
        return value * (1 + torch.finfo(value.dtype).eps * signs)

    with hooked(model.named_modules(), after=lambda _, __, made: nudge(made)):
        yield
