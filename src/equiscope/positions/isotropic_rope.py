"""Isotropic rotary positions: pairs rotate along fixed, evenly spread directions, so that no axis is special.

In the plane, the directions of neighbouring pairs differ by a golden angle; in space and beyond, they are a low-discrepancy
sequence on the sphere. Frequencies grow geometrically from `slowest` to `fastest`, so near and far gaps are resolved alike in
every direction. Over one to two steps, scores of axial RoPE are more even, because its axes have the same frequencies.
Source: Jerry Xiong 2025, "On N-dimensional Rotary Positional Embeddings" (jerryxio.ng/posts/nd-rope), "golden gate RoPE";
the sequence is Martin Roberts 2018, "The Unreasonable Effectiveness of Quasirandom Sequences".
"""

import math

import torch
from torch import Tensor

from equiscope.errors import InputError, ShapeError, wrong_choice
from equiscope.functional import Layout, rotate
from equiscope.positions.base import Position, Role
from equiscope.positions.frequencies import directed
from equiscope.symmetry import Shift


class IsotropicRope(Position):
    """Rotates queries and keys along evenly spread directions.

    axes     numbers in a coordinate, 2 or more: (y, x) for images, three for points in space
    slowest  radians a step of the slowest pair, which is the first
    fastest  of the fastest
    pairs    which columns form a pair: "interleaved" or "half" (the source's code)
    sets     sets of directions; 1: all heads share them. The source has one set per head; with grouped queries, use at most as
             many as key heads
    raises   ShapeError for an odd head width and where the sets do not divide the heads

    Frequencies are radians a step, whereas the source first scales every image to positions in -1..1. So a shift is exact, and a
    step means the same in images of any size.
    """

    name = "isotropic-rope"
    title = "isotropic RoPE"
    summary = "Queries and keys are rotated along evenly spread directions, so that no axis is special."
    source = "Xiong 2025 (jerryxio.ng/posts/nd-rope)"
    formula = "qᵢ′·kⱼ′ = qᵢᵀ R((pⱼ−pᵢ)·uₖωₖ) kⱼ"
    longer = "–"
    cost = "2·N·K products a head for queries, as many for keys"
    because = "IsotropicRope rotates queries and keys by their position: scores depend on the signed distance along each direction"
    preserves = frozenset({Shift})

    def __init__(
        self, axes: int = 2, slowest: float = 0.01, fastest: float = 1.0, pairs: Layout = "interleaved", sets: int = 1
    ) -> None:
        super().__init__()
        if axes < 2:
            raise InputError(f"Directions are spread in a plane or in space, but axes is {axes}. On a line, use Rope().")
        if not 0 < slowest <= fastest or sets < 1:
            raise InputError(f"0 < slowest <= fastest and sets >= 1, but got slowest={slowest}, fastest={fastest}, sets={sets}.")
        if pairs not in ("interleaved", "half"):
            raise wrong_choice("IsotropicRope.pairs", pairs, ["interleaved", "half"])
        self.axes, self.slowest, self.fastest = axes, slowest, fastest
        self.pairs, self.sets = pairs, sets

    def allocate(self, width: int, heads: int, head_width: int) -> None:
        self.directions(head_width)
        if heads % self.sets:
            raise ShapeError(f"{self.sets} sets of directions cannot serve {heads} heads alike. Use a divisor of {heads}.")

    def directions(self, head_width: int) -> Tensor:
        """Radians a step of every pair along every axis: [sets, A, K/2] float64."""
        if head_width % 2:
            raise ShapeError(f"IsotropicRope rotates pairs of columns, but a head has {head_width}. Choose an even head width.")
        pairs = head_width // 2
        speeds = torch.exp(torch.linspace(math.log(self.slowest), math.log(self.fastest), pairs, dtype=torch.float64))
        return spread(self.sets * pairs, self.axes or 2).view(self.sets, pairs, -1).transpose(1, 2) * speeds

    def rotate(self, x: Tensor, positions: Tensor, role: Role) -> Tensor:
        self.check(positions)
        omega = self.directions(x.shape[-1]).to(positions.device, torch.promote_types(positions.dtype, torch.float32))
        theta = directed(x, positions, omega)
        return rotate(x, theta, self.pairs)


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
