"""Equalise candidates: parameters, by wider or narrower layers; or compute, by more or fewer steps."""

from collections.abc import Callable, Mapping

from equiscope.comparison.vary import Change
from equiscope.errors import InputError
from equiscope.models import count
from equiscope.record.comparison import Equal
from equiscope.training import Recipe, Task, resolve_spec

NEAR = 0.02  # share by which parameters may differ where widths are whole numbers
INNER, WIDTH, STEPS, WARMUP = "model.block.feedforward.inner", "model.width", "budget.steps", "optimiser.warmup"


def equalize(
    changes: Mapping[str, Change], base: Recipe, equal: Equal, task_of: Callable[[Change, str], Task],
) -> dict[str, Change]:  # fmt: skip
    """The changes of each candidate, with those that make it equal to the base recipe.

    task_of  opens the data of a candidate, by its changes and its name
    raises   InputError if a candidate cannot be made equal, or varies the field that would have to be free
    """
    task = task_of({}, "the recipe itself")
    goal = _parameters(task) if equal == "parameters" else _compute(task)
    make = _equal_parameters if equal == "parameters" else _equal_compute
    return {name: make(change, name, goal, base, task_of) for name, change in changes.items()}


def _parameters(task: Task) -> float:
    return float(count(resolve_spec(task)))


def _compute(task: Task) -> float:
    """Multiply-adds of a step's forward pass."""
    return task.multiply_adds(resolve_spec(task), task.batch(0))


def _equal_parameters(change: Change, name: str, goal: float, base: Recipe, task_of: Callable[[Change, str], Task]) -> Change:
    knob = WIDTH if "baseline" in task_of(change, name).recipe.model else INNER
    if knob in change:
        raise InputError(f"Candidate {name!r} varies {knob}, which equal parameters need to be free. Leave --equal out.")

    def parameters_with(size: int) -> float:
        return _parameters(task_of(change | {knob: size}, name))

    if abs(_parameters(task_of(change, name)) - goal) <= NEAR / 20 * goal:
        return change
    low, high = 1, 2
    while parameters_with(high) < goal and high < 2**20:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if parameters_with(middle) < goal else (low, middle)
    best = min((low, high), key=lambda size: abs(parameters_with(size) - goal))
    if abs(parameters_with(best) - goal) > NEAR * goal:
        raise InputError(
            f"Candidate {name!r} has {parameters_with(best):,.0f} parameters with {knob} = {best}, and the recipe {goal:,.0f}: "
            "no size of that part makes them equal. Change its width or layers, or leave --equal out."
        )
    return change | {knob: best}


def _equal_compute(change: Change, name: str, goal: float, base: Recipe, task_of: Callable[[Change, str], Task]) -> Change:
    if STEPS in change:
        raise InputError(f"Candidate {name!r} varies {STEPS}, which equal compute needs to be free. Leave --equal out.")
    steps = max(1, round(base.budget.steps * goal / _compute(task_of(change, name))))
    if steps == base.budget.steps:
        return change
    warmup = {} if WARMUP in change else {WARMUP: round(base.optimiser.warmup * steps / base.budget.steps)}
    return change | {STEPS: steps} | warmup
