"""Length unit: check that the positions of all parts are in the same unit."""

import math
from collections.abc import Sequence

import torch

from equiscope.data.frame import MoleculeFrame
from equiscope.errors import InputError
from equiscope.units import LENGTHS, Length

SAME = 0.03  # how near the ratio of two lengths is to that of two units, where it is taken for one
SOME = 100  # frames that are looked at


def check_length_unit(unit_given: Length, part: str, train: Sequence[MoleculeFrame], some: Sequence[MoleculeFrame]) -> None:
    """Raise InputError if the nearest-neighbour distances of a part differ from training by the ratio of two units."""
    one, other = nearest(train), nearest(some)
    if not one or not other:
        return
    share = other / one
    for unit, long in LENGTHS.items():
        if unit != unit_given and abs(share * long / LENGTHS[unit_given] - 1) < SAME:
            raise InputError(
                f"Atoms of the {part} part are {share:.3g} times as far from their nearest as those of the training part, as if "
                f"places were in {unit} there. Bring all files to one unit, and say it as data.length."
            )


def nearest(some: Sequence[MoleculeFrame]) -> float:
    """Nearest-neighbour distance in Å: the median over atoms of frames spread over a part; 0 if all atoms are alone."""
    distances = []
    for frame in some[:: max(1, len(some) // SOME)]:
        if len(frame.numbers) > 1:
            distance = torch.cdist(frame.positions, frame.positions)
            distances.append(distance.fill_diagonal_(math.inf).amin(-1))
    return float(torch.cat(distances).median()) if distances else 0.0
