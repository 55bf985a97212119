"""Frame: a molecule as it was at one moment, with what was computed for it, in eV, Å and eV/Å."""

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class MoleculeFrame:
    """A molecule as it was at one moment.

    name     its file, and which of several it is
    number   of the frame in its file, counted from 0; of a file of its own, the number in that one's name
    numbers  [N] atomic numbers; at: [N, 3] in Å; energy: in eV; forces: [N, 3] in eV/Å
    cell     [3, 3] of what is periodic
    lone     whether it is an atom by itself, which is a reference; charge: that the file says, in electrons that lack
    lacks    why there are no forces, where forces were looked for
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
