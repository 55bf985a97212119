"""Budgets: how much of a file is read, how deep it may be nested, and how long a pipe may be silent.

Files are not trusted: a small one may decompress to more than the memory, and a pipe may stay silent. Input beyond a budget is
refused with a message that states the budget. Budgets are far above usual inputs and are not settings.
"""

import bz2
import gzip
import io
import json
import lzma
import os
import select
import stat
import tarfile
import time
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from equiscope.errors import InputError, OverBudget, printable, reason

T = TypeVar("T")

SETTINGS = 2**24  # bytes of a file that a person writes: a recipe, a spec, a config.json
XML = 2**26  # bytes of an XML file, which takes many times as much in memory
WHOLE = 2**30  # bytes of a file that is read at once: a table, a molecule, a tokenizer, a record
POINTS, SETS = 2**29, 10**6  # bytes of a file of molecules or of a mesh; and sets of points in it
UNFOLDED, TIMES = 2**28, 100  # bytes that what is compressed may unfold to at least; and so many times what is packed
PIXELS = 2**26  # of a picture
SAMPLES = 2**28  # of a sound, over all its channels
FRAMES = 2**27  # pixels of all frames of a video that are read
DEEP = 64  # brackets, or tables, within one another
ENTRIES = 2_000_000  # files of a folder
PATIENCE = 10.0  # seconds in which a pipe says nothing
PIECE = 2**20  # bytes that are read at a time
POINTER = b"version https://git-lfs.github.com"  # how a file begins that Git did not fetch
OPENERS: dict[str, Any] = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}
DAMAGED = (  # what readers of damaged files raise
    EOFError, OSError, ValueError, lzma.LZMAError, zlib.error, tarfile.TarError, zipfile.BadZipFile,
)  # fmt: skip


@contextmanager
def undamaged(path: Path) -> Iterator[None]:
    """What reads a file: where that raises DAMAGED, an InputError says so."""
    try:
        yield
    except DAMAGED as error:
        raise error if isinstance(error, InputError) else InputError(f"{path} is damaged: {error}. Fetch it again.") from error


