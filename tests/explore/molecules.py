"""Small molecules for tests: ethanol of the samples, one with two hands, a ball of 60 atoms, one atom."""

import math
from itertools import permutations, product
from pathlib import Path

import numpy as np
import torch

from equiscope.tokens.elements import SYMBOLS

ETHANOL = Path(__file__).parents[2] / "recipes" / "samples" / "ethanol.npz"


def xyz(path, symbols, frames):
    """Write frames [F, N, 3] in Å as .xyz."""
    parts = []
    for number, frame in enumerate(frames):
        rows = [f"{symbol} {x!r} {y!r} {z!r}" for symbol, (x, y, z) in zip(symbols, np.asarray(frame).tolist(), strict=True)]
        parts += [str(len(symbols)), f"frame {number + 1}", *rows]
    path.write_text("\n".join(parts) + "\n", encoding="utf-8")
    return path


def ethanol(path, frames=3):
    found = np.load(ETHANOL)
    return xyz(path, [SYMBOLS[n - 1] for n in found["nuclear_charges"]], found["coords"][:frames])


def handed(path, frames=1):
    """CHFClBr: four different neighbours of one carbon, which no turn brings to its mirror image; larger in each frame."""
    corners = np.array([[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]]) / math.sqrt(3)
    far = np.array([1.09, 1.36, 1.76, 1.94])[:, None]
    at = np.concatenate([np.zeros((1, 3)), far * corners])
    return xyz(path, ["C", "H", "F", "Cl", "Br"], [at * (1 + 0.05 * frame) for frame in range(frames)])


def ball(path):
    """The 60 corners of a truncated icosahedron, 1.45 Å apart."""
    golden = (1 + math.sqrt(5)) / 2
    kinds = [(0, 1, 3 * golden), (1, 2 + golden, 2 * golden), (golden, 2, 2 * golden + 1)]
    cyclic = [order for order in permutations(range(3)) if order in ((0, 1, 2), (1, 2, 0), (2, 0, 1))]
    found = {
        tuple(round(s * v, 9) + 0.0 for s, v in zip(signs, (kind[i] for i in order), strict=True))
        for kind in kinds for order in cyclic for signs in product((1, -1), repeat=3)
    }  # fmt: skip
    assert len(found) == 60
    return xyz(path, ["C"] * 60, [np.array(sorted(found)) * 1.45 / 2])


def turned(degrees, axis):
    """A matrix [3, 3] by a unit quaternion, independent of the page's formula."""
    half = math.radians(degrees) / 2
    w, (x, y, z) = math.cos(half), (part * math.sin(half) / math.hypot(*axis) for part in axis)
    return torch.tensor(
        [
            [w * w + x * x - y * y - z * z, 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), w * w - x * x + y * y - z * z, 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), w * w - x * x - y * y + z * z],
        ],
        dtype=torch.float64,
    )
