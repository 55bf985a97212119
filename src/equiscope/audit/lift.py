"""Lift: run a model in float64 although its code casts to float32 inside.

A `.double()` Llama still computes angles, norms and softmax in float32, and then nobody can tell a rounding from a bug. Below
every function of torch lie a few operations that cast; here they keep float64.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

NARROW = (torch.float32, torch.bfloat16, torch.float16)


class _Lift(TorchDispatchMode):
    """Inside, what is asked for in a narrower dtype is made in float64."""

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        kwargs = dict(kwargs or {})
        if kwargs.get("dtype") in NARROW:
            kwargs["dtype"] = torch.float64
        if func in (torch.ops.aten.softmax.int, torch.ops.aten.log_softmax.int, torch.ops.aten.view.dtype) and args[-1] in NARROW:
            args = (*args[:-1], torch.float64)
        if func in (torch.ops.prims.convert_element_type.default,) and args[1] in NARROW:
            args = (args[0], torch.float64)
        return func(*args, **kwargs)


@contextmanager
def lifted() -> Iterator[None]:
    """Casts to narrower dtypes become float64, autocast is off, and numbers without a dtype are float64."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with torch.autocast("cpu", enabled=False), _Lift():
            yield
    finally:
        torch.set_default_dtype(before)
