"""Runner: measures all statements at the given and at random parameters, in high and in low precision.

The passes run one after another. Each holds at most one copy of the model, and measures every statement before the next begins.
"""

import time
from collections.abc import Callable

import torch
from torch import Generator

from equiscope.audit.character import is_constant, is_random, overflowing_output
from equiscope.audit.diagnose.diagnosis import Diagnosis, differentiate
from equiscope.audit.diagnose.float32_tables import ROUNDING, explaining_tables
from equiscope.audit.inputs.variations import resampled
from equiscope.audit.report_row import Reporter
from equiscope.audit.request import EFFORTS, Request
from equiscope.audit.statements.pairs import MeasuredPair, error, measure_pair
from equiscope.audit.statements.statement import Screening, Symmetry
from equiscope.audit.subject import ModelError, Pass, Subject
from equiscope.audit.verdict import StatementErrors
from equiscope.record import Row
from equiscope.symmetry.inputs import Inputs
from equiscope.symmetry.measure import PRECISION

FLOAT64_OVER_FLOAT32, FLOAT32_OVER_BFLOAT16 = PRECISION, 2.0**-16  # ratios of the machine epsilons
Progress = Callable[[float, str], None]  # fraction of the check that is done, name of the statement


class Runner:
    """The passes, one after another."""

    def __init__(
        self, subject: Subject, requests: list[Request], effort: str, tolerance: float, deadline: float | None,
        progress: Progress | None, should_stop: Callable[[], bool] | None, localize: bool,
    ) -> None:  # fmt: skip
        self.subject, self.requests, self.tolerance, self.localize = subject, requests, tolerance, localize
        self.effort_name, self.effort = effort, EFFORTS[effort]
        self.deadline = deadline
        self.progress, self.should_stop = progress, should_stop
        self.finished, self.notes, self.done = True, list[str](), 0
        self.steps = 4 * len(requests)
        own_dtype = subject.dtype
        self.high_dtype, self.low_dtype = torch.float64, own_dtype if own_dtype in (torch.float32,) else torch.float32
        self.precision = FLOAT64_OVER_FLOAT32
        self.is_random = self.random_without_dropout = False  # in evaluation mode; and with dropout off too
        self.is_constant: dict[str, bool] = {}

    def rows(self, random: bool) -> list[tuple[Request, Row]]:
        """Every row; statements beyond the time limit are undecided."""
        self.subject.random = random
        pure_first = sorted(self.requests, key=lambda request: request.statement.name != "pure")  # other rows name its findings
        for request in pure_first:
            if not request.missing and not self._out_of_time():
                self._measure_own(request)
        for parameters in ("given", "random") if random else ("given",):
            if not self._measure(parameters):
                break
        return self.finish()

    def finish(self) -> list[tuple[Request, Row]]:
        """Rows of all statements. Properties that do not apply and were not requested by name are left out."""
        reporter = Reporter(self.subject, self.finished, self.is_random, self.random_without_dropout, self.is_constant)
        rows = [(request, reporter.row(request)) for request in self.requests]
        idle = ("undecided", "not applicable")
        return [(request, row) for request, row in rows if request.requested or request.own_row is None or row.verdict not in idle]

    def _pending(self) -> list[Request]:
        return [request for request in self.requests if not request.missing and request.own_row is None and not request.crash]

    def _measure_own(self, request: Request) -> None:
        before = self.subject.passes.total()
        try:
            request.own_row = request.statement.own_row(self.subject, self.tolerance, self.effort.high_samples)
        except ModelError as crash:
            request.crash = str(crash)
        request.passes += self.subject.passes.total() - before

    def _measure(self, parameters: str) -> bool:
        """Measure in both precisions at one set of parameters. False where nothing more can be measured."""
        if not self._pending() or self._out_of_time():
            return False
        random = parameters == "random"
        effort = self.effort
        high_count, low_count = (
            (effort.random_high_samples, effort.random_low_samples) if random else (effort.high_samples, effort.low_samples)
        )
        try:
            run = self._characterize(self._prepare(self.high_dtype, random), random)
        except ModelError as crash:
            return self._fall_back(str(crash), random)
        high = {id(request): self._measure_pairs(run, request, high_count, diagnose=True) for request in self._pending()}
        reference = run(run.inputs)
        del run
        try:
            run = self._prepare(self.low_dtype, random)
            floor = max((error(reference[n], t) for n, t in run(run.inputs).items() if n in reference), default=0.0)
        except ModelError as crash:
            self.notes.append(f"In {_name(self.low_dtype)} the model could not be run: {crash}")
            for request in self._pending():
                request.notes += [] if random else [f"in {_name(self.low_dtype)} {crash}"]
                errors = [s.error for s in high[id(request)]] + request.screened_errors
                setattr(
                    request,
                    f"{parameters}_errors",
                    StatementErrors(errors, [], 0.0, self.tolerance, one_precision=True, high_samples=high[id(request)]),
                )
            return True
        for request in self._pending():
            low = self._measure_pairs(run, request, low_count)
            measured = StatementErrors(
                [s.error for s in high[id(request)]] + request.screened_errors,
                [s.error for s in low],
                floor if floor == floor else 0.0,
                self.tolerance,
                self.precision,
                request.explaining_tables,
                high_samples=high[id(request)],
                low_samples=low,
            )
            request.explaining_tables, request.screened_errors = "", []
            setattr(request, f"{parameters}_errors", measured)
        return True

    def _characterize(self, run: Pass, random: bool) -> Pass:
        """Whether the model is random or constant. A random one is measured with dropout off."""
        if not random and is_random(run):
            self.is_random = self.subject.no_dropout = True
            run = self._prepare(self.high_dtype, False)
            self.random_without_dropout = is_random(run)
        self.is_constant["random" if random else "given"] = is_constant(run)
        if not random and self.subject.dtype not in (self.high_dtype, self.low_dtype):
            try:
                overflowing = overflowing_output(self.subject.in_dtype(self.subject.dtype), run(run.inputs))
            except ModelError:  # not every operation exists in every precision
                overflowing = ""
            for request in self._pending() if overflowing else ():
                request.crash = f"in {_name(self.subject.dtype)}, the model's own precision, {overflowing} is not finite"
        return run

    def _prepare(self, dtype: torch.dtype, random: bool) -> Pass:
        run = self.subject.in_dtype(dtype, random)
        run(run.inputs)
        if random:
            vary_inputs(run)
        self.subject.axes(run)
        return run

    def _fall_back(self, why: str, random: bool) -> bool:
        """The model does not run in the high precision: use the next lower one, if it runs in that."""
        if random:
            self.notes.append(f"At random parameters: {why}.")
            return False
        if self.high_dtype == torch.float32:
            for request in self._pending():
                request.crash = why
            return False
        self.notes.append(f"In {_name(self.high_dtype)} {why}. Measured in float32 and bfloat16 instead.")
        self.high_dtype, self.low_dtype, self.precision = torch.float32, torch.bfloat16, FLOAT32_OVER_BFLOAT16
        return self._measure("given")

    def _measure_pairs(self, run: Pass, request: Request, count: int, diagnose: bool = False) -> list[MeasuredPair]:
        """Errors of one statement. In high precision, a violation is diagnosed at once."""
        if self._out_of_time():
            return []
        start, before = time.perf_counter(), self.subject.passes.total()
        self._report_progress(request.statement.name)
        statement, axes, measured = request.statement, self.subject.axes(run), list[MeasuredPair]()
        generator = Generator().manual_seed(self.subject.seed + 17)
        try:
            screened = statement.screen(run, self.effort_name) if diagnose else Screening()
            pairs = screened.suspects + statement.pairs(run, count, generator)
        except ModelError as crash:
            request.crash = str(crash)
            return []
        if diagnose:
            request.screened_errors = screened.errors
            request.coverage = request.coverage or screened.coverage
            request.inputs_changed = request.inputs_changed or bool(screened.errors)
        for number, pair in enumerate(pairs):
            if self._out_of_time():
                break
            try:
                if isinstance(statement, Symmetry) and (
                    not statement.representations or (number == 0 and run.random and statement.undistinguished)
                ):
                    statement.infer_representations(run, statement.distinguishing_pair(run, pair), axes)
                measured.append(measure_pair(run, pair, axes))
            except ModelError as crash:
                if not any("the model raised" in note for note in request.notes):
                    request.notes.append(f"{pair.text}: {crash}")
                request.rejected = request.rejected or (
                    isinstance(pair.transformed, Inputs) and pair.original.describe() == pair.transformed.describe()
                )
                if number == 0 and len(pairs) == 1:
                    request.crash = str(crash)
        if diagnose:
            request.samples += [s.error for s in measured]
            request.outputs_compared = max([request.outputs_compared, *(s.compared for s in measured)])
            request.inputs_changed = request.inputs_changed or any(s.error > 0 or s.pair.changes_inputs for s in measured)
            self._record_secondary(run, request, measured)
            worst = max(measured, key=lambda s: self.tolerance if s.error != s.error else s.error, default=None)
            if worst is not None and not worst.error < ROUNDING and request.worst is None:
                request.explaining_tables = explaining_tables(run, worst.pair, worst.error)
            if (
                worst is not None
                and not worst.error < self._diagnosis(run, axes).threshold
                and request.worst is None
                and not request.explaining_tables
            ):
                request.worst, request.worst_parameters = worst, "random" if run.random else "given"
                self._diagnosis(run, axes).diagnose(request, measured)
            if measured and not run.random and self.high_dtype == torch.float64:
                differentiate(run, request)
        request.seconds += time.perf_counter() - start
        request.passes += self.subject.passes.total() - before
        self.done += 1
        return measured

    def _record_secondary(self, run: Pass, request: Request, measured: list[MeasuredPair]) -> None:
        """Record whether the outputs that do not decide the verdict satisfy the statement."""
        for sample in measured:
            for name in sample.secondary:
                off = sample.errors[name]
                if off < self._diagnosis(run, {}).threshold:
                    request.secondary.setdefault(name, "")
                elif not request.secondary.get(name):
                    request.secondary[name] = request.statement.explain_secondary(run, sample.pair, name)

    def _diagnosis(self, run: Pass, axes: dict[str, tuple[int, ...]]) -> Diagnosis:
        return Diagnosis(run, axes, self.effort.shrink_steps, self.localize, self._out_of_time)

    def _out_of_time(self) -> bool:
        over = (self.deadline is not None and time.perf_counter() > self.deadline) or (
            self.should_stop is not None and self.should_stop()
        )
        self.finished = self.finished and not over
        return over

    def _report_progress(self, text: str) -> None:
        if self.progress is not None:
            self.progress(min(self.done / max(self.steps, 1), 1.0), text)


def vary_inputs(run: Pass) -> None:
    """At random parameters, replace the inputs by resampled ones, if the model accepts them."""
    original_inputs, generator = run.inputs, Generator().manual_seed(run.subject.seed + 29)
    run.inputs = resampled(run.subject.inputs.to(torch.float32), generator).to(run.dtype)
    try:
        run(run.inputs)
    except ModelError:
        run.inputs = original_inputs


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
