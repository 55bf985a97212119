"""Log-spaced continuous position bias (Swin v2): a small network maps the gap of two positions to a bias for each head.

Gaps are divided by the training window and compressed by a logarithm, so those of a larger window lie little beyond the
trained range: ten times the window's edge is read as twice the edge. The bias is 16 sigmoid(.), between 0 and 16.
Source: Liu et al. 2022, "Swin Transformer V2", section 3.3 and their code, which has the factor 8 / log2(8) and the sigmoid.
"""

import math
from functools import reduce
from typing import ClassVar

import torch
from torch import Tensor

from equiscope.errors import InputError
from equiscope.functional import concat
from equiscope.positions.base import AxisPositions, Position
from equiscope.positions.gaps import NETWORK, allocated, apply_network, gaps, network
from equiscope.symmetry import Shift


class LogCpb(Position):
    """Adds 16 sigmoid(relu(d W1 + b1) W2) to the scores, d the compressed gaps, query minus key. Positions are any numbers.

    shape   cells of the window in training along each axis, (h, w): a gap of h - 1 rows is read as log2(9) / 3. Hugging Face's
            `pretrained_window_size` where that is not 0, else its window
    hidden  width of the network
    raises  InputError where a size is not positive, and before `sized`
    """

    name = "log-cpb"
    title = "log-spaced bias network"
    summary = "A small network maps the gap of two positions, compressed by a logarithm, to a bias for each head."
    source = "Liu 2022 (Swin v2), section 3.3"
    formula = "sᵢⱼ + 16·σ(f(sign(Δ)·log₂(1 + 8|Δ|/(w−1))/3))"
    longer = "–"
    cost = "a small network for N² pairs, again for the gradient; one table of N²·H for all layers"
    because = "LogCpb has a separate value for each signed gap"
    relative = True
    legend: ClassVar[dict[str, tuple[str, str, str]]] = {
        **NETWORK, "mlp.0.weight": ("W₁", "axis hidden", "first layer of the network"),
    }  # fmt: skip
    preserves = frozenset({Shift})

    def __init__(self, shape: tuple[int, ...] = (7, 7), hidden: int = 512) -> None:
        super().__init__()
        if not shape or min(shape) < 1 or hidden < 1:
            raise InputError(f"shape and hidden are 1 or more, but got {tuple(shape)} and {hidden}.")
        self.shape, self.hidden = tuple(shape), hidden
        self.axes = len(self.shape)

    def allocate(self, width: int, heads: int, head_width: int) -> None:
        self.mlp = network(len(self.shape), self.hidden, heads, bias=False)

    def score_bias(self, head: Tensor, at_q: AxisPositions, at_k: AxisPositions) -> Tensor:
        allocated(self, "mlp")
        read = [compressed(gap, side).unsqueeze(-1) for gap, side in zip(gaps(at_q, at_k), self.shape, strict=True)]
        both = reduce(concat, read)
        own = apply_network(self.mlp, both, head)
        return own.sigmoid() * 16.0


def compressed(gap: Tensor, side: int) -> Tensor:
    """sign(g) log2(1 + |g|) / log2(8) of g = 8 gap / (side - 1): the numbers that Swin v2's network reads."""
    share = gap * (8 / max(side - 1, 1))
    ahead, behind = torch.log1p(share.relu()), torch.log1p((-share).relu())
    return (ahead - behind) * (1 / math.log(8))


def from_swin_v2(first: Tensor, first_bias: Tensor, second: Tensor, shape: tuple[int, ...]) -> LogCpb:
    """A scheme with a network from Hugging Face's `continuous_position_bias_mlp` or timm's and Microsoft's `cpb_mlp`.

    first, first_bias, second  their "0.weight" [hidden, A], "0.bias" [hidden] and "2.weight" [H, hidden], as they are
    shape                      the window of training
    """
    scheme = LogCpb(shape, len(first_bias))
    scheme.allocate(0, len(second), 0)
    theirs = {"0.weight": first, "0.bias": first_bias, "2.weight": second}
    scheme.mlp.load_state_dict({name: t.detach().clone() for name, t in theirs.items()}, assign=True)
    return scheme
