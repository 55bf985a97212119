"""Record a forward pass of any module: two torch modes record the calls, and every torch call belongs to exactly one step.

The function mode records the calls in the model's code. It enters Python functions of torch, so that each step is a function that
torch implements in C. The dispatch mode records each ATen call outside of these: scripted modules, vmap, gradients, C++. The
model's own call always runs. Both modes ignore the computation of the recorder itself.
"""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import nn

from equiscope.program import origins
from equiscope.program.modes import Functions, Operations, uncompiled
from equiscope.program.program import Program
from equiscope.program.recording import Recording


def watch(model: nn.Module, *inputs: Any, kwargs: Mapping[str, Any] | None = None) -> Program:
    """Record the program that `model(*inputs, **kwargs)` runs, with its numbers. The model's output does not change.

    Tensors in inputs and outputs may be nested in lists, mappings and objects. A compiled model runs uncompiled.
    """
    model = getattr(model, "_orig_mod", model)
    recording = Recording(model)
    functions = Functions(lambda func, args, kwargs: recording.function(functions, func, args, kwargs))
    for t, name, called in origins.inputs(inputs, kwargs or {}):
        recording.add_input(t, name, called)
    with ExitStack() as stack:
        stack.enter_context(_written_out(model))
        stack.enter_context(torch.no_grad())
        stack.enter_context(uncompiled())
        stack.enter_context(recording.scopes())
        stack.enter_context(Operations(recording.operation))
        stack.enter_context(functions)
        output = model(*inputs, **(kwargs or {}))
    return recording.finish(output)


@contextmanager
def _written_out(model: nn.Module) -> Iterator[None]:
    """Context in which modules run step by step: sets the attributes in the `plain` of each module, and restores them on exit."""
    with ExitStack() as stack:
        for module in model.modules():
            plain = getattr(type(module), "plain", None)
            for name, value in plain.items() if isinstance(plain, dict) else ():
                stack.callback(setattr, module, name, getattr(module, name))
                setattr(module, name, value)
        yield
