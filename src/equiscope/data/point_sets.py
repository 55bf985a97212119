"""Point sets: molecules, clouds or meshes, each with a class, with several labels, or with numbers that are no energy."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple, Self

import msgspec
import torch
from msgspec import Struct
from torch import Tensor

from equiscope import budgets
from equiscope.data.faults import Faults
from equiscope.data.files import find_files, is_hidden, sources
from equiscope.data.frame_files import ENDINGS, cell_of, point_files
from equiscope.data.sampler import Sampler, derived_seed
from equiscope.data.targets import ADVICE, check_targets, file_table, listed_files, named_parts, target_of
from equiscope.data.texts import kind_of
from equiscope.errors import InputError, counted
from equiscope.record import DataFile
from equiscope.spec_base import Share
from equiscope.tokens.points import Points, read_frames

READ = (*(ending for ending in ENDINGS if ending != ".npz"), ".ply", ".obj")
VALUE = re.compile(r"(\w+)=(\"[^\"]*\"|\S+)")


class PointSets(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="points", tag_field="task"):
    """Points in space, such as molecules, each set with a class, with several labels, or with numbers.

    train       files of frames (.xyz, .extxyz, .sdf), whose values hold the target; many with *, a folder, an archive of .xyz; or a
                table (CSV, TSV or JSONL) with a column of file names (.xyz, .sdf, .cjson, .ply, .obj), relative to the table, and
                others for the target, also in an archive with its files
    validation  sets that choose the best weights; by default `held_out` of train
    test        sets that are evaluated once, at the end
    held_out    share of train for the validation part, drawn at random
    test_held_out  share of train for the test part, if `test` names no files
    field       column of a table with the file names
    label       column, or value of a frame, with the class
    labels      column with any number of labels, separated by `separator`, or a list in JSONL; instead of `label`
    separator   between two labels of a cell
    numbers     columns, or values of a frame, with the numbers that are predicted; instead of `label`
    smoothing   label smoothing: share of the target that is spread over all classes
    """

    train: str
    validation: str | None = None
    test: str | None = None
    held_out: Annotated[float, msgspec.Meta(gt=0, lt=1)] = 0.1
    test_held_out: Share = 0.0
    field: str = "path"
    label: str = "label"
    labels: str | None = None
    separator: Annotated[str, msgspec.Meta(min_length=1)] = ";"
    numbers: tuple[str, ...] = ()
    smoothing: Share = 0.0


class PointSet(NamedTuple):
    """A set of points.

    name     its file and frame
    numbers  [N] atomic numbers; 1 for points without elements; positions [N, 3], as in the file
    cell     [3, 3] of a periodic set
    target   a class, a list of labels, or a list of numbers; None where it is unknown
    """

    name: str
    numbers: Tensor
    positions: Tensor
    cell: Tensor | None
    target: Any
    has_elements: bool


class LabelledPoints:
    """The sets of a `PointSets` recipe, opened and checked, by part. raises: InputError with every fault that was found"""

    def __init__(self, config: PointSets, seed: int = 0, recipe_folder: Path | None = None) -> None:
        check_targets(config)
        named = named_parts(config)
        both = {part: read(name, config, recipe_folder) for part, name in named.items() if name is not None}
        self.parts = {part: rows for part, (rows, _) in both.items()}
        self.sources: list[DataFile] = sources({part: files for part, (_, files) in both.items()})
        for part, share in (("test", config.test_held_out), ("validation", 0.0 if "validation" in both else config.held_out)):
            if share:
                self.parts["train"], self.parts[part] = _split(self.parts["train"], share, seed, part)
        every = [one for rows in self.parts.values() for one in rows]
        if len({one.has_elements for one in every}) > 1:
            raise InputError(
                "Some files have elements and others have not: molecules and meshes are no one data set. Give one kind."
            )
        if len({one.cell is None for one in every}) > 1:
            odd = next(one for one in every if (one.cell is None) != (every[0].cell is None))
            raise InputError(f"{odd.name} is {'not ' * (odd.cell is None)}periodic, unlike the sets before it. Give one kind.")
        self.sampler = Sampler(len(self.parts["train"]), seed)

    @classmethod
    def from_files(cls, config: PointSets, part: str, names: Sequence[str]) -> Self:
        """New sets as the one part."""
        points = cls.__new__(cls)
        both = [read(name, config) for name in names]
        points.parts = {part: [one for rows, _ in both for one in rows]}
        points.sources = sources({part: [file for _, files in both for file in files]})
        return points


def read(
    name: str, config: PointSets, recipe_folder: Path | None = None, labelled: bool = True
) -> tuple[list[PointSet], list[Path]]:  # fmt: skip
    """The sets of the files of a name, in order, and those files. labelled: whether to read targets too.

    raises  InputError that names the first faults, and how many there are
    """
    found: list[PointSet] = []
    faults, files = Faults(ADVICE), list[Path]()
    for path in find_files(name, recipe_folder):
        if (labelled or not path.is_dir()) and (table := file_table(path, config, labelled)) is not None:
            rows = listed_files(table, config, labelled)
            files += [path] if table.contents is not None else [Path(table.name), *(row.file for row in rows)]
            for row in rows:
                with faults.caught(row.where):
                    one = _single(read_frames(row.file, row.content), row.where)
                    found.append(_checked(one, row.where, row.target))
            continue
        for file in _files(path):
            files.append(file)
            for where, frames_of in point_files(file):
                with faults.caught(where):
                    frames = frames_of()
                    for i, one in enumerate(frames):
                        label = f"{where}, frame {i}" if len(frames) > 1 else where
                        with faults.caught(label):
                            target = target_of(config, values_of(one.values), label) if labelled else None
                            found.append(_checked(one, label, target))
    faults.check()
    if not found:
        raise InputError(f"{name} has no points. Points are in files that end in {', '.join(READ)}.")
    return found, files


def _single(frames: Sequence[Points], where: str) -> Points:
    if len(frames) != 1:
        raise InputError(f"{where} has {len(frames)} frames, but a line of a table is one set of points.")
    return frames[0]


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    inner = sorted(budgets.listed(path.rglob("*"), path))
    return [file for file in inner if kind_of(file.name) in READ and file.is_file() and not is_hidden(file.relative_to(path))]


def values_of(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a frame; those of a plain comment, name=value, too."""
    comment = values.get("comment")
    said = {name: text.strip('"') for name, text in VALUE.findall(comment)} if isinstance(comment, str) else {}
    return said | {name: value for name, value in values.items() if not isinstance(value, Tensor)}


