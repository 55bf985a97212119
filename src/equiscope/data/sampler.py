"""Sampler: the order of the examples, as a function of the seed and the step alone.

No state has to be saved: the seed and the step determine the next examples, in one process or in many.
"""

import hashlib
from collections.abc import Sequence

import torch
from torch import Tensor

TOGETHER = 16  # steps whose examples are sorted by length


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

    def similar(self, step: int, size: int, lengths: Sequence[int]) -> list[int]:
        """The examples of a step, of similar length, so that little of a batch is padding.

        The examples of TOGETHER steps are sorted, cut into their batches, and these are shuffled.
        """
        group, place = divmod(step, TOGETHER)
        rows = [row for _, row in self.batch(group, TOGETHER * size)]
        rows.sort(key=lambda row: lengths[row])
        which = int(torch.randperm(TOGETHER, generator=generator(self.seed, "similar", group))[place])
        return rows[which * size : (which + 1) * size]

    def _shuffled(self, epoch: int) -> Tensor:
        if epoch not in self._epochs:
            self._epochs = {e: order for e, order in self._epochs.items() if e == epoch - 1}
            self._epochs[epoch] = torch.randperm(self.count, generator=generator(self.seed, "epoch", epoch))
        return self._epochs[epoch]
