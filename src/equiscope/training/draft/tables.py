"""Tables: columns say whether they are pictures, sounds, pairs of texts, or texts to learn from."""

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from equiscope.budgets import undamaged
from equiscope.data.files import open_file
from equiscope.data.picture_files import is_picture
from equiscope.data.sound_files import is_sound
from equiscope.data.texts import decoded
from equiscope.errors import InputError, UnknownName, counted
from equiscope.training.draft import labelled, pairs, pictures, points, sounds, texts
from equiscope.training.draft import rows as rows_
from equiscope.training.draft.draft import NONE, ChosenColumns, RecipeDraft, check_start, listed, title_of
from equiscope.training.draft.listing import has_ending, listing_of_table
from equiscope.training.draft.table_file import CLASSES, PATHS, TableRows, read_table
from equiscope.training.metadata_columns import MetadataColumns

Columns = Mapping[str, Sequence[str]]
FEW = 50  # different values of a column: more may be texts
SEVERAL = ("labels", "tags", "topics", "genres", "categories", "keywords")  # columns that may hold several labels
GROUPS = ("group", "speaker", "author", "user", "username", "patient", "subject", "person", "document", "conversation", "session")
NOTATION = re.compile(  # numbers that are not read: 1,5 and 1,234.5 and 12 % and $5
    r"[-+]?[$€£¥]?\s?\d+,\d+(\s?[%$€£¥])?|[-+]?[$€£¥]?\s?\d{1,3}([,' ]\d{3})+(\.\d+)?(\s?[%$€£¥])?|[-+]?\d+(\.\d+)?\s?[%$€£¥]"
    r"|[-+]?[$€£¥]\s?\d+(\.\d+)?"
)
UNKNOWN = ("na", "n/a", "nan", "null", "none", "?", "-", "--", "inf", "-inf", "+inf", "infinity")  # beside numbers: none
PAIRS = (("source", "target"), ("src", "tgt"), ("word", "pronunciation"), ("question", "answer"), ("input", "output"))


def of_parts(parts: dict[str, Path], start: str | None = None, wanted: ChosenColumns = NONE) -> RecipeDraft:
    """Tables of the parts train, validation and test, with the same columns."""
    draft = of_file(parts["train"], start, {part: path for part, path in parts.items() if part != "train"}, wanted)
    if draft.data["task"] not in ("texts", "rows"):
        raise InputError(
            f"{' and '.join(map(str, parts.values()))} are parts of texts to write or of pairs. A draft is written for one file of "
            "them: name that."
        )
    return draft


def of_file(
    path: Path, start: str | None = None, others: dict[str, Path] | None = None, wanted: ChosenColumns = NONE
) -> RecipeDraft:  # fmt: skip
    """A table: .csv, .tsv or .jsonl.

    others    tables of the other parts, with the same columns
    wanted    columns that a person names
    """
    if ".dict" in path.suffixes:
        if wanted:
            raise InputError(f"--metadata and --target name columns, but {path} is a dictionary, which has none. Leave it out.")
        return _dictionary(path)
    table = read_table(path)
    draft = _draft(path, table, start, others, wanted)
    return _with_remarks(draft, path, table)


