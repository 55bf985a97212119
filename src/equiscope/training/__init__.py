"""Train: a recipe becomes a run. Loop, optimiser, checkpoints, evaluation; Lightning Fabric does the computing."""

from equiscope.checkpoints.run_folder import load_run
from equiscope.record import Run
from equiscope.training.folder import same_data
from equiscope.training.images import ImagesTask
from equiscope.training.language import LanguageTask
from equiscope.training.loop import Watcher, fit
from equiscope.training.molecules import MoleculesTask
from equiscope.training.reading import read_recipe, recipe
from equiscope.training.recipe import Recipe
from equiscope.training.registry import TASKS, measuring, open_task, recall
from equiscope.training.sounds import SoundsTask
from equiscope.training.task import NEW, Answer, Batch, Task, settle
from equiscope.training.translation import TranslationTask
from equiscope.training.verbs import evaluate, predict, train

__all__ = [
    "NEW",
    "TASKS",
    "Answer",
    "Batch",
    "ImagesTask",
    "LanguageTask",
    "MoleculesTask",
    "Recipe",
    "Run",
    "SoundsTask",
    "Task",
    "TranslationTask",
    "Watcher",
    "evaluate",
    "fit",
    "load_run",
    "measuring",
    "open_task",
    "predict",
    "read_recipe",
    "recall",
    "recipe",
    "same_data",
    "settle",
    "train",
]
