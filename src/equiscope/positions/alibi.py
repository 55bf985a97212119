"""Attention with linear biases (ALiBi): scores fall linearly with distance, with one slope per head.

It acts on the scores, so it has no table and no maximum length. With a causal mask the symmetric kind is the paper's.
Source: Press, Smith & Lewis 2022, "Train Short, Test Long", section 3; slopes for any number of heads as in their code.
Both directions: issue 5 of their repository, which names several forms and no standard one.
"""

import math
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from equiscope.errors import InputError, ShapeError, wrong_choice
from equiscope.positions.base import AxisPositions, Position
from equiscope.positions.gaps import distances, gap
from equiscope.symmetry import Action, Reverse, Shift

Kind = Literal["symmetric", "asymmetric", "key"]


class Alibi(Position):
    """Adds -slope * |i - j| to the scores.

    slopes  one a head; the paper's 2^(-8h/H) unless given
    kind    "symmetric"   by distance, Euclidean on several axes
            "asymmetric"  keys after the query have slopes of their own
            "key"         +slope * j, as in the paper's code and in BLOOM: a shift adds the same number to all scores of a row,
                          which softmax ignores (a sigmoid or a sink does not); before the query it equals "symmetric"
    right   slopes of "asymmetric" for later keys, one a head, or one factor on `slopes` (0: no bias on later keys)
    raises  ShapeError where the number of slopes is not the number of heads
    """

    name = "alibi"
    title = "ALiBi"
    summary = "Scores fall linearly with distance, with one slope per head."
    source = "Press 2022, section 3"
    formula = "sᵢⱼ − mₕ·|i − j|"
    longer = "1.3 B trained at 1024, tested at 2048: as good as sinusoids trained at 2048 [Press 2022]"
    cost = "one value per distance and head"

    def __init__(
        self, slopes: Sequence[float] | None = None, kind: Kind = "symmetric", right: float | Sequence[float] = 0.5
    ) -> None:
        super().__init__()
        if kind not in ("symmetric", "asymmetric", "key"):
            raise wrong_choice("Alibi.kind", kind, ["symmetric", "asymmetric", "key"])
        self.slopes = tuple(slopes) if slopes is not None else None
        self.kind, self.right = kind, tuple(right) if isinstance(right, Sequence) else right
        self.rates: tuple[float, ...] = ()
        if self.slopes:
            self._take(self.slopes)

    def _take(self, slopes: Sequence[float]) -> None:
        self.rates = tuple(slopes)
        self.later = self.right if isinstance(self.right, tuple) else tuple(self.right * m for m in slopes)

    @property
    def axes(self) -> int | None:  # type: ignore[override]
        return None if self.kind == "symmetric" else 1

    @property
    def relative(self) -> bool:  # type: ignore[override]
        return self.kind != "key"

    @property
    def preserves(self) -> frozenset[type[Action]]:
        alike = self.kind == "asymmetric" and (self.right == 1 or (self.rates != () and self.rates == self.later))
        return frozenset({Shift, Reverse}) if self.kind == "symmetric" or alike else frozenset({Shift})

    @property
    def because(self) -> str:  # type: ignore[override]
        return {
            "symmetric": "Alibi lowers scores by distance",
            "asymmetric": "Alibi lowers scores by distance, with different slopes before and after the query",
            "key": "Alibi raises scores towards the end of the text",
        }[self.kind]

    def allocate(self, width: int, heads: int, head_width: int) -> None:
        self._take(self.slopes or paper_slopes(heads))
        for what, slopes in {"slopes": self.rates, "slopes to the right": self.later}.items():
            if len(slopes) != heads:
                raise ShapeError(f"Alibi was given {len(slopes)} {what}, but the attention has {heads} heads. Give one a head.")

    def score_bias(self, head: Tensor, at_q: AxisPositions, at_k: AxisPositions) -> Tensor:
        if not self.rates:
            raise InputError("This Alibi() has no number of heads yet. Call .sized(width, heads, head_width).")
        slopes = _of(head, self.rates, at_q[0])
        if self.kind == "symmetric":
            distance = distances(at_q, at_k)
            return -(slopes * distance)
        if self.kind == "key":
            return slopes * at_k[0]
        steps = gap(at_q, at_k)
        back, ahead = steps.relu(), (-steps).relu()
        cost = slopes * back + _of(head, self.later, at_q[0]) * ahead
        return -cost


def _of(head: Tensor, slopes: Sequence[float], like: Tensor) -> Tensor:
    """The slope of each head."""
    wide = torch.promote_types(like.dtype, torch.float32)  # positions may be integers, slopes are not
    rates = torch.tensor(slopes, dtype=wide, device=like.device)
    return rates[head.long()]


def paper_slopes(heads: int) -> list[float]:
    """2^(-8h/H) for h = 1 .. H; for other than powers of two, those of the next lower power and every other of the next higher."""
    power = 2 ** math.floor(math.log2(heads))
    slopes = [2.0 ** (-8 * h / power) for h in range(1, power + 1)]
    return slopes if power == heads else slopes + paper_slopes(2 * power)[0::2][: heads - power]
