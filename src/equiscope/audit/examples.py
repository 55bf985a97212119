"""Examples: inputs like the given ones, with other contents."""

from dataclasses import replace
from typing import Any

import torch
from torch import Generator, Tensor

from equiscope.symmetry import Inputs


def varied(inputs: Inputs, generator: Generator) -> Inputs:
    """Other words in the same places: ids drawn among those that are there and their like, numbers drawn anew."""

    def other(value: Any) -> Any:
        if hasattr(value, "x"):
            return replace(value, x=other(value.x))
        return drawn(value, generator)

    return inputs.each(other, "ids", "features", "image", "wave", "points", "tokens")


def louder(inputs: Inputs, factor: float = 16.0) -> Inputs:
    """Numbers so many times as large; ids stay. What takes the largest of a batch betrays itself."""

    def loud(value: Any) -> Any:
        if hasattr(value, "x"):
            return replace(value, x=value.x * factor)
        return value * factor if value.is_floating_point() else value

    return inputs.each(loud, "features", "image", "wave", "points", "tokens")


def drawn(value: Tensor, generator: Generator) -> Tensor:
    """Numbers of the same size as these; ids up to the largest of these."""
    if value.is_floating_point():
        size = value.double().std().item() if value.numel() > 1 else 1.0
        noise = torch.randn(value.shape, generator=generator, dtype=torch.float64)
        return (value.double().mean() + (size or 1.0) * noise).to(value)
    low, high = int(value.min()), int(value.max())
    return torch.randint(low, max(high, low + 1) + 1, value.shape, generator=generator).to(value)


def changed_tokens(inputs: Inputs, rows: slice, generator: Generator) -> Inputs:
    """Other words in some places; every changed id differs from what stood there."""

    def other(value: Any, axis: int) -> Any:
        fresh = value.clone()
        part = fresh.narrow(value.ndim + axis, *_span(rows, value.shape[axis]))
        if value.is_floating_point():
            part.copy_(drawn(part, generator))
        else:
            low, high = int(value.min()), int(value.max())
            step = torch.randint(1, max(high - low, 1) + 1, part.shape, generator=generator).to(part)
            part.copy_((part - low + step) % (max(high, low + 1) - low + 1) + low)
        return fresh

    moved = inputs.each(lambda t: replace(t, x=other(t.x, -2)), "tokens").each(lambda v: other(v, -1), "ids")
    return moved.each(lambda v: other(v, -2), "features", "points")


def _span(rows: slice, length: int) -> tuple[int, int]:
    start, stop, _ = rows.indices(length)
    return start, stop - start


def sequence(inputs: Inputs, number: int) -> Inputs:
    """One sequence of a batch, still as a batch of one."""
    size = inputs.batch

    def one(value: Any) -> Any:
        if hasattr(value, "x"):
            flags = {
                n: f[number : number + 1]
                for n in ("order", "document", "valid")
                if (f := getattr(value, n)) is not None and f.ndim > 1
            }
            at = value.at[number : number + 1] if value.at.ndim > 2 else value.at
            return replace(value, x=value.x[number : number + 1], at=at, counted=None, **flags)
        if isinstance(value, Tensor) and value.ndim and value.shape[0] == size:
            return value[number : number + 1]
        return value

    return inputs.with_values({n: one(v) for n, v in inputs.values.items()})


def batched(inputs: Inputs, others: Inputs) -> Inputs:
    """Two batches side by side."""
    size = inputs.batch

    def both(name: str) -> Any:
        a, b = inputs.values[name], others.values[name]
        if hasattr(a, "x"):
            flags = {
                n: torch.cat([f, getattr(b, n)])
                for n in ("order", "document", "valid")
                if (f := getattr(a, n)) is not None and f.ndim > 1
            }
            at = torch.cat([a.at, b.at]) if a.at.ndim > 2 else a.at
            return replace(a, x=torch.cat([a.x, b.x]), at=at, counted=None, **flags)
        if isinstance(a, Tensor) and a.ndim and a.shape[0] == size:
            return torch.cat([a, b])
        return a

    return inputs.with_values({n: both(n) for n in inputs.values})
