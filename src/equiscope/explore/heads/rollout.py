"""Attention rollout: the weights of all layers of a stack multiplied into one table, half of each row for the residual path.

Source: Abnar & Zuidema 2020, "Quantifying Attention Flow in Transformers", section 3; the maximum over heads instead of the
mean: Chefer, Gur & Wolf 2021 compare both.
"""

from base64 import b64encode
from collections.abc import Sequence

import torch

from equiscope.interventions.attribution.rollout import rollout
from equiscope.program.attended.attended import Attended
from equiscope.program.attended.survey import survey
from equiscope.record import AttentionLayer, AttentionTensors, HeadStatistics, pack

NAME = "attention rollout"
EXPLANATION = (
    "This is the product of the weights of {count} layers, each averaged with the residual path. It shows from which tokens a row "
    "can have taken information if the values of all heads were alike. It ignores values, feed-forwards and norms, so it does not "
    "explain what the model predicts."
)
SERVED_ONLY = " It needs the model: the served page computes it."


def rollout_stacks(layers: Sequence[AttentionLayer], attentions: Sequence[Attended], longest: int) -> list[list[int]]:
    """Stacks of two or more layers, by their indices, in which the tokens of one sequence attend only to that sequence.

    longest  sequence, in tokens
    """
    stacks = []
    for sequence in dict.fromkeys(layer.query_sequence for layer in layers):
        indices = [i for i, layer in enumerate(layers) if layer.query_sequence == sequence]
        alone = all(
            not layers[i].cross and layers[i].key_sequence == sequence and attentions[i].instances == 1 for i in indices
        )  # fmt: skip
        if alone and len(indices) > 1 and attentions[indices[0]].q.shape[-2] <= longest:
            stacks.append(indices)
    return stacks


def rollout_attention(attentions: Sequence[Attended]) -> Attended:
    """All layers as one attention of two heads: from the mean over heads, and from the maximum over heads. In float64."""
    n, means, maxima = attentions[0].q.shape[-2], [], []
    for one in attentions:
        total, largest = torch.zeros(n, n, dtype=torch.float64), torch.zeros(n, n, dtype=torch.float64)
        for head in range(one.heads):
            weights = one.best_weights(head)
            total, largest = total + weights, torch.maximum(largest, weights)
        means.append(total / one.heads)
        maxima.append(largest / largest.sum(-1, keepdim=True).clamp(min=1e-300))
    weights = torch.stack([rollout(means), rollout(maxima)])
    empty, causal = torch.zeros(2, n, 1), all(one.causal for one in attentions)
    return Attended(
        NAME, empty, empty, None, 1.0, causal=causal, weights=weights, reconstruction_error=torch.inf
    )  # these weights have no queries and keys


def rollout_layer(sequence: int, count: int, attention: Attended | None) -> AttentionLayer:
    """The record of a stack of `count` layers. attention: its rollout; None: not computed yet, so no statistics."""
    reason = EXPLANATION.format(count=count)
    if attention is None:
        heads, thumbnail, side, reason = [HeadStatistics(role="mixed")] * 2, "AAA=", 1, reason + SERVED_ONLY
    else:
        summary = survey(attention, own=True)
        heads, thumbnail, side = summary.heads, b64encode(summary.thumbnails).decode("ascii"), summary.thumbnail_side
    return AttentionLayer(
        where=NAME, cross=False, query_sequence=sequence, key_sequence=sequence, kv_heads=2, heads=heads, thumbnail=thumbnail,
        thumbnail_side=side, reason=reason,
    )  # fmt: skip


def rollout_tensors(attention: Attended, heads: Sequence[int]) -> AttentionTensors:
    """The weights of some heads, in float32."""
    assert attention.weights is not None
    return AttentionTensors(scale=1.0, causal=attention.causal, weights=pack(attention.weights[list(heads)].float().numpy()))
