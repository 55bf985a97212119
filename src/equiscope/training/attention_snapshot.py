"""Attention snapshots: the attention of a fixed example during training, small enough for a run's record.

At most a dozen snapshots in a run, a short example, three decimals: the record stays a small file.
"""

from typing import Any, cast

import torch
from torch import Tensor

from equiscope.blocks import TransformerBlock
from equiscope.models import Built, Model
from equiscope.program.hooks import hooked
from equiscope.record import Array, pack
from equiscope.tokens import Tokens
from equiscope.training.recipe import Recipe

LOOKS, DECIMALS = 12, 3
NUMBERS, LONGEST = 2**14, 24  # weights of one look; tokens of its example


def snapshot_due(recipe: Recipe, step: int) -> bool:
    """Whether to record attention after this step: at evaluations, including the first and the last, at most a dozen times."""
    steps, every = recipe.budget.steps, recipe.evaluation.every or max(1, recipe.budget.steps // 10)
    apart = -(-(steps // every) // (LOOKS - 2)) or 1
    return step == steps or (step % every == 0 and step // every % apart == 0)


def snapshot_length(model: Built) -> int:
    """Number of tokens of an example for which the weights of all layers and heads stay few."""
    if not isinstance(model, Model):
        return 2
    pairs = len(model.blocks) * model.spec.blocks[0].attention.heads
    return max(2, min(LONGEST, int((NUMBERS / pairs) ** 0.5)))


@torch.no_grad()
def attention_of(
    model: Built, inputs: Tokens | Tensor, source: Tokens | Tensor | None = None, rows: slice = slice(None),
    columns: slice = slice(None),
) -> Array | None:  # fmt: skip
    """Weights [L, H, N, M] of one example; None for a baseline, and if the layers differ in shape.

    inputs   of one example, with or without a batch axis
    source   input of the encoder: the weights are then those of cross-attention to the M tokens of the source
    rows     and columns to keep, e.g. slice(0, 1) and slice(1, None) for the attention of a class token to patches
    """
    if not isinstance(model, Model):
        return None
    weights: list[Tensor] = []
    parts = [
        cast(TransformerBlock, block).cross if source is not None else cast(TransformerBlock, block).attention
        for block in model.blocks
    ]

    def keep(_: int, module: Any, given: tuple[Any, ...], named: dict[str, Any]) -> None:
        context = given[3] if len(given) > 3 else named.get("context")
        weights.append(module.attend(*given[:3], context=context)[1].float().cpu())

    with hooked([(i, part) for i, part in enumerate(parts) if part is not None], before=keep):
        model(inputs, source=source)
    alike = [w.reshape(-1, *w.shape[-2:])[:, rows, columns] for w in weights]
    if not alike or len({w.shape for w in alike}) > 1:
        return None
    return pack(torch.stack(alike).double().round(decimals=DECIMALS).numpy())
