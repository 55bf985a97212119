"""Diagnosis: shrink a counterexample, name what still holds, and find the module that breaks the statement."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Generator

from equiscope.audit.diagnose.lie_derivative import derivative
from equiscope.audit.diagnose.localize import EXACT, BreakLocation, localize
from equiscope.audit.diagnose.operations import responsible_parameter
from equiscope.audit.inputs.variations import resampled
from equiscope.audit.request import Request
from equiscope.audit.statements.pairs import MeasuredPair, RunPair, measure_pair
from equiscope.audit.statements.statement import Symmetry
from equiscope.audit.subject import ModelError, Pass
from equiscope.record import Counterexample, pack
from equiscope.symmetry import Inputs

STORED = 4096  # larger inputs of a counterexample are not stored


@dataclass(frozen=True)
class Diagnosis:
    """The diagnosis of violations in one pass.

    shrink_steps  candidates for a smaller counterexample
    localizing    whether to find the module
    out_of_time   whether the time limit has passed
    """

    run: Pass
    axes: dict[str, tuple[int, ...]]
    shrink_steps: int
    localizing: bool
    out_of_time: Callable[[], bool]

    @property
    def threshold(self) -> float:
        """Smaller errors are not diagnosed."""
        return EXACT if self.run.high_precision else 1e-3

    def diagnose(self, request: Request, samples: Sequence[MeasuredPair]) -> None:
        """Set the smallest counterexample, what still holds, and where the statement breaks. samples: all that were measured."""
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
        followed = self._followed_pair(request.worst, smallest, samples)
        if self.localizing:
            try:
                request.location = localize(
                    self.run, followed, request.statement.inside, resampled(followed.original, Generator().manual_seed(5))
                )
            except ModelError:
                request.location = None
        request.cause = request.cause or request.statement.cause(
            self.run, followed, request.location.module if request.location else ""
        )
        if request.location is not None and request.location.module == type(self.run.model).__name__:
            request.location = self._name_parameter(request.location, followed)

    def _name_parameter(self, location: BreakLocation, pair: RunPair) -> BreakLocation:
        """Where the whole model breaks the statement: the parameter that it adds there, such as a position table."""
        other = resampled(pair.original, Generator().manual_seed(5))
        try:
            name = responsible_parameter(self.run, pair, self.run.model, other)
        except (ModelError, RuntimeError, ValueError, IndexError, TypeError):  # user code, recorded operation by operation
            name = ""
        return replace(location, module=name) if name else location

    def _followed_pair(self, worst: MeasuredPair, smallest: MeasuredPair, samples: Sequence[MeasuredPair]) -> RunPair:
        """The pair that is followed through the model: the worst one; the smallest where only longer sequences break the statement;
        and where the two runs of the worst differ in length, another whose runs do not, so that every step can be compared."""
        length = self.run.inputs.length or 0
        breaking = [s for s in samples if not s.error < self.threshold]
        if all((s.pair.original.length or 0) > length for s in breaking) and _same_length(smallest.pair):
            return smallest.pair
        if _same_length(worst.pair) or not isinstance(worst.pair.transformed, Inputs):
            return worst.pair
        same_length = [s for s in breaking if _same_length(s.pair)]
        return max(same_length, key=lambda s: s.error, default=smallest if _same_length(smallest.pair) else worst).pair

    def _smallest(self, request: Request) -> MeasuredPair:
        worst = request.worst
        assert worst is not None
        for number, pair in enumerate(request.statement.simpler(self.run, worst.pair)):
            if number >= self.shrink_steps or self.out_of_time():
                break
            try:
                sample = measure_pair(self.run, pair, self.axes)
            except ModelError:
                continue
            if not sample.error < max(self.threshold, 1e-3 * worst.error):
                return sample
        return worst

    def _subgroup(self, request: Request) -> str:
        budget = 2 * self.shrink_steps
        for words, pairs in request.statement.subgroups(self.run):
            holds, before = bool(pairs), dict(getattr(request.statement, "representations", {}))
            for number, pair in enumerate(pairs):
                if budget <= 0 or self.out_of_time():
                    return ""
                budget -= 1
                try:
                    holds = measure_pair(self.run, pair, self.axes).error < self.threshold
                    if (
                        number == 0 and not holds and getattr(request.statement, "ambiguous", False)
                    ):  # it may transform in another way
                        assert isinstance(request.statement, Symmetry)
                        request.statement.infer_representations(self.run, pair, self.axes)
                        holds = measure_pair(self.run, pair, self.axes).error < self.threshold
                except ModelError:  # a table has ended; the smaller elements have decided
                    holds = number > 2
                if not holds:
                    break
            if holds:
                return words
            if isinstance(request.statement, Symmetry):
                request.statement.representations.update(before)
        return ""


def _same_length(pair: RunPair) -> bool:
    """Whether both runs have the same number of tokens, so that all steps inside can be compared."""
    return isinstance(pair.transformed, Inputs) and pair.transformed.length == pair.original.length


def differentiate(run: Pass, request: Request) -> None:
    """For a continuous group, set how fast the statement breaks at the identity."""
    statement = request.statement
    if not isinstance(statement, Symmetry) or not isinstance(statement.action, type) or not statement.is_builtin:
        return
    try:
        request.lie_derivative = derivative(run, statement.action, statement.representations)
    except ModelError as crash:
        request.notes.append(f"no Lie derivative: {crash}")
        return
    if request.lie_derivative is not None and request.worst is None and not request.lie_derivative < EXACT:
        request.notes.append(f"no sample breaks it, but its Lie derivative is {request.lie_derivative:.1e}, not 0")


def _example(sample: MeasuredPair, parameters: str) -> Counterexample:
    inputs = {n: getattr(v, "x", v) for n, v in sample.pair.original.values.items()}
    tensors = {n: v for n, v in inputs.items() if isinstance(v, torch.Tensor)}
    small = sum(t.numel() for t in tensors.values()) <= STORED
    float64_inputs = {
        n: t.double() if t.is_floating_point() else t if t.dtype == torch.bool else t.long() for n, t in tensors.items()
    }
    arrays = {n: pack(t.detach().cpu().numpy()) for n, t in float64_inputs.items()} if small else {}
    return Counterexample(
        text=sample.pair.text,
        error=sample.error if math.isfinite(sample.error) else -1.0,
        element=_plain(sample.pair.element),
        inputs=arrays,
        parameters=parameters,
    )


def _plain(element: Mapping[str, Any]) -> dict[str, Any]:
    return {n: v.tolist() if isinstance(v, torch.Tensor) else list(v) if isinstance(v, tuple) else v for n, v in element.items()}
