"""A study: one question about transformers, answered by measuring.

`run` gives a Finding: plain data with an answer sentence whose numbers were measured a moment ago, curves, a table and notes.
The same seed gives the same finding, except for times; torch's own generator stays where it was.
"""

import json
import math
import platform
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from statistics import quantiles
from time import perf_counter
from typing import Any

import torch

from equiscope.errors import InputError

Each = Callable[..., Iterable[Any]]  # each(items, "what they are"): the items, with progress shown if somebody looks
Cell = str | float | int | bool | None


@dataclass(frozen=True)
class Line:
    """A curve. dashed: what a formula says; marked: single points; low and high: the spread around y; None: no value."""

    name: str
    x: list[float]
    y: list[float | None]
    dashed: bool = False
    marked: bool = False
    low: list[float] | None = None
    high: list[float] | None = None


@dataclass(frozen=True)
class Panel:
    """One picture: lines over a common x, or a matrix. log names the axes that are logarithmic: "", "x", "y" or "xy"."""

    title: str
    x: str
    y: str
    lines: list[Line] = field(default_factory=list)
    matrix: list[list[float]] | None = None
    log: str = ""


@dataclass(frozen=True)
class Table:
    """Rows of numbers and words; a heading that ends in "(ms)" says that its column holds times of this machine."""

    heading: list[str]
    rows: Sequence[Sequence[Cell]]

    def cells(self) -> list[list[str]]:
        """The rows as a person reads them."""
        return [[shown(c) + (" ms" if h.endswith("(ms)") else "") for h, c in zip(self.heading, r, strict=True)] for r in self.rows]


@dataclass(frozen=True)
class Finding:
    """What was found.

    title    what it says, in a few words
    answer   one or two sentences with the measured numbers
    numbers  the numbers of the answer and of its notes, by name; None where there is none
    data     what was measured on
    made     versions and machine
    """

    title: str
    answer: str
    numbers: Mapping[str, float | None]
    panels: list[Panel]
    table: Table
    notes: list[str] = field(default_factory=list)
    data: str = "seeded random numbers"
    study: str = ""
    question: str = ""
    source: str = ""
    seed: int = 0
    quick: bool = False
    made: dict[str, str] = field(default_factory=dict)

    def to_json(self) -> str:
        """All of it; a number that is not finite is a mistake of ours and is refused."""
        return json.dumps(asdict(self), ensure_ascii=False, allow_nan=False)


@dataclass(frozen=True)
class Study:
    """One question. measure(quick, each) answers it; quick asks for fewer and smaller measurements."""

    name: str
    question: str
    source: str
    measure: Callable[[bool, Each], Finding]

    def run(self, seed: int = 0, quick: bool = False, each: Each | None = None) -> Finding:
        """Measure now, on one thread: small matrices are faster there, rounded alike everywhere, and their times are steady.

        each  wraps the long loops, so that a terminal can show how far they are
        """
        with settled(seed):
            found = self.measure(quick, each or silently)
        return replace(found, study=self.name, question=self.question, source=self.source, seed=seed, quick=quick, made=made())


@contextmanager
def settled(seed: int) -> Iterator[None]:
    """torch's generator begins with this seed, on one thread; both are afterwards as they were. Raises InputError below 0."""
    if seed < 0:
        raise InputError(f"A seed is 0 or larger, but got {seed}.")
    before = torch.get_num_threads()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(before)


def made() -> dict[str, str]:
    """Versions and machine of what `settled` runs."""
    return {"torch": torch.__version__, "threads": "1", "machine": platform.machine()}


def silently(items: Iterable[Any], what: str = "") -> Iterator[Any]:
    """The items, and nothing shown."""
    yield from items


def shown(value: Cell) -> str:
    """A number with three digits, as a person writes it; whole numbers in full."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (int, str)):
        return str(value)
    if value == 0 or 1e-3 <= abs(value) < 1e3:
        return f"{value:.3g}"
    if 1e3 <= abs(value) < 1e6:
        return f"{value:.0f}"
    return f"{value:.2e}" if abs(value) > 1e-12 else f"{value:.1e}"  # below that, it is rounding


def mean_of(values: Iterable[float]) -> float:
    """Arithmetic mean of at least one number."""
    found = list(values)
    return math.fsum(found) / len(found)


def turn_by_turn(rivals: dict[str, Callable[[], object]], rounds: int) -> dict[str, tuple[float, float, float]]:
    """Milliseconds of each rival as (median, lower, upper quartile): one call to warm up, then A B A B ..., `rounds` times."""
    taken: dict[str, list[float]] = {name: [] for name in rivals}
    with torch.no_grad():
        for turn in range(rounds + 1):
            for name, call in rivals.items():
                start = perf_counter()
                call()
                if turn:
                    taken[name].append(1e3 * (perf_counter() - start))
    spread = {name: quantiles(times, n=4, method="inclusive") for name, times in taken.items()}
    return {name: (middle, low, high) for name, (low, middle, high) in spread.items()}


def timed(name: str, x: list[float], times: list[tuple[float, float, float]]) -> Line:
    """Times of `turn_by_turn` as a curve with its spread."""
    middle, low, high = (list(column) for column in zip(*times, strict=True))
    return Line(name, x, [*middle], low=low, high=high)
