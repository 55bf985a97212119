"""Tables: columns say whether they are pictures, sounds, pairs of texts, or texts to learn from."""

import io
import itertools
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from equiscope.data.files import open_file
from equiscope.data.picture_files import is_picture
from equiscope.data.sound_files import is_sound
from equiscope.data.tables import detect_dialect, read_rows
from equiscope.data.texts import decoded, parsed
from equiscope.errors import InputError
from equiscope.training.draft import labelled, pairs, pictures, sounds, texts
from equiscope.training.draft.draft import RecipeDraft, title_of

PATHS, LABELS = ("path", "file", "filename"), ("label", "class", "category", "sentiment")
FEW = 50  # different values of a column: more may be texts
PAIRS = (("source", "target"), ("src", "tgt"), ("word", "pronunciation"), ("question", "answer"), ("input", "output"))


def of_file(path: Path, start: str | None = None) -> RecipeDraft:
    """A table: .csv, .tsv or .jsonl."""
    if ".dict" in path.suffixes:
        return _dictionary(path)
    names, rows = _read(path)
    if not rows:
        raise InputError(f"{path} has a first line, and no other. Give a table with examples.")
    columns = {name: [row.get(name, "") for row in rows] for name in names}
    if (field := _files(path, columns)) is not None:
        return _only(_of_files(path, columns, field), start)
    long = [name for name in names if _is_text(columns[name])]
    few = [name for name in names if name not in long and labelled.few_values(columns[name]) and len(set(columns[name])) > 1]
    label = next((name for name in LABELS if name in few), None)
    if long and (label is not None or len(long) == 1):
        field = "text" if "text" in long else max(long, key=lambda name: sum(map(len, columns[name][:1000])))
        numbers = [name for name in names if name not in few and name not in long and _are_numbers(columns[name])]
        label = label or next(iter([name for name in few if not _are_numbers(columns[name])] or few or numbers), None)
        if label is None:
            return _only(texts.of_files(path, field), start)
        return labelled.of_columns(path, columns[field], field, label, columns[label], start)
    if len(long) >= 2:
        known = next((pair for pair in PAIRS if set(pair) <= set(long)), (long[0], long[1]))
        rows_of_pairs = list(zip(columns[known[0]], columns[known[1]], strict=True))
        what = f"The columns {known[0]} and {known[1]} of {path} are pairs"
        return _only(pairs.of_pairs(rows_of_pairs, title_of(path), what), start)
    raise InputError(
        f"{path} has the columns {', '.join(names)}, of which none is a text. Known: texts with a class or a "
        "number, two columns of texts (pairs), or one of texts to continue."
    )


def names_files(path: Path) -> bool:
    """Whether a table has a column of pictures or sounds that are there."""
    names, rows = _read(path)
    return _files(path, {name: [row.get(name, "") for row in rows] for name in names}) is not None


def _files(path: Path, columns: Mapping[str, Sequence[str]]) -> str | None:
    """The column that names pictures or sounds; one of a usual name first."""
    for name in sorted(columns, key=lambda name: name not in PATHS):
        some = [Path(value.strip()) for value in columns[name][:50]]
        if (
            some
            and all(is_picture(file) or is_sound(file) for file in some)
            and any((path.parent / file).is_file() for file in some)
        ):
            return name
    return None


def _of_files(path: Path, columns: Mapping[str, Sequence[str]], field: str) -> RecipeDraft:
    """A table of pictures or sounds, with classes or numbers. Whole numbers that only count the lines are left out."""
    others = {name: values for name, values in columns.items() if name != field and len(set(values)) > 1}
    few = [name for name, values in others.items() if labelled.few_values(values) and "" not in values]
    numbers = [name for name, values in others.items() if _are_numbers(values) and not _counts_lines(values)]
    several = [name for name in numbers if name not in few or not all(float(value).is_integer() for value in others[name])]
    label = next((name for name in few if name in LABELS), None)
    if label is None and not several:
        label = next(iter([name for name in few if name not in numbers] or few), None)
    if label is None and not several:
        raise InputError(
            f"{path} names files in {field!r}, but none of its other columns is of classes or of numbers: "
            f"{', '.join(others) or 'there are none'}."
        )
    said: dict[str, Any] = {"label": label} if label is not None else {"numbers": several}
    of_table = pictures.of_table if is_picture(Path(columns[field][0].strip())) else sounds.of_table
    draft = of_table(path, {"field": field, **said})
    if unused := [name for name in columns if name not in (field, label, *(several if label is None else []))]:
        draft.understood.append(f"Not used: {', '.join(unused)}. To predict one of them, see data.label and data.numbers.")
    return draft


def _counts_lines(values: Sequence[str]) -> bool:
    """Whether numbers are those of the lines, in order."""
    return all(float(b) - float(a) == 1 for a, b in itertools.pairwise(values))


def _dictionary(path: Path) -> RecipeDraft:
    """Lines of a word, a space, and what is said of it: a pronunciation. Other entries of a word: WORD(2)."""
    with open_file(path) as file:
        lines = [line.split("#")[0].split(None, 1) for line in decoded(file.read(), str(path)).split("\n")]
    rows = [(re.sub(r"\(\d+\)$", "", line[0]), line[1].strip()) for line in lines if len(line) == 2]
    return pairs.of_pairs(
        rows, title_of(path), f"{path} is a dictionary: each line has a word, and after a space what is said of it"
    )


def _only(draft: RecipeDraft, start: str | None) -> RecipeDraft:
    if start is not None:
        raise InputError(f"--start is for texts with a class or a number, but this is the task {draft.data['task']}. Leave it out.")
    return draft


def _are_numbers(values: Sequence[str]) -> bool:
    try:
        return all(math.isfinite(float(value)) for value in values)
    except ValueError:
        return False


def _is_text(values: Sequence[str]) -> bool:
    """Whether a column holds texts: many different values with letters."""
    different = len(set(values))
    letters = sum(any(sign.isalpha() for sign in value) for value in values[:1000])
    return different > min(FEW, len(values) / 2) and letters > 0.6 * min(1000, len(values))


def _read(path: Path) -> tuple[list[str], list[dict[str, str]]]:
    with open_file(path) as file:
        text = decoded(file.read(), str(path))
    if Path(path.name.removesuffix(".gz")).suffix in (".jsonl", ".ndjson"):
        lines = [(f"{path}, line {number}", line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
        rows = [parsed(line, where) for where, line in lines]
        if odd := next((where for (where, _), row in zip(lines, rows, strict=True) if not isinstance(row, dict)), None):
            raise InputError(f"{odd} is no table of names and values. Each line is one, in braces.")
        names = list(dict.fromkeys(name for row in rows for name in row))
        return names, [{name: str(value) for name, value in row.items()} for row in rows]
    first = text.split("\n", 1)[0]
    dialect = detect_dialect(first, ["\0"], ".tsv" in path.suffixes)
    whole = [row for _, row in read_rows(io.StringIO(text), str(path), dialect) if row]
    if not whole:
        raise InputError(f"{path} is empty: it has no first line that names columns.")
    names = [name.strip() for name in whole[0]]
    if Counter(names).most_common(1)[0][1] > 1:
        raise InputError(f"{path} has two columns of the same name in its first line: {', '.join(names)}. Rename one.")
    return names, [dict(zip(names, row, strict=False)) for row in whole[1:]]
