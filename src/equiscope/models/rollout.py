"""Weights of a model's layers, and attention rollout: through all layers, how much each row drew from each token.

A rollout takes the mean of the heads, adds the residual path as one half, and multiplies layer by layer. It ignores what
values and feed-forwards do, so it says where information can have come from, not what it did.
Source: Abnar & Zuidema 2020, "Quantifying Attention Flow in Transformers", section 3.
"""

from collections.abc import Iterable
from typing import Any, cast

import torch
from torch import Tensor

from equiscope import blocks
from equiscope.errors import InputError
from equiscope.models.build import Memory, Model
from equiscope.tokens import Tokens


@torch.no_grad()
def weights(
    model: Model, inputs: Tokens | Tensor, layers: Iterable[int] | None = None, source: Tokens | Tensor | Memory | None = None
) -> dict[int, Tensor]:  # fmt: skip
    """Attention weights [..., H, N, N] of some layers (of all, unless said); the others run on their fast path.

    raises  InputError for a layer that is not there
    """
    chosen = list(range(len(model.blocks))) if layers is None else list(layers)
    if wrong := [i for i in chosen if not hasattr(i, "__index__") or not 0 <= i < len(model.blocks)]:
        raise InputError(f"This model has the layers 0..{len(model.blocks) - 1}, but {wrong[0]} was asked for.")
    found: dict[int, Tensor] = {}
    handles = []
    for i in chosen:
        attention = cast(blocks.Block, model.blocks[i]).attention

        def keep(module: Any, given: tuple[Any, ...], named: dict[str, Any], i: int = i) -> None:
            found[i] = module.look(given[0], given[1], plan=named.get("plan"))[1]

        handles.append(attention.register_forward_pre_hook(keep, with_kwargs=True))
    try:
        model(inputs, source=source)
    finally:
        for handle in handles:
            handle.remove()
    return {i: found[i] for i in chosen}


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
