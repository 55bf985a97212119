"""Promote to float64: run a model in float64 although its code casts to float32 inside.

A `.double()` Llama still computes angles, norms and softmax in float32, which makes rounding look like a fault. All functions of
torch cast through a few operations; here these keep float64.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from equiscope.program.modes import Operations

PROMOTED = {torch.float32: torch.float64, torch.bfloat16: torch.float64, torch.float16: torch.float64,
            torch.complex64: torch.complex128, torch.complex32: torch.complex128}  # fmt: skip
HIGH_PRECISION = (torch.float64, torch.complex128)

SOFTMAX = (torch.ops.aten.softmax.int, torch.ops.aten.log_softmax.int)
VIEW, CONVERSION = torch.ops.aten.view.dtype, torch.ops.prims.convert_element_type.default
GROUPED = [o.default for o in [getattr(torch.ops.aten, "_grouped_mm", None)] if o is not None]  # has no kernel for float64
DTYPE_AT = {**dict.fromkeys(SOFTMAX, -1), VIEW: 1, CONVERSION: 1}  # where these have a dtype among their arguments


def _promoted(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Compute in float64 what was requested in a narrower dtype. Every operation of a model comes here."""
    if kwargs and (dtype := kwargs.get("dtype")) in PROMOTED:
        kwargs = kwargs | {"dtype": PROMOTED[dtype]}
    if func in DTYPE_AT and args[DTYPE_AT[func]] in PROMOTED:
        if func is not VIEW or args[0].dtype in HIGH_PRECISION:  # other views reinterpret bits
            args = _with_dtype(args, DTYPE_AT[func])
    elif func in GROUPED and args[0].dtype == torch.float64:
        return _grouped(*args, **kwargs)
    return func(*args, **kwargs)


def _with_dtype(args: tuple[Any, ...], index: int) -> tuple[Any, ...]:
    """The arguments with the dtype at this index promoted."""
    changed = list(args)
    changed[index] = PROMOTED[changed[index]]
    return tuple(changed)


def _grouped(a: Tensor, b: Tensor, offs: Tensor | None = None, bias: Tensor | None = None, **_: Any) -> Tensor:
    """Grouped matrix product: the rows of a up to each offset times their own matrix, as experts are computed together."""
    assert (a.ndim, b.ndim, bias) == (2, 3, None), "experts that are grouped in another way"
    assert offs is not None
    ends = [0, *offs.tolist()]
    products = [a[start:end] @ b[i] for i, (start, end) in enumerate(pairwise(ends))]
    return torch.cat([*products, a.new_zeros(len(a) - ends[-1], b.shape[-1])])


@contextmanager
def promote_float64() -> Iterator[None]:
    """Casts to narrower dtypes become float64, autocast is off, and numbers without a dtype are float64."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with torch.autocast("cpu", enabled=False), Operations(_promoted):
            yield
    finally:
        torch.set_default_dtype(before)
