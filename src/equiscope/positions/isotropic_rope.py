"""Isotropic rotary positions: pairs turn along fixed directions that are spread evenly, so that no axis is special.

In the plane, neighbouring pairs lie a golden angle apart; in space and beyond, a low-discrepancy sequence is laid on the
sphere. Speeds grow from `slowest` to `fastest` by equal factors, so near and far gaps are told apart in every direction alike.
Scores of one to two steps, though, are evener with axial RoPE, whose axes have the same speeds.
Source: Jerry Xiong 2025, "On N-dimensional Rotary Positional Embeddings" (jerryxio.ng/posts/nd-rope), "golden gate RoPE";
the sequence is Martin Roberts 2018, "The Unreasonable Effectiveness of Quasirandom Sequences".
"""

import math

import torch
from torch import Tensor

from equiscope.errors import InputError, ShapeError
from equiscope.functional import Layout, rotate
from equiscope.positions.base import Position, Role
from equiscope.positions.frequencies import directed
from equiscope.symmetry import Action, Shift


class IsotropicRope(Position):
    """Turns queries and keys along evenly spread directions.

    axes     numbers in a coordinate, 2 or more: (y, x) for images, three for points in space
    slowest  radians a step of the slowest pair, which is the first
    fastest  of the fastest
    pairs    which columns turn together: "interleaved" or "half" (the source's code)
    sets     how many heads have directions of their own; 1: all share them. The source has as many as heads; with grouped
             queries, at most as many as key heads
    raises   ShapeError for an odd head width and where the sets do not divide the heads

    Speeds are radians a step, where the source brings every image to places in -1..1 first: so a shift is exact, and pictures of
    other sizes mean the same steps.
    """

    name = "isotropic-rope"
    title = "isotropic RoPE"
    summary = "Queries and keys are turned along evenly spread directions, so that no axis is special."
    source = "Xiong 2025 (jerryxio.ng/posts/nd-rope)"
    formula = "qᵢ′·kⱼ′ = qᵢᵀ R((pⱼ−pᵢ)·uₖωₖ) kⱼ"
    longer = "–"
    cost = "2·N·K products a head for queries, as many for keys"
    because = "IsotropicRope turns queries and keys by their place, one way round along each direction"

    def __init__(
        self, axes: int = 2, slowest: float = 0.01, fastest: float = 1.0, pairs: Layout = "interleaved", sets: int = 1
    ) -> None:
        super().__init__()
        if axes < 2:
            raise InputError(f"Directions are spread in a plane or in space, but axes is {axes}. On a line, use Rope().")
        if not 0 < slowest <= fastest or sets < 1:
            raise InputError(f"0 < slowest <= fastest and sets >= 1, but got slowest={slowest}, fastest={fastest}, sets={sets}.")
        if pairs not in ("interleaved", "half"):
            raise InputError(f'pairs is "interleaved" or "half", but got {pairs!r}.')
        self.axes, self.slowest, self.fastest = axes, slowest, fastest  # type: ignore[misc]  # this one's own axes
        self.pairs, self.sets = pairs, sets

    @property
    def preserves(self) -> frozenset[type[Action]]:
        return frozenset({Shift})

    def allocate(self, width: int, heads: int, head_width: int) -> None:
        self.directions(head_width)
        if heads % self.sets:
            raise ShapeError(f"{self.sets} sets of directions cannot serve {heads} heads alike. Use a divisor of {heads}.")

    def directions(self, head_width: int) -> Tensor:
        """Radians a step of every pair along every axis: [sets, A, K/2] float64."""
        if head_width % 2:
            raise ShapeError(f"IsotropicRope turns pairs of columns, but a head has {head_width}. Choose an even head width.")
        pairs = head_width // 2
        speeds = torch.exp(torch.linspace(math.log(self.slowest), math.log(self.fastest), pairs, dtype=torch.float64))
        return spread(self.sets * pairs, self.axes or 2).view(self.sets, pairs, -1).transpose(1, 2) * speeds

    def rotate(self, x: Tensor, positions: Tensor, role: Role) -> Tensor:
        self.check(positions)
        omega = self.directions(x.shape[-1]).to(positions.device, torch.promote_types(positions.dtype, torch.float32))
        clocks = directed(x, positions, omega)
        return rotate(x, clocks, self.pairs)


def spread(count: int, axes: int) -> Tensor:
    """Unit vectors spread evenly over all directions (u and -u count as one in the plane): [count, A] float64.

    In the plane (y, x) = (sin, cos) of multiples of pi (sqrt(5) - 1) / 2. On more axes, points of Roberts' sequence in the unit
    cube are made normal, number by number, and brought to length 1.
    """
    if axes == 2:
        angle = torch.arange(count, dtype=torch.float64) * (math.pi * (math.sqrt(5) - 1) / 2)
        return torch.stack([angle.sin(), angle.cos()], -1)
    root = 2.0
    for _ in range(60):
        root = (1 + root) ** (1 / (axes + 1))  # x^(A+1) = x + 1
    powers = root ** -torch.arange(1, axes + 1, dtype=torch.float64)
    cube = (torch.arange(1, count + 1, dtype=torch.float64).unsqueeze(-1) * powers) % 1
    normal = torch.erfinv(2 * cube - 1)
    return normal / normal.norm(dim=-1, keepdim=True)
