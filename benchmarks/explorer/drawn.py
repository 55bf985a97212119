"""Attention with random queries, keys and values, whose scores have a standard deviation of 1, like those of a usual head.

Ours takes the model; the peers take its weights, computed here in float64.
"""

import numpy
import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

LAYERS, HEADS, WIDTH = 12, 12, 64


def vectors(tokens, layer):
    """Queries, keys, values of a layer, [3, heads, tokens, width]."""
    shape = (3, HEADS, tokens, WIDTH)
    return numpy.random.default_rng(layer).standard_normal(shape, dtype="float32")


def weights(tokens, layers):
    """Causal attention [layers, heads, tokens, tokens], float32: rows sum to one, nothing above the diagonal."""
    made = numpy.zeros((layers, HEADS, tokens, tokens), dtype="float32")
    for layer in range(layers):
        q, k, _ = vectors(tokens, layer).astype("float64")
        scores = q @ k.transpose(0, 2, 1) / WIDTH**0.5
        scores[:, ~numpy.tri(tokens, dtype=bool)] = -numpy.inf
        powers = numpy.exp(scores - scores.max(-1, keepdims=True))
        made[layer] = powers / powers.sum(-1, keepdims=True)
    return made


class Drawn(nn.Module):
    """Attention layers only; the output does not depend on the input."""

    def __init__(self, tokens):
        super().__init__()
        self.layers = [torch.from_numpy(vectors(tokens, layer))[:, None] for layer in range(LAYERS)]

    def forward(self, _):
        for q, k, v in self.layers:
            out = scaled_dot_product_attention(q, k, v, is_causal=True)
        return out


def model(tokens):
    """The factory for `equiscope explore --model FILE.py:make`: a model and its inputs."""
    return Drawn(tokens), torch.zeros(1)
