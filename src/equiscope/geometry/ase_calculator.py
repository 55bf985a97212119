"""The class of calculators. It needs ASE, so it is imported when one is made; at the top of a module it can be pickled."""

from collections.abc import Sequence
from typing import Any

import torch
from ase.calculators.calculator import Calculator, PropertyNotImplementedError, all_changes

from equiscope.geometry.model import SpaceModel
from equiscope.geometry.neighbours import filled


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
        periodic = [bool(p) for p in atoms.pbc]
        numbers = torch.as_tensor(atoms.numbers, device=where.device)[None].long()
        at = torch.as_tensor(atoms.positions / self.length, device=where.device)[
            None
        ]  # float64: of thousands of eV millionths count
        cell = torch.as_tensor(atoms.cell.array / self.length, device=where.device) if any(periodic) else None
        if cell is not None and not all(periodic):
            cell = filled(cell, periodic, at[0], 2 * (self.model.spec.cutoff or 0.0))
        wants = "stress" in properties
        if wants and not all(periodic):
            raise PropertyNotImplementedError(
                "Stress is a force by an area, so it needs a cell that is periodic along all vectors."
            )
        results = self.model.energy_and_forces(numbers, at, None if cell is None else cell[None], stress=wants)
        energy = float(results.energy) * self.energy
        forces = results.forces[0].cpu().double().numpy() * (self.energy / self.length)
        self.results = {"energy": energy, "free_energy": energy, "forces": forces}
        if results.stress is not None:
            s = results.stress[0].cpu().double().numpy() * (self.energy / self.length**3)
            self.results["stress"] = s.flat[[0, 4, 8, 5, 2, 1]]  # xx, yy, zz, yz, xz, xy
