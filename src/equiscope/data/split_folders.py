"""Split folders: FOLDER/train and FOLDER/val are the training and validation part, as in many published data sets.

They are recognised by their names, in upper or lower case. There must be nothing else beside them, or they are classes, or
ambiguous.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

from equiscope import budgets
from equiscope.data.files import find_files, is_hidden
from equiscope.errors import InputError

NAMES = {
    "train": ("train", "training"),
    "validation": ("validation", "valid", "val", "eval", "dev"),
    "test": ("test", "testing"),
}
PLAIN = (  # words beside that of a part
    "set", "data", "dataset", "split", "part", "folder", "files", "images", "imgs", "pictures", "photos", "audio", "sounds",
    "clips", "texts",
)  # fmt: skip
ABOUT = ("README", "LICENSE", "LICENCE", "CITATION", "NOTICE", "CHANGELOG")  # files that say what a folder is
Holds = Callable[[Path], bool]  # whether a file is one that is read


def spread(
    named: Mapping[str, str | None], recipe_folder: Path | None, holds: Holds, classes: bool, read: tuple[str, ...] = ()
) -> tuple[dict[str, str | None], list[str]]:  # fmt: skip
    """The names of the parts, where that of train may be a folder of all parts; and a note in that case.

    classes  whether the folders in a part are classes, so that a folder without folders is not a part
    read     parts that the recipe takes from train in another way
    raises   InputError if a part is defined twice, or if folders could be parts or classes
    """
    name = named["train"]
    paths = find_files(name, recipe_folder) if name is not None else []
    if len(paths) != 1 or not paths[0].is_dir() or not (parts := part_folders(paths[0], holds, classes)):
        return dict(named), []
    for part, folder in parts.items():
        if part != "train" and (named.get(part) is not None or part in read):
            raise InputError(
                f"The {part} part is defined twice: by the recipe, and by the folder {folder}. "
                f'Leave one out: data.train = "{parts["train"]}" takes that folder alone.'
            )
    more = "".join(f", {folder.name} is the {part} part" for part, folder in parts.items() if part != "train")
    note = f"{paths[0]} is a folder of parts: {parts['train'].name} is the training part{more}."
    return {**named, **{part: str(folder.absolute()) for part, folder in parts.items()}}, [note]


def part_folders(path: Path, holds: Holds, classes: bool) -> dict[str, Path]:
    """The folder of each part; none if the folder has other content. Raises InputError as `spread`."""
    inner = [entry for entry in sorted(path.iterdir()) if not is_hidden(Path(entry.name))]
    folders = [entry for entry in inner if entry.is_dir() and any(map(holds, _files(entry)))]
    parts = {folder: part for folder in folders if (part := part_of(folder.name))}
    loose = [] if classes else [entry for entry in inner if entry.is_file() and holds(entry) and entry.stem.upper() not in ABOUT]
    others = [*(folder for folder in folders if folder not in parts), *loose]
    deep = [folder for folder in parts if not any(holds(entry) for entry in folder.iterdir() if entry.is_file())]
    if not parts or (len(parts) == 1 and (others or "train" not in parts.values())):
        return {}
    if classes and not deep:
        if others or len(parts) == 1:
            return {}  # a class may have any name
        raise InputError(
            f"{path} has {_listed(parts)} with files in them: as parts they lack a folder for each class, and as classes they have "
            "the names of parts. Put class folders into them, or give them other names."
        )
    if classes and (flat := next((folder for folder in parts if folder not in deep), None)):
        raise InputError(
            f"{flat} has no folder for each class, as {deep[0]} has. Put class folders into it; or leave it out: "
            f'data.train = "{deep[0]}".'
        )
    if others:
        raise InputError(
            f"{path} has the parts {_listed(parts)}, and beside them {others[0].name}. Take that away; or name what is to be "
            "learned from as data.train, and the rest as data.validation and data.test."
        )
    folder_of_part: dict[str, Path] = {}
    for folder, part in parts.items():
        if part in folder_of_part:
            raise InputError(
                f"{path} has two folders of the {part} part: {folder_of_part[part].name} and {folder.name}. Leave one of them."
            )
        folder_of_part[part] = folder
    if "train" not in folder_of_part:
        raise InputError(f"{path} has {_listed(parts)}, and no folder train to learn from. Name files as data.train.")
    return {part: folder_of_part[part] for part in NAMES if part in folder_of_part}


def one_part(path: Path, holds: Holds, classes: bool) -> None:
    """Raises InputError for a folder of parts, if a single part is needed."""
    if path.is_dir() and (parts := part_folders(path, holds, classes)):
        raise InputError(f"{path} is a folder of parts. Name one: {', '.join(map(str, parts.values()))}.")


def no_parts(path: Path, names: Sequence[str]) -> None:
    """Raises InputError if all files of an archive are in folders of parts. names: of its files."""
    each = [PurePosixPath(name).parts for name in names]
    deep = next((i for i, level in enumerate(zip(*each, strict=False)) if len(set(level)) > 1), 0)
    tops = sorted({parts[deep] for parts in each if len(parts) > deep + 1})
    if len(tops) > 1 and all(map(part_of, tops)) and all(len(parts) > deep + 1 for parts in each):
        raise InputError(f"{path} has the parts {', '.join(tops)}. Unpack it, and name the folder that has them as data.train.")


def part_of(name: str) -> str:
    """The part that a folder's name stands for, such as "train", "Test Set", "val_images"; empty for another name."""
    words = [word for word in re.split(r"[\s_-]+", name.lower()) if word not in PLAIN]
    word = words[0] if len(words) == 1 else ""
    return next((part for part, names in NAMES.items() if word in names or word.removesuffix("set") in names), "")


def same_inner(path: Path, holds: Holds) -> list[str]:
    """The names of the folders with files that every folder in a folder has, if all have the same two or more."""
    inner = [[one.name for one in _folders(folder) if any(map(holds, _files(one)))] for folder in _folders(path)]
    return inner[0] if len(inner) > 1 and len(inner[0]) > 1 and all(one == inner[0] for one in inner) else []


def _folders(folder: Path) -> list[Path]:
    return sorted(entry for entry in folder.iterdir() if entry.is_dir() and not is_hidden(Path(entry.name)))


def _files(folder: Path) -> Iterator[Path]:
    return (
        file for file in budgets.listed(folder.rglob("*"), folder) if not is_hidden(file.relative_to(folder)) and file.is_file()
    )


def _listed(parts: Mapping[Path, str]) -> str:
    return " and ".join(folder.name for folder in parts)
