"""Pictures: folders of classes, folders of parts, idx files."""

import csv
import io
import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch

from equiscope.data import Images
from equiscope.data.picture_files import LABELS, PICTURES, PictureList, is_picture, list_pictures, read_idx
from equiscope.data.sampler import derived_seed
from equiscope.data.split_folders import part_folders
from equiscope.errors import InputError
from equiscope.training.draft.draft import RecipeDraft, class_warnings, counted, listed, number_ranges, title_of

LARGE = 64  # pixels of a side to which larger pictures are brought
SMALL = 16  # and smaller ones, so that their patches are some
SHARE = 0.2  # of the pictures for the test part; half as many choose the weights
SHADES = 8  # pixels of a side of the small copy by which copies of a picture are found
NEAR = 1.5  # mean difference, in shades of 256, up to which two pictures are copies


def of_folder(path: Path) -> RecipeDraft:
    """One folder for each class, or such folders in folders of parts."""
    parts = part_folders(path, is_picture, True)
    data: dict[str, Any] = {"task": "images", "train": str(path)}
    return _of_listing(path, list_pictures(parts["train"] if parts else path, Images(train=str(path))), data, parts)


def of_table(path: Path, columns: dict[str, Any]) -> RecipeDraft:
    """A table of pictures. columns: the fields of the recipe that name its columns: field; label or numbers."""
    data = {"task": "images", "train": str(path), **columns}
    return _of_listing(path, list_pictures(path, msgspec.convert(data, Images)), data, {})


