"""The page of a run: one offline file; or served while the run trains, when the page requests new entries.

The training loop only appends entries; pages request them by number, so a closed or slow tab costs nothing.
"""

import re
import secrets
import threading
import time
from collections.abc import Callable
from html import escape
from pathlib import Path

import msgspec
from msgspec.structs import replace

from equiscope.errors import InputError
from equiscope.explore import page
from equiscope.record import Point, Run, RunReport, RunUpdate, read_run
from equiscope.record.run import METRICS, Entry
from equiscope.record.run_report import LATELY, left, summary

AT_ONCE = 2000  # entries of one response
PATIENCE, GONE = 2.5, 5.0  # seconds that the end waits for tabs to request it; seconds after which a silent tab is not waited for
POLICY = f"{page.POLICY}; connect-src 'self'"
WATCHED = "<p>A page that is watched needs JavaScript. Without it: <code>equiscope explore RUN --export FILE</code>.</p>"
ROWS = 40  # steps in the table of a browser without JavaScript


class Live:
    """A run whose page requests new entries. Any thread may call any method.

    fresh  called before a response: reads new entries where another process trains
    """

    def __init__(self, run: Run, entries: list[Entry], fresh: Callable[["Live"], None] | None = None) -> None:
        self._lock, self._fresh, self._last_request_time = threading.Lock(), fresh, time.monotonic()
        self.begin(run, entries)

    def begin(self, run: Run, entries: list[Entry]) -> None:
        """Show this run with these entries. Pages that show another series reload."""
        with self._lock:
            self._run, self._entries, self._series, self._last_entry_time = run, list(entries), secrets.token_hex(8), time.time()
            self._points = [e for e in entries if isinstance(e, Point)][-LATELY - 1 :]

    def add(self, entry: Entry, when: float | None = None) -> None:
        """Append an entry. when: time of writing, in seconds since 1970; by default now."""
        with self._lock:
            self._entries.append(entry)
            self._last_entry_time = time.time() if when is None else when
            if isinstance(entry, Point):
                self._points = [*self._points[-LATELY:], entry]

    def state(self, run: Run) -> None:
        """Update the run's state, reason and result."""
        with self._lock:
            self._run = run

    def page(self) -> str:
        """The page without entries, which it requests."""
        self._refresh()
        with self._lock:
            run = replace(self._run, points=[], scores=[], samples=[])
            content = RunReport(title=run.title, summary=summary(run, self._points), run=run, live=True, series=self._series)
        return page.html(content, WATCHED, POLICY)

    def news(self, first: int, most: int = AT_ONCE) -> RunUpdate:
        """Entries from number `first` on, at most `most`."""
        with self._lock:
            self._last_request_time = time.monotonic()
            run, some = self._run, self._entries[first : first + most]
            return RunUpdate(
                series=self._series, first=first, entries=some, more=first + len(some) < len(self._entries),
                summary=summary(run, self._points), seconds_left=left(run, self._points),
                silent=max(0.0, time.time() - self._last_entry_time),
                state=run.state, reason=run.reason, seconds=self._points[-1].seconds if self._points else run.seconds,
                result=run.result,
            )  # fmt: skip

    def answer(self, query: dict[str, str]) -> bytes:
        """The response to /entries?from=N. Raises InputError where N is no number."""
        number = query.get("from", "")
        if not re.fullmatch(r"[0-9]{1,12}", number):
            raise InputError("Request /entries?from=N, where N is the number of entries that the page has.")
        self._refresh()
        return msgspec.json.encode(self.news(int(number)))

    def wait(self) -> None:
        """Wait a moment where a page requested entries recently, so that it shows how the run ended."""
        if time.monotonic() - self._last_request_time < GONE:
            time.sleep(PATIENCE)

    def _refresh(self) -> None:
        if self._fresh is not None:
            self._fresh(self)


def following(folder: Path) -> Live:
    """A live run of a folder in which another process trains: new entries are read when a page requests them.

    raises  InputError where there is no run, or its record is damaged
    """
    path, lock = folder / METRICS, threading.Lock()
    at = (0, 0)  # which file, for a run that goes on replaces it; bytes that were read

    def fresh(live: Live) -> None:
        nonlocal at
        with lock:
            run = read_run(folder, entries=False)
            try:
                with path.open("rb") as file:
                    status = path.stat()
                    if status.st_ino != at[0] or status.st_size < at[1]:
                        live.begin(run, [])
                        at = (status.st_ino, 0)
                    file.seek(at[1])
                    text = file.read()
            except FileNotFoundError:
                return
            whole = text[: text.rfind(b"\n") + 1]  # the last line may be on its way
            for entry in _entries(whole, path):
                live.add(entry, status.st_mtime)
            at = (at[0], at[1] + len(whole))
            live.state(run)

    live = Live(read_run(folder, entries=False), [], fresh)
    fresh(live)
    return live


def _entries(text: bytes, path: Path) -> list[Entry]:
    try:
        return [msgspec.json.decode(line, type=Entry) for line in text.splitlines()]
    except msgspec.DecodeError as error:
        raise InputError(f"{path} is damaged: {error}.") from error


def plain(content: RunReport) -> str:
    """Summary, scores and some steps of the run, as markup."""
    run = content.run
    facts = f"{run.task}; {run.parameters:,} parameters; {run.seconds:.0f} s of training; seed {run.seed}"
    names = list(dict.fromkeys(name for score in run.scores for name in score.values))
    scores = [[f"{s.step:,}", s.part, *(page.number(s.values.get(n)) for n in names), "best" * s.best] for s in run.scores]
    apart = -(-len(run.points) // ROWS) or 1
    points = [[f"{p.step:,}", *(f"{v:.6g}" for v in (p.loss, p.rate, p.norm, p.seconds, p.tokens))] for p in run.points[::apart]]
    samples = [[f"{s.step:,}", s.prompt, s.answer, s.target or ""] for s in run.samples if s.step == run.samples[-1].step]
    data = [[s.name, s.part, f"{s.bytes:,}", s.sha256] for s in run.data]
    return (
        f'<div class="bare-report"><h1>{escape(content.title)}</h1>\n<p>{escape(content.summary)}</p>\n<p>{escape(facts)}</p>\n'
        + page.table("Scores", ["step", "part", *names, ""], scores)
        + page.table("Steps", ["step", "training loss", "rate", "gradient norm", "seconds", "tokens a second"], points)
        + page.table("Answers", ["step", "given", "answer", "wanted"], samples)
        + page.table("Data", ["file", "part", "bytes", "sha256"], data)
        + "</div>"
    )
