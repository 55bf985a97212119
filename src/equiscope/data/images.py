"""Images: pictures and their targets, from a pair of idx files, folders, an archive or a table, as one block of bytes.

All pictures are brought to one size and number of channels when they are read; bytes become floats when a batch is made. A block
larger than memory should hold is a memory-mapped file.
"""

import math
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import msgspec
import numpy as np
import torch
from msgspec import Struct
from torch import Tensor

from equiscope.data.augment import Augment, Draws, augmented, mixture
from equiscope.data.faults import Faults
from equiscope.data.files import find_files, is_archive, sources
from equiscope.data.groups import Groups, held_out
from equiscope.data.picture_arrays import array_parts
from equiscope.data.picture_files import (
    LABELS,
    PICTURES,
    PictureList,
    converted,
    is_picture,
    list_pictures,
    read_idx,
    source_of,
    unlabelled,
)
from equiscope.data.sampler import Sampler, derived_seed
from equiscope.data.split_folders import one_part, spread
from equiscope.data.tables import separator_notes
from equiscope.data.targets import OtherCells, check_groups, check_targets, named_parts, only_classes, target_columns, target_kind
from equiscope.data.views import Views
from equiscope.errors import InputError, counted
from equiscope.record import DataFile
from equiscope.spec_base import Size

FilePair = tuple[str, str]
IN_MEMORY = 2**31  # bytes of a part; more is mapped
LEAST = 1e-4  # of a std that is given: a fortieth of one step of 256


class Images(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="images", tag_field="task"):
    """Pictures, each with a class, with several labels, or with numbers.

    train       a pair of idx files [pictures, labels]; a folder with one folder for each class; an archive of such a folder; a
                table (CSV, TSV or JSONL) with a column of file names, relative to the table, and others for the target; an .npz
                file with the arrays images and labels, also of each part (train_images, ...); or a folder of parts
    validation  pictures that choose the best weights; by default the last `held_out` pictures of train
    test        pictures that are evaluated once, at the end
    test_held_out  count of pictures at the end of train that become the test part, before `held_out` is counted; per class, except
                for idx files, where the count is over all classes; of labels and numbers, drawn at random
    held_out    share or count of train that becomes the validation part; per class, except for idx files
    field       column of a table with the file names
    label       column with the class of a picture; in folders of classes, the folder's name is the class
    labels      column with any number of labels, separated by `separator`, or a list in JSONL; instead of `label`
    separator   between two labels of a cell
    numbers     columns with the numbers that are predicted; instead of `label`
    metadata    further columns of a table that are read with the picture, such as an age or a camera: one token of each
    group       column whose equal values belong together, such as a patient: `held_out` and `test_held_out` then take whole groups,
                and so do the folds in which the simple model is chosen
    classes     names, in the order of the labels; by default the sorted names of folders and tables, and 0, 1, ... for idx files
    size        [rows, columns] to which pictures are resized and cropped; by default they must all have one size
    channels    1 (grey) or 3 (colour); by default as in the first picture
    mean, std   of each channel, in 0..1; by default those of the training part
    augment     random augmentation of the training pictures
    smoothing   label smoothing: share of the target that is spread over all classes
    views       test-time augmentation: a finished run averages its outputs over these views of a picture
    """

    train: str | FilePair
    validation: str | FilePair | None = None
    test: str | FilePair | None = None
    held_out: Size | Annotated[float, msgspec.Meta(gt=0, lt=1)] = 0.1
    test_held_out: Annotated[int, msgspec.Meta(ge=0)] = 0
    field: str = "path"
    label: str = "label"
    labels: str | None = None
    separator: Annotated[str, msgspec.Meta(min_length=1)] = ";"
    numbers: tuple[str, ...] = ()
    metadata: tuple[str, ...] = ()
    group: str | None = None
    classes: tuple[str, ...] | None = None
    size: tuple[Size, Size] | None = None
    channels: Literal[1, 3] | None = None
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    augment: Augment = msgspec.field(default_factory=Augment)
    smoothing: Annotated[float, msgspec.Meta(ge=0, lt=1)] = 0.0
    views: Views = msgspec.field(default_factory=Views)


