"""The base of all specs: frozen parts that validate themselves, and JSON in both directions.

A part is a frozen dataclass. Its fields hold numbers, strings, other parts (`Norm | None`, `Block | tuple[Block, ...]`), or objects
that files store by name (`Named`: a position scheme, a mask). Defaults are left out of a file.
"""

import json
import math
import typing
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, Self, TypeVar

import msgspec

from equiscope.budgets import TOO_DEEP, parsed, text, too_deep
from equiscope.errors import InputError, UnknownField, WrongValue, printable, reason, short_repr, wrong_choice

VERSION = 2
MAX_SIZE = 2**31 - 1  # of any size in a model
MAX_LAYERS = 10_000  # each layer is an object
Size = Annotated[int, msgspec.Meta(ge=1)]
Count = Annotated[int, msgspec.Meta(ge=0)]
Share = Annotated[float, msgspec.Meta(ge=0, lt=1)]


@dataclass(frozen=True)
class Named:
    """A kind of object that files store by name: `POSITION.field(NoPosition)`.

    example       for error messages: "a scheme, such as Rope()"
    default_json  the JSON of the default value
    """

    base: type
    example: str
    default_json: Any
    to_json: Callable[[Any], Any]
    from_json: Callable[[Any], Any]

    def field(self, default: Callable[[], Any]) -> Any:
        """A field of a dataclass that holds such an object, and also accepts its name."""
        return field(default_factory=default, metadata={"named": self})


T = TypeVar("T")


class ByName(Generic[T]):
    """Type of a field that holds an object of T, and takes its name or its data as in a file: position="rope".

    A kind of attention may be a class too; any other class is refused. Type checkers read from the methods what the field takes and
    what it holds; nothing runs.
    """

    if TYPE_CHECKING:

        def __get__(self, instance: object, owner: object) -> T: ...

        def __set__(self, instance: object, value: T | str | dict[str, Any] | type[Any]) -> None: ...

    else:

        def __class_getitem__(cls, held: type) -> Any:
            return held | str | dict[str, Any] | type


@dataclass(frozen=True)
class _Slot:
    """The type of a field. part: a class of parts; several: or a tuple of them; optional: or None."""

    hint: Any
    named: Named | None
    part: "type[SpecPart] | None"
    several: bool
    optional: bool


def _read_slots(kind: type[Any]) -> dict[str, _Slot]:
    hints, slots = typing.get_type_hints(kind, include_extras=True), {}
    for f in fields(kind):
        choices = [hints[f.name], *typing.get_args(hints[f.name])]
        lists = [typing.get_args(one)[0] for one in choices if typing.get_origin(one) is tuple]
        parts = [one for one in (*choices, *lists) if isinstance(one, type) and issubclass(one, SpecPart)]
        several = any(one in parts for one in lists)
        slots[f.name] = _Slot(hints[f.name], f.metadata.get("named"), parts[0] if parts else None, several, type(None) in choices)
    return slots


# every part that is made reads those of its class
_slots = typing.cast("Callable[[type[Any]], dict[str, _Slot]]", cache(_read_slots))


def named_fields(kind: "type[SpecPart]") -> frozenset[str]:
    """The fields of a part, and of the parts in it, that files store by name."""
    names: set[str] = set()
    rest, seen = [kind], set[type]()
    while rest:
        one = rest.pop()
        seen.add(one)
        names |= {name for name, slot in _slots(one).items() if slot.named is not None}
        rest += [slot.part for slot in _slots(one).values() if slot.part is not None and slot.part not in seen]
    return frozenset(names)


