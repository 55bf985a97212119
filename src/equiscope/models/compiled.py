"""Compiled: a step of decoding as one compiled program, run again and again on shapes that stay."""

from typing import Any

import torch

from equiscope.models.build import Model


class Compiled:
    """A model whose steps are compiled: give it to `generate` or `stream` in the model's place.

    options  of torch.compile, e.g. mode="reduce-overhead" on a GPU; the first step of a new size compiles
    """

    def __init__(self, model: Model, **options: Any) -> None:
        self.model = model
        self.step = torch.compile(lambda tokens, caches, memory: model(tokens, caches, memory), **{"fullgraph": True} | options)
