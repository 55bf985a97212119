"""Rotary positions (RoPE): queries and keys are turned by their place, so their product knows only how far apart they are.

Row m of Q is turned by +m, row n of K by +n; a rotation is undone by its transpose, so q_m . k_n depends on m - n only.
Two pair layouts exist: "interleaved" pairs columns (0,1), (2,3), ... as in the paper and Meta's Llama; "half" pairs (i, i + K/2)
as in Hugging Face. `half_from_interleaved` converts weights exactly. `scaling` slows the clocks for longer texts.
Source: Su et al. 2021, "RoFormer", section 3.2.
"""

import torch
from torch import Tensor

from equiscope.errors import InputError, ShapeError
from equiscope.functional import Layout, concat, rotate
from equiscope.positions.base import Position, Role
from equiscope.positions.frequencies import angles, ladder
from equiscope.positions.scaling import Scaling
from equiscope.symmetry import Action, Shift


class Rope(Position):
    """Turns queries and keys.

    base       the slowest pair turns about once in 2 pi * base steps
    pairs      which columns turn together: "interleaved" or "half"
    fraction   part of the head that turns (the rest passes unchanged)
    key_speed  for study: keys turn so much faster than queries; anything but 1 breaks the law (0 turns queries only)
    scaling    slower clocks for longer texts, e.g. Yarn(factor=4, trained=4096)
    raises     ShapeError where the turning part of the head is odd or empty
    """

    name = "rope"
    title = "RoPE"
    summary = "Queries and keys are turned by their place: their product knows only the distance."
    source = "Su 2021, section 3.2"
    formula = "qᵢ′·kⱼ′ = qᵢᵀ R((j−i)ω) kⱼ"
    longer = "alone not (Press 2022); with YaRN to 128 k words (Peng 2023), with LongRoPE to 2048 k (Ding 2024)"
    cost = "2·N·K products a head for queries, as many for keys"

    def __init__(
        self, base: float = 10000.0, pairs: Layout = "interleaved", fraction: float = 1.0, key_speed: float = 1.0,
        scaling: Scaling | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        if pairs not in ("interleaved", "half"):
            raise InputError(f'pairs is "interleaved" or "half", but got {pairs!r}.')
        if not base > 0:
            raise InputError(f"base is the length of the slowest turn and larger than 0, but got {base}.")
        self.base, self.pairs, self.fraction, self.key_speed, self.scaling = base, pairs, fraction, key_speed, scaling

    @property
    def preserves(self) -> frozenset[type[Action]]:
        return frozenset({Shift}) if self.key_speed == 1 else frozenset()

    @property
    def because(self) -> str:  # type: ignore[override]
        if self.key_speed != 1:
            return "queries and keys turn at different speeds"
        return "Rope turns queries and keys by their place, one way round"

    def allocate(self, width: int, heads: int, head_width: int) -> None:
        self.frequencies(head_width)

    def turning(self, head_width: int) -> int:
        """How many columns of a head turn."""
        columns = round(head_width * self.fraction)
        if columns % 2 or not 0 < columns <= head_width:
            raise ShapeError(
                f"Rope turns pairs of columns, but would turn {columns} of a head of {head_width}. "
                "Choose an even head width, or a fraction that leaves an even number."
            )
        return columns

    def frequencies(self, head_width: int) -> Tensor:
        """Radians a step of every pair that turns, scaled: [turning / 2] float64."""
        columns = self.turning(head_width)
        return ladder(columns // 2, self.base) if self.scaling is None else self.scaling.frequencies(columns, self.base)

    def rotate(self, x: Tensor, positions: Tensor, role: Role) -> Tensor:
        speed = self.key_speed if role == "key" else 1.0
        clocks = angles(positions, self.frequencies(x.shape[-1]) * speed)
        return rotate(self._sharpened(x), clocks, self.pairs)

    def _sharpened(self, x: Tensor) -> Tensor:
        """Times the scaling's gain, those columns that turn: as Hugging Face multiplies cosines and sines."""
        gain, columns = self.scaling.gain if self.scaling is not None else 1.0, self.turning(x.shape[-1])
        if gain == 1:
            return x
        if columns == x.shape[-1]:
            return x * gain
        return concat(x[..., :columns] * gain, x[..., columns:])


def half_from_interleaved(weight: Tensor, heads: int, turning: int | None = None) -> Tensor:
    """Rows of a projection's weight [H*K, D] or bias [H*K], trained with interleaved pairs, reordered for half-split pairs.

    heads    of this projection: for the keys of grouped queries, the number of key heads
    turning  rows of each head that turn (`Rope.turning`), where not all do
    raises   ShapeError where the rows do not make so many heads, or not so many turn
    """
    return weight[_order(len(weight), heads, turning).to(weight.device)]


def interleaved_from_half(weight: Tensor, heads: int, turning: int | None = None) -> Tensor:
    """The inverse of `half_from_interleaved`."""
    return weight[_order(len(weight), heads, turning).argsort().to(weight.device)]


def _order(channels: int, heads: int, turning: int | None) -> Tensor:
    """Where each row of a half-split projection lies in the interleaved one."""
    width = channels // heads
    turns = width if turning is None else turning
    if channels % heads or turns % 2 or not 0 < turns <= width:
        kind = "an even width" if turning is None else f"a width in which {turning} rows turn in pairs"
        raise ShapeError(f"{channels} rows do not make {heads} heads of {kind}.")
    pairs = torch.arange(turns).view(-1, 2).transpose(0, 1).reshape(-1)
    head = torch.cat([pairs, torch.arange(turns, width)])
    return (torch.arange(heads).unsqueeze(-1) * width + head).reshape(-1)