class SpecPart:
    """Every field is validated on construction, in Python and from a file."""

    if not TYPE_CHECKING:

        def __new__(cls, *values: Any, **fields_by_name: Any) -> Self:
            if unknown := [name for name in fields_by_name if name not in cls.__dataclass_fields__]:
                raise UnknownField(cls.__name__, unknown[0], [f.name for f in fields(cls)])
            return super().__new__(cls)

    def __post_init__(self) -> None:
        for name, slot in _slots(type(self)).items():
            value, path = getattr(self, name), f"{type(self).__name__}.{name}"
            if slot.named is not None:
                if isinstance(value, str | dict):
                    value = slot.named.from_json(value)
                    object.__setattr__(self, name, value)
                if not isinstance(value, slot.named.base):
                    raise InputError(f"{path} is {slot.named.example}, but got {short_repr(value)}.")
            elif slot.part is not None:
                _check_part(slot, value, path)
            else:
                checked(list(value) if isinstance(value, tuple) else value, slot.hint, path)
                most = MAX_LAYERS if name == "layers" else MAX_SIZE
                if slot.hint in (Size, Size | None) and value is not None and value > most:
                    raise InputError(f"{path} is {short_repr(value, 40)}, but should be {most:,} or less.")


class ModelSpec(SpecPart):
    """A whole model as data: `build`, `describe` and `count` take every kind; converts to and from JSON without loss.

    kind  "sequence", "baseline" or "points"
    """

    kind: ClassVar[str]
    label: ClassVar[str] = "spec"  # in error messages

    def to_dict(self) -> dict[str, Any]:
        """Plain data with the version of the format; defaults are left out."""
        return {"version": VERSION, **plain(self)}

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False) + "\n"

    @classmethod
    def of(cls, source: "ModelSpec | dict[str, Any] | str | Path") -> Self:
        """A spec of this kind from a spec, a dict, or a JSON file.

        raises  InputError naming the field that does not fit
        """
        if isinstance(source, cls):
            return source
        if isinstance(source, dict):
            return cls._of_data(_unversioned(source, cls.label))
        if not isinstance(source, (str, Path)) or folder(source):
            raise InputError(
                f"A spec is a {cls.__name__}, a dict or a JSON file, but got {short_repr(source)}. A checkpoint is read by load."
            )
        hint = f" Give a spec as a dict, a {cls.__name__}, or a JSON file."
        return cls.of(read_object(Path(source), hint, f"an object with the fields of {cls.__name__}"))

    @classmethod
    def _of_data(cls, data: dict[str, Any]) -> Self:
        """Reports unknown fields and wrong types, at any depth, before inconsistent values."""
        _check_types(cls, data, "spec")
        spec: Self = _build(cls, data, "spec")
        return spec

    @property
    def spec(self) -> Self:
        """Itself, so that a model and its spec can be used alike."""
        return self

    @property
    def prefix_tokens(self) -> int:
        """Number of tokens that the model prepends: a class token, registers, columns beside the input."""
        return 0

    @property
    def needs_documents(self) -> bool:
        """Whether a mask needs the document numbers of tokens."""
        return False

    @property
    def patch_size(self) -> tuple[int, ...] | None:
        """Samples of a patch along each axis, for models of images, sounds or videos; None for others."""
        return None


def _unversioned(data: dict[str, Any], what: str) -> dict[str, Any]:
    """A copy without its version. Raises InputError where this package does not read it."""
    data = dict(data)
    version = data.pop("version", VERSION)
    if type(version) is not int or version != VERSION:
        raise InputError(f"This {what} has version {short_repr(version)}, but this equiscope reads version {VERSION}.")
    return data


def _check_part(slot: _Slot, value: Any, path: str) -> None:
    """Raise InputError if a value is not a part of this class; a list is checked part by part."""
    assert slot.part is not None
    for one in value if slot.several and isinstance(value, (tuple, list)) else (value,):
        if not isinstance(one, slot.part) and not (one is None and slot.optional):
            raise InputError(f"{path} is a {slot.part.__name__}(...), but got {short_repr(one)}. Files are read by Spec.of.")


def plain(part: SpecPart) -> dict[str, Any]:
    """A part as plain data."""
    written: dict[str, Any] = {}
    slots = _slots(type(part))
    for f in fields(part):  # type: ignore[arg-type]
        value, slot = getattr(part, f.name), slots[f.name]
        if slot.named is not None:
            if (name_or_data := slot.named.to_json(value)) != slot.named.default_json:
                written[f.name] = name_or_data
        elif isinstance(value, tuple) and slot.part is not None:
            written[f.name] = [plain(one) for one in value]
        elif slot.part is not None and value is not None:
            inner = plain(value)
            if inner or f.default is None:
                written[f.name] = inner
        elif value != f.default:
            written[f.name] = list(value) if isinstance(value, tuple) else value
    return written


