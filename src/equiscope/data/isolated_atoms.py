"""Isolated atoms: single-atom frames give the reference energies of the elements. They are not training examples."""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from equiscope.data.frame import MoleculeFrame
from equiscope.errors import InputError, counted
from equiscope.tokens.elements import SYMBOLS

MARKS = ("isolatedatom", "isolatedatoms", "singleatom", "freeatom", "loneatom")  # what config_type says of one, letters only
CHARGES = ("charge", "total_charge", "tot_charge", "net_charge", "system_charge")
APART = 10.0  # angstrom: an atom whose images are as far off is alone in its cell
PULL = 0.05  # eV/angstrom: no more acts on an atom that is alone
BOUND = 25.0  # eV an atom: no bond holds as much


def is_isolated(name: str, numbers: Tensor, cell: Tensor | None, values: Mapping[str, Any]) -> bool:
    """Whether a frame is an isolated atom: a single atom that is not periodic, is marked as isolated, or has distant images.

    cell    in angstrom
    raises  InputError if several atoms are marked as an isolated one
    """
    mark = values.get("config_type", "")
    marked = re.sub(r"[^a-z]", "", str(mark).lower()) in MARKS
    if marked and len(numbers) != 1:
        raise InputError(f"{name} has config_type={mark}, but has {len(numbers)} atoms. Correct the mark, or leave the frame out.")
    return len(numbers) == 1 and (marked or cell is None or _nearest_image(cell) >= APART)


def charge(values: Mapping[str, Any]) -> float:
    """The charge of a frame; 0 if it has none."""
    for name, value in values.items():
        if name.lower() in CHARGES:
            if isinstance(value, Tensor) and value.numel() == 1:
                value = value.item()
            if isinstance(value, int | float):
                return float(value)
    return 0.0


def energies(isolated: Sequence[MoleculeFrame]) -> tuple[dict[int, float], list[str]]:
    """The energy of an isolated atom of each element, in eV, and notes about atoms that are not used.

    Ions are left out. Of several atoms of one element, the lowest energy is the ground state.
    raises  InputError for an atom with a force on it
    """
    frames_by_element: dict[int, list[MoleculeFrame]] = {}
    notes = []
    for frame in isolated:
        if frame.forces is not None and (pull := float(frame.forces.norm())) > PULL:
            raise InputError(
                f"{frame.name} is an isolated atom, but a force of {pull:.3g} eV/Å acts on it, so it is no reference. "
                f"Leave it out: data.drop names {frame.number}."
            )
        if frame.charge:
            notes.append(f"{frame.name} is an ion (charge {frame.charge:g}), so it is no reference; it is left out.")
        else:
            frames_by_element.setdefault(int(frame.numbers), []).append(frame)
    for number, some in frames_by_element.items():
        low, high = min(some, key=lambda f: f.energy), max(some, key=lambda f: f.energy)
        if high.energy - low.energy > 1e-6:
            notes.append(
                f"{counted(len(some), 'isolated atom')} of {SYMBOLS[number - 1]} have {low.energy:.6g} to {high.energy:.6g} eV; "
                f"the lowest is the reference: {low.name}."
            )
    return {number: min(frame.energy for frame in some) for number, some in frames_by_element.items()}, notes


def fit_bonds(offset: float, where: str) -> None:
    """Raises InputError if the binding energy is larger than physically possible: the references are in another unit or method."""
    if math.isfinite(offset) and abs(offset) > BOUND:
        raise InputError(
            f"By the energies of the isolated atoms in {where}, the binding energy would be {offset:.4g} eV per atom, which is too "
            "large: "
            'they are of another unit, or were computed in another way. Correct them, or say data.references = "fitted".'
        )


def _nearest_image(cell: Tensor) -> float:
    steps = torch.cartesian_prod(*[torch.arange(-1, 2, dtype=cell.dtype)] * 3)
    return float((steps[steps.abs().sum(-1) > 0] @ cell).norm(dim=-1).min())