def read(path: str | os.PathLike[str], most: int = WHOLE, patience: float = PATIENCE) -> bytes:
    """All of a file, or of what a pipe gives. What is compressed stays so.

    patience  seconds in which a pipe may give nothing
    raises  OSError where it cannot be opened, as `open` does; OverBudget where it holds more than `most` bytes, or is silent;
            InputError for a pointer of Git LFS
    """
    name = os.fspath(path)
    handle = os.open(name, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_BINARY", 0))
    with io.FileIO(handle) as file:
        status = os.fstat(handle)
        if stat.S_ISDIR(status.st_mode):
            raise IsADirectoryError(21, "Is a directory", name)
        if stat.S_ISREG(status.st_mode):
            if status.st_size > most:
                raise OverBudget(
                    f"{printable(path)} has {size(status.st_size)}; at most {size(most)} are read here. Make it smaller."
                )
            with io.BufferedReader(file) as whole:  # reads on where the system gives less than was asked
                content = whole.read(status.st_size or PIECE)  # memory is taken for what is asked; files of /proc say 0
            if content.startswith(POINTER):
                raise InputError(f"{printable(path)} {stand_in(content)}")
            return content
        return _piped(file, name, most, patience)


def _piped(file: io.FileIO, name: str, most: int, patience: float) -> bytes:
    """The content of a pipe, up to its end."""
    content, last_read = bytearray(), time.monotonic()
    subject = f"{printable(name)} is no regular file"
    while True:
        ready = bool(select.select([file], [], [], 0.1)[0])
        piece = file.read(PIECE) if ready else None
        if piece:
            content += piece
            last_read = time.monotonic()
            if len(content) > most:
                raise OverBudget(f"{subject}, and gives more than {size(most)}, which are read here at most. Give a smaller one.")
        elif piece == b"" and content:
            return bytes(content)
        elif time.monotonic() - last_read > patience:
            raise OverBudget(f"{subject}, and gave nothing for {patience:.0f} seconds. Write into it first, or give a file.")
        elif piece == b"":  # no process has opened the pipe for writing
            if stat.S_ISCHR(os.fstat(file.fileno()).st_mode):
                return b""
            time.sleep(0.05)


def text(path: str | os.PathLike[str], most: int = SETTINGS) -> str:
    """A text file, without a byte order mark. Raises as `read`, and UnicodeDecodeError where it is not UTF-8."""
    return read(path, most).decode("utf-8-sig")


def regular(path: str | os.PathLike[str], what: str = "a file") -> None:
    """Raise InputError for a folder, a pipe, a device or a pointer of Git LFS, where a library opens the file itself or it is
    read more than once.
    """
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError as error:
        raise InputError(f"There is no file {printable(path)}. Give {what}.") from error
    except (OSError, ValueError) as error:
        raise InputError(f"{printable(path)} cannot be read: {reason(error)}. Give {what}.") from error
    if not stat.S_ISREG(mode):
        kind = "a folder" if stat.S_ISDIR(mode) else "a pipe" if stat.S_ISFIFO(mode) else "a device"
        raise InputError(f"{printable(path)} is {kind}, and no regular file. Give {what}.")
    with suppress(OSError), open(path, "rb") as file:  # its reader says why it cannot be opened
        if (start := file.read(len(POINTER))) == POINTER:
            raise InputError(f"{printable(path)} {stand_in(start)}")


def stand_in(start: bytes) -> str:
    """What a file that begins with these bytes is instead of data, and the next step, as the end of a sentence; else empty."""
    if not start:
        return "is empty: it has no bytes. Fetch it again, or leave it out."
    if start.startswith(POINTER):
        return "is a pointer of Git LFS, without the content. Fetch it: git lfs pull."
    if start[:1000].lstrip().lower().startswith((b"<!doctype html", b"<html")):
        return "is a web page, and not the file that was to be fetched. Fetch it again."
    return ""


def unfolded(path: str | os.PathLike[str]) -> int:
    """Bytes that a compressed file may unfold to."""
    return max(UNFOLDED, TIMES * os.stat(path).st_size)


def unpacked(path: str | os.PathLike[str], most: int = WHOLE, least: int = UNFOLDED) -> bytes:
    """All of a file, unfolded where its name says that it is compressed.

    least   bytes that it may unfold to: a file of many bytes may unfold to 100 times as many
    raises  as `read`, and what its packer raises where it is damaged (DAMAGED)
    """
    return unfolded_content(read(path, most), printable(path), most, least)


def unfolded_content(content: bytes, name: str, most: int = WHOLE, least: int = UNFOLDED) -> bytes:
    """The bytes of a file, unfolded where its name says that they are compressed. Raises as `unpacked`."""
    opener = OPENERS.get(Path(name).suffix.lower())
    if opener is None:
        return content
    with opener(io.BytesIO(content), "rb") as file:
        unfolded: bytes = Limited(file, name, min(most, max(least, TIMES * len(content)))).read()
    return unfolded


class Limited(io.RawIOBase):
    """A file that is decompressed while it is read, and refused if it holds more than `most` bytes."""

    def __init__(self, inner: Any, name: object, most: int) -> None:
        super().__init__()
        self.inner, self.title, self.most = inner, str(name), most

    def read(self, count: int | None = -1, /) -> bytes:
        left = self.most + 1 - self.inner.tell()
        content: bytes = self.inner.read(left if count is None or count < 0 else min(count, left))
        self._check()
        return content

    def readinto(self, into: Any, /) -> int:
        piece = self.read(len(into))
        into[: len(piece)] = piece
        return len(piece)

    def seek(self, offset: int, whence: int = 0, /) -> int:
        if whence == io.SEEK_SET and offset > self.most:
            self._refuse()
        position: int = self.inner.seek(offset, whence) if whence != io.SEEK_END else self._end(offset)
        self._check()
        return position

    def _end(self, offset: int) -> int:
        while self.read(PIECE):
            pass
        return int(self.inner.seek(max(0, self.inner.tell() + offset)))

    def tell(self) -> int:
        return int(self.inner.tell())

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return bool(self.inner.seekable())

    def close(self) -> None:
        self.inner.close()
        super().close()

    def _check(self) -> None:
        if self.inner.tell() > self.most:
            self._refuse()

    def _refuse(self) -> None:
        raise OverBudget(
            f"{self.title} unfolds to more than {size(self.most)}, which are read at most. Unpack it and cut it first."
        )


@dataclass(frozen=True)
class ArchiveMember:
    """A file of an archive: its name, its bytes when it is unfolded, and what the archive's reader calls it."""

    name: str
    size: int
    info: tarfile.TarInfo | zipfile.ZipInfo


class Archive:
    """A tar file, compressed or not, or a zip file, read up to its budget. Nothing is extracted to the disk."""

    def __init__(self, inner: tarfile.TarFile | zipfile.ZipFile, title: str, most: int) -> None:
        self.inner, self.title, self.left = inner, title, most

    def __iter__(self) -> Iterator[ArchiveMember]:
        """Its files; folders, links and devices are left out."""
        if isinstance(self.inner, zipfile.ZipFile):
            members = (ArchiveMember(one.filename, one.file_size, one) for one in self.inner.infolist() if not one.is_dir())
        else:
            members = (ArchiveMember(one.name, one.size, one) for one in self.inner if one.isfile())
        return listed(members, self.title)

    def open(self, one: ArchiveMember) -> Any:
        """A file of it.

        raises  OverBudget where all that were opened say that they hold more than is read; InputError for one with a password
        """
        self.left -= one.size
        if self.left < 0:
            raise OverBudget(f"{self.title} holds more than is read of an archive of its size. Unpack it first.")
        if isinstance(self.inner, tarfile.TarFile):
            assert isinstance(one.info, tarfile.TarInfo)
            return self.inner.extractfile(one.info)
        assert isinstance(one.info, zipfile.ZipInfo)
        if one.info.flag_bits & 1:
            raise InputError(f"{self.title}: {printable(one.name)} is locked by a password. Unpack the archive first.")
        try:
            return self.inner.open(one.info)
        except NotImplementedError as error:
            raise InputError(
                f"{self.title}: {printable(one.name)} is compressed in a way that is not read. Pack it again."
            ) from error

    def read(self, one: ArchiveMember) -> bytes:
        content: bytes = self.open(one).read()
        return content


@contextmanager
def archive(path: str | os.PathLike[str]) -> Iterator[Archive]:
    """A tar or zip file by its path; its first bytes say which.

    raises  what its readers raise where it is damaged (DAMAGED), OverBudget for one that unfolds to too much
    """
    regular(path, "an archive")
    title, most = printable(path), unfolded(path)
    with open(path, "rb") as file:
        start = file.read(6)
        file.seek(0)
        if start.startswith(b"PK"):
            with zipfile.ZipFile(file) as zipped:
                yield Archive(zipped, title, most)
            return
        signs = ((b"\x1f\x8b", gzip.open), (b"\xfd7zXZ\0", lzma.open), (b"BZh", bz2.open))
        opener: Any = next((opener for sign, opener in signs if start.startswith(sign)), None)
        inner: Any = file if opener is None else Limited(opener(file, "rb"), title, most)
        with tarfile.open(fileobj=inner, mode="r:") as tar:
            yield Archive(tar, title, most)


def listed(paths: Iterable[T], where: object) -> Iterator[T]:
    """The paths in a folder. Raises OverBudget if there are too many, and InputError for a name that is not UTF-8."""
    for number, path in enumerate(paths):
        if number >= ENTRIES:
            raise OverBudget(f"{printable(where)} has more than {ENTRIES:,} files, which are looked at most. Name a folder in it.")
        name = path.name if isinstance(path, ArchiveMember) else str(path)
        try:
            name.encode()
        except UnicodeEncodeError as error:
            raise InputError(f"{printable(name)} is a name with bytes that are not UTF-8. Rename it.") from error
        yield path


def decoded(content: bytes | str, kind: Any = Any) -> Any:
    """What JSON says, as that type. Raises msgspec.DecodeError where it says something else, or is nested too deep."""
    try:
        value = msgspec.json.decode(content, type=kind)
    except RecursionError as error:
        raise msgspec.DecodeError(TOO_DEEP) from error
    except UnicodeError as error:
        raise msgspec.DecodeError(f"it is not UTF-8: {error}") from error
    return value


def parsed(content: str) -> Any:
    """What JSON says, also with NaN and Infinity, as configs have them. Raises ValueError where it says nothing."""
    try:
        value = json.loads(content)
        json.dumps(value, ensure_ascii=False).encode()  # half a sign, such as "\\ud800", is no text
    except RecursionError as error:
        raise ValueError(TOO_DEEP) from error
    except UnicodeEncodeError as error:
        raise ValueError(f"it has half a sign, {error.object[error.start]!a}, which is no text") from error
    return value


TOO_DEEP = f"more than {DEEP} brackets or tables stand within one another"


def too_deep(data: Any) -> bool:
    """Whether lists and tables of plain data stand more than DEEP within one another."""
    level = [data]
    for _ in range(DEEP + 1):
        level = [
            one for held in level if isinstance(held, dict | list) for one in (held.values() if isinstance(held, dict) else held)
        ]
        level = [one for one in level if isinstance(one, dict | list)]
        if not level:
            return False
    return True


def size(count: int) -> str:
    """Bytes in words: "1.1 GB"."""
    for unit, name in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= unit:
            return f"{count / unit:.3g} {name}"
    return f"{count} bytes"
