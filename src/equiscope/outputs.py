"""Outputs: every file of the package is written here.

A regular file is written under an unguessable name in the same folder, brought to the disk, and takes its name at the end: it is
there whole or not at all, and another program that watches the folder cannot put a link where it is written. Anything else (a
terminal, a pipe, /dev/null) is written through and never replaced; of a link, its target is written.

`check` tests a destination before the work whose result it will hold; `write` raises the same errors afterwards.
"""

import errno
import os
import re
import select
import stat
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex

from equiscope.errors import InputError, Unwritable, printable, reason

PATIENCE = 10.0  # seconds that a pipe may take nothing
LINKS = 40  # that lead from one to the next, as the systems allow
PAGE = bytes(4096)  # what is written to see that a disk has room
KEPT_OUT = (errno.EACCES, errno.EPERM, errno.EROFS)  # a folder that takes no new file; a file in it may still be written
HANDLE = re.compile(r"/dev/fd/(\d+)|/proc/(?:self|thread-self|\d+)(?:/task/\d+)?/fd/(\d+)")


def check(path: str | os.PathLike[str], hint: str = "Choose another file.") -> None:
    """Raise Unwritable where a file of this name cannot be written. The file is unchanged, and no temporary file remains."""
    with _sentences(path, hint):
        name = _name(path)
        if (handle := handle_of(name)) is not None:
            os.fstat(handle)  # whether it is open
            return
        status = _status(name)
        if status is not None and not stat.S_ISREG(status.st_mode):
            _special(name, status.st_mode)
            return
        real = os.path.realpath(name)
        try:
            _try_folder(os.path.dirname(real))
        except OSError as error:
            if status is None or error.errno not in KEPT_OUT:
                raise
            os.close(os.open(real, os.O_WRONLY))  # overwritten directly, because the folder takes no new file
            return
        if status is not None and not os.access(real, os.W_OK):
            raise PermissionError(errno.EACCES, "it may only be read")


def check_folder(folder: str | os.PathLike[str], hint: str = "Choose another folder.") -> None:
    """As `check` for a folder of results, which need not exist yet."""
    with _sentences(folder, hint):
        real = os.path.realpath(folder)
        while not os.path.lexists(real) and (up := os.path.dirname(real)) != real:
            with suppress(FileNotFoundError):
                os.lstat(real)  # a name that is too long is said here
            real = up
        if os.path.islink(real):
            os.stat(real)  # links that lead in a circle are said here
        if not os.path.isdir(real):
            named = "it" if real == os.path.realpath(folder) else printable(real)
            raise NotADirectoryError(errno.ENOTDIR, f"{named} is a file, and no folder")
        _try_folder(real)


def check_files(folder: str | os.PathLike[str], names: Iterable[str], hint: str = "Choose another folder.") -> None:
    """As `check` for a folder of results and the files that will be written into it."""
    check_folder(folder, hint)
    for name in names if os.path.isdir(folder) else ():
        check(os.path.join(folder, name), hint)


def write(
    path: str | os.PathLike[str], content: str | bytes, hint: str = "Choose another file.", patience: float = PATIENCE
) -> Path:  # fmt: skip
    """Write a file, whole or not at all, and return its path.

    content   a text is written as UTF-8
    patience  seconds that a pipe may take nothing
    raises    Unwritable where that is not possible; then what was there is still there
    """
    with _sentences(path, hint):
        return put(path, content, patience)


def put(path: str | os.PathLike[str], content: str | bytes, patience: float = PATIENCE) -> Path:
    """As `write`, but raises OSError and ValueError unchanged."""
    data = content.encode("utf-8") if isinstance(content, str) else content
    name = _name(path)
    handle, status = handle_of(name), _status(name)
    if handle is not None:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()  # what was printed comes first
        _through(os.dup(handle), data, patience)
    elif status is not None and not stat.S_ISREG(status.st_mode):
        _special(name, status.st_mode)
        _through(_opened(name, status.st_mode, patience), data, patience)
    else:
        _replace(os.path.realpath(name), data, status)
    return Path(path)


def make_folder(folder: str | os.PathLike[str], hint: str = "Choose another folder.") -> Path:
    """Create a folder of results and its parents, of a link its target. Raises Unwritable where that fails."""
    check_folder(folder, hint)
    with _sentences(folder, hint):
        os.makedirs(os.path.realpath(folder), exist_ok=True)
    return Path(folder)


