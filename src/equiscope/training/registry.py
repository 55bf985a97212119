"""The tasks, and how to open one: with its data, from a run without data, or with new data."""

from collections.abc import Sequence
from pathlib import Path

from equiscope.errors import InputError, UnknownName
from equiscope.record.run import Run, read_run
from equiscope.training.images import ImagesTask
from equiscope.training.input_domain import InputDomain
from equiscope.training.labelled_texts import TextsTask
from equiscope.training.language import LanguageTask
from equiscope.training.molecules import MoleculesTask
from equiscope.training.points import PointsTask
from equiscope.training.reading import recipe
from equiscope.training.recipe import Recipe
from equiscope.training.rows import RowsTask
from equiscope.training.sounds import SoundsTask
from equiscope.training.synthetic import SyntheticTask
from equiscope.training.tags import TagsTask
from equiscope.training.task import Task
from equiscope.training.translation import TranslationTask

TASKS: tuple[type[Task], ...] = (
    LanguageTask, TranslationTask, TextsTask, TagsTask, ImagesTask, SoundsTask, RowsTask, MoleculesTask, PointsTask, SyntheticTask,
)  # fmt: skip


def open_task(recipe_: Recipe, recipe_folder: Path | None = None) -> Task:
    """The task of a recipe with its data, read and checked. recipe_folder: searched first for the data."""
    kind = task_of(recipe_)
    if recipe_.evaluation.guard and kind is not LanguageTask:
        raise InputError(f"evaluation.guard is for the task language, but the task is {kind.name}. Leave it out.")
    return kind.from_recipe(recipe_, recipe_folder)


def load_task(folder: Path) -> tuple[Run, Task]:
    """A run and its task without data, which is enough to predict."""
    run = read_run(folder, entries=False)
    recipe_ = recipe(run.recipe, str(folder / "run.json"))
    task = task_of(recipe_).from_run(recipe_, folder)
    if task.input_names:
        task.domain = InputDomain.read(folder, task.input_names)
    outputs = run.spec.get("outputs")
    if task.classes and outputs not in (None, len(task.classes)):
        raise InputError(
            f"{folder}: the model has {outputs} outputs, but {len(task.classes)} classes are named beside it. Bring the file back, "
            "or train again."
        )
    return run, task


def evaluation_task(folder: Path, names: Sequence[str]) -> tuple[Run, Task]:
    """A run and its task with new data as the one part, `NEW`: `task.final(model, NEW)` evaluates on it.

    raises  InputError if columns, classes, elements or characters differ from those of the run
    """
    run = read_run(folder, entries=False)
    recipe_ = recipe(run.recipe, str(folder / "run.json"))
    task = task_of(recipe_).for_evaluation(recipe_, folder, names)
    digests = {source.sha256: source for source in run.data if source.part == "train"}
    if same := [source for source in task.sources if source.sha256 in digests]:
        task.notes = [*task.notes, f"The run was trained on {same[0].name}, so this does not measure how it generalises."]
    return run, task


def task_of(recipe_: Recipe) -> type[Task]:
    """The kind of task that a recipe's data names."""
    name = type(recipe_.data).__struct_config__.tag
    for kind in TASKS:
        if kind.name == name:
            return kind
    raise UnknownName("task", name, [kind.name for kind in TASKS])
