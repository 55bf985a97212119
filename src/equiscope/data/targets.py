"""Targets: what is predicted for an example: one class, several labels, or numbers. Columns of a table hold them.

Recipes of texts, pictures and sounds share these columns. A table of files, such as pictures, names a file in each line.
"""

import io
import math
import posixpath
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

from equiscope import budgets
from equiscope.budgets import archive, undamaged
from equiscope.data.faults import Faults
from equiscope.data.files import is_archive, is_hidden
from equiscope.data.split_folders import ABOUT
from equiscope.data.tables import table
from equiscope.data.texts import TABLES, decoded, kind_of, parsed, table_rows
from equiscope.errors import InputError

ADVICE = "Correct these lines, or take them out."
WAY = "Set data.field to the column with {what}, and data.label, data.labels or data.numbers to that of what is predicted."
Kind = Literal["class", "labels", "numbers"]


@runtime_checkable
class PredictedColumns(Protocol):
    """The fields of a recipe's data that say what is predicted.

    label      column with the class; labels: column with any number of labels, separated by `separator`; numbers: columns
    """

    @property
    def label(self) -> str: ...
    @property
    def labels(self) -> str | None: ...
    @property
    def separator(self) -> str: ...
    @property
    def numbers(self) -> tuple[str, ...]: ...


class TargetColumns(PredictedColumns, Protocol):
    """And of its input. field: column with the text, or with the name of the file."""

    @property
    def field(self) -> str: ...


class OtherCells(NamedTuple):
    """What a row says besides the example and its target.

    metadata  a cell for each column of data.metadata, empty where there is none; none at all without a table
    group     the cell of data.group, empty where there is none
    """

    metadata: tuple[str, ...] = ()
    group: str = ""


def other_cells(config: Any, row: Mapping[str, Any]) -> OtherCells:
    """The cells of a row that are read beside the example and its target."""
    metadata, group = ["" if row.get(name) is None else str(row[name]).strip() for name in getattr(config, "metadata", ())], ""
    if getattr(config, "group", None) and row.get(config.group) is not None:
        group = str(row[config.group]).strip()
    return OtherCells(tuple(metadata), group)


def check_groups(config: Any, groups: Sequence[str]) -> None:
    """Raises InputError if the recipe names a column of groups that the training part does not have."""
    if getattr(config, "group", None) and not any(groups):
        raise InputError(f"data.group names {config.group!r}, but no example has a value there. Leave it out, or give a table.")


def target_kind(config: PredictedColumns) -> Kind:
    """What is predicted."""
    return "numbers" if config.numbers else "labels" if config.labels is not None else "class"


def target_columns(config: PredictedColumns) -> list[str]:
    """The columns of a table that hold the target."""
    return list(config.numbers) or [config.labels or config.label]


def check_targets(config: PredictedColumns) -> None:
    """Raises InputError if a recipe says twice what is predicted."""
    if config.numbers and config.labels is not None:
        raise InputError("data.labels and data.numbers both say what is predicted. Leave one of them out.")
    if twice := sorted({name for name in config.numbers if config.numbers.count(name) > 1}):
        raise InputError(f"data.numbers names {twice[0]!r} twice. Name each column once.")
    metadata, taken = list(getattr(config, "metadata", ())), [getattr(config, "field", None), *target_columns(config)]
    if both := [name for name in metadata if name in taken or metadata.count(name) > 1]:
        raise InputError(f"data.metadata names {both[0]!r}, which is the input or what is predicted, or twice. Leave it out.")


def named_parts(config: Any) -> dict[str, Any]:
    """The name of each part, None where there is none. Raises InputError if a recipe says twice what the test part is."""
    if config.test is not None and config.test_held_out:
        raise InputError("data.test and data.test_held_out both say what the test part is. Leave one of them out.")
    return {"train": config.train, "validation": config.validation, "test": config.test}


def only_classes(config: PredictedColumns, what: str) -> None:
    """Raises InputError where labels or numbers are asked for, but `what` has no columns."""
    if (kind := target_kind(config)) != "class":
        raise InputError(f"{what}, but {kind} are columns of a table. Give .csv, .tsv or .jsonl.")


def target_of(config: PredictedColumns, row: dict[str, Any], where: str) -> Any:
    """The target in a row: a class, a list of labels, or a list of numbers. Raises InputError if there is none."""
    columns = target_columns(config)
    if missing := [name for name in columns if row.get(name) is None]:
        raise InputError(f"{where} has no {missing[0]!r}.")
    if config.numbers:
        return [_number(row[name], name, where) for name in columns]
    cell = row[columns[0]]
    if config.labels is not None:
        labels = cell if isinstance(cell, list) else str(cell).split(config.separator)
        return [label for one in labels if (label := str(one).strip())]
    if isinstance(cell, list | dict) or not str(cell).strip():
        raise InputError(f"{where} has no class in {config.label!r}.")
    return str(cell).strip()


def _number(cell: Any, name: str, where: str) -> float:
    try:
        value = float(cell)
    except (TypeError, ValueError) as error:
        raise InputError(f"{where}: {name} is {str(cell)[:40]!r}, and no number.") from error
    if not math.isfinite(value):
        raise InputError(f"{where}: {name} is {cell}, and no finite number.")
    return value


