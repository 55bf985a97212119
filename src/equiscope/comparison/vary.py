"""Vary: fields of a recipe by their short names, values as in TOML, every combination of several."""

import itertools
import math
import re
from collections.abc import Sequence
from typing import Any

from equiscope.errors import InputError, short_repr
from equiscope.training.field_names import resolved
from equiscope.training.reading import altered, value_of

Change = dict[str, Any]  # values by the dotted names of a recipe's fields


def parse_vary(axes: Sequence[str], task: str) -> dict[str, Change]:
    """Candidates by name: every combination of the values of some fields.

    axes    "position=none,rope", each a field and its values; a table or list is written as in TOML
    task    of the recipe, which decides the fields of its data
    raises  InputError where a field is unknown or named twice, or a value is given twice
    """
    axes_by_path: dict[str, list[Any]] = {}
    for axis in axes:
        name, sign, text = axis.partition("=")
        if not sign or not name.strip() or not text.strip():
            raise InputError(f"--vary takes field=value,value, such as position=none,rope, but got {short_repr(axis)}.")
        path = resolved(name.strip(), task)
        if path in axes_by_path:
            raise InputError(f"--vary {name.strip()} is given twice. Name all its values in one: {name.strip()}=first,second.")
        axes_by_path[path] = values(text, axis)
    return combinations(axes_by_path)


def combinations(axes: dict[str, list[Any]]) -> dict[str, Change]:
    """Candidates by name, from values by dotted field: every combination. Numbers are named with their field."""
    short = {path: _short(path, list(axes)) for path in axes}
    candidates: dict[str, Change] = {}
    for combination in itertools.product(*axes.values()):
        change = dict(zip(axes, combination, strict=True))
        name = ", ".join(
            f"{short[path]} {format_value(v)}" if len(axes) > 1 or isinstance(v, (bool, int, float)) else format_value(v)
            for path, v in change.items()
        )
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
