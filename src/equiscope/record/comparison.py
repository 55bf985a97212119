"""Comparison: runs of one recipe that differ in what was varied; what their numbers say, and how sure that is. No torch.

It is computed from the folders of runs, and can be computed again without training.
"""

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct, field

from equiscope.record import display
from equiscope.record.explorable import Claim
from equiscope.record.program import VERSION
from equiscope.record.run import Source, State

Equal = Literal["", "parameters", "compute"]


class Candidate(Struct, frozen=True, kw_only=True):
    """One of the models that are compared.

    name           as a person reads it, e.g. "rope"
    changes        of the recipe, by the names of its fields
    spec           the model's, or the baseline's
    parameters     how many numbers it learns; multiply_adds: of one step's forward pass
    steps          of its budget, which differ where compute is made equal
    claims         which actions it says to respect
    measured       verdicts of a check of the trained model, by the names of actions and properties
    """

    name: str
    changes: dict[str, Any]
    spec: dict[str, Any] = field(default_factory=dict)
    parameters: int = 0
    multiply_adds: float = 0.0
    steps: int = 0
    claims: list[Claim] = field(default_factory=list)
    measured: Mapping[str, str] = field(default_factory=dict)


class Beyond(Struct, frozen=True, kw_only=True):
    """The number that decides, on inputs of another size than those of training.

    factor  times the size of training: of the context, or of the pictures' sides; size: in tokens, or pixels a side
    value   None where the model cannot read such inputs, and reason says why; values: all that is measured, by name
    """

    factor: float
    size: int
    value: float | None = None
    values: dict[str, float | None] = field(default_factory=dict)
    reason: str = ""


class Trial(Struct, frozen=True, kw_only=True):
    """One candidate with one seed.

    folder   of its run, seen from the comparison's
    value    the number that decides, at the end, with the best weights; None where the run has none
    result   every number of every part, at the end
    curve    that number of the validation part after each evaluation, or the first one that is measured then: (step, number)
    seconds  of training; tokens: read in a second, the median over its steps; memory: most bytes held at once, None where unknown
    beyond   the same number at other sizes
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
    beyond: list[Beyond] = field(default_factory=list)


class Pair(Struct, frozen=True, kw_only=True):
    """Two candidates, seed by seed.

    difference  mean over common seeds of the first's number minus the second's
    low, high   between which the true mean lies with 95 %, for all pairs of the comparison together; None with one seed
    p           of a t-test on the seeds' differences, made larger for all pairs together (Holm 1979)
    decided     whether the spread supports that one is better: `better` names it
    same        whether every common seed gave the very same number
    seeds       how many would decide, were the spread and the difference what they seem; None where none would
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
    """What was compared, and what came of it.

    question    in words; answer: a sentence that the spread supports; notes: what a reader should know
    task        of the recipe; part: of the data that decides; metric: its first number; better: which way
    varied      names of the recipe's fields that differ
    equal       what was made equal between candidates beside data and seeds
    axis        what `Beyond.factor` multiplies: "tokens of context", "pixels a side"; empty where nothing was tried
    command     that repeats it; recipe: what all runs share
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
    axis: str = ""
    seeds: list[int]
    command: str = ""
    recipe: dict[str, Any] = field(default_factory=dict)
    data: list[Source] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)
    machine: dict[str, Any] = field(default_factory=dict)
    candidates: list[Candidate]
    trials: list[Trial]
    pairs: list[Pair] = field(default_factory=list)

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
