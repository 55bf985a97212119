"""Fields: what each field of a recipe is and may be, in words. Errors, the schema and the reference page say the same."""

import dataclasses
import difflib
import inspect
import json
import re
from typing import Any

import msgspec
from msgspec import Struct
from msgspec import inspect as types


def meanings(kind: type) -> dict[str, str]:
    """What the docstring of a kind of table says of each field: lines `name   meaning`, which go on indented.

    Beside a field another one may be said: "hop_ms   from one to the next; mels: bands".
    """
    found: dict[str, str] = {}
    current: list[str] = []
    known = [f.name for f in (dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else msgspec.structs.fields(kind))]
    for line in (inspect.getdoc(kind) or "").splitlines():
        field = re.match(r"((?:\w+, )*\w+)\s{2,}(\S.*)", line)
        if field and set(names := field[1].split(", ")) <= set(known):
            current = names
            found |= dict.fromkeys(current, field[2])
        elif line.startswith("  ") and current:
            found |= {name: f"{found[name]} {line.strip()}" for name in current}
        else:
            current = []
    for name, text in list(found.items()):
        pieces = re.split(rf"; ({'|'.join(known)}): ", text)
        found |= {name: pieces[0]} | dict(zip(pieces[1::2], pieces[2::2], strict=True))
    return found


def tables(kind: type[Struct]) -> dict[str, type[Struct]]:
    """The fields of a table that are tables of one kind themselves."""
    found = {}
    for f in msgspec.structs.fields(kind):
        info = types.type_info(f.type)
        some = [one for one in (info.types if isinstance(info, types.UnionType) else (info,)) if isinstance(one, types.StructType)]
        if len(some) == 1:
            found[f.name] = some[0].cls
    return found


def wanted(kind: Any, item: bool = False) -> str:
    """What a value may be, such as "a whole number of 1 or more". kind: a type, or what msgspec knows of one; item: of a list."""
    info = kind if isinstance(kind, types.Type) else types.type_info(kind)
    if item and isinstance(info, types.TupleType):
        info = info.item_types[0]
    if isinstance(info, types.IntType | types.FloatType):
        return ("a whole number" if isinstance(info, types.IntType) else "a number") + _bounds(info)
    if isinstance(info, types.StrType) and info.pattern == "^[a-z]{2}$":
        return "two small letters in quotes"
    if isinstance(info, types.LiteralType):
        return " or ".join(json.dumps(value) for value in sorted(info.values, key=str))
    if isinstance(info, types.UnionType):
        some = sorted((wanted(one) for one in info.types if not isinstance(one, types.NoneType)), key=len)
        return " or ".join(some) + (f'{"," if ", each" in some[-1] else ""} or "none"' if info.includes_none else "")
    if isinstance(info, types.StructType):
        return f"a table with {', '.join(f.name for f in info.fields)}"
    if isinstance(info, types.TupleType):
        return f"a list of {len(info.item_types)}, each {wanted(info.item_types[0])}"
    if isinstance(info, types.ListType | types.VarTupleType):
        return f"a list, each {wanted(info.item_type)}"
    plain = {types.StrType: "a text in quotes", types.BoolType: "true or false", types.DictType: "a table"}
    return plain.get(type(info), "a value")


def can_be_none(kind: Any) -> bool:
    """Whether "none" in a recipe means that there is none: TOML has no word for it."""
    info = types.type_info(kind)
    return isinstance(info, types.UnionType) and info.includes_none


def nearest(name: str, known: list[str], listed: bool = True) -> str:
    """The known name that is most alike, and unless it is said already, a list of all."""
    near = difflib.get_close_matches(name, known, 1)
    return " ".join([*([f"Did you mean {near[0]}?"] if near else []), *([f"Known: {', '.join(known)}."] if listed else [])])


def describe(schema: dict[str, Any], kind: type[Struct]) -> None:
    """Write into the JSON Schema of a table what its fields mean, and "none" for what TOML has no word for."""
    schema["description"] = first_sentence(kind)
    for f in msgspec.structs.fields(kind):
        some = schema["properties"][f.name].get("anyOf", [])
        if {"type": "null"} in some:
            some[some.index({"type": "null"})] = {"const": "none"}
    for name, text in meanings(kind).items():
        schema["properties"][name]["description"] = text


def first_sentence(kind: type) -> str:
    """What stands before the list of fields in a docstring."""
    return " ".join((inspect.getdoc(kind) or "").split("\n\n")[0].split())


def default(field: msgspec.structs.FieldInfo) -> Any:
    """What a field is where nothing is said; msgspec.NODEFAULT where something has to be."""
    return field.default_factory() if field.default_factory is not msgspec.NODEFAULT else field.default


def _bounds(info: Any) -> str:
    ge, gt, le, lt = (f"{n:,}" if isinstance(n, int) else n and f"{n:g}" for n in (info.ge, info.gt, info.le, info.lt))
    if ge is not None and le is not None:
        return f" from {ge} to {le}"
    low = f"of {ge} or more" if ge is not None else f"above {gt}" if gt is not None else ""
    high = f"at most {le}" if le is not None else f"below {lt}" if lt is not None else ""
    return "".join(f" {part}" for part in (" and ".join(filter(None, (low, high))),) if part)
