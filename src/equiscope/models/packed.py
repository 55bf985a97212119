"""Packed: products laid out for rows that come one at a time.

With one row, a product does two operations for every weight that it reads: memory decides, and most libraries read with one
thread, or badly. What reads fastest depends on the shape (measured in `benchmarks/decode.py`):
  packed   oneDNN's blocks of weights; bias, activation and residual on the way out. Best in bfloat16, and where many numbers
           become few
  rows     the sum over the input cut into one part a thread, each a product of its own. Best where few numbers become many
  columns  the output cut into parts. Best for a vocabulary
  plain    torch's own product: small weights, other devices, float64
What is packed or cut by columns is a copy; the others are views where one weight stands alone.
"""

from collections.abc import Sequence
from typing import Any, Literal, cast

import torch
import torch.nn.functional as F
from torch import Tensor

from equiscope.trace import ops
from equiscope.trace.ops import Activation

SMALL, VOCABULARY = 2**15, 2**13  # weights for which any way will do; outputs from which on columns are cut
ROWS = 64  # that oneDNN lays its blocks out for: its blocks for one row read a tenth slower
FUSED: dict[Activation | None, tuple[str, str]] = {
    None: ("none", ""), "relu": ("relu", ""), "gelu": ("gelu", "none"), "gelu-tanh": ("gelu", "tanh"), "silu": ("swish", ""),
    "tanh": ("tanh", ""),
}  # fmt: skip
Way = Literal["packed", "rows", "columns", "plain"]
# its overloads are named where they are called, or torch looks through them each time; not every torch has it
LINEAR: Any = torch.ops.mkldnn._linear_pointwise if torch.backends.mkldnn.is_available() else None


class Packed:
    """x [R, in] to activation(x W + b) [R, out], W the given weights [in, out] side by side.

    bias  of each weight, or None
    """

    def __init__(self, weights: Sequence[Tensor], bias: Sequence[Tensor | None], activation: Activation | None = None) -> None:
        weight = torch.cat([w.detach() for w in weights], 1) if len(weights) > 1 else weights[0].detach()
        given = [w.new_zeros(w.shape[1]) if b is None else b.detach() for w, b in zip(weights, bias, strict=True)]
        self.bias = None if all(b is None for b in bias) else torch.cat(given)
        self.activation, self.outputs = activation, weight.shape[1]
        self.way, self.parts = _way(weight), _parts(weight.shape[0])
        self.weight, (self._after, self._form) = weight, FUSED[activation]
        if self.way == "packed":
            self.weight = torch.ops.mkldnn._reorder_linear_weight(weight.t().contiguous(), ROWS)
        if self.way == "rows":
            self.weight = weight.contiguous()
        if self.way == "columns":
            parts = 2 * self.parts
            full = F.pad(weight, (0, -self.outputs % parts))
            self.weight = full.view(len(weight), parts, -1).transpose(0, 1).contiguous()

    def __call__(self, x: Tensor) -> Tensor:
        if self.way == "packed":
            return cast(Tensor, LINEAR.default(x, self.weight, self.bias, self._after, [], self._form))
        y = self._product(x)
        return y if self.activation is None else ops.activation(y, self.activation)

    def added(self, x: Tensor, to: Tensor) -> Tensor:
        """The product (without activation) added to other rows [R, out]."""
        if self.way == "packed":
            return cast(Tensor, LINEAR.binary(x, to, self.weight, self.bias, "add"))
        return self._product(x).add_(to)

    def _product(self, x: Tensor) -> Tensor:
        if self.way == "rows" and len(x) == 1 and self.parts > 1:
            parts = torch.bmm(x.view(self.parts, 1, -1), self.weight.view(self.parts, -1, self.outputs))
            y = parts.sum(0)
        elif self.way == "columns":
            y = torch.bmm(x.expand(len(self.weight), *x.shape), self.weight)
            y = y.transpose(0, 1).reshape(len(x), -1)[:, : self.outputs]
        elif self.bias is not None:
            return torch.addmm(self.bias, x, self.weight)
        else:
            return x @ self.weight
        return y if self.bias is None else y + self.bias


def _way(weight: Tensor) -> Way:
    inputs, outputs = weight.shape
    if weight.device.type != "cpu" or weight.numel() < SMALL:
        return "plain"
    there = torch.backends.mkldnn.is_available()
    if weight.dtype == torch.bfloat16:
        return "packed" if there and cast(bool, torch.ops.mkldnn._is_mkldnn_bf16_supported()) else "plain"
    if weight.dtype != torch.float32:
        return "plain"
    if outputs >= VOCABULARY:
        return "columns"
    return "packed" if inputs > outputs and there else "rows"


def _parts(inputs: int) -> int:
    """As many parts as there are threads, if the inputs divide so."""
    threads = torch.get_num_threads()
    return next(n for n in range(min(threads, inputs), 0, -1) if inputs % n == 0)
