"""Chunked computation: memory for a chunk of rows instead of all, recomputed in the backward pass."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from equiscope.kernels.private import functorch_active

OwnedParameters = list[tuple[dict[str, Any], str, Tensor, int]]


def chunked(compute: Callable[[int, int], Tensor], rows: int, owners: tuple[nn.Module, ...], size: int = 256) -> Tensor:
    """compute(start, stop) [..., stop - start, *] for each chunk of rows, concatenated; extra memory grows with `size` alone.

    owners  modules whose parameters it reads: the recomputation reads the same tensors, even if the modules hold others by
            then (`torch.func.functional_call` replaces parameters during the forward pass only)
    """
    parts = [(start, min(start + size, rows)) for start in range(0, rows, size)] or [(0, 0)]
    if not torch.is_grad_enabled() or functorch_active():  # transforms do not support hooks
        return torch.cat([compute(*part) for part in parts], -2)
    if torch.compiler.is_compiling():
        return torch.cat([checkpoint(compute, *part, use_reentrant=False) for part in parts], -2)
    parameters = _parameters(owners)

    def recompute(start: int, stop: int) -> Tensor:
        with _restored(parameters):
            return compute(start, stop)

    return torch.cat([checkpoint(recompute, *part, use_reentrant=False) for part in parts], -2)


def _parameters(owners: tuple[nn.Module, ...]) -> OwnedParameters:
    current = [(m._parameters, name, p) for owner in owners for m in owner.modules() for name, p in m._parameters.items()]
    return [(owner, name, p, p._version) for owner, name, p in current if p is not None]


@contextmanager
def _restored(parameters: OwnedParameters) -> Iterator[None]:
    """Give the modules these parameters. Raises RuntimeError if one was changed in place."""
    if any(p._version != version for _, _, p, version in parameters):
        raise RuntimeError("A parameter was changed in place between the forward and the backward pass, which reads it again.")
    others = [(owner, name, owner[name], p) for owner, name, p, _ in parameters if owner[name] is not p]
    for owner, name, _, tensor in others:
        owner[name] = tensor
    try:
        yield
    finally:
        for owner, name, current, _ in others:
            owner[name] = current
