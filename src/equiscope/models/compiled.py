"""Compiled: a step of decoding as one compiled program, run again and again on shapes that stay."""

from types import FunctionType
from typing import Any

import torch
from torch import Tensor

from equiscope.errors import InputError
from equiscope.models.build import EncoderOutput, Model
from equiscope.tokens import Tokens


class Compiled:
    """A model whose steps are compiled: give it to `generate` or `stream` in the model's place.

    options  of torch.compile, e.g. mode="reduce-overhead" on a GPU; the first step of a new size compiles
    """

    def __init__(self, model: Model, **options: Any) -> None:
        if not isinstance(model, Model):
            raise InputError(f"Compiled is made of a model of build or load, but got {type(model).__name__}.")
        self.model = model

        def step(tokens: Tokens, caches: list[Any], encoder_output: EncoderOutput | None) -> Tensor:
            answer: Tensor = model(tokens, caches, encoder_output)
            return answer

        # code of its own: what torch.compile remembers, and its limit, go by the code, which all closures share
        own = FunctionType(step.__code__.replace(), step.__globals__, step.__name__, None, step.__closure__)
        self.step = torch.compile(own, **{"fullgraph": True} | options)
