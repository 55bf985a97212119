"""Packed linear maps: weights in a layout for products with one row at a time.

With one row, a product does two operations for every weight that it reads, so memory bandwidth decides. oneDNN reads weights in
its own blocked layout faster than torch reads a matrix, in float32 and in bfloat16, and adds bias, activation and residual in
the same call. Without oneDNN, in other dtypes and on other devices the product is torch's.
"""

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor

from equiscope import functional
from equiscope.functional import Activation
from equiscope.kernels import private

ROWS = 64  # the number of rows for which oneDNN chooses its blocks: those for one row are a tenth slower to read
FUSED: dict[Activation | None, tuple[str, str]] = {
    None: ("none", ""), "relu": ("relu", ""), "gelu": ("gelu", "none"), "gelu-tanh": ("gelu", "tanh"), "silu": ("swish", ""),
    "tanh": ("tanh", ""),
}  # fmt: skip


class PackedLinear:
    """x [R, in] to activation(x W + b) [R, out], W the given weights [in, out] side by side.

    bias  of each weight, or None
    """

    def __init__(self, weights: Sequence[Tensor], bias: Sequence[Tensor | None], activation: Activation | None = None) -> None:
        weight = torch.cat([w.detach() for w in weights], 1) if len(weights) > 1 else weights[0].detach()
        biases = [w.new_zeros(w.shape[1]) if b is None else b.detach() for w, b in zip(weights, bias, strict=True)]
        self.bias = None if all(b is None for b in bias) else torch.cat(biases)
        self.activation, self.outputs = activation, weight.shape[1]
        self.blocked, (self._post_op, self._algorithm) = private.packs(weight), FUSED[activation]
        self.weight: Tensor = private.reorder_linear_weight(weight.t().contiguous(), ROWS) if self.blocked else weight

    def __call__(self, x: Tensor) -> Tensor:
        if self.blocked:
            return cast(Tensor, private.linear_pointwise.default(x, self.weight, self.bias, self._post_op, [], self._algorithm))
        y = self._product(x)
        return y if self.activation is None else functional.activation(y, self.activation)

    def add_to(self, x: Tensor, residual: Tensor) -> Tensor:
        """The product (without activation) added to a residual [R, out]."""
        if self.blocked:
            return cast(Tensor, private.linear_pointwise.binary(x, residual, self.weight, self.bias, "add"))
        return self._product(x).add_(residual)

    def _product(self, x: Tensor) -> Tensor:
        return x @ self.weight if self.bias is None else torch.addmm(self.bias, x, self.weight)
