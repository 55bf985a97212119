"""Listing: files of pictures or sounds with their classes, from folders, tables or file names; and lists of the parts of them."""

import csv
import io
import os
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from equiscope.data.picture_files import is_picture
from equiscope.data.point_sets import READ
from equiscope.data.sampler import derived_seed
from equiscope.data.sound_files import is_sound
from equiscope.data.split_folders import same_inner
from equiscope.errors import InputError, counted
from equiscope.training.draft.draft import listed, number_ranges
from equiscope.training.draft.table_file import TableRows, table_text

LEAST = 4  # files of a class, for three parts
FEWEST = 20  # files with numbers, for three parts
GROUPS = 5  # different values of a field of file names, from which it may name groups
NAMED = 3  # files of each class, on average, from which the first word of their names may be the class


@dataclass(frozen=True)
class Listing:
    """Files, and the class or the numbers of each.

    labels   classes; of numbers, empty texts
    how      where the class comes from
    whole    whether a recipe reads the same from the path itself
    columns  the fields of the recipe that name columns of the table: field, and label or numbers
    numbers  their names, and rows: the numbers of each file as they are written
    metadata  further columns that are read with each file
    """

    files: Sequence[Path]
    labels: Sequence[str]
    how: str
    whole: bool = True
    columns: Mapping[str, Any] = field(default_factory=dict)
    numbers: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    metadata: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def counts(self) -> dict[str, int]:
        """Files of each class; none of numbers."""
        return {} if self.numbers else dict(sorted(Counter(self.labels).items()))

    def sentence(self, path: Path, what: str) -> str:
        """How many files there are, and of which classes or numbers."""
        if self.numbers:
            ranges = number_ranges(self.numbers, [[float(value) for value in row] for row in self.rows])
            return f"{path} names {counted(len(self.files), what)}, and for each {ranges}."
        classes = counted(len(self.counts), "class", "classes")
        each = listed([f"{name} ({count})" for name, count in self.counts.items()])
        return f"{path} has {counted(len(self.files), what)} of {classes}, {self.how}: {each}."

    def check(self, path: Path, what: str, least: int = LEAST) -> None:
        """Raises InputError if there is one class, or if one has fewer files than parts need."""
        if self.numbers:
            if len(self.files) < FEWEST:
                raise InputError(f"{path} has {counted(len(self.files), what)}, too few for three parts. Give {FEWEST} or more.")
            return
        if len(self.counts) < 2:
            raise InputError(f"All {what}s of {path} are of the class {next(iter(self.counts))}. Give two classes or more.")
        if few := [f"{name} ({count})" for name, count in self.counts.items() if count < least]:
            raise InputError(
                f"Three parts need {least} {what}s or more of a class, but there are fewer of: {listed(few)}. Add some, or leave "
                "the class out."
            )


def has_ending(name: str) -> bool:
    """Whether a name is that of a picture, a sound or a file of points."""
    return is_picture(Path(name)) or is_sound(Path(name)) or Path(name).suffix.lower() in READ


def listing_of_table(
    path: Path, table: TableRows, name: str, label: str | None, numbers: Sequence[str] = (),
    metadata: Mapping[str, Sequence[str]] | None = None,
) -> Listing:  # fmt: skip
    """The files of a table, with a class or with numbers. Raises InputError with every line whose file or class is missing."""
    files = [path.parent / row[name].strip() for row in table.rows]
    labels = [row[label].strip() if label is not None else "" for row in table.rows]
    for line, row, file in zip(table.lines, table.rows, files, strict=True):
        where = f"{path}, line {line}"
        if not row[name].strip() or not file.is_file():
            table.faults.add(f"{where}: there is no file {file}. Paths are beside the table.", where)
        elif label is not None and not row[label].strip():
            table.faults.add(f"{where} has nothing in the column {label}.", where)
    table.faults.check()
    columns: dict[str, Any] = {"field": name, **({"label": label} if label is not None else {"numbers": list(numbers)})}
    columns |= {"metadata": list(metadata)} if metadata else {}
    rows = [[row[one] for one in numbers] for row in table.rows] if label is None else []
    return Listing(
        files, labels, f"in the column {label}", True, columns, () if label is not None else numbers, rows, metadata or {}
    )


def same_inner_warnings(path: Path, holds: Callable[[Path], bool]) -> list[str]:
    """A warning if the folders that are taken for classes all have the same folders, which may be the classes."""
    inner = same_inner(path, holds) if path.is_dir() else []
    if not inner:
        return []
    return [
        f"Each of these folders has the folders {listed(inner)}. If those are the classes, give the outer ones the names of parts "
        "(train, val, test), or name one of them."
    ]


