"""Short names of a recipe's fields: `position` is model.block.attention.position. `--set` and `--vary` take them."""

import dataclasses
import typing
from collections.abc import Iterator
from functools import cache

import msgspec

from equiscope.errors import OTHER_LIBRARIES, InputError, did_you_mean, sentences
from equiscope.geometry import PointSpec
from equiscope.models import spec as specs
from equiscope.training import fields
from equiscope.training.recipe import IN_SPACE, TASKS, Recipe

TABLES = ("data", "budget", "optimiser", "evaluation", "engine")


def resolved(name: str, task: str) -> str:
    """The full dotted name of a field: "position" is model.block.attention.position.

    raises  InputError if there is no such field, or several
    """
    known = names(task)
    if name in known or name.startswith("model.encoder."):
        return name
    ends = matching(name, task)
    if not ends and name in {f.name for f in msgspec.structs.fields(Recipe)}:
        inner = [path for path in known if path.startswith(f"{name}.")]
        hint = f"Vary one of its fields, such as {inner[0]}." if inner else "Give --seeds." if name == "seed" else ""
        raise InputError(sentences(f"The field {name} of a recipe cannot vary.", hint))
    if not ends:
        raise InputError(f"A recipe has no field {name} that could vary. {similar(name, task) or 'See docs/reference/recipe.md.'}")
    if len(ends) > 1:
        raise InputError(f"{name} could be {' or '.join(ends)}. Write more of its name.")
    return ends[0]


def matching(name: str, task: str) -> list[str]:
    """The full names of the fields that a short name may mean."""
    return [path for path in names(task) if path.endswith(f".{name}")]


def similar(name: str, task: str) -> str:
    """The question "Did you mean rate?" for similar names, full or short; empty if there is none."""
    return did_you_mean(name, sorted({part for path in names(task) for part in (path, path.rpartition(".")[2])}))


def deeper(name: str, kind: type) -> str:
    """The question "Did you mean model.block.attention.heads?" for a field of a model that stands in another of its tables."""
    ends = (f".{name}", f".{OTHER_LIBRARIES.get(name, name)}")
    paths = [path for path in dict.fromkeys(_of_spec(kind, "model")) if path.endswith(ends)]
    return f"Did you mean {' or '.join(paths)}?" if paths else ""


@cache
def names(task: str) -> tuple[str, ...]:
    """The dotted name of every field of a recipe of this task, without those of an encoder, which are the same."""
    return tuple(_names(task))


def _names(task: str) -> Iterator[str]:
    kinds = (PointSpec, specs.Spec) if TASKS[task] in IN_SPACE else (specs.Spec,)  # a molecule may have either
    yield from dict.fromkeys(path for kind in kinds for path in _of_spec(kind, "model"))
    yield from ("model.preset", "model.start", "model.baseline")
    for f in msgspec.structs.fields(Recipe):
        if f.name not in TABLES:
            continue
        kind = TASKS[task] if f.name == "data" else f.type
        for inner in msgspec.structs.fields(kind):
            yield f"{f.name}.{inner.name}"
            for table in [t for name, t in fields.tables(kind).items() if name == inner.name]:
                yield from (f"{f.name}.{inner.name}.{one.name}" for one in msgspec.structs.fields(table))


def _of_spec(kind: type, path: str) -> Iterator[str]:
    hints = typing.get_type_hints(kind, include_extras=True)
    for f in dataclasses.fields(kind):
        yield f"{path}.{f.name}"
        inner = [t for t in (hints[f.name], *typing.get_args(hints[f.name])) if dataclasses.is_dataclass(t)]
        if inner and inner[0] is not specs.Spec and f.name != "cross":
            yield from _of_spec(typing.cast(type, inner[0]), f"{path}.{f.name}")
