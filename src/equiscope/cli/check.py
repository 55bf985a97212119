"""`equiscope check`: which symmetries and properties a model really has.

The exit code is 1 where one fails that should hold, and where none is decided; 130 where Ctrl-C stopped it.
"""

import json as json_text
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import msgspec
from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from equiscope import outputs
from equiscope.audit import PROPERTIES, check, table
from equiscope.audit.baseline import AnyRecord, BaselineFile, read_baseline, target_of
from equiscope.audit.inputs.targets import target
from equiscope.audit.integrations.badge import badge
from equiscope.audit.integrations.junit import junit
from equiscope.audit.served.checking import Progress, check_served
from equiscope.audit.served.statements import SERVED
from equiscope.errors import InputError, counted
from equiscope.record import Audit, Row, report
from equiscope.symmetry import ACTIONS
from equiscope.symmetry.representations import family

OF_SERVERS = "Properties of a served model (--property NAME)"
STOPPED = 130  # the exit code of what Ctrl-C ended
WIDE = 120  # columns where no terminal says how many there are


@dataclass(frozen=True)
class Files:
    """Where results are written besides the terminal."""

    html: Path | None = None
    junit: Path | None = None
    save: Path | None = None
    badge: Path | None = None

    def checked(self) -> "Files":
        """Itself. Raises Unwritable, before anything is measured, for what cannot be written."""
        named = (("--html", self.html), ("--junit", self.junit), ("--save", self.save), ("--badge", self.badge))
        for option, path in named:
            if path is not None:
                outputs.check(path, f"Choose another file with {option}.")
        return self

    def write(self, audit: Audit) -> None:
        """Each of them. Raises InputError for the first that cannot be written, when the others are."""
        from equiscope.explore import html

        wrong: InputError | None = None
        pages = (self.html, lambda audit: html(report(audit))), (self.badge, badge)
        for path, text_of in (*pages, (self.junit, junit), (self.save, _record)):
            if path is None:
                continue
            try:
                print(f"wrote {outputs.write(path, text_of(audit))}", file=sys.stderr)
            except InputError as error:
                wrong = wrong or error
        if wrong is not None:
            raise wrong


def run(
    text: str | None, actions: list[str], properties: list[str], everything: bool, output: str | None, effort: str, mode: str,
    tolerance: float, seed: int, seconds: float | None, listed: bool, files: Files, baseline: Path | None, update: bool, json: bool,
) -> int:  # fmt: skip
    """The exit code."""
    if listed:
        _list(json)
        return 0
    if text is None:
        raise InputError("Say which model: equiscope check module:factory, a checkpoint folder, a preset, or see --help.")
    if everything and (actions or properties):
        raise InputError("--all asks for every action and property, so leave --action and --property out.")
    files = files.checked()
    accepted = baseline_of(baseline, update)
    if output is not None:
        family(output)  # raises UnknownName
    checked = target(text, seed=seed)
    names = ([a.name for a in ACTIONS], [p.name for p in PROPERTIES if p.by_default])
    requested = names if everything else (actions or ([] if properties else None), properties or ([] if actions else None))
    with _progress(not json) as progress, _interrupts() as interrupts:
        audit = check(
            checked.model, *checked.args, kwargs=checked.kwargs, kinds=checked.kinds, actions=requested[0], properties=requested[1],
            output=output, effort=effort, mode=mode, tolerance=tolerance, seed=seed, seconds=seconds, progress=progress,
            target=checked.title,
        )  # fmt: skip
    audit = msgspec.structs.replace(audit, notes=[*audit.notes, *checked.notes])
    if everything:
        audit = _informative(audit)
    audit = accept(accepted, update, audit)
    _print(audit, json, files.html is not None)
    files.write(audit)
    return _code(audit, interrupts)


@dataclass(frozen=True)
class Served:
    """Options for the address of a server. key: the environment variable that holds it."""

    model: str | None
    requests: int | None
    key: str | None
    timeout: float
    proxy: bool
    reproduce: Path | None


