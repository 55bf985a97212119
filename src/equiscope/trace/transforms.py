"""Whether something other than plain running is at work, for which only plain formulas serve."""

import torch
from torch import Tensor
from torch.autograd import forward_ad


def transformed(*tensors: Tensor | None) -> bool:
    """Whether a compiler, torch.func or a forward derivative is at work on these."""
    if torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active():
        return True
    return any(forward_ad.unpack_dual(t).tangent is not None for t in tensors if t is not None)
