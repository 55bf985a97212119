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

LOW_PRECISION = (torch.float32, torch.bfloat16, torch.float16)
HIGH_PRECISION = (torch.float64, torch.complex128)

GROUPED = [o.default for o in [getattr(torch.ops.aten, "_grouped_mm", None)] if o is not None]  # has no kernel for float64


def _promoted(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Compute in float64 what was requested in a narrower dtype."""
    kwargs = dict(kwargs)
    if kwargs.get("dtype") in (torch.complex64, torch.complex32):
        kwargs["dtype"] = torch.complex128
    if kwargs.get("dtype") in LOW_PRECISION:
        kwargs["dtype"] = torch.float64
    if func in (torch.ops.aten.softmax.int, torch.ops.aten.log_softmax.int) and args[-1] in LOW_PRECISION:
        args = (*args[:-1], torch.float64)
    if (
        func is torch.ops.aten.view.dtype and args[1] in LOW_PRECISION and args[0].dtype in HIGH_PRECISION
    ):  # other views reinterpret bits
        args = (args[0], torch.float64)
    if func in (torch.ops.prims.convert_element_type.default,) and args[1] in LOW_PRECISION:
        args = (args[0], torch.float64)
    if func in GROUPED and args[0].dtype == torch.float64:
        return _grouped(*args, **kwargs)
    return func(*args, **kwargs)


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
