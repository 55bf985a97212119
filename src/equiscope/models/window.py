"""Sliding-window attention with the parameters of a model that has none, for generation of any length.

Dropping old keys and values from a cache changes every result after them, so the window is a mask, `Attention(window=)`: generation
gives what the full forward pass of that model gives, and a layer caches `size` tokens. Through L layers, information still comes
from L * (size - 1) tokens back.
Source: Beltagy et al. 2020, section 3.1; Jiang et al. 2023 (Mistral), section 2.
"""

import copy
from dataclasses import replace
from typing import Any, cast

from equiscope import blocks
from equiscope.attention import Cache, Window
from equiscope.errors import InputError
from equiscope.models.build import Model
from equiscope.models.decoding import as_int


def windowed(model: Model, size: int) -> Model:
    """A model that shares the parameters of `model`, in which a token attends to itself and the `size - 1` tokens before it.

    An encoder is unchanged.

    raises  InputError for a size below 1, for layers that are not causal, and for layers that cache sums instead of keys and values
    """
    if not isinstance(model, Model):
        raise InputError(f"A window is for a model of build or load, but got {type(model).__name__}. Use it first: "
                         "CPUDecoder(windowed(model, size)).")  # fmt: skip
    width = as_int(size)
    if width is None or width < 1:
        raise InputError(f"A window holds at least 1 token, but got {size!r}.")
    size = width
    if other := next((cache for cache in model.caches() if not isinstance(cache, Cache)), None):
        raise InputError(
            f"A {type(other).__name__} holds no keys and values that a window could drop. Train with another kind of attention."
        )
    shared: dict[int, Any] = {id(p): p for p in [*model.parameters(), *model.buffers()]}
    copied = copy.deepcopy(model, shared)
    for block in cast(list[blocks.TransformerBlock], list(copied.blocks)):
        block.attention.mask = block.attention.mask & Window(size)
    narrow = [replace(b, attention=replace(b.attention, window=min(size, b.attention.window or size))) for b in model.spec.cycle]
    copied.spec = replace(model.spec, block=tuple(narrow))
    return copied
