"""Symmetry: actions, the claims of parts, their composition to the claims of a model, and their measurement."""

from equiscope.symmetry.actions import CLAIMED, Action, Permute, Reverse, Shift, closed
from equiscope.symmetry.compose import derive
from equiscope.symmetry.inputs import KINDS, InputKind, Inputs, inputs_of
from equiscope.symmetry.measure import EquivarianceMeasurement, floor, measure, relative_error, shrinks, verdict
from equiscope.symmetry.registry import ACTIONS, named

__all__ = [
    "ACTIONS",
    "CLAIMED",
    "KINDS",
    "Action",
    "EquivarianceMeasurement",
    "InputKind",
    "Inputs",
    "Permute",
    "Reverse",
    "Shift",
    "closed",
    "derive",
    "floor",
    "inputs_of",
    "measure",
    "named",
    "relative_error",
    "shrinks",
    "verdict",
]