@dataclass(frozen=True)
class ImageSet:
    """Pictures uint8 [N, C, H, W] and the target of each: some rows of a block, which is not copied.

    all_names, all_sizes  of the rows of the block: names, and rows and columns of each file; without sizes, those of the block
    all_others  of the rows of the block: cells in further columns of a table
    """

    block: Tensor
    targets: Sequence[Any]
    rows: Tensor
    all_names: Sequence[str] = ()
    all_sizes: Tensor | None = None
    all_others: Sequence[OtherCells] = ()

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, which: Any) -> Tensor:
        """Pictures at these indices, copied."""
        return self.block[self.rows[which]]

    @property
    def images(self) -> Tensor:
        return self[:]

    @property
    def names(self) -> list[str]:
        """The name of each picture: its file, or its number in an idx file."""
        return [self.all_names[i] if self.all_names else f"picture {i + 1}" for i in self.rows.tolist()]

    def cut(self, which: Tensor) -> "ImageSet":
        targets = [self.targets[i] for i in which.tolist()]
        return ImageSet(self.block, targets, self.rows[which], self.all_names, self.all_sizes, self.all_others)

    @property
    def others(self) -> list[OtherCells]:
        """Cells of each picture in further columns; empty ones without a table."""
        return [self.all_others[i] if self.all_others else OtherCells() for i in self.rows.tolist()]

    @property
    def sizes(self) -> Tensor:
        """Rows and columns [N, 2] of each file, before it was resized."""
        if self.all_sizes is None:
            return torch.tensor(self.block.shape[-2:]).expand(len(self), 2)
        return self.all_sizes[self.rows]


