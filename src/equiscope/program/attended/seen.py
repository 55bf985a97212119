"""Attentions: what goes in and comes out of every attention of a model, whoever wrote it.

Watched below torch's functions, where few operations are left: a fused attention, or a product of two batches of words and the
softmax after it. There transformers, timm, nn.MultiheadAttention, einsum and our own models look alike.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from equiscope.program.hooks import hooked
from equiscope.program.modes import Operations

aten = torch.ops.aten
PRODUCTS = {aten.bmm.default: (0, 1), aten.baddbmm.default: (1, 2)}  # where the two factors stand
SOFTMAX = (aten._softmax.default, aten._safe_softmax.default)


@dataclass
class Seen:
    """One step of an attention. Fused: q, k, v and the result. Written out: q [..., N, K] and k [..., M, K] of a product (whatever
    is multiplied: values by weights too), or scores and weights [..., N, M] of a softmax.

    module   in whose forward it was
    causal   of a fused one: later tokens are hidden; scale: what its products are multiplied by, 1/√K where nothing is said
    product  of a product: what came out
    """

    module: str
    q: Tensor | None = None
    k: Tensor | None = None
    v: Tensor | None = None
    mask: Tensor | None = None
    scores: Tensor | None = None
    weights: Tensor | None = None
    result: Tensor | None = None
    causal: bool = False
    scale: float | None = None
    product: Tensor | None = None


@contextmanager
def scoped(model: nn.Module) -> Iterator[list[str]]:
    """Inside, the list ends with the path of the module that runs."""
    scope: list[str] = []

    def leave(*_: Any) -> None:
        scope.pop()

    with hooked(model.named_modules(), before=lambda path, *_: scope.append(path), after=leave):
        yield scope


@contextmanager
def watching(model: nn.Module) -> Iterator[list[Seen]]:
    """Inside, every attention of the model is written down, in the order in which they run."""
    found: list[Seen] = []
    with scoped(model) as scope:

        def answer(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            made = func(*args, **kwargs)
            found.extend(_seen(func, args, kwargs, made, scope[-1] if scope else ""))
            return made

        with Operations(answer):
            yield found


def _seen(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], made: Any, module: str) -> Iterator[Seen]:
    if func in PRODUCTS:
        a, b = (args[i] for i in PRODUCTS[func])
        yield Seen(module, a, b.transpose(-1, -2), product=made)
    elif func in SOFTMAX:
        yield Seen(module, scores=args[0], weights=made)
    elif "scaled_dot_product" in str(func) and "backward" not in str(func):
        said = {a.name: v for a, v in zip(func._schema.arguments, args, strict=False)} | kwargs
        mask = said.get("attn_mask") if said.get("attn_mask") is not None else said.get("attn_bias")
        result = made[0] if isinstance(made, (tuple, list)) else made
        causal, scale = bool(said.get("is_causal")), said.get("scale")
        yield Seen(module, args[0], args[1], args[2], mask, result=result, causal=causal, scale=scale)