@contextmanager
def _sentences(path: object, hint: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno == errno.EPIPE and handle_of(str(path)) is not None:
            raise  # who reads what is printed has gone away: nothing is said
        raise Unwritable(path, reason(error), hint) from error
    except ValueError as error:  # a zero byte
        if isinstance(error, InputError):
            raise
        raise Unwritable(path, str(error), hint) from error


def _name(path: str | os.PathLike[str]) -> str:
    name = os.fspath(path)
    if not os.path.basename(name) or os.path.isdir(name):
        os.stat(os.path.dirname(name) or ".")  # a folder that is not there is said first
        if os.path.isdir(name) or name.endswith(os.sep) or not name:
            raise IsADirectoryError(errno.EISDIR, "it is a folder, and a file is needed")
    return name


def _status(name: str) -> os.stat_result | None:
    try:
        return os.stat(name)
    except FileNotFoundError:
        folder = os.path.dirname(os.path.realpath(name))
        if not os.path.isdir(folder):
            raise FileNotFoundError(errno.ENOENT, f"there is no folder {printable(folder)}") from None
        return None


def handle_of(name: str | os.PathLike[str]) -> int | None:
    """The file descriptor for a name such as /dev/stdout or /dev/fd/3 that refers to an open file of this process."""
    name = os.fspath(name)
    for _ in range(LINKS):
        if match := HANDLE.fullmatch(os.path.abspath(name)):
            own = not (pid := re.match(r"/proc/(\d+)", os.path.abspath(name))) or int(pid[1]) == os.getpid()
            return int(match[1] or match[2]) if own else None
        try:
            name = os.path.join(os.path.dirname(name), os.readlink(name))
        except OSError:
            return None
    return None


def _special(name: str, mode: int) -> None:
    """Raise OSError for anything that is neither a file nor a stream."""
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "it is a folder, and a file is needed")
    if stat.S_ISBLK(mode) or stat.S_ISSOCK(mode):
        raise OSError(errno.EINVAL, f"it is a {'disk' if stat.S_ISBLK(mode) else 'socket'}, which takes no file")
    if not os.access(name, os.W_OK):
        raise PermissionError(errno.EACCES, "it may only be read")


def _opened(name: str, mode: int, patience: float) -> int:
    """Open a device, or a pipe once it has a reader."""
    until = time.monotonic() + patience
    while True:
        try:
            return os.open(name, os.O_WRONLY | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_NONBLOCK", 0))
        except OSError as error:
            if error.errno != errno.ENXIO or not stat.S_ISFIFO(mode):
                raise
            if time.monotonic() > until:
                raise OSError(errno.ENXIO, f"it is a pipe that nobody reads, for {patience:.0f} seconds") from None
        time.sleep(0.05)


def _through(handle: int, data: bytes, patience: float = PATIENCE) -> None:
    """Write all bytes to an open file and close it."""
    try:
        left = memoryview(data)
        while left:
            try:
                left = left[os.write(handle, left) :]
            except BlockingIOError:
                if not select.select([], [handle], [], patience)[1]:
                    raise OSError(errno.ETIMEDOUT, f"nobody reads the pipe on, for {patience:.0f} seconds") from None
    finally:
        os.close(handle)


def _replace(real: str, data: bytes, status: os.stat_result | None) -> None:
    """Write a regular file under a temporary name, then rename it."""
    folder = os.path.dirname(real)
    if status is not None and not os.access(real, os.W_OK):
        raise PermissionError(errno.EACCES, "it may only be read")
    try:
        part, handle = _new(folder)
    except OSError as error:
        if status is None or error.errno not in KEPT_OUT:
            raise
        _through(os.open(real, os.O_WRONLY | os.O_TRUNC), data)
        return
    try:
        with os.fdopen(handle, "wb") as file:
            if status is not None and hasattr(os, "fchmod"):
                with suppress(OSError):  # the owner of a file of another user cannot be set on some systems
                    os.fchown(file.fileno(), status.st_uid, status.st_gid)
                os.fchmod(file.fileno(), status.st_mode & 0o777)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, real)
    except BaseException:
        with suppress(OSError):
            os.unlink(part)
        raise
    _to_disk(folder)


def _new(folder: str) -> tuple[str, int]:
    """Create a file with an unpredictable name and default permissions; return its name and descriptor."""
    part = os.path.join(folder, f".{token_hex(12)}")
    kinds = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    return part, os.open(part, kinds, 0o666)


def _try_folder(folder: str) -> None:
    """Raise OSError if no file can be created in a folder, or its disk is full."""
    part, handle = _new(folder)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(PAGE)
            file.flush()
            os.fsync(file.fileno())
    finally:
        with suppress(OSError):
            os.unlink(part)


def _to_disk(folder: str) -> None:
    """Flush a folder to disk, if the system supports it."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
