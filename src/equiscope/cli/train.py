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
from equiscope.errors import counted
from equiscope.record.evaluation import PartEvaluation, between, number
from equiscope.record.run import METRICS, Entry, Point, Run, Score

TABLE = 12  # classes of a confusion matrix that is printed whole


def train(
    source: Path, out: Path | None, changes: list[str], small: bool, devices: int, json: bool, live: int | None = None,
    open_browser: bool = False, tensorboard: bool = False,
) -> int:  # fmt: skip
    """0 where the run is finished; 143 or 130 where it was asked to stop, and saved. live: first port of its page, if any."""
    from equiscope.cli.monitor import RunMonitor
    from equiscope.training import Watcher, fit
    from equiscope.training.processes import first
    from equiscope.training.verbs import is_run, open_data, resolve_source

    recipe, folder, recipe_folder = resolve_source(source, out, changes, small)
    monitor = RunMonitor(folder, live, open_browser, tensorboard)
    task = open_data(recipe, recipe_folder, source, small)
    alone = first()  # of several processes, one speaks
    if alone:
        print(f"{recipe.title}: {folder}", file=sys.stderr)
    recorded = "" if small or changes else recorded_time(recipe_folder / f"{source.name}.toml" if is_run(source) else source)
    if alone and recorded:
        print(recorded, file=sys.stderr)
    quiet = not (alone and sys.stderr.isatty())
    with TrainingProgress(recipe.budget.steps, quiet, recorded=recorded, minutes=recipe.budget.minutes) as progress, monitor:

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


def evaluate(
    words: list[str], part: str | None, last: bool, out: Path | None, json: bool, html: Path | None = None
) -> None:  # fmt: skip
    """words: a run, perhaps a second one, and files of new examples, which are measured on instead of the run's own."""
    from equiscope import outputs, trained
    from equiscope.cli.answers import check, put
    from equiscope.training import verbs

    run, *data = words
    other = data.pop(0) if data and (trained.find(data[0]) or verbs.is_run(Path(data[0]))) else None
    if out is not None:
        check(out, frames=False)
    if html is not None:
        outputs.check(html, "Choose another file with --html.")
    found = verbs.evaluate(run, data, other=other, part=part, weights="last" if last else "best")
    for note in found.notes:
        print(note, file=sys.stderr)
    if out is not None:
        put(out, [example for one in found.parts for example in one.examples])
    if html is not None:
        from equiscope.explore import write

        print(f"wrote {write(found.short, html)}", file=sys.stderr)
    if json:
        print(encoded(msgspec.to_builtins(found.short) | {"result": found.result}))
        return
    for one in found.parts:
        print("\n".join(_evaluation_lines(one, found.other)))
    for name, how in found.signatures.items():
        print(f"{name}: {how}")


def _evaluation_lines(one: PartEvaluation, other: str) -> list[str]:
    """Metrics, differences, confusions and the worst examples of a part."""
    lines = [f"{one.part}:"]
    wide = max(len(metric.name) for metric in one.metrics)
    for metric in one.metrics:
        interval = between(metric.low, metric.high)
        lines.append(f"  {metric.name.ljust(wide)}  {number(metric.value, metric.unit)}{f'  ({interval})' if interval else ''}")
    lines += [f"Warning: {warning}" for warning in one.warnings]
    lines += [one.summary] if one.simple else []
    shared = {metric.name for metric in one.metrics}
    lines += [
        f"Simple model, {name}: {numbers({key: value for key, value in values.items() if key in shared})}"
        for name, values in one.simple.items()
    ]
    if one.differences:
        lines.append(f"Difference from {other} on the same examples, with its 95 % interval:")
        for d in one.differences:
            p = "" if d.p is None else f", p = {d.p:.2g} (McNemar)"
            sides = f"{number(d.first)} - {number(d.second)} = {number(d.difference)}"
            lines.append(f"  {d.name.ljust(wide)}  {sides}  ({between(d.low, d.high)}){p}")
    if one.confusion and len(one.classes) <= TABLE:
        lines += ["Confusion: a row for each true class, a column for each answer", *_matrix(one.classes, one.confusion)]
    elif one.confusion:
        pairs = [(n, i, j) for i, row in enumerate(one.confusion) for j, n in enumerate(row) if i != j and n]
        lines.append("Most frequent confusions:")
        lines += [f"  {one.classes[i]} answered {one.classes[j]}: {n}" for n, i, j in sorted(pairs, reverse=True)[:10]]
    if one.worst:
        lines.append("Worst examples:")
        lines += [f"  {case.name}: {case.answer}{f', true {case.target}' if case.target else ''}" for case in one.worst]
    return lines


def _matrix(classes: list[str], counts: list[list[int]]) -> list[str]:
    names = [name if len(name) <= 12 else f"{name[:11]}…" for name in classes]
    wide = [max(len(name), *(len(str(row[j])) for row in counts)) for j, name in enumerate(names)]
    left = max(map(len, names))
    head = "  " + " " * left + "".join(f"  {name.rjust(w)}" for name, w in zip(names, wide, strict=True))
    rows = [
        f"  {name.ljust(left)}" + "".join(f"  {str(n).rjust(w)}" for n, w in zip(row, wide, strict=True))
        for name, row in zip(names, counts, strict=True)
    ]
    return [head, *rows]


