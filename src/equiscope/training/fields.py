"""Fields: the values that each field of a recipe accepts, in words, for errors and for the reference page."""

import json
import re
import typing
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Struct
from msgspec import inspect as types

from equiscope.errors import did_you_mean, sentences, short_repr, suggestion

LONGEST = 200  # signs of a value in a message
LINE = r"^[^\x00-\x1f\x7f]*[^\s\x00-\x1f\x7f][^\x00-\x1f\x7f]*\Z"  # one line that is not empty


def tables(kind: type[Struct]) -> dict[str, type[Struct]]:
    """The fields of a table that are tables themselves, each with its type."""
    types_of = {f.name: structs(f.type) for f in msgspec.structs.fields(kind)}
    return {name: some[0] for name, some in types_of.items() if len(some) == 1}


def wanted(kind: Any, item: bool = False) -> str:
    """What a value may be, such as "a whole number of 1 or more". kind: a type, or msgspec's description of one; item: of a
    list.
    """
    info = kind if isinstance(kind, types.Type) else types.type_info(kind)
    if item and isinstance(info, types.TupleType):
        info = info.item_types[0]
    if isinstance(info, types.IntType | types.FloatType):
        return ("a whole number" if isinstance(info, types.IntType) else "a number") + _bounds(info)
    if isinstance(info, types.StrType) and info.pattern == "^[a-z]{2}$":
        return "two small letters in quotes"
    if isinstance(info, types.StrType) and info.pattern == LINE:
        return "one line of text in quotes that is not empty"
    if isinstance(info, types.StrType) and info.min_length:
        return "a text in quotes that is not empty"
    if isinstance(info, types.LiteralType):
        return " or ".join(json.dumps(value) for value in sorted(info.values, key=str))
    if tag := _tag(some := _structs(info)):
        return f"a table whose field {tag} is {' or '.join(json.dumps(one.__struct_config__.tag) for one in some)}"
    if isinstance(info, types.UnionType):
        texts = sorted((wanted(one) for one in info.types if not isinstance(one, types.NoneType)), key=len)
        return " or ".join(texts) + (f'{"," if ", each" in texts[-1] else ""} or "none"' if info.includes_none else "")
    if isinstance(info, types.StructType):
        return f"a table with {', '.join(f.name for f in info.fields)}"
    if isinstance(info, types.TupleType):
        return f"a list of {len(info.item_types)}, each {wanted(info.item_types[0])}"
    if isinstance(info, types.ListType | types.VarTupleType):
        return f"a list, each {wanted(info.item_type)}"
    plain = {types.StrType: "a text in quotes", types.BoolType: "true or false", types.DictType: "a table"}
    return plain.get(type(info), "a value")


