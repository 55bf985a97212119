"""RecipeDraft: what was understood of some data, and the recipe that follows from it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from equiscope.errors import InputError

MUON: dict[str, Any] = {"kind": "muon", "rate": 2e-3, "muon_rate": 5e-3, "floor": 0.0, "average": 0.99}
FINE_TUNING: dict[str, Any] = {"rate": 2e-4, "decay": 0.01, "floor": 0.0, "betas": [0.9, 0.98]}
FEW = 10  # examples of a class: fewer are named


@dataclass(frozen=True)
class ChosenColumns:
    """Columns of a table that a person names.

    metadata  that are read with each text, picture or recording
    target    that is predicted; None where it is found
    """

    metadata: Sequence[str] = ()
    target: str | None = None

    def __bool__(self) -> bool:
        return bool(self.metadata) or self.target is not None


NONE = ChosenColumns()


@dataclass
class RecipeDraft:
    """A recipe in the making.

    data, model, optimiser, evaluation, engine  its tables
    examples    of the training part; epochs: how often each should be read
    batch       examples of a step
    understood  sentences about the data; warnings: sentences about what may go wrong
    comments    a remark behind a field, by its dotted name
    files       further files that are written beside the recipe, by name: lists of the parts
    example     inputs of the command `predict`
    minutes     after which the run ends; evaluations: of a run, that before the first step included
    """

    title: str
    data: dict[str, Any]
    model: dict[str, Any]
    examples: int
    epochs: int
    batch: int
    understood: list[str]
    optimiser: dict[str, Any] = field(default_factory=lambda: dict(MUON))
    evaluation: dict[str, Any] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    comments: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    example: list[str] = field(default_factory=list)
    steps: int = 0
    minutes: float | None = None
    evaluations: int = 11
    engine: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.steps = self.steps or max(300, -(-self.examples * self.epochs // self.batch))

    @property
    def halved(self) -> bool:
        """Whether bfloat16 may be used: not for molecules, whose forces are derivatives."""
        return self.data["task"] != "molecules"

    def recipe(self) -> dict[str, Any]:
        """As plain data."""
        optimiser = self.optimiser | {"warmup": max(1, min(200, self.steps // 20))}
        if "average" in optimiser and self.steps < 500:
            optimiser["average"] = 0.9
        budget = {"steps": self.steps, "batch": self.batch} | ({"minutes": self.minutes} if self.minutes else {})
        evaluation = self.evaluation | ({} if self.evaluations == 11 else {"every": -(-self.steps // (self.evaluations - 1))})
        tables = {
            "data": self.data, "model": self.model, "budget": budget, "optimiser": optimiser, "evaluation": evaluation,
            "engine": self.engine,
        }  # fmt: skip
        return {"title": self.title, **{name: table for name, table in tables.items() if table}}


def listed(names: list[str], most: int = 12) -> str:
    """Names with commas; of many, the first."""
    return ", ".join(names[:most]) + (f", … ({len(names)} in all)" if len(names) > most else "")


def extent(values: Sequence[float], form: str = "g") -> str:
    """ "3 to 27"; "3" where all values are equal."""
    low, high = (format(value, form) for value in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"


def check_start(start: str | None, what: str) -> None:
    """Raise InputError if a checkpoint is to be started from: these are no texts with a class or a number."""
    if start is not None:
        raise InputError(f"--start is for texts with a class or a number, but these are {what}. Leave it out.")


def number_ranges(names: Sequence[str], rows: Sequence[Sequence[float]]) -> str:
    """ "a number, angle (from -40 to 40)". rows: the numbers of each example."""
    ranges = [f"{name} (from {min(each):g} to {max(each):g})" for name, each in zip(names, zip(*rows, strict=True), strict=True)]
    return f"{'a number' if len(names) == 1 else f'{len(names)} numbers'}: {listed(ranges)}"


def class_warnings(counts: dict[str, int]) -> list[str]:
    """A warning for classes with few examples, and for very unequal ones."""
    few = [f"{name} ({count})" for name, count in counts.items() if count < FEW]
    found = [f"Fewer than {FEW} examples: {listed(few)}. What is measured on such a class says little."] if few else []
    if counts and max(counts.values()) > 10 * min(counts.values()):
        found.append(
            "The largest class has more than ten times as many examples as the smallest: see accuracy beside the majority."
        )
    return found


def title_of(path: Path) -> str:
    name = path.absolute().name
    for suffix in reversed(path.suffixes):
        name = name.removesuffix(suffix)
    return re.sub(r"[\x00-\x1f\x7f_]", " ", name).strip() or "data"


def token_fields(start: str | Path | None, vocabulary: int, length: int) -> dict[str, Any]:
    """The fields of texts that say how they become tokens: as the checkpoint `start` reads them, or by pieces that are learned."""
    tokens = {"tokens": "checkpoint"} if start else {"tokens": "pieces", "vocabulary": vocabulary}
    return tokens | {"length": length}


def token_comments(start: str | Path | None) -> dict[str, str]:
    """The remarks on texts that are the same for every kind of target."""
    return {
        "data.tokens": "those of the checkpoint" if start else "byte pairs, learned from the training part",
        "data.length": "tokens; the rest of a longer text is not read",
        "data.test_held_out": "copies of a text are in one part",
        "model.start": "fine-tuned: its output layer is new",
    }
