"""StepTime: how long a step takes here, by ten of them, and how many fit into some minutes."""

from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from equiscope.errors import InputError
from equiscope.models import count
from equiscope.training.draft.draft import RecipeDraft
from equiscope.training.engine import TrainingEngine
from equiscope.training.loop import forked_rng, untrained_model
from equiscope.training.reading import recipe
from equiscope.training.registry import open_task
from equiscope.training.task import resolve_spec

STEPS = 10  # that are timed, after two that are not
LEAST = 50  # steps of a budget


@dataclass(frozen=True)
class StepTime:
    """Seconds of a step and of an evaluation; parameters of the model; notes of the data."""

    step: float
    evaluation: float
    parameters: int
    notes: list[str]

    def seconds(self, steps: int, evaluations: int) -> float:
        """Of a whole run."""
        return steps * self.step + evaluations * self.evaluation


def timed(draft: RecipeDraft, folder: Path) -> StepTime:
    """Compute some steps of a draft. folder: of the recipe. Raises InputError where the recipe does not fit its data."""
    recipe_ = recipe(draft.recipe(), "the recipe")
    task = open_task(recipe_, folder)
    spec = resolve_spec(task)
    engine = TrainingEngine(recipe_, untrained_model(recipe_, task, spec))
    with engine.products(), forked_rng():
        seconds = []
        for step in range(STEPS + 2):
            began = perf_counter()
            engine.step(task, step)
            seconds.append(perf_counter() - began)
        began = perf_counter()
        with engine.evaluated() as model:
            task.evaluate(model)
        evaluation = perf_counter() - began
    return StepTime(sum(seconds[2:]) / STEPS, evaluation, count(spec), list(task.notes))


def fit_budget(draft: RecipeDraft, timing: StepTime, minutes: float) -> str:
    """Set the steps, and the minutes after which a run ends. Returns a sentence; raises InputError where they are too few."""
    wanted, draft.minutes = draft.steps, minutes
    most = int((60 * minutes - draft.evaluations * timing.evaluation) / timing.step)
    if most < LEAST:
        raise InputError(
            f"A step takes {timing.step:.2g} s here, so {minutes:g} minutes are {max(0, most)} steps: too few. Give more --minutes."
        )
    draft.steps = min(wanted, most)
    epochs = draft.steps * draft.batch / draft.examples
    lasts, best = (spoken(timing.seconds(steps, draft.evaluations)) for steps in (draft.steps, wanted))
    said = f"about {lasts} here, {epochs:.3g} epochs ({1000 * timing.step:.3g} ms a step)"
    if draft.steps < wanted:
        said += f"; {wanted:,} steps would be better, and take {best}: --minutes"
    return said


def spoken(seconds: float) -> str:
    """ "40 seconds", "4 minutes", "3 hours"."""
    for size, name in ((3600, "hour"), (60, "minute"), (1, "second")):
        if seconds >= 1.5 * size or size == 1:
            number = max(1, round(seconds / size))
            return f"{number} {name}{'s' if number != 1 else ''}"
    raise AssertionError
