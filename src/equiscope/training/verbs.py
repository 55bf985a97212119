"""Train, evaluate and predict, from a recipe's file to a run and from a run's folder to numbers.

Source of the names: the commands `equiscope train`, `evaluate` and `predict`, which call these functions.
"""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from equiscope import trained
from equiscope.checkpoints.run_folder import load_run
from equiscope.data import Missing
from equiscope.errors import EquiscopeError, InputError, UnknownName
from equiscope.record.evaluation import EvaluationRecord
from equiscope.record.run import RUN, Run, read_run
from equiscope.training.evaluation import evaluated
from equiscope.training.folder import same_data
from equiscope.training.loop import Watcher, fit
from equiscope.training.reading import read_recipe, recipe
from equiscope.training.recipe import Recipe
from equiscope.training.registry import evaluation_task, load_task, open_task
from equiscope.training.task import NEW, Prediction, Task

RUNS = Path("runs")
LONGEST = 80  # bytes of the name of a folder: systems take 255, and many paths 260 in all


def train(
    source: str | Path | Recipe | Mapping[str, Any], out: str | Path | None = None, *,
    changes: Sequence[str] = (), small: bool = False, devices: int = 1, watcher: Watcher | None = None,
) -> Run:  # fmt: skip
    """Train by a recipe, or continue a run.

    source   a recipe's file (.toml), a recipe, or the folder of a run, which continues where it stopped
    out      folder of the run; runs/NAME of the recipe by default. A recipe that is not a file needs one
    changes  "optimiser.rate=3e-4": fields to change, as --set does
    small    with the changes of the recipe's table [small]
    devices  processes on this machine, or GPUs
    watcher  is called with each line of the metrics
    returns  the run: finished; or stopped, where SIGTERM or Ctrl-C asked for that
    raises   InputError where the recipe does not fit, or the folder holds another run; Missing where its data is not there
    """
    recipe_, folder, recipe_folder = resolve_source(source, out, changes, small)
    return fit(recipe_, open_data(recipe_, recipe_folder, source, small), folder, watcher, devices, recipe_folder)


def resolve_source(
    source: str | Path | Recipe | Mapping[str, Any], out: str | Path | None, changes: Sequence[str], small: bool
) -> tuple[Recipe, Path, Path]:  # fmt: skip
    """The recipe, the folder of its run, and the folder where its data is looked for first."""
    if isinstance(source, Recipe | Mapping):
        if changes or small:
            raise InputError("changes and small belong to a recipe's file. Change the recipe instead.")
        if out is None:
            raise InputError("A recipe that is not a file gives its run no name. Give the folder of the run: out.")
        return source if isinstance(source, Recipe) else recipe(dict(source)), Path(out), Path()
    source = Path(source)
    if is_run(source):
        if changes or small or out is not None:
            raise InputError(
                f"{source} is a run, which goes on by its own recipe, where it is. Leave --set, --small and --out out."
            )
        run = read_run(source, entries=False)
        return recipe(run.recipe, str(source / RUN)), source, Path(run.recipe_folder)
    return read_recipe(source, list(changes), small), Path(out or RUNS / folder_name(source, small, changes)), source.parent


def open_data(recipe_: Recipe, recipe_folder: Path, source: Any, small: bool) -> Task:
    """The task of a recipe. Raises Missing, with what can be done without the data, where it is not there."""
    try:
        return open_task(recipe_, recipe_folder)
    except Missing as error:
        raise Missing(f"{error}{_small_hint(source, small)}") from error


def evaluate(
    run: str | Path, data: str | Path | Sequence[str | Path] = (), *, other: str | Path | None = None, part: str | None = None,
    weights: str = "best",
) -> EvaluationRecord:  # fmt: skip
    """Measure a run on its data, or on new data; alone, or beside another run on the same examples.

    run      folder of a run, or the name of a trained model
    data     files of new examples, in every form that a recipe names; they are measured on instead of the run's own
    other    a second run: the differences of their metrics get intervals
    part     of the run's data: "validation", "test", ...; every part but "train" by default
    weights  "best" on the validation part, or "last"
    returns  by part: metrics with 95 % intervals over the examples, the worst examples, every answer; new data is one part, `NEW`
    raises   InputError where new data does not fit the run; UnknownName for a part that the data does not have
    """
    files = [data] if isinstance(data, str | Path) else list(data)
    folder = trained.path_of(run)
    task, parts = measured_parts(folder, files, part)
    model, beside = load_run(folder, weights), None
    if other is not None:
        second = trained.path_of(other)
        other_task, other_parts = measured_parts(second, files, part)
        if other_task.name != task.name or other_parts != parts:
            raise InputError(f"{run} is of the task {task.name}, {other} of {other_task.name}. Compare runs of one task and data.")
        beside = (other_task, load_run(second, weights))
    found = [evaluated(task, model, name, beside, folder) for name in parts]
    return EvaluationRecord(
        run=str(run), other="" if other is None else str(other), task=task.name, weights=weights, parts=found,
        data=task.sources if files else [], notes=list(task.notes) if files else [], signatures=dict(task.signatures),
    )  # fmt: skip


def measured_parts(folder: Path, data: Sequence[str | Path], part: str | None) -> tuple[Task, list[str]]:
    """The task of a run with its data, or with new data, and the parts to measure on."""
    if data:
        if part is not None:
            raise InputError(f"New data has no parts, but --part {part} asks for one. Leave one of them out.")
        return evaluation_task(folder, list(map(str, data)))[1], [NEW]
    run = read_run(folder, entries=False)
    task = open_task(recipe(run.recipe, str(folder / RUN)), Path(run.recipe_folder))
    same_data(folder, run, task)
    if part is not None and part not in task.parts:
        raise UnknownName("part of this run's data", part, list(task.parts))
    return task, [part] if part else [name for name in task.parts if name != "train"]


def predict(run: str | Path, inputs: Sequence[str], *, weights: str = "best", **options: Any) -> list[Prediction]:
    """Predict with a run.

    run      folder of a run, or the name of a trained model
    inputs   texts to continue or to translate; or files of pictures, sounds, molecules
    options  of the task: steps, temperature, seed of texts; beams of translations; top of pictures and sounds
    returns  an answer for each input
    raises   InputError where an input cannot be read, or the task has no such option
    """
    folder = trained.path_of(run)
    return load_task(folder)[1].predict(load_run(folder, weights), list(inputs), **options)


def folder_name(source: Path, small: bool, changes: Sequence[str]) -> str:
    """The folder of a run, by its recipe and changes; where that is long, a digest stands for its end."""
    name = source.stem + ("-small" if small else "") + "".join(f"-{change.replace('/', '_')}" for change in changes)
    if len(name.encode()) <= LONGEST:
        return name
    end = f"-{hashlib.sha256(name.encode()).hexdigest()[:12]}"
    return name.encode()[: LONGEST - len(end)].decode(errors="ignore") + end


def is_run(folder: Path) -> bool:
    """Whether the folder holds a run's record."""
    try:
        return (folder / RUN).is_file()
    except (OSError, ValueError):  # too long for a name, or a zero byte
        return False


def _small_hint(source: Any, small: bool) -> str:
    """What can be done without the data, where the recipe has a small form and its samples are here."""
    if small or not isinstance(source, str | Path) or Path(source).suffix != ".toml":
        return ""
    try:
        open_task(read_recipe(Path(source), small=True), Path(source).parent)
    except EquiscopeError:
        return ""
    return " To try the recipe on a sample: --small."
