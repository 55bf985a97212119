"""Files: where data lies, what it is (its digest), and how it is opened, compressed or not.

A name in a recipe is looked for beside the recipe, in the folder where one is, and in the folders of data: EQUISCOPE_DATA, or
`data` and `shared/data` here and one folder up.
"""

import bz2
import gzip
import hashlib
import lzma
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO, Any, cast

from equiscope.errors import InputError
from equiscope.record import Source

OPENERS: dict[str, Any] = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}


class Missing(InputError):
    """A file that a recipe needs is not here."""


def folders(beside: Path | None = None) -> list[Path]:
    """Where a name is looked for, first to last."""
    given = os.environ.get("EQUISCOPE_DATA")
    near = [Path(given)] if given else [Path(up) / name for up in (".", "..") for name in ("data", "shared/data")]
    return [*([beside] if beside else []), Path(), *near]


def found(name: str, beside: Path | None = None) -> list[Path]:
    """The files of a name: a path, or one with * for many, sorted.

    raises  Missing where there is none, naming where it was looked for and where a user gets it
    """
    given = Path(name).expanduser()
    for folder in [Path("/")] if given.is_absolute() else folders(beside):
        relative = given.relative_to("/") if given.is_absolute() else given
        if any(sign in name for sign in "*?["):
            many = sorted(path for path in folder.glob(str(relative)) if path.is_file())
            if many:
                return many
        elif (folder / relative).exists():
            return [folder / relative]
    looked = "" if given.is_absolute() else " Looked in: " + ", ".join(str(f) for f in folders(beside)) + "."
    from equiscope.data.catalogue import advice

    raise Missing(f"There is no {name}.{looked} {advice(name)}")


def opened(path: Path) -> IO[bytes]:
    """A file to read bytes from, what is compressed being opened on the way."""
    try:
        return cast(IO[bytes], OPENERS.get(path.suffix, open)(path, "rb"))
    except OSError as error:
        raise InputError(f"{path} cannot be opened: {error.strerror}.") from error


def digest(path: Path) -> str:
    """sha256 of a file as it lies on disk."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from error


def sources(parts: Mapping[str, Iterable[Path]]) -> list[Source]:
    """What was read for each part: a run is of these very bytes."""
    return [
        Source(name="/".join(path.parts[-2:]), part=part, bytes=path.stat().st_size, sha256=digest(path))
        for part, paths in parts.items()
        for path in paths
    ]  # fmt: skip
