"""Parts by name: for the command line, for files, and for nothing else; in Python a part is an object."""

import inspect
from collections.abc import Sequence
from typing import Any, TypeVar

from equiscope.errors import InputError, UnknownName, reason, shown
from equiscope.positions.base import Position
from equiscope.spec_base import checked

T = TypeVar("T")


def from_name(what: str, base: type[T], ours: Sequence[type[T]], name: Any, settings: dict[str, Any]) -> T:
    """A part by its name: one of ours, or of a class of one's own.

    raises  UnknownName with the list, InputError for a setting that it does not have
    """
    known = {kind.name: kind for kind in ours}  # type: ignore[attr-defined]
    known |= {own: kind for own, kind in subclasses(base).items() if own not in known}
    if not isinstance(name, str) or name not in known:
        raise UnknownName(what, name, list(known))
    signature = inspect.signature(known[name])
    try:
        fitting = signature.bind(**settings).arguments
    except TypeError as error:
        raise InputError(f"{name} cannot be made from {shown(settings)}: {reason(error)}. {_settings(signature)}") from error
    plain = {k: v for k, v in fitting.items() if not isinstance(v, Position)}
    return known[name](**fitting | {k: checked(v, signature.parameters[k].annotation, f"{name}.{k}") for k, v in plain.items()})


def _settings(signature: inspect.Signature) -> str:
    return f"Its settings are {', '.join(signature.parameters)}." if signature.parameters else "It has no settings."


def subclasses(base: type[T]) -> dict[str, type[T]]:
    """Classes of other people with a name of their own, as soon as they exist. Nothing is imported because a file names it."""
    found: dict[str, type[T]] = {}
    rest = list(base.__subclasses__())
    while rest:
        kind = rest.pop(0)  # of two with one name the later one, as in a notebook whose cell runs again
        rest += kind.__subclasses__()
        ours = kind.__module__.partition(".")[0] == "equiscope"  # those that have a name in files are listed where they are
        if (name := kind.__dict__.get("name")) is not None and not ours:
            found[name] = kind
    return found
