"""Schemes by name: for the command line, for files, and for nothing else; in Python a scheme is an object."""

import inspect
import math
from typing import Any

import msgspec

from equiscope.errors import InputError, UnknownName, WrongValue, reason, shown
from equiscope.position.base import Position


def make(name: str, /, **settings: Any) -> Position:
    """The scheme of that name. Raises UnknownName with the list, InputError for a setting that it does not have."""
    known = _known()
    if not isinstance(name, str) or name not in known:
        raise UnknownName("position scheme", name, list(known))
    try:
        fitting = inspect.signature(known[name]).bind(**settings).arguments
    except TypeError as error:
        raise InputError(f"{name} cannot be made from {shown(settings)}: {reason(error)}.") from error
    hints = {p.name: p.annotation for p in inspect.signature(known[name]).parameters.values()}
    plain = {k: v for k, v in fitting.items() if not isinstance(v, Position)}
    return known[name](**fitting | {k: checked(v, hints[k], f"{name}.{k}") for k, v in plain.items()})


def _known() -> dict[str, type[Position]]:
    """The schemes by name; those of one's own too, as soon as their class exists. Nothing is imported because a file names it."""
    from equiscope.position import SCHEMES

    own: dict[str, type[Position]] = {}
    rest = list(Position.__subclasses__())
    while rest:
        scheme = rest.pop(0)  # of two with one name the later one, as in a notebook whose cell runs again
        rest += scheme.__subclasses__()
        if (name := scheme.__dict__.get("name")) is not None:
            own[name] = scheme
    ours = {scheme.name: scheme for scheme in SCHEMES}
    return ours | {name: scheme for name, scheme in own.items() if name not in ours}


def checked(value: Any, hint: Any, path: str) -> Any:
    """A value out of a file, if it is of the type that a field wants. Raises InputError naming the field where it is not."""
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
        raise WrongValue(path, value, reason(error)) from error


def to_json(scheme: Position) -> dict[str, Any]:
    """The scheme's name and those settings that are not its defaults."""
    defaults = type(scheme)().settings
    plain = {k: v for k, v in scheme.settings.items() if v != defaults[k]}
    return {"scheme": scheme.name, **{k: to_json(v) if isinstance(v, Position) else _plain(v) for k, v in plain.items()}}


def _plain(value: Any) -> Any:
    """A setting as files hold it: a scaling becomes an object that says its kind, and what is not its default."""
    if not isinstance(value, msgspec.Struct):
        return value
    defaults = {f.name: f.default for f in msgspec.structs.fields(value)}
    return {k: v for k, v in msgspec.to_builtins(value).items() if k not in defaults or v != defaults[k]}


def from_json(data: dict[str, Any] | str) -> Position:
    """The scheme that `to_json` wrote; a bare name means its defaults."""
    if isinstance(data, str):
        return make(data)
    if not isinstance(data, dict):
        raise InputError(f"A position scheme is a name or an object with its settings, but got {shown(data)}.")
    if data and "scheme" not in data:
        raise InputError(f"The object of a position scheme names it in the field scheme, but got only {', '.join(data)}.")
    nested = {k for k, v in data.items() if isinstance(v, dict) and "scheme" in v}
    settings = {k: from_json(v) if k in nested else v for k, v in data.items() if k != "scheme"}
    return make(data.get("scheme", "none"), **settings)
