"""Units of energy and length, in eV and angstrom, shared by readers, calculators and predictions.

The SI fixes the charge of an electron and Avogadro's number, so kcal/mol (of the thermochemical calorie) and kJ/mol are exact.
Hartree and bohr are measured: values of CODATA 2022.
"""

from collections.abc import Mapping
from typing import Literal

from equiscope.errors import UnknownName

ELECTRON, AVOGADRO = 1.602176634e-19, 6.02214076e23  # C and 1/mol, by definition of the SI (2019)
HARTREE, BOHR = 27.211386245981, 0.529177210544  # eV and angstrom, CODATA 2022

Energy = Literal["eV", "meV", "kcal/mol", "kJ/mol", "hartree", "Ry"]
Length = Literal["angstrom", "nm", "bohr"]

ENERGIES: Mapping[str, float] = {  # in eV
    "eV": 1.0,
    "meV": 1e-3,
    "kcal/mol": 4184 / (ELECTRON * AVOGADRO),
    "kJ/mol": 1000 / (ELECTRON * AVOGADRO),
    "hartree": HARTREE,
    "Ry": HARTREE / 2,
}
LENGTHS: Mapping[str, float] = {"angstrom": 1.0, "nm": 10.0, "bohr": BOHR}  # in angstrom


def electronvolts(unit: str) -> float:
    """How many eV one unit of energy is. Raises UnknownName."""
    if unit not in ENERGIES:
        raise UnknownName("unit of energy", unit, list(ENERGIES))
    return ENERGIES[unit]


def angstrom(unit: str) -> float:
    """How many angstrom one unit of length is. Raises UnknownName."""
    if unit not in LENGTHS:
        raise UnknownName("unit of length", unit, list(LENGTHS))
    return LENGTHS[unit]
