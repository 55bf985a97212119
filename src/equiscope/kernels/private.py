"""Private names of torch that this package calls: the purpose of each, and the fallback if a torch version lacks it.

torch.ops.aten._scaled_dot_product_flash_attention_for_cpu, and its backward
    Attention on a CPU that takes a causal mask beside a bias, and returns the logarithms of the softmax's sums, from which the
    gradient of a bias is recomputed. Without them a bias goes through the public call, as a dense table.
torch.ops.mkldnn._linear_pointwise, _reorder_linear_weight, _is_mkldnn_bf16_supported
    A linear map with weights in oneDNN's block format, fused with what follows, and whether the CPU has instructions for bfloat16.
    Without them torch's matrix product, in float32.
torch._C._are_functorch_transforms_active
    Whether vmap, grad or jvp of torch.func are active. Without it they are assumed to be, so the plain formulas run.
torch._C._functorch.is_batchedtensor
    Whether vmap has stacked a tensor. Without it none is taken to be, and vmap takes torch's attention apart by its own rules, of
    which those for a GPU fail in the backward pass (torch 2.11).
torch._dynamo.callback.callback_handler
    Says when torch.compile begins to compile. Without it only the first step of a run is known to.
torch._C._len_torch_dispatch_stack
    Whether a dispatch mode reads the calls of torch. Without it none is taken to, and such a mode reads the calls of the fast path.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.overrides import wrap_torch_function

P = ParamSpec("P")
R = TypeVar("R")

flash: Any = getattr(torch.ops.aten, "_scaled_dot_product_flash_attention_for_cpu", None)
flash_backward: Any = getattr(torch.ops.aten, "_scaled_dot_product_flash_attention_for_cpu_backward", None)
_dispatch_modes: Any = getattr(torch._C, "_len_torch_dispatch_stack", None)
_functorch_active: Any = getattr(torch._C, "_are_functorch_transforms_active", None)
_is_batched: Any = getattr(getattr(torch._C, "_functorch", None), "is_batchedtensor", None)
# overloads are named where they are called, or torch looks through them each time
linear_pointwise: Any = getattr(torch.ops.mkldnn, "_linear_pointwise", None)
reorder_linear_weight: Any = getattr(torch.ops.mkldnn, "_reorder_linear_weight", None)
_bfloat16_supported: Any = getattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", None)


def overridable(kernel: Callable[P, R]) -> Callable[P, R]:
    """A kernel of queries, keys and values whose call a torch function mode can read and change, as it can torch's attention."""
    wrapped: Any = wrap_torch_function(lambda q, k, v, *_, **__: (q, k, v))(kernel)
    return wrapped


def functorch_active() -> bool:
    """Whether a transform of torch.func is at work."""
    return _functorch_active is None or bool(_functorch_active())


def batched(*tensors: Tensor | None) -> bool:
    """Whether vmap has stacked one of these."""
    return functorch_active() and _is_batched is not None and any(t is not None and _is_batched(t) for t in tensors)


def transformed(*tensors: Tensor | None) -> bool:
    """Whether a compiler, torch.func, a dispatch mode or a forward derivative is at work: then only plain formulas serve.

    A dispatch mode reads calls: it finds one call of torch's attention, with its rows in order, instead of blocks of reversed rows.
    """
    if torch.compiler.is_compiling() or functorch_active() or (_dispatch_modes is not None and _dispatch_modes()):
        return True
    return any(forward_ad.unpack_dual(t).tangent is not None for t in tensors if t is not None)


def packs(weight: Tensor) -> bool:
    """Whether oneDNN lays out and multiplies weights such as these."""
    there = torch.backends.mkldnn.is_available() and None not in (linear_pointwise, reorder_linear_weight)
    if not there or weight.device.type != "cpu" or not weight.numel():
        return False
    return weight.dtype == torch.float32 or (weight.dtype == torch.bfloat16 and bfloat16_supported())


def bfloat16_supported() -> bool:
    """Whether oneDNN has instructions of this CPU for products in bfloat16, which otherwise take longer than those in float32."""
    return _bfloat16_supported is not None and bool(_bfloat16_supported())


@contextmanager
def on_compilation(begin: Callable[[], None]) -> Iterator[None]:
    """Inside, `begin` is called whenever torch.compile begins to compile something; never, if torch has no such callback."""
    try:
        from torch._dynamo.callback import callback_handler
    except ImportError:
        yield
        return

    def begins(*given: Any) -> None:
        begin()

    callback_handler.register_start_callback(begins)
    try:
        yield
    finally:
        callback_handler.remove_start_callback(begins)
