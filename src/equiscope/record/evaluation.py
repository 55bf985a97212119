"""Evaluation: metrics of a run on parts of its data or on new data, with intervals and the worst examples. Plain data, no torch."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from equiscope.record import display
from equiscope.record.program import VERSION
from equiscope.record.run import DataFile

WORST = 10  # examples that are shown
COUNTED = 1e12  # below it, whole numbers are written in full
DRAWN = 5000  # predicted numbers that are shown


class MetricValue(Struct, frozen=True, kw_only=True):
    """A metric. low, high: its 95 % interval over the examples; None where it has none. unit: empty for a plain number."""

    name: str
    value: float | None
    low: float | None = None
    high: float | None = None
    unit: str = ""


class MetricDifference(Struct, frozen=True, kw_only=True):
    """The metric of the first run minus that of the second, on the same examples, with its 95 % interval.

    p  McNemar's exact p-value that two rates are equal; None for other metrics
    """

    name: str
    first: float
    second: float
    difference: float
    low: float | None = None
    high: float | None = None
    p: float | None = None


class AnsweredExample(Struct, frozen=True, kw_only=True):
    """An example: what it is, what the model answers, what is right, and how wrong that is.

    more  further values, such as probabilities by class
    text, picture  the input where it is shown: a text, or the data: URL of a PNG; of a sound, its spectrogram
    """

    name: str
    answer: str
    target: str
    error: float
    more: Mapping[str, Any] = field(default_factory=dict)
    text: str = ""
    picture: str = ""


class PredictedNumber(Struct, frozen=True, kw_only=True):
    """A number that is predicted: true and predicted values of each example, in `unit`."""

    name: str
    unit: str = ""
    true: list[float]
    predicted: list[float]


class PartEvaluation(Struct, frozen=True, kw_only=True):
    """The metrics of one part of the data.

    summary    the decisive metric beside the simple models, in a sentence
    worst      the examples with the largest errors; examples: all of them, in the order of the data
    classes, confusion  how often an example of class i (row) is answered with class j (column)
    numbers    true and predicted numbers of all examples
    differences  from a second run on the same examples
    simple     metrics of simple models on the same examples, by their name: the majority, a linear model
    warnings   such as examples that are far from the training part
    """

    part: str
    summary: str = ""
    metrics: list[MetricValue]
    worst: list[AnsweredExample] = field(default_factory=list)
    examples: list[AnsweredExample] = field(default_factory=list)
    classes: list[str] = field(default_factory=list)
    confusion: list[list[int]] = field(default_factory=list)
    numbers: list[PredictedNumber] = field(default_factory=list)
    differences: list[MetricDifference] = field(default_factory=list)
    simple: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    def __getitem__(self, name: str) -> MetricValue:
        """The metric of this name. Raises KeyError if there is none."""
        for one in self.metrics:
            if one.name == name:
                return one
        raise KeyError(f"There is no metric {name!r}; there are: {', '.join(one.name for one in self.metrics)}.")


class EvaluationRecord(Struct, frozen=True, kw_only=True):
    """The evaluation of a run.

    run, other  the folder of the run, and of a second one on the same data
    weights     "best" on the validation part, or "last"
    data        files that were measured on, where they are not those of the run
    signatures  how a metric was computed, where its name does not say it
    """

    version: int = VERSION
    run: str
    other: str = ""
    task: str
    weights: str
    parts: list[PartEvaluation]
    data: list[DataFile] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    signatures: Mapping[str, str] = field(default_factory=dict)

    def __getitem__(self, part: str) -> PartEvaluation:
        """The evaluation of a part. Raises KeyError if it was not measured."""
        for one in self.parts:
            if one.part == part:
                return one
        raise KeyError(f"There is no part {part!r}; there are: {', '.join(one.part for one in self.parts)}.")

    @property
    def title(self) -> str:
        """The title of its page."""
        return f"Evaluation of {Path(self.run).name}{f' beside {Path(self.other).name}' if self.other else ''}"

    @property
    def short(self) -> "EvaluationRecord":
        """Without the answers that are not shown, and with at most `DRAWN` predicted numbers, at regular intervals."""
        return replace(self, parts=[replace(one, examples=[], numbers=[*map(_thinned, one.numbers)]) for one in self.parts])

    @property
    def result(self) -> dict[str, dict[str, float | None]]:
        """The values of the metrics by part and name."""
        return {part.part: {one.name: one.value for one in part.metrics} for part in self.parts}

    def __repr__(self) -> str:
        """Metrics with their intervals."""
        return display.text(self._heading, self._rows)

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return display.html(self._heading, ("part", "metric", "value", "95 % interval"), self._rows)

    @property
    def _heading(self) -> str:
        return f"{self.run}, {self.weights} weights{f', beside {self.other}' if self.other else ''}"

    @property
    def _rows(self) -> list[tuple[str, str, str, str]]:
        return [
            (part.part, one.name, number(one.value, one.unit), between(one.low, one.high))
            for part in self.parts for one in part.metrics
        ]  # fmt: skip


def _thinned(one: PredictedNumber) -> PredictedNumber:
    stride = -(-len(one.true) // DRAWN) or 1
    return replace(one, true=one.true[::stride], predicted=one.predicted[::stride])


def number(value: float | None, unit: str = "") -> str:
    """A value with its unit, to four digits; a count in full."""
    if value is None or value != value:
        return "no number"
    text = f"{value:,.0f}" if value.is_integer() and abs(value) < COUNTED else f"{value:.4g}"
    return f"{text}{f' {unit}' if unit else ''}"


def between(low: float | None, high: float | None) -> str:
    """An interval; empty where there is none."""
    return "" if low is None or high is None else f"{low:.4g} to {high:.4g}"
