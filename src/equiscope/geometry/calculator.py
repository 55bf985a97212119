"""A calculator for ASE: energy, forces and stress of a model, so that its tools relax, vibrate and move molecules.

Energies in eV, lengths in angstrom, as ASE has them. Units such as kcal/mol and bohr are converted by name, never silently.
"""

from importlib import import_module
from typing import Any

from torch import nn

from equiscope.errors import InputError
from equiscope.geometry.model import SpaceModel
from equiscope.tokens.extra import needed
from equiscope.units import angstrom, electronvolts


def calculator(model: nn.Module, unit: str = "eV", length: str = "angstrom", **settings: Any) -> Any:
    """An `ase.calculators.calculator.Calculator` of the model, whose places are in `length` and whose energies are in `unit`.

    It can be copied and pickled with its model, so workers of other processes take it.

    raises  InputError where ASE is not installed, or the model does not answer with an energy; UnknownName for another unit
    """
    needed("ase", "molecules", "A calculator")
    if not isinstance(model, SpaceModel):
        raise InputError(f"A calculator is of a model of points in space, but this is a {type(model).__name__}.")
    if model.spec.readout != "energy":
        raise InputError(f'A calculator needs a model that reads an energy, but this one reads "{model.spec.readout}".')
    kind = import_module("equiscope.geometry.ase_calculator").SpaceCalculator
    return kind(model, electronvolts(unit), angstrom(length), **settings)
