"""Sampler: the order of the examples, as a function of the seed and the step alone.

No state has to be saved: the seed and the step determine the next examples, in one process or in many.
"""

import hashlib

import torch
from torch import Tensor


def derived_seed(seed: int, *names: int | str) -> int:
    """A seed for the random numbers with these names: 63 bits of a digest."""
    key = "/".join(map(str, (seed, *names))).encode()
    return int.from_bytes(hashlib.blake2b(key, digest_size=8).digest(), "big") >> 1


def generator(seed: int, *names: int | str) -> torch.Generator:
    """A generator for these names, such as ("crop", step)."""
    return torch.Generator().manual_seed(derived_seed(seed, *names))


class Sampler:
    """Examples 0..count - 1, shuffled in every epoch; batches continue across the end of an epoch."""

    def __init__(self, count: int, seed: int) -> None:
        self.count, self.seed = count, seed
        self._epochs: dict[int, Tensor] = {}

    def batch(self, step: int, size: int) -> list[tuple[int, int]]:
        """The examples of a step (counted from 0), each with its epoch."""
        first = step * size
        return [(epoch, int(self._shuffled(epoch)[place])) for epoch, place in (divmod(first + i, self.count) for i in range(size))]

    def _shuffled(self, epoch: int) -> Tensor:
        if epoch not in self._epochs:
            self._epochs = {e: order for e, order in self._epochs.items() if e == epoch - 1}
            self._epochs[epoch] = torch.randperm(self.count, generator=generator(self.seed, "epoch", epoch))
        return self._epochs[epoch]
