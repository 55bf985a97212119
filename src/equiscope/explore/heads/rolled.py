"""Rolled out: the weights of all layers of a stack as one, layer by layer, with half of each row going past the attention.

Source: Abnar & Zuidema 2020, "Quantifying Attention Flow in Transformers", section 3; the largest of the heads instead of their
mean: Chefer, Gur & Wolf 2021 compare both.
"""

from base64 import b64encode
from collections.abc import Sequence

import torch

from equiscope.models.rollout import rollout
from equiscope.program.attended.attended import Attended
from equiscope.program.attended.survey import survey
from equiscope.record import Head, Layer, Numbers, pack

WHOLE = 256  # tokens up to which it is made at once, and kept in a file
LONGEST = 2048  # tokens up to which it is made at all
NAME = "all layers, rolled out"
WHY = (
    "It is the product of the weights of {count} layers, each mixed half and half with the path past the attention. It says from "
    "which tokens a row can have drawn, if every head's values were alike. What values, feed-forwards and norms do is left out: "
    "it is no explanation of what the model answers."
)
FAR = " It is made by the command: a page that is served shows it."


def stacks(layers: Sequence[Layer], found: Sequence[Attended]) -> list[list[int]]:
    """Layers, by their numbers, in which the tokens of a line look at themselves and at nothing else, all at once; two or more."""
    made = []
    for line in dict.fromkeys(layer.asks for layer in layers):
        numbers = [i for i, layer in enumerate(layers) if layer.asks == line]
        whole = all(not layers[i].cross and layers[i].answers == line and found[i].apart == 1 for i in numbers)
        if whole and len(numbers) > 1 and found[numbers[0]].q.shape[-2] <= LONGEST:
            made.append(numbers)
    return made


def rolled(found: Sequence[Attended]) -> Attended:
    """All layers as one attention of two heads: from the mean of their heads' weights, and from the largest of them. In float64."""
    n, means, most = found[0].q.shape[-2], [], []
    for one in found:
        sums, largest = torch.zeros(n, n, dtype=torch.float64), torch.zeros(n, n, dtype=torch.float64)
        for number in range(one.heads):
            weights = one.shown(number)
            sums, largest = sums + weights, torch.maximum(largest, weights)
        means.append(sums / one.heads)
        most.append(largest / largest.sum(-1, keepdim=True).clamp(min=1e-300))
    flows = torch.stack([rollout(means), rollout(most)])
    nothing, causal = torch.zeros(2, n, 1), all(one.causal for one in found)
    return Attended(
        NAME, nothing, nothing, None, 1.0, causal=causal, weights=flows, rebuilt=torch.inf
    )  # no queries and keys give them


def layer(line: int, count: int, made: Attended | None) -> Layer:
    """The record of a stack of so many layers on a line; without figures and picture where it is not made yet."""
    said = WHY.format(count=count)
    if made is None:
        heads, small, side, said = [Head(role="mixed")] * 2, "AAA=", 1, said + FAR
    else:
        seen = survey(made, own=True)
        heads, small, side = seen.heads, b64encode(seen.small).decode("ascii"), seen.side
    return Layer(where=NAME, cross=False, asks=line, answers=line, groups=2, heads=heads, small=small, side=side, why=said)


def numbers(made: Attended, heads: Sequence[int]) -> Numbers:
    """The weights of one or both, in float32."""
    assert made.weights is not None
    return Numbers(scale=1.0, causal=made.causal, weights=pack(made.weights[list(heads)].float().numpy()))
