"""Examples: inputs like the given ones, with other contents."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Generator, Tensor

from equiscope.symmetry import Inputs


def varied(inputs: Inputs, generator: Generator) -> Inputs:
    """Other words in the same places: ids drawn among those that are there and their like, numbers drawn anew.

    Silence and a blank ground stay: a picture that may be moved on it must stay one.
    """

    def other(value: Any) -> Any:
        if hasattr(value, "x"):
            return replace(value, x=other(value.x))
        fresh = drawn(value, generator)
        return fresh.masked_fill(value == 0, 0) if value.is_floating_point() and bool(value.any()) else fresh

    return inputs.each(other, "ids", "features", "steps", "image", "wave", "points", "tokens")


def louder(inputs: Inputs, factor: float = 16.0) -> Inputs:
    """Numbers so many times as large; ids stay. What takes the largest of a batch betrays itself."""

    def loud(value: Any) -> Any:
        if hasattr(value, "x"):
            return replace(value, x=value.x * factor)
        return value * factor if value.is_floating_point() else value

    return inputs.each(loud, "features", "steps", "image", "wave", "points", "tokens")


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
    return moved.each(lambda v: other(v, -2), "features", "points").each(lambda v: other(v, -3), "steps")


def _span(rows: slice, length: int) -> tuple[int, int]:
    start, stop, _ = rows.indices(length)
    return start, stop - start


def sequence(inputs: Inputs, number: int) -> Inputs:
    """One sequence of a batch, still as a batch of one."""
    rows = slice(number, number + 1)

    def one(name: str) -> Any:
        value, axis = inputs.values[name], _axis(inputs, name)
        if axis is None:
            return value
        if hasattr(value, "x"):
            at = value.at[rows] if value.at.ndim > 2 else value.at
            return replace(value, x=value.x[rows], at=at, counted=None, **{n: f[rows] for n, f in _flags(value).items()})
        return value[rows] if axis == 0 else value[:, rows]

    return _alike(inputs, one)


def batched(inputs: Inputs, others: Inputs) -> Inputs:
    """Two batches side by side."""

    def both(name: str) -> Any:
        a, b, axis = inputs.values[name], others.values[name], _axis(inputs, name)
        if axis is None:
            return a
        if hasattr(a, "x"):
            at = torch.cat([a.at, b.at]) if a.at.ndim > 2 else a.at
            flags = {n: torch.cat([f, getattr(b, n)]) for n, f in _flags(a).items()}
            return replace(a, x=torch.cat([a.x, b.x]), at=at, counted=None, **flags)
        return torch.cat([a, b], axis)

    return _alike(inputs, both)


def _axis(inputs: Inputs, name: str) -> int | None:
    """The axis along which an argument has one entry a sequence."""
    value, size = inputs.values[name], inputs.batch
    if hasattr(value, "x"):
        return 0
    if not isinstance(value, Tensor) or inputs.kinds[name] == "pairs":
        return None
    axis = 1 if inputs.kinds[name] == "steps" else 0
    return axis if value.ndim > axis and value.shape[axis] == size else None


def _flags(tokens: Any) -> dict[str, Tensor]:
    return {n: f for n in ("order", "document", "valid") if (f := getattr(tokens, n)) is not None and f.ndim > 1}


def _alike(inputs: Inputs, make: Callable[[str], Any]) -> Inputs:
    """Every argument changed by name; what was given twice stays one."""
    made: dict[int, Any] = {}
    for name, value in inputs.values.items():
        if id(value) not in made:
            made[id(value)] = make(name)
    return inputs.with_values({n: made[id(v)] for n, v in inputs.values.items()})
