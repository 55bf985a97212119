"""Frame: the atoms of a molecule at one moment, with computed energies and forces, in eV, Å and eV/Å."""

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class MoleculeFrame:
    """The atoms of a molecule at one moment.

    name     its file, and its index if the file has several frames
    number   of the frame in its file, counted from 0; for one file per molecule, the number in the file's name
    numbers  [N] atomic numbers; positions: [N, 3] in Å; energy: in eV; forces: [N, 3] in eV/Å
    cell     [3, 3] of a periodic frame; periodic: along which of its vectors
    isolated  whether it is a single atom, which serves as a reference; charge: of the frame, in units of e
    missing_forces  why there are no forces, if forces were expected
    """

    name: str
    number: int
    numbers: Tensor
    positions: Tensor
    energy: float
    forces: Tensor | None = None
    cell: Tensor | None = None
    isolated: bool = False
    charge: float = 0.0
    missing_forces: str = ""
    periodic: tuple[bool, ...] = (True, True, True)