def _draft(
    path: Path, table: TableRows, start: str | None, others: dict[str, Path] | None, wanted: ChosenColumns
) -> RecipeDraft:  # fmt: skip
    names, rows, lines = table.names, table.rows, table.lines
    if not rows:
        table.faults.check()
        raise InputError(f"{path} has a first line, and no other. Give a table with examples.")
    columns = {name: [row.get(name, "") for row in rows] for name in names}
    for name in names:
        if name not in table.lists and name.lower() not in SEVERAL:
            _check_notation(path, name, columns[name], lines)
    chosen, target = _metadata(path, columns, wanted.metadata, start), _target(path, columns, wanted)
    names = [name for name in names if name not in chosen]
    columns = {name: columns[name] for name in names}
    if (column := _files(path, columns)) is not None:
        check_start(start, f"files that {path} names")
        return _of_files(path, table, columns, column, chosen, target)
    long = [name for name in names if _is_text(columns[name]) and name != target]
    few = [name for name in names if name not in long and labelled.few_values(columns[name]) and len(set(columns[name])) > 1]
    several = ""  # separates the labels of a cell
    label = target or next((name for name in CLASSES if name in few), None)
    if label in table.lists:
        several = ";"
    if label is None and (tags := next((name for name in names if name in table.lists or name.lower() in SEVERAL), None)):
        several = ";" if tags in table.lists else next((sign for sign in ";|," if any(sign in cell for cell in columns[tags])), "")
        label, long = tags if several else None, [name for name in long if name != tags or not several]
    if label is None and (named := next((name for name in CLASSES if name in names and len(names) > 1), None)):
        _check_label(path, named, columns[named])
    if long and (label is not None or len(long) == 1):
        text = "text" if "text" in long else max(long, key=lambda name: sum(map(len, columns[name][:1000])))
        numbers = [name for name in names if name not in few and name not in long and labelled.are_numbers(columns[name])]
        label = label or next(iter([name for name in few if not labelled.are_numbers(columns[name])] or few or numbers), None)
        if label is None:
            if chosen:
                raise InputError(
                    f"--metadata names columns beside texts with a class or a number, but {path} has neither. Leave it out."
                )
            check_start(start, "texts without either")
            return texts.of_files(path, text)
        for name in (text,) if several else (text, label):
            empty = [line for line, value in zip(lines, columns[name], strict=True) if not value.strip()]
            for line in empty:
                table.faults.add(f"{path}, line {line} has nothing in the column {name}.", f"{path}, line {line}")
        table.faults.check()
        group = next((name for name in names if _is_group(name, columns[name]) and name not in (text, label)), None)
        grouped = None if group is None else (group, columns[group])
        classes = [value.strip() for value in columns[label]]
        texts_of = {part: [row.get(text, "") for row in read_table(other).rows] for part, other in (others or {}).items()}
        draft = labelled.of_columns(path, columns[text], text, label, classes, start, grouped, texts_of, several, chosen)
        draft.data |= {part: str(other) for part, other in (others or {}).items()}
        draft.understood += labelled.unused_columns([name for name in names if name not in (text, label, group)], "text")
        return draft
    table.faults.check()
    if chosen:
        raise InputError(
            f"--metadata names columns beside texts or files with a class or a number, but {path} has none. Leave it out."
        )
    if len(long) >= 2 and target is None:
        known = next((pair for pair in PAIRS if set(pair) <= set(long)), (long[0], long[1]))
        rows_of_pairs = list(zip(columns[known[0]], columns[known[1]], strict=True))
        what = f"The columns {known[0]} and {known[1]} of {path} are pairs"
        check_start(start, "pairs of texts")
        return pairs.of_pairs(rows_of_pairs, title_of(path), what)
    group = next((name for name in names if _is_group(name, columns[name]) and name != target), None)
    if (whole := rows_.of_table(path, columns, group, others, target)) is not None:
        check_start(start, "rows of numbers and categories")
        return whole
    raise InputError(
        f"{path} has {counted(len(names), 'column')}, {', '.join(names)}, of which none has many different texts, and "
        "fewer than two are numbers or "
        "categories. Known: texts with a class or a number, two columns of texts (pairs), one of texts to continue, and rows of "
        "numbers and categories."
    )


def _with_remarks(draft: RecipeDraft, path: Path, table: TableRows) -> RecipeDraft:
    """The draft with what a person should know about columns: without a name, in quotation marks that are kept, or of objects."""
    if table.nameless:
        draft.understood.append(f"Not read: {counted(table.nameless, 'column')} without a name in the first line.")
    quoted = [name for name in table.names if all(map(_is_quoted, cells := [row.get(name, "") for row in table.rows])) and cells]
    if quoted:
        draft.warnings.append(
            f"Every cell of {listed(quoted)} stands between apostrophes, which are read as a part of it. Quotation marks of a "
            'table are ": replace them.'
        )
    if table.objects:
        name = min(table.objects)
        draft.warnings.append(
            f"Not read, as columns are plain values and these are objects: {listed(sorted(table.objects))}. To use what is in one: "
            f"jq -c '. + .{name} | del(.{name})' {shlex.quote(str(path))} > flat.jsonl"
        )
    return draft


def _is_quoted(cell: str) -> bool:
    return len(cell) > 1 and cell[0] == cell[-1] == "'"


def _check_notation(path: Path, name: str, cells: Sequence[str], lines: Sequence[int]) -> None:
    """Raises InputError for a column of numbers of which some are written in a way that is not read."""
    odd = [i for i, cell in enumerate(cells) if cell.strip() and not labelled.are_numbers([cell])]
    there = sum(1 for cell in cells if cell.strip())
    notation = [i for i in odd if NOTATION.fullmatch(cells[i].strip())]
    if not odd or len(notation) + sum(cells[i].strip().lower() in UNKNOWN for i in odd) < len(odd):
        return
    if not notation and (len(odd) == there or not any(labelled.are_numbers([cell]) for cell in cells)):
        return  # words, such as none
    first = (notation or odd)[0]
    way = "Write numbers such as 1234.5" if notation else "Leave such cells empty"
    more = f", and {counted(len(odd) - 1, 'other is', 'others are')} so" if len(odd) > 1 else ""
    raise InputError(
        f"{path}, line {lines[first]}: {cells[first].strip()!r} is not read as a number, but the column {name} holds "
        f"numbers{more}. {way}."
    )


def names_files(path: Path) -> bool:
    """Whether a table has a column of pictures, sounds or points that are there."""
    table = read_table(path)
    return _files(path, {name: [row.get(name, "") for row in table.rows] for name in table.names}) is not None


