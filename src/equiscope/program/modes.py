"""The two torch modes of the package: what calls of torch's functions, and of the ATen operations below them, are answered with.

    with Functions(answer):   every call of a function of torch, as the model wrote it
    with Operations(answer):  every ATen operation, whoever calls it: scripts, vmap, gradients, C++

answer(function, args, kwargs) gives the result: it may look at the call, change it, or run it. Inside it the mode is off.
"""

from collections.abc import Callable
from typing import Any

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


class Operations(TorchDispatchMode):
    """Inside, an ATen operation gets the answer's result."""

    supports_higher_order_operators = True

    def __init__(self, answer: Answer) -> None:
        super().__init__()
        self.answer = answer

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        return self.answer(func, args, kwargs or {})
