"""Kinds of attention by name, for specs and files; in Python a kind is a class.

A user-defined subclass of MultiHeadAttention with a `name` is a kind as soon as it exists. A name in a file never causes an
import.
"""

import inspect
from typing import Any

from equiscope.attention.differential import DifferentialAttention
from equiscope.attention.linear import LinearAttention
from equiscope.attention.lowrank import Linformer, Nystrom
from equiscope.attention.multihead import MultiHeadAttention
from equiscope.attention.normalizer import Sigmoid, Softmax
from equiscope.errors import InputError, UnknownName
from equiscope.positions.registry import subclasses
from equiscope.spec_base import checked

FREE = ("eps", "layer")  # arguments that a kind need not take
Factory = tuple[type[MultiHeadAttention], dict[str, Any]]
KINDS: dict[str, Factory] = {
    "softmax": (MultiHeadAttention, {}),
    "sink": (MultiHeadAttention, {"normalizer": lambda: Softmax(sink=True)}),
    "sigmoid": (MultiHeadAttention, {"normalizer": Sigmoid}),
    "differential": (DifferentialAttention, {}),
    "linear": (LinearAttention, {}),
    "linformer": (Linformer, {}),
    "nystrom": (Nystrom, {}),
}


def attention_kinds() -> dict[str, Factory]:
    """Built-in kinds and user-defined classes by their name."""
    own: dict[str, Factory] = {name: (kind, {}) for name, kind in subclasses(MultiHeadAttention).items()}
    return KINDS | {name: factory for name, factory in own.items() if name not in KINDS}


class AttentionKind:
    """A kind of attention by its name or class, with the settings that are specific to it: `Kind("linformer", rank=8)`.

    raises  UnknownName with the list, InputError for a class without a name, and for a setting that the kind does not have
    """

    def __init__(self, name: "str | type[MultiHeadAttention]", /, **settings: Any) -> None:
        registered = attention_kinds()
        if isinstance(name, type):
            cls, own = name, name.__dict__.get("name")
            if own is None or own not in registered or registered[own][0] is not cls:
                raise InputError(
                    f"{cls.__name__} needs a `name` of its own that no other kind of attention has, but its name is {own!r}."
                )
            name = own
        if not isinstance(name, str) or name not in registered:
            raise UnknownName("kind of attention", name, list(registered))
        self.name, accepted = name, _own(*registered[name])
        if odd := next((one for one in settings if one not in accepted), None):
            raise UnknownName(f"setting of {name} attention", odd, list(accepted), "" if accepted else "It has none.")
        checks = {one: checked(value, _hint(accepted[one]), f"{name}.{one}") for one, value in settings.items()}
        self.settings = {one: value for one, value in checks.items() if value != accepted[one].default}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AttentionKind) and (self.name, self.settings) == (other.name, other.settings)

    def __hash__(self) -> int:
        return hash((self.name, *sorted(self.settings)))

    def __str__(self) -> str:
        return " ".join([self.name, *(f"{name} {value}" for name, value in self.settings.items())])

    def __repr__(self) -> str:
        return f"Kind({', '.join([repr(self.name), *(f'{name}={value!r}' for name, value in self.settings.items())])})"


def _hint(parameter: inspect.Parameter) -> Any:
    return Any if parameter.annotation is parameter.empty else parameter.annotation


def _own(kind: type[MultiHeadAttention], extra: dict[str, Any]) -> dict[str, inspect.Parameter]:
    """Settings specific to a kind and its parts, beyond those of all kinds."""
    plain = inspect.signature(MultiHeadAttention).parameters
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    specific = {n: p for n, p in inspect.signature(kind).parameters.items() if n not in (*plain, *FREE) and p.kind in named}
    return specific | {n: p for part in extra.values() for n, p in inspect.signature(part).parameters.items()}


def make_attention(of: AttentionKind | str, width: int, **settings: Any) -> MultiHeadAttention:
    """Build attention of a kind.

    settings  those of MultiHeadAttention, and `layer`, counted from 1, for kinds that use it
    raises    UnknownName with the list, InputError for a setting that the kind does not have, unless it is the default
    """
    of = of if isinstance(of, AttentionKind) else AttentionKind(of)
    name, (kind, extra) = of.name, attention_kinds()[of.name]
    parts = {part: factory(**_of(of.settings, factory)) for part, factory in extra.items()}
    accepted = inspect.signature(kind).parameters
    open_ended = any(p.kind is p.VAR_KEYWORD for p in accepted.values())
    plain = inspect.signature(MultiHeadAttention).parameters
    settings = {setting: value for setting, value in settings.items() if setting in accepted or setting in plain}
    for setting, value in settings.items():
        if not open_ended and setting not in accepted and setting not in FREE and value not in (plain[setting].default, "auto"):
            raise InputError(
                f"Attention of the kind {name!r} has no {setting}, but got {value!r}. Leave it out, or use another kind."
            )
    own = _of({n: v for n, v in of.settings.items() if n not in plain}, kind)
    fitting = settings if open_ended else {setting: value for setting, value in settings.items() if setting in accepted}
    return kind(width, **fitting, **own, **parts)


def _of(settings: dict[str, Any], factory: Any) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if name in inspect.signature(factory).parameters}
