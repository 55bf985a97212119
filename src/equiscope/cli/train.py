"""`equiscope train`, `evaluate`, `predict`: a recipe becomes a run; a run is measured; a run answers."""

import json as json_text
import signal
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from time import perf_counter
from typing import Any

import msgspec

from equiscope.cli.standard_input import read_standard_input
from equiscope.record.run import METRICS, Entry, Point, Run, Score


def train(
    source: Path, out: Path | None, changes: list[str], small: bool, devices: int, json: bool, live: int | None = None,
    open_browser: bool = False, tensorboard: bool = False,
) -> int:  # fmt: skip
    """0 where the run is finished; 143 or 130 where it was asked to stop, and saved. live: first port of its page, if any."""
    from equiscope.cli.monitor import RunMonitor
    from equiscope.training import Watcher, fit
    from equiscope.training.processes import first
    from equiscope.training.verbs import open_data, resolve_source

    recipe, folder, recipe_folder = resolve_source(source, out, changes, small)
    monitor = RunMonitor(folder, live, open_browser, tensorboard)
    task = open_data(recipe, recipe_folder, source, small)
    alone = first()  # of several processes, one speaks
    if alone:
        print(f"{recipe.title}: {folder}", file=sys.stderr)
    recorded = "" if small or changes else recorded_time(source)
    if alone and recorded:
        print(recorded, file=sys.stderr)
    with TrainingProgress(recipe.budget.steps, quiet=not (alone and sys.stderr.isatty()), recorded=recorded) as progress, monitor:

        def entry(entry: Entry) -> None:
            progress.entry(entry)
            monitor.entry(entry)

        watcher = Watcher(entry=entry, message=progress.message, begin=monitor.begin, compiling=progress.compiling)
        run = fit(recipe, task, folder, watcher, devices, recipe_folder)
    if alone:
        print(encoded(run_summary(run, folder)) if json else "\n".join(lines(run, folder)))
    return 0 if run.state == "finished" else 128 + signal.Signals[run.reason.split()[0]]


def recorded_time(source: Path) -> str:
    """How long the recorded run of a recipe took, where `results/` beside the recipe has one; else an empty text."""
    path = source.parent / "results" / f"{source.stem}.json"
    if source.suffix != ".toml" or not path.is_file():
        return ""
    try:
        record = json_text.loads(path.read_text(encoding="utf-8"))
        seconds, machine = max(run["seconds"] for run in record["each"]), record["machine"]
        return f"The recorded run took {clock(seconds)} of training on {machine['cores']} cores ({machine['cpu']})."
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def evaluate(folder: Path, data: list[str], part: str | None, last: bool, json: bool) -> None:
    """data: files of new examples, which are measured on instead of the run's own."""
    from equiscope.training import load_run
    from equiscope.training.verbs import measured_parts

    task, parts = measured_parts(folder, data, part)
    for note in task.notes if data else []:
        print(note, file=sys.stderr)
    weights = "last" if last else "best"
    model = load_run(folder, weights)
    result = {name: task.final(model, name) for name in parts}
    if json:
        about: dict[str, Any] = {"signatures": dict(task.signatures)} if task.signatures else {}
        about |= {"data": task.sources, "notes": list(task.notes)} if data else {}
        print(encoded({"run": str(folder), "weights": weights, "result": result, **about}))
        return
    for name, values in result.items():
        print(f"{name}: {numbers(values)}")
    for name, how in task.signatures.items():
        print(f"{name}: {how}")


def predict(folder: Path, inputs: list[str], options: dict[str, Any], json: bool) -> None:
    from equiscope.training import load_run, load_task
    from equiscope.training.text import TextTask

    _, task = load_task(folder)
    if isinstance(task, TextTask) and (file := next((text for text in inputs if _is_file(text)), None)):
        print(
            f"{file} is taken as a text, though a file has that name. Its lines: equiscope predict {folder} - < {file}",
            file=sys.stderr,
        )
    answers = task.predict(load_run(folder), _lines() if inputs == ["-"] else inputs, **options)
    if json:
        print(
            encoded([{"input": a.given, "answer": a.answer, **({"more": a.more} if a.more else {}), **a.arrays} for a in answers])
        )
        return
    for answer in answers:
        print(answer.text())


def _is_file(path: str) -> bool:
    try:
        return Path(path).is_file()
    except (OSError, ValueError):  # too long for a name, or a zero byte
        return False


def _lines() -> list[str]:
    """The lines of standard input."""
    lines = read_standard_input("inputs", "equiscope predict RUN - < FILE").split(
        "\n"
    )  # only "\n" ends a line, as in parallel files
    return [line.removesuffix("\r") for line in (lines[:-1] if not lines[-1] else lines)]


