"""No dropout: training without dropout, however a model drops.

`nn.Dropout` has a rate that can be set to zero; attention drops inside torch's own functions, at rates of its own. Below them all
lies one operation that draws which numbers stay: here it answers its mean, so that every number stays as it is.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from equiscope.program.modes import Operations

aten = torch.ops.aten


def no_dropout() -> Operations:
    """Inside, dropout (and stochastic depth drawn with `bernoulli_`) leaves everything as it is."""
    return Operations(_kept)


def _kept(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if func in (aten.bernoulli_.float, aten.bernoulli.p):
        rate = args[1] if len(args) > 1 else 0.5
        return args[0].fill_(rate) if func is aten.bernoulli_.float else torch.full_like(args[0], rate)
    if func is aten.native_dropout.default:
        return args[0].clone(), torch.ones_like(args[0], dtype=torch.bool)
    return func(*args, **kwargs)


@contextmanager
def in_mode(model: nn.Module, mode: str) -> Iterator[None]:
    """Inside, the model is in evaluation, or in training with the rates of its dropout layers set to zero."""
    before = {m: m.training for m in model.modules()}
    rates = {m: m.p for m in model.modules() if isinstance(m, nn.modules.dropout._DropoutNd)}
    model.train(mode == "train")
    for dropout in rates:
        dropout.p = 0.0 if mode == "train" else dropout.p
    try:
        yield
    finally:
        for m, training in before.items():
            m.training = training
        for dropout, p in rates.items():
            dropout.p = p
