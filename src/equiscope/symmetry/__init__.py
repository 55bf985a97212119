"""Actions, what parts claim about them, how claims compose through a model, and how they are measured."""

from equiscope.symmetry.actions import ACTIONS, Action, Permute, Reverse, Shift, closed, named
from equiscope.symmetry.compose import derive
from equiscope.symmetry.measure import Measurement, floor, measure, relative_error, verdict

__all__ = [
    "ACTIONS",
    "Action",
    "Measurement",
    "Permute",
    "Reverse",
    "Shift",
    "closed",
    "derive",
    "floor",
    "measure",
    "named",
    "relative_error",
    "verdict",
]
