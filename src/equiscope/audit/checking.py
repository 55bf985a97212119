"""Check: which statements hold for a model, with evidence.

One model, four passes: at the given parameters in float64 and in the model's own precision, then at random parameters in both,
since a table that begins at zero hides what it can do. Each keeps one copy of the model at most.
"""

import math
import platform
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Generator, nn

from equiscope import __version__
from equiscope.audit.adapt import completed
from equiscope.audit.character import constant, draws, overflows, sound
from equiscope.audit.examples import varied
from equiscope.audit.heard import tell
from equiscope.audit.lie import derivative
from equiscope.audit.pairs import Moved, Pair, Sample, error, measured
from equiscope.audit.proof.compared import with_proofs
from equiscope.audit.properties import PROPERTIES
from equiscope.audit.statement import Output, Statement, Symmetry
from equiscope.audit.subject import Crashed, Pass, Subject, arguments
from equiscope.audit.tables import SMALL, explained
from equiscope.audit.verdicts import BAD, Found, bound, median
from equiscope.audit.where import RIGHT, Place, locate
from equiscope.errors import InputError, UnknownName
from equiscope.record import Audit, Counterexample, Row, pack
from equiscope.symmetry import ACTIONS, Action, inputs_of
from equiscope.symmetry.inputs import Inputs
from equiscope.symmetry.measure import PRECISION, TOLERANCE


@dataclass(frozen=True)
class Effort:
    """Samples of each statement: in float64 and in the narrower precision, at given and at random parameters; and how many
    candidates are tried for a smallest counterexample."""

    wide: int
    narrow: int
    random_wide: int
    random_narrow: int
    shrink: int


EFFORTS = {
    "quick": Effort(4, 2, 2, 1, 6), "default": Effort(8, 4, 4, 2, 12), "thorough": Effort(64, 16, 32, 8, 200),
}  # fmt: skip
NARROW32, NARROW16 = PRECISION, 2.0**-16  # float64 over float32; float32 over bfloat16
Progress = Callable[[float, str], None]  # share done, what is being done
STORED = 4096  # numbers of a counterexample's inputs that are written down


def check(
    model: nn.Module, *inputs: Any, kwargs: Mapping[str, Any] | None = None, actions: Sequence[Any] | None = None,
    properties: Sequence[Any] | None = None, output: Output = None, kinds: Mapping[str, str] | None = None,
    pick: str | tuple[str, ...] | Callable[[Any], Any] | None = None, mode: str = "eval", effort: str = "default",
    tolerance: float = TOLERANCE, seed: int = 0, seconds: float | None = None, progress: Progress | None = None,
    stop: Callable[[], bool] | None = None, random: bool = True, locating: bool = True, target: str = "",
    proof: bool | None = None,
) -> Audit:  # fmt: skip
    """Which symmetries and properties a model has, measured.

    inputs      what the model is called with, as in `model(*inputs, **kwargs)`
    actions     names, Action classes or elements, or a user's own class with sample, on_input, on_output; None: those that act on
                these inputs
    properties  names or classes; None: those that can be asked of this model
    output      how outputs move: "invariant", "permuted", "vector", ... for all, or by name; None finds out
    kinds       argument -> what it is ("ids", "features", "image", "points", ...), where the guess would be wrong
    pick        which outputs are compared: a name, several, or a function of what the model returns
    mode        "eval", or "train" (dropout off)
    effort      quick, default or thorough: how many samples
    tolerance   a violation below it is called approximate
    seconds     stop after so long; what was not reached is undecided. stop: asked between two steps
    random      also at random parameters
    proof       try to prove permute, causal and batch on the graph of operations; None: for up to 10 million parameters
    raises      UnknownName for a name that is not listed, InputError for what cannot be checked at all
    """
    begun = time.perf_counter()
    if effort not in EFFORTS:
        raise UnknownName("effort", effort, list(EFFORTS))
    if mode not in ("eval", "train"):
        raise UnknownName("mode", mode, ["eval", "train"])
    if not isinstance(model, nn.Module):
        raise InputError(f"A check takes a torch.nn.Module, but got {type(model).__name__}.")
    model = getattr(model, "_orig_mod", model)
    sound(model, inputs, kwargs or {})
    subject = Subject(model, completed(model, inputs_of(inputs, kwargs, arguments(model), kinds)), pick, mode, seed)
    asked = _asked(subject, actions, properties, output)
    work = _Work(subject, asked, EFFORTS[effort], tolerance, seconds, progress, stop, locating)
    try:
        rows = work.rows(random)
        finished = work.finished
    except KeyboardInterrupt:
        rows, finished = work.concluded(), False
    rows, disagreements = with_proofs(rows, subject, proof if output is None else False, finished)
    return tell(Audit(
        target=target or type(model).__name__, model=type(model).__name__, parameters=sum(p.numel() for p in model.parameters()),
        dtype=str(subject.dtype).removeprefix("torch."), device=_device(model), inputs=subject.inputs.told(), rows=rows, seed=seed,
        effort=effort, tolerance=tolerance, passes=dict(subject.passes), seconds=time.perf_counter() - begun, finished=finished,
        versions={"equiscope": __version__, "torch": str(torch.__version__), "python": platform.python_version()}, notes=disagreements + subject.notes + work.notes,
    ))  # fmt: skip


