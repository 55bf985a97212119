"""Measurements on a finished run that a comparison needs beside the run's own result. They are stored in the run's folder.

They take less than half of the time of training: as many passages or pictures are read at other sizes as cost EFFORT of what
training cost, by multiply-adds, so that the same ones are read for every candidate and seed on any machine.
"""

import copy
import resource
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import torch
from msgspec import Struct, field

from equiscope import outputs
from equiscope.audit import check
from equiscope.audit.inputs.example_inputs import inputs_for
from equiscope.budgets import decoded, read
from equiscope.data import Images, Language, Synthetic
from equiscope.errors import EquiscopeError, InputError
from equiscope.models import Model
from equiscope.models.resize import resized
from equiscope.positions import LearnedNd
from equiscope.record import Run
from equiscope.record.comparison import Extrapolation
from equiscope.symmetry.compose import CLAIMED
from equiscope.training import ImagesTask, LanguageTask, SyntheticTask, Task, load_run, open_task

MEASUREMENTS = "measurements.json"
LONGER, LARGER = (1, 2, 4, 8), (0.75, 1, 1.25, 1.5, 2)  # times the context; times the sides of pictures
PROPERTIES = ("causal", "cache", "batch")
LEAST = 2  # passages that a part has at the longest context, or that length says nothing
EFFORT = 0.25  # of the multiply-adds of training, for all sizes together; the other half is left for the check of symmetries
SOME = 50  # passages, examples or pictures that are read in any case


class RunMeasurements(Struct, frozen=True, kw_only=True):
    """extrapolation: the metric at other sizes; verdicts: of a check of the model; memory: peak of the process in bytes;
    seconds: of measuring.
    """

    extrapolation: list[Extrapolation] = field(default_factory=list)
    verdicts: Mapping[str, str] = field(default_factory=dict)
    memory: float | None = None
    seconds: float = 0.0


def measure_run(
    folder: Path, run: Run, task: Task, check_symmetry: bool = True, sizes: Sequence[float] | None = None
) -> RunMeasurements:  # fmt: skip
    """Measure a finished run with its best weights, on a GPU if there is one.

    check_symmetry  whether to check symmetries, which do not depend on the seed
    sizes           times the trained size at which the run is evaluated; by default LONGER or LARGER
    """
    began, memory = time.perf_counter(), peak_memory()  # of training, before what follows adds to it
    model = load_run(folder)
    verdicts = check_verdicts(model) if check_symmetry else {}
    model = model.to("cuda" if torch.cuda.is_available() else "cpu")
    trained = run.result.get(part_of(task), {})
    extrapolated = list(extrapolations(model, task, Path(run.recipe_folder), sizes, trained))
    seconds = time.perf_counter() - began
    return RunMeasurements(extrapolation=extrapolated, verdicts=verdicts, memory=memory, seconds=seconds)


def part_of(task: Task) -> str:
    """The part that decides: the test part where there is one."""
    return deciding(task.parts)


def deciding(parts: Any) -> str:
    return "test" if "test" in parts else "validation"


def axis_of(data: Any) -> str:
    """The unit of other sizes; empty for tasks whose inputs have no size to change."""
    if isinstance(data, Synthetic) and data.generate != "addition":
        return "symbols of input"
    return "tokens of context" if isinstance(data, Language) else "pixels a side" if isinstance(data, Images) else ""


def extrapolations(
    model: Any, task: Task, recipe_folder: Path, times: Sequence[float] | None = None,
    trained: Mapping[str, float | None] | None = None,
) -> Iterator[Extrapolation]:  # fmt: skip
    """The metric at other sizes than in training: at these times the trained size, by default LONGER or LARGER.

    trained  the result of the run, with the same weights on the same examples: it is not measured again at the trained size
    """
    data = task.recipe.data
    changes: list[tuple[float, int, dict[str, Any]]] = []
    if isinstance(data, Language):
        contexts = [(factor, round(data.context * factor)) for factor in (LONGER if times is None else times)]
        changes = [(factor, context, {"context": context}) for factor, context in contexts]
    elif isinstance(data, Synthetic) and axis_of(data):
        lengths = [(factor, round(data.length * factor)) for factor in (LONGER if times is None else times)]
        changes = [(factor, length, {"length": length}) for factor, length in lengths]
    elif isinstance(data, Images):
        patch = model.spec.input.patch if isinstance(model, Model) else (1, 1)
        sides = model_sizes(task, patch, LARGER if times is None else times)
        changes = [(size[0] / _size(task)[0], size[0], {"size": list(size)}) for size in sides]
    for factor, size, change in changes:
        if factor == 1 and trained:
            yield Extrapolation(factor=1, size=size, value=next(iter(trained.values())), values=dict(trained))
        else:
            yield _evaluate_at(factor, size, model, task, change, recipe_folder, _affordable(task, model, factor, len(changes)))


