"""Localize: the first module at which a statement breaks.

Both runs are watched from module to module. What goes in and comes out of each is kept as a sketch: its features projected on
a few random directions, so that memory does not grow with the model's width, and an error stays what it was to a factor near
one. A module is the culprit when what it was given is still right, and what it made is not.

For most statements every number inside has to follow, so the first wrong one is the fault. A shift is different: queries and
keys turn, and only their products stay. There the fault lies after the last number that is right.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from equiscope.audit.statements.pairs import RunPair, error
from equiscope.audit.subject import Pass
from equiscope.audit.subject.outputs import flat
from equiscope.program.hooks import hooked
from equiscope.record.audit import Mark
from equiscope.symmetry import Inputs
from equiscope.symmetry.grids import layouts, size_of

WIDTH = 8  # directions of a sketch
RIGHT = 1e-9  # in float64: below it a number inside is right; a fault is far above


@dataclass(frozen=True)
class Event:
    """Something that went into a module or came out of it: sketches of its tensors."""

    module: str
    leaves: bool
    tensors: list[Tensor]


@dataclass(frozen=True)
class BreakLocation:
    """Where it breaks, what kind of step did it, and the error of every module's output on the way."""

    module: str
    trail: list[Mark]
    given: str = ""  # the last thing that was right


def localize(run: Pass, pair: RunPair, inside: bool, other: Inputs | None = None) -> BreakLocation | None:
    """The culprit of one pair; None where the second run is no plain call. other: inputs with other words in the same places."""
    if not isinstance(pair.transformed, Inputs):
        from equiscope.audit.diagnose.localize_cache import localize_cache  # it stands on this file

        return localize_cache(run, pair)
    original, transformed = events(run, pair.original), events(run, pair.transformed)
    elsewhere = events(run, other) if other is not None else original
    if [(e.module, e.leaves) for e in original] != [(e.module, e.leaves) for e in transformed]:
        return None
    told = elsewhere if len(elsewhere) == len(original) else original
    errors = [_error(pair, a, b, None if told is original else c) for a, b, c in zip(original, transformed, told, strict=True)]
    paths = {path: i for i, path in enumerate(dict(run.model.named_modules()))}
    trail = [
        Mark(module=e.module or type(run.model).__name__, error=x, depth=e.module.count("."))
        for e, x in zip(original, errors, strict=True)
        if e.leaves
    ]
    culprit = descend("", original, errors, inside)
    assert culprit in paths
    return BreakLocation(culprit or type(run.model).__name__, trail)


def events(run: Pass, inputs: Inputs) -> list[Event]:
    """What went in and out of every module, in the order of time."""
    found: list[Event] = []
    grid = size_of(inputs, "image") or size_of(inputs, "wave")
    with telling(run.model, lambda path, leaves, value: found.append(Event(path, leaves, _sketches(value, grid)))):
        run.outputs_of(lambda model: inputs.to(run.dtype).call(model))
    return found


def telling(model: nn.Module, seen: Callable[[str, bool, Any], None]) -> AbstractContextManager[None]:
    """Tell `seen` of everything that goes into a module (its path, False, the arguments) and comes out (path, True, the output)."""

    def enter(path: str, _: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if path:
            seen(path, False, [list(args), kwargs])

    return hooked(model.named_modules(), enter, lambda path, _, output: seen(path, True, output))


def _sketches(value: Any, grid: tuple[int, ...]) -> list[Tensor]:
    return [sketch(t, _features(t, grid)) for name, t in flat(unpacked(value)).items() if t.is_floating_point() and t.numel()]


def unpacked(value: Any) -> Any:
    """Tokens as their features; lists as they are."""
    if hasattr(value, "x") and hasattr(value, "positions"):
        return value.x
    if isinstance(value, (list, tuple)):
        return [unpacked(v) for v in value]
    if isinstance(value, dict):
        return {k: unpacked(v) for k, v in value.items()}
    return value


def sketch(t: Tensor, axis: int | None = -1) -> Tensor:
    """The axis of features projected on a few directions, the same for every tensor of that width. Few stay as they are."""
    t = t.detach().cpu().double()
    if axis is None or t.ndim < 3 or t.shape[axis] <= 2 * WIDTH:
        return t.clone()
    generator = torch.Generator().manual_seed(t.shape[axis])
    directions = torch.randn(t.shape[axis], WIDTH, generator=generator, dtype=torch.float64)
    return (t.movedim(axis, -1) @ directions).movedim(-1, axis)


def _features(t: Tensor, grid: tuple[int, ...]) -> int | None:
    """The axis of features: the last one, but that of channels where the last are those of a picture or a sound; None: unclear."""
    found = layouts(tuple(t.shape), grid) if grid else {}
    if not found.keys() & {"map", "wave"}:
        return -1
    return -len(grid) - 1 if len(found) == 1 and t.ndim > len(grid) + 1 else None


def _error(pair: RunPair, original: Event, transformed: Event, other: Event | None) -> float | None:
    """The worst of its tensors; None where none can be compared, or none depends on the words."""
    worst: float | None = None
    if len(original.tensors) != len(transformed.tensors):
        return None
    for i, (a, b) in enumerate(zip(original.tensors, transformed.tensors, strict=True)):
        if other is not None and i < len(other.tensors) and other.tensors[i].shape == a.shape and torch.equal(other.tensors[i], a):
            continue  # it does not depend on the words: a table of places, a mask
        sides = pair.relation.inner(a, b)
        if sides is not None:
            found = error(*sides)
            worst = found if worst is None or found > worst or found != found else worst
    return worst


def descend(path: str, events: list[Event], errors: list[float | None], inside: bool) -> str:
    """The deepest module that was given what is right and made what is wrong."""
    children = [i for i, e in enumerate(events) if e.module and _direct(events, i, path)]
    known = [i for i in children if errors[i] is not None]
    wrong = [i for i in known if not _right(errors[i])]
    if not wrong:
        return path  # all that its parts made is right: the fault is its own, after them
    if inside:
        first = wrong[0]
    else:
        right = [i for i in known if _right(errors[i])]
        last = right[-1] if right else -1
        after = [i for i in wrong if i > last]
        if not after:
            return path
        first = after[0]
    event = events[first]
    if not event.leaves:
        return path  # it was given something wrong: made between the parts, by the whole itself
    start = max(i for i in range(first) if events[i].module == event.module and not events[i].leaves)
    return descend(event.module, events[start + 1 : first], errors[start + 1 : first], inside)


def _direct(events: list[Event], i: int, path: str) -> bool:
    """Whether an event belongs to a module called by this one and not by one of its parts."""
    depth = 0
    for e in events[:i]:
        depth += 1 if not e.leaves else -1
    return depth - (1 if events[i].leaves else 0) == 0


def _right(x: float | None) -> bool:
    return x is not None and x < RIGHT
