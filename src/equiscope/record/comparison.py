"""Comparison: runs of one recipe that differ in the varied fields; their metrics, and which differences are significant. No torch.

It is computed from the folders of the runs, and can be recomputed without training.
"""

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct, field

from equiscope.record import display
from equiscope.record.explorable import Claim
from equiscope.record.program import VERSION
from equiscope.record.run import DataFile, State

Equal = Literal["", "parameters", "compute"]


class Candidate(Struct, frozen=True, kw_only=True):
    """One of the models that are compared.

    name           as a person reads it, e.g. "rope"
    changes        to the recipe, by the names of its fields
    spec           of the model, or of the baseline
    parameters     number of trainable parameters; multiply_adds: of one step's forward pass
    steps          of training, which differ if compute is made equal
    claims         actions that the model claims to respect
    verdicts       of a check of the trained model, by the names of actions and properties
    removed        why a part of the model removes what the candidate's position scheme adds; empty where none does
    """

    name: str
    changes: dict[str, Any]
    spec: dict[str, Any] = field(default_factory=dict)
    parameters: int = 0
    multiply_adds: float = 0.0
    steps: int = 0
    claims: list[Claim] = field(default_factory=list)
    verdicts: Mapping[str, str] = field(default_factory=dict)
    removed: str = ""


class Extrapolation(Struct, frozen=True, kw_only=True):
    """The metric on inputs of another size than in training.

    factor  size relative to training, of the context or of the sides of pictures; size: in tokens, or pixels a side
    value   None if the model cannot read such inputs, for the reason in `reason`; values: all metrics, by name
    """

    factor: float
    size: int
    value: float | None = None
    values: dict[str, float | None] = field(default_factory=dict)
    reason: str = ""


class Trial(Struct, frozen=True, kw_only=True):
    """One candidate with one seed.

    folder   of its run, relative to the comparison's
    value    the metric at the end, with the best weights; None if the run has none
    result   all metrics of all parts, at the end
    curve    the metric on the validation part after each evaluation: (step, value)
    seconds  of training; tokens: per second, the median over steps; memory: peak in bytes, None if unknown
    extrapolation  the metric at other sizes
    """

    candidate: str
    seed: int
    folder: str
    state: State
    reason: str = ""
    value: float | None = None
    result: Mapping[str, Mapping[str, float | None]] = field(default_factory=dict)
    curve: list[tuple[int, float | None]] = field(default_factory=list)
    seconds: float = 0.0
    tokens: float | None = None
    memory: float | None = None
    extrapolation: list[Extrapolation] = field(default_factory=list)


class PairedDifference(Struct, frozen=True, kw_only=True):
    """The difference between two candidates over their common seeds.

    difference  mean over common seeds of the first's metric minus the second's
    low, high   95 % confidence interval of the difference, simultaneous for all pairs of the comparison; None with one seed
    p           of a t-test on the differences, adjusted for all pairs (Holm 1979)
    decided     whether the difference is significant: `better` names the better candidate
    same        whether both have exactly the same metric for every common seed
    seeds       about how many seeds would make the difference significant; None if no practical number would
    """

    first: str
    second: str
    difference: float
    low: float | None = None
    high: float | None = None
    p: float | None = None
    decided: bool = False
    better: str = ""
    same: bool = False
    seeds: int | None = None


class Comparison(Struct, frozen=True, kw_only=True):
    """The compared candidates and the result.

    question    in words; answer: a sentence that the spread over seeds supports; notes: caveats
    task        of the recipe; part: of the data that decides; metric: its first metric; better: which direction is better
    varied      names of the recipe's fields that differ
    equal       what is made equal between candidates beside data and seeds
    tune        fields whose values were chosen for each candidate on the validation part, with other seeds; and the values tried
    axis        what `Extrapolation.factor` multiplies: "tokens of context", "pixels a side"; empty if no other size was measured
    command     that repeats the comparison; recipe: the fields that all runs share
    candidates  best first, those without a number last
    """

    version: int = VERSION
    title: str
    question: str = ""
    answer: str = ""
    notes: list[str] = field(default_factory=list)
    task: str
    part: str
    metric: str
    better: Literal["less", "more"]
    varied: list[str]
    equal: Equal = ""
    tune: dict[str, list[Any]] = field(default_factory=dict)
    axis: str = ""
    seeds: list[int]
    command: str = ""
    recipe: dict[str, Any] = field(default_factory=dict)
    data: list[DataFile] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)
    machine: dict[str, Any] = field(default_factory=dict)
    candidates: list[Candidate]
    trials: list[Trial]
    pairs: list[PairedDifference] = field(default_factory=list)

    def __repr__(self) -> str:
        """Title, answer and the candidates, best first."""
        return display.text(f"{self.title}: {self.answer}", self._rows)

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return display.html(f"{self.title}: {self.answer}", ("candidate", f"{self.part} {self.metric}", "parameters"), self._rows)

    @property
    def _rows(self) -> list[tuple[str, str, str]]:
        return [(c.name, self._mean(c.name), f"{c.parameters:,}") for c in self.candidates]

    def _mean(self, candidate: str) -> str:
        values = [trial.value for trial in self.trials if trial.candidate == candidate and trial.value is not None]
        return f"{sum(values) / len(values):.4g}" if values else "no result"
