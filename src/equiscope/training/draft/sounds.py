"""Sounds: folders of classes, or files whose names say class, speaker and take."""

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from equiscope.data import Sounds
from equiscope.data.sampler import derived_seed
from equiscope.data.sound_files import is_sound
from equiscope.data.split_folders import part_folders
from equiscope.data.targets import listed_files
from equiscope.errors import InputError
from equiscope.tokens import read_sound
from equiscope.training.draft.draft import RecipeDraft, class_warnings, counted, listed, number_ranges, title_of

HEARD = 300  # recordings whose lengths are looked at
UNTESTED = (
    "There is no test part: the validation part chooses the weights, so what is measured on it is a little too good. Put "
    "recordings of other people aside, in folders train, val and test."
)
FAST = 16_000  # hertz: speech has little above half of that


def of_folder(path: Path) -> RecipeDraft:
    """A folder of recordings, or one recording with its like beside it."""
    if path.is_file():
        raise InputError(f"{path} is one recording. Name the folder that has all of them.")
    parts = part_folders(path, is_sound, True)
    files = sorted(file for file in (parts["train"] if parts else path).rglob("*") if is_sound(file))
    data: dict[str, Any] = {"task": "sounds", "train": str(path)}
    folders = Counter(file.parent.name for file in files)
    understood, warnings, train, example = [], [], len(files), str(files[-1])
    if len(folders) > 1:
        counts = dict(sorted(folders.items()))
        understood.append(
            f"{path} has {counted(len(files), 'recording')} of {len(counts)} classes, one folder for each: {_class_sizes(counts)}."
        )
        if parts:
            understood.append(f"The folders {listed([folder.name for folder in parts.values()])} are the parts, and are kept.")
        else:
            data["held_out"] = 0.15
            warnings.append(UNTESTED)
            train = round(train * 0.85)
    else:
        pattern, fields = _pattern(files)
        data["pattern"] = pattern
        counts = dict(sorted(Counter(row["label"] for row in fields).items()))
        understood.append(
            f"{path} has {counted(len(files), 'recording')}, named {pattern}: {len(counts)} classes, {_class_sizes(counts)}."
        )
        where, sentence, train = _where(fields)
        understood.append(sentence)
        data |= {"where": where} if where else {"held_out": 0.15}
        warnings += [] if where else [UNTESTED]
        wanted = where.get("test", {})
        example = next((str(file) for file, row in zip(files, fields, strict=True) if _in(row, wanted)), example)
    warnings += class_warnings(counts)
    return _draft(path, files, data, train, understood, warnings, example)


def of_table(path: Path, columns: dict[str, Any]) -> RecipeDraft:
    """A table of recordings. columns: the fields of the recipe that name its columns: field; label or numbers."""
    data: dict[str, Any] = {"task": "sounds", "train": str(path), **columns}
    rows = listed_files(path, msgspec.convert(data, Sounds))
    many, numbers = counted(len(rows), "recording"), columns.get("numbers", [])
    if len(rows) < 20:
        raise InputError(f"{path} has {many}, too few for three parts. Give 20 or more.")
    counts = {} if numbers else dict(sorted(Counter(row.target for row in rows).items()))
    if numbers:
        understood = [f"{path} names {many}, and for each {number_ranges(numbers, [row.target for row in rows])}."]
    else:
        understood = [f"{path} has {many} of {len(counts)} classes, in the column {data['label']}: {_class_sizes(counts)}."]
    data |= {"test_held_out": 0.15, "held_out": 0.1}
    understood.append("15 % of the recordings, drawn at random, are the test part, and a tenth of the others choose the weights.")
    warnings = ["If one speaker or one source has several recordings, it is in several parts: what is measured is then too good."]
    files = [row.file for row in rows]
    return _draft(path, files, data, round(len(rows) * 0.765), understood, warnings + class_warnings(counts), str(files[-1]))


