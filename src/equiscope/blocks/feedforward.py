"""Feed-forward: the same small network for every token, alone. Source: Vaswani et al. 2017, section 3.3."""

import math
from typing import ClassVar

import torch
from torch import Tensor, nn

from equiscope.trace import ops


class FeedForward(nn.Module):
    """[..., D] to [..., D] through `inner` hidden features; activation as in `ops.activation`.

    gated  the activated features of one map times those of another (SwiGLU with silu). Source: Shazeer 2020
    """

    legend: ClassVar[dict[str, tuple[str, str, str]]] = {
        "inward": ("W_1", "feature hidden", "weights into the hidden layer"),
        "gate": ("W_g", "feature hidden", "weights of the gate"),
        "gate_bias": ("b_g", "hidden", "bias of the gate"),
        "inward_bias": ("b_1", "hidden", "bias of the hidden layer"),
        "outward": ("W_2", "hidden feature", "weights out of the hidden layer"),
        "outward_bias": ("b_2", "feature", "bias of the output"),
    }

    def __init__(self, width: int, inner: int, activation: ops.Activation = "gelu", bias: bool = True, gated: bool = False) -> None:
        super().__init__()
        self.activation: ops.Activation = activation
        self.inward = nn.Parameter(torch.randn(width, inner) / math.sqrt(width))
        self.outward = nn.Parameter(torch.randn(inner, width) / math.sqrt(inner))
        self.inward_bias = nn.Parameter(torch.zeros(inner)) if bias else None
        self.outward_bias = nn.Parameter(torch.zeros(width)) if bias else None
        self.gate = nn.Parameter(torch.randn(width, inner) / math.sqrt(width)) if gated else None
        self.gate_bias = nn.Parameter(torch.zeros(inner)) if gated and bias else None

    def forward(self, x: Tensor) -> Tensor:
        hidden = ops.affine(x, self.inward, self.inward_bias, name="F", label="hidden features of every word")
        if self.gate is None:
            hidden = ops.activation(hidden, self.activation, name="F⁺", label=f"after {self.activation}")
        else:
            gate = ops.affine(x, self.gate, self.gate_bias, name="G", label="the gate of every hidden feature")
            gate = ops.activation(gate, self.activation, name="G⁺", label=f"after {self.activation}")
            hidden = ops.multiply(gate, hidden, name="F⁺", label="hidden features, gated")
        return ops.affine(hidden, self.outward, self.outward_bias, name="ΔY", label="what the feed-forward adds")
