"""Private names of torch that this package calls: what each is for, and what happens where a torch has it no longer.

torch.ops.aten._scaled_dot_product_flash_attention_for_cpu, and its backward
    Attention on a CPU that takes a causal mask beside a bias, and returns the logarithms of the softmax's sums, from which the
    gradient of a bias is recomputed. Without them a bias goes through the public call, as a dense table.
torch._C._are_functorch_transforms_active
    Whether vmap, grad or jvp of torch.func are at work. Without it they are taken to be, so the plain formulas run.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

flash: Any = getattr(torch.ops.aten, "_scaled_dot_product_flash_attention_for_cpu", None)
flash_backward: Any = getattr(torch.ops.aten, "_scaled_dot_product_flash_attention_for_cpu_backward", None)
_functorch_active: Any = getattr(torch._C, "_are_functorch_transforms_active", None)


def functorch_active() -> bool:
    """Whether a transform of torch.func is at work."""
    return _functorch_active is None or bool(_functorch_active())


def transformed(*tensors: Tensor | None) -> bool:
    """Whether a compiler, torch.func or a forward derivative is at work on these: then only plain formulas serve."""
    if torch.compiler.is_compiling() or functorch_active():
        return True
    return any(forward_ad.unpack_dual(t).tangent is not None for t in tensors if t is not None)