def predict(folder: Path, inputs: list[str], options: dict[str, Any], json: bool, out: Path | None = None) -> None:
    from equiscope.cli.answers import check, put_predictions
    from equiscope.training import load_run, load_task
    from equiscope.training.text import TextTask

    _, task = load_task(folder)
    if out is not None:
        check(out, frames=task.name == "molecules")
    if inputs == ["-"]:
        inputs = _lines()
    elif isinstance(task, TextTask) and task.name != "texts":
        inputs = [line for text in inputs for line in _lines_of(text, task.column, task.name == "translation")]
    answers = task.predict(load_run(folder), inputs, **options)
    if far := [answer for answer in answers if answer.warning]:
        count = f" This concerns {len(far)} of the {len(answers)} inputs." if len(far) > 1 else ""
        print(f"Warning: {far[0].warning} The answer may be far off.{count}", file=sys.stderr)
    if out is not None:
        put_predictions(out, answers)
        if not json:
            print(f"{counted(len(answers), 'prediction')}: {out}")
            return
    if json:
        print(
            encoded([{"input": a.given, "answer": a.answer, **({"more": a.more} if a.more else {}), **a.arrays} for a in answers])
        )
        return
    for answer in answers:
        print(answer.text())


def _lines() -> list[str]:
    """The lines of standard input."""
    lines = read_standard_input("inputs", "equiscope predict RUN - < FILE").split(
        "\n"
    )  # only "\n" ends a line, as in parallel files
    return [line.removesuffix("\r") for line in (lines[:-1] if not lines[-1] else lines)]


def _lines_of(text: str, column: str, empty: bool) -> list[str]:
    """A text itself; or the inputs in the files that it names, and a sentence says so. empty: whether empty lines are inputs."""
    from equiscope.data.texts import inputs_of, named_files

    if not (paths := named_files(text)):
        return [text]
    lines = [line for line in inputs_of(paths, column) if empty or line.strip()]
    kind = "a folder" if paths[0].is_dir() else "a file" if paths == [Path(text)] else f"the name of {len(paths)} files"
    print(f"{text} is {kind}: its {counted(len(lines), 'text is the input', 'texts are the inputs')}.", file=sys.stderr)
    return lines


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


def _bar() -> Any:
    """A bar for steps, with the time left, and for a compilation, of unknown length, with the time so far."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn

    class Count(ProgressColumn):
        """Steps that are done, and all; nothing for a compilation."""

        def render(self, task: Any) -> str:
            return "" if task.total is None else f"{int(task.completed)}/{int(task.total)}"

    class Time(ProgressColumn):
        """The time left; of a compilation, the time so far."""

        max_refresh = 0.5

        def render(self, task: Any) -> str:
            if task.total is None:
                return f"{clock(task.elapsed or 0.0)} so far"
            return "" if task.time_remaining is None else f"{clock(task.time_remaining)} left"

    return Progress(Count(), BarColumn(), TextColumn("{task.description}"), Time(), console=Console(stderr=True))


TIMED = 10  # steps after the first, from which the time of the others is known


class TrainingProgress(AbstractContextManager["TrainingProgress"]):
    """The loss, tokens a second, the share of the machine that is used, and the time left: a bar on a terminal, lines elsewhere.

    quiet  no bar: a line for each evaluation, and every so many seconds one about the last step
    recorded  a sentence about the recorded run, beside the time that this one is expected to take
    minutes   after which the run ends, if the recipe says so
    """

    def __init__(
        self, steps: int, quiet: bool = False, every: float = 15.0, recorded: str = "", minutes: float | None = None
    ) -> None:  # fmt: skip
        self.steps, self.quiet, self.every, self.recorded, self.minutes = steps, quiet, every, recorded, minutes
        self.expected = False  # whether the time of the whole was said
        self.began = self.said = perf_counter()
        self.first: Point | None = None
        self.bar: Any = None
        self.task: Any = None

    def __enter__(self) -> "TrainingProgress":
        if not self.quiet:
            self.bar = _bar()
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
            ends = f"The run ends after {self.minutes:g} minutes (budget.minutes)." if self.minutes else ""
            said = f"The other steps take about {rest} here, and evaluations besides."
            self.message(" ".join(filter(None, (said, ends, self.recorded))))
        mfu = f", MFU {point.mfu:.0%}" if point.mfu is not None else ""
        state = f"loss {point.loss:.3f}, {point.tokens:,.0f} tokens/s{mfu}"
        if self.bar is not None:
            self.bar.update(self.task, completed=point.step, description=state)
        elif perf_counter() - self.said > self.every:
            self.message(f"step {point.step} of {self.steps}: {state}{self._left(point)} ({clock(perf_counter() - self.began)})")

    def _left(self, point: Point) -> str:
        """How long the other steps take, by the ones so far; the first step may compile the model and does not count."""
        done = point.step - self.first.step if self.first else 0
        if not done or self.first is None:
            return ""
        left = (point.seconds - self.first.seconds) / done * (self.steps - point.step)
        if self.minutes is not None:
            left = min(left, max(0.0, 60 * self.minutes - (perf_counter() - self.began)))
        return f", about {clock(left)} left"
