"""Pictures: folders of classes, folders of parts, arrays, idx files."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from equiscope.data import Images
from equiscope.data.faults import Faults
from equiscope.data.files import is_hidden
from equiscope.data.images import by_value
from equiscope.data.picture_arrays import SIXTEEN, array_parts, picture_arrays
from equiscope.data.picture_files import LABELS, PICTURES, PictureList, is_picture, list_pictures, read_idx
from equiscope.data.split_folders import part_folders
from equiscope.errors import InputError, counted
from equiscope.tokens.images import picture
from equiscope.training.draft.copies import SHADES, picture_copies
from equiscope.training.draft.draft import RecipeDraft, class_warnings, listed, title_of
from equiscope.training.draft.labelled import metadata_sentence
from equiscope.training.draft.listing import (
    LEAST,
    Listing,
    listing_of_names,
    named_groups,
    parts_of,
    same_inner_warnings,
    tables_of_parts,
)

if TYPE_CHECKING:
    from PIL import Image

LARGE = 64  # pixels of a side to which larger pictures are brought
SMALL = 16  # and smaller ones, so that their patches are some
SHARE = 0.2  # of the pictures for the test part; half as many choose the weights
DARK = 128  # of 255: the brightest shade of pictures that do not use their 16 bits is lower
GREY = ("1", "L", "LA", "I;16")  # Pillow's modes without colour


def of_path(path: Path) -> RecipeDraft:
    """One folder for each class, such folders in folders of parts, an archive of them, or files whose names begin with a class."""
    parts = part_folders(path, is_picture, True) if path.is_dir() else {}
    if path.is_dir() and not parts and not any(map(_holds_pictures, path.iterdir())):
        files = sorted(file for file in path.iterdir() if file.is_file() and is_picture(file))
        return of_listing(path, listing_of_names(path, files, "picture"))
    pictures = list_pictures(parts["train"] if parts else path, Images(train=str(path)))
    listing = Listing(list(map(Path, pictures.names)), pictures.targets, "one folder for each")
    if not parts:
        draft = of_listing(path, listing)
        draft.warnings += same_inner_warnings(path, is_picture)
        return draft
    listing.check(path, "picture", 1)
    seen = _Seen().add(_read(pictures))
    understood = [listing.sentence(path, "picture"), seen.sentence]
    understood.append(f"The folders {listed([folder.name for folder in parts.values()])} are the parts, and are kept.")
    data: dict[str, Any] = {"task": "images", "train": str(path)} | ({} if "validation" in parts else {"held_out": 0.1})
    warnings = class_warnings(listing.counts)
    if "test" not in parts:
        warnings.append("There is no test part: what is measured on the validation part has chosen the weights too.")
    for part, folder in parts.items():
        if part != "train":
            others = list_pictures(folder, Images(train=str(folder)))
            warnings += _leaks(part, _Seen().add(_read(others)), others.names, seen, pictures.names)
    example = next(iter(_some(parts.get("test", parts["train"]))))
    return _draft(title_of(path), data, seen, len(listing.files), understood, warnings, {}, [example])


def of_listing(path: Path, listing: Listing) -> RecipeDraft:
    """Pictures and their classes."""
    listing.check(path, "picture")
    paths = list(map(str, listing.files))
    listed_files = PictureList(list(listing.files), paths, [], lambda i: picture(listing.files[i], paths[i]))
    seen = _Seen().add(_read(listed_files))
    understood, warnings = [listing.sentence(path, "picture"), seen.sentence], class_warnings(listing.counts)
    data: dict[str, Any] = {"task": "images", "train": str(path), **listing.columns}
    if listing.metadata:
        understood.append(metadata_sentence(listing.metadata, "picture"))
    groups = picture_copies(seen.small)
    copies = [group for group in groups.rows() if len(group) > 1]
    if copies:
        shown = [" and ".join(_base(listing.files[i]) for i in group[:2]) for group in copies[:3]]
        warnings.append(f"{counted(sum(map(len, copies)), 'picture')} are nearly copies of another, such as {'; '.join(shown)}.")
    if values := named_groups(listing.files, listing.labels):
        groups.join_equal(values)
        understood.append(
            f"A part of each file name is one of {len(set(values))} words, such as {', '.join(sorted(set(values))[:3])}: taken for "
            "groups that belong together, such as the pictures of one person. A group is in one part."
        )
    if copies or values or not listing.whole:
        rows = parts_of(listing.labels, groups.rows(), SHARE)
        names, tables = tables_of_parts(title_of(path).replace(" ", "_"), listing, rows, values)
        understood.append(f"The parts are lists of files, {', '.join(tables)}: copies of a picture are in one part.")
        example = str(listing.files[max(i for i, own in enumerate(rows) if own == "test")])
        data = {"task": "images", **names}
        return _draft(title_of(path), data, seen, rows.count("train"), understood, warnings, tables, [example])
    held, sentence = _last(listing.counts, len(listing.files))
    understood.append(f"{sentence} No copies of a picture were found.")
    train = len(listing.files) - max(1, len(listing.counts)) * sum(held.values())
    example = str(listing.files[-1])
    return _draft(title_of(path), data | held, seen, train, understood, warnings, {}, [example])


def _read(pictures: PictureList) -> "Iterator[Image.Image]":
    """The pictures of a list. Raises InputError with all that cannot be read."""
    faults = Faults()
    for i, where in enumerate(pictures.names):
        found: Image.Image | None = None
        with faults.caught(where):
            found = pictures.read(i)
        if found is not None and not faults.found:
            yield found
    faults.check()


def _holds_pictures(folder: Path) -> bool:
    return folder.is_dir() and not is_hidden(Path(folder.name)) and any(is_picture(file) for file in folder.rglob("*"))


def _classes(counts: dict[str, int]) -> str:
    return counted(len(counts), "class", "classes")


def _last(counts: dict[str, int], count: int) -> tuple[dict[str, int], str]:
    """How many pictures are the other parts, of each class or of all, and a sentence. count: of all pictures."""
    test = max(1, round(min(counts.values(), default=count) * SHARE))
    held = max(1, test // 2)
    chosen = "one before them chooses" if held == 1 else f"{held} before them choose"
    sentence = f"Of each class the last {test} are the test part, and the {chosen} the weights."
    if not counts:
        sentence = f"{counted(test, 'picture')}, drawn at random, are the test part, and {held} others choose the weights."
    return {"test_held_out": test, "held_out": held}, sentence


def of_arrays(path: Path) -> RecipeDraft:
    """An .npz file with an array of pictures and one of labels, or with such a pair for each part."""
    parts = array_parts(path)
    train = picture_arrays(path, "train" if "train" in parts else parts[0])
    if train.labels is None:
        raise InputError(f"{path} has pictures, but no labels. Write them with numpy.savez: images=..., labels=...")
    seen = _Seen().add(map(_picture, train.images))
    counts = {name: train.labels.count(name) for name in sorted(set(train.labels), key=by_value)}
    listing = Listing([path] * len(train.labels), sorted(train.labels, key=by_value), "named in the array of labels")
    listing.check(path, "picture", 1 if len(parts) > 1 else LEAST)
    understood = [listing.sentence(path, "picture"), seen.sentence]
    data: dict[str, Any] = {"task": "images", "train": str(path)}
    warnings, rows = class_warnings(counts), len(train.images)
    if train.brightest > 255:
        understood.append(f"Shades are of 16 bits: they are divided by {SIXTEEN}, and 65,535 becomes 255.")
        if train.brightest / SIXTEEN < DARK:
            warnings.append(
                f"The brightest shade of the training part is {train.brightest:,.0f} of 65,535, so its pictures are dark, and "
                "many of their shades become equal. Scale them to 0 to 255 before you save them."
            )
    if copies := [group for group in picture_copies(seen.small).rows() if len(group) > 1]:
        shown = "; ".join(f"{group[0] + 1} and {group[1] + 1}" for group in copies[:3])
        warnings.append(f"{counted(sum(map(len, copies)), 'picture')} are nearly copies of another, such as the pictures {shown}.")
    if len(parts) > 1:
        understood.append(f"The file has the parts {listed(parts)}, which are kept.")
        data |= {} if "validation" in parts else {"held_out": 0.1}
        numbered = [f"picture {i + 1}" for i in range(len(train.images))]
        for part in parts:
            if part != "train":
                images = picture_arrays(path, part).images
                other = _Seen().add(map(_picture, images))
                warnings += _leaks(part, other, [f"picture {i + 1}" for i in range(len(images))], seen, numbered)
    else:
        held, sentence = _last(counts, len(train.images))
        understood.append(sentence)
        data |= held
        rows -= len(counts) * sum(held.values())
        if copies:
            warnings.append("Copies may be in two parts, as parts follow the order of the pictures: write one file for each part.")
    return _draft(title_of(path), data, seen, rows, understood, warnings, {}, [str(path)])


def of_idx(paths: Sequence[Path]) -> RecipeDraft:
    """A file of pictures and one of labels."""
    images, labels = read_idx(paths[0], PICTURES), read_idx(paths[1], LABELS)
    if len(images) != len(labels):
        raise InputError(f"{paths[0]} has {len(images)} pictures, but {paths[1]} has {len(labels)} labels: they are no pair.")
    counts = {str(name): count for name, count in sorted(Counter(labels.tolist()).items())}
    test = len(images) // 6
    seen = _Seen()
    seen.sizes[images.shape[1:]] = seen.modes["L"] = len(images)
    understood = [
        f"{paths[0]} has {counted(len(images), 'picture')}, and {paths[1]} their {_classes(counts)}.",
        seen.sentence,
        f"The last {test:,} are the test part, and the {test // 2:,} before them choose the weights.",
    ]
    data = {"task": "images", "train": [str(path) for path in paths], "test_held_out": test, "held_out": max(1, test // 2)}
    train = len(images) - test - test // 2
    return _draft(title_of(paths[0]), data, seen, train, understood, class_warnings(counts), {}, [str(paths[0])])


class _Seen:
    """What pictures are: their sizes, modes, and small grey copies."""

    def __init__(self) -> None:
        self.sizes, self.modes = Counter[tuple[int, int]](), Counter[str]()
        self.animated = self.transparent = 0
        self._small: list[np.ndarray] = []

    def add(self, pictures: "Iterable[Image.Image]") -> "_Seen":
        for one in pictures:
            self.sizes[(one.height, one.width)] += 1
            self.modes[one.mode] += 1
            self.animated += bool(one.info.get("animated"))
            self.transparent += one.has_transparency_data
            self._small.append(np.asarray(one.convert("L").resize((SHADES, SHADES)), np.int16).ravel())
        return self

    @property
    def small(self) -> np.ndarray:
        return np.array(self._small)

    @property
    def coloured(self) -> int:
        return sum(count for mode, count in self.modes.items() if mode not in GREY)

    @property
    def mixed(self) -> bool:
        return 0 < self.coloured < self.modes.total()

    @property
    def sentence(self) -> str:
        colour = "in colour" if self.coloured else "in shades of grey"
        if self.mixed:
            colour = f"{self.coloured} in colour and {self.modes.total() - self.coloured} in shades of grey: all are read in colour"
        several = f" Of {counted(self.animated, 'picture')} with several frames the first is read." if self.animated else ""
        clear = f" {counted(self.transparent, 'picture is', 'pictures are')} transparent in places: transparency is not read."
        return f"The pictures have {_sizes(self.sizes)}, {colour}.{several}{clear if self.transparent else ''}"


def _picture(pixels: np.ndarray) -> "Image.Image":
    from PIL import Image

    return Image.fromarray(pixels)


def _draft(
    title: str, data: dict[str, Any], seen: _Seen, train: int, understood: list[str],
    warnings: list[str], files: dict[str, str], example: list[str],
) -> RecipeDraft:  # fmt: skip
    side = max(seen.sizes.most_common(1)[0][0])
    channels = 3 if seen.coloured else 1
    rows = columns = min(LARGE, max(SMALL, -(-side // 8) * 8))
    patch, stem = (8, [channels, 16, 32, 64]) if side > 32 else (4, [channels, 32, 64])
    layers, width, heads = (3, 64, 4) if train < 5000 else (5, 128, 4)
    data |= {"size": [rows, columns], **({"channels": channels} if seen.mixed else {})}
    if "numbers" not in data:
        data |= {"smoothing": 0.1, "augment": {"shift": max(1, rows // 16), "rotate": 10, "zoom": 0.1}}
    model = {
        "width": width, "layers": layers, "readout": "mean", "input": {"patch": [patch, patch], "stem": stem},
        "block": {"attention": {"heads": heads, "position": "learned-nd"}},
    }  # fmt: skip
    comments = {
        "data.size": "rows and columns to which every picture is brought",
        "data.augment": "add flip = 0.5 if a mirrored picture keeps its class",
        "model.input": f"convolutions, then {(rows // patch) * (columns // patch)} patches of {patch}×{patch} pixels",
        "model.block": "a learned vector for each place of the grid, rows and columns",
    }
    epochs = 80 if train < 5000 else 30 if train < 20_000 else 15
    return RecipeDraft(
        title, data, model, train, epochs, 64 if train < 20_000 else 128, understood, warnings=warnings, comments=comments,
        files=files, example=example,
    )  # fmt: skip


def _leaks(part: str, seen: _Seen, names: Sequence[str], train: _Seen, train_names: Sequence[str]) -> list[str]:
    """A warning if pictures of a part are nearly copies of training pictures."""
    first = len(names)
    groups = picture_copies(np.concatenate([seen.small, train.small])).rows()
    pairs = [(row, group[-1] - first) for group in groups if group[-1] >= first for row in group if row < first]
    if not pairs:
        return []
    row, other = pairs[0]
    return [
        f"{counted(len(pairs), 'picture')} of the {part} part are nearly copies of pictures to learn from, such as "
        f"{_base(names[row])} of {_base(train_names[other])}: what is measured on that part is too good."
    ]


def _sizes(sizes: Counter[tuple[int, int]]) -> str:
    if len(sizes) == 1:
        (rows, columns), _ = sizes.most_common(1)[0]
        return f"{rows}×{columns} pixels"
    (low, narrow), (high, wide) = (tuple(f(size[i] for size in sizes) for i in (0, 1)) for f in (min, max))
    return f"{low}×{narrow} to {high}×{wide} pixels"


def _some(folder: Path) -> list[str]:
    return [str(path) for path in sorted(folder.rglob("*")) if is_picture(path)]


def _base(name: str | Path) -> str:
    return "/".join(Path(name).parts[-2:])
