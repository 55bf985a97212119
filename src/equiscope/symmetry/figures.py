"""Figures: sets of points that some rotations map to themselves, up to a permutation of the points.

The output of an equivariant model on such a set must be invariant under these rotations too. There is no force on the carbon of
methane, because only the zero vector is invariant under all rotations of a tetrahedron.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from equiscope.symmetry.motions import Triple, X, Z
from equiscope.symmetry.space import Rotate

DIAGONAL: Triple = (1.0, 1.0, 1.0)
ALONG: Triple = (1.0, 1.0, 0.0)
ASKEW = Rotate((0.48, -0.6, 0.64), 33.0)


@dataclass(frozen=True)
class Figure:
    """Points about the origin, the nearest at distance 1. kinds: 0 for the centre, else 1; rotations: those that preserve it."""

    name: str
    positions: tuple[Triple, ...]
    kinds: tuple[int, ...]
    rotations: tuple[Rotate, ...]

    def points(self, size: float = 1.0) -> Tensor:
        """[N, 3] in float64."""
        return torch.tensor(self.positions, dtype=torch.float64) * size

    def permutation(self, rotation: Rotate) -> list[int]:
        """Index of the point that point i is rotated to. Raises AssertionError if the rotation does not preserve the figure."""
        gaps = torch.cdist(rotation.transformed(self.points()), self.points())
        assert float(gaps.min(1).values.max()) < 1e-9, f"{rotation.describe()} does not preserve a {self.name}"
        nearest: list[int] = gaps.argmin(1).tolist()
        return nearest


def _corners(*signs: Triple) -> tuple[Triple, ...]:
    return tuple((x * 3**-0.5, y * 3**-0.5, z * 3**-0.5) for x, y, z in signs)


def line(count: int) -> Figure:
    """`count` points along z at equal distances, of one kind except the centre."""
    middle = (count - 1) / 2
    kinds = tuple(0 if i == middle else 1 for i in range(count))
    rotations = (Rotate(Z, 77.0), Rotate(Z, 180.0), Rotate(X, 180.0))
    return Figure(f"line of {count}", tuple((0.0, 0.0, i - middle) for i in range(count)), kinds, rotations)


FIGURES: tuple[Figure, ...] = (
    Figure(
        "methane",
        ((0.0, 0.0, 0.0), *_corners((1, 1, 1), (1, -1, -1), (-1, 1, -1), (-1, -1, 1))),
        (0, 1, 1, 1, 1),
        (Rotate(DIAGONAL, 120.0), Rotate(X, 180.0), Rotate(Z, 180.0)),
    ),
    line(3),
    Figure(
        "square",
        ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (-1.0, 0.0, 0.0), (0.0, -1.0, 0.0)),
        (1, 1, 1, 1),
        (Rotate(Z, 90.0), Rotate(X, 180.0), Rotate(ALONG, 180.0)),
    ),
    Figure(
        "octahedron",
        ((0.0, 0.0, 0.0), (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0), (-1.0, 0.0, 0.0), (0.0, -1.0, 0.0), (0.0, 0.0, -1.0)),
        (0, 1, 1, 1, 1, 1, 1),
        (Rotate(Z, 90.0), Rotate(X, 90.0), Rotate(DIAGONAL, 120.0)),
    ),
)


def tilted(figure: Figure, by: Rotate = ASKEW) -> Figure:
    """The figure, rotated: its coordinates are no longer integers, so nothing cancels exactly."""
    matrix = by.matrix()

    def moved(positions: Triple) -> Triple:
        x, y, z = (matrix @ torch.tensor(positions, dtype=torch.float64)).tolist()
        return x, y, z

    rotations = tuple(Rotate(moved(one.axis), one.angle) for one in figure.rotations)
    return Figure(f"tilted {figure.name}", tuple(map(moved, figure.positions)), figure.kinds, rotations)


def figure_rotations() -> Iterator[tuple[Figure, Rotate]]:
    """Every figure with each of its rotations, as it is or tilted; first the first rotation of every figure."""
    for i in range(3):
        for number, figure in enumerate(FIGURES):
            one = tilted(figure) if (i + number) % 2 else figure
            yield one, one.rotations[i]
