"""Small trained models that come with the package. Each has a name, and a folder here, which is the folder of its run.

Beside the run's record and its best weights, a folder holds `card.json` (measurements, predictions for an example), `card.md`
(what the model was trained on, how good it is, what it must not be used for), the licence of its data, and `examples`, which the
model has not learned from. `recipes/trained/card.py` writes all of them from a run.
"""

import json
import os
from pathlib import Path
from typing import Any

from equiscope.errors import InputError, UnknownName, did_you_mean

NAMES = ("characters", "clothes", "ethanol")
HOME = Path(__file__).parent
CARD, MEASURED = "card.md", "card.json"
MODEL_FILES = ("run.json", "config.json")  # one of them is in the folder of a model


def find(source: Any) -> Path | None:
    """The folder of the trained model that a string names; None for everything else, such as a path.

    raises  InputError where the name is also that of a model's folder in the current folder, which is ./NAME
    """
    if not isinstance(source, str) or source not in NAMES:
        return None
    if any((Path(source) / name).is_file() for name in MODEL_FILES):
        raise InputError(
            f"{source} is a trained model that comes with equiscope, and also a model's folder here. Give ./{source} for the "
            f"folder, or {HOME / source} for the other."
        )
    return HOME / source


def path_of(source: str | Path) -> Path:
    """The folder of the trained model that a string names, or the path itself.

    raises  UnknownName for a word that is no path and similar to one of the names
    """
    if folder := find(source):
        return folder
    word = isinstance(source, str) and Path(source).name == source and not os.path.lexists(source)
    if word and did_you_mean(source, NAMES):
        raise UnknownName("trained model", source, NAMES, "Or give the path of a folder.")
    return Path(source)


def name_of(folder: Path) -> str | None:
    """The name of the trained model in a folder; None for any other folder."""
    return folder.name if folder.parent == HOME and folder.name in NAMES else None


def summary(name: str) -> str:
    """A sentence about a trained model: its data, its result, its limits."""
    return str(json.loads((HOME / name / MEASURED).read_text(encoding="utf-8"))["summary"])


def examples(name: str) -> list[Path]:
    """Inputs of a trained model that it has not learned from, the first one first."""
    return sorted((HOME / name / "examples").iterdir())
