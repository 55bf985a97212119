"""Attention rollout: how much each row draws from each token, through all layers.

A rollout takes the mean of the heads, adds the residual path as one half, and multiplies layer by layer. It ignores what
values and feed-forwards do, so it says where information can have come from, not what it did.
Source: Abnar & Zuidema 2020, "Quantifying Attention Flow in Transformers", section 3.
"""

from collections.abc import Iterable

import torch
from torch import Tensor

from equiscope.errors import InputError


def rollout(layers: Iterable[Tensor], residual: float = 0.5) -> Tensor:
    """Weights [..., H, N, N] of each layer, the first one first, to [..., N, N]; each row sums to 1 where theirs do.

    residual  share of the path past the attention
    raises    InputError where there is no layer, or the share is outside 0..1
    """
    if not 0 <= residual < 1:
        raise InputError(f"The residual path has a share of 0 to 1, below 1, but got {residual}.")
    flow: Tensor | None = None
    for layer in layers:
        rows = layer.shape[-1] if flow is None else flow.shape[-1]
        if layer.ndim < 2 or layer.shape[-2:] != (rows, rows) or not layer.is_floating_point():
            raise InputError(f"Weights are [..., H, N, N], with one N for all layers, but got {tuple(layer.shape)} {layer.dtype}.")
        mean = layer.mean(-3) if layer.ndim > 2 else layer
        one = residual * torch.eye(mean.shape[-1], dtype=mean.dtype, device=mean.device) + (1 - residual) * mean
        flow = one if flow is None else one @ flow
    if flow is None:
        raise InputError("A rollout needs the weights of one layer or more.")
    return flow
