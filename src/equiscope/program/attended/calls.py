"""Attention calls: inputs and outputs of every attention of any model.

Recorded below torch's functions, where few operations remain: a fused attention, or a batched matrix product and the softmax after
it. At that level transformers, timm, nn.MultiheadAttention, einsum and the models of this package look alike.
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
class AttentionCall:
    """One call of an attention. Fused: q, k, v and output. Written out: q [..., N, K] and k [..., M, K] of a matrix product (of any
    product: weights times values too), or scores and weights [..., N, M] of a softmax.

    module   path of the module whose forward made the call
    causal   of a fused call: later tokens are masked; scale: of its scores, None for 1/√K
    product  the result of a matrix product
    """

    module: str
    q: Tensor | None = None
    k: Tensor | None = None
    v: Tensor | None = None
    mask: Tensor | None = None
    scores: Tensor | None = None
    weights: Tensor | None = None
    output: Tensor | None = None
    causal: bool = False
    scale: float | None = None
    product: Tensor | None = None


@contextmanager
def scoped(model: nn.Module) -> Iterator[list[str]]:
    """Inside, the last entry of the list is the path of the module that runs."""
    scope: list[str] = []

    def leave(*_: Any) -> None:
        scope.pop()

    with hooked(model.named_modules(), before=lambda path, *_: scope.append(path), after=leave):
        yield scope


@contextmanager
def recorded_calls(model: nn.Module) -> Iterator[list[AttentionCall]]:
    """Inside, every attention call of the model is recorded, in the order in which they run."""
    calls: list[AttentionCall] = []
    with scoped(model) as scope:

        def handler(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            result = func(*args, **kwargs)
            calls.extend(_calls(func, args, kwargs, result, scope[-1] if scope else ""))
            return result

        with Operations(handler):
            yield calls


def _calls(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any, module: str) -> Iterator[AttentionCall]:
    if func in PRODUCTS:
        a, b = (args[i] for i in PRODUCTS[func])
        yield AttentionCall(module, a, b.transpose(-1, -2), product=result)
    elif func in SOFTMAX:
        yield AttentionCall(module, scores=args[0], weights=result)
    elif "scaled_dot_product" in str(func) and "backward" not in str(func):
        named = {a.name: v for a, v in zip(func._schema.arguments, args, strict=False)} | kwargs
        mask = named.get("attn_mask") if named.get("attn_mask") is not None else named.get("attn_bias")
        output = result[0] if isinstance(result, (tuple, list)) else result
        causal, scale = bool(named.get("is_causal")), named.get("scale")
        yield AttentionCall(module, args[0], args[1], args[2], mask, output=output, causal=causal, scale=scale)
