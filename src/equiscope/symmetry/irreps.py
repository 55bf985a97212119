"""Irreps: how an output transforms when the points are rotated, for every degree l and both parities.

The matrix of degree l maps real spherical harmonics of degree l to those at rotated points. It is the solution of
Y(R p) = D Y(p) at many directions p, in float64. Order m = -l..l about the y axis as in e3nn, so that degree 1 is (x, y, z).
Source: Geiger & Smidt 2022, "e3nn: Euclidean neural networks", for names and layout.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from equiscope.errors import ShapeError

NAMED = {"vector": "1o", "pseudo-vector": "1e", "pseudo-scalar": "0o"}


@dataclass(frozen=True)
class Irrep:
    """So many blocks of 2l + 1 numbers. parity: -1 ("o") if they change sign under inversion."""

    blocks: int
    l: int  # noqa: E741  the name in every book
    parity: int

    @property
    def width(self) -> int:
        return self.blocks * (2 * self.l + 1)


def parsed(name: str) -> list[Irrep]:
    """ "4x0e+1o" -> four scalars, then a vector."""
    parts = []
    for part in NAMED.get(name, name).split("+"):
        blocks, _, kind = part.rpartition("x")
        parts.append(Irrep(int(blocks or 1), int(kind[:-1]), 1 if kind[-1] == "e" else -1))
    return parts


def harmonics(l: int, points: Tensor) -> Tensor:  # noqa: E741
    """Real spherical harmonics [..., 2l + 1] of directions [..., 3] of length 1, all of the same size."""
    x, y, z = points.double().unbind(-1)
    powers = [torch.complex(torch.ones_like(x), torch.zeros_like(x))]
    for _ in range(l):
        powers.append(powers[-1] * torch.complex(z, x))  # about y
    values = {0: _legendre(l, 0, y)}
    for m in range(1, l + 1):
        size = math.sqrt(2 * math.factorial(l - m) / math.factorial(l + m)) * _legendre(l, m, y)
        values[m], values[-m] = size * powers[m].real, size * powers[m].imag
    return torch.stack([values[m] for m in range(-l, l + 1)], -1)


def _legendre(l: int, m: int, x: Tensor) -> Tensor:  # noqa: E741
    """The m-th derivative of the Legendre polynomial of degree l."""
    before, now = torch.zeros_like(x), torch.full_like(x, math.prod(range(2 * m - 1, 0, -2)))
    for n in range(m, l):
        before, now = now, ((2 * n + 1) * x * now - (n + m) * before) / (n - m + 1)
    return now


def wigner(l: int, rotation: Tensor) -> Tensor:  # noqa: E741
    """D(R) [2l + 1, 2l + 1] of an orthogonal matrix R [3, 3], float64: Y(R p) = D(R) Y(p). R may be a reflection."""
    if l == 0:
        return torch.ones(1, 1, dtype=torch.float64)
    points = directions(4 * (2 * l + 1) ** 2)
    plain, moved = harmonics(l, points), harmonics(l, points @ rotation.double().mT)
    return torch.linalg.lstsq(plain, moved).solution.mT


def directions(count: int) -> Tensor:
    """Evenly spread over the sphere: Fibonacci's spiral."""
    step = torch.arange(count, dtype=torch.float64) + 0.5
    height, angle = 1 - 2 * step / count, math.pi * (1 + math.sqrt(5)) * step
    ring = (1 - height**2).sqrt()
    return torch.stack([ring * angle.cos(), ring * angle.sin(), height], -1)


def rotated(output: Tensor, matrix: Tensor, name: str) -> Tensor:
    """An output of this representation under an orthogonal matrix [3, 3]. "vector@-2": its components are along axis -2.

    raises ShapeError where the axis is of another width
    """
    name, _, axis = name.partition("@")
    if name == "tensor":
        if output.shape[-2:] != (3, 3):
            raise ShapeError(f"A tensor has the shape [..., 3, 3], but got {list(output.shape)}.")
        return matrix @ output.double() @ matrix.mT
    if output.ndim == 0 and not axis:  # the energy of a molecule: one number
        return rotated(output[None], matrix, name)[0]
    along = int(axis or -1)
    if output.ndim < -along:
        raise ShapeError(f"An output of shape {list(output.shape)} has no axis {along} to rotate as {name!r}.")
    rows, sign = output.double().movedim(along, -1), 1 if torch.linalg.det(matrix) > 0 else -1
    parts, width = parsed(name), rows.shape[-1]
    total = sum(p.width for p in parts)
    if len(parts) == 1 and width % total == 0:
        parts = [Irrep(width // (total // parts[0].blocks), parts[0].l, parts[0].parity)]
    elif width != total:
        raise ShapeError(f"{name!r} has {total} numbers, but axis {along} of the output {list(output.shape)} has {width}.")
    rotated_parts = []
    for part, block in zip(parts, rows.split([p.width for p in parts], -1), strict=True):
        factor = part.parity if sign < 0 else 1
        each = block.unflatten(-1, (part.blocks, 2 * part.l + 1)) @ wigner(part.l, sign * matrix).mT
        rotated_parts.append(factor * each.flatten(-2))
    return torch.cat(rotated_parts, -1).movedim(-1, along)


def candidates(shape: tuple[int, ...], rows: tuple[int, ...], mirrored: bool) -> tuple[str, ...]:
    """Representations that an output of this shape may have, the likeliest first; pseudo-ones only if the group has reflections.

    rows  axes with one entry a point: so many points are no components
    """
    wide = {axis - len(shape): n for axis, n in enumerate(shape) if axis not in rows}
    last, names = wide.get(-1, 0), ["invariant"]
    if last and last % 3 == 0:
        names += ["vector", "pseudo-vector"]
    if last == wide.get(-2) == 3:
        names.append("tensor")
    if wide.get(-2) == 3:
        names += ["vector@-2", "pseudo-vector@-2"]
    names += {4: ["0e+1o"], 5: ["2e", "2o"], 7: ["3o", "3e"], 9: ["0e+1o+2e"]}.get(last, [])
    names.append("pseudo-scalar")
    return tuple(f for f in names if mirrored or not (f.startswith("pseudo") or f in ("2o", "3e")))
