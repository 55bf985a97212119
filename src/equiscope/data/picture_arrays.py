"""Picture arrays: an .npz file with an array of pictures and one of labels, or with such a pair for each part.

images, labels                            also x, y; pictures, targets; ...
train_images, train_labels, val_images    one pair for each part, as MedMNIST stores them; or x_train, y_train, as Keras does
"""

import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from equiscope import budgets
from equiscope.budgets import DAMAGED
from equiscope.data.split_folders import NAMES
from equiscope.errors import InputError, counted

SIXTEEN = 257  # by which shades of 16 bits, up to 65,535, become shades of 8 bits, up to 255
IMAGES, LABELS = ("images", "image", "x", "pictures", "pixels"), ("labels", "label", "y", "targets", "target", "classes")


@dataclass(frozen=True)
class PictureArrays:
    """Pictures uint8 [N, H, W] or [N, H, W, 3], and their labels [N] as text; None in a file without labels.

    brightest  the largest shade in the file
    """

    images: np.ndarray
    labels: list[str] | None
    brightest: float


def holds_pictures(path: Path) -> bool:
    """Whether a file is an .npz with an array of pictures by its names. False for one that cannot be read."""
    if path.suffix.lower() != ".npz" or not path.is_file():
        return False
    try:
        with np.load(path, allow_pickle=False) as held:
            return bool(_pairs(held.files))
    except (*DAMAGED, ValueError, zipfile.BadZipFile):
        return False


def array_parts(path: Path) -> list[str]:
    """The parts that a file has: "train", "validation", "test"; or a single "" for one pair without a part."""
    return list(_pairs(_read(path, [])[0]))


def picture_arrays(path: Path, part: str = "") -> PictureArrays:
    """The pictures and labels of a file, or of one of its parts.

    raises  InputError with the array that is missing, or has another shape or other values
    """
    names, _ = _read(path, [])
    pairs = _pairs(names)
    if part not in pairs:
        has = f"the arrays {', '.join(names)}" if names else "no array"
        raise InputError(
            f"{path} has {has}, but no pictures{f' of the {part} part' if part else ''}. Write them with "
            f'numpy.savez("{path.name}", images=..., labels=...).'
        )
    images_name, labels_name = pairs[part]
    _, arrays = _read(path, [name for name in (images_name, labels_name) if name])
    images = _bytes(arrays[images_name], f"{path}, array {images_name}")
    labels = _labels(arrays[labels_name], f"{path}, array {labels_name}", len(images)) if labels_name else None
    return PictureArrays(images, labels, float(arrays[images_name].max()))


def _pairs(names: Sequence[str]) -> dict[str, tuple[str, str]]:
    """The names of pictures and labels by part; of the labels, an empty one if there are none."""
    found: dict[str, tuple[str, str]] = {}
    lower = {name.lower(): name for name in names}
    spelled = {"": ("",), **NAMES}
    for part, words in spelled.items():
        for word in words:
            ways = [(f"{word}_{{}}", word), (f"{{}}_{word}", word)] if word else [("{}", "")]
            for way, _ in ways:
                images = next((lower[way.format(one)] for one in IMAGES if way.format(one) in lower), None)
                labels = next((lower[way.format(one)] for one in LABELS if way.format(one) in lower), "")
                if images is not None:
                    found.setdefault(part, (images, labels))
    if "" in found and len(found) > 1:
        del found[""]
    return found


def _read(path: Path, wanted: Sequence[str]) -> tuple[list[str], dict[str, np.ndarray]]:
    """The names of the arrays of a file, and those that are wanted."""
    try:
        budgets.regular(path)
        with np.load(path, allow_pickle=False) as held:
            return list(held.files), {name: held[name] for name in wanted}
    except (*DAMAGED, MemoryError, NotImplementedError, RuntimeError, SyntaxError, ValueError, zipfile.BadZipFile) as error:
        if isinstance(error, InputError):
            raise
        pickled = "allow_pickle" in str(error)
        why = "it holds Python objects, which may run code" if pickled else str(error).rstrip(".")
        raise InputError(f"{path} cannot be read: {why}. Give an .npz file of numbers.") from error


def _bytes(x: np.ndarray, where: str) -> np.ndarray:
    """Pictures as bytes [N, H, W] or [N, H, W, 3], from bytes, numbers of 0 to 1, of 0 to 255, or of 16 bits."""
    if x.ndim == 4 and x.shape[-1] not in (1, 3, 4) and x.shape[1] in (1, 3, 4):
        x = np.moveaxis(x, 1, -1)
    if x.ndim == 4 and x.shape[-1] in (1, 4):
        x = x[..., 0] if x.shape[-1] == 1 else x[..., :3]
    if x.size == 0:
        raise InputError(f"{where} is of shape {list(x.shape)}: it holds no picture. Give an array that has some.")
    if x.ndim not in (3, 4) or (x.ndim == 4 and x.shape[-1] != 3):
        raise InputError(
            f"{where} is of shape {list(x.shape)}. Pictures are [pictures, rows, columns], with a last axis of 3 for colour."
        )
    if x.dtype == np.uint8:
        return x
    if x.dtype == bool:
        return x.astype(np.uint8) * np.uint8(255)
    if x.dtype.kind not in "iuf":
        raise InputError(f"{where} holds {x.dtype}, and pictures are numbers.")
    low, high = float(x.min()), float(x.max())
    if not (low >= 0 and high <= 65535):  # also NaN
        raise InputError(f"{where} has values from {low:.4g} to {high:.4g}. Give shades of 0 to 255, or of 0 to 1.")
    if x.dtype.kind == "f" and high <= 1:
        return np.rint(x * 255).astype(np.uint8)
    if high > 255:
        return np.rint(x.astype(np.float32) / SIXTEEN).astype(np.uint8)
    return np.rint(x).astype(np.uint8)


def _labels(y: np.ndarray, where: str, count: int) -> list[str]:
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim != 1 or y.dtype.kind not in "iubfSU" or (y.dtype.kind == "f" and not np.array_equal(y, np.rint(y))):
        raise InputError(f"{where} is of shape {list(y.shape)} and type {y.dtype}. Labels are [pictures]: whole numbers or names.")
    if len(y) != count:
        raise InputError(f"{where} has {counted(len(y), 'label')} for {counted(count, 'picture')}. Give one label for each.")
    if y.dtype.kind == "S":
        y = np.char.decode(y, "utf-8")
    return [str(one) for one in (y.astype(np.int64) if y.dtype.kind in "bf" else y).tolist()]
