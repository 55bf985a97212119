"""Figures: sets of points that some turns leave as they are, but for who stands where.

What a model says of such a set has to be left as it is too: on the carbon of methane there is no force, for no arrow but 0 stays
where it is in all turns of a tetrahedron.
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
    """Points about the origin, those next to the middle 1 from it. kinds: 0 in the middle, 1 about it; turns: that leave it."""

    name: str
    positions: tuple[Triple, ...]
    kinds: tuple[int, ...]
    turns: tuple[Rotate, ...]

    def points(self, size: float = 1.0) -> Tensor:
        """[N, 3] in float64."""
        return torch.tensor(self.positions, dtype=torch.float64) * size

    def places(self, turn: Rotate) -> list[int]:
        """Point i comes to stand where this point stood. Raises AssertionError where the turn does not leave the figure."""
        gaps = torch.cdist(turn.placed(self.points()), self.points())
        assert float(gaps.min(1).values.max()) < 1e-9, f"{turn.told()} does not leave a {self.name} as it is"
        found: list[int] = gaps.argmin(1).tolist()
        return found


def _corners(*signs: Triple) -> tuple[Triple, ...]:
    return tuple((x * 3**-0.5, y * 3**-0.5, z * 3**-0.5) for x, y, z in signs)


def line(count: int) -> Figure:
    """So many points along z, at even distances; all of one kind but a middle one."""
    middle = (count - 1) / 2
    kinds = tuple(0 if i == middle else 1 for i in range(count))
    turns = (Rotate(Z, 77.0), Rotate(Z, 180.0), Rotate(X, 180.0))
    return Figure(f"line of {count}", tuple((0.0, 0.0, i - middle) for i in range(count)), kinds, turns)


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
    """The same, turned: its numbers are no longer whole, so nothing cancels but for rounding."""
    turn = by.matrix()

    def moved(positions: Triple) -> Triple:
        x, y, z = (turn @ torch.tensor(positions, dtype=torch.float64)).tolist()
        return x, y, z

    turns = tuple(Rotate(moved(one.axis), one.angle) for one in figure.turns)
    return Figure(f"tilted {figure.name}", tuple(map(moved, figure.positions)), figure.kinds, turns)


def turned() -> Iterator[tuple[Figure, Rotate]]:
    """Every figure with every of its turns, straight and tilted; the first turns of all first."""
    for i in range(3):
        for number, figure in enumerate(FIGURES):
            one = tilted(figure) if (i + number) % 2 else figure
            yield one, one.turns[i]
