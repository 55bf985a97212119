"""The suite: every position scheme of one axis, and an LSTM, on the synthetic tasks of this folder, at 1 to 8 times the length.

    python recipes/synthetic/suite.py run FOLDER --processes 16   train and measure; the same command resumes
    python recipes/synthetic/suite.py record FOLDER               write results/TASK.json and the tables of README.md
    python recipes/synthetic/suite.py table                       write the tables; with --check, say whether they have drifted

FOLDER has a comparison for each task: `equiscope compare FOLDER/TASK --redraw` writes its page. A worker process does many runs,
one after another, each on one thread.
"""

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from statistics import mean, stdev
from time import perf_counter

import msgspec

from equiscope.comparison import job
from equiscope.comparison.outcome import of_folder
from equiscope.comparison.plan import Job, make_plan, read_plan, write_plan
from equiscope.comparison.vary import Change
from equiscope.errors import EquiscopeError
from equiscope.positions import SCHEMES
from equiscope.record import Comparison
from equiscope.training import Recipe, read_recipe
from equiscope.training.synthetic import SyntheticTask

FOLDER = Path(__file__).parent
TASKS = ("copy", "reverse", "sort", "recall", "induction", "back", "parity", "addition")
BEGIN, END = "<!-- tables: python recipes/synthetic/suite.py table -->", "<!-- end of the tables -->"
SOLVED = 0.95  # accuracy
LSTM = "lstm"
SMALLEST = 0.05  # difference of accuracy that matters
NAMES = {"back": "token 4 back"}


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    runner = commands.add_parser("run", help="train and measure all runs, or go on")
    runner.add_argument("folder", type=Path)
    runner.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="runs at a time")
    runner.add_argument("--tasks", default=",".join(TASKS), help="recipes of this folder, with commas")
    runner.add_argument("--schemes", default="", help="schemes, with commas; all by default")
    runner.add_argument("--seeds", type=int, default=3)
    runner.add_argument("--small", action="store_true", help="the recipes' small forms, whose numbers mean nothing")
    recorder = commands.add_parser("record", help="keep the results of a finished folder")
    recorder.add_argument("folder", type=Path)
    tables = commands.add_parser("table", help="write the tables of README.md")
    tables.add_argument("--check", action="store_true", help="only say whether they have drifted")
    given = parser.parse_args(words)
    try:
        if given.command == "run":
            return run(
                given.folder, given.tasks.split(","), given.processes, given.seeds, given.small,
                [name for name in given.schemes.split(",") if name],
            )  # fmt: skip
        if given.command == "record":
            record(given.folder)
    except EquiscopeError as error:
        print(error, file=sys.stderr)
        return 2
    return table(given.command == "table" and given.check)


def candidates(recipe: Recipe) -> dict[str, Change]:
    """Every scheme that reads one axis, with the sizes of the task's training where it has a size; and an LSTM, for comparison."""
    longest = next(positions for _, positions in SyntheticTask(recipe).longest()).shape[0]
    sizes: dict[str, dict[str, object]] = {"learned": {"length": longest}}
    one_axis = [scheme.name for scheme in SCHEMES if scheme().axes in (None, 1)]
    more: list[dict[str, object]] = [{"scheme": "mixed-rope", "axes": 1}, {"scheme": "log-cpb", "shape": [longest]}]
    schemes = [{"scheme": name, **sizes.get(name, {})} for name in one_axis] + more
    found: dict[str, Change] = {str(scheme["scheme"]): {"model.block.attention.position": scheme} for scheme in schemes}
    return found | {LSTM: {"model.baseline": LSTM}}


