"""After a run: what a comparison wants to know beside the run's own result. Kept in the run's folder, so it is measured once."""

import resource
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import torch
from msgspec import Struct, field

from equiscope import outputs
from equiscope.audit import check
from equiscope.audit.inputs.example_inputs import inputs_for
from equiscope.budgets import decoded, read
from equiscope.data import Images, Language
from equiscope.errors import EquiscopeError, InputError
from equiscope.models import Model
from equiscope.models.resize import resized
from equiscope.positions import LearnedNd
from equiscope.record import Run
from equiscope.record.comparison import Beyond
from equiscope.symmetry.compose import CLAIMED
from equiscope.training import ImagesTask, LanguageTask, Task, load_run, open_task

AFTER = "after.json"
LONGER, LARGER = (1, 2, 4, 8), (0.75, 1, 1.25, 1.5, 2)  # times the context; times the sides of pictures
PROPERTIES = ("causal", "cache", "batch")
LEAST = 2  # passages that a part has at the longest context, or that length says nothing


class After(Struct, frozen=True, kw_only=True):
    """beyond: the deciding number at other sizes; measured: verdicts of a check; memory: most bytes that the process held."""

    beyond: list[Beyond] = field(default_factory=list)
    measured: Mapping[str, str] = field(default_factory=dict)
    memory: float | None = None


def measured(place: Path, run: Run, task: Task, looking: bool = True) -> After:
    """Measure a finished run with its best weights. looking: its symmetries too, which do not depend on the seed."""
    memory = peak()  # of training, before what follows adds to it
    model = load_run(place)
    return After(beyond=list(beyond(model, task, Path(run.beside))), measured=verdicts(model) if looking else {}, memory=memory)


def part_of(task: Task) -> str:
    """The part that decides: the test part where there is one."""
    return deciding(task.parts)


def deciding(parts: Any) -> str:
    return "test" if "test" in parts else "validation"


def axis_of(data: Any) -> str:
    """What other sizes are counted in; empty for tasks whose inputs have no size to change."""
    return "tokens of context" if isinstance(data, Language) else "pixels a side" if isinstance(data, Images) else ""


def beyond(model: Any, task: Task, beside: Path) -> Iterator[Beyond]:
    """The number that decides, at other sizes than those of training."""
    data = task.recipe.data
    if isinstance(data, Language):
        for times in LONGER:
            yield _tried(times, data.context * times, model, task, {"context": data.context * times}, beside)
    elif isinstance(data, Images):
        patch = model.spec.input.patch if isinstance(model, Model) else (1, 1)
        sizes = model_sizes(task, patch)
        for size in sizes:
            yield _tried(size[0] / _size(task)[0], size[0], model, task, {"size": list(size)}, beside)


def model_sizes(task: Task, patch: Any) -> list[tuple[int, int]]:
    """Sides of pictures near LARGER times those of training, in whole cells."""
    sides = _size(task)
    found = [tuple(max(1, round(times * n / p)) * p for n, p in zip(sides, patch, strict=True)) for times in LARGER]
    return list(dict.fromkeys((down, across) for down, across in found))


def _size(task: Task) -> tuple[int, int]:
    assert isinstance(task, ImagesTask)
    return task.format.size


def _tried(factor: float, size: int, model: Any, task: Task, change: dict[str, Any], beside: Path) -> Beyond:
    try:
        found = _values(model, task, change, beside)
    except EquiscopeError as error:
        return Beyond(factor=factor, size=size, reason=str(error))
    except (RuntimeError, IndexError) as error:  # a baseline's own: "mat1 and mat2 shapes cannot be multiplied"
        return Beyond(factor=factor, size=size, reason=f"It cannot read inputs of this size: {str(error).splitlines()[0]}")
    return Beyond(factor=factor, size=size, value=next(iter(found.values())), values=dict(found))


def _values(model: Any, task: Task, change: dict[str, Any], beside: Path) -> dict[str, float]:
    """Of the same part of the same data, cut or resized otherwise."""
    data = msgspec.to_builtins(task.recipe.data) | change
    other = open_task(msgspec.structs.replace(task.recipe, data=msgspec.convert(data, type(task.recipe.data))), beside)
    part = part_of(other)
    if isinstance(other, LanguageTask):
        assert other.passages is not None
        length = len(other.passages.ids[part])
        if length < LEAST * change["context"]:
            raise InputError(f"The {part} part has {length} tokens, fewer than {LEAST} passages of {change['context']}.")
    elif isinstance(model, Model) and isinstance(model.position, LearnedNd):
        model = resized(model, tuple(change["size"]))
    with torch.no_grad():
        return other.final(model, part) if isinstance(other, ImagesTask) else other.evaluate(model, part)  # in all views


def verdicts(model: Any) -> dict[str, str]:
    """What a check finds of the symmetries that parts speak of, and of what engineers rely on; empty where it cannot be asked."""
    try:
        given = inputs_for(model)
        audit = check(
            model, *given.args, kwargs=given.kwargs, kinds=given.kinds, actions=[a.name for a in CLAIMED],
            properties=PROPERTIES, effort="quick", localize=False, random_parameters=False, proof=False,
        )  # fmt: skip
    except EquiscopeError:
        return {}
    return {row.name: row.verdict for row in audit.rows}


def peak() -> float | None:
    """Most bytes that this process, or the GPU for it, held at once."""
    if torch.cuda.is_available():
        return float(torch.cuda.max_memory_allocated())
    unit = 1 if sys.platform == "darwin" else 1024
    return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit)


def write_after(found: After, place: Path) -> None:
    outputs.write(place / AFTER, msgspec.json.format(msgspec.json.encode(found), indent=1) + b"\n")


def read_after(place: Path) -> After:
    """What was measured; nothing where the run is not that far. Raises InputError where the file is damaged."""
    path = place / AFTER
    try:
        return decoded(read(path), After)
    except FileNotFoundError:
        return After()
    except (OSError, msgspec.DecodeError) as error:
        raise InputError(f"{path} is damaged: {error}. Delete it, and compare again: it is measured again.") from error
