"""Words with labels: files of lines (CoNLL), or of lists."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from equiscope.budgets import undamaged
from equiscope.data.files import open_file
from equiscope.data.split_folders import part_folders, part_of
from equiscope.data.tagged_texts import LISTS, TaggedTexts, Tags, files, read
from equiscope.data.texts import kind_of, parsed
from equiscope.errors import InputError, counted
from equiscope.training.answers import WordLabels
from equiscope.training.draft.draft import (
    FINE_TUNING,
    RecipeDraft,
    class_warnings,
    extent,
    listed,
    title_of,
    token_comments,
    token_fields,
)

ENDINGS = (".conll", ".conllu", ".bio", ".iob", ".iob2")  # that say what a file is
LOOKED = 500  # lines of another file by which it is recognised
STRETCH = 2**24  # bytes in which those lines are looked for
WORDS, LABELS = ("tokens", "words"), ("tags", "labels", "ner_tags", "pos_tags")
PIECES = 2.0  # tokens of a word, about


def columns_of(path: Path) -> dict[str, Any] | None:
    """The fields of a recipe that say where the words and labels of a file are; None for a file of something else."""
    if kind_of(path.name) in ENDINGS:
        return {}
    if kind_of(path.name) not in (*LISTS, ".txt", ".tsv"):
        return None
    with undamaged(path), open_file(path) as file:  # a whole stretch: a line of what is compressed is read byte by byte
        content: bytes = file.read(STRETCH)
    *lines, last = content.decode("utf-8", "replace").split("\n")
    lines = [line.rstrip("\r") for line in [*lines, *([last] if last and len(content) < STRETCH else [])][:LOOKED]]
    if kind_of(path.name) in LISTS:
        return _lists([line for line in lines if line.strip()], path)
    return _lines(lines)


def _lines(lines: Sequence[str]) -> dict[str, Any] | None:
    """Whether lines are words with labels: equally many columns, few values in the last one, empty lines between texts."""
    full = [line for line in lines if line.strip() and not line.startswith(("#", "-DOCSTART-"))]
    rows = [line.split("\t") if "\t" in line else line.split() for line in full]
    stops = sum(not line.strip() for line in lines[: len(lines) - 1])
    if len(rows) < 10 or not stops or len({len(row) for row in rows}) != 1 or not 2 <= len(rows[0]) <= 12:
        return None
    few = len({row[-1] for row in rows}) <= min(60, len(rows) / 4)
    return {} if few and len({row[0] for row in rows}) > 1 else None


def _lists(lines: Sequence[str], path: Path) -> dict[str, Any] | None:
    rows = [parsed(line, f"{path}, line {number}") for number, line in enumerate(lines[:100], 1)]
    if not rows or not all(isinstance(row, dict) for row in rows):
        return None
    names = [name for name in rows[0] if all(isinstance(row.get(name), list) and row[name] for row in rows)]
    pairs = [
        (field, label)
        for field in names
        for label in names
        if field != label
        and all(len(row[field]) == len(row[label]) for row in rows)
        and _different(rows, field) > _different(rows, label)
    ]
    if not pairs:
        return None
    field, label = min(pairs, key=lambda pair: (pair[0] not in WORDS, pair[1] not in LABELS))
    return {name: value for name, value, usual in (("field", field, "tokens"), ("label", label, "tags")) if value != usual}


def _different(rows: Sequence[dict[str, Any]], name: str) -> int:
    return len({str(one) for row in rows for one in row[name]})


def of_folder(path: Path, start: str | None) -> RecipeDraft:
    """A folder of files: with one or a folder for each part, train among them, such as en-train.conllu; or all as one."""
    found = files([path])
    named = [next((part for word in re.split(r"[-_.]", file.name) if (part := part_of(word))), "") for file in found]
    parts = dict(zip(named, found, strict=True)) if "" not in named and len(set(named)) == len(found) else {}
    parts = parts or part_folders(path, TaggedTexts.is_text, False)
    return of_file(path, {}, start, parts if "train" in parts else {})


def of_file(
    path: Path, columns: dict[str, Any], start: str | None, parts: Mapping[str, Path] | None = None
) -> RecipeDraft:  # fmt: skip
    """columns: the fields of the recipe from `columns_of`; parts: files or folders of each part, if there are any."""
    named = {part: str(one) for part, one in (parts or {"train": path}).items()}
    data: dict[str, Any] = {"task": "tags", **named, **columns}
    rows = read([Path(named["train"])], msgspec.convert(data, Tags))
    counts = dict(sorted(Counter(label for row in rows for label in row.target).items()))
    words = sum(counts.values())
    if len(rows) < 20:
        raise InputError(f"{path} has {counted(len(rows), 'text')}, too few for three parts. Give 20 or more.")
    if len(counts) == 1:
        raise InputError(f"Every word of {path} has the label {next(iter(counts))!r}. Give words of two labels or more.")
    understood = [
        f"{path} has {counted(len(rows), 'text')} with {counted(words, 'word')}, each with one of {counted(len(counts), 'label')}: "
        f"{listed([f'{name} ({count})' for name, count in counts.items()])}."
    ]
    if WordLabels(classes=list(counts)).in_spans:
        understood.append("The labels mark spans: B- begins one, I- goes on. F1 of whole spans is measured too.")
    if twice := len(rows) - len({row.text for row in rows}):
        understood.append(f"{counted(twice, 'text occurs', 'texts occur')} again; all copies of a text are in one part.")
    warnings = class_warnings(counts)
    if parts:
        understood.append(f"The parts {listed(list(parts))} are kept.")
        data |= {} if "validation" in parts else {"held_out": 0.1}
        if "test" not in parts:
            warnings.append("There is no test part: what is measured on the validation part has chosen the weights too.")
    else:
        data |= {"test_held_out": 0.1, "held_out": 0.1}
        understood.append("A tenth of the texts, drawn at random, is the test part; a tenth of the others chooses the weights.")
    lengths = sorted(len(row.text) for row in rows)
    usual = lengths[min(len(lengths) - 1, round(0.99 * len(lengths)))]
    length = max(16, min(512, 8 * round(usual * PIECES / 8 + 0.5)))
    understood.append(f"They have {extent(lengths)} words; at most {length} tokens of each are read.")
    different = len({word for row in rows for word in row.text})
    small = different < 1000
    data |= token_fields(start, 1000 if small else 4000, length)
    train = round(len(rows) * 0.81)
    example = [" ".join(rows[-1].text)[:80]]
    comments = token_comments(start) | {"model.block": "the rotations see distances; each word's first token answers"}
    if start:
        model: dict[str, Any] = {"start": str(Path(start).absolute()), "readout": "each"}
        return RecipeDraft(
            title_of(path), data, model, train, 4, 16, understood, dict(FINE_TUNING), {"samples": 0},
            warnings, comments, example=example, evaluations=3,
        )  # fmt: skip
    model = {
        "width": 64, "layers": 2 if train < 20_000 else 3, "dropout": 0.1,
        "block": {"attention": {"heads": 4, "position": "rope"}},
    }  # fmt: skip
    optimiser = {"rate": 2e-3, "decay": 0.1, "floor": 0.01, "betas": [0.9, 0.98], "average": 0.99}
    return RecipeDraft(
        title_of(path), data, model, train, 20, 32 if train < 5000 else 64, understood, optimiser,
        warnings=warnings, comments=comments, example=example,
    )  # fmt: skip
