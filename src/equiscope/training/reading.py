"""Reading: a recipe from a TOML file. All mistakes are reported at once, each with its line.

A recipe may have a table `small`: the changes of --small, which trains in a minute on the samples beside it.
"""

import dataclasses
import math
import re
import tomllib
import typing
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from equiscope import budgets, positions
from equiscope.budgets import DEEP, TOO_DEEP, too_deep
from equiscope.data import Molecules
from equiscope.errors import (
    InputError,
    UnknownField,
    UnknownName,
    WrongValue,
    did_you_mean,
    printable,
    reason,
    short_repr,
    suggestion,
)
from equiscope.geometry import PointSpec
from equiscope.models import BASELINES, PRESETS, Baseline, ModelSpec, Spec
from equiscope.models.baselines import foreign
from equiscope.models.spec import Attention, Block, FeedForward, InputLayer, Norm, OutputLayer
from equiscope.spec_base import named_fields
from equiscope.training import fields
from equiscope.training.field_names import deeper, matching, resolved, similar
from equiscope.training.fields import joined, written
from equiscope.training.recipe import IN_SPACE, TASKS, Data, Recipe

Kind = type[ModelSpec]
POSITION = "model.block.attention.position"


def read_recipe(path: Path, changes: list[str] | None = None, small: bool = False, before: Sequence[str] = ()) -> Recipe:
    """Read a recipe from its file.

    changes  "optimiser.rate=3e-4" or, by its short name, "rate=3e-4": fields to change, values as in TOML; words need no quotes
    small    whether to apply the table `small`
    before   changes that are made before, so that the table `small` overrides them: those of a question
    raises   InputError with the file, the line and the field that does not fit
    """
    text, data = read_toml(path, "recipe")
    small_table = data.pop("small", None)
    if small_table is not None and not isinstance(small_table, dict):
        where = Origin(str(path), text).of("small")
        raise InputError(f"{where}: small is {written(small_table)}, but takes a table with the fields that --small changes.")
    named: list[tuple[str, str]] = []
    for change in before:
        data = _changed(data, change, named)
    if small:
        if small_table is None:
            raise InputError(f"{path} has no table [small]. Leave --small out, or change single fields with --set.")
        data = merged(data, small_table)
    for change in changes or []:
        data = _changed(data, change, named)
    if too_deep(data):
        raise InputError(f"--set gives {path} a value that is not read: {TOO_DEEP}. Make it flat.")
    origin = Origin(str(path), text, small_table if small else None, tuple(named))
    recipe_ = _validated(data, origin)
    if not small and small_table is not None:
        _typed(merged(data, small_table), Origin(str(path), text, small_table))  # report its errors before --small is used
    return _started(recipe_, path.parent, origin)


def read_toml(path: Path, what: str) -> tuple[str, dict[str, Any]]:
    """The text of a TOML file and its data. Raises InputError if there is no file, or it is not TOML."""
    name, text = printable(path), ""
    try:
        text = budgets.text(path)
        data = tomllib.loads(text)
    except FileNotFoundError as error:
        raise InputError(f"There is no {what} {name}.{_neighbours(path)}") from error
    except IsADirectoryError as error:
        raise InputError(f"{name} is a folder without run.json. Give a recipe (.toml), or the folder of a run.") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{name} is not UTF-8, so it is not a {what}. Give a .toml file.") from error
    except OSError as error:
        raise InputError(f"{name} cannot be read: {reason(error)}.") from error
    except RecursionError as error:
        raise InputError(f"{name} is not read: {TOO_DEEP}. Make it flat.") from error
    except ValueError as error:  # no TOML, or a number of thousands of digits
        if not isinstance(error, InputError) and re.search(r"\r(?!\n)", text):
            raise InputError(
                f"{name} is not TOML: it has lines that end in a carriage return alone. Convert it: tr '\\r' '\\n' < FILE > NEW."
            ) from error
        raise error if isinstance(error, InputError) else InputError(f"{name} is not TOML: {reason(error)}.") from error
    if too_deep(data):
        raise InputError(f"{name} is not read: {TOO_DEEP}. Make it flat.")
    return text, data


def recipe(data: dict[str, Any], name: str = "recipe") -> Recipe:
    """A recipe from plain data, such as a run's record. Raises InputError as `read_recipe`."""
    return _validated(data, Origin(name))


