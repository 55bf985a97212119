"""The two torch modes of the package: each hands every call to a function `answer`.

    with Functions(answer):   calls of torch's functions, as the model wrote them
    with Operations(answer):  ATen operations, also those of scripts, vmap, gradients and C++

answer(function, args, kwargs) returns the result of the call. It may read, change or run the call; inside it the mode is off.
"""

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

Answer = Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]


class Functions(TorchFunctionMode):
    """Inside, a call of a function of torch gets the answer's result."""

    def __init__(self, answer: Answer) -> None:
        super().__init__()
        self.answer = answer

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        return self.answer(func, args, kwargs or {})


def uncompiled() -> AbstractContextManager[Any]:
    """Context in which compiled functions run uncompiled. Where nothing is compiled, the compiler is not imported for it."""
    return torch.compiler.set_stance("force_eager") if "torch._dynamo" in sys.modules else nullcontext()


class Operations(TorchDispatchMode):
    """Inside, an ATen operation gets the answer's result."""

    supports_higher_order_operators = True

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Whether torch keeps `__torch_dispatch__` from being compiled: that imports the compiler, and costs 20 µs a call."""
        return False

    def __init__(self, answer: Answer) -> None:
        super().__init__()
        self.answer = answer

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        return self.answer(func, args, kwargs or {})
