"""Motions: what one matrix and one offset do to points, to vectors and to an output, and how they are said.

Points and the coordinates of tokens with three axes move as places do; vectors (velocities, forces) only turn. The origin is the
centre of every turn. Everything is made in float64 and cast last.
"""

import math
from dataclasses import replace
from typing import Any, ClassVar

import torch
from torch import Generator, Tensor

from equiscope.symmetry.actions import Action
from equiscope.symmetry.flow import Flow
from equiscope.symmetry.inputs import Inputs, Kind
from equiscope.symmetry.irreps import candidates, turned
from equiscope.symmetry.ways import family

Triple = tuple[float, float, float]
X, Y, Z = AXES = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
LETTERS = dict(zip(AXES, "xyz", strict=True))
NOWHERE: Triple = (0.0, 0.0, 0.0)


class Space(Action):
    """A motion of space: x -> matrix x + offset."""

    acts_on: ClassVar[tuple[Kind, ...]] = ("points", "vectors", "tokens", "coordinates")
    inside: ClassVar[bool] = False
    mirrored: ClassVar[bool] = False  # whether the group has mirror images
    moves: ClassVar[bool] = False  # whether it has translations

    def matrix(self) -> Tensor:
        """Orthogonal, [3, 3] in float64."""
        return torch.eye(3, dtype=torch.float64)

    def offset(self) -> Tensor:
        """[3] in float64."""
        return torch.zeros(3, dtype=torch.float64)

    @classmethod
    def missing(cls, inputs: Inputs) -> str:
        return "" if in_space(inputs, cls.acts_on) else "the model is given no points in space"

    @classmethod
    def representations(cls, output: Tensor, axes: tuple[int, ...], inputs: Any) -> tuple[str, ...]:
        found = candidates(tuple(output.shape), axes, cls.mirrored)
        return (*found, "points") if cls.moves and output.ndim and output.shape[-1] == 3 else found

    @classmethod
    def ways(cls, said: str | None, output: Tensor, axes: tuple[int, ...], inputs: Any) -> tuple[str, ...]:
        own = said is not None and (said == "invariant" or family(said) == "space")
        return (said,) if own and said else cls.representations(output, axes, inputs)

    def on_input(self, inputs: Any) -> Any:
        if isinstance(inputs, Inputs):
            moved = inputs.each(self.placed, "points").each(self._turned, "vectors")
            return moved.each(self._at, "coordinates").each(self.on_input, "tokens")
        return self.placed(inputs) if isinstance(inputs, Tensor) else replace(inputs, positions=self._at(inputs.positions))

    def on_output(self, output: Tensor) -> Tensor:
        return self.placed(output)

    def moved(self, output: Tensor, representation: str, axes: tuple[int, ...]) -> Tensor:
        if representation in ("invariant", "permuted") or not output.is_floating_point():
            return output
        family(representation)  # raises UnknownName
        return self.placed(output) if representation == "points" else turned(output, self.matrix(), representation).to(output.dtype)

    def placed(self, points: Tensor) -> Tensor:
        """Points [..., 3], moved as places are."""
        wide = points.double() @ self.matrix().to(points.device).mT + self.offset().to(points.device)
        return wide.to(points.dtype)

    def _turned(self, vectors: Tensor) -> Tensor:
        return (vectors.double() @ self.matrix().to(vectors.device).mT).to(vectors.dtype)

    def _at(self, positions: Tensor) -> Tensor:
        return self.placed(positions) if positions.shape[-1] == 3 else positions


def rotation(axis: Triple, degrees: float) -> Tensor:
    """The matrix [3, 3] in float64 (Rodrigues). Whole quarters about the axes of space are exact."""
    u, quarters = unit(axis), degrees / 90
    c, s = ((1, 0), (0, 1), (-1, 0), (0, -1))[int(quarters) % 4] if quarters == int(quarters) else _cosine(degrees)
    zero = torch.zeros((), dtype=torch.float64)
    cross = torch.stack([zero, -u[2], u[1], u[2], zero, -u[0], -u[1], u[0], zero]).view(3, 3)
    return c * torch.eye(3, dtype=torch.float64) + s * cross + (1 - c) * torch.outer(u, u)


def anywhere(generator: Generator) -> tuple[Triple, float]:
    """Axis and angle of a turn, all of them alike (a quaternion from four normal numbers)."""
    w, *v = torch.nn.functional.normalize(torch.randn(4, generator=generator, dtype=torch.float64), dim=0).tolist()
    size = math.hypot(*v)
    return (v[0] / size, v[1] / size, v[2] / size), math.degrees(2 * math.atan2(size, w))


def in_space(inputs: Inputs, kinds: tuple[Kind, ...]) -> bool:
    """Whether anything of these kinds has three axes, and no whole numbers: a turn leaves none."""
    found = [getattr(v, "positions", v) for v in inputs.of(*kinds).values()]
    return any(positions.shape[-1] == 3 and positions.is_floating_point() for positions in found)


def _cosine(degrees: float) -> tuple[float, float]:
    return math.cos(math.radians(degrees)), math.sin(math.radians(degrees))


def unit(axis: Triple) -> Tensor:
    return torch.nn.functional.normalize(torch.tensor(axis, dtype=torch.float64), dim=0)


def way(generator: Generator, size: float) -> Triple:
    x, y, z = (size * torch.randn(3, generator=generator, dtype=torch.float64)).tolist()
    return x, y, z


def turning(axis: Triple) -> Flow:
    """About an axis, per radian."""
    u = torch.tensor(axis, dtype=torch.float64)

    def turn(x: Tensor) -> Tensor:
        return torch.linalg.cross(u.to(x.device, x.dtype).expand_as(x), x, dim=-1)

    def output(y: Tensor, way: str) -> Tensor | None:
        if way == "invariant":
            return torch.zeros_like(y)
        return turn(y) if way in ("vector", "pseudo-vector", "points") and y.shape[-1] == 3 else None

    return Flow(f"about {LETTERS[axis]}, per radian", lambda given: _rates(given, turn, turn), output)


def moving(axis: Triple) -> Flow:
    """Along an axis, per unit of length."""

    def way(x: Tensor) -> Tensor:
        return torch.tensor(axis, dtype=x.dtype, device=x.device).expand_as(x).clone()

    return Flow(
        f"along {LETTERS[axis]}",
        lambda given: _rates(given, way, None),
        lambda y, how: way(y) if how == "points" else torch.zeros_like(y),
    )


def _rates(given: Inputs, places: Any, vectors: Any) -> dict[str, Tensor]:
    points = given.of("points", "coordinates") | {n: t.positions for n, t in given.of("tokens").items()}
    found = {n: places(p) for n, p in points.items() if p.shape[-1] == 3 and p.is_floating_point()}
    return found | ({n: vectors(v) for n, v in given.of("vectors").items()} if vectors else {})


def motion_told(axis: Triple, angle: float, by: Triple) -> str:
    parts = [turn_told(axis, angle)] if angle else []
    return ", then ".join([*parts, f"move all points by {numbers_told(by)}"] if any(by) else parts) or "do nothing"


def turn_told(axis: Triple, angle: float) -> str:
    return f"turn by {angle:.6g} degree{'' if angle == 1 else 's'} about {axis_told(axis)}"


def axis_told(axis: Triple) -> str:
    return LETTERS.get(axis) or numbers_told(axis)


def numbers_told(values: Triple) -> str:
    return f"({', '.join(f'{v:.4g}' for v in values)})"
