"""Random rotations: uniformly distributed, determined by the seed and names, so that no state has to be saved."""

from dataclasses import replace

import torch
from torch import Tensor

from equiscope.data.frame import MoleculeFrame
from equiscope.data.sampler import generator


def random_rotation(seed: int, *names: int | str) -> Tensor:
    """The rotation [3, 3] float64 of these names: four normal numbers, normalised, are a quaternion (Shoemake 1992)."""
    drawn = torch.randn(4, generator=generator(seed, "turn", *names), dtype=torch.float64)
    w, x, y, z = (drawn / drawn.norm()).tolist()
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    return torch.tensor(rows, dtype=torch.float64)


def rotated(frame: MoleculeFrame, by: Tensor) -> MoleculeFrame:
    """The frame rotated by [3, 3] about the origin: positions, forces and the cell rotate, the energy does not change."""
    forces, cell = (None if t is None else t @ by.mT for t in (frame.forces, frame.cell))
    return replace(frame, positions=frame.positions @ by.mT, forces=forces, cell=cell)
