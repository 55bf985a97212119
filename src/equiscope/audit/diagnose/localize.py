"""Localize: the first module at which a statement breaks.

Both runs are recorded module by module. Inputs and outputs of each module are stored as sketches: their features projected on a few
random directions, so that memory does not grow with the width of the model, and errors are preserved up to a factor near one. A
module is the culprit when its inputs satisfy the relation and its outputs do not.

For most statements all tensors inside have to satisfy the relation, so the first that does not is the fault. A shift is different:
queries and keys rotate, and only their products are unchanged. There the fault lies after the last tensor that is right.
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
EXACT = 1e-9  # in float64: a smaller error is rounding; the error of a fault is far larger


@dataclass(frozen=True)
class Event:
    """The input or output of a module, as sketches of its tensors."""

    module: str
    is_output: bool
    tensors: list[Tensor]


@dataclass(frozen=True)
class BreakLocation:
    """The module that breaks the statement, and the error of the output of every module up to it."""

    module: str
    trail: list[Mark]


def localize(run: Pass, pair: RunPair, inside: bool, other: Inputs | None = None) -> BreakLocation | None:
    """The culprit of one pair; None where the second run is not a plain call. other: inputs with other tokens."""
    if not isinstance(pair.transformed, Inputs):
        from equiscope.audit.diagnose.localize_cache import localize_cache  # it imports this file

        return localize_cache(run, pair)
    original, transformed = events(run, pair.original), events(run, pair.transformed)
    other_events = events(run, other) if other is not None else original
    if [(e.module, e.is_output) for e in original] != [(e.module, e.is_output) for e in transformed]:
        return None
    control = other_events if len(other_events) == len(original) else original
    errors = [
        _error(pair, a, b, None if control is original else c) for a, b, c in zip(original, transformed, control, strict=True)
    ]
    paths = {path: i for i, path in enumerate(dict(run.model.named_modules()))}
    trail = [
        Mark(module=e.module or type(run.model).__name__, error=x, depth=e.module.count("."))
        for e, x in zip(original, errors, strict=True)
        if e.is_output
    ]
    culprit = find_culprit("", original, errors, inside)
    assert culprit in paths
    return BreakLocation(culprit or type(run.model).__name__, trail)


def events(run: Pass, inputs: Inputs) -> list[Event]:
    """The inputs and outputs of all modules, in order."""
    events_found: list[Event] = []
    grid = size_of(inputs, "image") or size_of(inputs, "wave")
    with watching_modules(
        run.model, lambda path, is_output, value: events_found.append(Event(path, is_output, _sketches(value, grid)))
    ):
        run.outputs_of(lambda model: inputs.to(run.dtype).call(model))
    return events_found


def watching_modules(model: nn.Module, record: Callable[[str, bool, Any], None]) -> AbstractContextManager[None]:
    """Inside, `record` is called with every input (path, False, arguments) and output (path, True, output) of a module."""

    def enter(path: str, _: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if path:
            record(path, False, [list(args), kwargs])

    return hooked(model.named_modules(), enter, lambda path, _, output: record(path, True, output))


def _sketches(value: Any, grid: tuple[int, ...]) -> list[Tensor]:
    return [sketch(t, _features(t, grid)) for name, t in flat(features_of(value)).items() if t.is_floating_point() and t.numel()]


def features_of(value: Any) -> Any:
    """The features of Tokens; lists and dicts item by item."""
    if hasattr(value, "x") and hasattr(value, "positions"):
        return value.x
    if isinstance(value, (list, tuple)):
        return [features_of(v) for v in value]
    if isinstance(value, dict):
        return {k: features_of(v) for k, v in value.items()}
    return value


def sketch(t: Tensor, axis: int | None = -1) -> Tensor:
    """The features projected on a few directions, equal for all tensors of that width. A few features stay as they are."""
    t = t.detach().cpu().double()
    if axis is None or t.ndim < 3 or t.shape[axis] <= 2 * WIDTH:
        return t.clone()
    generator = torch.Generator().manual_seed(t.shape[axis])
    directions = torch.randn(t.shape[axis], WIDTH, generator=generator, dtype=torch.float64)
    return (t.movedim(axis, -1) @ directions).movedim(-1, axis)


def _features(t: Tensor, grid: tuple[int, ...]) -> int | None:
    """The axis of features: the last, or that of channels in a picture or a sound; None where it is unclear."""
    known_layouts = layouts(tuple(t.shape), grid) if grid else {}
    if not known_layouts.keys() & {"map", "wave"}:
        return -1
    return -len(grid) - 1 if len(known_layouts) == 1 and t.ndim > len(grid) + 1 else None


def _error(pair: RunPair, original: Event, transformed: Event, other: Event | None) -> float | None:
    """The worst error of its tensors; None where none can be compared, or none depends on the tokens."""
    worst: float | None = None
    if len(original.tensors) != len(transformed.tensors):
        return None
    for i, (a, b) in enumerate(zip(original.tensors, transformed.tensors, strict=True)):
        if other is not None and i < len(other.tensors) and other.tensors[i].shape == a.shape and torch.equal(other.tensors[i], a):
            continue  # it does not depend on the tokens: a table of positions, a mask
        sides = pair.relation.inner(a, b)
        if sides is not None:
            size = error(*sides)
            worst = size if worst is None or size > worst or size != size else worst
    return worst


def find_culprit(path: str, events: list[Event], errors: list[float | None], inside: bool) -> str:
    """The deepest module whose inputs are right and whose outputs are wrong."""
    children = [i for i, e in enumerate(events) if e.module and _direct(events, i, path)]
    comparable = [i for i in children if errors[i] is not None]
    violations = [i for i in comparable if not _is_right(errors[i])]
    if not violations:
        return path  # the outputs of its submodules are right: the fault is its own, after them
    if inside:
        first = violations[0]
    else:
        right = [i for i in comparable if _is_right(errors[i])]
        last = right[-1] if right else -1
        after = [i for i in violations if i > last]
        if not after:
            return path
        first = after[0]
    event = events[first]
    if not event.is_output:
        return path  # its input is wrong: the fault lies between the submodules
    start = max(i for i in range(first) if events[i].module == event.module and not events[i].is_output)
    return find_culprit(event.module, events[start + 1 : first], errors[start + 1 : first], inside)


def _direct(events: list[Event], i: int, path: str) -> bool:
    """Whether an event belongs to a direct submodule of this module."""
    depth = 0
    for e in events[:i]:
        depth += 1 if not e.is_output else -1
    return depth - (1 if events[i].is_output else 0) == 0


def _is_right(x: float | None) -> bool:
    return x is not None and x < EXACT