def _draft(
    path: Path, files: Sequence[Path], data: dict[str, Any], train: int, understood: list[str], warnings: list[str], example: str
) -> RecipeDraft:  # fmt: skip
    rates, lengths = Counter[int](), []
    for file in files[:: max(1, len(files) // HEARD)]:
        wave, rate = read_sound(file)
        rates[rate] += 1
        lengths.append(len(wave) / rate)
    lengths.sort()
    usual = lengths[min(len(lengths) - 1, round(len(lengths) * 0.98))]
    longest = min(10.0, max(0.5, round(usual * 2 + 0.5) / 2))
    rate = min(FAST, min(rates))
    understood.append(
        f"They last {lengths[0]:.2g} to {lengths[-1]:.2g} s at {listed([f'{rate:,}' for rate in sorted(rates)])} samples a second; "
        f"{longest:g} s are read of each."
    )
    hop = 10 if longest <= 2 else 20 if longest <= 5 else 40
    data |= {
        "rate": rate, "tokens": "log-mel", "window_ms": 25 if hop == 10 else 2 * hop, "hop_ms": hop, "mels": 40, "longest": longest,
    }  # fmt: skip
    if "numbers" not in data:
        data |= {
            "smoothing": 0.1, "center": True,
            "augment": {"speed": 0.15, "shift": 30, "gain": 6, "noise": 0.03, "bands": 4, "windows": 3},
        }  # fmt: skip
    turn = {"scheme": "rope", "scaling": {"kind": "linear", "factor": hop / 1000}}
    model = {
        "width": 96, "layers": 4, "readout": "mean", "dropout": 0.1,
        "block": {"attention": {"heads": 4, "bias": True, "position": turn}},
    }  # fmt: skip
    comments = {
        "data.rate": "samples a second to which every recording is brought",
        "data.longest": "seconds; the rest of a longer recording is cut off",
        "data.numbers": "their recordings are not changed at random: another speed or loudness may change a number",
        "data.center": "without the response of the microphone",
        "data.where": "whose recordings are not learned from",
        "model.block": "positions are seconds: the fastest rotation is one radian a hop",
    }
    optimiser = {"rate": 1.5e-3, "floor": 0.02, "decay": 0.05, "betas": [0.9, 0.98], "average": 0.99}
    return RecipeDraft(
        title_of(path), data, model, train, 40 if train < 5000 else 20, 32, understood, optimiser, {"samples": 4},
        warnings, comments, {}, [example],
    )  # fmt: skip


def _class_sizes(counts: dict[str, int]) -> str:
    return listed([f"{name} ({count})" for name, count in counts.items()])


def _pattern(files: list[Path]) -> tuple[str, list[dict[str, str]]]:
    """The pattern of the names, and the fields of each. The class is the field with fewest values that every other splits."""
    rows = [re.split(r"[_-]", file.stem) for file in files]
    sign = "_" if all("_" in file.stem for file in files) else "-"
    rows = [file.stem.split(sign) for file in files]
    if len({len(row) for row in rows}) > 1 or len(rows[0]) < 2:
        raise InputError(
            f"{files[0].parent} has recordings without classes: their names, such as {files[0].name}, do not share one form. "
            "Put each class into a folder of its own, or give a table with the columns path and label."
        )
    columns = list(zip(*rows, strict=True))
    names, taken = [], set[str]()
    several = [i for i, column in enumerate(columns) if 1 < len(set(column)) < len(files) / 2]
    if not several:
        raise InputError(f"The names of {files[0].parent}, such as {files[0].name}, have no part that could be a class.")
    label = several[0]
    words = [i for i in several[1:] if not all(value.isdecimal() for value in columns[i])]
    for i, column in enumerate(columns):
        name = (
            "label"
            if i == label
            else "speaker"
            if words and i == words[0]
            else "index"
            if column[0].isdecimal()
            else f"field{i + 1}"
        )
        if name in taken:
            name = f"field{i + 1}"
        taken.add(name)
        names.append(name)
    return sign.join(f"{{{name}}}" for name in names), [dict(zip(names, row, strict=True)) for row in rows]


def _where(fields: list[dict[str, str]]) -> tuple[dict[str, Any], str, int]:
    """The recordings of the other parts, by speaker where names say one; what that is; and how many remain."""
    speakers = sorted({row["speaker"] for row in fields if "speaker" in row})
    of_class: dict[str, set[str]] = defaultdict(set)
    for row in fields:
        of_class[row.get("speaker", "")].add(row["label"])
    whole = [name for name in speakers if len(of_class[name]) == len({row["label"] for row in fields})]
    if len(whole) >= 4:
        order = sorted(whole, key=lambda name: derived_seed(0, "speaker", name))
        share = max(1, len(whole) // 8)
        where = {"validation": {"speaker": sorted(order[:share])}, "test": {"speaker": sorted(order[share : 2 * share])}}
        sentence = (
            f"The names say {len(speakers)} speakers: {listed(speakers)}. Nobody is in two parts: the test part is "
            f"{listed(order[share : 2 * share])}, and {listed(order[:share])} chooses the weights. So what is measured is how well "
            "the model knows a voice that it never heard."
        )
    else:
        others = [name for name in fields[0] if name not in ("label", "speaker")]
        field = max(others, key=lambda name: len({row[name] for row in fields}), default="")
        values = sorted({row[field] for row in fields}) if field else []
        if len(values) < 5:
            return (
                {},
                "The names say neither four speakers with every class nor five takes: parts are drawn at random.",
                len(fields),
            )
        order = sorted(values, key=lambda value: derived_seed(0, "take", value))
        share = max(1, len(values) // 10)
        where = {"validation": {field: sorted(order[:share])}, "test": {field: sorted(order[share : 3 * share])}}
        sentence = f"The parts are takes ({field}): {listed(sorted(order[share : 3 * share]))} are the test part."
    held = sum(_in(row, wanted) for row in fields for wanted in where.values())
    return where, sentence, len(fields) - held


def _in(row: dict[str, str], wanted: dict[str, list[str]]) -> bool:
    return all(row[name] in values for name, values in wanted.items())