@dataclass
class _Asked:
    """A statement to check. requested: by name, so that it makes the check fail where it does not hold."""

    statement: Statement
    requested: bool
    why_not: str = ""
    given: Found | None = None
    random: Found | None = None
    samples: list[float] = field(default_factory=list)
    worst: Sample | None = None  # that which is looked into, measured in the wide precision
    at: str = "given"
    small: Counterexample | None = None
    place: Place | None = None
    subgroup: str = ""
    cause: str = ""
    lie: float | None = None
    row: Row | None = None  # of a property that measures in its own way
    crashed: str = ""
    refused: bool = False  # whether the model raised on moved inputs of the very shape that it took
    notes: list[str] = field(default_factory=list)
    compared: int = 0
    moving: bool = False  # whether some pair gave the second run anything else than the first
    tables: str = ""  # that explain the error of the pass under way
    seconds: float = 0.0
    passes: int = 0


def _asked(subject: Subject, actions: Sequence[Any] | None, properties: Sequence[Any] | None, output: Output) -> list[_Asked]:
    """Statements in the order of the report: properties first. With neither list given, all that can be asked."""
    made = []
    known = {p.name: p for p in PROPERTIES}
    if properties is not None or actions is None:
        for one in known.values() if properties is None else properties:
            if isinstance(one, str):
                if one not in known:
                    raise UnknownName("property", one, list(known))
                one = known[one]
            made.append(_Asked(one() if isinstance(one, type) else one, properties is not None))
    if actions is not None or properties is None:
        for one in [a for a in ACTIONS if a.usual] if actions is None else actions:
            made.append(_Asked(Symmetry(_action(one), output), actions is not None))
    for one in made:
        one.why_not = one.statement.missing(subject)
    return [one for one in made if one.requested or not one.why_not]


def _action(one: Any) -> Any:
    if isinstance(one, str):
        found = next((a for a in ACTIONS if a.name == one), None)
        if found is None:
            raise UnknownName("action", one, [a.name for a in ACTIONS])
        return found
    if not hasattr(one, "on_input"):
        raise InputError(f"An action is a name, or a class with sample, on_input and on_output, but got {one!r}.")
    return one