def _check_types(kind: type[SpecPart], data: Any, path: str) -> None:
    if not isinstance(data, dict):
        raise WrongValue(path, data, f"it should be an object with the fields of {kind.__name__}")
    known = _slots(kind)
    for name in data:
        if name not in known:
            raise UnknownField(path, name, sorted(known))
    for name, value in data.items():
        slot, where = known[name], f"{path}.{name}"
        if slot.named is not None or (value is None and slot.optional):  # what reads a name checks it
            continue
        if slot.part is None:
            checked(value, slot.hint, where)
        elif slot.several and isinstance(value, list):
            for i, one in enumerate(value):
                _check_types(slot.part, one, f"{where}[{i}]")
        else:
            _check_types(slot.part, value, where)


def _build(kind: type[SpecPart], data: dict[str, Any], path: str) -> Any:
    slots = _slots(kind)
    try:
        return kind(**{name: _value(slots[name], value, f"{path}.{name}") for name, value in data.items()})
    except TypeError as error:
        raise InputError(f"{path} is incomplete: {error}.") from error


def _value(slot: _Slot, value: Any, path: str) -> Any:
    if slot.named is not None:
        return slot.named.from_json(value)
    if slot.part is None:
        return checked(value, slot.hint, path)
    if value is None and slot.optional:
        return None
    if slot.several and isinstance(value, list):
        return tuple(_build(slot.part, one, f"{path}[{i}]") for i, one in enumerate(value))
    return _build(slot.part, value, path)


def checked(value: Any, hint: Any, path: str) -> Any:
    """A value from a file, converted to the type of its field. Raises InputError naming the field where that fails."""
    if any(isinstance(one, float) and not math.isfinite(one) for one in (value if isinstance(value, list | tuple) else [value])):
        raise WrongValue(path, value, "it should be finite")
    try:
        return msgspec.convert(value, hint)
    except (
        msgspec.ValidationError,
        TypeError,
        OverflowError,
        RecursionError,
        UnicodeError,
    ) as error:  # TypeError: an object that no file holds
        choices = _choices(hint)
        raise wrong_choice(path, value, choices) if choices else WrongValue(path, value, reason(error)) from error


def _choices(hint: Any) -> list[Any]:
    """The values of a type that is a choice of few values; empty for another type."""
    parts = [part for part in (hint, *typing.get_args(hint)) if typing.get_origin(part) is typing.Literal]
    choices = [value for part in parts for value in typing.get_args(part)]
    others = [part for part in typing.get_args(hint) if part not in parts] if choices and parts[0] is not hint else []
    more: dict[Any, list[Any]] = {type(None): [None], bool: [True, False]}
    return [*choices, *(value for part in others for value in more[part])] if all(part in more for part in others) else []


def folder(source: str | Path) -> Path | None:
    """The folder that a source names; None where it is not a folder. Raises InputError for an invalid path."""
    try:
        return Path(source) if Path(source).is_dir() else None
    except (OSError, ValueError) as error:  # a name that is too long, or has a zero byte
        raise InputError(f"{str(source)[:80]!r} is no path of a file: {getattr(error, 'strerror', None) or error}.") from error


def read_object(path: Path, missing: str = "", what: str = "an object") -> dict[str, Any]:
    """The object in a JSON file. Raises InputError where there is none (with the hint `missing`)."""
    try:
        data = parsed(text(path))
    except FileNotFoundError as error:
        raise InputError(f"There is no file {printable(path)}.{missing}") from error
    except OSError as error:
        raise InputError(f"{printable(path)} cannot be read: {reason(error)}.{missing}") from error
    except ValueError as error:  # no JSON, no text, a number of thousands of digits
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path} is not JSON: {reason(error)}.") from error
    if not isinstance(data, dict):
        raise InputError(f"{path} should hold {what}.")
    if too_deep(data):
        raise InputError(f"{path} is not read: {TOO_DEEP}.")
    return data
