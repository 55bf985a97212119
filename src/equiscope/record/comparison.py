"""Comparison: runs of one recipe that differ in the varied fields; their metrics, and a verdict on each pair. No torch.

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
Verdict = Literal["different", "equivalent", "identical", "undecided"]


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

    factor  size relative to training, of the context, the input or the sides of pictures; size: in tokens, or pixels a side
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
    measuring  seconds of evaluating at other sizes and of checking symmetries, after training
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
    measuring: float = 0.0
    tokens: float | None = None
    memory: float | None = None
    extrapolation: list[Extrapolation] = field(default_factory=list)


class PairedDifference(Struct, frozen=True, kw_only=True):
    """The difference between two candidates over their common seeds, and the verdict on it.

    difference    mean over common seeds of the first's metric minus the second's
    low, high     confidence interval of the difference, adjusted for all pairs and looks; None without a test
    p             of a paired t-test of no difference, adjusted for all pairs (Holm 1979) and looks; None without a test
    p_equivalent  of two one-sided paired t-tests against the smallest effect, adjusted for all pairs and looks; None without
                  a test or a smallest effect
    verdict       read off the interval: "equivalent" if it lies within the smallest effect on both sides of 0, else
                  "different" if it excludes 0, else "undecided". "identical" if every common seed gave both the same number
    better        the better candidate of two that are different
    seeds         of an undecided pair: seeds of a new comparison that decides such a pair with probability 80 %: which finds
                  a difference as large as the smallest effect (without one, as the measured difference), and shows that
                  equal candidates are equivalent; None if that takes more than 128
    """

    first: str
    second: str
    difference: float
    low: float | None = None
    high: float | None = None
    p: float | None = None
    p_equivalent: float | None = None
    verdict: Verdict
    better: str = ""
    seeds: int | None = None


class Look(Struct, frozen=True, kw_only=True):
    """One of the numbers of seeds at which the comparison is tested.

    seeds    of each candidate
    level    share of all comparisons without a difference in which this look may report one: what it spends of the 5 %
    planned  before the first run; seeds that were added later make an unplanned look, beyond the 5 %
    """

    seeds: int
    level: float
    planned: bool = True


class Comparison(Struct, frozen=True, kw_only=True):
    """The compared candidates and the result.

    question    in words; answer: the verdicts on the best candidates in a few sentences; notes: caveats
    task        of the recipe; part: of the data that decides; metric: its first metric; better: which direction is better
    varied      names of the recipe's fields that differ
    equal       what is made equal between candidates beside data and seeds
    tune        fields whose values were chosen for each candidate on the validation part, with other seeds; and the values tried
    smallest_effect  smallest difference of the metric that matters, fixed before the runs; without one no pair is equivalent
    looks       numbers of seeds at which it is tested; empty if nobody recorded whether their number was fixed before the runs
    axis        what `Extrapolation.factor` multiplies: "tokens of context", "symbols of input" or "pixels a side"; empty if no
                 other size was measured
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
    smallest_effect: float | None = None
    looks: list[Look] = field(default_factory=list)
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
