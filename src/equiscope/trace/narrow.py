"""Products of narrow numbers on a CPU that is slower at them than at float32: the same numbers, multiplied in float32.

Where oneDNN has no bfloat16 (float16) for an x86 CPU, torch multiplies it in a plain loop, many times slower than float32. There
operands are converted, which costs little beside a product of more than a few rows; for few rows, weights that lie turned are read
as they are. Intel's AVX-512 without AMX (or where a virtual machine hides it) multiplies bfloat16 at half of float32's speed, so
products of many rows are converted there too. Sums are in float32 either way and are rounded once, at the end, so no number becomes
less exact. What is kept for the way back is kept narrow.
"""

import contextlib
import platform
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from equiscope.trace.transforms import transformed

TINY = 2**13  # multiply-adds that take less time than what is done around them
FEW, MORE = 4, 16  # rows that torch multiplies in less time than weights are converted, if these lie turned; of LARGE weights MORE
LARGE = 2**23
MANY, BROAD = 64, 32  # rows and columns of a product from which operands are converted in less time than float32 saves, where HALF
PLAIN = (Tensor, torch.nn.Parameter)


def _slow() -> frozenset[torch.dtype]:
    """The dtypes that the CPU at hand has no products for, as far as oneDNN knows; of x86 alone, where it was measured."""
    if not torch.backends.mkldnn.is_available() or platform.machine().lower() not in ("x86_64", "amd64"):
        return frozenset()
    bfloat16, float16 = torch.ops.mkldnn._is_mkldnn_bf16_supported(), torch.ops.mkldnn._is_mkldnn_fp16_supported()
    return frozenset(dtype for dtype, there in ((torch.bfloat16, bfloat16), (torch.float16, float16)) if not there)


def _half() -> frozenset[torch.dtype]:
    """The dtypes that the CPU at hand multiplies at half of float32's speed; measured on Intel's Emerald Rapids with AMX hidden."""
    if torch.bfloat16 in _slow() or not torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported():
        return frozenset()
    return frozenset({torch.bfloat16}) if INTEL else frozenset()


TOLD: Mapping[str, Any] = torch.cpu.get_capabilities() if hasattr(torch.cpu, "get_capabilities") else {}
INTEL = "intel" in TOLD.get("cpu_name", "").lower()
SLOW, HALF = _slow(), _half()


def meant(*tensors: Tensor | None, many: bool = True) -> torch.dtype | None:
    """The dtype that torch would multiply these in, if float32 is faster here; else None, as in what is exported.

    many  whether rows are so many that operands are converted soon beside the product
    """
    first, slow = tensors[0], SLOW | HALF if many else SLOW
    if not slow or first is None or first.device.type != "cpu":
        return None
    casting = torch.is_autocast_enabled("cpu")
    dtype = torch.get_autocast_dtype("cpu") if casting else first.dtype
    if dtype not in slow or torch.compiler.is_exporting():
        return None
    given = [t for t in tensors if t is not None]
    if any(t.layout != torch.strided or t.is_nested for t in given):
        return None
    if torch.is_grad_enabled() and not torch.compiler.is_compiling() and any(t.is_inference() for t in given):
        return None  # torch says what is wrong
    if casting:
        return dtype if all(t.is_floating_point() and t.dtype != torch.float64 for t in given) else None
    return dtype if all(t.dtype == dtype for t in given) else None


def through(compute: Callable[..., Tensor], *tensors: Tensor | None, many: bool = True) -> Tensor:
    """compute(*tensors), in float32 and rounded at the end where that is faster here. All but the first may be None."""
    dtype = meant(*tensors, many=many)
    if dtype is None:
        return compute(*tensors)
    narrow = [None if t is None else t.to(dtype) for t in tensors]
    wide = [None if t is None else t.to(torch.float32) for t in narrow]
    plain = transformed(*narrow) or not torch.is_grad_enabled() or any(type(t) not in PLAIN for t in wide if t is not None)
    with uncast(), contextlib.nullcontext() if plain or _hooked() else _kept_narrow(narrow, wide):
        return compute(*wide).to(dtype)


def uncast() -> contextlib.AbstractContextManager[object]:
    """In it, autocast casts nothing."""
    return torch.autocast("cpu", enabled=False) if torch.is_autocast_enabled("cpu") else contextlib.nullcontext()


@contextlib.contextmanager
def _kept_narrow(narrow: list[Tensor | None], wide: list[Tensor | None]) -> Iterator[None]:
    """In it, what is saved for the way back of the wide tensors is saved as the narrow ones, which hold the same numbers."""
    held = {
        w.untyped_storage().data_ptr(): (n.detach(), n._version)
        for n, w in zip(narrow, wide, strict=True)
        if n is not None and w is not None and w.numel()
    }

    def pack(saved: Tensor) -> Any:
        found = held.get(saved.untyped_storage().data_ptr()) if saved.dtype == torch.float32 else None
        if found is None:
            return saved, None if saved.is_inference() else saved._version
        return *found, saved.shape, saved.stride(), saved.storage_offset()

    def unpack(kept: Any) -> Tensor:
        tensor, version, *laid = kept
        if version is not None and tensor._version != version:  # torch does not look where hooks are
            raise RuntimeError(
                "What a product was computed from was changed in place between the forward and the backward pass, which reads it."
            )
        return tensor.to(torch.float32).as_strided(*laid) if laid else tensor  # lies as the first one did

    try:
        with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
            yield
    finally:
        held.clear()  # the graph keeps the hooks


def _hooked() -> bool:
    """Whether hooks of others are at work, as when parts are computed once more and nothing of theirs is to be kept."""
    hooks: Any = torch._C._autograd
    return hooks._top_saved_tensors_default_hooks(False) is not None or not hooks._saved_tensors_hooks_is_enabled()


def product(a: Tensor, b: Tensor) -> Tensor:
    """a @ b."""
    if not (SLOW or HALF) or (not torch.compiler.is_compiling() and a.numel() * b.shape[-1] < TINY):
        return a @ b
    return through(torch.matmul, a, b, many=not HALF or _many(a, b))


def linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """x [..., in] @ weight [in, out] (+ bias [out])."""
    if not (SLOW or HALF) or (not torch.compiler.is_compiling() and _soon(x, weight)):
        return _linear(x, weight, bias)
    return through(_linear, x, weight, bias, many=not HALF or _many(x, weight))


def _many(a: Tensor, b: Tensor) -> bool:
    """Whether a @ b has so many rows and columns that to convert both costs less than half of the product."""
    if torch.compiler.is_exporting() or b.ndim < 2:  # there a size compared is a guard
        return False
    rows = a.shape[-2] if b.ndim > 2 and a.ndim > 1 else a.numel() // max(a.shape[-1], 1)
    return rows >= MANY and b.shape[-1] >= BROAD


def _soon(x: Tensor, weight: Tensor) -> bool:
    """Whether torch's own product takes less time than to convert."""
    if x.numel() * weight.shape[-1] < TINY:
        return True
    asleep = not (torch.is_grad_enabled() and (x.requires_grad or weight.requires_grad))
    return asleep and few(x, weight) and not torch.is_autocast_enabled("cpu")


def few(x: Tensor, weight: Tensor) -> bool:
    """Whether rows x [..., in] are so few that weights [in, out] which lie turned are better read as they are."""
    many = x.numel() // max(x.shape[-1], 1)
    return weight.stride(-2) == 1 and many <= (FEW if weight.numel() < LARGE else MORE)


def _linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return F.linear(x, weight.transpose(-2, -1), bias)
