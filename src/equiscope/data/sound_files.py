"""Sound files: recordings in folders, archives and tables, their bytes, and the fields of their names."""

import io
import re
from collections.abc import Iterator
from pathlib import Path

from equiscope import budgets
from equiscope.budgets import archive, undamaged
from equiscope.data.faults import Faults
from equiscope.data.files import find_files, is_archive, is_hidden, member_name
from equiscope.data.split_folders import no_parts
from equiscope.data.tables import records
from equiscope.data.texts import decoded
from equiscope.errors import InputError

ENDINGS = (".wav", ".flac", ".ogg", ".mp3", ".opus", ".aiff", ".aif")


def is_sound(path: Path) -> bool:
    """Whether a name is that of a recording."""
    return path.suffix.lower() in ENDINGS


def contents(name: str, recipe_folder: Path | None = None, labelled: bool = True) -> Iterator[tuple[str, str, bytes]]:
    """The location of each sound, its class if a table has it, and its bytes. labelled: whether a table must have labels."""
    for path in find_files(name, recipe_folder):
        if path.is_dir():
            for file in sorted(
                p for p in budgets.listed(path.rglob("*"), path) if is_sound(p) and not is_hidden(p.relative_to(path))
            ):
                yield str(file), "", _bytes(file)
        elif is_archive(path):
            yield from _archived(path)
        elif path.suffix.lower() in (".csv", ".tsv"):
            yield from _listed(path, labelled)
        else:
            yield str(path), "", _bytes(path)


def _archived(path: Path) -> Iterator[tuple[str, str, bytes]]:
    names = []
    with undamaged(path), archive(path) as held:
        for one in held:
            name = Path(one.name)
            if name.suffix.lower() in ENDINGS and not name.name.startswith("."):
                names.append(one.name)
                yield f"{path}: {one.name}", "", held.read(one)
    no_parts(path, names)


def _listed(path: Path, labelled: bool) -> Iterator[tuple[str, str, bytes]]:
    columns = ("path", "label") if labelled else ("path",)
    way = f"A table of sounds names a {' and a '.join(columns)} in each line."
    listed, faults = [], Faults()  # type: list[tuple[Path, str]], Faults
    for line, row in records(io.StringIO(decoded(_bytes(path), str(path))), str(path), columns, way):
        file, where = path.parent / row.get("path", ""), f"{path}, line {line}"
        label = row.get("label", "").strip()
        if labelled and not label:
            faults.add(f"{where} gives {row.get('path', 'its file')} no label.", where)
        elif not file.is_file():
            faults.add(f"{where}: there is no file {file}. Paths are beside the table.", where)
        listed.append((file, label))
    faults.check()
    for file, label in listed:
        yield str(file), label, _bytes(file)


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
