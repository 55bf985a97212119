"""Files of meshes, without a unit: Wavefront OBJ and PLY. `points.read_points` calls these.

Source: Wavefront, "Object Files (.obj)", appendix B1; of PLY see `ply_file`.
"""

from itertools import pairwise
from pathlib import Path

import torch

from equiscope.errors import InputError, counted
from equiscope.tokens import ply_file
from equiscope.tokens.lines import Lines
from equiscope.tokens.points import Points


def obj(path: Path, content: bytes) -> list[Points]:
    """Vertices and faces of an OBJ file, all its objects together; normals, textures and materials are left out."""
    lines, places, faces = Lines(path, content), [], []
    while lines.left:
        text = lines.next("a line")
        while text.endswith("\\") and "#" not in text and lines.left:
            text = text[:-1] + lines.next("the rest of a line")
        kind, *words = text.partition("#")[0].split() or ("",)
        if kind == "v":
            places.append(lines.floats(words[:3], 3, "a vertex", finite=True))
        elif kind == "f":
            faces += [(lines.number, *face) for face in _triangles(_corners(lines, words, len(places)))]
    for line, *face in faces:
        if not all(0 <= corner < len(places) for corner in face):
            lines.fail(f"a face has a corner that is not among the {len(places)} vertices.", line)
    corners = torch.tensor([face for _, *face in faces], dtype=torch.long).view(-1, 3)
    return [Points(torch.tensor(places, dtype=torch.float64).view(-1, 3), faces=corners)] if places else []


def _corners(lines: Lines, words: list[str], before: int) -> list[int]:
    """Rows of a face's corners, from `vertex/texture/normal`; files count from 1, or back from the last vertex so far."""
    if len(words) < 3:
        lines.fail(f"a face has three corners or more, but found {len(words)}.")
    numbers = [lines.integer(word.split("/")[0], "the number of a vertex") for word in words]
    return [corner - 1 if corner > 0 else before + corner if corner < 0 else -1 for corner in numbers]


def _triangles(corners: list[int]) -> list[tuple[int, int, int]]:
    """A face with many corners, as triangles around its first one."""
    return [(corners[0], b, c) for b, c in pairwise(corners[1:])]


def ply(path: Path, content: bytes) -> list[Points]:
    """Vertices and faces of a PLY file, as text or binary; colours, normals and textures are left out."""
    read, corners = ply_file.read(path, content)
    places = torch.tensor(read, dtype=torch.float64).view(-1, 3)
    if not bool(places.isfinite().all()):
        raise InputError(f"{path} has a vertex that stands nowhere: NaN or infinity.")
    if (short := next((face for face in corners if len(face) < 3), None)) is not None:
        raise InputError(f"{path} has a face with {counted(len(short), 'corner')}. A face has three or more.")
    if any(not 0 <= corner < len(places) for face in corners for corner in face):
        raise InputError(f"{path} has a face with a corner that is not among its {len(places)} vertices.")
    faces = [triangle for face in corners for triangle in _triangles(face)]
    return [Points(places, faces=torch.tensor(faces, dtype=torch.long) if faces else None)] if len(places) else []
