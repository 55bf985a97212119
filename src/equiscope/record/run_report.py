"""Course: a run as its page shows it, and what is said of it in words. News: what came to it since. Plain data, no torch.

The sentences are made here, once, so that the terminal, the page and a page that is watched say the same.
"""

from collections.abc import Mapping
from itertools import pairwise
from statistics import median

from msgspec import Struct, field
from msgspec.structs import replace

from equiscope.errors import counted
from equiscope.record.program import VERSION
from equiscope.record.run import Entry, Point, Run, State

MOST = 20_000  # points that a page carries
LATELY = 50  # steps whose pace says how long the rest takes


class RunReport(Struct, frozen=True, kw_only=True):
    """The content of a run's page.

    live     whether the page asks for more; series: of the entries: another one begins again
    every    only each so many-th point is on the page, and the last
    seconds_left  seconds of training that are to come, by the pace of late; None where it has ended or nothing is known
    """

    version: int = VERSION
    title: str
    summary: str
    seconds_left: float | None = None
    run: Run
    live: bool = False
    series: str = ""
    every: int = 1


class RunUpdate(Struct, frozen=True, kw_only=True):
    """Entries of a run from number `first` on; more: whether others wait already.

    silent   seconds since the last entry came
    state, reason, seconds, result  of the run now, as in `Run`
    """

    series: str
    first: int
    entries: list[Entry] = field(default_factory=list)
    more: bool = False
    summary: str
    seconds_left: float | None = None
    silent: float = 0.0
    state: State
    reason: str = ""
    seconds: float = 0.0
    result: Mapping[str, Mapping[str, float | None]] = field(default_factory=dict)


def run_report(run: Run, most: int = MOST) -> RunReport:
    """The data of the page: the whole run; a long list of points is thinned."""
    every = -(-len(run.points) // most) or 1
    kept = [p for i, p in enumerate(run.points) if i % every == 0 or i == len(run.points) - 1]
    return RunReport(title=run.title, summary=summary(run), run=run if every == 1 else replace(run, points=kept), every=every)


def summary(run: Run, points: list[Point] | None = None) -> str:
    """One sentence: where the run is, and the number that decides. points: the last ones, where the run does not hold them."""
    last = (points if points is not None else run.points)[-1:]
    if run.state == "finished":
        results = "; ".join(f"{part} {_first(values)}" for part, values in run.result.items() if values)
        return f"Finished after {counted(run.steps, 'step')}{f': {results}' if results else ''}."
    if run.state in ("stopped", "failed"):
        why, word = run.reason.rstrip("."), run.state.capitalize()
        return f"{word + why[len(word) :] if why.startswith(run.state) else f'{word}: {why}' if why else word}."
    if not last:
        return f"Beginning: {counted(run.steps, 'step is', 'steps are')} to come."
    return f"Step {last[0].step:,} of {run.steps:,}: training loss {last[0].loss:.4g}."


def left(run: Run, points: list[Point] | None = None) -> float | None:
    """Seconds of training that are to come, by the median pace of the last steps; None where the run is not running."""
    late = (points if points is not None else run.points)[-LATELY - 1 :]
    if run.state != "running" or len(late) < 2:
        return None
    pace = median(b.seconds - a.seconds for a, b in pairwise(late))
    return max(0.0, pace * (run.steps - late[-1].step))


def _first(values: Mapping[str, float | None]) -> str:
    name, value = next(iter(values.items()))
    return f"{name} is no number" if value is None or value != value else f"{name} {value:.4g}"
