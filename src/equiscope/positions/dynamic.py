"""Dynamic position bias: a small network maps each distance to a number for every head, so there is no table with an end.

Source: Wang et al. 2022, "CrossFormer", section 3.2 (whose network is deeper and has norms); with "log" spacing the continuous
position bias of Liu et al. 2022, "Swin Transformer V2", section 3.3, on one axis.
"""

from typing import ClassVar, Literal

import torch
from torch import Tensor

from equiscope.errors import InputError, wrong_choice
from equiscope.positions.base import AxisPositions, Position
from equiscope.positions.gaps import NETWORK, allocated, apply_network, gap, network
from equiscope.symmetry import Shift

Spacing = Literal["log", "linear"]


class DynamicBias(Position):
    """Adds f(i - j) to the scores, f a network of one hidden layer.

    spacing  "log": the network reads sign(d) log(1 + |d|), which compresses large distances; "linear": d itself
    hidden   width of the network
    raises   InputError for another spacing or an empty network
    """

    name = "dynamic-bias"
    title = "dynamic bias"
    summary = "A small network maps each distance to a number that is added to the scores."
    source = "Wang 2022, section 3.2; Liu 2022, section 3.3"
    formula = "sᵢⱼ + f(i − j)"
    longer = "no number in the papers for text; a user of x-transformers reports 128 in training, good at 1024"
    cost = "one value per distance and head"
    because = "DynamicBias has a separate value for each signed distance"
    relative = True
    legend: ClassVar[dict[str, tuple[str, str, str]]] = NETWORK
    preserves = frozenset({Shift})

    def __init__(self, spacing: Spacing = "log", hidden: int = 32) -> None:
        super().__init__()
        if spacing not in ("log", "linear"):
            raise wrong_choice("DynamicBias.spacing", spacing, ["log", "linear"])
        if hidden < 1:
            raise InputError(f"hidden is the width of the network and larger than 0, but got {hidden}.")
        self.spacing, self.hidden = spacing, hidden

    def allocate(self, width: int, heads: int, head_width: int) -> None:
        self.mlp = network(1, self.hidden, heads)

    def score_bias(self, head: Tensor, at_q: AxisPositions, at_k: AxisPositions) -> Tensor:
        allocated(self, "mlp")
        steps = gap(at_q, at_k)
        read = logarithmic(steps) if self.spacing == "log" else steps
        return apply_network(self.mlp, read.unsqueeze(-1), head)


def logarithmic(steps: Tensor) -> Tensor:
    """sign(d) log(1 + |d|): the logarithms of steps back and of steps ahead, of which one is 0."""
    back, ahead = torch.log1p(steps.relu()), torch.log1p((-steps).relu())
    return back - ahead
