"""Kinds of attention by name: for specs and files; in Python a kind is a class.

A class of one's own counts as soon as it exists: a subclass of MultiHeadAttention with a `name` of its own. Nothing is
imported because a file names it.
"""

import inspect
from typing import Any

from equiscope.attention.differential import DifferentialAttention
from equiscope.attention.heads import MultiHeadAttention
from equiscope.attention.linear import LinearAttention
from equiscope.attention.lowrank import Linformer, Nystrom
from equiscope.attention.weigh import Sigmoid, Softmax
from equiscope.errors import InputError, UnknownName
from equiscope.position.registry import subclasses

FREE = ("eps", "layer")  # a kind may do without
Made = tuple[type[MultiHeadAttention], dict[str, Any]]
KINDS: dict[str, Made] = {
    "softmax": (MultiHeadAttention, {}),
    "sink": (MultiHeadAttention, {"weigh": lambda: Softmax(sink=True)}),
    "sigmoid": (MultiHeadAttention, {"weigh": Sigmoid}),
    "differential": (DifferentialAttention, {}),
    "linear": (LinearAttention, {}),
    "linformer": (Linformer, {}),
    "nystrom": (Nystrom, {}),
}


def known() -> dict[str, Made]:
    """Ours, and classes of one's own by their name."""
    own: dict[str, Made] = {name: (kind, {}) for name, kind in subclasses(MultiHeadAttention).items()}
    return KINDS | {name: made for name, made in own.items() if name not in KINDS}


def make(name: str, width: int, **settings: Any) -> MultiHeadAttention:
    """Attention of that kind.

    settings  as of MultiHeadAttention, and layer, counted from 1, for kinds that want it
    raises    UnknownName with the list, InputError for a setting that the kind has not (its default is let through)
    """
    if name not in (all_kinds := known()):
        raise UnknownName("kind of attention", name, list(all_kinds))
    kind, extra = all_kinds[name]
    taken = inspect.signature(kind).parameters
    open_ended = any(p.kind is p.VAR_KEYWORD for p in taken.values())
    plain = inspect.signature(MultiHeadAttention).parameters
    settings = {setting: value for setting, value in settings.items() if setting in taken or setting in plain}
    for setting, value in settings.items():
        if not open_ended and setting not in taken and setting not in FREE and value not in (plain[setting].default, "auto"):
            raise InputError(
                f"Attention of the kind {name!r} has no {setting}, but got {value!r}. Leave it out, or use another kind."
            )
    fitting = settings if open_ended else {setting: value for setting, value in settings.items() if setting in taken}
    return kind(width, **fitting, **{setting: value() for setting, value in extra.items()})
