"""Variations: inputs like the given ones with other values, lengths or batches."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Generator, Tensor

from equiscope.symmetry import Inputs
from equiscope.symmetry.inputs import AXIS, pair_axes


def resampled(inputs: Inputs, generator: Generator) -> Inputs:
    """Other values at the same positions: ids drawn from the range of those present, numbers drawn again.

    Zeros of a picture or a sound stay zero: a picture that can be shifted on its background must stay one.
    """

    def other(value: Any) -> Any:
        if hasattr(value, "x"):
            return replace(value, x=other(value.x))
        new = random_like(value, generator)
        if not value.is_floating_point():
            return without_pad_ids(inputs, value, new)
        return new.masked_fill(value == 0, 0) if bool(value.any()) else new

    return inputs.each(other, "ids", "features", "steps", "image", "wave", "points", "tokens")


def lengthened(inputs: Inputs, length: int, generator: Generator) -> Inputs | None:
    """The same sequence with more tokens appended, drawn like those present; positions continue.

    None where a mask of pairs, an adjacency, or another argument with one entry a token, cannot be extended.
    """
    n = inputs.length
    if n is None or length < n or inputs.has("edges", "adjacency", "points", "vectors", "atoms"):
        return None
    more, arguments = length - n, {}
    for name, value in inputs.values.items():
        longer = _lengthened_value(value, inputs.kinds[name], more, generator, inputs)
        if longer is None:
            return None
        arguments[name] = longer
    return inputs.with_values(arguments)


def _lengthened_value(value: Any, kind: str, more: int, generator: Generator, inputs: Inputs) -> Any:
    if kind == "tokens":
        x = _appended_tokens(value.x, -2, more, generator, inputs)
        at, order = _appended_positions(value.positions, -2, more), _appended_positions(value.order, -1, more)
        flags = {name: _appended_flags(f, -1, more) for name in ("document", "valid") if (f := getattr(value, name)) is not None}
        return replace(value, x=x, positions=at, order=order, counted=None, **flags)
    if not isinstance(value, Tensor):
        return value
    if kind in ("ids", "features", "steps"):
        return _appended_tokens(value, AXIS[kind], more, generator, inputs)  # type: ignore[index]
    if kind in ("position_ids", "coordinates"):
        return _appended_positions(value, AXIS[kind], more)  # type: ignore[index]
    if kind == "flags":
        return _appended_flags(value, -1, more)
    if kind == "lengths":
        return torch.where(value.eq(inputs.length or 0), value + more, value)
    if kind == "pairs":
        return _extended_mask(value, more)
    return value


def _appended_tokens(value: Tensor, axis: int, more: int, generator: Generator, inputs: Inputs) -> Tensor:
    """The value with more entries, drawn like those present."""
    size = value.shape[axis]
    blank = value.index_select(value.ndim + axis, torch.arange(more, device=value.device) % size)
    return torch.cat([value, without_pad_ids(inputs, blank, random_like(blank, generator, value))], axis)


def _appended_positions(value: Tensor, axis: int, more: int) -> Tensor:
    """Positions continued with the step between the last two."""
    axis, size = value.ndim + axis, value.shape[axis]
    last = value.narrow(axis, size - 1, 1)
    step = last - value.narrow(axis, size - 2, 1) if size > 1 else torch.ones_like(last)
    count = torch.arange(1, more + 1, device=value.device).reshape([-1 if i == axis else 1 for i in range(value.ndim)])
    return torch.cat([value, last + step * count.to(value.dtype)], axis)


def _appended_flags(value: Tensor, axis: int, more: int) -> Tensor:
    """A flag of each token, continued with its last value."""
    last = value.narrow(value.ndim + axis, value.shape[axis] - 1, 1)
    return torch.cat([value, last.expand(*[more if i == value.ndim + axis else -1 for i in range(value.ndim)])], axis)


def _extended_mask(mask: Tensor, more: int) -> Tensor | None:
    """A larger mask of pairs, where it is constant along every diagonal; None for any other mask."""
    n = mask.shape[-1]
    if mask.ndim < 2 or mask.shape[-2] != n or n < 3:
        return None
    flat = mask.reshape(-1, n, n)
    if not all(bool((d := flat.diagonal(k, -2, -1)).eq(d[..., :1]).all()) for k in range(1 - n, n)):
        return None
    steps = torch.arange(n + more, device=mask.device)
    gap = (steps[None] - steps[:, None]).clamp(1 - n, n - 1)
    return torch.where(gap >= 0, mask[..., 0, :][..., gap.clamp(min=0)], mask[..., :, 0][..., (-gap).clamp(min=0)])


def resampled_flags(inputs: Inputs, generator: Generator, beyond: int = 0) -> Inputs:
    """Other flags, and other arguments with one entry for each sequence, drawn from the values present; masks of padding stay.

    beyond  where only one value is present: 1 or -1, to take the next one or the one before it too; the model may reject that
    """

    def other(value: Tensor, is_flag: bool) -> Tensor:
        if value.is_floating_point() or value.is_complex():
            scale = 0.5 + torch.rand(value.shape, generator=generator, dtype=torch.float64)
            return value if is_flag or value.is_complex() else (value * scale.to(value.device)).to(value.dtype)
        present = value.flatten().unique()
        if beyond and len(present) == 1 and value.device.type == "cpu":  # elsewhere a wrong id ends the process
            near = value.logical_not() if value.dtype == torch.bool else torch.where(value + beyond < 0, value + 1, value + beyond)
            some = torch.randint(2, value.shape, generator=generator).bool()
            return torch.where(some, near, value) if bool(some.any()) and value.numel() > 1 else near
        return present[torch.randint(len(present), value.shape, generator=generator).to(value.device)]

    names = [n for n, v in inputs.of("flags", "other").items() if isinstance(v, Tensor) and _is_flag(inputs, n)]
    return inputs.with_values({n: other(inputs.values[n], inputs.kinds[n] == "flags") for n in names})


def distinct_flags(inputs: Inputs, generator: Generator) -> Inputs:
    """A batch whose sequences differ in their flags: where all are equal, those of the first stay."""
    first, changed = sequence(inputs, 0), {}
    for name, value in inputs.of("flags", "other").items():
        axis = _axis(inputs, name) if isinstance(value, Tensor) and _is_flag(inputs, name) else None
        if axis is not None and all(torch.equal(row, value.select(axis, 0)) for row in value.unbind(axis)):
            others = [resampled_flags(first, generator, beyond=-1).values[name] for _ in range(1, value.shape[axis])]
            changed[name] = torch.cat([first.values[name], *others], axis)
    return inputs.with_values(changed)


def _is_flag(inputs: Inputs, name: str) -> bool:
    """Whether an argument says something of a token or a sequence, and is no mask."""
    mask = any(word in name for word in ("mask", "valid", "label"))
    return not mask and (inputs.kinds[name] == "flags" or _axis(inputs, name) is not None)


def reversed_positions(inputs: Inputs) -> Inputs:
    """The same tokens at the positions in reverse order."""
    return inputs.each(lambda v: v.flip(-1), "position_ids")


def scaled_values(inputs: Inputs, factor: float = 16.0) -> Inputs:
    """Values multiplied by a factor; ids stay. This exposes a maximum over the batch."""

    def scaled(value: Any) -> Any:
        if hasattr(value, "x"):
            return replace(value, x=value.x * factor)
        return value * factor if value.is_floating_point() else value

    return inputs.each(scaled, "features", "steps", "image", "wave", "points", "tokens")


def random_like(value: Tensor, generator: Generator, like: Tensor | None = None) -> Tensor:
    """Random values of this shape with the mean and spread of `like` (by default of the value itself); ids from its range."""
    like = value if like is None else like
    if value.is_floating_point():
        size = like.double().std().item() if like.numel() > 1 else 1.0
        noise = torch.randn(value.shape, generator=generator, dtype=torch.float64)
        return (like.double().mean() + (size or 1.0) * noise).to(value)
    low, high = int(like.min()), int(like.max())
    return torch.randint(low, max(high, low + 1) + 1, value.shape, generator=generator).to(value)


def changed_tokens(inputs: Inputs, rows: slice, generator: Generator) -> Inputs:
    """Other tokens in some rows; every changed id differs from the original one."""

    def other(value: Any, axis: int) -> Any:
        new = value.clone()
        part = new.narrow(value.ndim + axis, *_span(rows, value.shape[axis]))
        if value.is_floating_point():
            part.copy_(random_like(part, generator))
        else:
            low, high = int(value.min()), int(value.max())
            step = torch.randint(1, max(high - low, 1) + 1, part.shape, generator=generator).to(part)
            arguments = (part - low + step) % (max(high, low + 1) - low + 1) + low
            part.copy_(without_pad_ids(inputs, part.clone(), arguments))
        return new

    changed = inputs.each(lambda t: replace(t, x=other(t.x, -2)), "tokens").each(lambda v: other(v, -1), "ids")
    return changed.each(lambda v: other(v, -2), "features", "points").each(lambda v: other(v, -3), "steps")


def without_pad_ids(inputs: Inputs, original: Tensor, new: Tensor) -> Tensor:
    """New ids without the padding id, because a model may compute positions from it."""
    pad = inputs.extra.get("pad")
    if pad is None or new.is_floating_point():
        return new
    present = original[original != pad]
    other = int(present.max()) if present.numel() else pad + 1
    return new.masked_fill((new == pad) & (original != pad), other)


def _span(rows: slice, length: int) -> tuple[int, int]:
    start, stop, _ = rows.indices(length)
    return start, stop - start


def sequence(inputs: Inputs, number: int) -> Inputs:
    """One sequence of a batch, as a batch of one."""
    rows = slice(number, number + 1)

    def one(name: str) -> Any:
        value, axis = inputs.values[name], _axis(inputs, name)
        if axis is None:
            return value
        if hasattr(value, "x"):
            at = value.positions[rows] if value.positions.ndim > 2 else value.positions
            return replace(value, x=value.x[rows], positions=at, counted=None, **{n: f[rows] for n, f in _flags(value).items()})
        return value[rows] if axis == 0 else value[:, rows]

    return _map_arguments(inputs, one)


def batched(inputs: Inputs, *others: Inputs) -> Inputs:
    """Several batches concatenated along the batch axis."""

    def all_of(name: str) -> Any:
        first, axis = inputs.values[name], _axis(inputs, name)
        values = [first, *(other.values[name] for other in others)]
        if axis is None:
            return first
        if hasattr(first, "x"):
            parts = {
                n: _joined_part(values, n) for n in ("positions", "order", "document", "valid") if getattr(first, n) is not None
            }
            return replace(first, x=torch.cat([v.x for v in values]), counted=None, **parts)
        return torch.cat(values, axis)

    return _map_arguments(inputs, all_of)


def _joined_part(values: list[Any], name: str) -> Tensor:
    """Positions or flags of several Tokens: one for all sequences where they share it, otherwise one for each."""
    own, shared = [getattr(v, name) for v in values], values[0].x.ndim - (1 if name == "positions" else 2)
    if all(t.ndim == shared and torch.equal(t, own[0]) for t in own):
        return own[0]
    return torch.cat([t.expand(v.x.shape[0], *t.shape[t.ndim - shared :]) for v, t in zip(values, own, strict=True)])


def _axis(inputs: Inputs, name: str) -> int | None:
    """The batch axis of an argument; None where it has none."""
    value, size = inputs.values[name], inputs.batch
    if hasattr(value, "x"):
        return 0
    if not isinstance(value, Tensor) or inputs.kinds[name] == "pairs":
        return None
    if inputs.kinds[name] == "adjacency" and value.ndim + pair_axes(value, inputs.length)[0] == 0:
        return None
    axis = 1 if inputs.kinds[name] == "steps" else 0
    return axis if value.ndim > axis and value.shape[axis] == size else None


def _flags(tokens: Any) -> dict[str, Tensor]:
    return {n: f for n in ("order", "document", "valid") if (f := getattr(tokens, n)) is not None and f.ndim > 1}


def _map_arguments(inputs: Inputs, make: Callable[[str], Any]) -> Inputs:
    """Every argument replaced by name; one object passed twice stays one object."""
    arguments: dict[int, Any] = {}
    for name, value in inputs.values.items():
        if id(value) not in arguments:
            arguments[id(value)] = make(name)
    return inputs.with_values({n: arguments[id(v)] for n, v in inputs.values.items()})
