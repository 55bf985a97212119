"""Runner: the model at given and at random parameters, in a wide and a narrow precision, one after another.

Each pass keeps one copy of the model at most, and measures every statement before the next one begins.
"""

import time
from collections.abc import Callable

import torch
from torch import Generator

from equiscope.audit.character import constant, draws, overflows
from equiscope.audit.diagnose.diagnosis import Diagnosis, differentiate
from equiscope.audit.diagnose.float32_tables import SMALL, explained
from equiscope.audit.inputs.variations import varied
from equiscope.audit.report_row import Reporter
from equiscope.audit.request import EFFORTS, Request
from equiscope.audit.statements.pairs import Sample, error, measured
from equiscope.audit.statements.statement import Screening, Symmetry
from equiscope.audit.subject import Crashed, Pass, Subject
from equiscope.audit.verdict import Found
from equiscope.record import Row
from equiscope.symmetry.inputs import Inputs
from equiscope.symmetry.measure import PRECISION

NARROW32, NARROW16 = PRECISION, 2.0**-16  # float64 over float32; float32 over bfloat16
Progress = Callable[[float, str], None]  # share done, what is being done


class Runner:
    """The passes, one after another."""

    def __init__(
        self, subject: Subject, requests: list[Request], effort: str, tolerance: float, until: float | None,
        progress: Progress | None, stop: Callable[[], bool] | None, locating: bool,
    ) -> None:  # fmt: skip
        self.subject, self.requests, self.tolerance, self.locating = subject, requests, tolerance, locating
        self.effort_name, self.effort = effort, EFFORTS[effort]
        self.until = until
        self.progress, self.stop = progress, stop
        self.finished, self.notes, self.done = True, list[str](), 0
        self.steps = 4 * len(requests)
        own = subject.dtype
        self.wide, self.narrow = torch.float64, own if own in (torch.float32,) else torch.float32
        self.precision = NARROW32
        self.draws = self.restless = False  # random numbers in evaluation; and even without dropout
        self.constant: dict[str, bool] = {}

    def rows(self, random: bool) -> list[tuple[Request, Row]]:
        """Every row; those that time did not allow are undecided."""
        self.subject.random = random
        for one in sorted(self.requests, key=lambda one: one.statement.name != "pure"):  # the others' rows name its findings
            if not one.why_not and not self._over():
                self._own(one)
        for parameters in ("given", "random") if random else ("given",):
            if not self._measured(parameters):
                break
        return self.concluded()

    def concluded(self) -> list[tuple[Request, Row]]:
        """Rows of all statements; what could not be asked of this model and was not asked for by name is left out."""
        reporter = Reporter(self.subject, self.finished, self.draws, self.restless, self.constant)
        rows = [(one, reporter.row(one)) for one in self.requests]
        idle = ("undecided", "not applicable")
        return [(one, row) for one, row in rows if one.requested or one.row is None or row.verdict not in idle]

    def _open(self) -> list[Request]:
        return [one for one in self.requests if not one.why_not and one.row is None and not one.crashed]

    def _own(self, one: Request) -> None:
        before = self.subject.passes.total()
        try:
            one.row = one.statement.own(self.subject, self.tolerance, self.effort.wide)
        except Crashed as crash:
            one.crashed = str(crash)
        one.passes += self.subject.passes.total() - before

    def _measured(self, parameters: str) -> bool:
        """Both precisions at one set of parameters. False where nothing more can be done."""
        if not self._open() or self._over():
            return False
        random = parameters == "random"
        counts = (self.effort.random_wide, self.effort.random_narrow) if random else (self.effort.wide, self.effort.narrow)
        try:
            run = self._known(self._ready(self.wide, random), random)
        except Crashed as crash:
            return self._without(str(crash), random)
        wide = {id(one): self._samples(run, one, counts[0], look=True) for one in self._open()}
        reference = run(run.inputs)
        del run
        try:
            run = self._ready(self.narrow, random)
            floor = max((error(reference[n], t) for n, t in run(run.inputs).items() if n in reference), default=0.0)
        except Crashed as crash:
            self.notes.append(f"In {_name(self.narrow)} it could not be run: {crash}")
            for one in self._open():
                one.notes += [] if random else [f"in {_name(self.narrow)} {crash}"]
                errors = [s.error for s in wide[id(one)]] + one.screened
                setattr(one, parameters, Found(errors, [], 0.0, self.tolerance, alone=True, samples=wide[id(one)]))
            return True
        for one in self._open():
            narrow = self._samples(run, one, counts[1])
            found = Found(
                [s.error for s in wide[id(one)]] + one.screened,
                [s.error for s in narrow],
                floor if floor == floor else 0.0,
                self.tolerance,
                self.precision,
                one.tables,
                samples=wide[id(one)],
                narrow_samples=narrow,
            )
            one.tables, one.screened = "", []
            setattr(one, parameters, found)
        return True

    def _known(self, run: Pass, random: bool) -> Pass:
        """What the model is like. One that draws random numbers is read without its dropout."""
        if not random and draws(run):
            self.draws = self.subject.no_dropout = True
            run = self._ready(self.wide, False)
            self.restless = draws(run)
        self.constant["random" if random else "given"] = constant(run)
        if not random and self.subject.dtype not in (self.wide, self.narrow):
            try:
                lost = overflows(self.subject.at(self.subject.dtype), run(run.inputs))
            except Crashed:  # not every operation is there in every precision
                lost = ""
            for one in self._open() if lost else ():
                one.crashed = f"in {_name(self.subject.dtype)}, in which the model is, {lost} is not finite"
        return run

    def _ready(self, dtype: torch.dtype, random: bool) -> Pass:
        run = self.subject.at(dtype, random)
        run(run.inputs)
        if random:
            other_words(run)
        self.subject.axes(run)
        return run

    def _without(self, why: str, random: bool) -> bool:
        """The wide precision cannot be had: one narrower, if the model itself runs."""
        if random:
            self.notes.append(f"At random parameters: {why}.")
            return False
        if self.wide == torch.float32:
            for one in self._open():
                one.crashed = why
            return False
        self.notes.append(f"In {_name(self.wide)} {why}. Measured in float32 and bfloat16 instead.")
        self.wide, self.narrow, self.precision = torch.float32, torch.bfloat16, NARROW16
        return self._measured("given")

    def _samples(self, run: Pass, one: Request, count: int, look: bool = False) -> list[Sample]:
        """Errors of one statement; in the wide precision, what looks wrong is looked into at once."""
        if self._over():
            return []
        begun, before = time.perf_counter(), self.subject.passes.total()
        self._tell(one.statement.name)
        statement, axes, found = one.statement, self.subject.axes(run), list[Sample]()
        generator = Generator().manual_seed(self.subject.seed + 17)
        try:
            screened = statement.screen(run, self.effort_name) if look else Screening()
            pairs = screened.suspects + statement.pairs(run, count, generator)
        except Crashed as crash:
            one.crashed = str(crash)
            return []
        if look:
            one.screened = screened.errors
            one.coverage = one.coverage or screened.coverage
            one.moving = one.moving or bool(screened.errors)
        for number, pair in enumerate(pairs):
            if self._over():
                break
            try:
                if isinstance(statement, Symmetry) and (not statement.found or (number == 0 and run.random and statement.open)):
                    statement.settle(run, statement.telling(run, pair), axes)
                found.append(measured(run, pair, axes))
            except Crashed as crash:
                if not any("the model raised" in note for note in one.notes):
                    one.notes.append(f"{pair.text}: {crash}")
                one.refused = one.refused or (isinstance(pair.moved, Inputs) and pair.plain.told() == pair.moved.told())
                if number == 0 and len(pairs) == 1:
                    one.crashed = str(crash)
        if look:
            one.samples += [s.error for s in found]
            one.compared = max([one.compared, *(s.compared for s in found)])
            one.moving = one.moving or any(s.error > 0 or s.pair.moves for s in found)
            self._aside(run, one, found)
            worst = max(found, key=lambda s: self.tolerance if s.error != s.error else s.error, default=None)
            if worst is not None and not worst.error < SMALL and one.worst is None:
                one.tables = explained(run, worst.pair, worst.error)
            if worst is not None and not worst.error < self._diagnosis(run, axes).border and one.worst is None and not one.tables:
                one.worst, one.at = worst, "random" if run.random else "given"
                self._diagnosis(run, axes).diagnose(one, found)
            if found and not run.random and self.wide == torch.float64:
                differentiate(run, one)
        one.seconds += time.perf_counter() - begun
        one.passes += self.subject.passes.total() - before
        self.done += 1
        return found

    def _aside(self, run: Pass, one: Request, found: list[Sample]) -> None:
        """What outputs that do not decide do where the others hold."""
        for sample in found:
            for name in sample.aside:
                off = sample.outputs[name]
                if off < self._diagnosis(run, {}).border:
                    one.aside.setdefault(name, "")
                elif not one.aside.get(name):
                    one.aside[name] = one.statement.aside(run, sample.pair, name)

    def _diagnosis(self, run: Pass, axes: dict[str, tuple[int, ...]]) -> Diagnosis:
        return Diagnosis(run, axes, self.effort.shrink, self.locating, self._over)

    def _over(self) -> bool:
        over = (self.until is not None and time.perf_counter() > self.until) or (self.stop is not None and self.stop())
        self.finished = self.finished and not over
        return over

    def _tell(self, text: str) -> None:
        if self.progress is not None:
            self.progress(min(self.done / max(self.steps, 1), 1.0), text)


def other_words(run: Pass) -> None:
    """At random parameters other inputs are read too, drawn like the given ones, if the model takes them."""
    given, generator = run.inputs, Generator().manual_seed(run.subject.seed + 29)
    run.inputs = varied(run.subject.inputs.to(torch.float32), generator).to(run.dtype)
    try:
        run(run.inputs)
    except Crashed:
        run.inputs = given


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
