"""Looking: which kind of data some files are, and who drafts a recipe for it."""

import io
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from equiscope import budgets
from equiscope.data import find_files, other_formats
from equiscope.data.files import is_hidden, open_file
from equiscope.data.frame_files import ENDINGS as FRAMES
from equiscope.data.picture_arrays import holds_pictures
from equiscope.data.picture_files import LABELS, PICTURES, is_picture
from equiscope.data.sound_files import is_sound
from equiscope.data.split_folders import ABOUT, part_folders, part_of
from equiscope.data.texts import is_text_file, kind_of
from equiscope.errors import InputError
from equiscope.training.draft import frames, labelled, pairs, pictures, sounds, tables, texts, words
from equiscope.training.draft.draft import NONE, ChosenColumns, RecipeDraft, check_start

SEVERAL = 5  # texts of each folder, where folders are classes
KINDS = {"table": "tables"}  # in a sentence
TEXTS = (".txt", ".md", ".xml")
TABLES = (".csv", ".tsv", ".jsonl", ".ndjson", ".dict")


def look(names: Sequence[str], start: str | None = None, wanted: ChosenColumns = NONE) -> RecipeDraft:
    """A draft of a recipe for some data, without its steps having been timed.

    names   files or folders: one data set
    start   folder of a checkpoint to fine-tune
    wanted  columns of a table that a person names
    raises  InputError where no kind of data is recognised, with what was found
    """
    paths = [path for name in names for path in find_files(name)]
    if len(paths) > 1 and (parts := _parts(paths)):
        return tables.of_parts(parts, start, wanted)
    if wanted and len(paths) != 1:
        raise _no_columns(f"{len(paths)} files")
    if len(paths) == 2 and all(path.is_file() for path in paths):
        if {_magic(path) for path in paths} == {PICTURES, LABELS}:
            return pictures.of_idx(sorted(paths, key=lambda path: _magic(path) != PICTURES))
        if all(kind_of(path.name) not in (*TABLES, *FRAMES) and not is_picture(path) and not is_sound(path) for path in paths):
            return pairs.of_files(paths[0], paths[1])
    if len(paths) != 1:
        raise InputError(
            f"{len(paths)} files are no data set that is known: two are parallel texts, or pictures and labels as idx files. "
            "Put the files of a data set into one folder, and name that."
        )
    draft = _of_one(paths[0], names[0], start, wanted)
    draft.warnings += _other_formats(paths[0])
    return draft


def _no_columns(what: str) -> InputError:
    return InputError(f"--metadata and --target name columns of a table, but {what} have none. Give a table, or leave them out.")


def _of_one(path: Path, name: str, start: str | None, wanted: ChosenColumns = NONE) -> RecipeDraft:
    if path.is_dir() and (inner := _inner(path)) != path:
        whole = _of_one(inner, str(inner), start, wanted)
        whole.understood.insert(0, f"{name} has one folder, and all files are in {inner}.")
        return whole
    if path.is_file() and is_picture(path):
        raise InputError(f"{name} is one picture. Name the folder that has all of them.")
    if holds_pictures(path):
        check_start(start, "pictures")
        return pictures.of_arrays(path)
    if path.is_file():
        other_formats.check(name, path.suffix)
    kinds = _kinds(path)
    if not kinds:
        found = "is empty" if _is_empty(path) else _unread(path) if path.is_dir() else "has no known ending"
        raise InputError(
            f"{name} {found}. Known: pictures, sounds, texts (.txt, .md), tables (.csv, .tsv, .jsonl), "
            "words with labels (.conll, .conllu, .bio), molecules (.xyz, .extxyz), arrays of pictures or molecules (.npz)."
        )
    kind, count = kinds.most_common(1)[0]
    if path.is_dir():
        if kind in ("pictures", "sounds", "molecules") and kinds["table"] == 1 and tables.names_files(table := _tables_in(path)[0]):
            return _of_one(table, name, start, wanted)
        if kind == "table" and len(kinds) == 1:
            inside = _tables_in(path)
            if count == 1:
                return _of_one(inside[0], name, start, wanted)
            if parts := _parts(inside):
                return tables.of_parts(parts, start, wanted)
            shown = ", ".join(file.name for file in inside[:5]) + (", …" if count > 5 else "")
            raise InputError(f"{name} has {count} tables: {shown}. Name one, or call them train, val and test.")
        others = [
            f"{counted} of {KINDS.get(other, other)}" for other, counted in kinds.items() if other != kind and counted * 3 > count
        ]
        if others:
            raise InputError(
                f"{name} has {count} files of {KINDS.get(kind, kind)}, and {', '.join(others)}. Name the folder or "
                "the file that you mean."
            )
    if wanted and kind != "table":
        raise _no_columns(f"these {kind}")
    if path.is_file() and kind in ("texts", "table", "words") and (columns := words.columns_of(path)) is not None:
        return words.of_file(path, columns, start)
    if kind == "words" and path.is_dir():
        return words.of_folder(path, start)
    if kind == "texts" and path.is_dir() and _has_classes(path):
        return labelled.of_folders(path, start)
    if kind != "table":
        check_start(start, kind)
    draft = {
        "pictures": pictures.of_path, "sounds": sounds.of_path, "texts": texts.of_files, "molecules": frames.of_files,
    }.get(kind)  # fmt: skip
    return tables.of_file(path, start, wanted=wanted) if draft is None else draft(path)


