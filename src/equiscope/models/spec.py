"""Spec: a model as data. Parts are objects in Python and names in files; what can be said can be built.

A spec reads from JSON and writes to JSON without loss; defaults are left out of the file.
"""

import json
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import msgspec

from equiscope.errors import InputError, UnknownName
from equiscope.position import NoPosition, Position, from_json, to_json
from equiscope.position.registry import checked

VERSION = 1


Size = Annotated[int, msgspec.Meta(ge=1)]


class _Checked:
    """Every field is looked at when a part is made, in Python as from a file."""

    def __post_init__(self) -> None:
        for f in fields(self):  # type: ignore[arg-type]
            value = getattr(self, f.name)
            if f.name != "position" and f.name not in _PARTS:
                checked(value, f.type, f"{type(self).__name__}.{f.name}")


@dataclass(frozen=True)
class Attention(_Checked):
    """Who may look, with how many heads, knowing what of positions. head_width and value_width: D / heads unless said.

    kv_heads  key heads, which groups of query heads share; as many as heads unless said
    window    a token sees those less than so many ranks away; None for all
    bias      of the projections; "qkv" leaves out the output's
    qk_norm   norm of queries and keys, each head by itself; None for none
    """

    heads: Size = 1
    kv_heads: Size | None = None
    head_width: Size | None = None
    value_width: Size | None = None
    position: Position = field(default_factory=NoPosition)
    causal: bool = False
    window: Size | None = None
    bias: bool | Literal["qkv"] = False
    qk_norm: Literal["rms", "layer"] | None = None
    backend: Literal["auto", "eager", "sdpa", "flex", "chunked"] = "auto"


@dataclass(frozen=True)
class Norm(_Checked):
    """kind "layer" or "rms"; order "pre" (before each part) or "post" (after its residual)."""

    kind: Literal["layer", "rms"] = "layer"
    order: Literal["pre", "post"] = "pre"
    eps: float = 1e-5


@dataclass(frozen=True)
class FeedForward(_Checked):
    """inner: hidden features, 4 times the width unless said. gated: times the activated features of a second map (SwiGLU)."""

    inner: Size | None = None
    activation: Literal["relu", "gelu", "gelu-tanh", "silu", "tanh"] = "gelu"
    bias: bool = True
    gated: bool = False


@dataclass(frozen=True)
class Block(_Checked):
    """One layer; norm and feed-forward may be None. parallel: both parts read the same stream (GPT-NeoX)."""

    attention: Attention = field(default_factory=Attention)
    norm: Norm | None = field(default_factory=Norm)
    feedforward: FeedForward | None = field(default_factory=FeedForward)
    residual: bool = True
    parallel: bool = False


@dataclass(frozen=True)
class Spec(_Checked):
    """A sequence model of one modality.

    width       D
    vocabulary  size of the learned embedding table; None takes features [..., N, D] as they are
    layers      how many blocks
    readout     "each" (one row a token), "mean", "first", "last", "concatenation", "class"
    outputs     width of a final linear map; None for none
    tied        the final map is the embedding table, transposed
    """

    width: Size
    vocabulary: Size | None = None
    layers: Size = 1
    block: Block = field(default_factory=Block)
    readout: str = "each"
    outputs: Size | None = None
    tied: bool = False

    def __post_init__(self) -> None:
        from equiscope.models.readout import READOUTS

        super().__post_init__()
        if self.readout not in READOUTS:
            raise UnknownName("read-out", self.readout, list(READOUTS))
        if self.readout == "concatenation" and self.outputs is not None:
            raise InputError("The width of a concatenation depends on the length, so no linear map can follow. Use outputs=None.")

        if self.tied and (self.vocabulary is None or self.outputs != self.vocabulary):
            raise InputError(
                f"A tied map has as many outputs as the vocabulary, {self.vocabulary}, but got outputs={self.outputs}."
            )
        if self.block.parallel and (self.block.norm is not None and self.block.norm.order == "post"):
            raise InputError('Parallel parts read one stream, so no norm can stand between them. Use order="pre".')

    def with_position(self, position: Position) -> Self:
        """The same model with another position scheme."""
        return replace(self, block=replace(self.block, attention=replace(self.block.attention, position=position)))

    def to_dict(self) -> dict[str, Any]:
        """Plain data with the version of the format; defaults are left out."""
        return {"version": VERSION, **_plain(self)}

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False) + "\n"

    @classmethod
    def of(cls, source: "Spec | dict[str, Any] | str | Path") -> "Spec":
        """A spec from a spec, a dict, or a JSON file. Raises InputError naming the field that does not fit."""
        if isinstance(source, Spec):
            return source
        data = (
            dict(source)
            if isinstance(source, dict)
            else read_object(Path(source), " Give a spec as a dict, a Spec, or a JSON file.", "an object with the fields of Spec")
        )
        if (version := data.pop("version", VERSION)) != VERSION:
            raise InputError(f"This spec has version {version!r}, but this equiscope reads version {VERSION}.")
        return _object(Spec, data, "spec")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Spec) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash(self.to_json())


_PARTS = {"block": Block, "attention": Attention, "norm": Norm, "feedforward": FeedForward}


def _plain(part: Any) -> dict[str, Any]:
    written: dict[str, Any] = {}
    for f in fields(part):
        value = getattr(part, f.name)
        if isinstance(value, Position):
            if not isinstance(value, NoPosition):
                written[f.name] = to_json(value)
        elif f.name in _PARTS and value is not None:
            if inner := _plain(value):
                written[f.name] = inner
        elif value != f.default:
            written[f.name] = value
    return written


def _object(kind: type, data: Any, path: str) -> Any:
    if not isinstance(data, dict):
        raise InputError(f"{path} should be an object with the fields of {kind.__name__}, but got {data!r}.")
    known = {f.name: f.type for f in fields(kind)}
    for name in data:
        if name not in known:
            raise UnknownName(f"field of {path}", name, sorted(known))
    made = {name: _value(name, value, known[name], f"{path}.{name}") for name, value in data.items()}
    try:
        return kind(**made)
    except TypeError as error:
        raise InputError(f"{path} is incomplete: {error}.") from error


def _value(name: str, value: Any, hint: Any, path: str) -> Any:
    if name == "position":
        return from_json(value)
    if value is None and name in ("norm", "feedforward"):  # the parts that may be absent
        return None
    return _object(_PARTS[name], value, path) if name in _PARTS else checked(value, hint, path)


def read_object(path: Path, missing: str = "", what: str = "an object") -> dict[str, Any]:
    """The object in a JSON file. Raises InputError where it is not there (and says `missing`), or is none."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise InputError(f"There is no file {path}.{missing}") from error
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not JSON: {error}.") from error
    if not isinstance(data, dict):
        raise InputError(f"{path} should hold {what}.")
    return data
