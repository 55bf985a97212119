"""Schemas of records, for the page, and of recipes, for editors: `python -m contract.schemas` writes them; --check looks for drift.

`schema.json` is of every record that leaves Python, `recipe.schema.json` of a recipe file. What a field means, docstrings say.
"""

import dataclasses
import inspect
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from equiscope.models import BASELINES, PRESETS, Baseline
from equiscope.record import (
    AttentionTensors,
    Attribution,
    Audit,
    Comparison,
    Computation,
    Cost,
    Drawing,
    EvaluationRecord,
    Explorable,
    Guarded,
    Heads,
    InterventionEffect,
    Masks,
    Messages,
    Molecule,
    Parity,
    Patches,
    ProgramRecord,
    RankedHeads,
    Reach,
    Report,
    RunReport,
    RunUpdate,
    Tokenised,
)  # fmt: skip
from equiscope.training import fields
from equiscope.training.recipe import TASKS, Recipe

FOLDER = Path(__file__).parent
RECORDS = [
    Explorable, Drawing, Report, Audit, RunReport, RunUpdate, Comparison, Heads, AttentionTensors, Masks, Messages, Cost, Tokenised,
    Molecule, Parity, Patches, Reach,
    Computation, ProgramRecord, InterventionEffect, RankedHeads, Attribution, Guarded, EvaluationRecord,
]  # fmt: skip


def records() -> dict[str, Any]:
    """JSON Schema of every record that leaves Python."""
    pages, definitions = msgspec.json.schema_components(RECORDS, ref_template="#/$defs/{name}")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "anyOf": list(pages), "$defs": definitions}


def recipes() -> dict[str, Any]:
    """JSON Schema of a recipe file, for editors: every field says what it means."""
    parts = msgspec.json.schema_components([Recipe], ref_template="#/$defs/{name}")[1]
    for kind in kinds():
        describe(parts[kind.__name__], kind)
    properties = parts["Recipe"]["properties"]
    properties["model"]["properties"] = {
        "preset": {"enum": sorted(PRESETS), "description": "a spec to begin with; the other fields change it"},
        "start": {"type": "string", "description": "a checkpoint folder or a run to go on from"},
        "baseline": {"enum": list(BASELINES), "description": meanings(Baseline)["baseline"]},
    }
    loose = {name: {k: v for k, v in part.items() if k != "required"} for name, part in parts.items()}
    smaller = json.loads(json.dumps(loose).replace("#/$defs/", "#/$defs/Small"))
    properties["small"] = {"$ref": "#/$defs/SmallRecipe", "description": "what changes with --small"}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema", "title": "A recipe of equiscope", "$ref": "#/$defs/Recipe",
        "$defs": parts | {f"Small{name}": part for name, part in smaller.items()},
    }  # fmt: skip


def kinds() -> list[type[Struct]]:
    """The tables of a recipe, the recipe itself first, a table within another after it."""
    found: list[type[Struct]] = []
    rest: list[type[Struct]] = [Recipe, *TASKS.values()]
    while rest:
        found.append(kind := rest.pop(0))
        rest = [*fields.tables(kind).values(), *rest]
    return found


def meanings(kind: type) -> dict[str, str]:
    """What the docstring of a kind of table says of each field: lines `name   meaning`, which go on indented.

    Beside a field another one may be said: "hop_ms   from one to the next; mels: bands".
    """
    found: dict[str, str] = {}
    current: list[str] = []
    known = [f.name for f in (dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else msgspec.structs.fields(kind))]
    for line in (inspect.getdoc(kind) or "").splitlines():
        field = re.match(r"((?:\w+, )*\w+)\s{2,}(\S.*)", line)
        if field and set(names := field[1].split(", ")) <= set(known):
            current = names
            found |= dict.fromkeys(current, field[2])
        elif line.startswith("  ") and current:
            found |= {name: f"{found[name]} {line.strip()}" for name in current}
        else:
            current = []
    for name, text in list(found.items()):
        pieces = re.split(rf"; ({'|'.join(known)}): ", text)
        found |= {name: pieces[0]} | dict(zip(pieces[1::2], pieces[2::2], strict=True))
    return found


def first_sentence(kind: type) -> str:
    """What stands before the list of fields in a docstring."""
    return " ".join((inspect.getdoc(kind) or "").split("\n\n")[0].split())


def describe(schema: dict[str, Any], kind: type[Struct]) -> None:
    """Write into the JSON Schema of a table what its fields mean, and "none" for what TOML has no word for."""
    schema["description"] = first_sentence(kind)
    for f in msgspec.structs.fields(kind):
        some = schema["properties"][f.name].get("anyOf", [])
        if {"type": "null"} in some:
            some[some.index({"type": "null"})] = {"const": "none"}
    for name, text in meanings(kind).items():
        schema["properties"][name]["description"] = text


def default(field: msgspec.structs.FieldInfo) -> Any:
    """What a field is where nothing is said; msgspec.NODEFAULT where something has to be."""
    return field.default_factory() if field.default_factory is not msgspec.NODEFAULT else field.default


SCHEMAS: dict[str, Callable[[], dict[str, Any]]] = {"schema.json": records, "recipe.schema.json": recipes}


def written(name: str) -> str:
    """A schema as its file holds it."""
    return msgspec.json.format(msgspec.json.encode(SCHEMAS[name]()), indent=2).decode() + "\n"


def stale() -> list[str]:
    """Names of files that say something else than the code does now."""
    return [
        name for name in SCHEMAS if not (FOLDER / name).exists() or (FOLDER / name).read_text(encoding="utf-8") != written(name)
    ]


if __name__ == "__main__":
    if "--check" in sys.argv:
        left = stale()
        print(
            f"contract/{' and contract/'.join(left)} stale: python -m contract.schemas"
            if left
            else "contract/*schema.json are up to date"
        )
        sys.exit(bool(left))
    for name in SCHEMAS:
        (FOLDER / name).write_text(written(name), encoding="utf-8")
