"""Where tensors come from: those of inputs and outputs by their path, and those that a model holds by their name."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from equiscope.program.program import Kind, ValueLabel
from equiscope.program.values import location

NORM = {"weight": ("g", "feature", "weight of the norm"), "bias": ("s", "feature", "bias of the norm")}
TABLE = {"weight": ("E", "vocabulary feature", "embedding table")}


def legend_of(module: nn.Module) -> dict[str, tuple[str, str, str]]:
    """What a module calls its parameters and what its parts return: symbol, axes in words, label."""
    if isinstance(module, (nn.LayerNorm, nn.RMSNorm)):
        return NORM
    return getattr(module, "legend", TABLE if isinstance(module, nn.Embedding) else {})


def inputs(inputs: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterator[tuple[Tensor, str, ValueLabel | None]]:
    """Tensors that a model is given, each with its name. Inputs with a method `leaves` name themselves (Tokens do).

    The first tokens ask and may answer; a second sequence only answers, and its rows are called "source".
    """
    axis = "token"
    for value in [*inputs, *kwargs.values()]:
        if hasattr(value, "leaves"):
            for t, (name, symbol, label, axes, kind) in value.leaves(axis):
                yield t, name if axis == "token" else f"source.{name}", ValueLabel(symbol, axes, label, kind)
            axis = "source"
    for path, t in tensors([list(inputs), dict(kwargs)]):
        yield t, f"input.{path.split('.', 1)[-1]}", None


def named(model: nn.Module) -> Iterator[tuple[Any, tuple[str, Kind]]]:
    """The model's own tensors by where they lie: parameters, buffers, and what stands as a plain attribute of a module."""
    for path, module in model.named_modules():
        for name, x in vars(module).items():
            for inner, t in tensors(x, name) if isinstance(x, (Tensor, list, tuple, dict)) and not name.startswith("_") else ():
                yield location(t), (f"{path}.{inner}" if path else inner, "constant")
    for name, t in model.named_buffers():
        yield location(t), (name, "buffer")
    for name, t in model.named_parameters():
        yield location(t), (name, "parameter")


def tensors(some: Any, path: str = "", seen: set[int] | None = None) -> Iterator[tuple[str, Tensor]]:
    """Tensors in arguments or outputs, also inside objects such as dataclasses and caches, each with its path."""
    seen = set() if seen is None else seen
    if isinstance(some, Tensor):
        yield path, some
    elif id(some) not in seen and not isinstance(some, (str, int, float, bool, type(None), torch.dtype, nn.Module, type)):
        seen.add(id(some))
        if isinstance(some, Mapping):
            items: Any = some.items()
        elif isinstance(some, (list, tuple)):
            items = enumerate(some)
        else:
            items = getattr(some, "__dict__", {}).items()
        for key, value in items:
            yield from tensors(value, f"{path}.{key}" if path else str(key), seen)
