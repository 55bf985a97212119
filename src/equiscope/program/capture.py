"""Watch any module from outside: two nets under a running model, and every call of torch belongs to exactly one step.

The upper net (a function mode) sees calls as the model wrote them; Python functions of torch are opened, so that a step is a
function that torch has in C. The lower net (a dispatch mode) takes each ATen call outside of these: scripted modules, vmap,
gradients, C++. The model's own call always runs; the capture's own arithmetic is hidden from both nets.
"""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import nn

from equiscope.program import origins
from equiscope.program.modes import Functions, Operations
from equiscope.program.program import Program
from equiscope.program.recording import Recording


def watch(model: nn.Module, *inputs: Any, kwargs: Mapping[str, Any] | None = None) -> Program:
    """The program that `model(*inputs, **kwargs)` runs, with its numbers. What the model returns is not changed.

    Tensors of inputs and outputs may stand in lists, mappings and objects. A compiled model runs as it was before compilation.
    """
    model = getattr(model, "_orig_mod", model)
    recording = Recording(model)
    functions = Functions(lambda func, args, kwargs: recording.function(functions, func, args, kwargs))
    for t, name, called in origins.inputs(inputs, kwargs or {}):
        recording.take(t, name, called)
    with ExitStack() as stack:
        stack.enter_context(_written_out(model))
        stack.enter_context(torch.no_grad())
        stack.enter_context(torch.compiler.set_stance("force_eager"))
        stack.enter_context(recording.scopes())
        stack.enter_context(Operations(recording.operation))
        stack.enter_context(functions)
        output = model(*inputs, **(kwargs or {}))
    return recording.finish(output)


@contextmanager
def _written_out(model: nn.Module) -> Iterator[None]:
    """Parts with a faster way take the one that is written out: those that say in `plain` which attributes make them."""
    with ExitStack() as stack:
        for module in model.modules():
            plain = getattr(type(module), "plain", None)
            for name, value in plain.items() if isinstance(plain, dict) else ():
                stack.callback(setattr, module, name, getattr(module, name))
                setattr(module, name, value)
        yield