def _tables_in(folder: Path) -> list[Path]:
    return [file for file in sorted(folder.rglob("*")) if kind_of(file.name) in TABLES and not is_hidden(file.relative_to(folder))]


def _parts(paths: Sequence[Path]) -> dict[str, Path]:
    """Tables whose names are those of parts, train among them; nothing for others."""
    found = {part_of(path.name.split(".")[0]): path for path in paths if path.is_file() and kind_of(path.name) in TABLES}
    return found if len(found) == len(paths) and "train" in found and "" not in found else {}


def _has_classes(path: Path) -> bool:
    """Whether a folder holds folders with several texts each: classes, rather than chapters or parts."""
    inner = part_folders(path, is_text_file, True).get("train", path)
    folders = [folder for folder in inner.iterdir() if folder.is_dir() and not is_hidden(Path(folder.name))]
    loose = any(_kind_of(file) for file in inner.iterdir() if file.is_file())
    return len(folders) >= 2 and not loose and all(sum(map(is_text_file, folder.iterdir())) >= SEVERAL for folder in folders)


def _inner(path: Path) -> Path:
    """The folder itself; or the one in it, as long as there is one folder and no file that is read."""
    while True:
        inside = [entry for entry in path.iterdir() if not is_hidden(Path(entry.name))]
        folders = [entry for entry in inside if entry.is_dir()]
        if len(folders) != 1 or any(_kind_of(entry) for entry in inside if entry.is_file()):
            return path
        if not any(entry.is_dir() and not is_hidden(Path(entry.name)) for entry in folders[0].iterdir()):
            return path  # the files of one class
        path = folders[0]


def _is_empty(path: Path) -> bool:
    """Whether a file has no bytes, or a folder no files."""
    return path.stat().st_size == 0 if path.is_file() else not any(file.is_file() for file in path.rglob("*"))


def _unread(folder: Path) -> str:
    """A sentence's end about a folder without a file that is read."""
    endings = Counter(file.suffix.lower() for file in folder.rglob("*") if file.is_file() and file.suffix)
    ending = endings.most_common(1)[0][0] if endings else ""
    way = other_formats.advice(ending)
    return f"has no file that is read here{f', but files that end in {ending}' if ending else ''}{way and f'. {way}'}"


def _other_formats(path: Path) -> list[str]:
    """A sentence about the files of a folder that hold data in a form that is not read, if there are any."""
    files = [file for file in path.rglob("*") if not is_hidden(file.relative_to(path))] if path.is_dir() else []
    return [sentence] if (sentence := other_formats.folder_sentence(files)) else []


def _kinds(path: Path) -> Counter[str]:
    files = [path]
    if path.is_dir():
        inside = budgets.listed(path.rglob("*"), path)
        files = [file for file in inside if file.is_file() and not is_hidden(file.relative_to(path))]
    return Counter(kind for file in files if (kind := _kind_of(file)))


def _kind_of(file: Path) -> str:
    kind = kind_of(file.name)
    if is_picture(file):
        return "pictures"
    if is_sound(file):
        return "sounds"
    if kind in FRAMES:
        return "molecules"
    if kind in words.ENDINGS:
        return "words"
    if kind in TABLES:
        return "table"
    return "texts" if kind in TEXTS and file.stem.upper() not in ABOUT else ""


def _magic(path: Path) -> int:
    try:
        with open_file(path) as file:
            return int.from_bytes(file.read(4), "big")
    except (OSError, EOFError, io.UnsupportedOperation):
        return 0
