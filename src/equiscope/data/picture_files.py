"""Picture files: idx files, arrays, folders of classes, archives of these, and tables become pictures with class names."""

import base64
import hashlib
import io
import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from equiscope import budgets
from equiscope.budgets import DAMAGED, archive, undamaged
from equiscope.data.faults import Faults
from equiscope.data.files import digest, is_archive, is_hidden, open_file, sources
from equiscope.data.picture_arrays import array_parts, picture_arrays
from equiscope.data.split_folders import no_parts
from equiscope.data.targets import FileTable, ListedFile, OtherCells, TargetColumns, file_table, listed_files, only_classes
from equiscope.errors import InputError
from equiscope.record import DataFile
from equiscope.tokens.images import picture, without_warnings

if TYPE_CHECKING:
    from PIL import Image

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm")
PICTURES, LABELS = 0x803, 0x801  # how idx files begin: bytes, on three axes and on one


def read_idx(path: Path, magic: int) -> np.ndarray:
    """Bytes of an idx file: [N, H, W] (magic 0x803) or [N] (0x801). An uncompressed file is memory-mapped.

    raises  InputError if the magic number or the length does not fit
    """
    axes, what = magic & 0xFF, "pictures" if magic == PICTURES else "labels"
    try:
        if path.suffix not in (".gz", ".xz", ".bz2"):
            data: np.ndarray = np.memmap(path, np.uint8, "c")
        else:
            with open_file(path) as file:
                data = np.frombuffer(bytearray(file.read()), np.uint8)
    except DAMAGED as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path} cannot be read: {error}. Fetch it again.") from error
    start = int.from_bytes(data[:4].tobytes(), "big")
    if start != magic and len(data) >= 4:
        raise InputError(
            f"{path} is no idx file of {what}: it begins with 0x{start:08x}, not 0x{magic:08x}. "
            "A pair is two files, the pictures first: [images, labels]."
        )
    if len(data) < 4 * (1 + axes):
        raise InputError(
            f"{path} is no idx file of {what}: it is too short, {len(data)} bytes where {4 * (1 + axes)} stand in front. "
            "Fetch it again."
        )
    shape = tuple(int(n) for n in np.frombuffer(data[4 : 4 * (1 + axes)].tobytes(), ">u4"))
    if math.prod(shape) != len(data) - 4 * (1 + axes) or not math.prod(shape):
        raise InputError(
            f"{path} says {'×'.join(map(str, shape))} = {math.prod(shape)} bytes, but has {len(data) - 4 * (1 + axes)}. "
            "Fetch it again."
        )
    return data[4 * (1 + axes) :].reshape(shape)


def converted(image: "Image.Image", size: tuple[int, int], channels: int) -> np.ndarray:
    """A picture as bytes [C, H, W]: grey or colour, resized to fit the shorter side and cropped at the centre.

    What is transparent is laid on white.
    """
    from PIL import Image, ImageOps

    with without_warnings():
        if image.has_transparency_data:
            above = image.convert("RGBA")
            image = Image.alpha_composite(Image.new("RGBA", above.size, "white"), above)
        plain = image.convert("RGB") if image.mode == "LAB" else image  # which Pillow brings to colours only
        plain = plain.convert("L" if channels == 1 else "RGB")
    if (plain.height, plain.width) != size:
        plain = ImageOps.fit(plain, size[::-1], Image.Resampling.BICUBIC)
    return np.atleast_3d(np.asarray(plain)).transpose(2, 0, 1)


