"""Weigh: scores become weights. Softmax shares 1 among the keys; a sigmoid lets every key count for itself."""

import math
from typing import ClassVar

import torch
from torch import Tensor, nn

from equiscope.trace import constant, ops


class Weigh(nn.Module):
    """Base. `sized` makes parameters for so many heads; fused: a fused kernel computes it."""

    name: ClassVar[str]
    fused: bool = False

    def sized(self, heads: int) -> "Weigh":
        return self

    def forward(self, scores: Tensor, visible: Tensor | None) -> Tensor:
        """scores [..., N, M], visible bool (True = may look) to weights [..., N, M], 0 where hidden."""
        raise AssertionError(f"{type(self).__name__} does not say how it weighs")


class Softmax(Weigh):
    """Weights of a row sum to 1; a row that may look nowhere gives 0.

    sink  a learned score for each head that takes part in the sum and has no value, so that a row can look nowhere (gpt-oss);
          a sink of 0 is the "softmax off by one"
    """

    name = "softmax"
    legend: ClassVar[dict[str, tuple[str, str, str]]] = {"sinks": ("s", "head . .", "score of looking nowhere")}
    sinks: nn.Parameter

    def __init__(self, sink: bool = False) -> None:
        super().__init__()
        self.sink = sink
        self.fused = not sink

    def sized(self, heads: int) -> "Softmax":
        made = Softmax(self.sink)
        if self.sink:
            made.sinks = nn.Parameter(torch.zeros(heads, 1, 1))
        return made

    def forward(self, scores: Tensor, visible: Tensor | None) -> Tensor:
        if visible is not None:
            scores = ops.mask(scores, visible, name="S∘M", label="scores, hidden ones out")
        if not self.sink:
            return ops.softmax(scores, name="A", label="attention weights")
        keys = scores.shape[-1]
        nowhere = constant(torch.zeros_like(scores[..., :1]), "0", "room for the sink", "head token .")
        sinks = self.sinks if scores.ndim > 2 else ops.squeeze(self.sinks)
        column = ops.add(nowhere, ops.cast(sinks, scores.dtype), name="s", label="score of looking nowhere")
        shared = ops.softmax(ops.concat(scores, column), name="A+", label="weights with the sink")
        return ops.columns(shared, 0, keys, name="A", label="attention weights")


class Sigmoid(Weigh):
    """Each weight is sigmoid(score + bias); bias is -log(how many keys may be seen) unless given.

    Source: Ramapuram et al. 2024.
    """

    name = "sigmoid"

    def __init__(self, bias: float | None = None) -> None:
        super().__init__()
        self.bias = bias

    def forward(self, scores: Tensor, visible: Tensor | None) -> Tensor:
        shifted = ops.add(scores, self._shift(scores, visible), name="S+b", label="scores, so that weights sum to about 1")
        if visible is not None:
            shifted = ops.mask(shifted, visible, name="S∘M", label="scores, hidden ones out")
        return ops.function(shifted, "sigmoid", name="A", label="attention weights")

    def _shift(self, scores: Tensor, visible: Tensor | None) -> Tensor:
        if self.bias is not None or visible is None:
            by = -math.log(max(scores.shape[-1], 1)) if self.bias is None else self.bias
            return constant(torch.full((1, 1), by, dtype=scores.dtype, device=scores.device), "b", "bias of every score", ". .")
        one = constant(torch.ones(visible.shape[-1], 1, dtype=scores.dtype, device=scores.device), "1", "one a key", "token .")
        count = ops.matmul(ops.cast(visible, scores.dtype), one, name="n", label="how many may be seen")
        others = ops.clamp(ops.subtract(count, constant(one.new_ones(1, 1), "1", "the word itself", ". .")), 0.0, 2.0**40)
        return ops.scale(ops.function(others, "log1p"), -1.0, name="b", label="minus log of how many may be seen")


WEIGHTS: tuple[type[Weigh], ...] = (Softmax, Sigmoid)
