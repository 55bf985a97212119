"""Baseline: rows that are known to fail, each accepted for a reason, so that a check fails only for what is new.

A row is accepted where command, target, name and module are those of an entry and the verdict is not worse. Another module is
another fault. `equiscope check`, `equiscope parity` and the pytest plugin use it; the target of the plugin is the id of a test.
"""

import json
import tomllib
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec
from msgspec import Struct, field

from equiscope import outputs
from equiscope.audit.served.statements import SERVED
from equiscope.audit.statements.properties import PROPERTIES
from equiscope.errors import InputError, UnknownName, printable, reason
from equiscope.record import Audit, Parity, ParityRow, Row
from equiscope.symmetry import ACTIONS

VERSION = 1
AnyRecord = TypeVar("AnyRecord", Audit, Parity)
HEADING = """\
# Rows that may fail, and why. `equiscope check` and `equiscope parity` with --baseline, and pytest with --equiscope-baseline, fail
# only for other rows. The option to update the file adds the rows that fail and removes those that no longer do. Write the reasons
# by hand.
"""
Command = Literal["check", "parity", "pytest"]


class Entry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A row that may fail.

    command  check, parity or pytest; target: as the record names it; of parity "A B"; of pytest the id of the test
    row      name of the row; verdict: the worst one that is accepted; where: as in the record
    reason   why it is accepted, in words
    """

    command: Command
    target: str
    row: str
    verdict: Literal["approximate", "broken"]
    where: str = ""
    reason: str = ""


class Measured(Struct, frozen=True, kw_only=True):
    """A row that a command measured, as entries see it. fails: whether it is one that an entry is for."""

    command: Command
    target: str
    row: str
    verdict: str
    where: str
    fails: bool


class _File(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    version: int
    accepted: list[Entry] = field(default_factory=list)


class BaselineFile:
    """The entries of a baseline file, and what was measured beside them.

    `add` takes what a record measured, `accept` marks its rows that are accepted, `update` makes the entries those of all that was
    measured, `notes` says which entries no longer fit.

    prefix   of the options that name and update the file, for messages: "--" or "--equiscope-"
    """

    def __init__(self, path: Path, entries: Sequence[Entry], prefix: str = "--") -> None:
        self.path, self.entries, self.prefix = path, list(entries), prefix
        self.measured: list[Measured] = []

    def add(self, record: Audit | Parity, test: str = "") -> None:
        """Note the rows of a record. test: the id of the pytest test that made it."""
        self.measured += [_measured(record, row, test) for row in record.rows]

    def accept(self, record: AnyRecord, test: str = "") -> AnyRecord:
        """The record with the rows that are accepted."""
        rows: list[Any] = []
        for row in record.rows:
            measured = _measured(record, row, test)
            entry = next((e for e in self.entries if _fits(e, measured)), None)
            if entry is not None:
                changes = {"accepted": entry.reason.strip() or "no reason yet"} | ({"fails": False} if isinstance(row, Row) else {})
                row = msgspec.structs.replace(row, **changes)
            rows.append(row)
        return msgspec.structs.replace(record, rows=rows)

    def update(self, failing: Collection[str] | None = None, complete: Collection[str] = ()) -> list[Entry]:
        """Add the rows that fail, with empty reasons, and remove the entries that no longer fit.

        Rows that were not measured and other targets keep theirs.

        failing   targets of which failing rows are added; None: all
        complete  as for `notes`
        returns   the entries that need a reason
        """
        kept = [e for e in self.entries if not self._stale(e, complete)]
        new = [
            Entry(command=m.command, target=m.target, row=m.row, verdict=m.verdict, where=m.where)  # type: ignore[arg-type]
            for m in self.measured
            if m.verdict in ("approximate", "broken")
            and m.fails
            and (failing is None or m.target in failing)
            and not any(_fits(e, m) for e in self.entries)
        ]
        self.entries = list(dict.fromkeys(kept + new))
        outputs.write(self.path, _text(self.entries))
        return [e for e in self.entries if not e.reason.strip()]

    def notes(self, complete: Collection[str] = ()) -> list[str]:
        """A sentence on each entry that no longer fits what was measured.

        complete  targets of which every row was measured: another row of theirs no longer occurs
        """
        return [note for e in self.entries if (note := self._stale(e, complete))]

    def _stale(self, entry: Entry, complete: Collection[str]) -> str:
        """Why an entry no longer fits; empty where it does, or where nothing is known of its row."""
        key = (entry.command, entry.target, entry.row)
        same = [m for m in self.measured if (m.command, m.target, m.row) == key]
        decided = [m for m in same if m.verdict != "undecided"]
        if any(_fits(entry, m) for m in decided):
            return ""
        accepts, delete = f"{self.path} accepts {entry.row} of {entry.target}", f"Delete it, or add {self.prefix}update-baseline."
        if not decided:
            if entry.command == "check" and entry.row not in _statements():
                return f"{accepts}. {UnknownName('property or action', entry.row, _statements())}"
            gone = not same and entry.target in complete
            return f"{accepts}, and this row no longer occurs. {delete}" if gone else ""
        row = next((m for m in decided if m.fails), decided[0])
        if not row.fails:
            return f"{accepts}, and this row no longer fails: {row.verdict}. {delete}"
        if entry.verdict == "approximate" and row.verdict == "broken":
            return f"{accepts} as approximate, and it is broken."
        return f"{accepts} in {entry.where or 'no module'}, and it fails in {row.where or 'no module'}."


def read_baseline(path: Path, *, update: bool = False, prefix: str = "--") -> BaselineFile:
    """The baseline in a file.

    update   a file that is to be updated: it need not exist, and reasons may be missing
    prefix   of the options that name and update the file, for messages
    raises   InputError for a file that is missing, is no baseline, or has an entry without a reason
    """
    option, name = f"{prefix}update-baseline", printable(path)
    if update:
        outputs.check(path, f"Choose another file with {prefix}baseline.")
        if not path.exists():
            return BaselineFile(path, [], prefix)
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise InputError(f"There is no baseline file {name}. Add {option} to write it.") from error
    except OSError as error:
        raise InputError(f"{name} cannot be read: {reason(error)}. Give a baseline file with {prefix}baseline.") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"{name} is no baseline file: {reason(error)}. Correct it, or delete it and add {option}.") from error
    if isinstance(version := content.get("version"), int) and version != VERSION:
        raise InputError(f"{name} has version {version}, and this equiscope reads {VERSION}. Delete it and add {option}.")
    try:
        entries = msgspec.convert(content, _File).accepted
    except msgspec.ValidationError as error:
        raise InputError(f"{name} is no baseline file: {error}. Correct it, or delete it and add {option}.") from error
    empty = next((e for e in entries if not e.reason.strip()), None)
    if empty is not None and not update:
        raise InputError(
            f"{name} accepts {printable(empty.row)} of {printable(empty.target)} without a reason. Write after `reason =` why it "
            "may fail, or remove the entry."
        )
    return BaselineFile(path, entries, prefix)


def _fits(entry: Entry, row: Measured) -> bool:
    same = (entry.command, entry.target, entry.row, entry.where) == (row.command, row.target, row.row, row.where)
    worse = entry.verdict == "approximate" and row.verdict == "broken"
    return same and row.fails and row.verdict in ("approximate", "broken") and not worse


def target_of(record: Audit | Parity) -> str:
    """How an entry names what the record is of."""
    return record.target if isinstance(record, Audit) else f"{record.a} {record.b}"


def _statements() -> list[str]:
    """Names of the rows that `equiscope check` measures."""
    return [*(p.name for p in PROPERTIES), *(a.name for a in ACTIONS), *(s.name for s in SERVED)]


def _measured(record: Audit | Parity, row: Row | ParityRow, test: str) -> Measured:
    command: Command = "pytest" if test else "check" if isinstance(record, Audit) else "parity"
    where = row.where if isinstance(row, Row) else record.where  # type: ignore[union-attr]  # a Parity, whose rows share it
    return Measured(
        command=command, target=test or target_of(record), row=row.name, verdict=row.verdict, where=where, fails=row.fails
    )


def _text(entries: Iterable[Entry]) -> str:
    parts = [f"{HEADING}version = {VERSION}\n"]
    for entry in entries:
        parts.append("[[accepted]]\n" + "".join(f"{k} = {_quoted(v)}\n" for k, v in msgspec.structs.asdict(entry).items()))
    return "\n".join(parts)


def _quoted(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")  # a basic string of TOML
