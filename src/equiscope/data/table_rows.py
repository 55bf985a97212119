"""Table rows: examples that are rows of a table of numbers and categories, each with a class, labels or numbers."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Struct

from equiscope.data.faults import Faults
from equiscope.data.labelled_texts import LabelledText, LabelledTexts
from equiscope.data.targets import ADVICE, OtherCells, check_targets, other_cells, target_columns, target_of
from equiscope.data.texts import TABLES, kind_of, lines_of, members, table_rows
from equiscope.errors import InputError
from equiscope.spec_base import Share

WAY = "Set data.columns to those that are read, and data.label, data.labels or data.numbers to what is predicted."


class Tabular(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="rows", tag_field="task"):
    """Rows of a table, each with a class, with several labels, or with numbers.

    train       a table (CSV, TSV or JSONL, also compressed), many with *, or an archive of them
    validation  rows that choose the best weights; by default `held_out` of train
    test        rows that are evaluated once, at the end
    held_out    share of train for the validation part; equal rows fall into one part
    test_held_out  share of train for the test part, if `test` names no files
    columns     that are read: one token of each, of a value that occurs in training, or of one of 16 ranges of numbers
    label       column with the class of a row
    labels      column with any number of labels, separated by `separator`, or a list in JSONL; instead of `label`
    separator   between two labels of a cell
    numbers     columns with the numbers that are predicted; instead of `label`
    group       column whose equal values belong together, such as a patient: random shares of train take whole groups, and so do
                the folds in which the simple model is chosen
    smoothing   label smoothing: share of the target that is spread over all classes
    """

    train: str
    columns: tuple[str, ...]
    validation: str | None = None
    test: str | None = None
    held_out: Annotated[float, msgspec.Meta(gt=0, lt=1)] = 0.1
    test_held_out: Share = 0.0
    label: str = "label"
    labels: str | None = None
    separator: Annotated[str, msgspec.Meta(min_length=1)] = ";"
    numbers: tuple[str, ...] = ()
    group: str | None = None
    smoothing: Share = 0.0


class LabelledRows(LabelledTexts):
    """The rows of a `Tabular` recipe, opened and checked, by part: the text of each is its cells.

    raises  InputError with every fault that was found
    """

    config: Tabular
    what = "rows"

    @staticmethod
    def is_text(path: Path) -> bool:
        """Whether a file of a folder is read."""
        return kind_of(path.name) in TABLES

    def _check(self) -> None:
        check_targets(self.config)
        columns, taken = list(self.config.columns), target_columns(self.config)
        if not columns:
            raise InputError("data.columns names no column, so there is nothing to read. Name one or more.")
        if wrong := [name for name in columns if name in taken or columns.count(name) > 1]:
            raise InputError(f"data.columns names {wrong[0]!r}, which is what is predicted, or twice. Leave it out.")

    @property
    def _columns(self) -> list[str]:
        return [*self.config.columns, *target_columns(self.config)]

    def _read(self, paths: Sequence[Path]) -> list[LabelledText]:
        return read(self._files(paths), self.config)

    def _has_classes(self, paths: Sequence[Path]) -> bool:
        return False


def read(paths: Sequence[Path], config: Tabular, labelled: bool = True) -> list[LabelledText]:
    """The rows of tables, in order, as tuples of cells. labelled: whether to read targets too.

    raises  InputError that names the first faults, and how many there are
    """
    found: list[LabelledText] = []
    faults = Faults(ADVICE)
    wanted = [*config.columns, *(target_columns(config) if labelled else [])]
    way = WAY if labelled else "Give a table with the columns that the run reads."
    for path in paths:
        for name, content in members(path):
            if kind_of(name) not in TABLES:
                faults.add(f"{name} is no table (.csv, .tsv, .jsonl).", name)
                continue
            for where, row in table_rows(lines_of(content, name), name, wanted, way, faults):
                with faults.caught(where):
                    found.append(_example(where, row, config, labelled))
    faults.check()
    if not found:
        raise InputError(f"{', '.join(map(str, paths))} has no row in it. Give a table that has some.")
    return found


def _example(where: str, row: Any, config: Tabular, labelled: bool) -> LabelledText:
    """The example of a row. Raises InputError if it has nothing to read, or no target."""
    if not isinstance(row, dict) or not any(column in row for column in config.columns):
        raise InputError(f"{where} has none of the columns {', '.join(config.columns)}.")
    target = target_of(config, row, where) if labelled else None
    cells = tuple("" if row.get(one) is None else str(row[one]).strip() for one in config.columns)
    if not any(cells):
        raise InputError(f"{where} has nothing in any of the columns {', '.join(config.columns)}.")
    return LabelledText(cells, target, where, other_cells(config, row) if labelled else OtherCells())