def _files(path: Path, columns: Mapping[str, Sequence[str]]) -> str | None:
    """The column that names pictures, sounds or points; one of a usual name first."""
    for name in sorted(columns, key=lambda name: name not in PATHS):
        some = [value.strip() for value in columns[name][:50]]
        if some and all(map(has_ending, some)) and any((path.parent / file).is_file() for file in some):
            return name
    return None


def _metadata(path: Path, columns: Mapping[str, Sequence[str]], metadata: Sequence[str], start: str | None) -> Columns:
    """The columns that are read with each example. Raises InputError for one that is not there, says nothing or too much."""
    for name in metadata:
        if name not in columns:
            raise UnknownName(f"column of {path}", name, list(columns), "Change --metadata.")
    if metadata and start is not None:
        raise InputError("--metadata adds tokens that a checkpoint does not have. Leave it or --start out.")
    cells = [[value.strip() for value in columns[name]] for name in metadata]
    MetadataColumns.of(list(metadata), list(zip(*cells, strict=True)))
    return dict(zip(metadata, cells, strict=True))


def _target(path: Path, columns: Columns, wanted: ChosenColumns) -> str | None:
    """The column that is to be predicted, if one is named. Raises InputError if it holds neither classes nor numbers."""
    name = wanted.target
    if name is None:
        return None
    if name not in columns:
        raise UnknownName(f"column of {path}", name, list(columns), "Change --target.")
    if name in wanted.metadata:
        raise InputError(f"--target and --metadata both name {name!r}. What is predicted cannot be read: leave one of them out.")
    cells = [cell.strip() for cell in columns[name]]
    if not labelled.few_values(cells) and not labelled.are_numbers(cells):
        raise InputError(
            f"--target names {name!r}, which has {counted(len(set(cells)), 'different value')} in "
            f"{counted(len(cells), 'row')} and is no "
            "column of numbers, so it cannot be predicted. Name another."
        )
    return name


def _of_files(
    path: Path, table: TableRows, columns: Mapping[str, Sequence[str]], column: str, metadata: Columns, target: str | None
) -> RecipeDraft:  # fmt: skip
    """A table of pictures, sounds or points, with classes or numbers."""
    others = {name: values for name, values in columns.items() if name != column}
    label, several = labelled.targets_of(others if target is None else {target: others[target]})
    if label is None and not several:
        raise InputError(
            f"{path} names files in {column!r}, but none of its other columns is of classes or of numbers: "
            f"{', '.join(others) or 'there are none'}."
        )
    listing = listing_of_table(path, table, column, label, several, metadata)
    first = listing.files[0]
    if metadata and not is_picture(first) and not is_sound(first):
        raise InputError("--metadata is for texts, pictures and recordings, but these are points. Leave it out.")
    of_listing = pictures.of_listing if is_picture(first) else sounds.of_listing if is_sound(first) else points.of_listing
    draft = of_listing(path, listing)
    what = "picture" if is_picture(first) else "recording" if is_sound(first) else ""
    draft.understood += labelled.unused_columns([name for name in others if name not in (label, *several)], what)
    return draft


def _dictionary(path: Path) -> RecipeDraft:
    """Lines of a word, a space, and what is said of it: a pronunciation. Other entries of a word: WORD(2)."""
    with undamaged(path), open_file(path) as file:
        lines = [line.split("#")[0].split(None, 1) for line in decoded(file.read(), str(path)).split("\n")]
    rows = [(re.sub(r"\(\d+\)$", "", line[0]), line[1].strip()) for line in lines if len(line) == 2]
    return pairs.of_pairs(
        rows, title_of(path), f"{path} is a dictionary: each line has a word, and after a space what is said of it"
    )


def _check_label(path: Path, name: str, values: Sequence[str]) -> None:
    """Raises InputError for a column of classes that has one class, or nearly as many as examples."""
    different = len(set(values))
    if not any(map(str.strip, values)):
        raise InputError(
            f"The column {name} of {path} is empty, and it is to be predicted. Fill it, or name another: --target NAME."
        )
    if different == 1:
        raise InputError(f"Every example of {path} has the {name} {values[0]!r}. Give examples of two classes or more.")
    if not labelled.are_numbers(values):
        raise InputError(
            f"The column {name} of {path} has {counted(different, 'different value')} for "
            f"{counted(len(values), 'example')}. Classes need "
            "four examples or more each, on average. If these are texts to be written, call the columns source and target."
        )


def _is_group(name: str, values: Sequence[str]) -> bool:
    """Whether a column says which rows belong together: by its name, with several values that repeat."""
    known = name.lower().removesuffix("_id").removesuffix("id").rstrip("_ ") in GROUPS
    return known and 5 <= len(set(values)) <= len(values) / 2


def _is_text(values: Sequence[str]) -> bool:
    """Whether a column holds texts: many different values with letters."""
    different = len(set(values))
    letters = sum(any(sign.isalpha() for sign in value) for value in values[:1000])
    return different > min(FEW, len(values) / 2) and letters > 0.6 * min(1000, len(values))