class _Work:
    """The passes, one after another."""

    def __init__(
        self, subject: Subject, asked: list[_Asked], effort: Effort, tolerance: float, seconds: float | None, progress: Progress | None,
        stop: Callable[[], bool] | None, locating: bool,
    ) -> None:  # fmt: skip
        self.subject, self.asked, self.effort, self.tolerance, self.locating = subject, asked, effort, tolerance, locating
        self.until = None if seconds is None else time.perf_counter() + seconds
        self.progress, self.stop = progress, stop
        self.finished, self.notes, self.done = True, list[str](), 0
        self.steps = 4 * len(asked)
        own = subject.dtype
        self.wide, self.narrow = torch.float64, own if own in (torch.float32,) else torch.float32
        self.precision = NARROW32
        self.draws = self.restless = False  # random numbers in evaluation; and even without dropout
        self.constant: dict[str, bool] = {}

    def rows(self, random: bool) -> list[Row]:
        """Every row; those that time did not allow are undecided."""
        for one in self.asked:
            if not one.why_not and not self._over():
                self._own(one)
        for parameters in ("given", "random") if random else ("given",):
            if not self._measured(parameters):
                break
        return self.concluded()

    def concluded(self) -> list[Row]:
        """Rows of all statements; what could not be asked of this model and was not asked for by name is left out."""
        rows = [(one, self._row(one)) for one in self.asked]
        return [row for one, row in rows if one.requested or one.row is None or row.verdict != "undecided"]

    def _open(self) -> list[_Asked]:
        return [one for one in self.asked if not one.why_not and one.row is None and not one.crashed]

    def _own(self, one: _Asked) -> None:
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
                setattr(one, parameters, Found([s.error for s in wide[id(one)]], [], 0.0, self.tolerance, alone=True))
            return True
        for one in self._open():
            narrow = self._samples(run, one, counts[1])
            found = Found(
                [s.error for s in wide[id(one)]],
                [s.error for s in narrow],
                floor if floor == floor else 0.0,
                self.tolerance,
                self.precision,
                one.tables,
            )
            one.tables = ""
            setattr(one, parameters, found)
        return True

    def _known(self, run: Pass, random: bool) -> Pass:
        """What the model is like. One that draws random numbers is read without its dropout."""
        if not random and draws(run):
            self.draws = self.subject.undropped = True
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

    def _samples(self, run: Pass, one: _Asked, count: int, look: bool = False) -> list[Sample]:
        """Errors of one statement; in the wide precision, what looks wrong is looked into at once."""
        if self._over():
            return []
        begun, before = time.perf_counter(), self.subject.passes.total()
        self._tell(one.statement.name)
        statement, axes, found = one.statement, self.subject.axes(run), list[Sample]()
        generator = Generator().manual_seed(self.subject.seed + 17)
        try:
            pairs = statement.pairs(run, count, generator)
        except Crashed as crash:
            one.crashed = str(crash)
            return []
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
            worst = max(found, key=lambda s: self.tolerance if s.error != s.error else s.error, default=None)
            if worst is not None and not worst.error < SMALL and one.worst is None:
                one.tables = explained(run, worst.pair, worst.error)
            if worst is not None and not worst.error < self._border and one.worst is None and not one.tables:
                one.worst, one.at = worst, "random" if run.random else "given"
                self._look(run, one, axes)
            if found and not run.random and self.wide == torch.float64:
                self._differentiate(run, one)
        one.seconds += time.perf_counter() - begun
        one.passes += self.subject.passes.total() - before
        self.done += 1
        return found

    def _differentiate(self, run: Pass, one: _Asked) -> None:
        """Of a continuous group, how fast the statement breaks at the identity."""
        statement = one.statement
        if not isinstance(statement, Symmetry) or not isinstance(statement.action, type) or not statement.listed:
            return
        try:
            one.lie = derivative(run, statement.action, statement.found)
        except Crashed as crash:
            one.notes.append(f"no Lie derivative: {crash}")
            return
        if one.lie is not None and one.worst is None and not one.lie < RIGHT:
            one.notes.append(f"no sample breaks it, but its Lie derivative is {one.lie:.1e}, not 0")

    @property
    def _border(self) -> float:
        return RIGHT if self.wide == torch.float64 else 1e-3

    def _look(self, run: Pass, one: _Asked, axes: dict[str, tuple[int, ...]]) -> None:
        """The smallest counterexample, what holds nevertheless, and where it breaks."""
        assert one.worst is not None
        if one.worst.error != one.worst.error:
            one.cause = f"{one.worst.output or 'the output'} is not finite"
            return
        if one.worst.error == math.inf:
            one.cause = f"{one.worst.output or 'the output'} has another shape than it should, or is 0 where it should not be"
        smallest = self._smallest(run, one, axes)
        one.small = _example(smallest, one.at)
        one.subgroup = self._subgroup(run, one, axes)
        if self.locating:
            try:
                other = varied(smallest.pair.plain, Generator().manual_seed(self.subject.seed + 5))
                one.place = locate(
                    run,
                    one.worst.pair,
                    one.statement.inside,
                    None if other is None else varied(one.worst.pair.plain, Generator().manual_seed(5)),
                )
            except Crashed:
                one.place = None
        one.cause = one.cause or one.statement.cause(run, one.worst.pair, one.place.module if one.place else "")

    def _smallest(self, run: Pass, one: _Asked, axes: dict[str, tuple[int, ...]]) -> Sample:
        worst = one.worst
        assert worst is not None
        for number, pair in enumerate(one.statement.simpler(run, worst.pair)):
            if number >= self.effort.shrink or self._over():
                break
            try:
                sample = measured(run, pair, axes)
            except Crashed:
                continue
            if not sample.error < max(self._border, 1e-3 * worst.error):
                return sample
        return worst

    def _subgroup(self, run: Pass, one: _Asked, axes: dict[str, tuple[int, ...]]) -> str:
        budget = 2 * self.effort.shrink
        for words, pairs in one.statement.subgroups(run):
            holds, before = bool(pairs), dict(getattr(one.statement, "found", {}))
            for number, pair in enumerate(pairs):
                if budget <= 0 or self._over():
                    return ""
                budget -= 1
                try:
                    holds = measured(run, pair, axes).error < self._border
                    if number == 0 and not holds and getattr(one.statement, "several", False):  # it may move in another way
                        assert isinstance(one.statement, Symmetry)
                        one.statement.settle(run, pair, axes)
                        holds = measured(run, pair, axes).error < self._border
                except Crashed:
                    holds = False
                if not holds:
                    break
            if holds:
                return words
            if isinstance(one.statement, Symmetry):
                one.statement.found.update(before)
        return ""

    def _row(self, one: _Asked) -> Row:
        """What is said of one statement."""
        statement = one.statement
        claimed, reason = statement.claimed(self.subject)
        said = {"name": statement.name, "kind": statement.kind, "summary": statement.summary, "claimed": claimed, "reason": reason}
        if one.why_not or one.crashed:
            return Row(verdict="undecided", note=one.why_not or one.crashed, passes=one.passes, **said)
        if one.row is not None:
            return _with(
                one.row, claimed=claimed, reason=reason, fails=self._fails(one, one.row.verdict, claimed), passes=one.passes
            )
        if one.given is None or not one.given.wide:
            why = "; ".join(dict.fromkeys(one.notes)) or (
                "time ran out before it was measured" if not self.finished else "nothing could be measured"
            )
            return Row(verdict="undecided", note=why, passes=one.passes, **said)
        if not one.compared:
            return Row(
                verdict="undecided",
                note="no output has one entry a token, so there is nothing to compare",
                passes=one.passes,
                **said,
            )
        tried = [(one.given, "given"), *([(one.random, "random")] if one.random is not None and one.random.wide else [])]
        if not one.moving:
            why = "nothing is changed in these inputs, so nothing is tried. Give inputs with more in them"
            return Row(verdict="undecided", note=why, passes=one.passes, **said)
        worst, parameters = max(tried, key=lambda t: BAD[t[0].verdict])  # a tie goes to the given ones
        verdict, notes = worst.verdict, [n for n in dict.fromkeys([*one.notes, statement.remark]) if n]
        samples = sum(len(f.wide) for f, _ in tried)
        held = verdict in ("exact", "rounding")
        if (held and one.refused) or (not held and self.restless):
            random = "it draws random numbers in evaluation, so one run cannot tell a broken symmetry from noise"
            why = "; ".join(notes) if held else random
            return Row(verdict="undecided", note=why, passes=one.passes, seconds=one.seconds, **said)
        if self.draws and not self.restless:
            notes.append("it draws random numbers in evaluation; measured without its dropout")
        if held and all(self.constant.values()):
            notes.append("constant: other inputs get the very same answer, so it says nothing about the model")
        if worst.tables and held:
            notes.insert(0, f"no larger than the rounding of tables that the model keeps in float32 ({worst.tables})")
        if verdict == "undecided":
            alone = f"in one precision {worst.error:.1e} cannot be told from rounding" if worst.alone else ""
            notes.insert(0, one.cause or alone or "an error is not finite")
        if parameters == "random" and not held:
            notes.insert(0, f"at the given parameters: {one.given.verdict} ({one.given.error:.1e})")
        return Row(
            verdict=verdict, output=statement.output(), error=worst.error if math.isfinite(worst.error) else None, median=median(worst.wide), errors=[e if math.isfinite(e) else -1.0 for e in worst.wide],
            error32=max(worst.narrow, default=None) if all(map(math.isfinite, worst.narrow)) else None, floor=worst.floor32 * worst.precision, samples=samples, bound=bound(samples) if held else None,
            where="" if held else self._where(one), cause="" if held else one.cause, parameters=parameters,
            subgroup="" if held else one.subgroup, fails=self._fails(one, verdict, claimed), note="; ".join(notes),
            counterexample=None if held else one.small, trail=[] if held or one.place is None else one.place.trail,
            passes=one.passes, lie=one.lie, seconds=one.seconds, **said,
        )  # fmt: skip

    def _where(self, one: _Asked) -> str:
        """The culprit; where that is the whole model, the part of it that its own claim names."""
        if one.place is None:
            return ""
        whole = one.place.module == type(self.subject.model).__name__
        return one.statement.decided if whole and one.statement.decided else one.place.module

    def _fails(self, one: _Asked, verdict: str, claimed: str) -> bool:
        return verdict in ("approximate", "broken") and (
            claimed == "yes" or one.requested or (one.statement.expected and claimed != "no")
        )

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


