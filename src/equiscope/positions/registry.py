"""Parts by name, for the command line and for files; in Python a part is an object."""

import inspect
from collections.abc import Sequence
from typing import Any, TypeVar

from equiscope.errors import InputError, UnknownName, reason, short_repr
from equiscope.positions.base import Position
from equiscope.spec_base import checked

T = TypeVar("T")


def from_name(what: str, base: type[T], ours: Sequence[type[T]], name: Any, settings: dict[str, Any]) -> T:
    """A part by its name: a listed class, or a subclass that the user has defined.

    raises  UnknownName with the list, InputError for a setting that it does not have
    """
    classes = {kind.name: kind for kind in ours}  # type: ignore[attr-defined]
    classes |= {own: kind for own, kind in subclasses(base).items() if own not in classes}
    if not isinstance(name, str) or name not in classes:
        raise UnknownName(what, name, list(classes))
    signature = inspect.signature(classes[name])
    known, open_ended = list(signature.parameters), any(p.kind is p.VAR_KEYWORD for p in signature.parameters.values())
    if not open_ended and (odd := next((setting for setting in settings if setting not in known), None)) is not None:
        raise UnknownName(f"setting of {name}", odd, known, "" if known else "It has none.")
    try:
        fitting = signature.bind(**settings).arguments
    except TypeError as error:
        raise InputError(
            f"{name} cannot be made from {short_repr(settings)}: {reason(error)}. Its settings are {', '.join(known)}."
        ) from error
    plain = {k: v for k, v in fitting.items() if not isinstance(v, Position)}
    return classes[name](**fitting | {k: checked(v, signature.parameters[k].annotation, f"{name}.{k}") for k, v in plain.items()})


def subclasses(base: type[T]) -> dict[str, type[T]]:
    """User-defined subclasses with a `name`, as soon as they exist. A name in a file never causes an import."""
    classes: dict[str, type[T]] = {}
    rest = list(base.__subclasses__())
    while rest:
        kind = rest.pop(0)  # of two with one name the later one counts, as in a notebook cell that runs again
        rest += kind.__subclasses__()
        ours = kind.__module__.partition(".")[0] == "equiscope"  # our own are listed explicitly
        if (name := kind.__dict__.get("name")) is not None and not ours:
            classes[name] = kind
    return classes
