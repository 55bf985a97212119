"""Points in space as tokens: molecules, frames of a simulation, meshes; and the reader for their files.

Positions are those of the file, in float64 and with their unit. Energies, forces and other properties keep the file's names and
units.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float64, Int
from torch import Tensor

from equiscope.budgets import DAMAGED, OPENERS, POINTS, unfolded_content, unpacked
from equiscope.errors import InputError, ShapeError, UnknownName, printable, reason
from equiscope.tokens.base import Tokens
from equiscope.tokens.elements import SYMBOLS


@dataclass(frozen=True)
class Points:
    """Points in space with their properties.

    positions [N, 3] float64; unit: "angstrom", or None if the file has no unit, as for meshes
    numbers   [N] atomic numbers; None if it is no molecule
    bonds     [E, 2] rows of the two atoms, counted from 0, each bond once
    faces     [F, 3] rows of the three corners
    cell      [3, 3] its rows are the vectors by which the points repeat
    values    other properties by the file's name: numbers, strings, or tensors [N] and [N, ...] with a row for each point
    raises    ShapeError for positions that are not [N, 3] and numbers of another length
    """

    positions: Float64[Tensor, "N 3"]
    unit: str | None = None
    numbers: Int[Tensor, " N"] | None = None
    bonds: Int[Tensor, "E 2"] | None = None
    faces: Int[Tensor, "F 3"] | None = None
    cell: Float64[Tensor, "3 3"] | None = None
    values: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.positions.ndim != 2 or self.positions.shape[-1] != 3:
            raise ShapeError(f"Points have positions [N, 3], but got shape {tuple(self.positions.shape)}.")
        if self.numbers is not None and self.numbers.shape != self.positions.shape[:1]:
            raise ShapeError(f"There are {len(self.positions)} points, but numbers has shape {tuple(self.numbers.shape)}.")

    @property
    def edges(self) -> Int[Tensor, "E 2"]:
        """Pairs of connected points: the bonds, or the sides of the faces; each once, the lower index first."""
        if self.bonds is not None:
            pairs = self.bonds
        elif self.faces is not None:
            pairs = torch.cat([self.faces[:, [0, 1]], self.faces[:, [1, 2]], self.faces[:, [2, 0]]])
        else:
            pairs = torch.zeros(0, 2, dtype=torch.long)
        return pairs.sort(-1).values.unique(dim=0)


def atoms(points: Points, elements: Sequence[int] = tuple(range(1, len(SYMBOLS) + 1))) -> Tokens:
    """Atoms as tokens with one-hot elements. A linear map of them is an embedding table.

    elements  the atomic numbers, one feature each; all 118 by default, hydrogen first
    returns   Tokens with x [N, elements], positions [N, 3] float64 in the unit of the points
    raises    InputError for points without atomic numbers, and for an element that is not in the list
    """
    if points.numbers is None:
        raise InputError("These points have no atomic numbers. Use vertices(points), or give Points its numbers.")
    listed = torch.tensor(list(elements))
    is_one = points.numbers.unsqueeze(-1) == listed
    if not bool(is_one.any(-1).all()):
        other = int(points.numbers[~is_one.any(-1)][0])
        raise InputError(f"There is an atom with number {other}, but elements are {', '.join(map(str, elements))}. Add it to them.")
    return _at_points(is_one.to(torch.get_default_dtype()), points)


def vertices(points: Points) -> Tokens:
    """Points as tokens without features: x [N, 1] ones, positions [N, 3] float64."""
    return _at_points(torch.ones(len(points.positions), 1), points)


def read_points(path: str | Path) -> Points:
    """The points of a file with a single frame; otherwise as `read_frames`."""
    frames = read_frames(path)
    if len(frames) > 1:
        raise InputError(f"{path} holds {len(frames)} sets of points. Read them all: read_frames(path).")
    return frames[0]


def read_frames(path: str | Path, content: bytes | None = None) -> list[Points]:
    """All frames of a file: .xyz, .extxyz, .sdf, .cjson (in Å), .obj, .ply (no unit); also compressed, .gz, .xz or .bz2.

    Faces with more than three corners are cut into triangles. SDF is read in version V2000.
    content  the bytes of the file, if they were read already, e.g. from an archive
    raises  UnknownName for another kind of file, InputError with file and line for an invalid file
    """
    path = Path(path)
    kind = Path(path.stem if path.suffix.lower() in OPENERS else path.name).suffix.lower()
    reader = _readers().get(kind)
    if reader is None:
        raise UnknownName("reader of points", kind or path.name, sorted(_readers()))
    try:
        content = unpacked(path, POINTS) if content is None else unfolded_content(content, printable(path), POINTS)
    except InputError:
        raise
    except DAMAGED as error:  # also of a path with a zero byte
        raise InputError(f"{printable(path)} cannot be read: {reason(error)}. Fetch it again, or unpack it.") from error
    frames: list[Points] = reader(path, content)
    if not frames:
        raise InputError(f"{path} holds no points. Give a file that has some.")
    return frames


def _readers() -> dict[str, Callable[[Path, bytes], list[Points]]]:
    from equiscope.tokens import mesh_files, molecule_files

    return {
        ".cjson": molecule_files.cjson,
        ".extxyz": molecule_files.xyz,
        ".obj": mesh_files.obj,
        ".ply": mesh_files.ply,
        ".sdf": molecule_files.sdf,
        ".xyz": molecule_files.xyz,
    }


def _at_points(x: Tensor, points: Points) -> Tokens:
    return Tokens(x=x, positions=points.positions, order=torch.arange(len(x)))
