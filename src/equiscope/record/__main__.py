"""Write the contract, or check that it has not drifted: `python -m equiscope.record [--check]`."""

import sys
from pathlib import Path

import msgspec

from equiscope.record import (
    Audit,
    Comparison,
    Computation,
    Cost,
    Course,
    Drawing,
    Explorable,
    Heads,
    Masks,
    Messages,
    Molecule,
    News,
    Numbers,
    Report,
    Tokenised,
    Trace,
)  # fmt: skip

SCHEMA = Path(__file__).parents[3] / "contract" / "schema.json"


def schema() -> str:
    """JSON Schema of every record that leaves Python."""
    records = [
        Explorable, Drawing, Report, Audit, Course, News, Comparison, Heads, Numbers, Masks, Messages, Cost, Tokenised, Molecule,
        Computation, Trace,
    ]  # fmt: skip
    pages, definitions = msgspec.json.schema_components(records, ref_template="#/$defs/{name}")
    text = msgspec.json.encode({"$schema": "https://json-schema.org/draft/2020-12/schema", "anyOf": pages, "$defs": definitions})
    return msgspec.json.format(text, indent=2).decode() + "\n"


def main(arguments: list[str]) -> int:
    if "--check" not in arguments:
        SCHEMA.write_text(schema(), encoding="utf-8")
        return 0
    fresh = SCHEMA.exists() and SCHEMA.read_text(encoding="utf-8") == schema()
    print("contract/schema.json is up to date" if fresh else "contract/schema.json is stale: python -m equiscope.record")
    return 0 if fresh else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
