"""Table file: the columns and rows of a .csv, .tsv or .jsonl file that is looked at, and every line that does not fit."""

import csv
import io
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from equiscope.budgets import stand_in, undamaged
from equiscope.data.faults import Faults
from equiscope.data.files import open_file
from equiscope.data.tables import EXCEL, Dialect, detect_dialect, is_data, quoting_hint, read_rows
from equiscope.data.texts import decoded, kind_of, parsed
from equiscope.errors import InputError, counted

PATHS = ("path", "file", "filename", "file_name", "image", "audio")  # columns with the names of files
CLASSES = ("label", "class", "category", "sentiment")  # columns with classes
CELL = 2**31 - 1  # characters of a cell
CHECKED = 50  # rows in which a separator is looked for
SHOWN = 30  # characters of a cell in a sentence


@dataclass
class TableRows:
    """The columns and rows of a table, the line of each row, what is wrong with others, and the columns that hold lists.

    objects  columns that hold objects of JSON, which are no values: they are left out
    nameless  how many columns have no name: they are left out too, such as the row numbers that pandas writes
    """

    names: list[str] = field(default_factory=list)
    rows: list[dict[str, str]] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    faults: Faults = field(default_factory=lambda: Faults("Correct these lines, or take them out."))
    lists: set[str] = field(default_factory=set)
    objects: set[str] = field(default_factory=set)
    nameless: int = 0


def read_table(path: Path) -> TableRows:
    """A table. Raises InputError if it has no first line of names; lines that do not fit are among its faults."""
    with undamaged(path), open_file(path) as file:
        text = decoded(file.read(), str(path))
    if not text.strip():
        raise InputError(f"{path} is empty: it has no first line that names columns.")
    if kind_of(path.name) in (".jsonl", ".ndjson"):
        return _objects(path, text)
    first, _, rest = text.partition("\n")
    skipped = 0
    if declared := EXCEL.fullmatch(first):
        dialect, text, skipped = Dialect(declared[1], False), rest, 1
    else:
        dialect = detect_dialect(first, ["\0"], ".tsv" in path.suffixes)
    whole = [(line, row) for line, row in read_rows(io.StringIO(text), str(path), dialect, CELL, skipped) if row]
    if not whole:
        raise InputError(f"{path} is empty: it has no first line that names columns.")
    names = [name.strip() for name in whole[0][1]]
    if stand := stand_in(text.encode()):
        raise InputError(f"{path} {stand}")
    headed = [name for name in names if name] if dialect.separator != "|" else names  # bars may frame a table of Markdown
    shown = ", ".join(repr(name[:SHOWN]) for name in names[:4])
    if names[0].startswith("#") and (any(map(is_data, names)) or any(len(row) > len(names) for _, row in whole[1:2])):
        raise InputError(f"The first line of {path} is a comment, {shown}. Take out such lines: the first names the columns.")
    if not headed or any(map(is_data, headed)):
        raise InputError(
            f"The first line of {path} names no columns, but reads like data: {shown}. Put a line of names in front, such as "
            f"{', '.join(['text', 'label', 'column3', 'column4', 'column5'][: len(names)])}."
        )
    if Counter(headed).most_common(1)[0][1] > 1:
        raise InputError(f"{path} has two columns of the same name in its first line: {', '.join(names)}. Rename one.")
    if len(names) == 1 and (sign := _other_separator(names[0], [row[0] for _, row in whole[1 : CHECKED + 1]])):
        raise InputError(
            f"{path} has one column, {names[0]!r}, but {sign!r} seems to stand between several. Put commas, semicolons, tabs or "
            "bars there."
        )
    table = TableRows(headed, nameless=len(names) - len(headed))
    for line, row in whole[1:]:
        if len(row) < len(names) or any(row[len(names) :]):
            hint = f": see that {quoting_hint(dialect)}" if len(row) > len(names) else ""
            table.faults.add(
                f"{path}, line {line} has {counted(len(row), 'column')}, but the first line names {len(names)}{hint}.",
                f"{path}, line {line}",
            )
            continue
        table.rows.append({name: cell for name, cell in zip(names, row, strict=False) if name})
        table.lines.append(line)
    return table


def _other_separator(first: str, rows: Sequence[str]) -> str:
    """A sign that may separate columns: it stands in the first line, and at least as often in each of the rows."""
    signs = [sign for sign in dict.fromkeys(first) if not sign.isalnum() and sign not in " _-.()[]/"]
    return next((sign for sign in signs if rows and all(row.count(sign) >= first.count(sign) for row in rows)), "")


def _objects(path: Path, text: str) -> TableRows:
    """Lines of JSON, each an object; null is empty, and a list becomes its items, separated by semicolons."""
    table = TableRows()
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        with table.faults.caught(where):
            row = parsed(line, where)
            if not isinstance(row, dict):
                raise InputError(f"{where} is no table of names and values. Each line is one, in braces.")
            table.lists |= {name for name, value in row.items() if isinstance(value, list)}
            table.objects |= {name for name, value in row.items() if isinstance(value, dict)}
            table.rows.append({name: _cell(value) for name, value in row.items()})
            table.lines.append(number)
    table.names = [name for name in dict.fromkeys(name for row in table.rows for name in row) if name not in table.objects]
    return table


def _cell(value: Any) -> str:
    if isinstance(value, list):
        return ";".join(map(str, value))
    return "" if value is None else str(value)


def table_text(names: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of commas: a line of names, and the rows."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([names, *rows])
    return text.getvalue()