class Pictures:
    """The pictures of an `Images` recipe, opened and checked: `parts` train, validation and, if there is one, test.

    raises  InputError with the file, and the location in it, of what is missing, damaged, of another size, or of an unknown class
    """

    def __init__(
        self, config: Images, seed: int = 0, recipe_folder: Path | None = None, bytes_in_memory: int = IN_MEMORY
    ) -> None:  # fmt: skip
        self.config, self.seed, self.bytes_in_memory = config, seed, bytes_in_memory
        check_targets(config)
        if config.classes is not None and target_kind(config) != "class":
            raise InputError(f"data.classes names classes, but {target_kind(config)} are predicted. Leave one of them out.")
        if twice := sorted({name for name in config.classes or () if (config.classes or ()).count(name) > 1}):
            raise InputError(f"data.classes names {twice[0]!r} twice. Name each class once, in the order of the labels.")
        named: dict[str, str | FilePair | None] = named_parts(config)
        self.notes: list[str] = []
        if isinstance(config.train, str):
            read = ("test",) if config.test_held_out else ()
            whole = {part: name if name is None or isinstance(name, str) else " ".join(name) for part, name in named.items()}
            parts, self.notes = spread(whole, recipe_folder, is_picture, True, read)
            named |= {part: name for part, name in parts.items() if name != whole[part]}
            named |= self._array_parts(named, recipe_folder)
        self.sources: list[DataFile] = []
        self.classes, self.size, self.channels = config.classes, config.size, config.channels
        self.parts: dict[str, ImageSet] = {}
        for part, name in named.items():
            if name is not None:
                self.parts[part] = self._read(part, name, recipe_folder)
        check_groups(config, [one.group for one in self.parts["train"].others])
        if config.test_held_out:
            self.parts["train"], self.parts["test"] = self._split(config.test_held_out, "test_held_out")
        if "validation" not in self.parts:
            self.parts["train"], self.parts["validation"] = self._split(config.held_out, "held_out")
        self._check()
        self.mean, self.std = _channel_statistics(self.parts["train"], config)
        self.sampler, self.draws = Sampler(len(self.parts["train"]), seed), Draws(len(self.parts["train"]), seed)

    @classmethod
    def from_files(
        cls, config: Images, classes: tuple[str, ...] | None, size: tuple[int, int], channels: Literal[1, 3], part: str,
        names: Sequence[str],
    ) -> Self:  # fmt: skip
        """New pictures as the one part, converted to the size and channels of a run.

        classes  of the run, of which theirs must be; None where labels or numbers are predicted
        """
        pictures = cls.__new__(cls)
        pictures.bytes_in_memory = IN_MEMORY
        pictures.config = msgspec.structs.replace(config, size=size)
        pictures.classes, pictures.size, pictures.channels, pictures.sources, pictures.notes = classes, size, channels, [], []
        if len(names) > 2:
            raise InputError(f"Pictures are in one place, or in a pair of idx files, but got {len(names)}. Give one or two.")
        if len(names) == 2 and (other := next((p for n in names for p in find_files(n) if p.is_dir() or is_archive(p)), None)):
            raise InputError(f"Two names are a pair of idx files, but {other} is none. Give one folder, archive or table.")
        if len(names) == 1:
            one_part(_one(names[0], None), is_picture, True)
        pictures.parts = {part: pictures._read(part, names[0] if len(names) == 1 else (names[0], names[1]), None)}
        return pictures

    def batch(self, step: int, size: int, share: int = 0, shares: int = 1) -> dict[str, Tensor]:
        """The pictures share, share + shares, ... of a step, as inputs of a model.

        returns  inputs [B, C, H, W], rows [B] of the training part; in a step with mixing also other [B], the row of the second
                 picture, and part [B], the weight of the first
        """
        config = self.config.augment
        examples = self.sampler.batch(step, size)
        own = list(range(share, size, shares))
        mixed = mixture(config, self.seed, step, size, *self.parts["train"].block.shape[-2:]) if config.mixes else None
        x, rows = self._augmented([examples[i] for i in own])
        if mixed is None:
            return {"inputs": x, "rows": rows}
        other, keep, part = (t[own] for t in mixed)
        y, others = self._augmented([examples[int(i)] for i in other])
        return {"inputs": keep * x + (1 - keep) * y, "rows": rows, "other": others, "part": part}

    def _augmented(self, examples: list[tuple[int, int]]) -> tuple[Tensor, Tensor]:
        rows = torch.tensor([example for _, example in examples])
        return augmented(self.parts["train"][rows], self.draws.of(examples), self.config.augment, self.mean, self.std), rows

    def _array_parts(self, named: dict[str, str | FilePair | None], recipe_folder: Path | None) -> dict[str, str]:
        """The parts that the .npz file of train has too. Raises InputError if the recipe also defines one of them."""
        name = named["train"]
        path = _one(name, recipe_folder) if isinstance(name, str) else Path()
        if path.suffix.lower() != ".npz" or (parts := array_parts(path)) in ([], [""]):
            return {}
        if "train" not in parts:
            raise InputError(f"{path} has the parts {', '.join(parts)}, and none to learn from. Name another file as data.train.")
        taken = {part for part, other in named.items() if other is not None} | ({"test"} if self.config.test_held_out else set())
        if twice := next((part for part in parts if part != "train" and part in taken), None):
            raise InputError(f"The {twice} part is defined twice: by the recipe, and by {path}. Leave it out of the recipe.")
        self.notes.append(f"{path} has the parts {', '.join(parts)}.")
        return {part: str(name) for part in parts if part != "train"}

    def _read(self, part: str, name: str | FilePair, recipe_folder: Path | None) -> ImageSet:
        if not isinstance(name, str):
            return self._read_pair(part, [_one(n, recipe_folder) for n in name])
        path = _one(name, recipe_folder)
        given = list_pictures(path, self.config, part)
        self.notes += separator_notes([path], (self.config.field, *target_columns(self.config)))
        self.sources.append(source_of(path, given.files, part))
        faults = Faults()
        if target_kind(self.config) == "class":
            self._check_classes(given, faults)
        return self._fitted(given, given.targets, given.names, faults)

    def _split_groups(self, held: float, what: str) -> tuple[ImageSet, ImageSet]:
        """The training part without some whole groups, and these. held: a share; or a count, of each class."""
        train = self.parts["train"]
        groups = Groups(len(train))
        groups.join_equal(one.group or None for one in train.others)
        count = held * len(train) if isinstance(held, float) else held * max(1, len(self.classes or ()))
        out = held_out(groups, round(count), self.seed, what)
        chosen = torch.zeros(len(train), dtype=torch.bool)
        chosen[out] = True
        return train.cut((~chosen).nonzero()[:, 0]), train.cut(chosen.nonzero()[:, 0])

    def _check_classes(self, given: PictureList, faults: Faults) -> None:
        """Add a fault for each picture of an unknown class; those of the first part become known."""
        if self.classes is None:
            self.classes = tuple(sorted(set(given.targets), key=by_value))
        known = set(self.classes)
        for where, name in zip(given.names, given.targets, strict=True):
            if name not in known:
                faults.add(f"{where} has the class {name!r}, which is none of: {', '.join(self.classes)}.", where)

    def _read_pair(self, part: str, paths: list[Path]) -> ImageSet:
        """idx files: pictures and labels."""
        only_classes(self.config, f"{paths[0]} and {paths[1]} are idx files")
        self.sources += sources({part: paths})
        images, labels = read_idx(paths[0], PICTURES), read_idx(paths[1], LABELS)
        if len(images) != len(labels):
            raise InputError(
                f"{paths[0]} has {counted(len(images), 'picture')}, but {paths[1]} has "
                f"{counted(len(labels), 'label')}: they are no pair."
            )
        if self.classes is None:
            self.classes = tuple(map(str, range(int(labels.max()) + 1)))
        wrong = np.flatnonzero(labels >= len(self.classes))
        if len(wrong):
            more = f", and {counted(len(wrong) - 1, 'more label is', 'more labels are')} wrong" if len(wrong) > 1 else ""
            raise InputError(
                f"{paths[1]}: label {wrong[0] + 1} is {labels[wrong[0]]}, but there are {len(self.classes)} classes, "
                f"0 to {len(self.classes) - 1}{more}. Name them all in data.classes, or mend the file."
            )
        names_of_classes = [self.classes[label] for label in labels.tolist()]
        if self.channels in (None, 1) and self.size in (None, images.shape[1:]):  # as they are
            self.channels, self.size = 1, (images.shape[1], images.shape[2])
            return ImageSet(torch.from_numpy(images).unsqueeze(1), names_of_classes, torch.arange(len(images)))
        from PIL import Image

        names = [f"{paths[0]}, picture {i + 1}" for i in range(len(images))]
        return self._fitted(PictureList(paths, names, [], lambda i: Image.fromarray(images[i])), names_of_classes)

    def _fitted(
        self, given: "PictureList", targets: Sequence[Any], names: Sequence[str] = (), faults: Faults | None = None
    ) -> ImageSet:  # fmt: skip
        """Pictures of one size and number of channels: those of the first picture, if the recipe has none.

        faults  that were found before, which are raised with those of pictures
        """
        block: np.ndarray | None = None
        sizes, faults = torch.zeros(len(given.names), 2, dtype=torch.long), faults or Faults()
        for i, where in enumerate(given.names):
            with faults.caught(where):
                picture = given.read(i)
                shape = (picture.height, picture.width)
                self.channels = self.channels or (1 if picture.mode in ("1", "L", "LA") else 3)
                self.size = self.size or shape
                if self.config.size is None and shape != self.size:
                    raise InputError(
                        f"{where} has {shape[0]}×{shape[1]} pixels, but those before it {self.size[0]}×{self.size[1]}. "
                        f"Set data.size = [{self.size[0]}, {self.size[1]}] to bring all to one size."
                    )
                if block is None:
                    block = _block(len(given.names), self.channels, *self.size, in_memory=self.bytes_in_memory)
                block[i], sizes[i] = converted(picture, self.size, self.channels), torch.tensor(shape)
        faults.check()
        assert block is not None
        return ImageSet(torch.from_numpy(block), targets, torch.arange(len(targets)), names, sizes, given.others)

    def _split(self, held: float, what: str) -> tuple[ImageSet, ImageSet]:
        """The training part without some pictures, and these: the last ones, per class, except for idx files; of labels and
        numbers, random ones.
        """
        train, of = self.parts["train"], "the training part"
        if self.config.group:
            return self._split_groups(held, what)
        groups = [torch.arange(len(train))]
        if target_kind(self.config) != "class":  # a table may be sorted by its numbers
            groups = [torch.tensor(sorted(range(len(train)), key=lambda i: derived_seed(self.seed, what, i)))]
        elif isinstance(self.config.train, str):
            of, rows = "the class {!r}", defaultdict[str, list[int]](list)
            for i, name in enumerate(train.targets):
                rows[name].append(i)
            groups = [torch.tensor(rows[name]) for name in self.classes or () if name in rows]
        first, last = [], []
        for group in groups:
            count = max(1, round(len(group) * held)) if isinstance(held, float) else held
            if count >= len(group):
                of = of.format(train.targets[int(group[0])])
                raise InputError(f"data.{what} = {held} takes {count} of {counted(len(group), 'picture')} of {of}. Hold fewer out.")
            first.append(group[: len(group) - count])
            last.append(group[len(group) - count :])
        return train.cut(torch.cat(first).sort().values), train.cut(torch.cat(last).sort().values)

    def _check(self) -> None:
        """Check that every class has training pictures, and that the sizes fit."""
        there = set(self.parts["train"].targets) if self.classes is not None else set()
        if empty := [name for name in self.classes or () if name not in there]:
            raise InputError(
                f"The training part has no picture of the class {empty[0]!r}. Leave it out of data.classes, or give pictures of it."
            )
        if self.classes is not None and len(self.classes) < 2:
            raise InputError(f"There is one class, {self.classes[0]!r}, so there is nothing to learn. Give two or more.")
        assert self.size is not None
        if self.config.views.shift >= min(self.size):
            raise InputError(
                f"data.views.shift = {self.config.views.shift} moves pictures of {self.size[0]}×{self.size[1]} pixels "
                "out of sight. One or two are usual."
            )


