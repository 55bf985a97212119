"""Localize in a cache: the first module whose outputs with a cache differ from those of one pass.

The model is called once for all tokens, and then once for each piece. The outputs of a module for the pieces are joined along the
axis of tokens and compared with those of the single pass; positions, which are integers, too.
"""

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from equiscope.audit.diagnose.localize import BreakLocation, Event, features_of, find_culprit, sketch, watching_modules
from equiscope.audit.statements.pairs import RunPair, error
from equiscope.audit.subject import Pass
from equiscope.audit.subject.outputs import flat
from equiscope.record.audit import Mark


@dataclass(frozen=True)
class NamedEvent(Event):
    """An event with its tensors by name: a module with a cache among its arguments has more of them."""

    named: dict[str, Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class PieceComparison:
    """The single pass and the pieces, event by event. errors: of each event; None where nothing can be joined."""

    single_pass: list[NamedEvent]
    pieces: list[list[NamedEvent]]
    errors: list[float | None]


def localize_cache(run: Pass, pair: RunPair) -> BreakLocation | None:
    """The culprit; None where the pieces call other modules than the single pass."""
    comparison = compare_pieces(run, pair)
    if comparison is None:
        return None
    root = type(run.model).__name__
    trail = [
        Mark(module=e.module or root, error=x, depth=e.module.count("."))
        for e, x in zip(comparison.single_pass, comparison.errors, strict=True)
        if e.is_output
    ]
    return BreakLocation(find_culprit("", list(comparison.single_pass), comparison.errors, True) or root, trail)


def compare_pieces(run: Pass, pair: RunPair) -> PieceComparison | None:
    """Record both runs and compare them; None where they call different modules."""
    sizes = pair.element.get("pieces")
    if not sizes:
        return None
    single_pass = _record_run(run, lambda model: pair.original.to(run.dtype).call(model))
    cached = _record_run(run, pair.transformed)
    ends = [i for i, e in enumerate(cached) if not e.module]
    pieces = [cached[a + 1 : b + 1] for a, b in zip([-1, *ends], ends, strict=False)]
    shape = [(e.module, e.is_output) for e in single_pass]
    if len(pieces) != len(sizes) or any([(e.module, e.is_output) for e in part] != shape for part in pieces):
        return None
    errors = [_error(single_pass[i], [part[i] for part in pieces], sizes) for i in range(len(single_pass))]
    return PieceComparison(single_pass, pieces, errors)


def join_pieces(single_pass: Tensor, pieces: list[Tensor], sizes: list[int]) -> Tensor | None:
    """The pieces concatenated along the axis whose sizes are those of the pieces; the last one where the sizes accumulate."""
    n, ends = sum(sizes), [sum(sizes[: i + 1]) for i in range(len(sizes))]
    for axis in [a - single_pass.ndim if a < 0 else a for a in range(single_pass.ndim)]:
        if any(p.ndim != single_pass.ndim for p in pieces) or single_pass.shape[axis] != n:
            continue
        other_shapes = {(*p.shape[:axis], *p.shape[axis + 1 :]) for p in pieces}
        if [p.shape[axis] for p in pieces] == sizes and len(other_shapes) == 1:
            return torch.cat(pieces, axis)
        if [p.shape[axis] for p in pieces] == ends:
            return pieces[-1]
    return None


def _error(single_pass: NamedEvent, pieces: list[NamedEvent], sizes: list[int]) -> float | None:
    worst: float | None = None
    for name, t in single_pass.named.items():
        if not all(name in part.named for part in pieces):
            continue
        joined = join_pieces(t, [part.named[name] for part in pieces], sizes)
        if joined is not None and joined.shape == t.shape:
            comparison = error(t, joined)
            worst = comparison if worst is None or not comparison <= worst else worst
    return worst


def _record_run(run: Pass, call: Any) -> list[NamedEvent]:
    comparison: list[NamedEvent] = []

    def record(path: str, is_output: bool, value: Any) -> None:
        named = {n: sketch(t) for n, t in flat(features_of(value)).items() if t.numel() and t.dtype != torch.bool}
        comparison.append(NamedEvent(path, is_output, [], named))

    with watching_modules(run.model, record):
        run.outputs_of(call)
    return comparison


__all__ = ["PieceComparison", "compare_pieces", "join_pieces", "localize_cache"]
