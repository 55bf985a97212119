"""Calculated: what is no module, as one: a calculator of ASE, or a function of numbers and positions."""

from collections.abc import Callable
from typing import Any

import numpy
import torch
from torch import Tensor, nn


class CalculatorModule(nn.Module):
    """A calculator, or a function `(numbers, positions) -> (energy, forces)` or a dict of them, as a module that a check takes.

    numbers    [B, N], or [N]: numbers of the periodic table, for a calculator
    positions  [B, N, 3], or [N, 3]; in angstrom for a calculator, which answers in eV and eV/angstrom
    cutoff     beyond which atoms do not see one another, where it is known: `smooth` looks there first
    A calculator computes in float64, whatever is asked.
    """

    def __init__(self, what: Any, cutoff: float | None = None) -> None:
        super().__init__()
        self.what: Callable[..., Any] = what
        self.cutoff = cutoff

    def forward(self, numbers: Tensor, positions: Tensor) -> Any:
        if not hasattr(self.what, "get_potential_energy"):
            return self.what(numbers, positions)
        if positions.ndim == 2:
            return self._one(numbers, positions)
        found = [self._one(z, x) for z, x in zip(numbers, positions, strict=True)]
        return {n: torch.stack([one[n] for one in found]) for n in found[0]}

    def _one(self, numbers: Tensor, positions: Tensor) -> dict[str, Tensor]:
        from ase import Atoms

        atoms = Atoms(numbers.tolist(), positions.detach().double().cpu().numpy(), calculator=self.what)
        with numpy.errstate(all="ignore"):  # two atoms at one place are asked about too
            energy, forces = atoms.get_potential_energy(), atoms.get_forces()
        return {"energy": torch.tensor(energy, dtype=torch.float64), "forces": torch.as_tensor(forces, dtype=torch.float64)}