class ListedFile(NamedTuple):
    """A file in a table, and its target, which is None where none is read.

    where    the table's line
    content  the bytes of a file in an archive; None for one on the disk
    """

    where: str
    file: Path
    target: Any
    others: OtherCells = OtherCells()
    content: bytes | None = None


class FileTable(NamedTuple):
    """A table that names files.

    name      of the table, for sentences
    read      returns its text
    located   the path of a file that it names, for sentences
    contents  of an archive, by that path; None where the files are on the disk
    """

    name: str
    read: Callable[[], str]
    located: Callable[[str], Path]
    contents: Mapping[Path, bytes] | None = None


def is_table(path: Path) -> bool:
    """Whether a name is that of a table."""
    return kind_of(path.name) in TABLES


def file_table(path: Path, config: TargetColumns, labelled: bool = True, needed: bool = False) -> FileTable | None:
    """A table that names files: the path itself; or the only table of a folder or of an archive, if it has the columns.

    labelled  whether the columns of the targets are needed too
    needed    whether only a table or folders can say the targets: then a table without the columns is one too, unless there are
              folders
    """
    columns = [config.field, *(target_columns(config) if labelled else [])]
    if path.is_dir():
        inner = list(budgets.listed(path.rglob("*"), path))
        files = [file for file in inner if not is_hidden(file.relative_to(path)) and file.is_file()]
        tables = [file for file in files if is_table(file)]
        fits = len(tables) == 1 and ((needed and _in_one_folder(files)) or _has_columns(_text(tables[0]), str(tables[0]), columns))
        return _on_disk(tables[0]) if fits else None
    if not is_archive(path):
        return _on_disk(path) if is_table(path) else None
    with undamaged(path), archive(path) as held:
        members = {member.name: member for member in held if not is_hidden(Path(member.name))}
        names = [name for name in members if is_table(Path(name))]
        if len(names) != 1:
            return None
        where, folder = f"{path}: {names[0]}", posixpath.dirname(names[0])
        text = decoded(budgets.unfolded_content(held.read(members.pop(names[0])), where), where)
        if not (needed and _in_one_folder(map(Path, members))) and not _has_columns(text, where, columns):
            return None
        contents = {_inside(path, name): held.read(member) for name, member in members.items()}
    return FileTable(where, lambda: text, lambda name: _inside(path, posixpath.join(folder, name.replace("\\", "/"))), contents)


def listed_files(named: FileTable, config: TargetColumns, labelled: bool = True) -> list[ListedFile]:
    """The files that a table names in its column `field`, seen from its own folder, each with its target.

    labelled  whether to read targets too
    raises    InputError that names the first faults: no such file, no target, two targets of one file
    """
    wanted = [config.field, *([*target_columns(config), *getattr(config, "metadata", ())] if labelled else [])]
    found: list[ListedFile] = []
    faults = Faults(ADVICE)
    targets: dict[Path, Any] = {}
    for where, row in table_rows(io.StringIO(named.read()), named.name, wanted, WAY.format(what="the file names"), faults):
        name = row.get(config.field) if isinstance(row, dict) else None
        if not isinstance(name, str) or not name.strip():
            has = ", ".join(map(str, row)) if isinstance(row, dict) else type(row).__name__
            faults.add(f"{where} has no file in {config.field!r}; it has: {has}.", where)
            continue
        file, held = named.located(name.strip()), named.contents
        if not (file.is_file() if held is None else file in held):
            faults.add(f"{where}: there is no file {file}. Paths are beside the table.", where)
            continue
        try:
            target = target_of(config, row, where) if labelled else None
        except InputError as error:
            faults.add(str(error), where)
            continue
        if (known := targets.setdefault(file.resolve() if held is None else file, target)) != target:
            faults.add(f"{where}: {name} is {target!r}, but a line before says {known!r} of the same file.")
        content = None if held is None else held[file]
        found.append(ListedFile(f"{where}: {name.strip()}", file, target, other_cells(config, row), content))
    faults.check()
    if not found:
        raise InputError(f"{named.name} is empty: it has no line with {' and '.join(wanted)}.")
    return found


def _on_disk(path: Path) -> FileTable:
    return FileTable(str(path), lambda: _text(path), lambda name: path.parent / name)


def _text(path: Path) -> str:
    return decoded(budgets.unpacked(path), str(path))


def _inside(path: Path, name: str) -> Path:
    """A file of an archive, for sentences."""
    return Path(f"{path}: {posixpath.normpath(name)}")


def _in_one_folder(files: Iterable[Path]) -> bool:
    """Whether files, without tables and those that say what a data set is, are in one folder, so that folders are no classes."""
    return len({file.parent for file in files if not is_table(file) and file.stem.upper() not in ABOUT}) < 2


def _has_columns(text: str, name: str, columns: Sequence[str]) -> bool:
    """Whether a table has columns: in its first line of names, or in its first object."""
    try:
        if kind_of(name) in (".csv", ".tsv"):
            return set(columns) <= set(table(io.StringIO(text), name, columns, "").columns)
        row = parsed(next((line for line in text.split("\n") if line.strip()), ""), name)
    except InputError:
        return False
    return isinstance(row, dict) and set(columns) <= row.keys()