def merged(data: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """The data with the changes; tables are merged, other values are replaced."""
    result = dict(data)
    for name, value in changes.items():
        old = result.get(name)
        result[name] = merged(old, value) if isinstance(value, dict) and isinstance(old, dict) else value
    return result


def altered(data: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """As `merged`; but if a baseline replaces a transformer, only width, layers and dropout of the transformer are kept."""
    model, change = data.get("model"), changes.get("model")
    if isinstance(model, dict) and isinstance(change, dict) and "baseline" in change and "baseline" not in model:
        kept = {name: value for name, value in model.items() if name in ("width", "layers", "dropout")}
        data = data | {"model": kept}
    return merged(data, changes)


def replaced(data: dict[str, Any], keys: Sequence[str], value: Any) -> dict[str, Any]:
    """The data with the value of one field replaced, also if it is a table; otherwise as `altered`."""
    nested: Any = value
    for key in reversed(keys):
        nested = {key: nested}
    result = altered(data, nested)
    if isinstance(value, dict):
        table = result  # tables along the path are new ones, by `merged`
        for key in keys[:-1]:
            table = table[key]
        table[keys[-1]] = value
    return result


def differences(old: Any, new: Any, path: str = "") -> list[str]:
    """The differences between two recipes, as "optimiser.rate: 0.001, now 0.01"."""
    if isinstance(old, dict) and isinstance(new, dict):
        names = [*old, *(name for name in new if name not in old)]
        return [d for n in names for d in differences(old.get(n), new.get(n), f"{path}.{n}".strip("."))]
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        return [d for i, pair in enumerate(zip(old, new, strict=True)) for d in differences(*pair, f"{path}[{i}]")]
    return [] if old == new else [f"{path}: {old!r}, now {new!r}"]


@dataclass(frozen=True)
class Origin:
    """The origin of a recipe's fields: a file (text), its table `small`, or --set.

    changes  the full name of each changed field, and the change as it was typed
    """

    name: str
    text: str = ""
    small: dict[str, Any] | None = None
    changes: tuple[tuple[str, str], ...] = ()

    def of(self, path: str) -> str:
        """The location of a field, or else of its table, as "recipe.toml, line 3"."""
        path = re.sub(r"\[\d+\]", "", path)
        lines, names = dict(_lines(self.text)), path.split(".")
        for changed, change in reversed(self.changes):
            if f"{path}.".startswith(f"{changed}.") or (changed.startswith(f"{path}.") and path not in lines):
                return f"--set {change}"
        above = [names[:n] for n in range(len(names), 0, -1)]
        lesser = [["small", *one] for one in [*above, []]] if self._in_small(names) else []
        line = next((lines[".".join(one)] for one in [*lesser, *above] if ".".join(one) in lines), 0)
        return f"{self.name}, line {line}" if line else self.name

    def _in_small(self, names: list[str]) -> bool:
        held: Any = self.small
        for name in names:
            if not isinstance(held, dict) or name not in held:
                return False
            held = held[name]
        return True


def _validated(data: dict[str, Any], origin: Origin) -> Recipe:
    """The recipe of plain data. Raises InputError for all mistakes at once, each with its location."""
    checked_recipe = _typed(data, origin)
    _refuse([f"{origin.of(path)}: {sentence}" for path, sentence in _impossible(checked_recipe)])
    return checked_recipe


def _refuse(mistakes: Sequence[str]) -> None:
    """Raise InputError if there are mistakes: one sentence, or a line for each."""
    if len(mistakes) == 1:
        raise InputError(mistakes[0])
    if mistakes:
        raise InputError("\n".join([f"The recipe has {len(mistakes)} mistakes:", *(f"  {one}" for one in mistakes)]))


def _typed(data: dict[str, Any], origin: Origin) -> Recipe:
    """The recipe of plain data; each field is checked by itself, not in combination with others."""
    data = _without_none(data, Recipe)
    if isinstance(data.get("model"), dict):
        data["model"] = _parts_without_none(data["model"])
    try:
        recipe_ = msgspec.convert(data, Recipe)
    except (msgspec.ValidationError, OverflowError) as error:
        found = list(fields.misfits(data, Recipe)) or [("", "it is no recipe.")]
        mistakes = [f"{origin.of(path)}: {sentence}" for path, sentence in found]
        model, task = data.get("model"), (data["data"].get("task") if isinstance(data.get("data"), dict) else None)
        if isinstance(model, dict) and isinstance(task, str) and task in TASKS and TASKS[task] not in IN_SPACE:
            try:
                _check_model(model, origin)
            except InputError as other:
                mistakes.append(str(other))
        try:
            _refuse(mistakes)
        except InputError as all_of_them:
            raise all_of_them from error
    not_finite: list[str] = []
    for part in ("data", "budget", "optimiser"):
        for path, number in _numbers(data.get(part), part):
            if not math.isfinite(number):
                not_finite.append(f"{origin.of(path)}: {path} is {number}, but takes a finite number.")
    _refuse(not_finite)
    if isinstance(recipe_.data, IN_SPACE):
        _check_point_model(recipe_, origin)
    else:
        _check_model(recipe_.model, origin)
    return recipe_


def _numbers(value: Any, path: str) -> Iterator[tuple[str, float]]:
    """The floating-point numbers in tables and lists, with their paths."""
    if isinstance(value, float):
        yield path, value
    elif isinstance(value, dict):
        for name, held in value.items():
            yield from _numbers(held, f"{path}.{name}")
    elif isinstance(value, list | tuple):
        for place, held in enumerate(value):
            yield from _numbers(held, f"{path}[{place}]")


def _started(recipe_: Recipe, recipe_folder: Path, origin: Origin) -> Recipe:
    """The recipe with the absolute path of the checkpoint that it starts from, so that the run can be resumed from any folder."""
    start = recipe_.model.get("start")
    if start is None:
        return recipe_
    path = Path(start).expanduser()
    folder = next((one for one in (recipe_folder / path, path) if one.is_dir()), None)
    if folder is None:
        raise InputError(
            f"{origin.of('model.start')}: model.start is {written(start)}, but there is no such folder, beside the recipe or here. "
            "Give a folder with config.json and its weights, or the folder of a run."
        )
    return msgspec.structs.replace(recipe_, model=recipe_.model | {"start": str(folder.absolute())})


def _impossible(recipe_: Recipe) -> Iterator[tuple[str, str]]:
    """Fields that contradict each other."""
    budget, warmup = recipe_.budget, recipe_.optimiser.warmup
    if warmup >= budget.steps:
        yield (
            "optimiser.warmup",
            f"optimiser.warmup is {warmup}, but budget.steps is {budget.steps}: the rate would never be reached. "
            "Give less warmup, or more steps.",
        )
    if budget.accumulate > budget.batch:
        yield (
            "budget.accumulate",
            f"budget.accumulate is {budget.accumulate}, but budget.batch is {budget.batch}: a turn would be empty. "
            "Give a smaller accumulate, or a larger batch.",
        )


def _check_model(model: dict[str, Any], origin: Origin) -> None:
    """Refuse unknown fields of a model; whether its parts fit together is checked when the data is known."""
    fields_ = {name: value for name, value in model.items() if name not in ("preset", "start")}
    preset, start = model.get("preset"), model.get("start")
    if "baseline" in model:
        _check_baseline(model, origin)
        return
    if preset is not None and preset not in list(PRESETS):  # of a list, as a value of a file need not be hashable
        raise InputError(f"{origin.of('model.preset')}: {UnknownName('preset', preset, list(PRESETS))}")
    if start is not None and not isinstance(start, str):
        raise InputError(f"{origin.of('model.start')}: model.start is {written(start)}, but takes a folder, as a text in quotes.")
    if preset is None and start is None and "width" not in fields_:
        raise InputError(
            f"{origin.of('model')}: model.width is missing: it takes a whole number of 1 or more. "
            "Or set a model.preset, or a model.start."
        )
    for path, value in _positions(fields_):
        try:
            positions.from_json(value)
        except InputError as error:
            raise InputError(f"{origin.of(path)}: {path}: {error}") from error
    _check_fields(model, merged(PRESETS[preset]().to_dict() if preset else {"width": 1}, fields_), Spec, origin)


def _check_point_model(recipe_: Recipe, origin: Origin) -> None:
    """Refuse fields that a model of points in space does not have, and engine options that it does not support."""
    model, start = recipe_.model, recipe_.model.get("start")
    for name in ("preset", "baseline"):
        if name in model:
            raise InputError(
                f"{origin.of(f'model.{name}')}: model.{name} belongs to other tasks: this one takes a model of points in space, "
                "and [model] has its fields. Leave it out."
            )
    if start is not None and not isinstance(start, str):
        raise InputError(f"{origin.of('model.start')}: model.start is {written(start)}, but takes a folder, as a text in quotes.")
    if "block" in model and not isinstance(recipe_.data, Molecules):
        raise InputError(
            f"{origin.of('model.block')}: model.block is of a transformer of sequences, but points take a model of points in "
            "space. Leave it out."
        )
    fixed: dict[str, Any] = {"precision": "float32", "recompute": False, "products": "torch"}
    for name, usual in (fixed | ({"compile": False} if "block" in model else {})).items():
        if (value := getattr(recipe_.engine, name)) != usual:
            raise InputError(
                f"{origin.of(f'engine.{name}')}: engine.{name} is {written(value)}, but a model of points in space "
                f"is trained with {written(usual)}. Leave it out."
            )
    if "block" in model:  # an ordinary transformer
        _check_model(model, origin)
        return
    fields_ = {name: value for name, value in model.items() if name != "start"}
    _check_fields(model, {"elements": ["H"]} | fields_, PointSpec, origin)


def _check_baseline(model: dict[str, Any], origin: Origin) -> None:
    """Refuse an unknown baseline, and fields that only a transformer has."""
    kind = model["baseline"]
    if kind not in BASELINES:
        raise InputError(f"{origin.of('model.baseline')}: {UnknownName('baseline', kind, list(BASELINES))}")
    if others := [name for name in model if name in ("preset", "start")] + foreign(model):
        raise InputError(
            f"{origin.of(f'model.{others[0]}')}: model.{others[0]} belongs to a transformer, but model.baseline is "
            f"{written(kind)}. Leave one of them out."
        )
    if "width" not in model:
        raise InputError(f"{origin.of('model')}: model.width is missing: it takes a whole number of 1 or more.")
    unknown: dict[str, Any] = {"vocabulary": 1} if kind == "lstm" else {"shape": [1, 1, 1]}  # until the data is known
    _check_fields(model, unknown | model, Baseline, origin)


def _check_fields(model: dict[str, Any], fields_: dict[str, Any], kind: Kind, origin: Origin) -> None:
    """Refuse unknown fields and wrong values of a kind of model, with their locations."""
    try:
        kind.of(fields_)
    except UnknownField as error:
        path, name = f"model{error.path.removeprefix('spec')}.{error.found}", str(error.found)
        if kind is Spec and error.path == "spec" and name in {f.name for f in dataclasses.fields(Baseline)}:
            raise InputError(f"{origin.of(path)}: {path} belongs to a baseline. Set model.baseline, or leave it out.") from error
        elsewhere = "" if did_you_mean(name, error.known) else deeper(name, kind)
        named = joined(f"model{error.path.removeprefix('spec')}", name)
        raise InputError(f"{origin.of(path)}: there is no field {named}. {suggestion(name, error.known, elsewhere)}") from error
    except UnknownName as error:
        raise InputError(f"{origin.of(_path_to(model, error.found))}: {error}") from error
    except WrongValue as error:
        if not error.path.startswith("spec."):
            raise InputError(f"{origin.of('model')}: {error}") from error
        place = re.sub(r"\[\d+\]", "", error.path.removeprefix("spec."))
        path = f"model.{place}"
        raise InputError(f"{origin.of(path)}: {_misfit_of_spec(error.found, place, kind)}") from error
    except InputError as error:
        if kind is not Spec:
            raise InputError(f"{origin.of('model')}: {error}") from error


def _misfit_of_spec(value: object, path: str, kind: Kind) -> str:
    """The error of a value that does not fit a field of a spec."""
    hint: Any = kind
    for name in path.split("."):
        parts = [kind for kind in (hint, *typing.get_args(hint)) if dataclasses.is_dataclass(kind)]
        hint = typing.get_type_hints(parts[0], include_extras=True)[name]
    parts = [kind for kind in (hint, *typing.get_args(hint)) if dataclasses.is_dataclass(kind)]
    if not parts:
        return fields.misfit(value, hint, f"model.{path}")
    return f"model.{path} is {written(value)}, but takes a table with {', '.join(f.name for f in dataclasses.fields(parts[0]))}."


def _path_to(model: dict[str, Any], value: object, path: str = "model") -> str:
    """The path of the first field with this value."""
    for name, held in model.items():
        if held == value:
            return f"{path}.{name}"
        if isinstance(held, dict) and (path_inside := _path_to(held, value, f"{path}.{name}")) != f"{path}.{name}":
            return path_inside
    return path


def _positions(model: dict[str, Any], path: str = "model") -> Iterator[tuple[str, Any]]:
    """The position schemes in a model, with their paths."""
    for name, held in model.items():
        if name == "position":
            yield f"{path}.{name}", held
        elif isinstance(held, dict):
            yield from _positions(held, f"{path}.{name}")


def _without_none(data: dict[str, Any], kind: type[Struct]) -> dict[str, Any]:
    """The data with None for "none" in fields that accept it: TOML has no null."""
    result = dict(data)
    for f in msgspec.structs.fields(kind):
        value = result.get(f.name)
        if value == "none" and fields.can_be_none(f.type):
            result[f.name] = None
        elif isinstance(value, dict):
            inner = TASKS.get(str(value.get("task"))) if f.type == Data else f.type
            if isinstance(inner, type) and issubclass(inner, Struct):
                result[f.name] = _without_none(value, inner)
    return result


def _parts_without_none(model: Any) -> Any:
    """The same for the parts of a model: norm = "none"; a scheme with that name keeps it: position = "none"."""
    if isinstance(model, (list, tuple)):
        return [_parts_without_none(one) for one in model]
    if not isinstance(model, dict):
        return model
    return {
        name: None if held == "none" and name in _optional() else held if name in named_fields(Spec) else _parts_without_none(held)
        for name, held in model.items()
    }


@cache
def _optional() -> frozenset[str]:
    """The names of a spec's fields that may be None."""
    parts = (Spec, Block, Attention, Norm, FeedForward, InputLayer, OutputLayer, PointSpec)
    hints = [(f.name, typing.get_type_hints(part, include_extras=True)[f.name]) for part in parts for f in dataclasses.fields(part)]
    return frozenset(name for name, hint in hints if type(None) in typing.get_args(hint))


def _changed(data: dict[str, Any], change: str, named: list[tuple[str, str]]) -> dict[str, Any]:
    """The data after one --set option. named: gets the full name of each field that it changes, and the option."""
    keys, value = _parse_set(change)
    try:
        paths = _full_names(keys, data)
    except InputError as error:
        raise InputError(f"--set {change}: {error}") from error
    for path in paths:
        data = replaced(data, path.split("."), value)
    named += [(path, change) for path in paths]
    return data


def _full_names(keys: list[str], data: dict[str, Any]) -> list[str]:
    """The fields that --set changes: one by its full name, or by its short name; a short `position` is that of an encoder too.

    raises  InputError where a short name is that of several fields, or resembles one
    """
    path = ".".join(keys)
    task = data["data"].get("task") if isinstance(data.get("data"), dict) else None
    tables = [f.name for f in msgspec.structs.fields(Recipe)]
    if keys[0] in tables or not isinstance(task, str) or task not in TASKS:
        return [path]
    if not matching(path, task):
        if did_you_mean(keys[0], tables) or not (question := similar(path, task)):
            return [path]
        raise InputError(f"there is no field {path}. {question}")
    found = resolved(path, task)
    model = data.get("model")
    if found == POSITION and isinstance(model, dict) and isinstance(model.get("encoder"), dict):
        return [found, found.replace("model.", "model.encoder.", 1)]
    return [found]


def _parse_set(change: str) -> tuple[list[str], Any]:
    """The path and the value of one --set option."""
    name, sign, value = change.partition("=")
    keys = name.strip().split(".")
    if not sign or len(keys) > DEEP or not all(re.fullmatch(r"[\w-]+", key) for key in keys):
        raise InputError(f"--set takes field=value, such as optimiser.rate=3e-4, but got {short_repr(change)}.")
    return keys, value_of(value.strip())


def value_of(text: str, origin: str = "--set") -> Any:
    """A value as in TOML; anything else is a text. Raises InputError with its origin for an unclosed value."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError) as error:
        if text[:1] in tuple("[{\"'"):
            raise InputError(f"{origin}: {printable(text)} is not a value of TOML: {printable(error)}.") from error
        return text


def _neighbours(path: Path) -> str:
    """The recipes in the folder of a missing recipe."""
    there = sorted(path.parent.glob("*.toml")) if path.parent.is_dir() and path.suffix in ("", ".toml") else []
    names = [p.name for p in there if p.name != "pyproject.toml"]
    where = "This folder" if path.parent == Path() else f"{path.parent}"
    return f" {where} has {', '.join(names)}." if names else " A clone of equiscope has recipes in recipes/."


def _lines(text: str) -> Iterator[tuple[str, int]]:
    """The paths of a TOML file with their line numbers, except for inline tables."""
    table = ""
    for number, line in enumerate(text.splitlines(), 1):
        if header := re.match(r"\s*\[+\s*([\w.-]+)\s*\]", line):
            table = header[1]
            yield table, number
        elif key := re.match(r"\s*([\w.-]+)\s*=", line):
            yield f"{table}.{key[1]}".strip("."), number
