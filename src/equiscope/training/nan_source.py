"""NaN source: the first module whose output or gradient is NaN or infinite."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from equiscope.program.hooks import hooked, on_gradient


def nan_source(model: nn.Module, lost: Callable[[], Tensor]) -> str:
    """Recompute a loss and its gradient with hooks on every module. Gradients are left in `.grad`.

    lost  computes the loss by `model`, without the backward pass
    """
    sources = [f"the weights {name}" for name, p in model.named_parameters() if not _finite(p)]

    def check_output(path: str, _: nn.Module, answer: Any) -> None:
        name = path or "the model"

        def back(gradient: Tensor) -> None:
            if not _finite(gradient):
                sources.append(f"the gradient that reaches {name}")

        for tensor in _tensors(answer):
            if not _finite(tensor):
                sources.append(f"the output of {name}")
            elif tensor.requires_grad:
                on_gradient(tensor, back)

    with hooked(model.named_modules(), after=check_output), torch.compiler.set_stance("force_eager"):
        loss = lost()
        if not _finite(loss):
            sources.append("the loss itself")
        loss.backward()  # by every process, whatever it has found: they wait for each other
    return sources[0] if sources else _longest_gradient(model)


def _longest_gradient(model: nn.Module) -> str:
    """The parameter whose gradient is NaN, or else has the largest norm."""
    gradients = {name: _own(p.grad).double() for name, p in model.named_parameters() if p.grad is not None}
    lengths = {name: float(gradient.norm()) for name, gradient in gradients.items()}
    name = max(lengths, key=lambda name: lengths[name] if lengths[name] == lengths[name] else float("inf"))
    source = f"the gradient of {name}"
    if _finite(gradients[name]):
        largest = float(gradients[name].abs().max())
        source += f": its entries are finite, the largest is {largest:.2g}, but float32 cannot hold the sum of their squares"
    return source


def _own(tensor: Tensor) -> Tensor:
    """This process's shard of a tensor."""
    share: Any = getattr(tensor, "to_local", None)
    return tensor if share is None else share()


def _finite(tensor: Tensor) -> bool:
    return bool(torch.isfinite(_own(tensor)).all())


def _tensors(answer: Any) -> Iterator[Tensor]:
    if isinstance(answer, Tensor):
        if answer.is_floating_point():
            yield answer
    elif isinstance(answer, tuple | list):
        for each in answer:
            yield from _tensors(each)