def listing_of_names(path: Path, files: Sequence[Path], what: str) -> Listing:
    """The files of a folder without folders, whose names begin with their class, such as cat_001.png.

    raises  InputError where the names do not say a class
    """
    words = [re.split(r"[_-]", file.stem) for file in files]
    labels = [one[0] for one in words]
    several = 1 < len(set(labels)) <= len(labels) / NAMED
    if not several or any(len(one) < 2 for one in words):
        raise InputError(
            f"{path} has no folders, one for each class, and the names of its {what}s, such as {files[0].name}, do not begin with "
            f"a class. Put the {what}s of each class into a folder, or write a table with the columns path and label."
        )
    return Listing(files, labels, f"the first word of their names, such as {files[0].name}", False)


def named_groups(files: Sequence[Path], labels: Sequence[str]) -> list[str]:
    """A word of each file name that may say which files belong together: a person, a film, a day; else nothing.

    It is not the class and not a count, has several values in each class, and each of two files or more on average.
    """
    words = [re.split(r"[_-]", file.stem) for file in files]
    if len({len(one) for one in words}) != 1 or len(words[0]) < 2:
        return []
    for column in zip(*words, strict=True):
        if all(value.lower() == label.lower() for value, label in zip(column, labels, strict=True)):
            continue
        pairs = set(zip(labels, column, strict=True))
        of_class = Counter(label for label, _ in pairs)
        numbered = all(value.isdecimal() for value in column) and len(pairs) * 2 > len(column)  # files of a class, counted
        if len(set(column)) >= GROUPS and len(set(column)) * 2 <= len(column) and min(of_class.values()) >= LEAST and not numbered:
            return list(column)
    return []


def parts_of(labels: Sequence[str], groups: list[list[int]], share: float) -> list[str]:
    """The part of each file: whole groups, at random, in the same shares for each class.

    share   of the test part; half as many choose the weights
    raises  InputError if a class is left without files to learn from
    """
    of_class: dict[str, list[list[int]]] = defaultdict(list)
    for group in groups:
        of_class[labels[group[0]]].append(group)
    parts = ["train"] * len(labels)
    for name, own in of_class.items():
        count = sum(map(len, own))
        own.sort(key=lambda group: derived_seed(0, "part", name, group[0]))
        wanted = {"test": max(1, round(count * share)), "validation": max(1, round(count * share / 2))}
        for group in own:
            part = next((part for part, left in wanted.items() if left > 0), "train")
            if part in wanted:
                wanted[part] -= len(group)
            for row in group:
                parts[row] = part
    trained = {label for label, part in zip(labels, parts, strict=True) if part == "train"}
    if lost := sorted(set(labels) - trained):
        named, them = (f"class {lost[0]}", "it") if len(lost) == 1 else (f"classes {listed(lost)}", "them")
        raise InputError(
            f"All files of the {named} are copies of each other or of one group, so none can be learned from while others are "
            f"measured. Add others, or leave {them} out."
        )
    return parts


def tables_of_parts(
    stem: str, listing: Listing, parts: Sequence[str], groups: Sequence[str] = ()
) -> tuple[dict[str, Any], dict[str, str]]:  # fmt: skip
    """The tables of the parts: the fields of a recipe that name them and their columns, and their contents by name.

    groups  of each file, which belong together, such as those of one person
    """
    names = {part: f"{stem}-{part}.csv" for part in ("train", "validation", "test")}
    cells = listing.rows if listing.numbers else [[label] for label in listing.labels]
    named = "group" if "group" not in listing.metadata else "file_group"
    more = {**listing.metadata, **({named: groups} if groups else {})}
    cells = [[*own, *(column[i] for column in more.values())] for i, own in enumerate(cells)]
    rows = list(zip(listing.files, cells, parts, strict=True))
    header = ["path", *(listing.numbers or ["label"]), *more]
    tables = {name: _table(header, ((file, row) for file, row, own in rows if own == part)) for part, name in names.items()}
    fields = {**names, **({"numbers": list(listing.numbers)} if listing.numbers else {})}
    fields |= {"metadata": list(listing.metadata)} if listing.metadata else {}
    return fields | ({"group": named} if groups else {}), tables


def moved(content: str, folder: Path) -> str:
    """A table of files seen from here, as one that is in another folder. A table without a column path stays as it is."""
    head, *rows = csv.reader(io.StringIO(content))
    return content if head[0] != "path" else _table(head, ((Path(row[0]).absolute(), row[1:]) for row in rows), folder)


def _table(header: Sequence[str], rows: Iterable[tuple[Path, Sequence[str]]], folder: Path = Path()) -> str:
    return table_text(header, ((os.path.relpath(file, folder), *cells) for file, cells in rows))