def address(pixels: np.ndarray) -> str:
    """A picture of bytes [C, H, W] as a data: URL of a PNG, for pages without a server."""
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(pixels.transpose(1, 2, 0).squeeze())).save(file, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode("ascii")


@dataclass(frozen=True)
class PictureList:
    """Pictures that are not loaded yet: their names, targets, and a function that reads one by its number.

    files    that are read for them
    targets  of each: the name of its class, a list of labels, or a list of numbers; empty where none are read
    others   cells in further columns of a table; empty without one
    """

    files: list[Path]
    names: list[str]
    targets: list[Any]
    read: "Callable[[int], Image.Image]"
    others: Sequence[OtherCells] = ()


def list_pictures(path: Path, config: TargetColumns, part: str = "") -> PictureList:
    """Pictures and their targets: of a table, by itself or in a folder or an archive, of arrays, or of folders whose names are
    classes. part: of arrays in parts.
    """
    if (table := file_table(path, config, needed=True)) is not None:
        return _table(path, table, config)
    if path.is_dir():
        only_classes(config, f"{path} is a folder")
        return _folder(path)
    if is_archive(path):
        only_classes(config, f"{path} is an archive")
        return _archive(path)
    if path.suffix.lower() == ".npz":
        only_classes(config, f"{path} holds arrays")
        return _arrays(path, part)
    raise InputError(
        f"{path} is no folder, archive (.tar, .tar.gz, .tar.xz, .zip), table (.csv, .tsv, .jsonl) or .npz. "
        "A pair of idx files is two names: the pictures, and their labels."
    )


def unlabelled(path: Path, config: TargetColumns) -> PictureList:
    """Pictures without targets: one file; all of a folder or an archive; those that a table names; those of an idx file."""
    if not path.is_dir() and (table := file_table(path, config, labelled=False)) is not None:
        return _table(path, table, config, labelled=False)
    if path.is_dir():
        files = _pictures(path)
        if not files:
            raise InputError(f"{path} has no picture ({', '.join(SUFFIXES)}).")
        return PictureList(files, [str(f) for f in files], [], lambda i: picture(files[i], str(files[i])))
    if is_archive(path):
        names, read = _archived(path)
        if not names:
            raise InputError(f"{path} has no picture ({', '.join(SUFFIXES)}).")
        return PictureList([path], [f"{path}: {name}" for name in names], [], read)
    if path.suffix.lower() == ".npz":
        return _unlabelled_arrays(path)
    if _is_idx(path):
        from PIL import Image

        images = read_idx(path, PICTURES)
        return PictureList(
            [path], [f"{path}, picture {i + 1}" for i in range(len(images))], [], lambda i: Image.fromarray(images[i])
        )
    return PictureList([path], [str(path)], [], lambda i: picture(path, str(path)))


def _is_idx(path: Path) -> bool:
    """Whether a file is compressed, which only idx files are among pictures, or starts like an idx file."""
    if path.suffix.lower() in (".gz", ".xz", ".bz2"):
        return True
    try:
        with open_file(path) as file:
            return int.from_bytes(file.read(4), "big") in (PICTURES, LABELS)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from error


def _pictures(folder: Path) -> list[Path]:
    """The picture files of a folder and its subfolders, sorted."""
    return sorted(
        f
        for f in budgets.listed(folder.rglob("*"), folder)
        if f.is_file() and is_picture(f) and not is_hidden(f.relative_to(folder))
    )


def _folder(path: Path) -> PictureList:
    """FOLDER/class/picture.png, also in subfolders of a class."""
    folders = sorted(f for f in budgets.listed(path.iterdir(), path) if f.is_dir() and not is_hidden(Path(f.name)))
    if not folders:
        raise InputError(f"{path} has no folders, one for each class, with pictures in them.")
    files: list[Path] = []
    labels: list[str] = []
    faults = Faults()
    for folder in folders:
        own = _pictures(folder)
        if not own:
            faults.add(f"{folder} has no picture ({', '.join(SUFFIXES)}). Put some in, or take the folder away.", str(folder))
        files += own
        labels += [folder.name] * len(own)
    faults.check()
    return PictureList(files, [str(f) for f in files], labels, lambda i: picture(files[i], str(files[i])))


def is_picture(path: Path) -> bool:
    """Whether a name is that of a picture, and not hidden."""
    return path.suffix.lower() in SUFFIXES and not path.name.startswith(".")


def _archive(path: Path) -> PictureList:
    """The same in an archive, in any folder above the classes."""
    names, read = _archived(path)
    no_parts(path, names)
    tops = sorted({str(Path(name).parent.parent) for name in names})
    if loose := [name for name in names if not Path(name).parent.name]:
        raise InputError(
            f"{path}: {loose[0]} lies in no folder that could be its class. Put the pictures of each class into a folder, or give "
            "a table with the columns path and label."
        )
    if len(tops) != 1:
        raise InputError(
            f"{path} has {'no pictures' if not names else 'pictures in classes of several folders: ' + ', '.join(tops)}. "
            "It takes one folder for each class, side by side; unpack it, and name the folder that has them."
        )
    return PictureList([path], [f"{path}: {name}" for name in names], [Path(name).parent.name for name in names], read)


def _archived(path: Path) -> "tuple[list[str], Callable[[int], Image.Image]]":
    """The names of the pictures in an archive, sorted, and a function that reads one by its number."""
    content: dict[str, bytes] = {}
    with undamaged(path), archive(path) as held:
        for member in held:
            if is_picture(Path(member.name)):
                content[member.name] = held.read(member)
    names = sorted(content)
    return names, lambda i: picture(content[names[i]], f"{path}: {names[i]}")


def _arrays(path: Path, part: str) -> PictureList:
    """An .npz file, or a part of it. Raises InputError for several parts of which none is named."""
    from PIL import Image

    parts = array_parts(path)
    if parts not in ([""], []) and part not in parts:
        raise InputError(
            f"{path} has the parts {', '.join(parts)}, and one is needed here. Write it by itself: "
            'numpy.savez("test.npz", images=..., labels=...).'
        )
    part = part if part in parts else ""
    found = picture_arrays(path, part)
    if found.labels is None:
        raise InputError(f"{path} has pictures, but no labels. Write them with numpy.savez: images=..., labels=...")
    names = [f"{path}, {f'{part} ' if part else ''}picture {i + 1}" for i in range(len(found.images))]
    return PictureList([path], names, found.labels, lambda i: Image.fromarray(found.images[i]))


def _unlabelled_arrays(path: Path) -> PictureList:
    """The pictures of an .npz file, those of all its parts."""
    from PIL import Image

    each = {part: picture_arrays(path, part).images for part in array_parts(path) or [""]}
    names = [f"{path}, {f'{part} ' if part else ''}picture {i + 1}" for part, images in each.items() for i in range(len(images))]
    whole = [one for images in each.values() for one in images]
    return PictureList([path], names, [], lambda i: Image.fromarray(whole[i]))


def _table(path: Path, table: FileTable, config: TargetColumns, labelled: bool = True) -> PictureList:
    """The pictures that a table names in its column `field`. path: of the table, or of the folder or archive that has it."""
    rows = listed_files(table, config, labelled)
    targets = [row.target for row in rows] if labelled else []
    files = [path] if table.contents is not None else [Path(table.name), *(row.file for row in rows)]
    return PictureList(
        files, [row.where for row in rows], targets, lambda i: picture(_content(rows[i]), rows[i].where),
        [row.others for row in rows],
    )  # fmt: skip


def _content(row: ListedFile) -> bytes | Path:
    return row.file if row.content is None else row.content


def source_of(path: Path, files: list[Path], part: str) -> DataFile:
    """A file itself; or a folder or table as one source: the digest of the names and digests of all its files."""
    if files == [path]:
        whole = sources({part: files})[0]
        if path.suffix.lower() != ".npz" or part not in array_parts(path):
            return whole
        digest_of_part = hashlib.sha256(f"{part} {whole.sha256}".encode()).hexdigest()
        return DataFile(name=f"{whole.name}: {part}", part=part, bytes=whole.bytes, sha256=digest_of_part)
    listing = "\n".join(f"{os.path.relpath(f, path)} {digest(f)}" for f in files)
    size = sum(f.stat().st_size for f in files)
    name, known = "/".join(path.absolute().parts[-2:]), hashlib.sha256(listing.encode()).hexdigest()
    return DataFile(name=name, part=part, bytes=size, sha256=known)
