"""Rotary positions (RoPE): queries and keys are turned by their place, so their product knows only how far apart they are.

Row m of Q is turned by +m, row n of K by +n; a rotation is undone by its transpose, so q_m . k_n depends on m - n only.
Two pair layouts exist: "interleaved" pairs columns (0,1), (2,3), ... as in the paper and Meta's Llama; "half" pairs (i, i + K/2)
as in Hugging Face. `half_from_interleaved` converts weights exactly.
Source: Su et al. 2021, "RoFormer", section 3.2.
"""

import torch
from torch import Tensor

from equiscope.errors import InputError, ShapeError
from equiscope.position.base import Position, Role
from equiscope.position.frequencies import angles, ladder
from equiscope.symmetry import Action, Shift
from equiscope.trace import ops


class Rope(Position):
    """Turns queries and keys.

    base       the slowest pair turns about once in 2 pi * base steps
    pairs      which columns turn together: "interleaved" or "half"
    fraction   part of the head that turns (the rest passes unchanged)
    key_speed  for study: keys turn so much faster than queries; anything but 1 breaks the law (0 turns queries only)
    raises     ShapeError where the turning part of the head is odd or empty
    """

    name = "rope"
    title = "RoPE"
    summary = "Queries and keys are turned by their place: their product knows only the distance."
    source = "Su 2021, section 3.2"

    def __init__(
        self, base: float = 10000.0, pairs: ops.Layout = "interleaved", fraction: float = 1.0, key_speed: float = 1.0
    ) -> None:
        super().__init__()
        if pairs not in ("interleaved", "half"):
            raise InputError(f'pairs is "interleaved" or "half", but got {pairs!r}.')
        if not base > 0:
            raise InputError(f"base is the length of the slowest turn and larger than 0, but got {base}.")
        self.base, self.pairs, self.fraction, self.key_speed = base, pairs, fraction, key_speed

    @property
    def preserves(self) -> frozenset[type[Action]]:
        return frozenset({Shift}) if self.key_speed == 1 else frozenset()

    @property
    def because(self) -> str:  # type: ignore[override]
        if self.key_speed != 1:
            return "queries and keys turn at different speeds"
        return "Rope turns queries and keys by their place, one way round"

    def allocate(self, width: int, heads: int, head_width: int) -> None:
        self.turning(head_width)

    def turning(self, head_width: int) -> int:
        """How many columns of a head turn."""
        columns = round(head_width * self.fraction)
        if columns % 2 or not 0 < columns <= head_width:
            raise ShapeError(
                f"Rope turns pairs of columns, but would turn {columns} of a head of {head_width}. "
                "Choose an even head width, or a fraction that leaves an even number."
            )
        return columns

    def turn(self, x: Tensor, at: Tensor, role: Role) -> Tensor:
        speed = self.key_speed if role == "key" else 1.0
        frequencies = ladder(self.turning(x.shape[-1]) // 2, self.base) * speed
        name, label = ("Q′", "turned queries") if role == "query" else ("K′", "turned keys")
        return ops.rotate(
            x, angles(at, frequencies, f"angles that turn the {label.split()[-1]}"), self.pairs, name=name, label=label
        )


def half_from_interleaved(weight: Tensor, heads: int) -> Tensor:
    """Columns of a projection [D, H*K] trained with interleaved pairs, reordered for half-split pairs; exact, a permutation."""
    return weight[..., _order(weight.shape[-1], heads)]


def interleaved_from_half(weight: Tensor, heads: int) -> Tensor:
    """The inverse of `half_from_interleaved`."""
    return weight[..., _order(weight.shape[-1], heads).argsort()]


def _order(channels: int, heads: int) -> Tensor:
    if channels % (2 * heads):
        raise ShapeError(f"{channels} columns do not make {heads} heads of an even width.")
    columns = torch.arange(channels).view(heads, -1, 2)
    return columns.transpose(-2, -1).reshape(-1)
