"""Files: where data is, its digest, and how it is opened, compressed or not.

A name in a recipe is searched beside the recipe, in the working directory, and in the data folders: EQUISCOPE_DATA, or
`data` and `shared/data` here and one folder up.
"""

import hashlib
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from equiscope import budgets
from equiscope.budgets import OPENERS, Limited, regular, unfolded
from equiscope.data.catalogue import advice, clone_files
from equiscope.errors import InputError, printable, reason
from equiscope.record import DataFile

MANY = 50  # files of a part that are named one by one
ARCHIVES = (".tgz", ".tbz", ".tbz2", ".txz", ".zip")  # endings of archives, beside .tar in any place


class Missing(InputError):
    """A file that a recipe needs does not exist."""


def folders(recipe_folder: Path | None = None) -> list[Path]:
    """The folders that are searched, in order. Raises InputError if EQUISCOPE_DATA is not a folder."""
    given = os.environ.get("EQUISCOPE_DATA")
    if given and not Path(given).is_dir():
        raise InputError(f"EQUISCOPE_DATA is {given}, which is no folder. Set it to the folder that has your data, or unset it.")
    near = [Path(given)] if given else [Path(up) / name for up in (".", "..") for name in ("data", "shared/data")]
    return list(dict.fromkeys([*([recipe_folder] if recipe_folder else []), Path(), *near]))


def find_files(name: str, recipe_folder: Path | None = None) -> list[Path]:
    """The files of a name, sorted: a path; a pattern with *; or the files of a clone that replace a catalogue file.

    raises  Missing if there is none, with the folders that were searched and where to get it; InputError for an invalid name
    """
    try:
        return _find_files(name, recipe_folder)
    except InputError:
        raise
    except (RuntimeError, ValueError, OSError) as error:  # ~ of an unknown user; a**b; a name that is too long
        raise InputError(f"{printable(name)} cannot be looked for: {reason(error)}. Give another path.") from error


def _find_files(name: str, recipe_folder: Path | None) -> list[Path]:
    given = Path(name).expanduser()
    if given.is_absolute():
        relative, searched = given.relative_to(given.anchor), [Path(given.anchor)]
    else:
        relative, searched = given, folders(recipe_folder)
    is_pattern = any(sign in name for sign in "*?[")
    for folder in searched if name else ():
        if (folder / relative).exists():  # also where a sign stands in the name itself
            return [_lasting(folder / relative)]
        if (
            paths := sorted(p for p in budgets.listed(folder.glob(str(relative)), name) if p.is_file())
            if is_pattern
            else clone_files(name, folder)
        ):
            return paths
    where = "" if given.is_absolute() else f" Looked in: {', '.join('here' if f == Path() else str(f) for f in searched)}."
    raise Missing(f"There is no {'file that fits ' * is_pattern}{name or 'file without a name'}.{where} {advice(name)}")


def _lasting(path: Path) -> Path:
    """A file or a folder. Raises InputError for a pipe or a device: data is read several times."""
    if not path.is_dir():
        regular(path, "a file: data is read more than once")
    return path


def is_archive(path: Path) -> bool:
    """Whether a name is that of a tar file, compressed or not, or of a zip file."""
    return path.suffix.lower() in ARCHIVES or ".tar" in map(str.lower, path.suffixes)


def member_name(where: str) -> str:
    """The name within an archive of what is called "archive: name"; of other files, the path itself."""
    colons = (sign.span() for sign in re.finditer(": ", where))
    return next((where[end:] for begin, end in colons if Path(where[:begin]).is_file()), where)


def is_hidden(name: Path) -> bool:
    """Whether a system hides the file, such as .DS_Store."""
    return any(part.startswith(".") or part == "__MACOSX" for part in name.parts)


def open_file(path: Path) -> Any:
    """Open a file to read bytes, decompressed up to its budget."""
    regular(path)
    opener = OPENERS.get(path.suffix.lower())
    try:
        return path.open("rb") if opener is None else Limited(opener(path, "rb"), path, unfolded(path))
    except OSError as error:
        raise InputError(f"{path} cannot be opened: {error.strerror}.") from error


def digest(path: Path) -> str:
    """sha256 of the bytes of a file. Raises InputError if it cannot be read."""
    if path.is_dir():
        raise InputError(f"{path} is a folder. Name the files in it, such as {path}/*.txt.")
    regular(path)
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from error


def sources(parts: Mapping[str, Iterable[Path]]) -> list[DataFile]:
    """The sources of a run: the files of each part with their digests. More than MANY files are one source, with their folder's
    name.
    """
    return [source for part, paths in parts.items() for source in _sources(part, list(paths))]


def overlap_notes(sources: Iterable[DataFile]) -> list[str]:
    """A warning for each evaluated part whose files are all training files too."""
    digests: dict[str, set[str]] = {}
    for source in sources:
        digests.setdefault(source.part, set()).add(source.sha256)
    training = digests.pop("train", set())
    return [
        f"The {part} part is also in the training part, so an evaluation on it measures memorisation."
        for part, files in digests.items() if files <= training
    ]  # fmt: skip


def _sources(part: str, paths: list[Path]) -> list[DataFile]:
    each = [
        DataFile(name=_name(path), part=part, bytes=path.stat().st_size, sha256=digest(path)) for path in paths
    ]  # fmt: skip
    if len(each) <= MANY:
        return each
    folder = Path(os.path.commonpath(paths))
    listing = "\n".join(f"{source.sha256} {path.relative_to(folder)}" for source, path in zip(each, paths, strict=True))
    name = f"{_name(folder)}: {len(each)} files"
    return [DataFile(name=name, part=part, bytes=sum(s.bytes for s in each), sha256=hashlib.sha256(listing.encode()).hexdigest())]


def _name(path: Path) -> str:
    """A file with its folder: independent of the working directory."""
    return "/".join(path.absolute().parts[-2:])
