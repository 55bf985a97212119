"""The class of calculators. It needs ASE, so it is imported when one is made; at the top of a module it can be pickled."""

from collections.abc import Sequence
from typing import Any

import torch
from ase.calculators.calculator import Calculator, PropertyNotImplementedError, all_changes

from equiscope.errors import InputError
from equiscope.geometry.model import SpaceModel


class SpaceCalculator(Calculator):
    """Energy, forces and, of what is periodic, stress of a model of points in space, in ASE's units.

    energy, length  the model's own units, in eV and angstrom
    """

    implemented_properties: list[str] = ["energy", "free_energy", "forces", "stress"]  # noqa: RUF012 as ASE declares it

    def __init__(self, model: SpaceModel, energy: float = 1.0, length: float = 1.0, **settings: Any) -> None:
        super().__init__(**settings)
        self.model, self.energy, self.length = model, energy, length

    def calculate(self, atoms: Any = None, properties: Sequence[str] = ("energy",), system_changes: Any = all_changes) -> None:
        """What ASE asks for, of `atoms`."""
        super().calculate(atoms, properties, system_changes)
        atoms, where = self.atoms, next(self.model.parameters())
        periodic = tuple(bool(p) for p in atoms.pbc)
        if any(periodic) and not all(periodic):
            raise InputError(f"A cell repeats along all three vectors or none here, but pbc is {periodic}.")
        numbers = torch.as_tensor(atoms.numbers, device=where.device)[None].long()
        at = torch.as_tensor(atoms.positions / self.length, device=where.device)[
            None
        ]  # float64: of thousands of eV millionths count
        cell = torch.as_tensor(atoms.cell.array / self.length, device=where.device)[None] if all(periodic) else None
        wants = "stress" in properties
        if wants and cell is None:
            raise PropertyNotImplementedError("Stress is a force by an area, so it needs a cell.")
        results = self.model.energy_and_forces(numbers, at, cell, stress=wants)
        energy = float(results.energy) * self.energy
        forces = results.forces[0].cpu().double().numpy() * (self.energy / self.length)
        self.results = {"energy": energy, "free_energy": energy, "forces": forces}
        if results.stress is not None:
            s = results.stress[0].cpu().double().numpy() * (self.energy / self.length**3)
            self.results["stress"] = s.flat[[0, 4, 8, 5, 2, 1]]  # xx, yy, zz, yz, xz, xy
