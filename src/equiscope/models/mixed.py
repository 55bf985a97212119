"""Mixed precision: a model that computes in bfloat16 and learns in float32.

The optimiser keeps the float32 weights; the forward and backward pass run on a copy in bfloat16, which is made again after each
step. Unlike autocast, which casts every product's operands and keeps the stream between layers in float32, all that moves is
half as wide. Sums inside norms, softmax and products stay in float32, as the kernels have them; take the loss in float32 too.
Source: Micikevicius et al. 2018, "Mixed Precision Training", section 3.1; as FSDP's MixedPrecision(param_dtype=bfloat16).
"""

import copy
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from equiscope.tokens import Tokens


class Mixed(nn.Module):
    """Call it as the model; then `collect` before the optimiser's step and `spread` after it.

    model  in float32: give its parameters to the optimiser. Tokens and ids may be given to either
    inner  what computes, in `dtype`; replace it by a compiled one if you like
    """

    def __init__(self, model: nn.Module, dtype: torch.dtype = torch.bfloat16) -> None:
        super().__init__()
        self.model, self.dtype = model, dtype
        self.inner: nn.Module = copy.deepcopy(model).to(dtype)
        self._pairs = list(zip(model.parameters(), self.inner.parameters(), strict=True))

    def forward(self, *args: Any, **named: Any) -> Tensor:
        """Numbers that are given, such as pictures, are read in `dtype`; places stay as they are."""
        answer: Tensor = self.inner(*map(self._read, args), **{name: self._read(given) for name, given in named.items()})
        return answer

    def _read(self, given: Any) -> Any:
        if isinstance(given, Tokens):
            return replace(given, x=self._read(given.x))
        return given.to(self.dtype) if isinstance(given, Tensor) and given.is_floating_point() else given

    @torch.no_grad()
    def collect(self) -> None:
        """Gradients of the copy become gradients of the float32 weights, added to what is there; the copy's are cleared."""
        for weight, computed in self._pairs:
            if computed.grad is None:
                continue
            grad = computed.grad.to(weight.dtype)
            weight.grad = grad if weight.grad is None else weight.grad.add_(grad)
            computed.grad = None

    @torch.no_grad()
    def spread(self) -> None:
        """The copy takes the weights as they are now."""
        torch._foreach_copy_([computed for _, computed in self._pairs], [weight for weight, _ in self._pairs])
