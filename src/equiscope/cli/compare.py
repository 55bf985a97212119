"""`equiscope compare`: which prior is best here, with spread, extrapolation and cost."""

import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from statistics import median
from typing import Any

from equiscope import outputs
from equiscope.errors import EquiscopeError, InputError, counted
from equiscope.record.comparison import Comparison, Equal
from equiscope.record.program import VERSION
from equiscope.record.run import RUN

REPORT, DATA = "report.html", "comparison.json"
HINT = "Choose another folder with --out."

TRAINING, MEASURING = 0.75, 0.5  # share of a run that is training; measuring takes at most this share of the time of training
SURE = 0.02  # share of all work from which the time that is left is estimated
WIDE = 160  # letters of a line that no terminal breaks


def compare(
    sources: list[Path], vary: list[str], seeds: str | None, looks: str | None, smallest_effect: float | None, out: Path | None,
    changes: list[str], small: bool, equal: Equal, processes: int | None, threads: int | None, together: bool | None, way: str,
    redraw: bool, json: bool,
) -> int:  # fmt: skip
    """0, or 1 where the guard of the recipe ended a run.

    way  "" for processes of this machine, "ray", or "jobs" for a list of commands
    """
    from equiscope.comparison import outcome, tuning, workers
    from equiscope.comparison.job import guarded
    from equiscope.comparison.plan import PLAN, Plan, write_plan
    from equiscope.comparison.question import parse_looks, parse_seeds
    from equiscope.comparison.verbs import Options, arranged, compare_runs, parts, plan_of

    def run(folder: Path, plan: Plan) -> None:
        if redraw:
            return
        if not json or sys.stderr.isatty():
            often = counted(len(plan.seeds), "seed")
            how = "together" if plan.together else f"{at_once} at a time, {counted(plan.threads, 'thread')} each"
            print(f"{plan.title}: {counted(len(plan.candidates), 'candidate')}, {often}, {how}: {folder}", file=sys.stderr)
        steps, quiet = plan.recipe["budget"]["steps"], not sys.stderr.isatty()
        with ComparisonProgress(folder, list(plan.jobs()), steps, quiet) as progress:
            if way == "ray":
                workers.run_with_ray(folder, plan, progress.tick)
            else:
                workers.run_all(folder, plan, at_once, progress.tick)

    source = sources[0]
    options = Options(
        vary=vary, seeds=None if seeds is None else parse_seeds(seeds), looks=() if looks is None else parse_looks(looks),
        smallest_effect=smallest_effect, changes=changes, small=small, equal=equal,
    )  # fmt: skip
    if len(sources) > 1 or (source / RUN).is_file():
        options.only(why="Runs are compared as they are")
        _ready(out)
        _tell(compare_runs(sources), out, json)
        return 0
    if source.suffix == ".json":
        options.only(why=f"{source} is drawn as it is")
        _ready(out)
        _tell(_read(source), out, json)
        return 0
    folder, plan = plan_of(source, options, out)
    plan, at_once = arranged(plan, processes, threads, together, resumed=(source / PLAN).is_file())
    _ready(folder)
    if plan.tune and not (source / PLAN).is_file():
        trials = tuning.tuning_plan(plan)
        if way == "jobs" and workers.left(folder / tuning.FOLDER, trials):
            write_plan(trials, folder / tuning.FOLDER)
            path = workers.write_job_list(folder / tuning.FOLDER, trials)
            print(f"{path}: a command for each run that tunes {', '.join(plan.tune)}. When they are done, repeat this command.")
            return 0
        plan = tuning.tuned(folder, plan, run)
    write_plan(plan, folder)
    for name, why in plan.removed.items():
        print(f"Candidate {name!r} equals one without a position scheme: {why}.", file=sys.stderr)
    if way == "jobs":
        for part in parts(folder, plan):
            if workers.left(folder, part):
                break
        print(f"{workers.write_job_list(folder, part)}: a command for each run. When they are done: equiscope compare {folder}")
        return 0
    if not redraw:
        for part in parts(folder, plan):
            run(folder, part)
    comparison = outcome.of_folder(folder)
    _tell(comparison, folder, json)
    if ended := [one.folder for one in plan.jobs() if guarded(folder / one.folder)]:
        runs = counted(len(ended), "run")
        print(f"equiscope: The guard ended {runs}: {', '.join(ended)}. Their models read what they predict.", file=sys.stderr)
    return 1 if ended else 0


def _ready(folder: Path | None) -> None:
    """Raises InputError, before anything is trained, where the results cannot be written."""
    if folder is not None:
        outputs.check_files(folder, (REPORT, DATA), HINT)