def _of_listing(path: Path, listing: PictureList, data: dict[str, Any], parts: dict[str, Path]) -> RecipeDraft:
    numbers: list[str] = data.get("numbers", [])
    sizes, modes, small = Counter[tuple[int, int]](), Counter[str](), []
    for picture in map(listing.read, range(len(listing.names))):
        sizes[(picture.height, picture.width)] += 1
        modes[picture.mode] += 1
        small.append(np.asarray(picture.convert("L").resize((SHADES, SHADES)), np.int16).ravel())
    counts = {} if numbers else dict(sorted(Counter(listing.targets).items()))
    colour = any(mode not in ("1", "L", "LA", "I;16") for mode in modes)
    many = counted(len(listing.names), "picture")
    if numbers:
        what = f"{path} names {many}, and for each {number_ranges(numbers, listing.targets)}."
    else:
        where = f"in the column {data['label']}" if "label" in data else "one folder for each"
        names = listed([f"{name} ({count})" for name, count in counts.items()])
        what = f"{path} has {many} of {counted(len(counts), 'class', 'classes')}, {where}: {names}."
    understood = [what, f"The pictures have {_sizes(sizes)}, in {'colour' if colour else 'shades of grey'}."]
    warnings, files, train = class_warnings(counts), {}, len(listing.names)
    groups = _groups(np.array(small))
    copies = [group for group in groups if len(group) > 1]
    labels = [""] * len(listing.names) if numbers else listing.targets
    if copies:
        shown = [" and ".join(_base(listing.names[i]) for i in group[:2]) for group in copies[:3]]
        warnings.append(f"{counted(sum(map(len, copies)), 'picture')} are nearly copies of another, such as {'; '.join(shown)}.")
    if parts:
        understood.append(f"The folders {listed([folder.name for folder in parts.values()])} are the parts, and are kept.")
        data |= {} if "validation" in parts else {"held_out": 0.1}
        if "test" not in parts:
            warnings.append("There is no test part: what is measured on the validation part has chosen the weights too.")
        example = next(iter(_some(parts.get("test", parts["train"]))))
    else:
        if min(counts.values(), default=4) < 4:
            least = min(counts, key=lambda name: counts[name])
            raise InputError(f"The class {least} has {counts[least]} pictures, too few for three parts. Add some, or leave it out.")
        if len(listing.names) < 20:
            raise InputError(f"{path} has {many}, too few for three parts. Give 20 or more.")
        rows = _parts(labels, groups)
        train = sum(part == "train" for part in rows)
        of_files = [file for file in listing.files if file != path]  # without the table itself
        if copies:  # the copies of a picture are in one part
            stem = title_of(path).replace(" ", "_")
            header = ["path", *(numbers or ["label"])]
            for part in ("train", "validation", "test"):
                files[f"{stem}-{part}.csv"] = _table(
                    header, [(of_files[i], listing.targets[i]) for i, at in enumerate(rows) if at == part]
                )
                data[part] = f"{stem}-{part}.csv"
            data |= {name: usual for name, usual in (("field", "path"), ("label", "label")) if name in data}
            understood.append(f"The parts are lists of files, {', '.join(files)}: copies of a picture are in one part.")
        else:
            test = max(1, round(min(counts.values(), default=len(rows)) * SHARE))
            data |= {"test_held_out": test, "held_out": max(1, test // 2)}
            train = len(rows) - max(1, len(counts)) * (test + max(1, test // 2))
            understood.append(
                f"Of each class the last {test} are the test part, and the {max(1, test // 2)} before them choose the weights. "
                "No copies of a picture were found."
                if counts
                else f"{counted(test, 'picture')}, drawn at random, are the test part, and {test // 2} others choose the weights. "
                "No copies of a picture were found."
            )
        example = str(of_files[max(i for i, at in enumerate(rows) if at == "test") if copies else -1])
    return _draft(title_of(path), data, sizes, 3 if colour else 1, train, understood, warnings, files, [example])


def of_idx(paths: Sequence[Path]) -> RecipeDraft:
    """A file of pictures and one of labels."""
    images, labels = read_idx(paths[0], PICTURES), read_idx(paths[1], LABELS)
    counts = {str(name): count for name, count in sorted(Counter(labels.tolist()).items())}
    test = len(images) // 6
    understood = [
        f"{paths[0]} has {counted(len(images), 'picture')}, and {paths[1]} their {counted(len(counts), 'class', 'classes')}.",
        f"The pictures have {images.shape[1]}×{images.shape[2]} pixels, in shades of grey.",
        f"The last {test:,} are the test part, and the {test // 2:,} before them choose the weights.",
    ]
    data = {"task": "images", "train": [str(path) for path in paths], "test_held_out": test, "held_out": max(1, test // 2)}
    sizes = Counter({images.shape[1:]: len(images)})
    return _draft(
        title_of(paths[0]), data, sizes, 1, len(images) - test - test // 2, understood, class_warnings(counts), {}, [str(paths[0])]
    )


def _draft(
    title: str, data: dict[str, Any], sizes: Counter[tuple[int, int]], channels: int, train: int, understood: list[str],
    warnings: list[str], files: dict[str, str], example: list[str],
) -> RecipeDraft:  # fmt: skip
    side = max(sizes.most_common(1)[0][0])
    rows = columns = min(LARGE, max(SMALL, -(-side // 8) * 8))
    patch, stem = (8, [channels, 16, 32, 64]) if side > 32 else (4, [channels, 32, 64])
    layers, width, heads = (3, 64, 4) if train < 5000 else (5, 128, 4)
    data |= {"size": [rows, columns]}
    if "numbers" not in data:
        data |= {"smoothing": 0.1, "augment": {"shift": max(1, rows // 16), "rotate": 10, "zoom": 0.1}}
    model = {
        "width": width, "layers": layers, "readout": "mean", "input": {"patch": [patch, patch], "stem": stem},
        "block": {"attention": {"heads": heads, "position": "learned-nd"}},
    }  # fmt: skip
    comments = {
        "data.size": "rows and columns to which every picture is brought",
        "data.numbers": "their pictures are not changed at random: a rotation or a shift may change a number",
        "data.augment": "add flip = 0.5 if a mirrored picture keeps its class",
        "model.input": f"convolutions, then {(rows // patch) * (columns // patch)} patches of {patch}×{patch} pixels",
        "model.block": "a learned vector for each place of the grid, rows and columns",
    }
    epochs = 80 if train < 5000 else 30 if train < 20_000 else 15
    return RecipeDraft(
        title, data, model, train, epochs, 64 if train < 20_000 else 128, understood, warnings=warnings, comments=comments,
        files=files, example=example,
    )  # fmt: skip


def _groups(small: np.ndarray, compared: int = 6000) -> list[list[int]]:
    """Rows of pictures, those that are copies of each other in one group.

    small     [N, pixels] of small grey copies
    compared  pictures that are compared with each other; of more, only equal small copies are found
    """
    owner = list(range(len(small)))

    def root(row: int) -> int:
        while owner[row] != row:
            row = owner[row]
        return row

    if len(small) <= compared:
        x = torch.from_numpy(small).float()
        for first in range(0, len(x), 512):
            near = torch.cdist(x[first : first + 512], x, p=1) <= NEAR * x.shape[1]
            for row, other in near.nonzero().tolist():
                if other < first + row:
                    owner[root(first + row)] = root(other)
    else:
        seen: dict[bytes, int] = {}
        for row, pixels in enumerate(small):
            owner[row] = seen.setdefault(pixels.tobytes(), row)
    groups: dict[int, list[int]] = defaultdict(list)
    for row in range(len(small)):
        groups[root(row)].append(row)
    return list(groups.values())


def _parts(labels: Sequence[str], groups: list[list[int]]) -> list[str]:
    """The part of each picture: whole groups, at random, in the same shares for each class."""
    of_class: dict[str, list[list[int]]] = defaultdict(list)
    for group in groups:
        of_class[labels[group[0]]].append(group)
    parts = ["train"] * len(labels)
    for name, own in of_class.items():
        count = sum(map(len, own))
        own.sort(key=lambda group: derived_seed(0, "part", name, group[0]))
        wanted = {"test": max(1, round(count * SHARE)), "validation": max(1, round(count * SHARE / 2))}
        for group in own:
            part = next((part for part, left in wanted.items() if left > 0), "train")
            if part in wanted:
                wanted[part] -= len(group)
            for row in group:
                parts[row] = part
    return parts


def _table(header: Sequence[str], rows: Iterable[tuple[Path, Any]]) -> str:
    """A list of files with their classes or numbers."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows((os.path.relpath(file), *(target if isinstance(target, list) else [target])) for file, target in rows)
    return text.getvalue()


def _sizes(sizes: Counter[tuple[int, int]]) -> str:
    if len(sizes) == 1:
        (rows, columns), _ = sizes.most_common(1)[0]
        return f"{rows}×{columns} pixels"
    (low, narrow), (high, wide) = (tuple(f(size[i] for size in sizes) for i in (0, 1)) for f in (min, max))
    return f"{low}×{narrow} to {high}×{wide} pixels"


def _some(folder: Path) -> list[str]:
    return [str(path) for path in sorted(folder.rglob("*")) if is_picture(path)]


def _base(name: str) -> str:
    return "/".join(Path(name).parts[-2:])
