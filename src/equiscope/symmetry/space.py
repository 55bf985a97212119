"""Rotations, translations and reflections of points. An output is invariant, a vector, a pseudo-vector, an irrep, or points."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import torch
from torch import Generator, Tensor

from equiscope.symmetry.actions import Action
from equiscope.symmetry.atoms import ATOMS
from equiscope.symmetry.flow import Flow
from equiscope.symmetry.inputs import InputKind, Inputs
from equiscope.symmetry.motions import (
    AXES,
    LETTERS,
    ZERO,
    Space,
    Triple,
    X,
    Y,
    Z,
    describe_axis,
    describe_motion,
    describe_rotation,
    describe_vector,
    random_rotation,
    random_vector,
    rotation,
    rotation_flow,
    translation_flow,
    unit,
)
from equiscope.symmetry.representations import family

SMALL = (0.05, 1.0)  # degrees; small rotations tell a continuous symmetry from that of a finite group
ROTATIONS: tuple[tuple[Triple, float], ...] = (((0.48, 0.6, 0.64), 1.0), ((0.48, -0.6, 0.64), 100.0), ((0.6, 0.0, -0.8), 217.0))
OFFSETS: tuple[Triple, ...] = ((1.0, -2.0, 0.5), (0.01, 0.0, 0.03), (0.0, 20.0, -30.0))


@dataclass(frozen=True)
class Rotate(Space):
    """Rotate about an axis through the origin, by degrees, right-handed."""

    axis: Triple
    angle: float
    name: ClassVar[str] = "rotate"
    summary: ClassVar[str] = "rotate the points about the origin"

    def matrix(self) -> Tensor:
        return rotation(self.axis, self.angle)

    @classmethod
    def sample(cls, inputs: Any, generator: Generator) -> Self:
        return cls(*random_rotation(generator))

    @classmethod
    def samples(cls, inputs: Any, generator: Generator, count: int) -> list[Self]:
        some = [cls.sample(inputs, generator) for _ in range(count)]
        return [replace(one, angle=angle) for one, angle in zip(some, SMALL, strict=False)] + some[len(SMALL) :]

    @classmethod
    def distinguishing(cls, inputs: Any) -> "Action | None":
        return cls((0.48, 0.6, 0.64), 100.0)

    @classmethod
    def simpler(cls, inputs: Any) -> Iterator[Self]:
        yield from (cls(axis, angle) for angle in (90.0, 180.0, 1.0) for axis in (Z, Y, X))

    @classmethod
    def subgroups(cls, inputs: Any) -> Iterator[tuple[str, list[Self]]]:
        for axis in (Z, Y, X):
            yield f"rotations about {LETTERS[axis]}", [cls(axis, angle) for angle in (1.0, 90.0, 120.0, 201.0)]
        yield "rotations by 90 degrees about x, y and z", [cls(axis, 90.0) for axis in AXES]
        yield "rotations by 180 degrees about x, y and z", [cls(axis, 180.0) for axis in AXES]
        finite = {f"rotations by {angle:g} degrees": angle for angle in (90.0, 60.0, 120.0, 180.0)}
        for words, angle in finite.items():
            for axis in (Z, Y, X):
                yield f"{words} about {LETTERS[axis]}", [cls(axis, angle)]

    @classmethod
    def flows(cls, inputs: Inputs) -> list[Flow]:
        return [rotation_flow(axis) for axis in AXES]

    def describe(self) -> str:
        return describe_rotation(self.axis, self.angle)


@dataclass(frozen=True)
class Translate(Space):
    """Translate all points by the same vector."""

    by: Triple
    name: ClassVar[str] = "translate"
    summary: ClassVar[str] = "translate the points"
    acts_on: ClassVar[tuple[InputKind, ...]] = ("points", "tokens", "coordinates")
    translates: ClassVar[bool] = True

    def offset(self) -> Tensor:
        return torch.tensor(self.by, dtype=torch.float64)

    @classmethod
    def representations(cls, output: Tensor, axes: tuple[int, ...], inputs: Any) -> tuple[str, ...]:
        return ("invariant", "points") if output.ndim and output.shape[-1] == 3 else ("invariant",)

    def moved(self, output: Tensor, representation: str, axes: tuple[int, ...]) -> Tensor:
        family(representation)
        return self.transformed(output) if representation == "points" else output  # a vector has no position

    @classmethod
    def sample(cls, inputs: Any, generator: Generator) -> Self:
        return cls(random_vector(generator, 1.0))

    @classmethod
    def samples(cls, inputs: Any, generator: Generator, count: int) -> list[Self]:
        return [cls(random_vector(generator, size)) for size in ((1e-3, 1.0, 100.0) * count)[:count]]

    @classmethod
    def simpler(cls, inputs: Any) -> Iterator[Self]:
        yield from (cls(axis) for axis in AXES)
        yield from (cls((100 * x, 100 * y, 100 * z)) for x, y, z in AXES)

    @classmethod
    def subgroups(cls, inputs: Any) -> Iterator[tuple[str, list[Self]]]:
        for a, b in ((X, Y), (Y, Z), (X, Z)):
            ways = [(u * a[0] + v * b[0], u * a[1] + v * b[1], u * a[2] + v * b[2]) for u, v in ((0.01, 1.7), (30.3, -2.1))]
            yield f"translations in the plane of {LETTERS[a]} and {LETTERS[b]}", [cls(by) for by in ways]
        for axis in AXES:
            yield f"translations along {LETTERS[axis]}", [cls((u * axis[0], u * axis[1], u * axis[2])) for u in (0.01, 1.7, -30.3)]
        yield "translations by whole numbers", [cls((1.0, 2.0, -3.0)), cls((0.0, 1.0, 0.0)), cls((17.0, 0.0, 1.0))]

    @classmethod
    def flows(cls, inputs: Inputs) -> list[Flow]:
        return [translation_flow(axis) for axis in AXES]

    def describe(self) -> str:
        return f"translate all points by {describe_vector(self.by)}"


@dataclass(frozen=True)
class Reflect(Space):
    """Reflect space in the plane through the origin with this unit normal."""

    normal: Triple
    name: ClassVar[str] = "reflect"
    summary: ClassVar[str] = "reflect the points in a plane"
    mirrored: ClassVar[bool] = True

    def matrix(self) -> Tensor:
        normal = unit(self.normal)
        return torch.eye(3, dtype=torch.float64) - 2 * torch.outer(normal, normal)

    @classmethod
    def sample(cls, inputs: Any, generator: Generator) -> Self:
        return cls(random_rotation(generator)[0])

    @classmethod
    def distinguishing(cls, inputs: Any) -> "Action | None":
        return cls((0.48, 0.6, 0.64))

    @classmethod
    def simpler(cls, inputs: Any) -> Iterator[Self]:
        yield from (cls(axis) for axis in (Z, Y, X))

    @classmethod
    def subgroups(cls, inputs: Any) -> Iterator[tuple[str, list[Self]]]:
        for axis in (Z, Y, X):
            yield f"the reflection along {LETTERS[axis]}", [cls(axis)]

    def describe(self) -> str:
        return f"reflect in the plane with normal {describe_axis(self.normal)}"


@dataclass(frozen=True)
class Rigid(Space):
    """Rotate about the origin, then translate: a rigid motion."""

    axis: Triple
    angle: float
    by: Triple
    name: ClassVar[str] = "rigid"
    summary: ClassVar[str] = "rotate and translate the points"
    by_default: ClassVar[bool] = False  # `rotate` and `translate` tell which of the two breaks it
    translates: ClassVar[bool] = True

    def matrix(self) -> Tensor:
        return rotation(self.axis, self.angle)

    def offset(self) -> Tensor:
        return torch.tensor(self.by, dtype=torch.float64)

    @classmethod
    def sample(cls, inputs: Any, generator: Generator) -> Self:
        return cls(*random_rotation(generator), random_vector(generator, 1.0))

    @classmethod
    def samples(cls, inputs: Any, generator: Generator, count: int) -> list[Self]:
        small = [cls(random_rotation(generator)[0], angle, random_vector(generator, 1e-3 * angle)) for angle in SMALL[:count]]
        return small + [cls.sample(inputs, generator) for _ in range(count - len(small))]

    @classmethod
    def distinguishing(cls, inputs: Any) -> "Action | None":
        return cls((0.48, 0.6, 0.64), 100.0, (1.0, -2.0, 0.5))

    @classmethod
    def simpler(cls, inputs: Any) -> Iterator[Self]:
        yield from (cls(axis, 90.0, ZERO) for axis in (Z, Y, X))
        yield from (cls(Z, 0.0, axis) for axis in AXES)

    @classmethod
    def subgroups(cls, inputs: Any) -> Iterator[tuple[str, list[Self]]]:
        yield "rotations about the origin", [cls(*axis_angle, ZERO) for axis_angle in ROTATIONS]
        yield "translations alone", [cls(Z, 0.0, by) for by in OFFSETS]
        for axis in (Z, Y, X):
            words = f"rotations about {LETTERS[axis]} with translations along it"
            yield words, [cls(axis, angle, (2 * axis[0], 2 * axis[1], 2 * axis[2])) for angle in (1.0, 90.0, 120.0, 201.0)]
            yield f"rotations about {LETTERS[axis]}", [cls(axis, angle, ZERO) for angle in (1.0, 90.0, 120.0, 201.0)]

    @classmethod
    def flows(cls, inputs: Inputs) -> list[Flow]:
        return [*(rotation_flow(axis) for axis in AXES), *(translation_flow(axis) for axis in AXES)]

    def describe(self) -> str:
        return describe_motion(self.axis, self.angle, self.by)


@dataclass(frozen=True)
class Euclidean(Rigid):
    """Rotate about the origin, with or without an inversion (x to -x first), then translate: every isometry."""

    inverted: bool = False
    name: ClassVar[str] = "euclidean"
    summary: ClassVar[str] = "rotate, reflect and translate the points"
    mirrored: ClassVar[bool] = True

    def matrix(self) -> Tensor:
        return -super().matrix() if self.inverted else super().matrix()

    @classmethod
    def samples(cls, inputs: Any, generator: Generator, count: int) -> list[Self]:
        motions = super().samples(inputs, generator, count)
        return [replace(one, inverted=i % 2 == 1) for i, one in enumerate(motions)]

    @classmethod
    def distinguishing(cls, inputs: Any) -> "Action | None":
        return cls((0.48, 0.6, 0.64), 100.0, (1.0, -2.0, 0.5), True)

    @classmethod
    def simpler(cls, inputs: Any) -> Iterator[Self]:
        yield cls(Z, 0.0, ZERO, True)
        yield cls(Z, 180.0, ZERO, True)
        yield from super().simpler(inputs)

    @classmethod
    def subgroups(cls, inputs: Any) -> Iterator[tuple[str, list[Self]]]:
        yield (
            "rotations and translations without reflections",
            [cls(*axis_angle, by) for axis_angle, by in zip(ROTATIONS, OFFSETS, strict=True)],
        )
        yield "rotations and reflections about the origin", [cls(*axis_angle, ZERO, True) for axis_angle in ROTATIONS]
        yield from super().subgroups(inputs)
        yield "inversion", [cls(Z, 0.0, ZERO, True)]

    def describe(self) -> str:
        first = ["invert at the origin"] if self.inverted else []
        return ", then ".join([*first, super().describe()] if self.angle or any(self.by) or not first else first)


class Orthogonal(Euclidean):
    """Rotate about the origin, with or without an inversion: every isometry that fixes the origin."""

    name: ClassVar[str] = "orthogonal"
    summary: ClassVar[str] = "rotate and reflect the points about the origin"
    acts_on: ClassVar[tuple[InputKind, ...]] = Space.acts_on
    translates: ClassVar[bool] = False

    @classmethod
    def samples(cls, inputs: Any, generator: Generator, count: int) -> list[Self]:
        return [replace(one, by=ZERO) for one in super().samples(inputs, generator, count)]

    @classmethod
    def sample(cls, inputs: Any, generator: Generator) -> Self:
        return replace(super().sample(inputs, generator), by=ZERO)

    @classmethod
    def distinguishing(cls, inputs: Any) -> "Action | None":
        return cls((0.48, 0.6, 0.64), 100.0, ZERO, True)

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