def _read(path: Path) -> Comparison:
    """A saved comparison. Raises InputError if it is none, or of another version."""
    import msgspec

    from equiscope.budgets import decoded, read

    try:
        comparison: Comparison = decoded(read(path), Comparison)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}. Give a {DATA} that a comparison has written.") from error
    except msgspec.DecodeError as error:
        raise InputError(f"{path} is no comparison: {error}. Give a {DATA} that a comparison has written.") from error
    if comparison.version != VERSION:
        raise InputError(
            f"{path} has version {comparison.version}, but this equiscope reads version {VERSION}. Compare again in another folder."
        )
    return comparison


def _tell(comparison: Comparison, folder: Path | None, json: bool) -> None:
    """Print the answer, then the table; write the page and the data into the folder, if there is one."""
    import msgspec

    from equiscope.explore.page import write

    data = msgspec.json.format(msgspec.json.encode(comparison), indent=1) + b"\n"
    wrong: EquiscopeError | None = None
    if folder is not None:
        try:
            outputs.make_folder(folder, HINT)
            outputs.write(folder / DATA, data, HINT)
            write(comparison, folder / REPORT)
            print(f"wrote {folder / REPORT} and {folder / DATA}", file=sys.stderr)
        except EquiscopeError as error:  # no page bundle, or no room: the answer is printed all the same
            wrong = error
    if json:
        print(data.decode(), end="")
    else:
        _text(comparison)
    if wrong is not None:
        raise wrong


def _text(comparison: Comparison) -> None:
    from rich.console import Console
    from rich.table import Table

    from equiscope.comparison.answer import values_by_candidate
    from equiscope.comparison.prose import mean_and_deviation, number

    piped = not sys.stdout.isatty()
    console = Console(highlight=False, soft_wrap=piped, width=WIDE if piped else None)
    if comparison.question:
        console.print(comparison.question, style="dim", markup=False)
    console.print(f"{comparison.answer}\n", style="bold", markup=False)
    table = Table(box=None, header_style="dim", pad_edge=False)
    sizes = sorted({b.factor for t in comparison.trials for b in t.extrapolation if b.factor != 1})
    headings = ["", f"{comparison.part} {comparison.metric}", *[f"at {size:.3g}×" for size in sizes], "parameters", "seconds"]
    for column, heading in enumerate(headings):
        table.add_column(heading, justify="right" if column else "left")
    values = values_by_candidate(comparison)
    for candidate in comparison.candidates:
        trials = [t for t in comparison.trials if t.candidate == candidate.name]
        far = [[b.value for t in trials for b in t.extrapolation if b.factor == s] for s in sizes]
        table.add_row(
            candidate.name,
            mean_and_deviation(values[candidate.name]) if values[candidate.name] else "no result",
            *[_mean([v for v in some if v is not None], number) if some else "" for some in far],
            f"{candidate.parameters:,}" if candidate.parameters else "–",
            _median([t.seconds for t in trials if t.value is not None]),
        )  # fmt: skip
    console.print(table)
    for note in comparison.notes:
        console.print(f"\n- {note}", markup=False)


def _median(values: Sequence[float]) -> str:
    """Of times: one run on a busy machine says little about the others."""
    return f"{median(values):,.0f}" if values else "–"


def _mean(values: Sequence[float], form: Callable[[float], str]) -> str:
    return form(sum(values) / len(values)) if values else "–"