def _checked(one: Points, name: str, target: Any) -> PointSet:
    numbers = torch.ones(len(one.positions), dtype=torch.int64) if one.numbers is None else one.numbers
    if not len(numbers):
        raise InputError(f"{name} has no points.")
    if not bool(one.positions.isfinite().all()):
        raise InputError(f"{name} has coordinates that are NaN or infinite.")
    cell = cell_of(one, name)
    return PointSet(
        name, numbers, one.positions.float(), None if cell is None else cell.float(), target, one.numbers is not None
    )  # fmt: skip


def padded(some: Sequence[PointSet]) -> dict[str, Tensor]:
    """Sets padded to the largest: numbers [B, N], 0 for no point, positions [B, N, 3], cell [B, 3, 3] of periodic ones."""
    longest = max(len(one.numbers) for one in some)

    def filled(x: Tensor) -> Tensor:
        return torch.cat([x, x.new_zeros(longest - len(x), *x.shape[1:])])

    cells = [one.cell for one in some if one.cell is not None]
    tensors = {
        "numbers": torch.stack([filled(one.numbers) for one in some]),
        "positions": torch.stack([filled(one.positions) for one in some]),
    }
    return tensors | ({"cell": torch.stack(cells)} if cells else {})


def _split(rows: list[PointSet], share: float, seed: int, part: str) -> tuple[list[PointSet], list[PointSet]]:
    """The rows without those of a part, and these, drawn by their number in the data and the seed."""
    order = sorted(range(len(rows)), key=lambda i: derived_seed(seed, part, i))
    held = set(order[: max(1, round(share * len(rows)))])
    if len(held) == len(rows):
        raise InputError(f"{counted(len(rows), 'set of points is', 'sets of points are')} too few to hold some out. Give more.")
    return [one for i, one in enumerate(rows) if i not in held], [one for i, one in enumerate(rows) if i in held]
