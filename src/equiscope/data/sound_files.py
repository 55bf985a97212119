"""Sound files: recordings in folders, archives and tables, their bytes, and the fields of their names."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from equiscope import budgets
from equiscope.budgets import archive, undamaged
from equiscope.data.files import find_files, is_archive, is_hidden, member_name
from equiscope.data.split_folders import no_parts
from equiscope.data.targets import OtherCells, TargetColumns, file_table, listed_files
from equiscope.errors import InputError

ENDINGS = (".wav", ".flac", ".ogg", ".mp3", ".opus", ".aiff", ".aif")


def is_sound(path: Path) -> bool:
    """Whether a name is that of a recording."""
    return path.suffix.lower() in ENDINGS


def contents(
    name: str, config: TargetColumns, recipe_folder: Path | None = None, labelled: bool = True
) -> Iterator[tuple[str, Any, bytes, OtherCells]]:  # fmt: skip
    """The location of each sound, its target if a table has it, its bytes, and its cells in further columns of that table, which
    may be in a folder or in an archive.

    labelled  whether to read targets of a table
    """
    for path in find_files(name, recipe_folder):
        needed = labelled and getattr(config, "pattern", None) is None
        if (labelled or not path.is_dir()) and (table := file_table(path, config, labelled, needed)) is not None:
            for row in listed_files(table, config, labelled):
                yield str(row.file), row.target, _bytes(row.file) if row.content is None else row.content, row.others
        elif path.is_dir():
            for file in sorted(
                p for p in budgets.listed(path.rglob("*"), path) if is_sound(p) and not is_hidden(p.relative_to(path))
            ):
                yield str(file), None, _bytes(file), OtherCells()
        elif is_archive(path):
            yield from _archived(path)
        else:
            yield str(path), None, _bytes(path), OtherCells()


def _archived(path: Path) -> Iterator[tuple[str, Any, bytes, OtherCells]]:
    names = []
    with undamaged(path), archive(path) as held:
        for one in held:
            name = Path(one.name)
            if name.suffix.lower() in ENDINGS and not name.name.startswith("."):
                names.append(one.name)
                yield f"{path}: {one.name}", None, held.read(one), OtherCells()
    no_parts(path, names)


def _bytes(path: Path) -> bytes:
    try:
        return budgets.read(path)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from error


def name_fields(pattern: str, where: str) -> dict[str, str]:
    """The fields of a file's name. Raises InputError if it does not fit the pattern."""
    names = re.findall(r"{(\w+)}", pattern)
    if not names or len(set(names)) < len(names):
        raise InputError(f'data.pattern is such as "{{label}}_{{speaker}}_{{index}}", each name once, but got {pattern!r}.')
    form = re.sub(r"\\{(\w+)\\}", r"(?P<\1>.+?)", re.escape(pattern))
    stem = Path(member_name(where)).stem
    fits = re.fullmatch(form, stem)
    if fits is None:
        raise InputError(
            f"{where} has no label: its name does not fit {pattern!r}. Rename it, leave it out, or change data.pattern."
        )
    return fits.groupdict()


def folder_of(where: str) -> str:
    """The folder of a file, as its class."""
    folder = Path(member_name(where)).parent.name
    if not folder:
        raise InputError(
            f"{where} lies in no folder that could be its class. "
            'Set data.pattern, e.g. "{label}_{speaker}_{index}", or give a CSV.'
        )
    return folder
