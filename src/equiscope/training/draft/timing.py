"""StepTime: how long a step takes here, by ten of them, and how many fit into some minutes."""

from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter, process_time

import torch
from msgspec.structs import replace as replaced

from equiscope.errors import InputError, counted
from equiscope.models import count
from equiscope.training.draft.draft import RecipeDraft
from equiscope.training.engine import TrainingEngine
from equiscope.training.loop import forked_rng, untrained_model
from equiscope.training.reading import recipe
from equiscope.training.registry import open_task
from equiscope.training.task import Task, resolve_spec

STEPS, WARM = 10, 2  # that are timed, after those that are not
LEAST = 50  # steps of a budget
MEASURING, FEWEST = 0.2, 3  # share of the minutes for evaluations, unless that is fewer than these
FASTER = 1.2  # times as fast as float32 is bfloat16 where it is chosen


@dataclass(frozen=True)
class StepTime:
    """Seconds of a step and of an evaluation; parameters of the model; notes of the data.

    computing  seconds of a processor in a step, which other programs change less; 0: unknown
    """

    step: float
    evaluation: float
    parameters: int
    notes: list[str]
    computing: float = 0.0

    def seconds(self, steps: int, evaluations: int) -> float:
        """Of a whole run."""
        return steps * self.step + evaluations * self.evaluation


def timed(draft: RecipeDraft, folder: Path) -> StepTime:
    """Compute some steps of a draft, and choose the precision of its products. folder: of the recipe.

    raises  InputError where the recipe does not fit its data
    """
    recipe_ = recipe(draft.recipe(), "the recipe")
    task = open_task(recipe_, folder)
    single = _timed(task)
    if not draft.halved:
        return single
    task.recipe = replaced(recipe_, engine=replaced(recipe_.engine, precision="bfloat16"))
    half = _timed(task, single)
    faster = single.step / half.step if torch.cuda.is_available() else single.computing / half.computing
    if faster < FASTER:
        return single
    draft.engine["precision"] = "bfloat16"
    draft.comments["engine.precision"] = f"{faster:.1f} times as fast here; the weights stay in float32"
    return half


def _timed(task: Task, single: StepTime | None = None) -> StepTime:
    """The times of a task's recipe.

    single  those in float32: another precision is given up once it has taken as long, and its evaluation is the same
    """
    spec = resolve_spec(task)
    engine = TrainingEngine(task.recipe, untrained_model(task.recipe, task, spec))
    with engine.products(), forked_rng():
        times = [(perf_counter(), process_time())]
        while len(times) <= STEPS + WARM and (single is None or times[-1][0] - times[0][0] < STEPS * single.step):
            engine.step(task, len(times) - 1)
            times.append((perf_counter(), process_time()))
        warm = times[min(WARM, len(times) - 2) :]
        step, computing = ((warm[-1][i] - warm[0][i]) / (len(warm) - 1) for i in (0, 1))
        if single is not None:
            return replace(single, step=step, computing=computing)
        began = perf_counter()
        with engine.evaluated() as model:
            task.evaluate(model)
        evaluation = perf_counter() - began
    return StepTime(step, evaluation, count(spec), list(task.notes), computing)


def fit_budget(draft: RecipeDraft, timing: StepTime, minutes: float) -> str:
    """Set the steps, the evaluations, and the minutes after which a run ends.

    returns  a sentence
    raises   InputError where the steps are too few
    """
    wanted, draft.minutes = draft.steps, minutes
    affordable = int(MEASURING * 60 * minutes / max(timing.evaluation, 1e-9))
    draft.evaluations = min(draft.evaluations, max(FEWEST, affordable))
    most = int((60 * minutes - draft.evaluations * timing.evaluation) / timing.step)
    if most < LEAST:
        raise InputError(
            f"A step takes {timing.step:.2g} s here, so {minutes:g} minutes are {counted(max(0, most), 'step')}: too "
            "few. Give more --minutes."
        )
    draft.steps = min(wanted, most)
    epochs = draft.steps * draft.batch / draft.examples
    lasts, best = (spoken(timing.seconds(steps, draft.evaluations)) for steps in (draft.steps, wanted))
    step = f"{timing.step:.2g} s" if timing.step >= 1 else f"{1000 * timing.step:.3g} ms"
    said = f"about {lasts} here, {epochs:.3g} epochs ({step} a step)"
    if draft.steps < wanted:
        said += f"; {wanted:,} steps would be better, and take {best}: --minutes"
    return said


def spoken(seconds: float) -> str:
    """ "40 seconds", "4 minutes", "3 hours"."""
    for size, name in ((3600, "hour"), (60, "minute"), (1, "second")):
        if seconds >= 1.5 * size or size == 1:
            number = max(1, round(seconds / size))
            return counted(number, name)
    raise AssertionError
