"""The answers of `evaluate` and `predict` as a file: CSV, JSON or lines of JSON by its suffix, and frames of molecules."""

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from equiscope import outputs
from equiscope.errors import InputError

KINDS = (".csv", ".json", ".jsonl", ".extxyz")
HINT = "Choose another file with --out."


def check(path: Path, frames: bool) -> None:
    """Raise InputError for a suffix that no kind of file has. frames: whether answers may be frames of molecules."""
    kinds = [kind for kind in KINDS if frames or kind != ".extxyz"]
    if path.suffix.lower() not in kinds:
        raise InputError(f"--out writes {', '.join(kinds)} by the suffix, but got {path.name!r}. Choose one of them.")
    outputs.check(path, HINT)


def put(path: Path, examples: Sequence[Any]) -> None:
    """Write answered examples: name, answer, target, error, and their further values."""
    rows = [
        {"name": one.name, "answer": one.answer, "target": one.target, "error": one.error, **dict(one.more)} for one in examples
    ]
    _write(path, rows)


def put_predictions(path: Path, predictions: Sequence[Any]) -> None:
    """Write predictions: input, answer, and their numbers."""
    if path.suffix.lower() == ".extxyz":
        if not all("forces" in one.arrays and "symbols" in one.arrays for one in predictions):
            raise InputError("--out .extxyz is for molecules with forces. Use .csv, .json or .jsonl.")
        outputs.write(path, "".join(map(_frame, predictions)), HINT)
        return
    _write(path, [{"input": one.given, "answer": one.answer, **one.more, **one.arrays} for one in predictions])


def _write(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    if path.suffix.lower() == ".csv":
        text = io.StringIO()
        columns = list(dict.fromkeys(name for row in rows for name in row))
        table = csv.DictWriter(text, columns, lineterminator="\n")
        table.writeheader()
        for row in rows:
            table.writerow({k: v if not isinstance(v, list) else msgspec.json.encode(v).decode() for k, v in row.items()})
        outputs.write(path, text.getvalue(), HINT)
    elif path.suffix.lower() == ".jsonl":
        outputs.write(path, "".join(f"{msgspec.json.encode(row).decode()}\n" for row in rows), HINT)
    else:
        outputs.write(path, msgspec.json.format(msgspec.json.encode(rows), indent=1).decode() + "\n", HINT)


def _frame(one: Any) -> str:
    """A predicted frame in extended XYZ: eV, Å, eV/Å."""
    arrays = one.arrays
    head = f"{len(arrays['symbols'])}\nProperties=species:S:1:pos:R:3:forces:R:3 energy={arrays['energy']!r}"
    if arrays.get("cell") is not None:
        head += f' Lattice="{" ".join(repr(x) for row in arrays["cell"] for x in row)}"'
        head += f' pbc="{" ".join("FT"[periodic] for periodic in arrays["pbc"])}"'
    rows = zip(arrays["symbols"], arrays["positions"], arrays["forces"], strict=True)
    return head + "\n" + "".join(f"{s} {' '.join(repr(x) for x in [*p, *f])}\n" for s, p, f in rows)
