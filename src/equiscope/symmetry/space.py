"""Space: points turned, moved, mirrored, in other units. An output is invariant, or turns as a vector, a pseudo-vector, an irrep.

One matrix and one offset in float64 make every motion. Points and the coordinates of tokens with three axes move as places do,
vectors (velocities, forces) only turn. The origin is the centre of every turn.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar, Self

import torch
from torch import Generator, Tensor

from equiscope.symmetry.actions import Action, Permute, exchanged
from equiscope.symmetry.flow import Flow
from equiscope.symmetry.inputs import Inputs, Kind
from equiscope.symmetry.irreps import candidates, turned
from equiscope.symmetry.scaling import Scaling
from equiscope.symmetry.ways import family

Triple = tuple[float, float, float]
X, Y, Z = AXES = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
LETTERS = dict(zip(AXES, "xyz", strict=True))
SMALL = (0.05, 1.0)  # degrees; what holds for large turns only holds for a finite group
NOWHERE: Triple = (0.0, 0.0, 0.0)


class Space(Action):
    """A motion of space: x -> matrix x + offset."""

    acts_on: ClassVar[tuple[Kind, ...]] = ("points", "vectors", "tokens", "at")
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
        return "" if _in_space(inputs, cls.acts_on) else "the model is given no points in space"

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
            return moved.each(self._at, "at").each(self.on_input, "tokens")
        return self.placed(inputs) if isinstance(inputs, Tensor) else replace(inputs, at=self._at(inputs.at))

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

    def _at(self, at: Tensor) -> Tensor:
        return self.placed(at) if at.shape[-1] == 3 else at


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
        return [_turning(axis) for axis in AXES]

    def told(self) -> str:
        return _turn(self.axis, self.angle)


@dataclass(frozen=True)
class Translate(Space):
    """Move all points by the same way."""

    by: Triple
    name: ClassVar[str] = "translate"
    summary: ClassVar[str] = "move the points along"
    acts_on: ClassVar[tuple[Kind, ...]] = ("points", "tokens", "at")
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
        return cls(_way(generator, 1.0))

    @classmethod
    def samples(cls, inputs: Any, generator: Generator, count: int) -> list[Self]:
        return [cls(_way(generator, size)) for size in ((1e-3, 1.0, 100.0) * count)[:count]]

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
        return [_moving(axis) for axis in AXES]

    def told(self) -> str:
        return f"move all points by {_numbers(self.by)}"


@dataclass(frozen=True)
class Reflect(Space):
    """Mirror space at the plane through the origin with this normal of length 1."""

    normal: Triple
    name: ClassVar[str] = "reflect"
    summary: ClassVar[str] = "mirror the points at a plane"
    mirrored: ClassVar[bool] = True

    def matrix(self) -> Tensor:
        normal = _unit(self.normal)
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
        return f"mirror at the plane across {_axis(self.normal)}"


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
        return cls(*anywhere(generator), _way(generator, 1.0))

    @classmethod
    def samples(cls, inputs: Any, generator: Generator, count: int) -> list[Self]:
        small = [cls(anywhere(generator)[0], angle, _way(generator, 1e-3 * angle)) for angle in SMALL[:count]]
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
        return [*(_turning(axis) for axis in AXES), *(_moving(axis) for axis in AXES)]

    def told(self) -> str:
        return _motion(self.axis, self.angle, self.by)


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


class PermuteLike(Permute):
    """Exchange atoms of the same kind only. A model may tell atoms by their kind, not by their row."""

    name: ClassVar[str] = "permute-like"
    summary: ClassVar[str] = "exchange atoms of the same kind"
    implies: ClassVar[tuple[str, ...]] = ()
    acts_on: ClassVar[tuple[Kind, ...]] = ("atoms",)
    shortens: ClassVar[bool] = False

    @classmethod
    def missing(cls, inputs: Inputs) -> str:
        if not inputs.has("atoms"):
            return "the model is given no atoms"
        return "" if any(len(rows) > 1 for rows in alike(inputs)) else "no two atoms are of the same kind"

    @classmethod
    def sample(cls, inputs: Any, generator: Generator) -> Self:
        order = list(range(inputs.length or 0))
        for rows in alike(inputs):
            for i, j in zip(rows, torch.randperm(len(rows), generator=generator).tolist(), strict=True):
                order[i] = rows[j]
        return cls(tuple(order))

    @classmethod
    def samples(cls, inputs: Any, generator: Generator, count: int) -> list[Self]:
        swaps = [*cls.simpler(inputs)][: max(count // 2, 1)]
        return swaps + [cls.sample(inputs, generator) for _ in range(count - len(swaps))]

    @classmethod
    def simpler(cls, inputs: Any) -> Iterator[Self]:
        for rows in alike(inputs):
            yield from (cls(exchanged(inputs.length or 0, i, j)) for i, j in pairwise(rows))

    @classmethod
    def subgroups(cls, inputs: Any) -> Iterator[tuple[str, list[Self]]]:
        return iter(())


@dataclass(frozen=True)
class Scale(Scaling):
    """Lengths in other units: points and vectors times a factor."""

    name: ClassVar[str] = "scale"
    summary: ClassVar[str] = "take the points in other units"
    acts_on: ClassVar[tuple[Kind, ...]] = ("points", "vectors", "tokens", "at")

    @classmethod
    def missing(cls, inputs: Inputs) -> str:
        return "" if _in_space(inputs, cls.acts_on) else "the model is given no points in space"

    def on_input(self, inputs: Any) -> Any:
        if isinstance(inputs, Inputs):
            return inputs.each(self._larger, "points", "vectors", "at").each(self.on_input, "tokens")
        return self._larger(inputs) if isinstance(inputs, Tensor) else replace(inputs, at=self._larger(inputs.at))

    def _larger(self, points: Tensor) -> Tensor:
        return (points.double() * self.factor).to(points.dtype) if points.shape[-1] == 3 else points


def rotation(axis: Triple, degrees: float) -> Tensor:
    """The matrix [3, 3] in float64 (Rodrigues). Whole quarters about the axes of space are exact."""
    u, quarters = _unit(axis), degrees / 90
    c, s = ((1, 0), (0, 1), (-1, 0), (0, -1))[int(quarters) % 4] if quarters == int(quarters) else _cosine(degrees)
    zero = torch.zeros((), dtype=torch.float64)
    cross = torch.stack([zero, -u[2], u[1], u[2], zero, -u[0], -u[1], u[0], zero]).view(3, 3)
    return c * torch.eye(3, dtype=torch.float64) + s * cross + (1 - c) * torch.outer(u, u)


def anywhere(generator: Generator) -> tuple[Triple, float]:
    """Axis and angle of a turn, all of them alike (a quaternion from four normal numbers)."""
    w, *v = torch.nn.functional.normalize(torch.randn(4, generator=generator, dtype=torch.float64), dim=0).tolist()
    size = math.hypot(*v)
    return (v[0] / size, v[1] / size, v[2] / size), math.degrees(2 * math.atan2(size, w))


def alike(inputs: Inputs) -> list[list[int]]:
    """Rows of atoms of one kind, in every molecule of a batch at once."""
    atoms = torch.stack([a.reshape(-1, a.shape[-1]) for a in inputs.of("atoms").values()]).flatten(0, 1)
    kinds: dict[tuple[int, ...], list[int]] = {}
    for row, kind in enumerate(atoms.mT.tolist()):
        kinds.setdefault(tuple(kind), []).append(row)
    return list(kinds.values())


def _in_space(inputs: Inputs, kinds: tuple[Kind, ...]) -> bool:
    """Whether anything of these kinds has three axes."""
    return any(getattr(v, "at", v).shape[-1] == 3 for v in inputs.of(*kinds).values())


def _cosine(degrees: float) -> tuple[float, float]:
    return math.cos(math.radians(degrees)), math.sin(math.radians(degrees))


def _unit(axis: Triple) -> Tensor:
    return torch.nn.functional.normalize(torch.tensor(axis, dtype=torch.float64), dim=0)


def _way(generator: Generator, size: float) -> Triple:
    x, y, z = (size * torch.randn(3, generator=generator, dtype=torch.float64)).tolist()
    return x, y, z


def _turning(axis: Triple) -> Flow:
    """About an axis, per radian."""
    u = torch.tensor(axis, dtype=torch.float64)

    def turn(x: Tensor) -> Tensor:
        return torch.linalg.cross(u.to(x.device, x.dtype).expand_as(x), x, dim=-1)

    def output(y: Tensor, way: str) -> Tensor | None:
        if way == "invariant":
            return torch.zeros_like(y)
        return turn(y) if way in ("vector", "pseudo-vector", "points") and y.shape[-1] == 3 else None

    return Flow(f"about {LETTERS[axis]}, per radian", lambda given: _rates(given, turn, turn), output)


def _moving(axis: Triple) -> Flow:
    """Along an axis, per unit of length."""

    def way(x: Tensor) -> Tensor:
        return torch.tensor(axis, dtype=x.dtype, device=x.device).expand_as(x).clone()

    return Flow(
        f"along {LETTERS[axis]}",
        lambda given: _rates(given, way, None),
        lambda y, how: way(y) if how == "points" else torch.zeros_like(y),
    )


def _rates(given: Inputs, places: Any, vectors: Any) -> dict[str, Tensor]:
    points = given.of("points", "at") | {n: t.at for n, t in given.of("tokens").items()}
    found = {n: places(p) for n, p in points.items() if p.shape[-1] == 3 and p.is_floating_point()}
    return found | ({n: vectors(v) for n, v in given.of("vectors").items()} if vectors else {})


def _motion(axis: Triple, angle: float, by: Triple) -> str:
    parts = [_turn(axis, angle)] if angle else []
    return ", then ".join([*parts, f"move all points by {_numbers(by)}"] if any(by) else parts) or "do nothing"


def _turn(axis: Triple, angle: float) -> str:
    return f"turn by {angle:.6g} degree{'' if angle == 1 else 's'} about {_axis(axis)}"


def _axis(axis: Triple) -> str:
    return LETTERS.get(axis) or _numbers(axis)


def _numbers(values: Triple) -> str:
    return f"({', '.join(f'{v:.4g}' for v in values)})"


TURNS: tuple[tuple[Triple, float], ...] = (((0.48, 0.6, 0.64), 1.0), ((0.48, -0.6, 0.64), 100.0), ((0.6, 0.0, -0.8), 217.0))
WAYS: tuple[Triple, ...] = ((1.0, -2.0, 0.5), (0.01, 0.0, 0.03), (0.0, 20.0, -30.0))
MOTIONS: tuple[type[Action], ...] = (Rotate, Translate, Reflect, Orthogonal, Rigid, Euclidean, PermuteLike, Scale)
