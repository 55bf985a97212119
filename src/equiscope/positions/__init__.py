"""Position schemes: each declares where it acts (tokens, queries and keys, scores, values) and which actions it preserves.

`SCHEMES` lists all of them; the laws, the command line, the pages and the docs read it. A new scheme is one file, its import and
its line in `SCHEMES` and `__all__`, and one test. `make`, `to_json` and `from_json` map names in files and on the command line to
schemes.
"""

from typing import Any

import msgspec

from equiscope.errors import InputError, short_repr
from equiscope.positions.alibi import Alibi
from equiscope.positions.axial_rope import AxialRope
from equiscope.positions.base import Added, AxisPositions, Position
from equiscope.positions.concatenated import Concatenated
from equiscope.positions.cope import Cope
from equiscope.positions.deberta import Deberta
from equiscope.positions.dynamic import DynamicBias
from equiscope.positions.fire import Fire
from equiscope.positions.fourier import Fourier
from equiscope.positions.index import Index
from equiscope.positions.isotropic_rope import IsotropicRope
from equiscope.positions.kerple import Kerple
from equiscope.positions.learned import Learned
from equiscope.positions.learned_nd import LearnedNd
from equiscope.positions.log_cpb import LogCpb
from equiscope.positions.mixed_rope import MixedRope
from equiscope.positions.none import NoPosition
from equiscope.positions.pope import Pope
from equiscope.positions.registry import from_name
from equiscope.positions.rope import Rope
from equiscope.positions.shaw import Shaw
from equiscope.positions.sinusoidal import Sinusoidal
from equiscope.positions.sinusoidal_nd import SinusoidalNd
from equiscope.positions.swin import SwinBias
from equiscope.positions.t5 import T5Bias
from equiscope.positions.xl import TransformerXL
from equiscope.positions.xpos import XPos

SCHEMES: tuple[type[Position], ...] = (
    NoPosition,
    Index,
    Sinusoidal,
    Learned,
    Concatenated,
    Rope,
    Alibi,
    XPos,
    Pope,
    Fourier,
    T5Bias,
    Kerple,
    Fire,
    DynamicBias,
    Shaw,
    TransformerXL,
    Deberta,
    Cope,
    SinusoidalNd,
    LearnedNd,
    AxialRope,
    MixedRope,
    IsotropicRope,
    SwinBias,
    LogCpb,
)

__all__ = [
    "SCHEMES",
    "Added",
    "Alibi",
    "AxialRope",
    "AxisPositions",
    "Concatenated",
    "Cope",
    "Deberta",
    "DynamicBias",
    "Fire",
    "Fourier",
    "Index",
    "IsotropicRope",
    "Kerple",
    "Learned",
    "LearnedNd",
    "LogCpb",
    "MixedRope",
    "NoPosition",
    "Pope",
    "Position",
    "Rope",
    "Shaw",
    "Sinusoidal",
    "SinusoidalNd",
    "SwinBias",
    "T5Bias",
    "TransformerXL",
    "XPos",
    "from_json",
    "make",
    "to_json",
]


def make(name: str, /, **settings: Any) -> Position:
    """The scheme of that name. Raises UnknownName with the list, InputError for a setting that it does not have."""
    return from_name("position scheme", Position, SCHEMES, name, settings)


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
        raise InputError(f"A position scheme is a name or an object with its settings, but got {short_repr(data)}.")
    if data and "scheme" not in data:
        raise InputError(f"The object of a position scheme names it in the field scheme, but got only {', '.join(data)}.")
    nested = {k for k, v in data.items() if isinstance(v, dict) and "scheme" in v}
    settings = {k: from_json(v) if k in nested else v for k, v in data.items() if k != "scheme"}
    return make(data.get("scheme", "none"), **settings)