def replay(model: nn.Module, row: Row, *inputs: Any, kwargs: Mapping[str, Any] | None = None, **settings: Any) -> float:
    """Measure a row's counterexample again, in float64: the relative error. Raises InputError where the row has none.

    inputs, kwargs  those of the check; settings: its kinds, pick, mode and seed, where they were given
    """
    if row.counterexample is None:
        raise InputError(f"The row {row.name!r} has no counterexample: it is {row.verdict}.")
    subject = Subject(
        model,
        completed(model, inputs_of(inputs, kwargs, arguments(model), settings.get("kinds"))),
        settings.get("pick"),
        settings.get("mode", "eval"),
        settings.get("seed", 0),
    )
    run = subject.at(torch.float64, row.counterexample.parameters == "random")
    axes = subject.axes(run)
    if run.random:
        other_words(run)
    statement = _asked(subject, [row.name] if row.kind == "action" else [], [row.name] if row.kind == "property" else [], _said(row))[
        0
    ].statement
    for pair in _candidates(statement, run):
        if pair.text == row.counterexample.text:
            if isinstance(statement, Symmetry) and not statement.found:
                statement.settle(run, statement.telling(run, pair), axes)
            return measured(run, pair, axes).error
    raise InputError(f"The counterexample {row.counterexample.text!r} does not come up for these inputs. Give those of the check.")


def _said(row: Row) -> Output:
    """How the outputs were said or found to move: it is that way which the counterexample breaks."""
    parts = [part.rpartition(": ") for part in row.output.split(", ")]
    return {name: way for name, colon, way in parts if colon} or row.output or None


def _candidates(statement: Statement, run: Pass) -> Iterator[Pair]:
    first = statement.pairs(run, EFFORTS["thorough"].wide, Generator().manual_seed(run.subject.seed + 17))
    yield from statement.simpler(run, first[0])
    yield from first
    for effort in EFFORTS.values():
        yield from statement.pairs(run, effort.wide, Generator().manual_seed(run.subject.seed + 17))


def _example(sample: Sample, parameters: str) -> Counterexample:
    inputs = {n: getattr(v, "x", v) for n, v in sample.pair.plain.values.items()}
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


def _with(row: Row, **changed: Any) -> Row:
    import msgspec

    return msgspec.structs.replace(row, **changed)


def _device(model: nn.Module) -> str:
    return str(next((p.device for p in model.parameters()), torch.device("cpu")))


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


__all__ = ["Action", "Inputs", "Moved", "check", "replay"]
