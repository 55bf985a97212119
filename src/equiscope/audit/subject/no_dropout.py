"""No dropout: training mode without dropout, however the model implements it.

The rate of `nn.Dropout` can be set to zero, but attention applies dropout inside torch's own functions. All of them call one
operation that draws the mask. Here it returns its mean, so that every value stays as it is.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from equiscope.program.modes import Operations

aten = torch.ops.aten


def no_dropout() -> Operations:
    """Inside, dropout (and stochastic depth drawn with `bernoulli_`) changes nothing."""
    return Operations(_keep_all)


def _keep_all(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if func in (aten.bernoulli_.float, aten.bernoulli.p):
        rate = args[1] if len(args) > 1 else 0.5
        return args[0].fill_(rate) if func is aten.bernoulli_.float else torch.full_like(args[0], rate)
    if func is aten.native_dropout.default:
        return args[0].clone(), torch.ones_like(args[0], dtype=torch.bool)
    return func(*args, **kwargs)


@contextmanager
def in_mode(model: nn.Module, mode: str) -> Iterator[None]:
    """Inside, the model is in evaluation mode, or in training mode with the rates of its dropout layers set to zero."""
    before = {m: m.training for m in model.modules() if hasattr(m, "training")}  # a frozen script has none
    rates = {m: m.p for m in model.modules() if isinstance(m, nn.modules.dropout._DropoutNd)}
    try:
        model.train(mode == "train")
    except NotImplementedError:  # an exported program stays in the mode of its export
        for m in before:
            m.training = mode == "train"
    for dropout in rates:
        dropout.p = 0.0 if mode == "train" else dropout.p
    try:
        yield
    finally:
        for m, training in before.items():
            m.training = training
        for dropout, p in rates.items():
            dropout.p = p
