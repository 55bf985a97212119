"""Write the schema of recipes, or check that it has not drifted: `python -m equiscope.training [--check]`."""

import sys
from pathlib import Path

import msgspec

from equiscope.training.schema import schema

SCHEMA = Path(__file__).parents[3] / "contract" / "recipe.schema.json"


def written() -> str:
    """The schema as its file holds it."""
    return msgspec.json.format(msgspec.json.encode(schema()), indent=2).decode() + "\n"


def main(arguments: list[str]) -> int:
    if "--check" not in arguments:
        SCHEMA.write_text(written(), encoding="utf-8")
        return 0
    fresh = SCHEMA.exists() and SCHEMA.read_text(encoding="utf-8") == written()
    print(f"contract/{SCHEMA.name} is up to date" if fresh else f"contract/{SCHEMA.name} is stale: python -m equiscope.training")
    return 0 if fresh else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