def _affordable(task: Task, model: Any, factor: float, sizes: int) -> int:
    """How many passages, examples or pictures of a size cost a share of what training did, by the multiply-adds of the model."""
    data, budget = task.recipe.data, task.recipe.budget
    batch = task.batch(0)
    trained = 3 * budget.steps * budget.batch * task.multiply_adds(model.spec, replace(batch, size=1))  # backward is twice forward
    if isinstance(data, Language | Synthetic):
        other = replace(batch, size=1, length=round(batch.length * factor))
    else:
        views = len(data.views) if isinstance(data, Images) else 1
        other = replace(batch, size=views, length=round(batch.length * factor**2))
    return max(SOME, int(EFFORT * trained / sizes / task.multiply_adds(model.spec, other)))


def model_sizes(task: Task, patch: Any, times: Sequence[float] = LARGER) -> list[tuple[int, int]]:
    """Sides of pictures near these times those of training, in whole patches."""
    sides = _size(task)
    sizes = [tuple(max(1, round(factor * n / p)) * p for n, p in zip(sides, patch, strict=True)) for factor in times]
    return list(dict.fromkeys((down, across) for down, across in sizes))


def _size(task: Task) -> tuple[int, int]:
    assert isinstance(task, ImagesTask)
    return task.format.size


def _evaluate_at(
    factor: float, size: int, model: Any, task: Task, change: dict[str, Any], recipe_folder: Path, most: int
) -> Extrapolation:  # fmt: skip
    try:
        values = _values(model, task, change, recipe_folder, most)
    except EquiscopeError as error:
        return Extrapolation(factor=factor, size=size, reason=str(error))
    except torch.OutOfMemoryError:  # of the machine, not of the model
        raise
    except (RuntimeError, IndexError) as error:  # a baseline's own: "mat1 and mat2 shapes cannot be multiplied"
        return Extrapolation(factor=factor, size=size, reason=f"It cannot read inputs of this size: {str(error).splitlines()[0]}")
    return Extrapolation(factor=factor, size=size, value=next(iter(values.values())), values=dict(values))


def _values(model: Any, task: Task, change: dict[str, Any], recipe_folder: Path, most: int) -> dict[str, float]:
    """The metrics on the same part of the same data, cut or resized differently.

    most  passages, examples or pictures that are read
    """
    data, part = msgspec.convert(msgspec.to_builtins(task.recipe.data) | change, type(task.recipe.data)), part_of(task)
    if isinstance(task, LanguageTask):
        length = len(task.passages.ids[part])
        if length < LEAST * change["context"]:
            raise InputError(f"The {part} part has {length} tokens, fewer than {LEAST} passages of {change['context']}.")
        return _read(model, partial(task.with_context(change["context"]).evaluate, part=part), most)
    if isinstance(task, SyntheticTask):
        return _read(model, partial(task.with_length(change["length"]).evaluate, part=part), most)
    other = open_task(msgspec.structs.replace(task.recipe, data=data), recipe_folder)
    if isinstance(model, Model) and isinstance(model.position, LearnedNd):
        model = resized(model, tuple(change["size"]))
    assert isinstance(other, ImagesTask)
    return _read(model, partial(other.final, part=part), most)  # in all views


@torch.no_grad()
def _read(model: Any, evaluate: Callable[..., dict[str, float]], most: int) -> dict[str, float]:
    """The metrics; on a GPU after one example on the CPU: what a model cannot read is an error there, and on a GPU an assertion
    that ends the process.
    """
    if next(model.parameters()).is_cuda:
        evaluate(copy.deepcopy(model).cpu(), most=1)
    return evaluate(model, most=most)


def check_verdicts(model: Any) -> dict[str, str]:
    """Verdicts of a check of symmetries and engineering properties; empty if the model cannot be checked."""
    try:
        given = inputs_for(model)
        audit = check(
            model, *given.args, kwargs=given.kwargs, kinds=given.kinds, actions=[a.name for a in CLAIMED],
            properties=PROPERTIES, effort="quick", localize=False, random_parameters=False, proof=False,
        )  # fmt: skip
    except EquiscopeError:
        return {}
    return {row.name: row.verdict for row in audit.rows}


def peak_memory() -> float | None:
    """Peak memory in bytes of this process, or of the GPU if there is one."""
    if torch.cuda.is_available():
        return float(torch.cuda.max_memory_allocated())
    unit = 1 if sys.platform == "darwin" else 1024
    return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit)


def write_measurements(measurements: RunMeasurements, folder: Path) -> None:
    outputs.write(folder / MEASUREMENTS, msgspec.json.format(msgspec.json.encode(measurements), indent=1) + b"\n")


def read_measurements(folder: Path) -> RunMeasurements:
    """The stored measurements; empty ones if the run is not finished. Raises InputError if the file is damaged."""
    path = folder / MEASUREMENTS
    try:
        return decoded(read(path), RunMeasurements)
    except FileNotFoundError:
        return RunMeasurements()
    except (OSError, msgspec.DecodeError) as error:
        raise InputError(f"{path} is damaged: {error}. Delete it, and compare again: it is measured again.") from error
