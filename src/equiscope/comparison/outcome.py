"""Outcome: from the folders of runs to a comparison. Nothing is trained here, so it can be repeated at any time."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, Literal

import msgspec

from equiscope.comparison import answer, job
from equiscope.comparison.looks import current_look, looks_at
from equiscope.comparison.measurements import RunMeasurements, axis_of, deciding, read_measurements
from equiscope.comparison.plan import Plan, read_plan
from equiscope.comparison.vary import format_value
from equiscope.errors import InputError
from equiscope.models import describe
from equiscope.record import Candidate, Claim, Comparison, Look, Run, Trial, read_run
from equiscope.record.comparison import Equal
from equiscope.training import recipe
from equiscope.training.reading import differences
from equiscope.training.registry import task_of

BITS = "bits per character"
LEFT_OUT = ("title", "seed", "evaluation")  # of recipes, when runs are distinguished
RunRow = tuple[str, int, str, Run | None, str]  # candidate, seed, folder, its run, why it ended


def of_folder(folder: Path) -> Comparison:
    """The comparison of a folder with a plan, over the runs so far. Raises InputError if there is no plan, or no run yet."""
    plan = read_plan(folder)
    rows: list[RunRow] = []
    for one in plan.jobs():
        place = folder / one.folder
        run = read_run(place) if (place / "run.json").exists() else None
        if run is not None or job.reason(place):
            rows.append((one.candidate, one.seed, one.folder, run, job.reason(place)))
    if not any(run for *_, run, _ in rows):
        why = f"No run of {folder} began: {rows[0][-1]}" if rows else f"{folder} has no run yet"
        raise InputError(f"{why.removesuffix('.')}. Put that right, and start it again: equiscope compare {folder}")
    same_sources(rows, plan)
    comparison = _comparison(
        folder, rows, title=plan.title, question=plan.question, changes=plan.candidates, varied=plan.varied, equal=plan.equal,
        tune=plan.tune, removed=plan.removed, command=plan.command, shared=plan.recipe, smallest_effect=plan.smallest_effect,
        looks=looks_at(plan.planned_looks(), plan.added),
    )  # fmt: skip
    look = current_look(comparison)
    assert look is not None
    left = sum(not job.done(folder, one) for one in plan.until(look.seeds).jobs())
    return answer.with_answer(comparison, left)


def of_runs(folders: Sequence[Path]) -> Comparison:
    """The comparison of runs that were trained separately: the candidates are named by the fields in which their recipes differ.

    raises  InputError if the runs differ in task, data or budget, or in nothing but the seed
    """
    runs = [(folder, read_run(folder)) for folder in folders]
    first = runs[0][1]
    for folder, run in runs[1:]:
        if other := _incomparable(first, run):
            raise InputError(f"{folders[0]} and {folder} cannot be compared: {'; '.join(other[:4])}.")
    plain = [{name: value for name, value in run.recipe.items() if name not in LEFT_OUT} for _, run in runs]
    varied = list(dict.fromkeys(line.partition(": ")[0] for one in plain[1:] for line in differences(plain[0], one)))
    if not varied:
        raise InputError(f"These {len(runs)} runs differ in nothing but their seeds. Give runs with different recipes.")
    changes = [{path: _value_at(one, path) for path in varied} for one in plain]
    names = [", ".join(format_value(value) for value in change.values()) for change in changes]
    rows: list[RunRow] = [
        (name, run.seed, str(folder), run, "") for name, (folder, run) in zip(names, runs, strict=True)
    ]  # fmt: skip
    repeated = [f"{name} with seed {seed}" for name, seed, *_ in rows if [(n, s) for n, s, *_ in rows].count((name, seed)) > 1]
    if repeated:
        raise InputError(f"{repeated[0]} is given twice. Give each run once.")
    comparison = _comparison(
        Path(), rows, title=first.title, changes=dict(zip(names, changes, strict=True)), varied=varied, shared=plain[0],
        command=f"equiscope compare {' '.join(map(str, folders))}",
    )  # fmt: skip
    return answer.with_answer(comparison)


def same_sources(rows: Sequence[RunRow], plan: Plan) -> None:
    """Raises InputError if runs of one comparison have read different files, unless the files are what varies."""
    if any(path.startswith("data.") for path in plan.varied):
        return
    runs = [(folder, run) for *_, folder, run, _ in rows if run is not None]
    for folder, run in runs[1:]:
        if other := _other_data(runs[0][1], run):
            raise InputError(
                f"{runs[0][0]} and {folder} have read different data: {other[0]}. "
                "Bring the files back, or compare in another folder."
            )


def _incomparable(a: Run, b: Run) -> list[str]:
    if a.task != b.task:
        return [f"one is of the task {a.task}, the other of {b.task}"]
    budget = differences(a.recipe["budget"], b.recipe["budget"], "budget")
    return [*_other_data(a, b), *(line.replace(", now ", " and ") for line in budget)]


def _other_data(a: Run, b: Run) -> list[str]:
    one, other = ({(s.part, s.name): s.sha256 for s in run.data} for run in (a, b))
    return [
        f"the {part} file {name} is other"
        if (part, name) in one and (part, name) in other
        else f"only one has the {part} file {name}"
        for part, name in {**one, **other}
        if one.get((part, name)) != other.get((part, name))
    ]


def _comparison(
    folder: Path, rows: Sequence[RunRow], *, title: str, changes: Mapping[str, Mapping[str, Any]], varied: list[str],
    shared: dict[str, Any], question: str = "", equal: Equal = "", command: str = "", smallest_effect: float | None = None,
    looks: Sequence[Look] = (), tune: Mapping[str, list[Any]] | None = None, removed: Mapping[str, str] | None = None,
) -> Comparison:  # fmt: skip
    """Without the verdicts, the answer and the notes."""
    whole = [run for *_, run, _ in rows if run is not None]
    task, part = whole[0].task, deciding(next((run.result for run in whole if run.result), {}))
    metric, better = _metric(whole, part, varied)
    trials = [_trial(folder, one, part, metric) for one in rows]
    known = {name: [t.value for t in trials if t.candidate == name and t.value is not None] for name in changes}
    ranked = sorted(changes, key=lambda n: (not known[n], (sum(known[n]) / len(known[n]) if known[n] else 0) * _sign(better)))
    first = whole[0]
    return Comparison(
        title=title, question=question, task=task, part=part, metric=metric, better=better, varied=varied, equal=equal,
        smallest_effect=smallest_effect, looks=list(looks), tune=dict(tune or {}),
        axis=axis_of(recipe(first.recipe).data) if any(t.extrapolation for t in trials) else "",
        seeds=sorted({t.seed for t in trials}), command=command, recipe=shared, data=first.data,
        versions=first.versions, machine=first.machine, trials=trials,
        candidates=[_candidate(name, dict(changes[name]), rows, folder, (removed or {}).get(name, "")) for name in ranked],
    )  # fmt: skip


def _sign(better: str) -> int:
    return 1 if better == "less" else -1


def _metric(runs: Sequence[Run], part: str, varied: Sequence[str]) -> tuple[str, Literal["less", "more"]]:
    """The first metric of the task; bits per character if the tokens differ, since it does not depend on them."""
    better = task_of(first := recipe(runs[0].recipe)).better_for(first)
    finished = [run.result[part] for run in runs if part in run.result]
    if not finished:
        return "loss", better
    if {"data.tokens", "data.vocabulary"} & set(varied) and all(BITS in values for values in finished):
        return BITS, "less"
    return next(iter(finished[0])), better


def _trial(folder: Path, row: RunRow, part: str, metric: str) -> Trial:
    name, seed, where, run, reason = row
    if run is None:
        return Trial(candidate=name, seed=seed, folder=where, state="failed", reason=reason)
    after = read_measurements(folder / where)
    state = "failed" if reason else run.state
    return Trial(
        candidate=name, seed=seed, folder=where, state=state, reason=reason or run.reason, result=run.result,
        value=run.result.get(part, {}).get(metric), seconds=run.seconds, memory=after.memory, measuring=after.seconds,
        extrapolation=[msgspec.structs.replace(one, value=one.values.get(metric, one.value)) for one in after.extrapolation],
        curve=[(s.step, s.values.get(metric, next(iter(s.values.values())))) for s in run.scores if s.part == "validation"],
        tokens=median(p.tokens for p in run.points) if run.points else None,
    )  # fmt: skip


def _candidate(name: str, changes: dict[str, Any], rows: Sequence[RunRow], folder: Path, removed: str) -> Candidate:
    runs = [(folder / where, run) for candidate, _, where, run, _ in rows if candidate == name and run is not None]
    if not runs:
        return Candidate(name=name, changes=changes, removed=removed)
    run = runs[0][1]
    alike = [where for *_, where, other, _ in rows if other is not None and other.spec == run.spec]  # also of other candidates
    afters: list[RunMeasurements] = [read_measurements(folder / where) for where in alike]
    return Candidate(
        name=name, changes=changes, spec=run.spec, parameters=run.parameters, multiply_adds=run.multiply_adds, steps=run.steps,
        claims=_claims(run.spec), removed=removed, verdicts=next((a.verdicts for a in afters if a.verdicts), {}),
    )  # fmt: skip


def _claims(spec: dict[str, Any]) -> list[Claim]:
    return list(describe(spec, 1, 1).claims)


def _value_at(data: Any, path: str) -> Any:
    """The value at a dotted path, with indices of lists as in blocks[1]; None if there is none."""
    for key in path.replace("[", ".").replace("]", "").split("."):
        if isinstance(data, (list, tuple)):
            data = data[int(key)] if int(key) < len(data) else None
        else:
            data = data.get(key) if isinstance(data, dict) else None
    return data
