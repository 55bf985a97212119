"""Some rows at a time: what would need room for all pairs of rows needs it for a few, and is made again for its gradient."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from equiscope.kernels.private import functorch_active

KeyValues = list[tuple[dict[str, Any], str, Tensor, int]]


def chunked(some: Callable[[int, int], Tensor], rows: int, owners: tuple[nn.Module, ...], size: int = 256) -> Tensor:
    """some(start, stop) [..., stop - start, *] for a few rows at a time, joined; memory beyond that grows with `size` alone.

    owners  whose parameters it reads: the second time it reads the very same, whatever the modules hold by then
            (`torch.func.functional_call` lends them parameters for the way forward only)
    """
    parts = [(start, min(start + size, rows)) for start in range(0, rows, size)] or [(0, 0)]
    if not torch.is_grad_enabled() or functorch_active():  # transforms take no hooks
        return torch.cat([some(*part) for part in parts], -2)
    if torch.compiler.is_compiling():
        return torch.cat([checkpoint(some, *part, use_reentrant=False) for part in parts], -2)
    held = _parameters(owners)

    def again(start: int, stop: int) -> Tensor:
        with _lent(held):
            return some(start, stop)

    return torch.cat([checkpoint(again, *part, use_reentrant=False) for part in parts], -2)


def _parameters(owners: tuple[nn.Module, ...]) -> KeyValues:
    own = [(m._parameters, name, p) for owner in owners for m in owner.modules() for name, p in m._parameters.items()]
    return [(place, name, p, p._version) for place, name, p in own if p is not None]


@contextmanager
def _lent(held: KeyValues) -> Iterator[None]:
    """The modules hold these parameters, unchanged, or an error says that they were changed."""
    if any(p._version != version for _, _, p, version in held):
        raise RuntimeError("A parameter was changed in place between the forward and the backward pass, which reads it again.")
    others = [(place, name, place[name], p) for place, name, p, _ in held if place[name] is not p]
    for place, name, _, lent in others:
        place[name] = lent
    try:
        yield
    finally:
        for place, name, own, _ in others:
            place[name] = own
