"""Training: from a recipe to a run. Loop, optimizer, checkpoints, evaluation; Lightning Fabric runs several processes."""

from equiscope.checkpoints.run_folder import load_run
from equiscope.record import Run
from equiscope.training.folder import same_data
from equiscope.training.images import ImagesTask
from equiscope.training.labelled_texts import TextsTask
from equiscope.training.language import LanguageTask
from equiscope.training.loop import Watcher, fit
from equiscope.training.molecules import MoleculesTask
from equiscope.training.points import PointsTask
from equiscope.training.reading import read_recipe, recipe
from equiscope.training.recipe import Recipe
from equiscope.training.registry import TASKS, evaluation_task, load_task, open_task
from equiscope.training.sounds import SoundsTask
from equiscope.training.synthetic import SyntheticTask
from equiscope.training.tags import TagsTask
from equiscope.training.task import NEW, Batch, Prediction, Task, resolve_spec
from equiscope.training.translation import TranslationTask
from equiscope.training.verbs import evaluate, predict, train

__all__ = [
    "NEW",
    "TASKS",
    "Batch",
    "ImagesTask",
    "LanguageTask",
    "MoleculesTask",
    "PointsTask",
    "Prediction",
    "Recipe",
    "Run",
    "SoundsTask",
    "SyntheticTask",
    "TagsTask",
    "Task",
    "TextsTask",
    "TranslationTask",
    "Watcher",
    "evaluate",
    "evaluation_task",
    "fit",
    "load_run",
    "load_task",
    "open_task",
    "predict",
    "read_recipe",
    "recipe",
    "resolve_spec",
    "same_data",
    "train",
]
