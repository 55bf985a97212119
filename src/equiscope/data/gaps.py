"""Gaps: recordings of which stretches are missing. Times in seconds know where something was left out; an index does not."""

import hashlib

import torch
from torch import Tensor

from equiscope.data.sampler import generator


def remaining_windows(count: int, share: float, most: int, draw: torch.Generator) -> Tensor:
    """Which of so many windows are left, in their order, where a share of them is missing: always as many, one at least.

    most  windows of one stretch that is left out
    """
    missing = torch.zeros(count, dtype=torch.bool)
    wanted = min(count - 1, round(share * count))
    while (left := wanted - int(missing.sum())) > 0:
        long = int(torch.randint(1, min(most, left) + 1, (), generator=draw))
        first = int(torch.randint(count - long + 1, (), generator=draw))
        missing[first : first + long] = True
    return (~missing).nonzero()[:, 0]


def sound_generator(wave: Tensor) -> torch.Generator:
    """Random numbers that a sound [T] itself decides, so that it has the same gaps wherever it is measured."""
    return generator(0, "gaps", hashlib.sha256(wave.numpy().tobytes()).hexdigest())
