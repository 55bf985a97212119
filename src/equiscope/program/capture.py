"""Watch any module from outside: two nets under a running model, and every call of torch belongs to exactly one step.

The upper net (a function mode) sees calls as the model wrote them; Python functions of torch are opened, so that a step is a
function that torch has in C. The lower net (a dispatch mode) takes each ATen call outside of these: scripted modules, vmap,
gradients, C++. The model's own call always runs; the capture's own arithmetic is hidden from both nets.
"""

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from equiscope.program.origins import tensors
from equiscope.program.program import Program
from equiscope.program.recording import Recording


def watch(model: nn.Module, *inputs: Any, kwargs: Mapping[str, Any] | None = None) -> Program:
    """The program that `model(*inputs, **kwargs)` runs, with its numbers. What the model returns is not changed.

    Tensors of inputs and outputs may stand in lists, mappings and objects. A compiled model runs as it was before compilation.
    """
    model = getattr(model, "_orig_mod", model)
    recording = Recording(model)
    for path, t in tensors([list(inputs), dict(kwargs or {})]):
        recording.take(t, f"input.{path.split('.', 1)[-1]}")
    with ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        stack.enter_context(torch.compiler.set_stance("force_eager"))
        stack.enter_context(recording.scopes())
        stack.enter_context(_Lower(recording))
        stack.enter_context(_Upper(recording))
        output = model(*inputs, **(kwargs or {}))
    return recording.finish(output)


class _Upper(TorchFunctionMode):
    def __init__(self, recording: Recording) -> None:
        super().__init__()
        self.recording = recording

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self.recording.function(self, func, args, kwargs or {})


class _Lower(TorchDispatchMode):
    supports_higher_order_operators = True

    def __init__(self, recording: Recording) -> None:
        super().__init__()
        self.recording = recording

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if self.recording.hidden:
            return func(*args, **(kwargs or {}))
        with self.recording.silence():  # the upper net is on where C++ calls
            return self.recording.call(func, args, kwargs or {}, "aten")
