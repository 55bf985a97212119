"""Calculator module: an ASE calculator, or a function of numbers and positions, as a torch module."""

from collections.abc import Callable
from typing import Any

import numpy
import torch
from torch import Tensor, nn


class CalculatorModule(nn.Module):
    """An ASE calculator, or a function `(numbers, positions) -> (energy, forces)` or a dict of these, as a module for `check`.

    calculate  the calculator or the function
    cutoff     the distance beyond which atoms do not interact, where it is known: `smooth` examines it first

    `forward` takes numbers [B, N] or [N] (atomic numbers, for a calculator) and positions [B, N, 3] or [N, 3] (in angstrom for a
    calculator, which returns eV and eV/angstrom). A calculator always computes in float64.
    """

    def __init__(self, calculate: Any, cutoff: float | None = None) -> None:
        super().__init__()
        self.calculate: Callable[..., Any] = calculate
        self.cutoff = cutoff

    def forward(self, numbers: Tensor, positions: Tensor) -> Any:
        if not hasattr(self.calculate, "get_potential_energy"):
            return self.calculate(numbers, positions)
        if positions.ndim == 2:
            return self._calculate_one(numbers, positions)
        results = [self._calculate_one(z, x) for z, x in zip(numbers, positions, strict=True)]
        return {n: torch.stack([one[n] for one in results]) for n in results[0]}

    def _calculate_one(self, numbers: Tensor, positions: Tensor) -> dict[str, Tensor]:
        from ase import Atoms

        atoms = Atoms(numbers.tolist(), positions.detach().double().cpu().numpy(), calculator=self.calculate)
        with numpy.errstate(all="ignore"):  # coincident atoms are tried too
            energy, forces = atoms.get_potential_energy(), atoms.get_forces()
        return {"energy": torch.tensor(energy, dtype=torch.float64), "forces": torch.as_tensor(forces, dtype=torch.float64)}
