"""A claim: one sentence of the literature, measured on the running code; the measurement decides the verdict.

    true                it held wherever it was measured
    true within limits  it held under a condition that can be named, and failed without it
    false               it failed where the sentence says that it holds

A claim's function measures and hands the outcome of its tests to `ruled`; no verdict is written down anywhere. The same seed
gives the same figures, except for times.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Literal

import torch
from torch import Tensor

from equiscope.study.base import Each, Finding, Line, Panel, Study, Table, made, settled, silently
from equiscope.tokens import Tokens

Verdict = Literal["true", "true within limits", "false"]
VERDICTS: tuple[Verdict, ...] = ("true", "true within limits", "false")
ROUNDING = 1e-12  # relative, in float64 (2e-16); sums of some thousand terms stay below it, every violation here is above 1e-6


def ruled(everywhere: bool, somewhere: bool = False) -> Verdict:
    """The verdict on a sentence that held everywhere it was measured, or only under the condition that its limits name."""
    return "true" if everywhere else "true within limits" if somewhere else "false"


@dataclass(frozen=True)
class Measured:
    """What came out.

    figure   a sentence with the measured numbers
    verdict  what follows, by `ruled`
    limits   where it holds and where not; what a reader should know besides
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
    """How to measure: the quick form or the full one, with which seed; and what studies found, each measured once."""

    def __init__(self, quick: bool = False, seed: int = 0, each: Each = silently) -> None:
        self.quick, self.seed, self.each = quick, seed, each
        self._found: dict[str, Finding] = {}

    def finding(self, study: Study) -> Finding:
        if study.name not in self._found:
            self._found[study.name] = study.run(self.seed, self.quick, self.each)
        return self._found[study.name]


@dataclass(frozen=True)
class Ruling:
    """A claim with what was measured: plain data."""

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
    made: dict[str, str]

    def to_json(self) -> str:
        """All of it; a number that is not finite is a mistake of ours and is refused."""
        return json.dumps(asdict(self), ensure_ascii=False, allow_nan=False)

    def to_draw(self) -> Finding:
        """What a picture of it needs."""
        return Finding(f"{self.name}: {self.verdict}", self.figure, self.numbers, self.panels, Table([], []))


@dataclass(frozen=True)
class Claim:
    """A sentence as the literature has it.

    source   where it stands
    measure  what is done about it
    timed    the figure holds times of this machine, and the verdict follows from them
    """

    name: str
    statement: str
    source: str
    measure: Callable[[Setting], Measured]
    timed: bool = False

    @property
    def command(self) -> str:
        return f"equiscope study claims {self.name}"

    def run(self, setting: Setting | None = None) -> Ruling:
        """Measure now, on one thread."""
        setting = setting or Setting()
        with settled(setting.seed):
            found = self.measure(setting)
        return Ruling(
            self.name, self.statement, self.source, self.command, found.verdict, found.figure, found.limits, found.numbers,
            found.panels, found.data, self.timed, setting.seed, setting.quick, made(),
        )  # fmt: skip


def ledger_to_json(rulings: Sequence[Ruling]) -> str:
    """Several rulings, with how many there are of each verdict."""
    counts = {verdict: sum(r.verdict == verdict for r in rulings) for verdict in VERDICTS}
    return json.dumps({"counts": counts, "claims": [asdict(r) for r in rulings]}, ensure_ascii=False, allow_nan=False)


def claim(statement: str, source: str, timed: bool = False) -> Callable[[Callable[[Setting], Measured]], Claim]:
    """A function that measures becomes a claim, which has its name."""

    def named(measure: Callable[[Setting], Measured]) -> Claim:
        return Claim(measure.__name__.replace("_", "-"), statement, source, measure, timed)

    return named


# --- what many claims need ----------------------------------------------------------------------------------------------
def normal(*shape: int) -> Tensor:
    """Numbers of mean 0 and variance 1, float64."""
    return torch.randn(*shape, dtype=torch.float64)


def text(length: int, width: int) -> Tokens:
    """Random words at places 0, 1, ..."""
    return Tokens.of(normal(length, width))


def counted(length: int) -> Tensor:
    """Places [N, 1]: 0, 1, ..."""
    return torch.arange(length, dtype=torch.float64)[:, None]


def curve(name: str, x: Tensor | list[float] | list[int], y: Tensor | list[float], dashed: bool = False) -> Line:
    """A line of a picture."""
    return Line(name, _plain(x), [*_plain(y)], dashed)


def picture(title: str, x: str, y: str, *lines: Line, log: str = "") -> list[Panel]:
    """One panel with these lines."""
    return [Panel(title, x, y, [*lines], log=log)]


def _plain(values: Tensor | list[float] | list[int]) -> list[float]:
    numbers: list[float] = values.double().tolist() if isinstance(values, Tensor) else [float(v) for v in values]
    return numbers
