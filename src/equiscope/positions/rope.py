"""Rotary position embedding (RoPE): rotates queries and keys by their position; their product depends on the difference only.

A query at position m is rotated by the angles m w, a key at position n by n w. The transpose of a rotation is its inverse, so
q_m . k_n depends on m - n only.
Two pair layouts exist: "interleaved" pairs columns (0,1), (2,3), ... as in the paper and Meta's Llama; "half" pairs (i, i + K/2)
as in Hugging Face. `half_from_interleaved` converts weights exactly. `scaling` lowers the frequencies for longer texts.
Source: Su et al. 2021, "RoFormer", section 3.2.
"""

import torch
from torch import Tensor

from equiscope.errors import InputError, ShapeError, wrong_choice
from equiscope.functional import Layout, concat, rotate
from equiscope.positions.base import Position, Role
from equiscope.positions.frequencies import angles, geometric_frequencies
from equiscope.positions.scaling import Scaling
from equiscope.symmetry import Action, Shift


class Rope(Position):
    """Rotates queries and keys.

    base              the slowest pair makes about one rotation in 2 pi * base steps
    pairs             which columns form a pair: "interleaved" or "half"
    fraction          part of the head that is rotated (the rest passes unchanged)
    key_angle_factor  for experiments: factor on the angles of keys; other values than 1 break shift equivariance (0 rotates
                      queries only)
    scaling           lower frequencies for longer texts, e.g. Yarn(factor=4, trained=4096)
    raises            ShapeError if the rotated part of the head is odd or empty
    """

    name = "rope"
    title = "RoPE"
    summary = "Queries and keys are rotated by their position: their product depends on the difference only."
    source = "Su 2021, section 3.2"
    formula = "qᵢ′·kⱼ′ = qᵢᵀ R((j−i)ω) kⱼ"
    longer = "not by itself (Press 2022); YaRN extends it to 128 k tokens (Peng 2023), LongRoPE to 2048 k (Ding 2024)"
    cost = "2·N·K products a head for queries, as many for keys"

    def __init__(
        self, base: float = 10000.0, pairs: Layout = "interleaved", fraction: float = 1.0, key_angle_factor: float = 1.0,
        scaling: Scaling | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        if pairs not in ("interleaved", "half"):
            raise wrong_choice("Rope.pairs", pairs, ["interleaved", "half"])
        if not base > 0:
            raise InputError(f"base sets the longest period and is larger than 0, but got {base}.")
        self.base, self.pairs, self.fraction, self.key_angle_factor, self.scaling = base, pairs, fraction, key_angle_factor, scaling

    @property
    def preserves(self) -> frozenset[type[Action]]:
        return frozenset({Shift}) if self.key_angle_factor == 1 else frozenset()

    @property
    def because(self) -> str:  # type: ignore[override]
        if self.key_angle_factor != 1:
            return "queries and keys rotate at different speeds"
        return "Rope rotates queries and keys by their position: scores depend on the signed distance"

    def allocate(self, width: int, heads: int, head_width: int) -> None:
        self.frequencies(head_width)

    def rotated_columns(self, head_width: int) -> int:
        """Return the number of columns of a head that are rotated."""
        columns = round(head_width * self.fraction)
        if columns % 2 or not 0 < columns <= head_width:
            raise ShapeError(
                f"Rope rotates pairs of columns, but would rotate {columns} of a head of {head_width}. "
                "Choose an even head width, or a fraction that leaves an even number."
            )
        return columns

    def frequencies(self, head_width: int) -> Tensor:
        """Return the frequency of each rotated pair in radians per position, after scaling: [rotated / 2] float64."""
        columns = self.rotated_columns(head_width)
        return (
            geometric_frequencies(columns // 2, self.base) if self.scaling is None else self.scaling.frequencies(columns, self.base)
        )

    def rotate(self, x: Tensor, positions: Tensor, role: Role) -> Tensor:
        factor = self.key_angle_factor if role == "key" else 1.0
        theta = angles(positions, self.frequencies(x.shape[-1]) * factor)
        return rotate(self._scaled(x), theta, self.pairs)

    def _scaled(self, x: Tensor) -> Tensor:
        """Multiply the rotated columns by the attention factor of the scaling; Hugging Face multiplies cosines and sines by it."""
        scale, columns = self.scaling.scale if self.scaling is not None else 1.0, self.rotated_columns(x.shape[-1])
        if scale == 1:
            return x
        if columns == x.shape[-1]:
            return x * scale
        return concat(x[..., :columns] * scale, x[..., columns:])


def half_from_interleaved(weight: Tensor, heads: int, rotated: int | None = None) -> Tensor:
    """Reorder the rows of a projection's weight [H*K, D] or bias [H*K] from interleaved pairs to half-split pairs.

    heads    of this projection: for the keys of grouped queries, the number of key heads
    rotated  rows of each head that are rotated (`Rope.rotated_columns`), if not all are
    raises   ShapeError if the rows do not form this many heads, or a head has too few rows
    """
    return weight[_order(len(weight), heads, rotated).to(weight.device)]


def interleaved_from_half(weight: Tensor, heads: int, rotated: int | None = None) -> Tensor:
    """The inverse of `half_from_interleaved`."""
    return weight[_order(len(weight), heads, rotated).argsort().to(weight.device)]


def _order(channels: int, heads: int, rotated: int | None) -> Tensor:
    """Return the index of each row of a half-split projection in the interleaved projection: 0, 2, 1, 3 for a head of width 4."""
    width = channels // heads
    columns = width if rotated is None else rotated
    if channels % heads or columns % 2 or not 0 < columns <= width:
        kind = "an even width" if rotated is None else f"a width in which {rotated} rows form pairs"
        raise ShapeError(f"{channels} rows do not make {heads} heads of {kind}.")
    pairs = torch.arange(columns).view(-1, 2).transpose(0, 1).reshape(-1)
    head = torch.cat([pairs, torch.arange(columns, width)])
    return (torch.arange(heads).unsqueeze(-1) * width + head).reshape(-1)
