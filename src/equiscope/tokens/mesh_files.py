"""Files of meshes, without a unit: Wavefront OBJ and PLY. `points.read_points` calls these.

Sources: Wavefront, "Object Files (.obj)", appendix B1; Turk 1994, "The PLY Polygon File Format".
"""

import io
import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from equiscope.errors import InputError
from equiscope.tokens.extra import needed
from equiscope.tokens.lines import Lines
from equiscope.tokens.points import Points


def obj(path: Path, content: bytes) -> list[Points]:
    """Vertices and faces of an OBJ file, all its objects together; normals, textures and materials are left out."""
    lines, places, faces = Lines(path, content), [], []
    while lines.left:
        said = lines.next("a line")
        while said.endswith("\\") and lines.left:
            said = said[:-1] + lines.next("the rest of a line")
        kind, *words = said.partition("#")[0].split() or ("",)
        if kind == "v":
            places.append(lines.floats(words[:3], 3, "a vertex"))
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
    found = [lines.integer(word.split("/")[0], "the number of a vertex") for word in words]
    return [corner - 1 if corner > 0 else before + corner if corner < 0 else -1 for corner in found]


def _triangles(corners: list[int]) -> list[tuple[int, int, int]]:
    """A face with many corners, as triangles around its first one."""
    return [(corners[0], b, c) for b, c in pairwise(corners[1:])]


def ply(path: Path, content: bytes) -> list[Points]:
    """Vertices and faces of a PLY file, as text or binary, by the package trimesh."""
    trimesh = needed("trimesh", "meshes", "Reading a PLY file")
    if not content.startswith(b"ply"):
        Lines(path, content[:80]).fail("a PLY file begins with the line 'ply'.", 1)
    try:
        read = trimesh.load(io.BytesIO(content), file_type="ply", process=False, fix_texture=False, skip_materials=True)
    except Exception as error:  # what is wrong inside reaches us as errors of many kinds
        raise InputError(f"{path} cannot be read as PLY: {type(error).__name__}: {error}.") from error
    if not hasattr(read, "vertices"):
        return []
    places, faces = _tensor(read.vertices, torch.float64), _tensor(getattr(read, "faces", ()), torch.long)
    for kind, found in (("vertex", places), ("face", faces)):
        head = content.partition(b"end_header")[0]
        said = int((re.findall(rf"(?m)^element {kind} (\d+)".encode(), head) or [0])[0])
        if len(found) < said:
            raise InputError(f"{path} says that it has {said} of element {kind}, but has {len(found)}. The file is cut off.")
    if len(faces) and not 0 <= int(faces.min()) <= int(faces.max()) < len(places):
        raise InputError(f"{path} has a face with a corner that is not among its {len(places)} vertices.")
    if not bool(places.isfinite().all()):
        raise InputError(f"{path} has a vertex that stands nowhere: NaN or infinity.")
    return [Points(places, faces=faces if len(faces) else None)]


def _tensor(array: object, dtype: torch.dtype) -> Tensor:
    return torch.from_numpy(np.array(array)).to(dtype).view(-1, 3)
