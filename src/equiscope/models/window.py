"""A rolling window: the same parameters in a model whose layers see only the last rows, so that writing never ends.

Dropping old rows from a cache changes every number after them, so the window is said as what it is: a mask, `Attention(window=)`.
What is written then is what the full pass of that other model gives, and memory stays at `size` rows a layer. Through L layers
news still come from L * (size - 1) tokens back.
Source: Beltagy et al. 2020, section 3.1; Jiang et al. 2023 (Mistral), section 2.
"""

import copy
from dataclasses import replace
from typing import Any, cast

from equiscope import blocks
from equiscope.attention import Cache, Window
from equiscope.errors import InputError
from equiscope.models.build import Model
from equiscope.models.decoding import whole


def windowed(model: Model, size: int) -> Model:
    """The very parameters of a model, in which every token sees itself and the `size - 1` before it. An encoder stays as it is.

    raises  InputError for a size below 1, for layers that look ahead, and for those that keep sums instead of rows
    """
    if not isinstance(model, Model):
        raise InputError(f"A window is for a model of build or load, but got {type(model).__name__}. Make it before: "
                         "prepared(windowed(model, size)).")  # fmt: skip
    wide = whole(size)
    if wide is None or wide < 1:
        raise InputError(f"A window holds at least 1 token, but got {size!r}.")
    size = wide
    if odd := next((cache for cache in model.caches() if not isinstance(cache, Cache)), None):
        raise InputError(
            f"A {type(odd).__name__} keeps no rows that a window could leave out. Train with another kind of attention."
        )
    shared: dict[int, Any] = {id(p): p for p in [*model.parameters(), *model.buffers()]}
    other = copy.deepcopy(model, shared)
    for block in cast(list[blocks.TransformerBlock], list(other.blocks)):
        block.attention.mask = block.attention.mask & Window(size)
    narrow = [replace(b, attention=replace(b.attention, window=min(size, b.attention.window or size))) for b in model.spec.turns]
    other.spec = replace(model.spec, block=tuple(narrow))
    return other
