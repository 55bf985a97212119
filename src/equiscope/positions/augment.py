"""Other places for the same words: for training only, so that a model meets places that its short texts do not have.

These are no schemes. They change coordinates before a model sees them, keep the order of the words, and are left out when the
model is used: random places would then be noise. Any scheme may follow.
Sources: Kiyono et al. 2021, "SHAPE"; Ruoss et al. 2023, "Randomized Positional Encodings Boost Length Generalization".
"""

import torch
from torch import Generator, Tensor

from equiscope.errors import InputError


def random_offset(positions: Tensor, most: int, generator: Generator | None = None) -> Tensor:
    """SHAPE, in training only: every sequence begins a random number of steps in 0 .. most later; distances stay.

    at       [..., N, A]; one offset for each sequence and axis
    returns  places of the same shape and dtype
    raises   InputError for a negative `most`
    """
    if most < 0:
        raise InputError(f"An offset is in 0..most, but got most={most}. Use 0 or more.")
    offset = torch.randint(
        most + 1, (*positions.shape[:-2], 1, positions.shape[-1]), generator=generator, device=_device(positions, generator)
    )
    return positions + offset.to(positions.device, positions.dtype)


def randomised(positions: Tensor, most: int, generator: Generator | None = None) -> Tensor:
    """Randomised places, in training only: every sequence gets a random subset of 0 .. most-1, in order.

    The word that came first still comes first; words at the same place share their new one.
    at       [..., N, 1]
    returns  places of the same shape and dtype
    raises   InputError where a sequence has more than `most` words
    """
    length = positions.shape[-2]
    if positions.shape[-1] != 1 or length > most:
        raise InputError(
            f"{length} words with {positions.shape[-1]} coordinates each cannot get places of their own in 0..{most - 1}. "
            f"Use one coordinate a word, and most={length} or more."
        )
    places = positions.squeeze(-1)
    ordered, index = places.sort(-1)
    new = torch.ones_like(ordered, dtype=torch.long)
    new[..., :1] = 0
    new[..., 1:] = ordered.diff(dim=-1) != 0
    rank = torch.zeros_like(new).scatter(-1, index, new.cumsum(-1))  # equal places have equal ranks
    drawn = torch.rand(*places.shape[:-1], most, generator=generator, device=_device(positions, generator)).argsort(-1)[
        ..., :length
    ]
    used = torch.arange(length, device=rank.device) <= rank.amax(-1, keepdim=True) if length else rank.bool()
    subset = drawn.to(positions.device).masked_fill(~used, most).sort(-1).values
    return subset.gather(-1, rank).to(positions.dtype).unsqueeze(-1)


def _device(positions: Tensor, generator: Generator | None) -> torch.device:
    return positions.device if generator is None else generator.device
