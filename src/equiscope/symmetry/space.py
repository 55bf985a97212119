"""Space: points turned, moved, mirrored. An output stays, turns as a vector, a pseudo-vector or an irrep, or moves along."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import torch
from torch import Generator, Tensor

from equiscope.symmetry.actions import Action
from equiscope.symmetry.atoms import ATOMS
from equiscope.symmetry.flow import Flow
from equiscope.symmetry.inputs import Inputs, Kind
from equiscope.symmetry.motions import (
    AXES,
    LETTERS,
    NOWHERE,
    Space,
    Triple,
    X,
    Y,
    Z,
    anywhere,
    axis_told,
    motion_told,
    moving,
    numbers_told,
    rotation,
    turn_told,
    turning,
    unit,
    way,
)
from equiscope.symmetry.ways import family

SMALL = (0.05, 1.0)  # degrees; what holds for large turns only holds for a finite group
TURNS: tuple[tuple[Triple, float], ...] = (((0.48, 0.6, 0.64), 1.0), ((0.48, -0.6, 0.64), 100.0), ((0.6, 0.0, -0.8), 217.0))
WAYS: tuple[Triple, ...] = ((1.0, -2.0, 0.5), (0.01, 0.0, 0.03), (0.0, 20.0, -30.0))


@dataclass(frozen=True)
class Rotate(Space):
    """Turn about an axis through the origin, by degrees, right-handed."""

    axis: Triple
    angle: float
    name: ClassVar[str] = "rotate"
    summary: ClassVar[str] = "turn the points about the origin"

    def matrix(self) -> Tensor:
        return rotation(self.axis, self.angle)

    @classmethod
    def sample(cls, inputs: Any, generator: Generator) -> Self:
        return cls(*anywhere(generator))

    @classmethod
    def samples(cls, inputs: Any, generator: Generator, count: int) -> list[Self]:
        some = [cls.sample(inputs, generator) for _ in range(count)]
        return [replace(turn, angle=angle) for turn, angle in zip(some, SMALL, strict=False)] + some[len(SMALL) :]

    @classmethod
    def telling(cls, inputs: Any) -> "Action | None":
        return cls((0.48, 0.6, 0.64), 100.0)

    @classmethod
    def simpler(cls, inputs: Any) -> Iterator[Self]:
        yield from (cls(axis, angle) for angle in (90.0, 180.0, 1.0) for axis in (Z, Y, X))

    @classmethod
    def subgroups(cls, inputs: Any) -> Iterator[tuple[str, list[Self]]]:
        for axis in (Z, Y, X):
            yield f"turns about {LETTERS[axis]}", [cls(axis, angle) for angle in (1.0, 90.0, 120.0, 201.0)]
        yield "quarter turns about x, y and z", [cls(axis, 90.0) for axis in AXES]
        yield "half turns about x, y and z", [cls(axis, 180.0) for axis in AXES]
        finite = {"quarter turns": 90.0, "turns by 60 degrees": 60.0, "turns by 120 degrees": 120.0, "half turns": 180.0}
        for words, angle in finite.items():
            for axis in (Z, Y, X):
                yield f"{words} about {LETTERS[axis]}", [cls(axis, angle)]

    @classmethod
    def flows(cls, inputs: Inputs) -> list[Flow]:
        return [turning(axis) for axis in AXES]

    def told(self) -> str:
        return turn_told(self.axis, self.angle)


@dataclass(frozen=True)
class Translate(Space):
    """Move all points by the same way."""

    by: Triple
    name: ClassVar[str] = "translate"
    summary: ClassVar[str] = "move the points along"
    acts_on: ClassVar[tuple[Kind, ...]] = ("points", "tokens", "coordinates")
    moves: ClassVar[bool] = True

    def offset(self) -> Tensor:
        return torch.tensor(self.by, dtype=torch.float64)

    @classmethod
    def representations(cls, output: Tensor, axes: tuple[int, ...], inputs: Any) -> tuple[str, ...]:
        return ("invariant", "points") if output.ndim and output.shape[-1] == 3 else ("invariant",)

    def moved(self, output: Tensor, representation: str, axes: tuple[int, ...]) -> Tensor:
        family(representation)
        return self.placed(output) if representation == "points" else output  # a vector has no place

    @classmethod
    def sample(cls, inputs: Any, generator: Generator) -> Self:
        return cls(way(generator, 1.0))

    @classmethod
    def samples(cls, inputs: Any, generator: Generator, count: int) -> list[Self]:
        return [cls(way(generator, size)) for size in ((1e-3, 1.0, 100.0) * count)[:count]]

    @classmethod
    def simpler(cls, inputs: Any) -> Iterator[Self]:
        yield from (cls(axis) for axis in AXES)
        yield from (cls((100 * x, 100 * y, 100 * z)) for x, y, z in AXES)

    @classmethod
    def subgroups(cls, inputs: Any) -> Iterator[tuple[str, list[Self]]]:
        for a, b in ((X, Y), (Y, Z), (X, Z)):
            ways = [(u * a[0] + v * b[0], u * a[1] + v * b[1], u * a[2] + v * b[2]) for u, v in ((0.01, 1.7), (30.3, -2.1))]
            yield f"moves in the plane of {LETTERS[a]} and {LETTERS[b]}", [cls(way) for way in ways]
        for axis in AXES:
            yield f"moves along {LETTERS[axis]}", [cls((u * axis[0], u * axis[1], u * axis[2])) for u in (0.01, 1.7, -30.3)]
        yield "moves by whole numbers", [cls((1.0, 2.0, -3.0)), cls((0.0, 1.0, 0.0)), cls((17.0, 0.0, 1.0))]

    @classmethod
    def flows(cls, inputs: Inputs) -> list[Flow]:
        return [moving(axis) for axis in AXES]

    def told(self) -> str:
        return f"move all points by {numbers_told(self.by)}"


@dataclass(frozen=True)
class Reflect(Space):
    """Mirror space at the plane through the origin with this normal of length 1."""

    normal: Triple
    name: ClassVar[str] = "reflect"
    summary: ClassVar[str] = "mirror the points at a plane"
    mirrored: ClassVar[bool] = True

    def matrix(self) -> Tensor:
        normal = unit(self.normal)
        return torch.eye(3, dtype=torch.float64) - 2 * torch.outer(normal, normal)

    @classmethod
    def sample(cls, inputs: Any, generator: Generator) -> Self:
        return cls(anywhere(generator)[0])

    @classmethod
    def telling(cls, inputs: Any) -> "Action | None":
        return cls((0.48, 0.6, 0.64))

    @classmethod
    def simpler(cls, inputs: Any) -> Iterator[Self]:
        yield from (cls(axis) for axis in (Z, Y, X))

    @classmethod
    def subgroups(cls, inputs: Any) -> Iterator[tuple[str, list[Self]]]:
        for axis in (Z, Y, X):
            yield f"the mirror across {LETTERS[axis]}", [cls(axis)]

    def told(self) -> str:
        return f"mirror at the plane across {axis_told(self.normal)}"


@dataclass(frozen=True)
class Rigid(Space):
    """Turn about the origin, then move: what a solid body can do."""

    axis: Triple
    angle: float
    by: Triple
    name: ClassVar[str] = "rigid"
    summary: ClassVar[str] = "turn and move the points"
    usual: ClassVar[bool] = False  # `rotate` and `translate` say which of both it is
    moves: ClassVar[bool] = True

    def matrix(self) -> Tensor:
        return rotation(self.axis, self.angle)

    def offset(self) -> Tensor:
        return torch.tensor(self.by, dtype=torch.float64)

    @classmethod
    def sample(cls, inputs: Any, generator: Generator) -> Self:
        return cls(*anywhere(generator), way(generator, 1.0))

    @classmethod
    def samples(cls, inputs: Any, generator: Generator, count: int) -> list[Self]:
        small = [cls(anywhere(generator)[0], angle, way(generator, 1e-3 * angle)) for angle in SMALL[:count]]
        return small + [cls.sample(inputs, generator) for _ in range(count - len(small))]

    @classmethod
    def telling(cls, inputs: Any) -> "Action | None":
        return cls((0.48, 0.6, 0.64), 100.0, (1.0, -2.0, 0.5))

    @classmethod
    def simpler(cls, inputs: Any) -> Iterator[Self]:
        yield from (cls(axis, 90.0, NOWHERE) for axis in (Z, Y, X))
        yield from (cls(Z, 0.0, axis) for axis in AXES)

    @classmethod
    def subgroups(cls, inputs: Any) -> Iterator[tuple[str, list[Self]]]:
        yield "turns about the origin", [cls(*turn, NOWHERE) for turn in TURNS]
        yield "moves without turning", [cls(Z, 0.0, way) for way in WAYS]
        for axis in (Z, Y, X):
            words = f"turns about {LETTERS[axis]} with moves along it"
            yield words, [cls(axis, angle, (2 * axis[0], 2 * axis[1], 2 * axis[2])) for angle in (1.0, 90.0, 120.0, 201.0)]
            yield f"turns about {LETTERS[axis]}", [cls(axis, angle, NOWHERE) for angle in (1.0, 90.0, 120.0, 201.0)]

    @classmethod
    def flows(cls, inputs: Inputs) -> list[Flow]:
        return [*(turning(axis) for axis in AXES), *(moving(axis) for axis in AXES)]

    def told(self) -> str:
        return motion_told(self.axis, self.angle, self.by)


@dataclass(frozen=True)
class Euclidean(Rigid):
    """Turn about the origin, perhaps through a mirror (each x to -x first), then move: all that keeps distances."""

    inverted: bool = False
    name: ClassVar[str] = "euclidean"
    summary: ClassVar[str] = "turn, mirror and move the points"
    mirrored: ClassVar[bool] = True

    def matrix(self) -> Tensor:
        return -super().matrix() if self.inverted else super().matrix()

    @classmethod
    def samples(cls, inputs: Any, generator: Generator, count: int) -> list[Self]:
        made = super().samples(inputs, generator, count)
        return [replace(one, inverted=i % 2 == 1) for i, one in enumerate(made)]

    @classmethod
    def telling(cls, inputs: Any) -> "Action | None":
        return cls((0.48, 0.6, 0.64), 100.0, (1.0, -2.0, 0.5), True)

    @classmethod
    def simpler(cls, inputs: Any) -> Iterator[Self]:
        yield cls(Z, 0.0, NOWHERE, True)
        yield cls(Z, 180.0, NOWHERE, True)
        yield from super().simpler(inputs)

    @classmethod
    def subgroups(cls, inputs: Any) -> Iterator[tuple[str, list[Self]]]:
        yield "turns and moves without a mirror", [cls(*turn, way) for turn, way in zip(TURNS, WAYS, strict=True)]
        yield "turns and mirrors about the origin", [cls(*turn, NOWHERE, True) for turn in TURNS]
        yield from super().subgroups(inputs)
        yield "inversion", [cls(Z, 0.0, NOWHERE, True)]

    def told(self) -> str:
        first = ["invert at the origin"] if self.inverted else []
        return ", then ".join([*first, super().told()] if self.angle or any(self.by) or not first else first)


class Orthogonal(Euclidean):
    """Turn about the origin, perhaps through a mirror: all that keeps distances and the origin."""

    name: ClassVar[str] = "orthogonal"
    summary: ClassVar[str] = "turn and mirror the points about the origin"
    acts_on: ClassVar[tuple[Kind, ...]] = Space.acts_on
    moves: ClassVar[bool] = False

    @classmethod
    def samples(cls, inputs: Any, generator: Generator, count: int) -> list[Self]:
        return [replace(one, by=NOWHERE) for one in super().samples(inputs, generator, count)]

    @classmethod
    def sample(cls, inputs: Any, generator: Generator) -> Self:
        return replace(super().sample(inputs, generator), by=NOWHERE)

    @classmethod
    def telling(cls, inputs: Any) -> "Action | None":
        return cls((0.48, 0.6, 0.64), 100.0, NOWHERE, True)

    @classmethod
    def simpler(cls, inputs: Any) -> Iterator[Self]:
        yield from (one for one in super().simpler(inputs) if not any(one.by))

    @classmethod
    def subgroups(cls, inputs: Any) -> Iterator[tuple[str, list[Self]]]:
        yield from ((words, some) for words, some in super().subgroups(inputs) if not any(any(one.by) for one in some))

    @classmethod
    def flows(cls, inputs: Inputs) -> list[Flow]:
        return Rotate.flows(inputs)


MOTIONS: tuple[type[Action], ...] = (Rotate, Translate, Reflect, Orthogonal, Rigid, Euclidean, *ATOMS)
