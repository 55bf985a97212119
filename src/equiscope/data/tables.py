"""Tables of text: rows of cells, whose first line names the columns. The separator is detected from the wanted column names.

A `.csv` file is separated by commas, unless only semicolons, tabs or bars give the columns; likewise a `.tsv` file by tabs.
"""

import csv
import itertools
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from equiscope.budgets import stand_in
from equiscope.data.faults import Faults
from equiscope.errors import InputError, counted, did_you_mean, sentences

CELL = 2**17  # characters of a cell of a table, at most, where it is not a text to learn from
SIGNS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
LONG, WORDS = 40, 3  # characters and words of what is no name of a column
NUMBER = re.compile(r"[-+]?[\d.,]+([eE][-+]?\d+)?")
EXCEL = re.compile(r"sep=(.)\r?\n?")  # a first line with which Excel says the separator


class Dialect(NamedTuple):
    """How cells are separated; plain: a quotation mark is an ordinary character, as in tab-separated tables."""

    separator: str
    plain: bool


class TextTable(NamedTuple):
    """The names of the columns, the rows with the line in which each ends, and the dialect."""

    columns: list[str]
    rows: Iterator[tuple[int, list[str]]]
    dialect: Dialect


def table(lines: Iterable[str], name: str, wanted: Sequence[str], way: str, most: int = CELL) -> TextTable:
    """A table with a first line of column names, which include the wanted ones.

    way     what to do if there is no such column, for the error
    most    characters of a cell
    raises  InputError with the line that cannot be read, and if columns are missing, or the first line names none
    """
    lines = iter(lines)
    first = next(lines, "")
    skipped = 0
    if declared := EXCEL.fullmatch(first):
        first, skipped = next(lines, ""), 1
    tab = _is_tsv(name)
    dialect = Dialect(declared[1], False) if declared else detect_dialect(first, wanted, tab)
    whole = read_rows(itertools.chain([first], lines), name, dialect, most, skipped)
    columns = [column.strip() for column in next(whole, (1, []))[1]]
    if not set(wanted) <= set(columns):
        raise InputError(_missing_columns_message(name, columns, dialect, tab, wanted, way))
    return TextTable(columns, whole, dialect)


def records(
    lines: Iterable[str], name: str, wanted: Sequence[str], way: str, most: int = CELL, faults: Faults | None = None
) -> Iterator[tuple[int, dict[str, str]]]:
    """The cells of each line of a table by column name, with the line number.

    faults  to which lines with more cells than columns are added; by default they are raised
    raises  InputError as `table`
    """
    columns, whole, dialect = table(lines, name, wanted, way, most)
    own = Faults() if faults is None else faults
    for line, cells in whole:
        if any(cells[len(columns) :]):
            own.add(
                f"{name}, line {line} has {counted(len(cells), 'column')}, but the first line names {len(columns)}. "
                f"See that {quoting_hint(dialect)}.", f"{name}, line {line}",
            )  # fmt: skip
            if faults is None:
                own.check()
        elif cells:
            yield line, dict(zip(columns, cells, strict=False))


def detect_dialect(first: str, wanted: Sequence[str], tab: bool) -> Dialect:
    """The dialect in which a first line has the wanted columns; otherwise the one with the most columns."""
    usual = Dialect("\t", True) if tab else Dialect(",", False)
    ways = [usual, *(Dialect(sign, False) for sign in SIGNS if sign != usual.separator)]
    each = [_columns(first, way) for way in ways]
    fits = next((way for way, columns in zip(ways, each, strict=True) if set(wanted) <= set(columns)), None)
    return fits or max(zip(ways, each, strict=True), key=lambda both: len(both[1]))[0]


def separator_notes(paths: Iterable[Path], wanted: Sequence[str]) -> list[str]:
    """A note for each file whose separator is not the one of its suffix."""
    notes = []
    for path in paths:
        if path.suffix.lower() in (".csv", ".tsv") and path.is_file():
            with path.open(encoding="utf-8-sig", errors="replace") as file:
                first = file.readline(CELL)
            declared, tab = EXCEL.fullmatch(first), _is_tsv(path.name)
            sign = declared[1] if declared else detect_dialect(first, wanted, tab).separator
            if sign != ("\t" if tab else ","):
                notes.append(f"{path} has its columns between {SIGNS.get(sign, repr(sign))}, by its first line.")
    return notes


def read_rows(
    lines: Iterable[str], name: str, dialect: Dialect, most: int = CELL, before: int = 0
) -> Iterator[tuple[int, list[str]]]:  # fmt: skip
    """The cells of each row of a table, and the line that it ends in. before: number of lines that were read already.

    raises  InputError with the line of a row that cannot be read
    """
    ended = False

    def watched() -> Iterator[str]:
        nonlocal ended
        yield from lines
        ended = True

    csv.field_size_limit(min(most, sys.maxsize, 2**31 - 1))
    reader = _reader(watched(), dialect)
    while True:
        begun = f"{name}, line {reader.line_num + before + 1}"
        try:
            cells = next(reader, None)
        except csv.Error as error:
            raise InputError(f"{begun} is not CSV: {error}. Look for a quotation mark that is not closed.") from error
        if cells is None:
            return
        if ended:  # a row was not complete when the lines were
            raise InputError(f"{begun} is not CSV: a quotation mark is opened there and not closed. Close it, or double it.")
        yield reader.line_num + before, cells


def _reader(lines: Iterable[str], dialect: Dialect) -> Any:
    return csv.reader(lines, delimiter=dialect.separator, quoting=csv.QUOTE_NONE if dialect.plain else csv.QUOTE_MINIMAL)


def _columns(first: str, way: Dialect) -> list[str]:
    try:
        return [cell.strip() for cell in next(_reader([first], way), [])]
    except csv.Error:
        return []


def _missing_columns_message(name: str, columns: list[str], dialect: Dialect, tab: bool, wanted: Sequence[str], way: str) -> str:
    """The error for a table without the wanted columns."""
    if not columns:
        return f"{name} is empty: it has no first line that names columns."
    missing = [column for column in wanted if column not in columns]
    usual = dialect.separator == ("\t" if tab else ",")
    how = "" if usual else f" (between {SIGNS.get(dialect.separator, repr(dialect.separator))})"
    if stand := stand_in(columns[0].encode()):
        return f"{name} {stand}"
    if any(is_data(column) for column in columns):
        shown = ", ".join(column[:LONG] for column in columns[:4]) or "empty"
        return (
            f"The first line of {name} names no columns, but reads like data{how}: {shown}. "
            f"Put a line of names in front: {dialect.separator.join(wanted)}."
        )
    next_step = sentences(did_you_mean(missing[0], columns), way)
    return f"{name} has the columns {', '.join(columns)}{how}, but no {' and no '.join(map(repr, missing))}. {next_step}"


def is_data(cell: str) -> bool:
    """Whether a cell cannot be the name of a column: it is empty, a number, or a long text."""
    return not cell or len(cell) > LONG or len(cell.split()) > WORDS or NUMBER.fullmatch(cell) is not None


def quoting_hint(dialect: Dialect) -> str:
    """How a cell may hold the separator."""
    if dialect.plain:
        return "no tab stands in a cell"
    sign = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}.get(dialect.separator, dialect.separator)
    return f'a cell that holds a {sign} stands between quotation marks, "such{dialect.separator} as this"'


def _is_tsv(name: str) -> bool:
    return ".tsv" in [suffix.lower() for suffix in Path(name).suffixes]
