"""Symmetric linear bias (ALiBi): attention fades with distance, one slope per head.

Enters at the scores, so it needs no table and knows no maximum length. With a causal mask it is the paper's form.
Source: Press, Smith & Lewis 2022, "Train Short, Test Long", section 3; slopes for any number of heads as in their code.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from equiscope.errors import InputError, ShapeError
from equiscope.position.base import Position
from equiscope.symmetry import Action, Reverse, Shift
from equiscope.trace import constant, ops


class Alibi(Position):
    """Adds -slope * |i - j| to the scores.

    slopes  one a head; the paper's 2^(-8h/H) unless given
    raises  ShapeError where the number of slopes is not the number of heads
    """

    name = "alibi"
    title = "ALiBi"
    summary = "Scores fall with the distance between two words, each head at its own rate."
    source = "Press 2022, section 3"
    because = "Alibi lowers scores by distance"

    def __init__(self, slopes: Sequence[float] | None = None) -> None:
        super().__init__()
        self.slopes = tuple(slopes) if slopes is not None else None
        self.rates: tuple[float, ...] = self.slopes or ()

    @property
    def preserves(self) -> frozenset[type[Action]]:
        return frozenset({Shift, Reverse})

    def allocate(self, width: int, heads: int, head_width: int) -> None:
        slopes = self.slopes or paper_slopes(heads)
        if len(slopes) != heads:
            raise ShapeError(f"Alibi was given {len(slopes)} slopes, but the attention has {heads} heads. Give one a head.")
        self.rates = tuple(slopes)

    def bias(self, head: Tensor, at_q: Tensor, at_k: Tensor) -> Tensor:
        if not self.rates:
            raise InputError("This Alibi() does not know the number of heads yet. Call .sized(width, heads, head_width).")
        far = ops.distance(at_q, at_k, name="Δ", label="distances")
        rates = constant(torch.tensor(self.rates, dtype=far.dtype, device=far.device), "m", "slope of each head", "head")
        slopes = ops.gather(rates, head, name="m_h", label="slope of the head")
        return ops.scale(ops.multiply(slopes, far), -1.0, name="B", label="what distance costs")


def paper_slopes(heads: int) -> list[float]:
    """2^(-8h/H) for h = 1 .. H; for other than powers of two, those of the next lower power and every other of the next higher."""
    power = 2 ** math.floor(math.log2(heads))
    slopes = [2.0 ** (-8 * h / power) for h in range(1, power + 1)]
    return slopes if power == heads else slopes + paper_slopes(2 * power)[0::2][: heads - power]