class ComparisonProgress(AbstractContextManager["ComparisonProgress"]):
    """The current activity and the remaining time: a progress bar on a terminal, lines with times elsewhere.

    steps  of a run;  every: seconds between two lines about the runs that go on, where there is no bar
    """

    def __init__(self, folder: Path, jobs: Sequence[Any], steps: int, quiet: bool, every: float = 15.0) -> None:
        self.folder, self.jobs, self.steps, self.quiet, self.every = folder, jobs, steps, quiet, every
        self.stages: dict[str, str] = {}  # of the runs that go on
        self.ended: set[str] = set()
        self.before = 0.0  # share of all work that was done when this began
        self.began = self.said = time.monotonic()
        self.bar: Any = None
        self.task: Any = None

    def __enter__(self) -> "ComparisonProgress":
        if not self.quiet:
            from rich.console import Console
            from rich.progress import BarColumn, TextColumn
            from rich.progress import Progress as Bar

            self.bar = Bar(TextColumn("{task.description}"), BarColumn(), console=Console(stderr=True))
            self.bar.start()
            self.task = self.bar.add_task("", total=1.0)
        self.ended = {job.folder for job in self.jobs if self._done(job)}
        self.before = self._share(self.jobs)
        return self

    def __exit__(self, *error: object) -> None:
        if self.bar is not None:
            self.bar.stop()

    def tick(self, running: Sequence[Any]) -> None:
        for job in self.jobs:
            if job.folder not in self.ended and self._done(job):
                self.ended.add(job.folder)
                self.stages.pop(job.folder, None)
                self._say(f"{job.candidate} with seed {job.seed}: {self._ending(job)}")
        for job in running:
            stage = self._stage(job)
            if job.folder not in self.ended and self.stages.get(job.folder, "").split()[:1] != stage.split()[:1]:
                self._say(f"{job.candidate} with seed {job.seed} {self._announced(job, stage)}")
            self.stages[job.folder] = stage
        going = [f"{job.candidate} {job.seed} {self.stages[job.folder]}" for job in running if job.folder not in self.ended]
        state = f"{len(self.ended)} of {len(self.jobs)} runs done{self._left(running)}"
        if self.bar is not None:
            description = f"{state}; {', '.join(going[:3])}" if going else state
            self.bar.update(self.task, completed=self._share(running), description=description)
        elif going and time.monotonic() - self.said > self.every:
            self._say(f"{state}; {', '.join(going)}")

    def _say(self, sentence: str) -> None:
        """A line, with the time since the beginning."""
        self.said = time.monotonic()
        line = f"[{clock(self.said - self.began)}] {sentence}"
        if self.bar is not None:
            self.bar.console.print(line, markup=False)
        else:
            print(line, file=sys.stderr, flush=True)

    def _left(self, running: Sequence[Any]) -> str:
        """About how long it will take until all runs are done, by what was done so far."""
        share = self._share(running)
        if share - self.before < SURE or share >= 1:
            return ""
        seconds = (time.monotonic() - self.began) * (1 - share) / (share - self.before)
        return f", about {clock(seconds)} left"

    def _share(self, running: Sequence[Any]) -> float:
        """The share of all work that is done; training is most of a run, the rest is measuring."""
        steps = sum(min(self._steps(job) / max(self.steps, 1), 1.0) for job in running if job.folder not in self.ended)
        return (len(self.ended) + TRAINING * steps) / max(len(self.jobs), 1)

    def _stage(self, job: Any) -> str:
        """What a run does now: its first word is the stage."""
        steps = self._steps(job)
        if steps < self.steps:
            return f"at step {steps} of {self.steps}" if steps else "starts"
        return "measures"

    def _announced(self, job: Any, stage: str) -> str:
        """The stage that a run has come to, and how long it will take."""
        if stage == "starts":
            return "starts: the data is read and the model is built."
        if stage != "measures":
            return f"trains {counted(self.steps, 'step')}."
        seconds = self._seconds(job)
        return f"is trained in {clock(seconds)}; evaluating and checking it take about {clock(seconds * MEASURING)} or less."

    def _done(self, job: Any) -> bool:
        from equiscope.comparison.job import done

        return done(self.folder, job)

    def _ending(self, job: Any) -> str:
        from equiscope.cli.train import numbers
        from equiscope.comparison.job import reason
        from equiscope.record.run import read_run

        if why := reason(self.folder / job.folder):
            return f"no result: {why}"
        try:
            result = read_run(self.folder / job.folder, entries=False).result
        except EquiscopeError:
            return "no result"
        part = "test" if "test" in result else "validation"
        return numbers(result.get(part, {}))

    def _seconds(self, job: Any) -> float:
        """Of training, so far."""
        return self._last(job, b'"seconds":')

    def _steps(self, job: Any) -> int:
        return int(self._last(job, b'"step":'))

    def _last(self, job: Any, name: bytes) -> float:
        """The last number of this name in a run's metrics; a glance, so a line that is being written does not matter."""
        try:
            with (self.folder / job.folder / "metrics.jsonl").open("rb") as file:
                file.seek(0, 2)
                file.seek(max(0, file.tell() - 65536))
                last = file.read().rpartition(name)[2]
            return float(last.partition(b",")[0])
        except (OSError, ValueError):
            return 0.0


def clock(seconds: float) -> str:
    """ "8 s", "2:05 min", "1:02:05 h"."""
    whole = round(seconds)
    hours, minutes, rest = whole // 3600, whole // 60 % 60, whole % 60
    return f"{hours}:{minutes:02}:{rest:02} h" if hours else f"{minutes}:{rest:02} min" if minutes else f"{rest} s"