def run(folder: Path, tasks: Sequence[str], processes: int, seeds: int, small: bool, only: Sequence[str] = ()) -> int:
    """Train and measure what is left of all tasks, seed by seed. The models of the first task are checked for their symmetries.

    returns  1 where a run has no result, else 0
    """
    jobs: list[tuple[Path, Job]] = []
    for task in tasks:
        recipe = read_recipe(FOLDER / f"{task}.toml", small=small)
        some = {name: change for name, change in candidates(recipe).items() if not only or name in only}
        plan = make_plan(
            recipe, FOLDER, some, [recipe.seed + i for i in range(seeds)],
            question=f"Which position schemes learn the task {NAMES.get(task, task)}, and at which lengths?",
            check=task == tasks[0], smallest_effect=SMALLEST,
            command=f"python recipes/synthetic/suite.py run FOLDER --tasks {task}",
        )  # fmt: skip
        write_plan(plan, folder / task)
        jobs += [(folder / task, one) for one in plan.jobs()]
    jobs.sort(key=lambda one: one[1].seed)  # every scheme and task has a first result soon
    left = [(place, one) for place, one in jobs if not job.done(place, one)]
    print(f"{len(jobs)} runs, {len(left)} left, {processes} at a time: {folder}", flush=True)
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"  # of each worker: rounding depends on it
    begin, failed = perf_counter(), 0
    for count, (place, one, seconds, reason) in enumerate(worked(left, processes), 1):
        failed += bool(reason)
        elapsed = perf_counter() - begin
        rest = elapsed / count * (len(left) - count)
        print(
            f"{count}/{len(left)} {place.name} {one.candidate} seed {one.seed}: {reason or f'{seconds:.1f} s'}"
            f" ({elapsed / 60:.1f} min, {rest / 60:.1f} min left)", flush=True,
        )  # fmt: skip
    print(f"Next: python recipes/synthetic/suite.py record {folder}")
    return int(failed > 0)


def worked(left: Sequence[tuple[Path, Job]], processes: int) -> Iterator[tuple[Path, Job, float, str]]:
    """Do all runs, in this process if one at a time; yields each as it ends, with its seconds and why it has no result."""
    if processes == 1:
        yield from ((place, one, *work(place, one)) for place, one in left)
        return
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        running = {pool.submit(work, place, one): (place, one) for place, one in left}
        yield from ((*running[future], *future.result()) for future in as_completed(running))


def work(place: Path, one: Job) -> tuple[float, str]:
    """Train and measure one run. Returns its seconds, and why it has no result, if it has none."""
    begin = perf_counter()
    try:
        done = job.run(place, one, read_plan(place))
    except EquiscopeError as error:
        job.record_failure(place / one.folder, str(error))
        return perf_counter() - begin, str(error)
    return perf_counter() - begin, "" if done.state == "finished" else done.reason


def record(folder: Path) -> None:
    """Keep the comparison of each task, without what many processes at a time make meaningless: memory and time."""
    for task in TASKS:
        found = of_folder(folder / task)
        plan = read_plan(folder / task)
        if len(found.trials) < len(list(plan.jobs())) or any(t.state not in ("finished", "failed") for t in found.trials):
            sys.exit(f"{folder / task} is not done. Repeat: python recipes/synthetic/suite.py run {folder}")
        trials = [msgspec.structs.replace(trial, memory=None, tokens=None) for trial in found.trials]
        kept = msgspec.structs.replace(found, trials=trials, machine=found.machine)
        out = FOLDER / "results" / f"{task}.json"
        out.parent.mkdir(exist_ok=True)
        out.write_bytes(msgspec.json.format(msgspec.json.encode(kept), indent=1) + b"\n")
        print(f"wrote {out}")


def table(check: bool) -> int:
    """Write the tables of README.md, or compare them."""
    readme = FOLDER / "README.md"
    text = readme.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    fresh = f"{before}{BEGIN}\n\n{rows()}\n{END}{rest.partition(END)[2]}"
    if check:
        stale = "is stale: python recipes/synthetic/suite.py table"
        print(f"recipes/synthetic/README.md {'is up to date' if fresh == text else stale}")
        return int(fresh != text)
    readme.write_text(fresh, encoding="utf-8")
    return 0


