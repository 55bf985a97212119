"""Unpacking: an archive becomes a folder beside the recipe, so that its files can be in parts, and be named one by one."""

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any

from equiscope import budgets
from equiscope.budgets import undamaged
from equiscope.data import find_files
from equiscope.data.files import is_archive, is_hidden
from equiscope.errors import InputError, counted, printable, reason
from equiscope.training.draft.draft import NONE, ChosenColumns, RecipeDraft, title_of
from equiscope.training.draft.looking import look

UNSAFE = re.compile(r"[\\:\0]")  # in the name of a file: it would be another one on some systems


@dataclass(frozen=True)
class UnpackedDraft:
    """A draft, and the folder that its archive was unpacked into, or None where the data was no archive."""

    draft: RecipeDraft
    folder: Path | None = None


def look_into(
    names: Sequence[str], start: str | None = None, wanted: ChosenColumns = NONE, parent: Path = Path(), write: bool = True
) -> UnpackedDraft:  # fmt: skip
    """As `look`, for an archive too: its files are unpacked into a folder of its name in `parent`.

    write   whether the folder stays
    raises  InputError as `look`, with the file in the archive; and where the folder is there already
    """
    paths = find_files(names[0]) if len(names) == 1 else []
    if len(paths) != 1 or not (paths[0].is_file() and is_archive(paths[0])):
        return UnpackedDraft(look(names, start, wanted))
    archive, folder = paths[0], parent / title_of(paths[0]).replace(" ", "_")
    if write and folder.exists():
        raise InputError(
            f"{names[0]} is to be unpacked into {folder}, which is there already. If that holds the same files, name it: "
            f"equiscope new {folder}; or else move it away."
        )
    with _temporary(parent, write) as temporary:
        inner = temporary / folder.name
        count = _unpack(archive, inner)
        try:
            draft = look([str(inner)], start, wanted)
        except InputError as error:
            raise InputError(_in_archive(str(error), inner, names[0])) from error
        draft = _renamed(draft, lambda text: text.replace(str(inner), str(folder)).replace(str(inner.absolute()), str(folder)))
        draft.title = title_of(archive)
        draft.understood.insert(
            0, f"{names[0]} has {counted(count, 'file, which is', 'files, which are')} unpacked into the folder {folder}."
        )
        if write:
            inner.rename(folder)
    return UnpackedDraft(draft, folder if write else None)


@contextmanager
def _temporary(parent: Path, write: bool) -> Iterator[Path]:
    try:
        made = TemporaryDirectory(prefix=".unpacked-", dir=parent.absolute() if write else None)
    except OSError as error:
        raise InputError(f"No folder can be written in {parent.absolute()}: {reason(error)}. Choose another with --out.") from error
    with made as name:
        yield Path(os.path.relpath(name)) if write else Path(name)


def _unpack(path: Path, folder: Path) -> int:
    """Write the files of an archive into a new folder, hidden ones left out. Returns their number."""
    count = 0
    folder.mkdir()
    with undamaged(path), budgets.archive(path) as held:
        for member in held:
            name = PurePosixPath(member.name)
            if is_hidden(Path(*(part for part in name.parts if part not in (".", "..")))):
                continue
            if name.is_absolute() or ".." in name.parts or UNSAFE.search(member.name):
                raise InputError(
                    f"{path}: {printable(member.name)} would be written outside the folder of the archive. Unpack it yourself, and "
                    "name the folder."
                )
            content = held.read(member)
            try:
                target = folder / name
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content)
            except OSError as error:
                raise InputError(f"{path}: {printable(member.name)} cannot be written: {reason(error)}.") from error
            count += 1
    if not count:
        raise InputError(f"{path} has no file in it.")
    return count


def _in_archive(sentence: str, folder: Path, name: str) -> str:
    """A sentence about files in the folder, as one about those of the archive."""
    for where in (str(folder.absolute()), str(folder)):
        sentence = sentence.replace(f"{where}/", f"{name}: ").replace(where, name)
    return sentence


def _renamed(draft: RecipeDraft, new: Callable[[str], str]) -> RecipeDraft:
    """The draft with other names of files in all its sentences and fields."""

    def changed(value: Any) -> Any:
        if isinstance(value, str):
            return new(value)
        if isinstance(value, Mapping):
            return {name: changed(one) for name, one in value.items()}
        return [changed(one) for one in value] if isinstance(value, list | tuple) else value

    for name in ("data", "understood", "warnings", "comments", "files", "example"):
        setattr(draft, name, changed(getattr(draft, name)))
    return draft
