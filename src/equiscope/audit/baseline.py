"""Baseline: rows that are known to fail, each accepted for a reason, so that a check fails only for what is new.

A row is accepted where command, target, name and module are those of an entry and the verdict is not worse. Another module is
another fault.
"""

import json
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec
from msgspec import Struct, field

from equiscope import outputs
from equiscope.errors import InputError, printable, reason
from equiscope.record import Audit, Parity, ParityRow, Row

VERSION = 1
HINT = "Choose another file with --baseline."
AnyRecord = TypeVar("AnyRecord", Audit, Parity)
HEADING = """\
# Rows that may fail, and why. The exit code of `equiscope check` and `equiscope parity` with --baseline is 1 only for other rows.
# --update-baseline adds the rows that fail and removes those that no longer do. Write the reasons by hand.
"""


class Entry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A row that may fail.

    command  check or parity; target: as the record names it; of parity "A B"
    row      name of the row; verdict: the worst one that is accepted; where: as in the record
    reason   why it is accepted, in words
    """

    command: Literal["check", "parity"]
    target: str
    row: str
    verdict: Literal["approximate", "broken"]
    where: str = ""
    reason: str = ""


class _File(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    version: int
    accepted: list[Entry] = field(default_factory=list)


class BaselineFile:
    """The entries of a baseline file. `accept` applies them; `update` makes them those of a record."""

    def __init__(self, path: Path, entries: Sequence[Entry]) -> None:
        self.path, self.entries = path, list(entries)

    def accept(self, record: AnyRecord) -> AnyRecord:
        """The record with the rows that are accepted, and notes on entries that no longer fit."""
        rows: list[Any] = []
        notes: list[str] = []
        for row in record.rows:
            entries = self._of(record, row)
            entry = next((e for e in entries if _fits(e, record, row)), None)
            if entry is not None:
                changes = {"accepted": entry.reason.strip() or "no reason yet"} | ({"fails": False} if isinstance(row, Row) else {})
                rows.append(msgspec.structs.replace(row, **changes))
                continue
            rows.append(row)
            notes += [self._note(e, record, row) for e in entries if row.verdict != "undecided"]
        return msgspec.structs.replace(record, rows=rows, notes=record.notes + notes)

    def update(self, record: Audit | Parity) -> list[Entry]:
        """Add the rows that fail, with empty reasons, and remove entries of rows that no longer fail as accepted.

        Rows that were not measured and other targets keep theirs. Returns the entries that need a reason.
        """
        measured = [row for row in record.rows if row.verdict != "undecided"]
        seen = [e for row in measured for e in self._of(record, row)]
        fitting = [e for row in measured for e in self._of(record, row) if _fits(e, record, row)]
        new = [
            Entry(command=_command(record), target=_target(record), row=row.name, verdict=row.verdict, where=_where(record, row))
            for row in measured
            if row.verdict in ("approximate", "broken")
            and row.fails
            and not any(_fits(e, record, row) for e in self._of(record, row))
        ]
        self.entries = list(dict.fromkeys([e for e in self.entries if e not in seen or e in fitting] + new))
        outputs.write(self.path, _text(self.entries))
        return [e for e in self.entries if not e.reason.strip()]

    def _of(self, record: Audit | Parity, row: Row | ParityRow) -> list[Entry]:
        key = (_command(record), _target(record), row.name)
        return [e for e in self.entries if (e.command, e.target, e.row) == key]

    def _note(self, entry: Entry, record: Audit | Parity, row: Row | ParityRow) -> str:
        if not row.fails:
            return f"{self.path} accepts {row.name}, which no longer fails: {row.verdict}. Remove it, or add --update-baseline."
        if entry.verdict == "approximate" and row.verdict == "broken":
            return f"{self.path} accepts {row.name} as approximate, and it is broken."
        return (
            f"{self.path} accepts {row.name} in {entry.where or 'no module'}, and it fails in {_where(record, row) or 'no module'}."
        )


def read_baseline(path: Path, *, update: bool = False) -> BaselineFile:
    """The baseline in a file.

    update   a file that is to be updated: it need not exist, and reasons may be missing
    raises   InputError for a file that is missing, is no baseline, or has an entry without a reason
    """
    if update:
        outputs.check(path, HINT)
        if not path.exists():
            return BaselineFile(path, [])
    name = printable(path)
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise InputError(f"There is no baseline file {name}. Add --update-baseline to write it.") from error
    except OSError as error:
        raise InputError(f"{name} cannot be read: {reason(error)}. Give a baseline file with --baseline.") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(
            f"{name} is no baseline file: {reason(error)}. Correct it, or delete it and add --update-baseline."
        ) from error
    if isinstance(version := content.get("version"), int) and version != VERSION:
        raise InputError(f"{name} has version {version}, and this equiscope reads {VERSION}. Delete it and add --update-baseline.")
    try:
        entries = msgspec.convert(content, _File).accepted
    except msgspec.ValidationError as error:
        raise InputError(f"{name} is no baseline file: {error}. Correct it, or delete it and add --update-baseline.") from error
    empty = next((e for e in entries if not e.reason.strip()), None)
    if empty is not None and not update:
        raise InputError(
            f"{name} accepts {printable(empty.row)} of {printable(empty.target)} without a reason. Write after `reason =` why it "
            "may fail, or remove the entry."
        )
    return BaselineFile(path, entries)


def _fits(entry: Entry, record: Audit | Parity, row: Row | ParityRow) -> bool:
    worse = entry.verdict == "approximate" and row.verdict == "broken"
    return row.verdict in ("approximate", "broken") and row.fails and not worse and entry.where == _where(record, row)


def _command(record: Audit | Parity) -> Literal["check", "parity"]:
    return "check" if isinstance(record, Audit) else "parity"


def _target(record: Audit | Parity) -> str:
    return record.target if isinstance(record, Audit) else f"{record.a} {record.b}"


def _where(record: Audit | Parity, row: Row | ParityRow) -> str:
    return row.where if isinstance(row, Row) else record.where  # type: ignore[union-attr]  # a Parity, whose rows share it


def _text(entries: Iterable[Entry]) -> str:
    parts = [f"{HEADING}version = {VERSION}\n"]
    for entry in entries:
        parts.append("[[accepted]]\n" + "".join(f"{k} = {_quoted(v)}\n" for k, v in msgspec.structs.asdict(entry).items()))
    return "\n".join(parts)


def _quoted(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")  # a basic string of TOML
