"""Norms: they normalise each token by itself, so they commute with every action on tokens.

Sources: LayerNorm, Ba et al. 2016; RMSNorm, Zhang & Sennrich 2019.
"""

from typing import Literal

from torch import nn

NormLayer = nn.LayerNorm | nn.RMSNorm


def norm(width: int, kind: Literal["layer", "rms"] = "layer", eps: float = 1e-5, bias: bool = True) -> NormLayer:
    """[..., D] to [..., D]. "layer" subtracts the mean and adds a bias; "rms" only divides by the root mean square."""
    return nn.LayerNorm(width, eps, bias=bias) if kind == "layer" else nn.RMSNorm(width, eps)