def run_summary(run: Run, folder: Path) -> dict[str, Any]:
    """What --json prints: the run without its long lists, which metrics.jsonl holds."""
    data: dict[str, Any] = msgspec.to_builtins(run)
    rest = {name: value for name, value in data.items() if name not in ("points", "scores", "samples")}
    return rest | {"folder": str(folder), "metrics": str(folder / METRICS)}


def encoded(value: Any) -> str:
    """As JSON, in which a number that is none is null, as in a run."""
    return msgspec.json.encode(value).decode()


def lines(run: Run, folder: Path) -> list[str]:
    """What a person reads at the end."""
    text = [f"{run.title}: {run.state}{f', {run.reason}' if run.reason else ''}, {clock(run.seconds)} of training"]
    text += [f"{part}: {numbers(values)}" for part, values in run.result.items()]
    step = f"equiscope evaluate {folder}" if run.state == "finished" else f"equiscope train {folder}"
    return [*text, f"Next: {step}"]


def numbers(values: Mapping[str, float | None]) -> str:
    return ", ".join(f"{name} {'no number' if value is None else f'{value:.4g}'}" for name, value in values.items())


def clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


TIMED = 10  # steps after the first, from which the time of the others is known


class TrainingProgress(AbstractContextManager["TrainingProgress"]):
    """The loss, tokens a second, the share of the machine that is used, and the time left: a bar on a terminal, lines elsewhere.

    quiet  no bar: a line for each evaluation, and every so many seconds one about the last step
    recorded  a sentence about the recorded run, beside the time that this one is expected to take
    """

    def __init__(self, steps: int, quiet: bool = False, every: float = 15.0, recorded: str = "") -> None:
        self.steps, self.quiet, self.every, self.recorded = steps, quiet, every, recorded
        self.expected = False  # whether the time of the whole was said
        self.began = self.said = perf_counter()
        self.first: Point | None = None
        self.bar: Any = None
        self.task: Any = None

    def __enter__(self) -> "TrainingProgress":
        if not self.quiet:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
            from rich.progress import Progress as Bar

            self.bar = Bar(
                MofNCompleteColumn(), BarColumn(), TextColumn("{task.description}"), TextColumn("left"), TimeRemainingColumn(),
                console=Console(stderr=True),
            )  # fmt: skip
            self.bar.start()
            self.task = self.bar.add_task("", total=self.steps)
        return self

    def __exit__(self, *error: object) -> None:
        if self.bar is not None:
            self.bar.stop()

    def message(self, sentence: str) -> None:
        self.said = perf_counter()
        if self.bar is not None:
            self.bar.console.print(sentence, markup=False)
        else:
            print(sentence, file=sys.stderr, flush=True)

    def compiling(self, begins: bool) -> None:
        """A bar of its own while the model is compiled, or a line when that is done."""
        if begins:
            self.began_compiling = perf_counter()
            if self.bar is not None:
                self.compilation = self.bar.add_task("compiling the model", total=None)
        elif self.bar is not None:
            self.bar.remove_task(self.compilation)
        else:
            self.message(f"Compiling took {clock(perf_counter() - self.began_compiling)}.")

    def entry(self, entry: Entry) -> None:
        if isinstance(entry, Score):
            time = "" if self.bar is not None else f" ({clock(perf_counter() - self.began)})"
            self.message(f"step {entry.step}: {numbers(entry.values)}{' (best so far)' if entry.best else ''}{time}")
        if isinstance(entry, Point):
            self._point(entry)

    def _point(self, point: Point) -> None:
        self.first = self.first or point
        if not self.expected and point.step - self.first.step >= TIMED:
            self.expected = True
            each = (point.seconds - self.first.seconds) / (point.step - self.first.step)
            rest = clock(each * (self.steps - point.step))
            self.message(f"The other steps take about {rest} here, and evaluations besides. {self.recorded}".rstrip())
        busy = f", {point.busy:.0%} busy" if point.busy is not None else ""
        state = f"loss {point.loss:.3f}, {point.tokens:,.0f} tokens/s{busy}"
        if self.bar is not None:
            self.bar.update(self.task, completed=point.step, description=state)
        elif perf_counter() - self.said > self.every:
            self.message(f"step {point.step} of {self.steps}: {state}{self._left(point)} ({clock(perf_counter() - self.began)})")

    def _left(self, point: Point) -> str:
        """How long the other steps take, by the ones so far; the first step may compile the model and does not count."""
        done = point.step - self.first.step if self.first else 0
        if not done or self.first is None:
            return ""
        return f", about {clock((point.seconds - self.first.seconds) / done * (self.steps - point.step))} left"
