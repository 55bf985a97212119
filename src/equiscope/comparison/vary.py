"""Vary: fields of a recipe by their short names, values as in TOML, every combination of several."""

import dataclasses
import itertools
import math
import re
import typing
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from equiscope.errors import InputError, did_you_mean
from equiscope.models import spec as specs
from equiscope.training import fields
from equiscope.training.reading import altered, value_of
from equiscope.training.recipe import TASKS, Recipe

Change = dict[str, Any]  # values by the dotted names of a recipe's fields
TABLES = ("data", "budget", "optimiser", "evaluation", "engine")


def parse_vary(axes: Sequence[str], task: str) -> dict[str, Change]:
    """Candidates by name: every combination of the values of some fields.

    axes    "position=none,rope", each a field and its values; a table or list is written as in TOML
    task    of the recipe, which decides the fields of its data
    raises  InputError where a field is unknown or named twice, or a value is given twice
    """
    axes_by_path: dict[str, list[Any]] = {}
    for axis in axes:
        name, sign, text = axis.partition("=")
        if not sign or not text.strip():
            raise InputError(f"--vary takes field=value,value, such as position=none,rope, but got {axis!r}.")
        path = resolved(name.strip(), task)
        if path in axes_by_path:
            raise InputError(f"--vary {name.strip()} is given twice. Name all its values in one: {name.strip()}=first,second.")
        axes_by_path[path] = values(text, axis)
    return combinations(axes_by_path)


def combinations(axes: dict[str, list[Any]]) -> dict[str, Change]:
    """Candidates by name, from values by dotted field: every combination."""
    short = {path: _short(path, list(axes)) for path in axes}
    candidates: dict[str, Change] = {}
    for combination in itertools.product(*axes.values()):
        change = dict(zip(axes, combination, strict=True))
        name = ", ".join(format_value(v) if len(axes) == 1 else f"{short[path]} {format_value(v)}" for path, v in change.items())
        if name in candidates:
            raise InputError(f"{name} is given twice. To see that a variant equals itself, name two candidates in a file.")
        candidates[name] = change
    return candidates


def values(text: str, axis: str) -> list[Any]:
    """Values separated by commas; commas in a table, a list or quotes belong to the value."""
    parts, depth, quote, start = [], 0, "", 0
    for index, sign in enumerate(text):
        if quote:
            quote = "" if sign == quote else quote
        elif sign in "\"'":
            quote = sign
        elif sign in "[{":
            depth += 1
        elif sign in "]}":
            depth -= 1
        elif sign == "," and not depth:
            parts.append(text[start:index])
            start = index + 1
    parts.append(text[start:])
    if any(not part.strip() for part in parts):
        raise InputError(f"--vary {axis} has an empty value. Write field=value,value without a comma at the end.")
    return [value_of(part.strip(), f"--vary {axis}") for part in parts]


def resolved(name: str, task: str) -> str:
    """The full dotted name of a field: "position" is model.block.attention.position.

    raises  InputError if there is no such field, or several
    """
    known = list(names(task))
    if name in known or name.startswith("model.encoder."):
        return name
    ends = [path for path in known if path.endswith(f".{name}")]
    if not ends:
        near = did_you_mean(name, sorted({part for path in known for part in (path, path.rpartition(".")[2])}))
        raise InputError(f"A recipe has no field {name} that could vary. {near or 'See docs/reference/recipe.md.'}")
    if len(ends) > 1:
        raise InputError(f"{name} could be {' or '.join(ends)}. Write more of its name.")
    return ends[0]


def names(task: str) -> Iterator[str]:
    """The dotted name of every field of a recipe of this task, without those of an encoder, which are the same."""
    yield from _of_spec(specs.Spec, "model")
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


def apply_change(data: dict[str, Any], change: Change) -> dict[str, Any]:
    """A recipe's data with these fields replaced; if a model lists its blocks, in each of them."""
    result = data
    if "model.baseline" in change and "baseline" not in data.get("model", {}):
        result = altered(result, {"model": {"baseline": change["model.baseline"]}})
    for path, value in change.items():
        keys = path.split(".")
        result = _put(result, keys, value)
        encoder = result.get("model", {}).get("encoder")
        if keys[:3] == ["model", "block", "attention"] and keys[3] == "position" and isinstance(encoder, dict):
            result = _put(result, ["model", "encoder", *keys[1:]], value)  # both sides use the same scheme
    return result


def _put(data: Any, keys: Sequence[str], value: Any) -> Any:
    if not keys:
        return value
    if isinstance(data, (list, tuple)):
        return [_put(one, keys, value) for one in data]
    table = dict(data) if isinstance(data, dict) else {}
    return table | {keys[0]: _put(table.get(keys[0]), keys[1:], value)}


def format_value(value: Any) -> str:
    """A value as a person reads it: {"scheme": "rope", "base": 500} is "rope base 500"."""
    if isinstance(value, dict):
        if joined := next((key for key in ("and", "or") if key in value), ""):
            return f" {joined} ".join(map(format_value, value[joined]))
        first = [str(value[key]) for key in ("scheme", "kind") if key in value]
        return " ".join([*first, *(f"{k} {format_value(v)}" for k, v in value.items() if k not in ("scheme", "kind"))]) or "default"
    if isinstance(value, (list, tuple)):
        return "×".join(map(format_value, value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) and math.isfinite(value) else str(value)


def _short(path: str, others: Sequence[str]) -> str:
    """The shortest end of a field's name that no other field has."""
    keys = path.split(".")
    for n in range(1, len(keys) + 1):
        end = ".".join(keys[-n:])
        if sum(other == end or other.endswith(f".{end}") for other in others) == 1:
            return end
    return path


def slug(name: str) -> str:
    """A name in a form that a folder can have."""
    return re.sub(r"[^\w.-]+", "-", name).strip("-.") or "candidate"
