"""Feed-forward: the same small network, applied to every token by itself. Source: Vaswani et al. 2017, section 3.3."""

from typing import ClassVar

from torch import Tensor, nn

from equiscope import functional
from equiscope.functional import Activation
from equiscope.init import linear


class FeedForwardNetwork(nn.Module):
    """[..., D] to [..., D] through `inner` hidden features; activation as in `functional.activation`.

    gated  multiply the activated features of one linear map by the features of another (SwiGLU with silu). Source: Shazeer 2020
    """

    legend: ClassVar[dict[str, tuple[str, str, str]]] = {
        "up_proj": ("U", "", "hidden features of every token"),
        "gate_proj": ("G", "", "the gate of every hidden feature"),
        "down_proj": ("FFN", "", "output of the feed-forward network"),
        "up_proj.weight": ("W_1", "feature hidden", "weights into the hidden layer"),
        "gate_proj.weight": ("W_g", "feature hidden", "weights of the gate"),
        "gate_proj.bias": ("b_g", "hidden", "bias of the gate"),
        "up_proj.bias": ("b_1", "hidden", "bias of the hidden layer"),
        "down_proj.weight": ("W_2", "hidden feature", "weights out of the hidden layer"),
        "down_proj.bias": ("b_2", "feature", "bias of the output"),
    }

    def __init__(self, width: int, inner: int, activation: Activation = "gelu", bias: bool = True, gated: bool = False) -> None:
        super().__init__()
        self.activation: Activation = activation
        self.up_proj = linear(width, inner, bias)
        self.down_proj = linear(inner, width, bias)
        self.gate_proj = linear(width, inner, bias) if gated else None

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.up_proj(x)
        if self.gate_proj is None:
            hidden = functional.activation(hidden, self.activation)
        else:
            gate = self.gate_proj(x)
            gate = functional.activation(gate, self.activation)
            hidden = gate * hidden
        change: Tensor = self.down_proj(hidden)
        return change
