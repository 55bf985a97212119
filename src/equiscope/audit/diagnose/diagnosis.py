"""Diagnosis: what breaks is made small, what holds nevertheless is named, and the module where it breaks is found."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Generator

from equiscope.audit.diagnose.lie_derivative import derivative
from equiscope.audit.diagnose.localize import RIGHT, BreakLocation, localize
from equiscope.audit.diagnose.operations import bearer
from equiscope.audit.inputs.variations import resampled
from equiscope.audit.request import Request
from equiscope.audit.statements.pairs import MeasuredPair, RunPair, measure_pair
from equiscope.audit.statements.statement import Symmetry
from equiscope.audit.subject import Crashed, Pass
from equiscope.record import Counterexample, pack
from equiscope.symmetry import Inputs

STORED = 4096  # numbers of a counterexample's inputs that are written down


@dataclass(frozen=True)
class Diagnosis:
    """One pass, looked into. shrink: candidates for a smaller counterexample; over: whether time is."""

    run: Pass
    axes: dict[str, tuple[int, ...]]
    shrink: int
    locating: bool
    over: Callable[[], bool]

    @property
    def border(self) -> float:
        """An error from which on it is worth looking."""
        return RIGHT if self.run.high_precision else 1e-3

    def diagnose(self, request: Request, samples: Sequence[MeasuredPair]) -> None:
        """The smallest counterexample, what holds nevertheless, and where it breaks. samples: all that were measured."""
        assert request.worst is not None
        if request.worst.error != request.worst.error:
            request.cause = f"{request.worst.output or 'the output'} is not finite"
            return
        if request.worst.error == math.inf:
            request.cause = (
                f"{request.worst.output or 'the output'} has another shape than it should, or is 0 where it should not be"
            )
        smallest = self._smallest(request)
        request.counterexample = _example(smallest, request.worst_parameters)
        request.subgroup = self._subgroup(request)
        shown = self._telling(request.worst, smallest, samples)
        if self.locating:
            try:
                request.location = localize(
                    self.run, shown, request.statement.inside, resampled(shown.original, Generator().manual_seed(5))
                )
            except Crashed:
                request.location = None
        request.cause = request.cause or request.statement.cause(
            self.run, shown, request.location.module if request.location else ""
        )
        if request.location is not None and request.location.module == type(self.run.model).__name__:
            request.location = self._within(request.location, shown)

    def _within(self, place: BreakLocation, pair: RunPair) -> BreakLocation:
        """The step of the model itself, named by the parameter that it adds: a position table."""
        other = resampled(pair.original, Generator().manual_seed(5))
        try:
            name = bearer(self.run, pair, self.run.model, other)
        except (Crashed, RuntimeError, ValueError, IndexError, TypeError):  # other people's code, read operation by operation
            name = ""
        return replace(place, module=name) if name else place

    def _telling(self, worst: MeasuredPair, smallest: MeasuredPair, samples: Sequence[MeasuredPair]) -> RunPair:
        """The pair that is followed through the model: the worst one. Where only longer sequences break it, the smallest. Where the
        two runs of the worst differ in length, another whose runs do not, so that every step can be compared."""
        given = self.run.inputs.length or 0
        breaking = [s for s in samples if not s.error < self.border]
        if all((s.pair.original.length or 0) > given for s in breaking) and _one_length(smallest.pair):
            return smallest.pair
        if _one_length(worst.pair) or not isinstance(worst.pair.transformed, Inputs):
            return worst.pair
        alike = [s for s in breaking if _one_length(s.pair)]
        return max(alike, key=lambda s: s.error, default=smallest if _one_length(smallest.pair) else worst).pair

    def _smallest(self, request: Request) -> MeasuredPair:
        worst = request.worst
        assert worst is not None
        for number, pair in enumerate(request.statement.simpler(self.run, worst.pair)):
            if number >= self.shrink or self.over():
                break
            try:
                sample = measure_pair(self.run, pair, self.axes)
            except Crashed:
                continue
            if not sample.error < max(self.border, 1e-3 * worst.error):
                return sample
        return worst

    def _subgroup(self, request: Request) -> str:
        budget = self.shrink
        for words, pairs in request.statement.subgroups(self.run):
            holds, before = bool(pairs), dict(getattr(request.statement, "representations", {}))
            for number, pair in enumerate(pairs):
                if budget <= 0 or self.over():
                    return ""
                budget -= 1
                try:
                    holds = measure_pair(self.run, pair, self.axes).error < self.border
                    if number == 0 and not holds and getattr(request.statement, "ambiguous", False):  # it may move in another way
                        assert isinstance(request.statement, Symmetry)
                        request.statement.infer_representations(self.run, pair, self.axes)
                        holds = measure_pair(self.run, pair, self.axes).error < self.border
                except Crashed:  # a table ends somewhere; what the smaller elements say stands
                    holds = number > 2
                if not holds:
                    break
            if holds:
                return words
            if isinstance(request.statement, Symmetry):
                request.statement.representations.update(before)
        return ""


def _one_length(pair: RunPair) -> bool:
    """Whether both runs read as many tokens, so that what happens inside can be compared step by step."""
    return isinstance(pair.transformed, Inputs) and pair.transformed.length == pair.original.length


def differentiate(run: Pass, request: Request) -> None:
    """Of a continuous group, how fast the statement breaks at the identity."""
    statement = request.statement
    if not isinstance(statement, Symmetry) or not isinstance(statement.action, type) or not statement.is_builtin:
        return
    try:
        request.lie = derivative(run, statement.action, statement.representations)
    except Crashed as crash:
        request.notes.append(f"no Lie derivative: {crash}")
        return
    if request.lie is not None and request.worst is None and not request.lie < RIGHT:
        request.notes.append(f"no sample breaks it, but its Lie derivative is {request.lie:.1e}, not 0")


def _example(sample: MeasuredPair, parameters: str) -> Counterexample:
    inputs = {n: getattr(v, "x", v) for n, v in sample.pair.original.values.items()}
    tensors = {n: v for n, v in inputs.items() if isinstance(v, torch.Tensor)}
    small = sum(t.numel() for t in tensors.values()) <= STORED
    wide = {n: t.double() if t.is_floating_point() else t if t.dtype == torch.bool else t.long() for n, t in tensors.items()}
    packed = {n: pack(t.detach().cpu().numpy()) for n, t in wide.items()} if small else {}
    return Counterexample(
        text=sample.pair.text,
        error=sample.error if math.isfinite(sample.error) else -1.0,
        element=_plain(sample.pair.element),
        inputs=packed,
        parameters=parameters,
    )


def _plain(element: Mapping[str, Any]) -> dict[str, Any]:
    return {n: v.tolist() if isinstance(v, torch.Tensor) else list(v) if isinstance(v, tuple) else v for n, v in element.items()}
