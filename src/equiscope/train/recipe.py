"""Recipe: a run as data. Spec, data, budget and optimiser in one TOML file, every field typed and said no in a sentence.

A recipe may hold a table `small`: what changes with --small, to try it in a minute on the samples beside it.
"""

import re
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Struct, field

from equiscope.data import Images, Language, Sounds, Translation
from equiscope.errors import InputError

Size = Annotated[int, msgspec.Meta(ge=1)]
Count = Annotated[int, msgspec.Meta(ge=0)]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
Positive = Annotated[float, msgspec.Meta(gt=0)]
Data = Language | Translation | Images | Sounds  # the field `task` says which


class Part(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of a recipe: unknown fields are refused."""


class Budget(Part, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much is learned: `steps` of the optimiser, `batch` examples each, over all processes.

    accumulate  a step's batch is read in so many turns, where memory is short
    """

    steps: Size
    batch: Size
    accumulate: Size = 1


class Optimiser(Part, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How weights follow the gradient.

    kind      "adamw"; or "muon": matrices of the layers by Muon (Jordan 2024), all else by AdamW
    rate      of learning, at its highest; muon_rate: of the matrices
    decay     of weights with two axes or more, per step times the rate
    clip      length that the gradient is cut to; None for none
    schedule  "cosine" to `floor` of the rate; "wsd": level, and down in a line over the last `fall` of the steps; "linear"; "root"
              (inverse square root, Vaswani et al. 2017); "constant". All begin with `warmup` steps upward
    average   of the weights, by this factor a step, is what is evaluated and kept; None for none
    """

    kind: Literal["adamw", "muon"] = "adamw"
    rate: Positive = 1e-3
    muon_rate: Positive = 0.02
    betas: tuple[Share, Share] = (0.9, 0.95)
    eps: Positive = 1e-8
    decay: Annotated[float, msgspec.Meta(ge=0)] = 0.1
    clip: Positive | None = 1.0
    schedule: Literal["cosine", "wsd", "linear", "root", "constant"] = "cosine"
    warmup: Count = 0
    floor: Share = 0.1
    fall: Share = 0.2
    average: Annotated[float, msgspec.Meta(gt=0, lt=1)] | None = None


class Evaluation(Part, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When the validation part is measured, and what is kept.

    every    so many steps; a tenth of all unless said
    save     a checkpoint so often; as `every` unless said
    keep     so many newest checkpoints
    samples  fixed examples, answered at every evaluation
    """

    every: Size | None = None
    save: Size | None = None
    keep: Size = 2
    samples: Count = 2


class Engine(Part, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How it is computed.

    precision      of products: "bfloat16" keeps float32 weights and an optimiser in float32
    compile        by torch.compile
    recompute      activations of a layer are computed again on the way back, instead of kept
    strategy       of several processes: "ddp" (each has all weights) or "fsdp" (each has a share)
    """

    precision: Literal["float32", "bfloat16"] = "float32"
    compile: bool = False
    recompute: bool = False
    strategy: Literal["ddp", "fsdp"] = "ddp"


class Recipe(Part, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """title: one line; model: `preset` or `start` (a checkpoint or run to go on from) or the fields of a Spec, or several of these."""

    title: str
    seed: Annotated[int, msgspec.Meta(ge=0, lt=2**31)] = 0
    data: Data
    model: dict[str, Any]
    budget: Budget
    optimiser: Optimiser = field(default_factory=Optimiser)
    evaluation: Evaluation = field(default_factory=Evaluation)
    engine: Engine = field(default_factory=Engine)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, every field said."""
        found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(self))
        return found


def read_recipe(path: Path, changes: list[str] | None = None, small: bool = False) -> Recipe:
    """A recipe from its file.

    changes  "optimiser.rate=3e-4": fields to change, values written as in TOML; words need no quotes
    small    with the changes of its table `small`
    raises   InputError naming the file, the line and the field that does not fit
    """
    try:
        text = path.read_text(encoding="utf-8")
        data = tomllib.loads(text)
    except FileNotFoundError as error:
        raise InputError(f"There is no recipe {path}. The ones that come along are in recipes/.") from error
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read: {error}.") from error
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path} is not TOML: {error}.") from error
    less = data.pop("small", None)
    if small:
        if not isinstance(less, dict):
            raise InputError(f"{path} has no table [small]. Leave --small out, or change single fields with --set.")
        data = merged(data, less)
    for change in changes or []:
        name, sign, value = change.partition("=")
        if not sign or not name.strip():
            raise InputError(f"--set takes field=value, such as optimiser.rate=3e-4, but got {change!r}.")
        nested: Any = _value(value.strip())
        for key in reversed(name.strip().split(".")):
            nested = {key: nested}
        data = merged(data, nested)
    return recipe(data, str(path), text)


def recipe(data: dict[str, Any], name: str = "recipe", text: str = "") -> Recipe:
    """A recipe from plain data. Raises InputError as `read_recipe`."""
    try:
        return msgspec.convert(data, Recipe)
    except msgspec.ValidationError as error:
        said, _, where = str(error).partition(" - at `$")
        path = where.rstrip("`").strip(".")
        if unknown := re.search(r"unknown field `(\w+)`", said):
            path = f"{path}.{unknown[1]}".strip(".")
            said = f"there is no such field; known here: {', '.join(_known(path, data))}"
        line = _line(text, path)
        at = f", line {line}" if line else ""
        raise InputError(f"{name}{at}: {path or 'recipe'}: {said[:1].lower()}{said[1:]}.") from error


def merged(data: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """The data with the changes in place; tables are merged, all else is replaced."""
    made = dict(data)
    for name, value in changes.items():
        old = made.get(name)
        made[name] = merged(old, value) if isinstance(value, dict) and isinstance(old, dict) else value
    return made


def schema() -> dict[str, Any]:
    """JSON Schema of a recipe, for editors."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **msgspec.json.schema(Recipe)}


def differences(old: Any, new: Any, path: str = "") -> list[str]:
    """What two recipes say otherwise, as "optimiser.rate: 0.001, now 0.01"."""
    if isinstance(old, dict) and isinstance(new, dict):
        names = [*old, *(name for name in new if name not in old)]
        return [d for n in names for d in differences(old.get(n), new.get(n), f"{path}.{n}".strip("."))]
    return [] if old == new else [f"{path}: {old!r}, now {new!r}"]


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _known(path: str, data: dict[str, Any]) -> list[str]:
    """Fields of the part that a path's last name is not in."""
    part: Any = Recipe
    for name in path.split(".")[:-1]:
        part = {f.name: f.type for f in msgspec.structs.fields(part)}.get(name, Recipe)
        if name == "data":
            task = data.get("data", {}).get("task")
            part = next((kind for kind in _kinds() if kind.__struct_config__.tag == task), Language)
    return [f.name for f in msgspec.structs.fields(part)] if isinstance(part, type) and issubclass(part, Struct) else []


def _kinds() -> tuple[type[Struct], ...]:
    return getattr(Data, "__args__", (Data,))


def _line(text: str, path: str) -> int:
    """The line of a TOML file where a field stands; 0 where it stands in none."""
    table, _, name = path.rpartition(".")
    current = ""
    for number, line in enumerate(text.splitlines(), 1):
        if header := re.match(r"\s*\[\s*([\w.]+)\s*\]", line):
            current = header[1]
            if current == path:
                return number
        elif (key := re.match(r"\s*([\w.]+)\s*=", line)) and f"{current}.{key[1]}".strip(".") in (path, f"small.{path}"):
            return number
    return 0
