"""Random positions, for training only, so that a model sees positions beyond the length of its training texts.

These are no schemes. They change positions before the model reads them and keep the order of the tokens. Leave them out at
inference. Any scheme may follow.
Sources: Kiyono et al. 2021, "SHAPE"; Ruoss et al. 2023, "Randomized Positional Encodings Boost Length Generalization".
"""

import torch
from torch import Generator, Tensor

from equiscope.errors import InputError


def random_offset(positions: Tensor, most: int, generator: Generator | None = None) -> Tensor:
    """SHAPE, in training only: add a random offset in 0 .. most to the positions of each sequence; distances stay.

    at       [..., N, A]; one offset for each sequence and axis
    returns  positions of the same shape and dtype
    raises   InputError for a negative `most`
    """
    if most < 0:
        raise InputError(f"An offset is in 0..most, but got most={most}. Use 0 or more.")
    offset = torch.randint(
        most + 1, (*positions.shape[:-2], 1, positions.shape[-1]), generator=generator, device=_device(positions, generator)
    )
    return positions + offset.to(positions.device, positions.dtype)


def randomised(positions: Tensor, most: int, generator: Generator | None = None) -> Tensor:
    """Randomised positions, in training only: each sequence gets a random subset of 0 .. most-1, sorted.

    The order of the tokens stays; tokens with equal positions get equal new ones.
    at       [..., N, 1]
    returns  positions of the same shape and dtype
    raises   InputError where a sequence has more than `most` tokens
    """
    length = positions.shape[-2]
    if positions.shape[-1] != 1 or length > most:
        raise InputError(
            f"{length} tokens with {positions.shape[-1]} coordinates each cannot get distinct positions in 0..{most - 1}. "
            f"Use one coordinate a token, and most={length} or more."
        )
    flat = positions.squeeze(-1)
    ordered, index = flat.sort(-1)
    new = torch.ones_like(ordered, dtype=torch.long)
    new[..., :1] = 0
    new[..., 1:] = ordered.diff(dim=-1) != 0
    rank = torch.zeros_like(new).scatter(-1, index, new.cumsum(-1))  # equal positions have equal ranks
    drawn = torch.rand(*flat.shape[:-1], most, generator=generator, device=_device(positions, generator)).argsort(-1)[..., :length]
    used = torch.arange(length, device=rank.device) <= rank.amax(-1, keepdim=True) if length else rank.bool()
    subset = drawn.to(positions.device).masked_fill(~used, most).sort(-1).values
    return subset.gather(-1, rank).to(positions.dtype).unsqueeze(-1)


def _device(positions: Tensor, generator: Generator | None) -> torch.device:
    return positions.device if generator is None else generator.device
