"""Attention with torch's own products, where all others go through oneDNN (`models.fast_products`).

torch's kernel multiplies blocks of a few rows, and oneDNN plans each such product anew, which takes longer than the product:
`python -m benchmarks.models --sizes 4x128 --dtypes float32` is 1.5 of the best peer, and was 1.05 without this file.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor

from equiscope.trace.transforms import transformed

_wanted = False  # read as code is compiled, which is done anew when it changes


@contextmanager
def routed(onednn: bool) -> Iterator[None]:
    """Inside, float32 products on a CPU go through oneDNN or to torch's own; those inside attention are torch's own always."""
    global _wanted
    before, _wanted = _wanted, onednn
    try:
        with _products("bf16" if onednn else "ieee"):
            yield
    finally:
        _wanted = before


@contextmanager
def _products(precision: str) -> Iterator[None]:
    switch = torch.backends.mkldnn.matmul  # type: ignore[attr-defined]  # its class is made when torch is loaded
    before = switch.fp32_precision
    switch.fp32_precision = precision
    try:
        yield
    finally:
        switch.fp32_precision = before


def own_products() -> AbstractContextManager[None]:
    """Inside, float32 products are torch's own, whatever is routed."""
    return _products("ieee") if _wanted else nullcontext()


def wanted(q: Tensor, k: Tensor, v: Tensor) -> bool:
    """Whether `attended` is to be called in the place of torch's kernel, and takes such rows."""
    if not _wanted or q.dtype != torch.float32 or q.device.type != "cpu" or q.ndim != 4 or torch.compiler.is_exporting():
        return False
    if q.shape[:2] != k.shape[:2] or k.shape != v.shape or q.shape[-1] != k.shape[-1] or not (q.numel() and k.numel()):
        return False
    return torch.compiler.is_compiling() or not transformed(q, k, v)


def attended(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool, scale: float) -> Tensor:
    """softmax(scale q k^T) v of q [B, H, N, K], k and v [B, H, M, K]

    mask  True = may look, or added to the scores; broadcasts to [B, H, N, M]
    """
    if mask is not None:
        mask = q.new_zeros(()).masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else mask
        mask = mask.expand(*q.shape[:-1], k.shape[-2])
    q, k, v = (x if x.stride(-1) == 1 else x.contiguous() for x in (q, k, v))  # as the kernel takes for granted
    return _scaled_dot_product_attention(q, k, v, mask, causal, scale)[0]


@torch.library.custom_op("equiscope::scaled_dot_product_attention", mutates_args=(), device_types="cpu")
def _scaled_dot_product_attention(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None, is_causal: bool, scale: float
) -> tuple[Tensor, Tensor]:
    with _products("ieee"):
        return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
            query, key, value, 0.0, is_causal, attn_mask=attn_mask, scale=scale
        )


@torch.library.custom_op("equiscope::scaled_dot_product_attention_backward", mutates_args=(), device_types="cpu")
def _backward(
    g: Tensor, q: Tensor, k: Tensor, v: Tensor, z: Tensor, total: Tensor, mask: Tensor | None, causal: bool, scale: float
) -> tuple[Tensor, Tensor, Tensor]:
    with _products("ieee"):
        return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward(
            g, q, k, v, z, total, 0.0, causal, attn_mask=mask, scale=scale
        )


@_scaled_dot_product_attention.register_fake
def _(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool, scale: float) -> tuple[Tensor, Tensor]:
    return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, causal, attn_mask=mask, scale=scale)


@_backward.register_fake
def _(
    g: Tensor, q: Tensor, k: Tensor, v: Tensor, z: Tensor, total: Tensor, mask: Tensor | None, causal: bool, scale: float
) -> tuple[Tensor, Tensor, Tensor]:
    return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward(
        g, q, k, v, z, total, 0.0, causal, attn_mask=mask, scale=scale
    )


def _kept(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    q, k, v, mask, ctx.causal, ctx.scale = inputs
    ctx.save_for_backward(q, k, v, *output, mask)


def _back(ctx: Any, g: Tensor, _: Tensor | None) -> tuple[Tensor | None, ...]:
    *rows, mask = ctx.saved_tensors
    g = g if g.stride(-1) == 1 else g.contiguous()
    return *_backward(g, *rows, mask, ctx.causal, ctx.scale), None, None, None


_scaled_dot_product_attention.register_autograd(_back, setup_context=_kept)
