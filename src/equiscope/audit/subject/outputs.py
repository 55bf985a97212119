"""Outputs: whatever a model returns, as tensors by name; and the axes along which they have one entry a token."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

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


@dataclasses.dataclass(frozen=True)
class BatchLayout:
    """How a model returns a batch, where that is not one tensor with an axis of sequences.

    squeezed  output name -> its number of axes, and the one that it lacks in a batch of one
    listed    what comes before and after the number of the sequence in the names of outputs that have one item for each sequence
    """

    squeezed: dict[str, tuple[int, int]] = dataclasses.field(default_factory=dict)
    listed: tuple[tuple[list[str], list[str]], ...] = ()

    @classmethod
    def of(cls, one: Mapping[str, Tensor], several: Mapping[str, Tensor], size: int) -> "BatchLayout":
        """Of a model that returned `one` for a batch of one sequence, and `several` for a batch of this size."""
        listed = []
        for name in one:
            parts = name.split(".")
            for before, after in ((parts[:i], parts[i + 1 :]) for i, part in enumerate(parts) if part == "0"):
                names = [".".join([*before, str(i), *after]) for i in range(size + 1)]
                if names[1] not in one and all(n in several for n in names[:size]) and names[size] not in several:
                    listed.append((before, after))
        lists = cls(listed=tuple(listed))
        one, several, squeezed = lists.applied(one), lists.applied(several), dict[str, tuple[int, int]]()
        for name, t in one.items():
            shape = several[name].shape if name in several else torch.Size()
            lacking = [i for i, n in enumerate(shape) if n == size and shape[:i] + shape[i + 1 :] == t.shape]
            if lacking:
                squeezed[name] = len(shape), lacking[0]
        return cls(squeezed, lists.listed)

    def applied(self, outputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The outputs with an axis of sequences. Items of a list that differ in size are filled up with zeros."""
        outputs = dict(outputs)
        for before, after in self.listed:
            items = list[Tensor]()
            while (name := ".".join([*before, str(len(items)), *after])) in outputs:
                items.append(outputs.pop(name))
            if items and len({t.ndim for t in items}) == 1:
                sizes = [max(t.shape[axis] for t in items) for axis in range(items[0].ndim)]
                filled = [
                    F.pad(t, [n for axis in reversed(range(t.ndim)) for n in (0, sizes[axis] - t.shape[axis])]) for t in items
                ]
                outputs[".".join([*before, *after])] = torch.stack(filled)
        for name, (axes, lacking) in self.squeezed.items():
            if name in outputs and outputs[name].ndim == axes - 1:
                outputs[name] = outputs[name].unsqueeze(lacking)
        return outputs


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
