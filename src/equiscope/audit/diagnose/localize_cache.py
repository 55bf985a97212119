"""Localize in a cache: where reading with a cache first gives something else than one pass.

The model is called once and then once a piece. What a module made in the pieces is joined along the axis of tokens, and compared
with what it made in the one pass; places, which are whole numbers, too.
"""

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from equiscope.audit.diagnose.localize import BreakLocation, Event, descend, sketch, telling, unpacked
from equiscope.audit.statements.pairs import RunPair, error
from equiscope.audit.subject import Pass
from equiscope.audit.subject.outputs import flat
from equiscope.record.audit import Mark


@dataclass(frozen=True)
class Seen(Event):
    """An event with its tensors by name: a module that is given a cache has more of them."""

    named: dict[str, Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class Joined:
    """The one pass, event by event, beside the pieces. errors: of each event; None where nothing can be joined."""

    whole: list[Seen]
    parts: list[list[Seen]]
    errors: list[float | None]


def localize_cache(run: Pass, pair: RunPair) -> BreakLocation | None:
    """The culprit; None where the pieces call other modules than the whole."""
    found = joined(run, pair)
    if found is None:
        return None
    root = type(run.model).__name__
    trail = [
        Mark(module=e.module or root, error=x, depth=e.module.count("."))
        for e, x in zip(found.whole, found.errors, strict=True)
        if e.leaves
    ]
    return BreakLocation(descend("", list(found.whole), found.errors, True) or root, trail)


def joined(run: Pass, pair: RunPair) -> Joined | None:
    """Both readings, watched."""
    sizes = pair.element.get("pieces")
    if not sizes:
        return None
    whole = _watched(run, lambda model: pair.original.to(run.dtype).call(model))
    read = _watched(run, pair.transformed)
    ends = [i for i, e in enumerate(read) if not e.module]
    parts = [read[a + 1 : b + 1] for a, b in zip([-1, *ends], ends, strict=False)]
    shape = [(e.module, e.leaves) for e in whole]
    if len(parts) != len(sizes) or any([(e.module, e.leaves) for e in part] != shape for part in parts):
        return None
    errors = [_error(whole[i], [part[i] for part in parts], sizes) for i in range(len(whole))]
    return Joined(whole, parts, errors)


def joins(whole: Tensor, parts: list[Tensor], sizes: list[int]) -> Tensor | None:
    """Pieces side by side along the axis where their sizes are those of the pieces; of what grows, the last."""
    n, ends = sum(sizes), [sum(sizes[: i + 1]) for i in range(len(sizes))]
    for axis in [a - whole.ndim if a < 0 else a for a in range(whole.ndim)]:
        if any(p.ndim != whole.ndim for p in parts) or whole.shape[axis] != n:
            continue
        beside = {(*p.shape[:axis], *p.shape[axis + 1 :]) for p in parts}
        if [p.shape[axis] for p in parts] == sizes and len(beside) == 1:
            return torch.cat(parts, axis)
        if [p.shape[axis] for p in parts] == ends:
            return parts[-1]
    return None


def _error(whole: Seen, parts: list[Seen], sizes: list[int]) -> float | None:
    worst: float | None = None
    for name, t in whole.named.items():
        if not all(name in part.named for part in parts):
            continue
        made = joins(t, [part.named[name] for part in parts], sizes)
        if made is not None and made.shape == t.shape:
            found = error(t, made)
            worst = found if worst is None or not found <= worst else worst
    return worst


def _watched(run: Pass, call: Any) -> list[Seen]:
    found: list[Seen] = []

    def note(path: str, leaves: bool, value: Any) -> None:
        named = {n: sketch(t) for n, t in flat(unpacked(value)).items() if t.numel() and t.dtype != torch.bool}
        found.append(Seen(path, leaves, [], named))

    with telling(run.model, note):
        run.outputs_of(call)
    return found


__all__ = ["Joined", "joined", "joins", "localize_cache"]
