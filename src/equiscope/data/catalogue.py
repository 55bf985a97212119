"""Catalogue: the data sets of the recipes and examples, where to get each, and whether it is present and valid.

Nothing is downloaded: the commands are printed. Some archives were packed here from files of a project; a clone of that project at
the named commit can replace them.
"""

import hashlib
import lzma
import tarfile
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from equiscope.errors import InputError, UnknownName, did_you_mean

State = Literal["valid", "invalid", "missing", "unchecked"]


class Page(Struct, frozen=True, forbid_unknown_fields=True):
    """A project on github.com, as owner/name, and the commit that the checksums belong to."""

    repository: str
    commit: str


class CatalogueFile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file of a data set.

    sha256    of the file
    content   digest of its content, see `content`; None if sha256 is enough
    upstream  its path in a clone, or for an archive the files in it; with * for many
    """

    name: str
    bytes: int
    sha256: str
    content: str | None = None
    upstream: list[str] = []


class Dataset(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A data set: a folder of files.

    use      the task it is for, or "demo"
    licence  as stated by its project
    share    whether it may be redistributed; if not, no package contains a copy
    rule     which part is for training
    """

    use: str
    what: str
    licence: str
    share: bool
    rule: str
    pages: list[Page]
    files: list[CatalogueFile]
    note: str = ""

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.files)

    @property
    def title(self) -> str:
        return self.what.partition(":")[0]

    @property
    def terms(self) -> str:
        """The licence, with a remark if redistribution is not allowed."""
        return self.licence if self.share else f"{self.licence}: use it where you may, do not redistribute"


@dataclass(frozen=True)
class FileStatus:
    """The status of a file. paths: the file, or the files of a clone that replace it; state "unchecked": present, checksum not
    computed.
    """

    file: CatalogueFile
    paths: list[Path]
    state: State


def catalogue() -> dict[str, Dataset]:
    """The data sets by the name of their folder."""
    return msgspec.convert(tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")), dict[str, Dataset])


def dataset_named(name: str) -> Dataset:
    """A data set by name. Raises UnknownName with the list."""
    known = catalogue()
    if name not in known:
        raise UnknownName("data set", name, list(known))
    return known[name]


def commands(name: str) -> list[str]:
    """Commands that fetch a data set, for the folder in which you train."""
    lines = []
    for page in (pages := dataset_named(name).pages):
        folder = f"data/{name}" + (f"/{page.repository.partition('/')[2]}" if len(pages) > 1 else "")
        lines.append(
            f"git clone --filter=blob:none --no-checkout https://github.com/{page.repository} {folder} "
            f"&& git -C {folder} checkout {page.commit[:12]}"
        )
    return lines


def advice(name: str) -> str:
    """Where to get a file of this name, as the next step."""
    folder, known = Path(name).parts[0] if Path(name).parts else "", catalogue()
    if folder in known:
        return f"`equiscope data {folder}` says how to get it: from github.com/{known[folder].pages[0].repository}."
    if folder == "samples":
        return "A clone of equiscope has the samples, in recipes/samples."
    return did_you_mean(folder, known) or "Give a path, or set EQUISCOPE_DATA to the folder that has it."


def clone_files(name: str, folder: Path) -> list[Path]:
    """The files of a clone in a data folder that replace a catalogue file; none if there is no such clone."""
    dataset, _, file = name.partition("/")
    known = catalogue()
    if dataset not in known or not (folder / dataset).is_dir():
        return []
    return sorted(
        path for one in known[dataset].files if one.name == file for pattern in one.upstream
        for path in (folder / dataset).glob(pattern) if path.is_file()
    )  # fmt: skip


def locate(name: str, folders: Iterable[Path], sums: bool = False) -> list[FileStatus]:
    """The status of the files of a data set, or of the one file "fsdd/FILE". sums: whether to compare checksums.

    raises  UnknownName with the list, if there is no such data set
    """
    name, _, single = name.partition("/")
    statuses = []
    for file in dataset_named(name).files:
        if single not in ("", file.name):
            continue
        paths = next((p for f in folders if (p := _at(f, name, file))), [])
        state: State = "missing" if not paths else "unchecked"
        if paths and sums:
            state = "valid" if _is_valid(file, paths) else "invalid"
        statuses.append(FileStatus(file, paths, state))
    return statuses


def content(paths: list[Path]) -> str:
    """A digest of the content of files, independent of their names: sha256 over the sorted sha256 of each; archives are opened."""
    try:
        each = [digest for path in paths for digest in _contents(path)]
    except (OSError, EOFError, tarfile.TarError, lzma.LZMAError) as error:
        raise InputError(f"{paths[0]} is damaged: {str(error).splitlines()[0].rstrip(':')}. Fetch it again.") from error
    return hashlib.sha256("\n".join(sorted(each)).encode()).hexdigest()


def _at(folder: Path, name: str, file: CatalogueFile) -> list[Path]:
    path = folder / name / file.name
    return [path] if path.is_file() else clone_files(f"{name}/{file.name}", folder)


def _is_valid(file: CatalogueFile, paths: list[Path]) -> bool:
    try:
        if len(paths) == 1 and _sha256(paths[0]) == file.sha256:
            return True
        return file.content is not None and content(paths) == file.content
    except InputError:
        return False


def _contents(path: Path) -> list[str]:
    if ".tar" in path.suffixes:
        with tarfile.open(path) as archive:
            digests = [_sha256(archive.extractfile(member)) for member in archive if member.isfile()]
            while archive.fileobj is not None and archive.fileobj.read(2**20):  # to the end of what is compressed
                pass
            return digests
    if path.suffix == ".xz":
        with lzma.open(path) as file:
            return [_sha256(file)]
    return [_sha256(path)]


def _sha256(file: Any) -> str:
    """Of an open file, or of a path."""
    if isinstance(file, Path):
        with file.open("rb") as opened:
            return _sha256(opened)
    return hashlib.file_digest(file, "sha256").hexdigest()
