"""Feed-forward: the same small network for every token, alone. Source: Vaswani et al. 2017, section 3.3."""

from typing import ClassVar

from torch import Tensor, nn

from equiscope.init import linear
from equiscope.trace import ops


class FeedForward(nn.Module):
    """[..., D] to [..., D] through `inner` hidden features; activation as in `ops.activation`.

    gated  the activated features of one map times those of another (SwiGLU with silu). Source: Shazeer 2020
    """

    legend: ClassVar[dict[str, tuple[str, str, str]]] = {
        "up_proj.weight": ("W_1", "feature hidden", "weights into the hidden layer"),
        "gate_proj.weight": ("W_g", "feature hidden", "weights of the gate"),
        "gate_proj.bias": ("b_g", "hidden", "bias of the gate"),
        "up_proj.bias": ("b_1", "hidden", "bias of the hidden layer"),
        "down_proj.weight": ("W_2", "hidden feature", "weights out of the hidden layer"),
        "down_proj.bias": ("b_2", "feature", "bias of the output"),
    }

    def __init__(self, width: int, inner: int, activation: ops.Activation = "gelu", bias: bool = True, gated: bool = False) -> None:
        super().__init__()
        self.activation: ops.Activation = activation
        self.up_proj = linear(width, inner, bias)
        self.down_proj = linear(inner, width, bias)
        self.gate_proj = linear(width, inner, bias) if gated else None

    def forward(self, x: Tensor) -> Tensor:
        hidden = ops.linear(self.up_proj, x, name="F", label="hidden features of every word")
        if self.gate_proj is None:
            hidden = ops.activation(hidden, self.activation, name="F⁺", label=f"after {self.activation}")
        else:
            gate = ops.linear(self.gate_proj, x, name="G", label="the gate of every hidden feature")
            gate = ops.activation(gate, self.activation, name="G⁺", label=f"after {self.activation}")
            hidden = ops.multiply(gate, hidden, name="F⁺", label="hidden features, gated")
        return ops.linear(self.down_proj, hidden, name="ΔY", label="what the feed-forward adds")
