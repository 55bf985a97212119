"""Some rows at a time: what would need room for all pairs of rows needs it for a few, and is made again for its gradient."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint


def chunked(some: Callable[[int, int], Tensor], rows: int, size: int = 256) -> Tensor:
    """some(start, stop) [..., stop - start, *] for a few rows at a time, joined; memory beyond that grows with `size` alone."""
    parts = [(start, min(start + size, rows)) for start in range(0, rows, size)] or [(0, 0)]
    if torch.is_grad_enabled():
        return torch.cat([checkpoint(some, *part, use_reentrant=False) for part in parts], -2)
    return torch.cat([some(*part) for part in parts], -2)