def rows() -> str:
    """An overview, then a table for each task."""
    kept = {task: FOLDER / "results" / f"{task}.json" for task in TASKS}
    found = {task: msgspec.json.decode(p.read_bytes(), type=Comparison) for task, p in kept.items() if p.exists()}
    if not found:
        return "Not measured.\n"
    about = f"Bold: the largest multiple of the trained length up to which the mean accuracy is at least {SOLVED:g}. Else: the "
    about += "mean accuracy at the trained length.\n"
    return "\n".join([about, overview(found), *(one_task(task, comparison) for task, comparison in found.items())])


def overview(found: dict[str, Comparison]) -> str:
    """For each scheme and task the largest multiple of the trained length at which it is solved, or else the accuracy at 1×."""
    some = next(iter(found.values()))
    names = [c.name for c in some.candidates]
    order = [name for name in (*(scheme.name for scheme in SCHEMES), LSTM) if name in names]
    lines = [f"| scheme | {' | '.join(NAMES.get(task, task) for task in found)} |", "| --- |" + " --- |" * len(found)]
    for name in order:
        cells = [solved_until(values_of(comparison, name)) for comparison in found.values()]
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def solved_until(values: dict[float, list[float]]) -> str:
    """The largest multiple up to which the mean accuracy is SOLVED at every length, or else the accuracy at 1×."""
    until = 0.0
    for factor in sorted(values):
        if not values[factor] or mean(values[factor]) < SOLVED:
            break
        until = factor
    return f"**{until:g}×**" if until else f"{mean(values[1]):.2f}" if values.get(1) else "no result"


def one_task(task: str, comparison: Comparison) -> str:
    """Accuracy at each length, mean and standard deviation over seeds; the best at the trained length first."""
    factors = sorted({factor for candidate in comparison.candidates for factor in values_of(comparison, candidate.name)})
    seeds, data, steps = len(comparison.seeds), comparison.recipe["data"], comparison.recipe["budget"]["steps"]
    inputs = f"inputs of up to {data['length']} {'pairs' if task == 'recall' else 'symbols'} in training"
    lines = [
        f"### {NAMES.get(task, task).capitalize()}\n",
        f"[Recipe]({task}.toml), {steps} steps, {'held-out pairs' if task == 'addition' else inputs}, "
        f"{seeds} seed{'s'[: seeds > 1]}, {comparison.machine.get('cpu', '?')}.\n",
        f"| scheme | {' | '.join(f'{factor:g}×' for factor in factors)} |", "| --- |" + " --- |" * len(factors),
        f"| *a guess without the input* | {' | '.join(f'{value:.2f}' for value in chances(comparison, factors))} |",
    ]  # fmt: skip
    for candidate in comparison.candidates:
        values = values_of(comparison, candidate.name)
        cells = [spread(values[factor]) for factor in factors]
        lines.append(f"| `{candidate.name}` | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def spread(values: Sequence[float]) -> str:
    if not values:
        return "–"
    return f"{mean(values):.2f}" + (f" ± {stdev(values):.2f}" if len(values) > 1 else "")


def values_of(comparison: Comparison, name: str) -> dict[float, list[float]]:
    """Accuracy of a scheme at each multiple of the trained length, one number a seed; none where it cannot read such inputs."""
    found: dict[float, list[float]] = {} if comparison.axis else {1.0: []}
    for trial in comparison.trials:
        if not comparison.axis and trial.candidate == name and trial.value is not None:
            found[1.0].append(trial.value)
        for one in trial.extrapolation:
            values = found.setdefault(one.factor, [])
            if trial.candidate == name and one.value is not None:
                values.append(one.value)
    return found


def chances(comparison: Comparison, factors: Sequence[float]) -> Iterator[float]:
    """Mean accuracy of a guess without the input, at each length."""
    for factor in factors:
        some = [one.values.get("chance") for t in comparison.trials for one in t.extrapolation if one.factor == factor]
        some += [] if comparison.axis else [t.result["test"]["chance"] for t in comparison.trials if "test" in t.result]
        yield mean(value for value in some if value is not None)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