def misfits(value: Any, kind: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """The path of each field that does not fit its type, and what is wrong with it. Of a list, the first item that does not."""
    if fits(value, kind):
        return
    if isinstance(value, dict) and (some := structs(kind)):
        yield from _misfits_of_table(value, some, path)
        return
    info = types.type_info(kind)
    if isinstance(info, types.DictType) and isinstance(value, dict):
        yield _misfit_of_names(value, kind, path)
        return
    if isinstance(info, types.ListType | types.TupleType | types.VarTupleType) and isinstance(value, list | tuple):
        each = typing.get_args(kind)
        for index, item in enumerate(value if len(value) == len(each) or not isinstance(info, types.TupleType) else ()):
            own = list(misfits(item, each[index if isinstance(info, types.TupleType) else 0], f"{path}[{index}]"))
            if own:
                yield own[0]
                return
    yield path, misfit(value, kind, path)


def misfit(value: Any, kind: Any, path: str) -> str:
    """The error of a value that does not fit: what it is, and what the field takes."""
    info = types.type_info(kind)
    some = info.types if isinstance(info, types.UnionType) else (info,)
    choices = [str(choice) for one in some if isinstance(one, types.LiteralType) for choice in one.values]
    return sentences(f"{path} is {written(value)}, but takes {wanted(kind)}.", did_you_mean(value, choices))


def _misfits_of_table(value: dict[str, Any], some: list[type[Struct]], path: str) -> Iterator[tuple[str, str]]:
    """Unknown fields and wrong values in the order of the file, then missing fields."""
    tag = _tag(some)
    if tag is not None and value.get(tag) not in (names := [one.__struct_config__.tag for one in some]):
        path = f"{path}.{tag}".strip(".")
        takes = " or ".join(json.dumps(name) for name in names)
        yield (
            path,
            sentences(f"{path} is {written(value[tag])}, but takes {takes}.", did_you_mean(value[tag], map(str, names)))
            if tag in value
            else f"{path} is missing: it takes {takes}.",
        )
        return
    table = next((one for one in some if tag is not None and one.__struct_config__.tag == value[tag]), some[0])
    fields_of_table = {f.name: f for f in msgspec.structs.fields(table)}
    for name, item in value.items():
        item_path = f"{path}.{name}".strip(".")
        if name in fields_of_table:
            yield from misfits(item, fields_of_table[name].type, item_path)
        elif name != tag and table.__struct_config__.forbid_unknown_fields:
            yield item_path, f"there is no field {joined(path, name)}. {suggestion(name, list(fields_of_table))}"
    unknown = [name for name in value if name not in fields_of_table and name != tag]
    for name, f in fields_of_table.items():
        if f.required and name not in value and not any(did_you_mean(one, [name]) for one in unknown):  # misspelled
            item_path = f"{path}.{name}".strip(".")
            yield item_path, f"{item_path} is missing: it takes {wanted(f.type)}."


def joined(path: str, name: str) -> str:
    """The path of a field for messages, in quotes where TOML needs them: budget."" and budget."a b"."""
    own = name if re.fullmatch(r"[\w-]+", name) else json.dumps(name, ensure_ascii=False)
    return f"{path}.{own}" if path else own


def _misfit_of_names(value: dict[str, Any], kind: Any, path: str) -> tuple[str, str]:
    """The same for a table with free names, whose values may be such tables."""
    node: Any = value
    while typing.get_origin(kind) is dict and isinstance(node, dict):
        names, kind = typing.get_args(kind)
        for key, one in node.items():
            if not fits(key, names):
                return path, f"{path} has no entry {written(key)}: its names are {wanted(names)}."
            if not fits(one, kind):
                path, node = f"{path}.{key}", one
                break
    return path, misfit(node, kind, path)


def fits(value: Any, kind: Any) -> bool:
    """Whether plain data can be converted to a type."""
    try:
        msgspec.convert(value, kind)
    except (msgspec.ValidationError, OverflowError):
        return False
    return True


def structs(kind: Any) -> list[type[Struct]]:
    """The Struct types that a value may have."""
    return _structs(types.type_info(kind))


def _structs(info: types.Type) -> list[type[Struct]]:
    return [one.cls for one in (info.types if isinstance(info, types.UnionType) else (info,)) if isinstance(one, types.StructType)]


def _tag(some: list[type[Struct]]) -> str | None:
    """The field that says which of these tables a table is."""
    return some[0].__struct_config__.tag_field if some else None


def written(value: Any) -> str:
    """A value as a recipe writes it."""
    if isinstance(value, dict):
        return "a table"
    try:
        text = json.dumps(value, ensure_ascii=False, default=str)
    except (ValueError, RecursionError):  # a whole number of thousands of digits
        return short_repr(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


def can_be_none(kind: Any) -> bool:
    """Whether the field accepts "none", which stands for None because TOML has no null."""
    info = types.type_info(kind)
    return isinstance(info, types.UnionType) and info.includes_none


def _bounds(info: Any) -> str:
    ge, gt, le, lt = (f"{n:,}" if isinstance(n, int) else n and f"{n:g}" for n in (info.ge, info.gt, info.le, info.lt))
    if ge is not None and le is not None:
        return f" from {ge} to {le}"
    low = f"of {ge} or more" if ge is not None else f"above {gt}" if gt is not None else ""
    high = f"at most {le}" if le is not None else f"below {lt}" if lt is not None else ""
    return "".join(f" {part}" for part in (" and ".join(filter(None, (low, high))),) if part)
