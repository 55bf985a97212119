"""Feed-forward: the same small network for every token, alone. Source: Vaswani et al. 2017, section 3.3."""

import math
from typing import ClassVar

import torch
from torch import Tensor, nn

from equiscope.trace import ops


class FeedForward(nn.Module):
    """[..., D] to [..., D] through `inner` hidden features; activation as in `ops.activation`."""

    legend: ClassVar[dict[str, tuple[str, str, str]]] = {
        "inward": ("W_1", "feature hidden", "weights into the hidden layer"),
        "inward_bias": ("b_1", "hidden", "bias of the hidden layer"),
        "outward": ("W_2", "hidden feature", "weights out of the hidden layer"),
        "outward_bias": ("b_2", "feature", "bias of the output"),
    }

    def __init__(self, width: int, inner: int, activation: ops.Activation = "gelu", bias: bool = True) -> None:
        super().__init__()
        self.activation: ops.Activation = activation
        self.inward = nn.Parameter(torch.randn(width, inner) / math.sqrt(width))
        self.outward = nn.Parameter(torch.randn(inner, width) / math.sqrt(inner))
        self.inward_bias = nn.Parameter(torch.zeros(inner)) if bias else None
        self.outward_bias = nn.Parameter(torch.zeros(width)) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        hidden = ops.affine(x, self.inward, self.inward_bias, name="F", label="hidden features of every word")
        hidden = ops.activation(hidden, self.activation, name="F⁺", label=f"after {self.activation}")
        return ops.affine(hidden, self.outward, self.outward_bias, name="ΔY", label="what the feed-forward adds")
