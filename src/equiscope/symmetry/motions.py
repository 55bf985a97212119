"""Motions of space: how a rotation matrix and an offset act on points, on vectors and on an output.

Points, and positions of tokens with three axes, are rotated and translated; vectors (velocities, forces) are rotated only. Every
rotation is about the origin. All computations are in float64; the result is cast last.
"""

import math
from dataclasses import replace
from typing import Any, ClassVar

import torch
from torch import Generator, Tensor

from equiscope.symmetry.actions import Action
from equiscope.symmetry.flow import Flow
from equiscope.symmetry.inputs import InputKind, Inputs
from equiscope.symmetry.irreps import candidates, rotated
from equiscope.symmetry.representations import family

Triple = tuple[float, float, float]
X, Y, Z = AXES = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
LETTERS = dict(zip(AXES, "xyz", strict=True))
ZERO: Triple = (0.0, 0.0, 0.0)


class Space(Action):
    """A motion of space: x -> matrix x + offset."""

    acts_on: ClassVar[tuple[InputKind, ...]] = ("points", "vectors", "tokens", "coordinates")
    inside: ClassVar[bool] = False
    mirrored: ClassVar[bool] = False  # whether the group contains reflections
    translates: ClassVar[bool] = False  # whether the group contains translations

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
        names = candidates(tuple(output.shape), axes, cls.mirrored)
        return (*names, "points") if cls.translates and output.ndim and output.shape[-1] == 3 else names

    @classmethod
    def possible_representations(cls, given: str | None, output: Tensor, axes: tuple[int, ...], inputs: Any) -> tuple[str, ...]:
        own = given is not None and (given == "invariant" or family(given) == "space")
        return (given,) if own and given else cls.representations(output, axes, inputs)

    def on_input(self, inputs: Any) -> Any:
        if isinstance(inputs, Inputs):
            moved = inputs.each(self.transformed, "points").each(self._rotated, "vectors")
            return moved.each(self._transformed_coordinates, "coordinates").each(self.on_input, "tokens")
        return (
            self.transformed(inputs)
            if isinstance(inputs, Tensor)
            else replace(inputs, positions=self._transformed_coordinates(inputs.positions))
        )

    def on_output(self, output: Tensor) -> Tensor:
        return self.transformed(output)

    def moved(self, output: Tensor, representation: str, axes: tuple[int, ...]) -> Tensor:
        if representation in ("invariant", "permuted") or not output.is_floating_point():
            return output
        family(representation)  # raises UnknownName
        return (
            self.transformed(output)
            if representation == "points"
            else rotated(output, self.matrix(), representation).to(output.dtype)
        )

    def transformed(self, points: Tensor) -> Tensor:
        """Points [..., 3], rotated and translated."""
        wide = points.double() @ self.matrix().to(points.device).mT + self.offset().to(points.device)
        return wide.to(points.dtype)

    def _rotated(self, vectors: Tensor) -> Tensor:
        return (vectors.double() @ self.matrix().to(vectors.device).mT).to(vectors.dtype)

    def _transformed_coordinates(self, positions: Tensor) -> Tensor:
        return self.transformed(positions) if positions.shape[-1] == 3 else positions


def rotation(axis: Triple, degrees: float) -> Tensor:
    """The matrix [3, 3] in float64 (Rodrigues). Multiples of 90 degrees about a coordinate axis are exact."""
    u, quarters = unit(axis), degrees / 90
    c, s = ((1, 0), (0, 1), (-1, 0), (0, -1))[int(quarters) % 4] if quarters == int(quarters) else _cosine(degrees)
    zero = torch.zeros((), dtype=torch.float64)
    cross = torch.stack([zero, -u[2], u[1], u[2], zero, -u[0], -u[1], u[0], zero]).view(3, 3)
    return c * torch.eye(3, dtype=torch.float64) + s * cross + (1 - c) * torch.outer(u, u)


def random_rotation(generator: Generator) -> tuple[Triple, float]:
    """Axis and angle of a rotation, uniform over all rotations (a quaternion of four normal numbers)."""
    w, *v = torch.nn.functional.normalize(torch.randn(4, generator=generator, dtype=torch.float64), dim=0).tolist()
    size = math.hypot(*v)
    return (v[0] / size, v[1] / size, v[2] / size), math.degrees(2 * math.atan2(size, w))


def in_space(inputs: Inputs, kinds: tuple[InputKind, ...]) -> bool:
    """Whether an input of these kinds has three axes and is floating-point: a rotation of integers is not an integer."""
    arguments = [getattr(v, "positions", v) for v in inputs.of(*kinds).values()]
    return any(positions.shape[-1] == 3 and positions.is_floating_point() for positions in arguments)


def _cosine(degrees: float) -> tuple[float, float]:
    return math.cos(math.radians(degrees)), math.sin(math.radians(degrees))


def unit(axis: Triple) -> Tensor:
    return torch.nn.functional.normalize(torch.tensor(axis, dtype=torch.float64), dim=0)


def random_vector(generator: Generator, size: float) -> Triple:
    x, y, z = (size * torch.randn(3, generator=generator, dtype=torch.float64)).tolist()
    return x, y, z


def rotation_flow(axis: Triple) -> Flow:
    """Rotation about an axis, per radian."""
    u = torch.tensor(axis, dtype=torch.float64)

    def rate(x: Tensor) -> Tensor:
        return torch.linalg.cross(u.to(x.device, x.dtype).expand_as(x), x, dim=-1)

    def output(y: Tensor, representation: str) -> Tensor | None:
        if representation == "invariant":
            return torch.zeros_like(y)
        return rate(y) if representation in ("vector", "pseudo-vector", "points") and y.shape[-1] == 3 else None

    return Flow(f"about {LETTERS[axis]}, per radian", lambda given: _rates(given, rate, rate), output)


def translation_flow(axis: Triple) -> Flow:
    """Translation along an axis, per unit of length."""

    def rate(x: Tensor) -> Tensor:
        return torch.tensor(axis, dtype=x.dtype, device=x.device).expand_as(x).clone()

    return Flow(
        f"along {LETTERS[axis]}",
        lambda given: _rates(given, rate, None),
        lambda y, representation: rate(y) if representation == "points" else torch.zeros_like(y),
    )


def _rates(given: Inputs, points_rate: Any, vectors_rate: Any) -> dict[str, Tensor]:
    points = given.of("points", "coordinates") | {n: t.positions for n, t in given.of("tokens").items()}
    rates = {n: points_rate(p) for n, p in points.items() if p.shape[-1] == 3 and p.is_floating_point()}
    return rates | ({n: vectors_rate(v) for n, v in given.of("vectors").items()} if vectors_rate else {})


def describe_motion(axis: Triple, angle: float, by: Triple) -> str:
    parts = [describe_rotation(axis, angle)] if angle else []
    return ", then ".join([*parts, f"translate all points by {describe_vector(by)}"] if any(by) else parts) or "do nothing"


def describe_rotation(axis: Triple, angle: float) -> str:
    return f"rotate by {angle:.6g} degree{'' if angle == 1 else 's'} about {describe_axis(axis)}"


def describe_axis(axis: Triple) -> str:
    return LETTERS.get(axis) or describe_vector(axis)


def describe_vector(values: Triple) -> str:
    return f"({', '.join(f'{v:.4g}' for v in values)})"