def unlabelled_pictures(config: Images, names: Sequence[str], size: tuple[int, int], channels: int) -> ImageSet:
    """Pictures without targets, converted to one size. names: as for `unlabelled`."""
    given = [unlabelled(path, config) for name in names for path in find_files(name)]
    called = [where for one in given for where in one.names]
    block, sizes = _block(len(called), channels, *size), torch.zeros(len(called), 2, dtype=torch.long)
    faults = Faults()
    readers = [partial(one.read, number) for one in given for number in range(len(one.names))]
    for i, read in enumerate(readers):
        with faults.caught(called[i]):
            picture = read()
            block[i], sizes[i] = converted(picture, size, channels), torch.tensor((picture.height, picture.width))
    faults.check()
    others = [cells for one in given for cells in (one.others or [OtherCells()] * len(one.names))]
    return ImageSet(torch.from_numpy(block), [None] * len(called), torch.arange(len(called)), called, sizes, others)


def normal(images: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    """Bytes [B, C, H, W] to normalised floats."""
    return (images.to(torch.float32) / 255 - mean.view(-1, 1, 1)) / std.view(-1, 1, 1)


def _one(name: str, recipe_folder: Path | None) -> Path:
    paths = find_files(name, recipe_folder)
    if len(paths) > 1:
        raise InputError(
            f"{name} is {len(paths)} files, but pictures come from one: a folder, an archive, a table or a pair of idx files."
        )
    return paths[0]


def _block(*shape: int, in_memory: int = IN_MEMORY) -> np.ndarray:
    """An array of bytes; a large one is an unnamed temporary file, which ends with the process."""
    if math.prod(shape) <= in_memory:
        return np.empty(shape, np.uint8)
    with tempfile.TemporaryFile() as file:
        return np.memmap(file, np.uint8, "w+", shape=shape)


def _channel_statistics(train: ImageSet, config: Images, at_once: int = 2**12) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of each channel, in 0..1: given, or measured with integer sums, so the same on every machine."""
    channels = train.block.shape[1]
    for name, given in (("mean", config.mean), ("std", config.std)):
        if given is not None and (len(given) != channels or (name == "std" and min(given) < LEAST)):
            raise InputError(
                f"data.{name} has one number for each of {channels} channels, std above 0 (1e-4 or more), but got {list(given)}."
            )
    counts = torch.zeros(channels, 256, dtype=torch.float64)
    for first in range(0, len(train), at_once):
        for c, images in enumerate(train[first : first + at_once].unbind(1)):
            counts[c] += torch.bincount(images.flatten(), minlength=256)
    levels, many = torch.arange(256).double() / 255, counts.sum(-1)
    mean = (counts @ levels) / many
    std = ((counts @ levels**2) / many - mean**2).clamp(min=0).sqrt()
    std = std.masked_fill(std < 1e-7, 0.0)  # rounding
    if config.std is None and not std.any():
        raise InputError("All training pictures are of one even colour, so there is nothing to learn. Look at the files.")
    return (
        torch.tensor(config.mean) if config.mean is not None else mean.float(),
        torch.tensor(config.std) if config.std is not None else std.masked_fill(std == 0, 1.0).float(),
    )


def by_value(name: str) -> tuple[int, str]:
    """Sort key: numbers by value, words alphabetically."""
    return (int(name), "") if name.isdecimal() else (-1, name)
