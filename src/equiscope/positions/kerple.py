"""KERPLE: scores fall with distance by a learned logarithm or power, whose kernel is conditionally positive definite.

-r1 log(1 + r2 d) or -r1 d^r2 with d = |i - j|; ALiBi is the power kind with r2 = 1 and r1 fixed.
Source: Chi et al. 2022, "KERPLE", the logarithmic and the power kernel. Their code clamps r1 and r2 after every step; here a
softplus (for the power's r2, twice a sigmoid) keeps them in their range.
"""

from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from equiscope.errors import wrong_choice
from equiscope.positions.base import AxisPositions, Position
from equiscope.positions.gaps import allocated, distances
from equiscope.symmetry import Reverse, Shift

Kind = Literal["log", "power"]


class Kerple(Position):
    """Subtracts a learned function of distance from the scores, one per head.

    kind    "log": -r1 log(1 + r2 d), r1, r2 > 0; "power": -r1 d^r2, r1 > 0, 0 < r2 < 2
    raises  InputError for another kind
    """

    name = "kerple"
    title = "KERPLE"
    summary = "Scores fall with distance by a learned logarithm or power, one per head."
    source = "Chi 2022, the logarithmic and the power kernel"
    formula = "sᵢⱼ − r₁·log(1 + r₂·|i − j|)"
    longer = "–"
    cost = "one value per distance and head"
    because = "Kerple lowers scores by distance"
    axes = None
    relative = True
    legend: ClassVar[dict[str, tuple[str, str, str]]] = {
        "strength": ("ρ₁", "head", "strength of each head, before it is made positive"),
        "shape": ("ρ₂", "head", "shape of each head, before it is made positive"),
    }
    preserves = frozenset({Shift, Reverse})

    def __init__(self, kind: Kind = "log") -> None:
        super().__init__()
        if kind not in ("log", "power"):
            raise wrong_choice("Kerple.kind", kind, ["log", "power"])
        self.kind = kind

    def allocate(self, width: int, heads: int, head_width: int) -> None:
        """As in their code: of r1 and r2, the factor starts between 0 and 1, its partner between 0 and 2."""
        low, wide = torch.rand(heads).clamp(0.01, 0.99), 2 * torch.rand(heads).clamp(0.01, 0.99)
        if self.kind == "log":
            self.strength, self.shape = nn.Parameter(wide.expm1().log()), nn.Parameter(low.expm1().log())
        else:
            self.strength, self.shape = nn.Parameter(low.expm1().log()), nn.Parameter((wide / 2).logit())

    def score_bias(self, head: Tensor, at_q: AxisPositions, at_k: AxisPositions) -> Tensor:
        allocated(self, "strength")
        steps = distances(at_q, at_k)
        strength = F.softplus(self.strength[head.long()])
        shape = self.shape[head.long()]
        logarithmic = self.kind == "log"
        grown = torch.log1p(F.softplus(shape) * steps) if logarithmic else power(steps, shape.sigmoid() * 2.0)
        return -(strength * grown)


def power(steps: Tensor, exponent: Tensor) -> Tensor:
    """d^r for d >= 0, r > 0: exactly 0 at d = 0, where exp(r log d) has a gradient that is no number.

    A distance of 0 is first made 1, whose logarithm is 0, and taken out at the end. log d is log1p(d - 1): full precision for
    whole steps, while real distances far below one lose digits (0.001 keeps four of float32's seven).
    """
    same = (steps == 0).to(steps.dtype)
    logarithm = torch.log1p(steps + same - 1)
    grown = (exponent * logarithm).exp()
    return grown * (1 - same)
