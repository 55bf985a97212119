"""The two torch modes of the package: each hands every call to a function, the handler.

    with Functions(handler):   calls of torch's functions, as the model wrote them
    with Operations(handler):  ATen operations, also those of scripts, vmap, gradients and C++

handler(function, args, kwargs) returns the result of the call. It may read, change or run the call; inside it the mode is off.
"""

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

Handler = Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]


class Functions(TorchFunctionMode):
    """Context in which the handler computes the result of each call of a torch function."""

    def __init__(self, handler: Handler) -> None:
        super().__init__()
        self.handler = handler

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        return self.handler(func, args, kwargs or {})


def uncompiled() -> AbstractContextManager[Any]:
    """Context in which compiled functions run uncompiled. Where nothing is compiled, the compiler is not imported for it."""
    return torch.compiler.set_stance("force_eager") if "torch._dynamo" in sys.modules else nullcontext()


class Operations(TorchDispatchMode):
    """Context in which the handler computes the result of each ATen operation."""

    supports_higher_order_operators = True

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """False: torch then does not wrap `__torch_dispatch__`, which would import the compiler and cost 20 µs a call."""
        return False

    def __init__(self, handler: Handler) -> None:
        super().__init__()
        self.handler = handler

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        return self.handler(func, args, kwargs or {})
