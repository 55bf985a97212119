"""Norms: every token is brought to one size, by itself, so no action on tokens is noticed.

Sources: LayerNorm, Ba et al. 2016; RMSNorm, Zhang & Sennrich 2019.
"""

from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from equiscope.trace import ops, recording


class Norm(nn.Module):
    """[..., D] to [..., D]. kind "layer" subtracts the mean and adds a shift; "rms" only divides by the root mean square.

    bias: that shift
    """

    legend: ClassVar[dict[str, tuple[str, str, str]]] = {
        "gain": ("g", "feature", "gain of the norm"),
        "shift": ("s", "feature", "shift of the norm"),
    }

    def __init__(self, width: int, kind: Literal["layer", "rms"] = "layer", eps: float = 1e-5, bias: bool = True) -> None:
        super().__init__()
        self.kind, self.eps = kind, eps
        self.gain = nn.Parameter(torch.ones(width))
        self.shift = nn.Parameter(torch.zeros(width)) if kind == "layer" and bias else None

    def forward(self, x: Tensor) -> Tensor:
        if not recording():
            return self._fused(x)
        y = ops.norm(x, center=self.kind == "layer", eps=self.eps, name="N", label="every word brought to one size")
        y = ops.multiply(y, self.gain, name="N·g", label="times the gain")
        return y if self.shift is None else ops.add(y, self.shift, name="N·g+s", label="plus the shift")

    def _fused(self, x: Tensor) -> Tensor:
        if self.kind == "layer":
            return F.layer_norm(x, x.shape[-1:], self.gain, self.shift, self.eps)
        return F.rms_norm(x, x.shape[-1:], self.gain, self.eps)
