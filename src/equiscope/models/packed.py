"""Packed: products laid out for rows that come one at a time.

With one row, a product does two operations for every weight that it reads: memory decides. oneDNN reads weights that it has laid
out in blocks of its own faster than torch reads a matrix, in float32 and in bfloat16, and adds bias, activation and residual on
the way out. Without oneDNN, in other dtypes and on other devices the product is torch's.
"""

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor

from equiscope import functional
from equiscope.functional import Activation
from equiscope.kernels import private

ROWS = 64  # that oneDNN lays its blocks out for: its blocks for one row read a tenth slower
FUSED: dict[Activation | None, tuple[str, str]] = {
    None: ("none", ""), "relu": ("relu", ""), "gelu": ("gelu", "none"), "gelu-tanh": ("gelu", "tanh"), "silu": ("swish", ""),
    "tanh": ("tanh", ""),
}  # fmt: skip


class Packed:
    """x [R, in] to activation(x W + b) [R, out], W the given weights [in, out] side by side.

    bias  of each weight, or None
    """

    def __init__(self, weights: Sequence[Tensor], bias: Sequence[Tensor | None], activation: Activation | None = None) -> None:
        weight = torch.cat([w.detach() for w in weights], 1) if len(weights) > 1 else weights[0].detach()
        given = [w.new_zeros(w.shape[1]) if b is None else b.detach() for w, b in zip(weights, bias, strict=True)]
        self.bias = None if all(b is None for b in bias) else torch.cat(given)
        self.activation, self.outputs = activation, weight.shape[1]
        self.blocks, (self._after, self._form) = private.packs(weight), FUSED[activation]
        self.weight: Tensor = private.reorder_linear_weight(weight.t().contiguous(), ROWS) if self.blocks else weight

    def __call__(self, x: Tensor) -> Tensor:
        if self.blocks:
            return cast(Tensor, private.linear_pointwise.default(x, self.weight, self.bias, self._after, [], self._form))
        y = self._product(x)
        return y if self.activation is None else functional.activation(y, self.activation)

    def added(self, x: Tensor, to: Tensor) -> Tensor:
        """The product (without activation) added to other rows [R, out]."""
        if self.blocks:
            return cast(Tensor, private.linear_pointwise.binary(x, to, self.weight, self.bias, "add"))
        return self._product(x).add_(to)

    def _product(self, x: Tensor) -> Tensor:
        return x @ self.weight if self.bias is None else torch.addmm(self.bias, x, self.weight)
