"""Kinds of attention by name: for specs and files; in Python a kind is a class.

A class of one's own counts as soon as it exists: a subclass of MultiHeadAttention with a `name` of its own. Nothing is
imported because a file names it.
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

FREE = ("eps", "layer")  # a kind may do without
Made = tuple[type[MultiHeadAttention], dict[str, Any]]
KINDS: dict[str, Made] = {
    "softmax": (MultiHeadAttention, {}),
    "sink": (MultiHeadAttention, {"normalizer": lambda: Softmax(sink=True)}),
    "sigmoid": (MultiHeadAttention, {"normalizer": Sigmoid}),
    "differential": (DifferentialAttention, {}),
    "linear": (LinearAttention, {}),
    "linformer": (Linformer, {}),
    "nystrom": (Nystrom, {}),
}


def attention_kinds() -> dict[str, Made]:
    """Ours, and classes of one's own by their name."""
    own: dict[str, Made] = {name: (kind, {}) for name, kind in subclasses(MultiHeadAttention).items()}
    return KINDS | {name: made for name, made in own.items() if name not in KINDS}


class AttentionKind:
    """A kind of attention by its name, or by its class, with the settings that only it has: `Kind("linformer", rank=8)`.

    raises  UnknownName with the list, InputError for a class without a name, and for a setting that the kind has not
    """

    def __init__(self, name: "str | type[MultiHeadAttention]", /, **settings: Any) -> None:
        all_kinds = attention_kinds()
        if isinstance(name, type):
            given, own = name, name.__dict__.get("name")
            if own is None or own not in all_kinds or all_kinds[own][0] is not given:
                raise InputError(
                    f"{given.__name__} needs a `name` of its own that no other kind of attention has, but its name is {own!r}."
                )
            name = own
        if not isinstance(name, str) or name not in all_kinds:
            raise UnknownName("kind of attention", name, list(all_kinds))
        self.name, taken = name, _own(*all_kinds[name])
        if odd := next((one for one in settings if one not in taken), None):
            has = f"Its settings are {', '.join(taken)}." if taken else "It has none."
            raise InputError(f"Attention of the kind {name!r} has no setting {odd!r}. {has}")
        checks = {one: checked(value, _hint(taken[one]), f"{name}.{one}") for one, value in settings.items()}
        self.settings = {one: value for one, value in checks.items() if value != taken[one].default}

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
    """What can be set of a kind, and of the parts that make it, beyond what all kinds have."""
    plain = inspect.signature(MultiHeadAttention).parameters
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    found = {n: p for n, p in inspect.signature(kind).parameters.items() if n not in (*plain, *FREE) and p.kind in named}
    return found | {n: p for part in extra.values() for n, p in inspect.signature(part).parameters.items()}


def make_attention(of: AttentionKind | str, width: int, **settings: Any) -> MultiHeadAttention:
    """Attention of that kind.

    settings  as of MultiHeadAttention, and layer, counted from 1, for kinds that want it
    raises    UnknownName with the list, InputError for a setting that the kind has not (its default is let through)
    """
    of = of if isinstance(of, AttentionKind) else AttentionKind(of)
    name, (kind, extra) = of.name, attention_kinds()[of.name]
    parts = {part: factory(**_of(of.settings, factory)) for part, factory in extra.items()}
    taken = inspect.signature(kind).parameters
    open_ended = any(p.kind is p.VAR_KEYWORD for p in taken.values())
    plain = inspect.signature(MultiHeadAttention).parameters
    settings = {setting: value for setting, value in settings.items() if setting in taken or setting in plain}
    for setting, value in settings.items():
        if not open_ended and setting not in taken and setting not in FREE and value not in (plain[setting].default, "auto"):
            raise InputError(
                f"Attention of the kind {name!r} has no {setting}, but got {value!r}. Leave it out, or use another kind."
            )
    own = _of({n: v for n, v in of.settings.items() if n not in plain}, kind)
    fitting = settings if open_ended else {setting: value for setting, value in settings.items() if setting in taken}
    return kind(width, **fitting, **own, **parts)


def _of(settings: dict[str, Any], factory: Any) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if name in inspect.signature(factory).parameters}
