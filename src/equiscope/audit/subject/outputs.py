"""Outputs: whatever a model returns, as tensors by name; and the axes along which they have one entry a token."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

SIDE = ("past_key_values", "cache", "hidden_states", "attentions", "cross_attentions", "encoder_", "loss", "rope_deltas")


class SelectedOutputs(dict[str, Tensor]):
    """Outputs that were selected already, joined from several calls."""


def flat(output: Any) -> dict[str, Tensor]:
    """Tensors by name: "" for a single one, "logits", "0", "aux.scores". Caches and hidden states are omitted beside others."""
    tensors = dict(_named(output, ""))
    main_outputs = {n: t for n, t in tensors.items() if not n.startswith(SIDE)}
    return main_outputs or tensors


def _named(value: Any, name: str) -> Iterator[tuple[str, Tensor]]:
    if type(value).__module__ == "numpy" and hasattr(value, "ndim"):
        value = torch.as_tensor(value)
    if isinstance(value, Tensor):
        yield name, value
        return
    if hasattr(value, "logits") and not isinstance(value, Mapping) and not dataclasses.is_dataclass(value):
        value = {"logits": value.logits}
    if dataclasses.is_dataclass(value) and not isinstance(value, type) and not isinstance(value, Mapping):
        value = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        items: Any = value.items()
    elif isinstance(value, (list, tuple)):
        fields = getattr(value, "_fields", range(len(value)))
        items = zip(fields, value, strict=True)
    else:
        return
    for key, item in items:
        yield from _named(item, f"{name}.{key}" if name else str(key))


def differing(a: Tensor, b: Tensor, sizes: tuple[int, int]) -> tuple[int, ...]:
    """Axes whose size changed from the first to the second: those with one entry a token."""
    if a.ndim != b.ndim:
        return ()
    return tuple(i for i, (n, m) in enumerate(zip(a.shape, b.shape, strict=True)) if (n, m) == sizes)


def of_size(t: Tensor, size: int | None) -> tuple[int, ...]:
    """Axes of that size."""
    if size is None:
        return ()
    axes = tuple(i for i, n in enumerate(t.shape) if n == size)
    return axes


def finite(outputs: Mapping[str, Tensor]) -> str:
    """The name of the first output that is not finite everywhere; empty where all are."""
    for name, t in outputs.items():
        if t.is_floating_point() and not bool(torch.isfinite(t).all()):
            return name or "the output"
    return ""
