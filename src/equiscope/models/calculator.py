"""A calculator for ASE: energy, forces and stress of a model, so that its tools relax, vibrate and move molecules.

Energies in eV, lengths in angstrom, as ASE has them. Units such as kcal/mol and bohr are converted by name, never silently.
"""

from collections.abc import Sequence
from importlib import import_module
from typing import Any, ClassVar

import torch
from torch import nn

from equiscope.errors import InputError, UnknownName
from equiscope.models.space import SpaceModel
from equiscope.tokens.extra import needed

UNITS = {"eV": 1.0, "meV": 1e-3, "kcal/mol": 0.0433641153087705, "kJ/mol": 0.0103642696562201, "hartree": 27.211386245988}  # in eV

LENGTHS = {"angstrom": 1.0, "nm": 10.0, "bohr": 0.529177210903}  # in Å (CODATA 2018)


def in_electronvolts(unit: str) -> float:
    """How many eV one unit of energy is (CODATA 2018; kcal/mol by the thermochemical calorie). Raises UnknownName."""
    if unit not in UNITS:
        raise UnknownName("unit of energy", unit, list(UNITS))
    return UNITS[unit]


def in_angstrom(length: str) -> float:
    """How many Å one unit of length is. Raises UnknownName."""
    if length not in LENGTHS:
        raise UnknownName("unit of length", length, list(LENGTHS))
    return LENGTHS[length]


def calculator(model: nn.Module, unit: str = "eV", length: str = "angstrom", **settings: Any) -> Any:
    """An `ase.calculators.calculator.Calculator` of the model, whose places are in `length` and whose energies are in `unit`.

    raises  InputError where ASE is not installed, or the model does not answer with an energy; UnknownName for another unit
    """
    needed("ase", "molecules", "A calculator")
    base = import_module("ase.calculators.calculator")
    if not isinstance(model, SpaceModel):
        raise InputError(f"A calculator is of a model of points in space, but this is a {type(model).__name__}.")
    if model.spec.reads != "energy":
        raise InputError(f'A calculator needs a model that reads an energy, but this one reads "{model.spec.reads}".')
    space, factor, long = model, in_electronvolts(unit), in_angstrom(length)

    class SpaceCalculator(base.Calculator):  # type: ignore[name-defined]
        """Energy, forces, and of what is periodic stress."""

        implemented_properties: ClassVar[list[str]] = ["energy", "free_energy", "forces", "stress"]

        def calculate(
            self, atoms: Any = None, properties: Sequence[str] = ("energy",), system_changes: Any = base.all_changes
        ) -> None:
            """What ASE asks for, of `atoms`."""
            super().calculate(atoms, properties, system_changes)
            atoms, where = self.atoms, next(space.parameters())
            periodic = tuple(bool(p) for p in atoms.pbc)
            if any(periodic) and not all(periodic):
                raise InputError(f"A cell repeats along all three vectors or none here, but pbc is {periodic}.")
            numbers = torch.as_tensor(atoms.numbers, device=where.device)[None].long()
            at = torch.as_tensor(atoms.positions / long, device=where.device)[None]  # float64: of thousands of eV millionths count
            cell = torch.as_tensor(atoms.cell.array / long, device=where.device)[None] if all(periodic) else None
            wants = "stress" in properties
            if wants and cell is None:
                raise base.PropertyNotImplementedError("Stress is a force by an area, so it needs a cell.")
            found = space.answer(numbers, at, cell, stress=wants)
            energy = float(found.energy) * factor
            forces = found.forces[0].cpu().double().numpy() * (factor / long)
            self.results = {"energy": energy, "free_energy": energy, "forces": forces}
            if found.stress is not None:
                s = found.stress[0].cpu().double().numpy() * (factor / long**3)
                self.results["stress"] = s.flat[[0, 4, 8, 5, 2, 1]]  # xx, yy, zz, yz, xz, xy

    return SpaceCalculator(**settings)
