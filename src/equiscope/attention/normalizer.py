"""Normalizers: map scores to attention weights. Softmax normalises over the keys; a sigmoid weights each key independently."""

import math
from typing import ClassVar

import torch
from torch import Tensor, nn

from equiscope import functional


class Normalizer(nn.Module):
    """Base class. `sized` creates parameters for a number of heads; fused: whether a fused kernel computes it."""

    name: ClassVar[str]
    fused: bool = False

    def sized(self, heads: int) -> "Normalizer":
        return self

    def forward(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        """scores [..., N, M], mask bool (True = may attend) to weights [..., N, M], 0 where masked."""
        raise AssertionError(f"{type(self).__name__} does not define `forward`")


class Softmax(Normalizer):
    """Weights of a row sum to 1; a fully masked row gets weights 0.

    sink  a learned score for each head that is part of the softmax but has no value, so that a row can attend to nothing
          (gpt-oss); a sink of 0 is the "softmax off by one"
    """

    name = "softmax"
    legend: ClassVar[dict[str, tuple[str, str, str]]] = {"sinks": ("s", "head . .", "score of the attention sink")}
    sinks: nn.Parameter

    def __init__(self, sink: bool = False) -> None:
        super().__init__()
        self.sink = sink
        self.fused = not sink

    def sized(self, heads: int) -> "Softmax":
        fresh = Softmax(self.sink)
        if self.sink:
            fresh.sinks = nn.Parameter(torch.zeros(heads, 1, 1))
        return fresh

    def forward(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        if mask is not None:
            scores = scores.masked_fill(~mask, -math.inf)
        if not self.sink:
            return functional.softmax(scores)
        keys = scores.shape[-1]
        sinks = self.sinks if scores.ndim > 2 else self.sinks.squeeze(-1)
        sink_scores = torch.zeros_like(scores[..., :1]) + sinks.to(scores.dtype)
        weights = functional.softmax(functional.concat(scores, sink_scores))
        return weights[..., :keys]


class Sigmoid(Normalizer):
    """Each weight is sigmoid(score + bias); bias is -log(number of unmasked keys) by default.

    Source: Ramapuram et al. 2024.
    """

    name = "sigmoid"

    def __init__(self, bias: float | None = None) -> None:
        super().__init__()
        self.bias = bias

    def forward(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        shift = self._shift(scores, mask)
        scores = scores + shift
        if mask is not None:
            scores = scores.masked_fill(~mask, -math.inf)
        return scores.sigmoid()

    def _shift(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        """The bias on the scores, so that weights sum to about 1."""
        if self.bias is not None or mask is None:
            by = -math.log(max(scores.shape[-1], 1)) if self.bias is None else self.bias
            return torch.full((1, 1), by, dtype=scores.dtype, device=scores.device)
        ones = torch.ones(mask.shape[-1], 1, dtype=scores.dtype, device=scores.device)
        count = mask.to(scores.dtype) @ ones
        others = (count - 1).clamp(0.0, 2.0**40)
        return torch.log1p(others) * -1.0


NORMALIZERS: tuple[type[Normalizer], ...] = (Softmax, Sigmoid)
