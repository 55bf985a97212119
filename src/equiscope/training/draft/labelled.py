"""Labelled texts: each with a class or a number, in a table or in folders of classes."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from equiscope.data.split_folders import part_folders
from equiscope.data.texts import files, is_text_file
from equiscope.errors import InputError
from equiscope.training.draft.draft import RecipeDraft, class_warnings, counted, listed, title_of

LETTERS = 2.5  # characters of a piece, of texts with many short or rare words


def of_folders(path: Path, start: str | None) -> RecipeDraft:
    """One folder of text files for each class, or such folders in folders of parts."""
    parts = part_folders(path, is_text_file, True)
    paths = files([parts["train"] if parts else path])
    counts = dict(sorted(Counter(file.parent.name for file in paths).items()))
    understood = [
        f"{path} has {counted(len(paths), 'text')} of {counted(len(counts), 'class', 'classes')}, one folder for each: "
        f"{listed([f'{name} ({count})' for name, count in counts.items()])}."
    ]
    texts = [file.read_text(encoding="utf-8", errors="replace") for file in paths[:2000]]
    data: dict[str, Any] = {"task": "texts", "train": str(path)}
    if parts:
        understood.append(f"The folders {listed([folder.name for folder in parts.values()])} are the parts, and are kept.")
    return _draft(title_of(path), data, texts, len(paths), counts, understood, start, bool(parts))


def of_columns(path: Path, texts: Sequence[str], field: str, label: str, values: Sequence[str], start: str | None) -> RecipeDraft:
    """A column of texts, and one of classes or of numbers. values: of that."""
    numbers = not few_values(values)
    if empty := sum(not text.strip() for text in texts):
        raise InputError(f"{path} has {counted(empty, 'row')} without a text in {field!r}. Take them out.")
    counts = {} if numbers else dict(sorted(Counter(values).items()))
    data: dict[str, Any] = {"task": "texts", "train": str(path), "field": field}
    if numbers:
        data["numbers"] = [label]
        what = f"a number, {label}, from {min(map(float, values)):g} to {max(map(float, values)):g}"
    else:
        data["label"] = label
        what = f"a class, {label}: {listed([f'{name} ({count})' for name, count in counts.items()])}"
    understood = [f"{path} has {counted(len(texts), 'text')} in the column {field}, and for each {what}."]
    if twice := len(texts) - len(set(texts)):
        understood.append(f"{counted(twice, 'text')} occur again; all copies of a text are in one part.")
    return _draft(title_of(path), data, texts, len(texts), counts, understood, start, False)


def few_values(values: Sequence[str], most: int = 50) -> bool:
    """Whether a column holds classes: few different values, each of them several times."""
    return len(set(values)) <= min(most, len(values) / 4)


def _draft(
    title: str, data: dict[str, Any], texts: Sequence[str], count: int, counts: dict[str, int], understood: list[str],
    start: str | None, parted: bool,
) -> RecipeDraft:  # fmt: skip
    warnings = class_warnings(counts)
    if counts:
        name, most = max(counts.items(), key=lambda both: both[1])
        understood.append(f"Always to say {name!r} would be right in {most / sum(counts.values()):.0%}.")
    if not parted:
        held = 0.1 if start is None else min(0.1, max(0.01, round(1000 / count, 2)))  # a checkpoint takes long to evaluate
        data |= {"test_held_out": 0.1, "held_out": held}
        understood.append(f"A tenth of the texts, drawn at random, is the test part; {held:.0%} of the others choose the weights.")
    lengths = sorted(map(len, texts))
    usual = lengths[min(len(lengths) - 1, round(0.98 * len(lengths)))]
    length = max(16, min(256, 8 * round(usual / LETTERS / 8 + 0.5)))
    understood.append(f"They have {lengths[0]} to {lengths[-1]} characters; at most {length} tokens of each are read.")
    train = round(count * (1 if parted else 0.81))
    example = [texts[-1][:60]]
    data |= (
        {"tokens": "checkpoint"}
        if start
        else {"tokens": "pieces", "vocabulary": 1000 if count < 3000 else 4000 if count < 20_000 else 8000}
    )
    data |= {"length": length} | ({"smoothing": 0.1} if counts else {})
    comments = {
        "data.tokens": "those of the checkpoint" if start else "byte pairs, learned from the training part",
        "data.length": "tokens; the rest of a longer text is not read",
        "data.test_held_out": "copies of a text are in one part",
        "model.block": "the rotations see distances; the mean of all tokens answers",
        "model.start": "fine-tuned: its output layer is new",
    }
    if start:
        optimiser: dict[str, Any] = {"rate": 2e-4, "decay": 0.01, "floor": 0.0, "betas": [0.9, 0.98]}
        model: dict[str, Any] = {"start": str(Path(start).absolute()), "readout": "mean"}
        return RecipeDraft(
            title, data, model, train, 4 if count < 5000 else 2, 16, understood, optimiser, {"samples": 0},
            warnings, comments, example=example, evaluations=3,
        )  # fmt: skip
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
