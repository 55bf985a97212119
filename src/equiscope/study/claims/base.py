"""A claim: one sentence of the literature, tested on the running code; the measurement decides the verdict.

    true                it held in every test
    true within limits  it held under a condition that can be named, and failed without it
    false               it failed where the sentence claims it

A claim's function measures and passes the outcomes of its tests to `verdict_of`; no verdict is hard-coded. The same seed
gives the same figures, except for times.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, TypeVar

import torch
from torch import Tensor

from equiscope.study.base import Curve, Each, Panel, ResultTable, Study, StudyResult, environment, no_progress, seeded
from equiscope.tokens import Tokens

T = TypeVar("T")
Verdict = Literal["true", "true within limits", "false"]
VERDICTS: tuple[Verdict, ...] = ("true", "true within limits", "false")
ROUNDING = 1e-12  # relative, in float64 (2e-16); sums of some thousand terms stay below it, every violation here is above 1e-6


def verdict_of(everywhere: bool, somewhere: bool = False) -> Verdict:
    """The verdict on a claim that held in every test (everywhere), or only under the condition that its limits name (somewhere)."""
    return "true" if everywhere else "true within limits" if somewhere else "false"


@dataclass(frozen=True)
class ClaimMeasurement:
    """The measurement of a claim.

    figure   a sentence with the measured numbers
    verdict  by `verdict_of`
    limits   where the claim holds and where it does not; further remarks
    numbers  the numbers, by name; None where there is none
    data     what was measured on
    """

    figure: str
    verdict: Verdict
    limits: str = ""
    numbers: Mapping[str, float | None] = field(default_factory=dict)
    panels: list[Panel] = field(default_factory=list)
    data: str = "seeded random numbers"


class Setting:
    """How to measure: quick or full, with which seed; and what several claims are measured on, computed once."""

    def __init__(self, quick: bool = False, seed: int = 0, each: Each = no_progress) -> None:
        self.quick, self.seed, self.each = quick, seed, each
        self._found: dict[Any, Any] = {}

    def result(self, study: Study) -> StudyResult:
        return self.once(study.name, lambda: study.run(self.seed, self.quick, self.each))

    def once(self, key: Any, compute: Callable[[], T]) -> T:
        """What `compute` gives, or gave before for the same key."""
        if key not in self._found:
            self._found[key] = compute()
        return self._found[key]


@dataclass(frozen=True)
class ClaimResult:
    """A claim with its measurement: plain data."""

    name: str
    statement: str
    source: str
    command: str
    verdict: Verdict
    figure: str
    limits: str
    numbers: Mapping[str, float | None]
    panels: list[Panel]
    data: str
    timed: bool
    seed: int
    quick: bool
    environment: dict[str, str]

    def to_json(self) -> str:
        """All of it; a number that is not finite is a mistake of ours and is refused."""
        return json.dumps(asdict(self), ensure_ascii=False, allow_nan=False)

    def to_draw(self) -> StudyResult:
        """The part of the result that a picture needs."""
        return StudyResult(f"{self.name}: {self.verdict}", self.figure, self.numbers, self.panels, ResultTable([], []))


@dataclass(frozen=True)
class LedgerClaim:
    """A sentence of the literature.

    source   where it stands
    measure  the function that tests it
    timed    the verdict depends on times of this machine
    """

    name: str
    statement: str
    source: str
    measure: Callable[[Setting], ClaimMeasurement]
    timed: bool = False

    @property
    def command(self) -> str:
        return f"equiscope study claims {self.name}"

    def run(self, setting: Setting | None = None) -> ClaimResult:
        """Measure now, on one thread."""
        setting = setting or Setting()
        with seeded(setting.seed):
            measurement = self.measure(setting)
        return ClaimResult(
            self.name, self.statement, self.source, self.command, measurement.verdict, measurement.figure,
            measurement.limits, measurement.numbers, measurement.panels, measurement.data, self.timed, setting.seed, setting.quick,
            environment(),
        )  # fmt: skip


def ledger_to_json(rulings: Sequence[ClaimResult]) -> str:
    """Several results, with the count of each verdict."""
    counts = {verdict: sum(r.verdict == verdict for r in rulings) for verdict in VERDICTS}
    return json.dumps({"counts": counts, "claims": [asdict(r) for r in rulings]}, ensure_ascii=False, allow_nan=False)


def claim(statement: str, source: str, timed: bool = False) -> Callable[[Callable[[Setting], ClaimMeasurement]], LedgerClaim]:
    """Decorator: a function that measures becomes a claim with its name."""

    def named(measure: Callable[[Setting], ClaimMeasurement]) -> LedgerClaim:
        return LedgerClaim(measure.__name__.replace("_", "-"), statement, source, measure, timed)

    return named


# --- what many claims need ----------------------------------------------------------------------------------------------
def normal(*shape: int) -> Tensor:
    """Numbers of mean 0 and variance 1, float64."""
    return torch.randn(*shape, dtype=torch.float64)


def text(length: int, width: int) -> Tokens:
    """Random words at positions 0, 1, ..."""
    return Tokens.of(normal(length, width))


def position_column(length: int) -> Tensor:
    """Positions [N, 1]: 0, 1, ..."""
    return torch.arange(length, dtype=torch.float64)[:, None]


def curve(name: str, x: Tensor | list[float] | list[int], y: Tensor | list[float], dashed: bool = False) -> Curve:
    """A line of a picture."""
    return Curve(name, _plain(x), [*_plain(y)], dashed)


def figure_panel(title: str, x: str, y: str, *lines: Curve, log: str = "") -> list[Panel]:
    """One panel with these lines."""
    return [Panel(title, x, y, [*lines], log=log)]


def _plain(values: Tensor | list[float] | list[int]) -> list[float]:
    numbers: list[float] = values.double().tolist() if isinstance(values, Tensor) else [float(v) for v in values]
    return numbers
