"""Schema: what a recipe file may say, for editors and for the docs; written into contract/ by `python -m equiscope.training`."""

import json
from typing import Any

import msgspec
from msgspec import Struct

from equiscope.models import BASELINES, PRESETS, Baseline
from equiscope.training import fields
from equiscope.training.recipe import TASKS, Recipe


def schema() -> dict[str, Any]:
    """JSON Schema of a recipe file, for editors: every field says what it means."""
    parts = msgspec.json.schema_components([Recipe], ref_template="#/$defs/{name}")[1]
    for kind in kinds():
        fields.describe(parts[kind.__name__], kind)
    properties = parts["Recipe"]["properties"]
    properties["model"]["properties"] = {
        "preset": {"enum": sorted(PRESETS), "description": "a spec to begin with; the other fields change it"},
        "start": {"type": "string", "description": "a checkpoint folder or a run to go on from"},
        "baseline": {"enum": list(BASELINES), "description": fields.meanings(Baseline)["baseline"]},
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
