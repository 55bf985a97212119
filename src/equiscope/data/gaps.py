"""Gaps: recordings with missing stretches. Positions in seconds show where something is missing; an index does not."""

import hashlib

import torch
from torch import Tensor

from equiscope.data.sampler import generator


def remaining_windows(count: int, share: float, most: int, draw: torch.Generator) -> Tensor:
    """Indices of the remaining windows, sorted, after a share of them is removed: always the same number, at least one.

    most  windows of one removed stretch
    """
    missing = torch.zeros(count, dtype=torch.bool)
    wanted = min(count - 1, round(share * count))
    while (left := wanted - int(missing.sum())) > 0:
        long = int(torch.randint(1, min(most, left) + 1, (), generator=draw))
        first = int(torch.randint(count - long + 1, (), generator=draw))
        missing[first : first + long] = True
    return (~missing).nonzero()[:, 0]


def sound_generator(wave: Tensor) -> torch.Generator:
    """Random numbers that depend on the sound [T] itself, so that it has the same gaps in every evaluation."""
    return generator(0, "gaps", hashlib.sha256(wave.numpy().tobytes()).hexdigest())