def run_served(
    url: str, served: Served, properties: list[str] | None, others: list[str], effort: str, tolerance: float, seed: int,
    seconds: float | None, files: Files, baseline: Path | None, update: bool, json: bool,
) -> int:  # fmt: skip
    """The exit code. others: options that do not apply."""
    if others:
        raise InputError(f"{others[0]} does not apply to a served model: it is asked for text. Leave it out.")
    files = files.checked()
    accepted = baseline_of(baseline, update)
    if served.reproduce is not None:
        outputs.check(served.reproduce, "Choose another file with --reproduce.")
    with _progress(not json) as progress, _interrupts() as interrupts:
        audit, script = check_served(
            url, model=served.model, properties=properties, effort=effort, seed=seed, requests=served.requests, key=served.key,
            timeout=served.timeout, proxy=served.proxy, tolerance=tolerance, seconds=seconds, progress=progress,
        )  # fmt: skip
    audit = accept(accepted, update, audit)
    _print(audit, json, files.html is not None)
    if served.reproduce is not None and script:
        print(f"wrote {outputs.write(served.reproduce, script)}", file=sys.stderr)
    elif served.reproduce is not None:
        print(f"No answers differ, so {served.reproduce} was not written.", file=sys.stderr)
    files.write(audit)
    return _code(audit, interrupts)


@contextmanager
def _interrupts() -> Iterator[list[int]]:
    """The signals of Ctrl-C that come inside. A check that they stop returns what it has measured."""
    signals: list[int] = []

    def interrupted(number: int, frame: FrameType | None) -> None:
        signals.append(number)
        signal.default_int_handler(number, frame)

    if threading.current_thread() is not threading.main_thread():  # which alone may set a handler
        yield signals
        return
    before = signal.signal(signal.SIGINT, interrupted)
    try:
        yield signals
    finally:
        signal.signal(signal.SIGINT, before)


def _code(audit: Audit, interrupts: list[int]) -> int:
    """The exit code. What was stopped is no pass, even if nothing failed until then."""
    return STOPPED if interrupts else 1 if audit.failed or not audit.decided else 0


def _print(audit: Audit, json: bool, report: bool) -> None:
    if json:
        print(msgspec.json.encode(audit).decode())
    else:
        Console(highlight=False, width=None if sys.stdout.isatty() else WIDE).print(table(audit, report))


def baseline_of(path: Path | None, update: bool) -> BaselineFile | None:
    """The baseline file of a command. Raises InputError, before anything is measured."""
    if update and path is None:
        raise InputError("--update-baseline writes the file of --baseline. Add --baseline FILE.")
    return None if path is None else read_baseline(path, update=update)


def accept(accepted: BaselineFile | None, update: bool, record: AnyRecord, complete: bool = False) -> AnyRecord:
    """The record with the rows of the baseline file accepted, and notes on entries that no longer fit.

    update    write the rows that fail into the file, and say so
    complete  the record has every row that this target has
    """
    if accepted is None:
        return record
    targets: list[str] = [target_of(record)] if complete else []
    accepted.add(record)
    if update:
        missing, count = accepted.update(complete=targets), len(accepted.entries)
        advice = f", {len(missing)} without a reason. Write the reasons into the file." if missing else ""
        print(f"wrote {accepted.path}: {counted(count, 'row')}{advice}", file=sys.stderr)
    notes = accepted.notes(targets)
    return msgspec.structs.replace(accepted.accept(record), notes=record.notes + notes)


def _informative(audit: Audit) -> Audit:
    """Asked for all at once is not asked for each: only what is claimed, or expected of every model, fails."""
    expected = {p.name for p in PROPERTIES if p.expected}

    def still(row: Row) -> bool:
        return row.fails and (row.claimed == "yes" or (row.name in expected and row.claimed != "no"))

    rows = [msgspec.structs.replace(row, fails=still(row)) for row in audit.rows]
    return msgspec.structs.replace(audit, rows=rows)


@contextmanager
def _progress(visible: bool) -> Iterator[Progress]:
    """On a terminal, how far the check is and the time left; on the error stream, so that a pipe gets the answer alone."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description:<16}"), BarColumn(), TimeRemainingColumn())
    with Bar(*columns, console=console, transient=True, disable=not (visible and console.is_terminal)) as bar:
        task = bar.add_task("checking", total=1.0)
        yield lambda share, what: bar.update(task, completed=share, description=what)


def _list(json: bool) -> None:
    statements = [("property", p.name, p.summary) for p in PROPERTIES] + [("action", a.name, a.summary) for a in ACTIONS]
    statements += [("served", s.name, s.summary) for s in SERVED]
    if json:
        print(json_text.dumps([{"kind": k, "name": n, "summary": s} for k, n, s in statements]))
        return
    width = max(len(name) for _, name, _ in statements)
    for kind, heading in (
        ("property", "Properties (--property NAME)"),
        ("action", "Actions (--action NAME)"),
        ("served", OF_SERVERS),
    ):
        print(heading)
        for k, name, summary in statements:
            if k == kind:
                print(f"  {name:{width}}  {summary}")
        print()


def _record(audit: Audit) -> str:
    return msgspec.json.format(msgspec.json.encode(audit), indent=1).decode() + "\n"
