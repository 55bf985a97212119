"""A study: one question about transformers, answered by measurements.

`run` returns a StudyResult: plain data with an answer that quotes the measured numbers, curves, a table and notes. The same seed
gives the same result, except for times; the state of torch's own generator does not change.
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

Each = Callable[..., Iterable[Any]]  # each(items, "what they are"): the items, with progress if it is displayed
Cell = str | float | int | bool | None


@dataclass(frozen=True)
class Curve:
    """A curve. dashed: values of a formula; marked: single points; low and high: the spread around y; None: no value."""

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
    lines: list[Curve] = field(default_factory=list)
    matrix: list[list[float]] | None = None
    log: str = ""


@dataclass(frozen=True)
class ResultTable:
    """Rows of numbers and words; a heading that ends in "(ms)" marks a column of times on this machine."""

    heading: list[str]
    rows: Sequence[Sequence[Cell]]

    def cells(self) -> list[list[str]]:
        """The rows as a person reads them."""
        return [[fmt(c) + (" ms" if h.endswith("(ms)") else "") for h, c in zip(self.heading, r, strict=True)] for r in self.rows]


@dataclass(frozen=True)
class StudyResult:
    """The result of a study.

    title    the result in a few words
    answer   one or two sentences with the measured numbers
    numbers  of the answer and its notes, by name; None where there is none
    data     what was measured on
    environment  versions and machine
    """

    title: str
    answer: str
    numbers: Mapping[str, float | None]
    panels: list[Panel]
    table: ResultTable
    notes: list[str] = field(default_factory=list)
    data: str = "seeded random numbers"
    study: str = ""
    question: str = ""
    source: str = ""
    seed: int = 0
    quick: bool = False
    environment: dict[str, str] = field(default_factory=dict)

    def to_json(self) -> str:
        """All of it; a number that is not finite is a mistake of ours and is refused."""
        return json.dumps(asdict(self), ensure_ascii=False, allow_nan=False)


@dataclass(frozen=True)
class Study:
    """One question. measure(quick, each) answers it; quick asks for fewer and smaller measurements."""

    name: str
    question: str
    source: str
    measure: Callable[[bool, Each], StudyResult]

    def run(self, seed: int = 0, quick: bool = False, each: Each | None = None) -> StudyResult:
        """Measure on one thread: small matrices are faster there, rounding is the same everywhere, and times are steady.

        each  wraps the long loops, so that a terminal can show progress
        """
        with seeded(seed):
            result = self.measure(quick, each or no_progress)
        return replace(
            result, study=self.name, question=self.question, source=self.source, seed=seed, quick=quick, environment=environment()
        )


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Inside, torch's generator has this seed and torch uses one thread; afterwards both are restored. Raises InputError below
    0.
    """
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


def environment() -> dict[str, str]:
    """Versions and machine of a measurement."""
    return {"torch": torch.__version__, "threads": "1", "machine": platform.machine()}


def no_progress(items: Iterable[Any], what: str = "") -> Iterator[Any]:
    """The items, without a progress display."""
    yield from items


def fmt(value: Cell) -> str:
    """A number with three significant digits; whole numbers in full."""
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
    numbers = list(values)
    return math.fsum(numbers) / len(numbers)


def time_interleaved(
    rivals: dict[str, Callable[[], object]], rounds: int, clock: Callable[[], float] = perf_counter
) -> dict[str, tuple[float, float, float]]:
    """Milliseconds of each rival as (median, lower, upper quartile): one warm-up call, then A B A B ..., `rounds` times.

    clock  in seconds; `time.process_time` leaves out what other processes take of the core
    """
    taken: dict[str, list[float]] = {name: [] for name in rivals}
    with torch.no_grad():
        for turn in range(rounds + 1):
            for name, call in rivals.items():
                start = clock()
                call()
                if turn:
                    taken[name].append(1e3 * (clock() - start))
    spread = {name: quantiles(times, n=4, method="inclusive") for name, times in taken.items()}
    return {name: (middle, low, high) for name, (low, middle, high) in spread.items()}


def timing_curve(name: str, x: list[float], times: list[tuple[float, float, float]]) -> Curve:
    """Times of `time_interleaved` as a curve with its spread."""
    middle, low, high = (list(column) for column in zip(*times, strict=True))
    return Curve(name, x, [*middle], low=low, high=high)
