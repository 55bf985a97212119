"""Sounds: folders of classes, or files whose names say class, speaker and take."""

import hashlib
import re
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from equiscope import budgets
from equiscope.data.faults import Faults
from equiscope.data.files import is_hidden
from equiscope.data.groups import Groups
from equiscope.data.sampler import derived_seed
from equiscope.data.sound_files import is_sound
from equiscope.data.split_folders import part_folders
from equiscope.errors import InputError, counted
from equiscope.tokens import read_sound
from equiscope.training.draft.draft import RecipeDraft, class_warnings, extent, listed, title_of
from equiscope.training.draft.labelled import metadata_sentence
from equiscope.training.draft.listing import GROUPS, Listing, named_groups, parts_of, tables_of_parts

HEARD = 300  # recordings whose lengths are looked at
SHARE = 0.2  # of the recordings for the test part, where names say no speaker; half as many choose the weights
FAST = 16_000  # hertz: speech has little above half of that


def of_path(path: Path) -> RecipeDraft:
    """A folder of recordings: with a folder for each class, in folders of parts, or with names that say the class."""
    if path.is_file():
        raise InputError(f"{path} is one recording. Name the folder that has all of them.")
    parts = part_folders(path, is_sound, True)
    files = _recordings(parts["train"] if parts else path)
    labels = [file.parent.name for file in files]
    data: dict[str, Any] = {"task": "sounds", "train": str(path)}
    if len(set(labels)) > 1:
        listing = Listing(files, labels, "one folder for each")
        if not parts:
            return of_listing(path, listing)
        understood, warnings = [listing.sentence(path, "recording")], []
        understood.append(f"The folders {listed([folder.name for folder in parts.values()])} are the parts, and are kept.")
        data |= {} if "validation" in parts else {"held_out": 0.15}
        if "test" not in parts:
            warnings.append("There is no test part: what is measured on the validation part has chosen the weights too.")
        example = str(_recordings(parts.get("test", parts["train"]))[0])
        return _draft(path, data, listing, len(files), understood, warnings, {}, example)
    pattern, fields = _pattern(files)
    listing = Listing(files, [row["label"] for row in fields], f"named {pattern}", False)
    where, sentence, train = _where(fields)
    if not where:
        return of_listing(path, listing)
    example = next(str(file) for file, row in zip(files, fields, strict=True) if _in(row, where["test"]))
    understood = [listing.sentence(path, "recording"), sentence]
    return _draft(path, data | {"pattern": pattern, "where": where}, listing, train, understood, [], {}, example)


def of_listing(path: Path, listing: Listing) -> RecipeDraft:
    """Recordings and their classes, in parts that are lists of files."""
    listing.check(path, "recording")
    groups, understood, warnings = Groups(len(listing.files)), [listing.sentence(path, "recording")], list[str]()
    groups.join_equal(hashlib.sha256(file.read_bytes()).digest() for file in listing.files)
    if copies := [rows for rows in groups.rows() if len(rows) > 1]:
        shown = " and ".join(listing.files[row].name for row in copies[0][:2])
        warnings.append(f"{counted(sum(map(len, copies)), 'recording')} are copies of another, such as {shown}.")
    if values := named_groups(listing.files, listing.labels):
        groups.join_equal(values)
        understood.append(
            f"A part of each file name is one of {len(set(values))} words, such as {', '.join(sorted(set(values))[:3])}: taken for "
            "speakers, or other groups that belong together. A group is in one part."
        )
    else:
        values = []
        understood.append(f"File names name fewer than {GROUPS} speakers: the parts may share voices, so the result is too good.")
    rows = parts_of(listing.labels, groups.rows(), SHARE)
    names, tables = tables_of_parts(title_of(path).replace(" ", "_"), listing, rows, values)
    if listing.metadata:
        understood.append(metadata_sentence(listing.metadata, "recording"))
    understood.append(f"The parts are lists of files, {', '.join(tables)}, drawn at random: copies are in one part.")
    example = str(listing.files[rows.index("test")])
    data = {"task": "sounds", **names}
    return _draft(path, data, listing, rows.count("train"), understood, warnings, tables, example)


def _recordings(folder: Path) -> list[Path]:
    inside = budgets.listed(folder.rglob("*"), folder)
    return sorted(file for file in inside if file.is_file() and is_sound(file) and not is_hidden(file.relative_to(folder)))


def _draft(
    path: Path, data: dict[str, Any], listing: Listing, train: int, understood: list[str], warnings: list[str],
    files: dict[str, str], example: str,
) -> RecipeDraft:  # fmt: skip
    rates, lengths, faults = Counter[int](), list[float](), Faults()
    for file in listing.files[:: max(1, len(listing.files) // HEARD)]:
        with faults.caught(str(file)):
            wave, rate = read_sound(file)
            rates[rate] += 1
            lengths.append(len(wave) / rate)
    faults.check()
    lengths.sort()
    usual = lengths[min(len(lengths) - 1, round(len(lengths) * 0.98))]
    longest = min(10.0, max(0.5, round(usual * 2 + 0.5) / 2))
    rate = min(FAST, min(rates))
    understood.append(
        f"They last {extent(lengths, '.2g')} s at {listed([f'{rate:,}' for rate in sorted(rates)])} samples a second; "
        f"{longest:g} s are read of each."
    )
    hop = 10 if longest <= 2 else 20 if longest <= 5 else 40
    data |= {
        "rate": rate, "tokens": "log-mel", "window_ms": 25 if hop == 10 else 2 * hop, "hop_ms": hop, "mels": 40, "longest": longest,
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
        "data.center": "without the response of the microphone",
        "data.where": "whose recordings are not learned from",
        "model.block": "positions are seconds: the fastest rotation is one radian a hop",
    }
    optimiser = {"rate": 1.5e-3, "floor": 0.02, "decay": 0.05, "betas": [0.9, 0.98], "average": 0.99}
    return RecipeDraft(
        title_of(path), data, model, train, 40 if train < 5000 else 20, 32, understood, optimiser, {"samples": 4},
        warnings + class_warnings(listing.counts), comments, files, [example],
    )  # fmt: skip


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
        raise InputError(
            f"The names of {files[0].parent}, such as {files[0].name}, have no part that could be a class. Name "
            "the folder above it, or put each class into a folder of its own."
        )
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
    """The other parts, by speaker or else by take, a sentence, and how many recordings remain; nothing where neither fits."""
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
            return {}, "", len(fields)
        order = sorted(values, key=lambda value: derived_seed(0, "take", value))
        share = max(1, len(values) // 10)
        where = {"validation": {field: sorted(order[:share])}, "test": {field: sorted(order[share : 3 * share])}}
        sentence = f"The parts are takes ({field}): {listed(sorted(order[share : 3 * share]))} are the test part."
    held = sum(_in(row, wanted) for row in fields for wanted in where.values())
    learned = {row["label"] for row in fields if not any(_in(row, wanted) for wanted in where.values())}
    if learned != {row["label"] for row in fields}:
        return {}, "", len(fields)
    return where, sentence, len(fields) - held


def _in(row: dict[str, str], wanted: dict[str, list[str]]) -> bool:
    return all(row[name] in values for name, values in wanted.items())
