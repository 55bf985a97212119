"""Points in space: equivariant features, their linear maps, norms and attention, neighbour lists, models."""

from equiscope.geometry.attention import SpaceAttention, all_pairs
from equiscope.geometry.calculator import calculator
from equiscope.geometry.features import KINDS, PLAIN, Features, Group, Widths, product_kinds
from equiscope.geometry.maps import EquivariantFeedForward, EquivariantLinear, EquivariantNorm, Products, length
from equiscope.geometry.model import EnergyForces, PointSpec, SpaceBlock, SpaceModel
from equiscope.geometry.neighbours import filled, neighbours, pairs
from equiscope.geometry.radial import Radial, distance, envelope

__all__ = [
    "KINDS",
    "PLAIN",
    "EnergyForces",
    "EquivariantFeedForward",
    "EquivariantLinear",
    "EquivariantNorm",
    "Features",
    "Group",
    "PointSpec",
    "Products",
    "Radial",
    "SpaceAttention",
    "SpaceBlock",
    "SpaceModel",
    "Widths",
    "all_pairs",
    "calculator",
    "distance",
    "envelope",
    "filled",
    "length",
    "neighbours",
    "pairs",
    "product_kinds",
]
