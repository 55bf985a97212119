"""Mixed precision: a model that computes in bfloat16 and learns in float32.

The optimiser updates float32 weights; the forward and backward pass run on a bfloat16 copy, which is updated after each step.
Unlike autocast, which casts the operands of every product and keeps the residual stream in float32, all activations are bfloat16.
Sums inside norms, softmax and products stay in float32, as the kernels do them; compute the loss in float32 too.
Source: Micikevicius et al. 2018, "Mixed Precision Training", section 3.1; as FSDP's MixedPrecision(param_dtype=bfloat16).
"""

import copy
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from equiscope.tokens import Tokens


class Mixed(nn.Module):
    """Call it like the model; call `accumulate_gradients` before the optimiser's step and `update_copy` after it.

    model  in float32: pass its parameters to the optimiser
    inner  the copy in `dtype` that computes; it may be replaced by a compiled one
    """

    def __init__(self, model: nn.Module, dtype: torch.dtype = torch.bfloat16) -> None:
        super().__init__()
        self.model, self.dtype = model, dtype
        self.inner: nn.Module = copy.deepcopy(model).to(dtype)
        self._pairs = list(zip(model.parameters(), self.inner.parameters(), strict=True))

    def forward(self, *args: Any, **kwargs: Any) -> Tensor:
        """Floating-point inputs, such as images, are cast to `dtype`; positions are not."""
        answer: Tensor = self.inner(*map(self._read, args), **{name: self._read(argument) for name, argument in kwargs.items()})
        return answer

    def _read(self, argument: Any) -> Any:
        if isinstance(argument, Tokens):
            return replace(argument, x=self._read(argument.x))
        return argument.to(self.dtype) if isinstance(argument, Tensor) and argument.is_floating_point() else argument

    @torch.no_grad()
    def accumulate_gradients(self) -> None:
        """Add the gradients of the copy to those of the float32 weights, and clear those of the copy."""
        for weight, computed in self._pairs:
            if computed.grad is None:
                continue
            grad = computed.grad.to(weight.dtype)
            weight.grad = grad if weight.grad is None else weight.grad.add_(grad)
            computed.grad = None

    @torch.no_grad()
    def update_copy(self) -> None:
        """Copy the present weights into the copy."""
        torch._foreach_copy_([computed for _, computed in self._pairs], [weight for weight, _ in self._pairs])
