"""Points in space: features that turn with the input, their maps, norms and attention, neighbour lists, models."""

from equiscope.geometry.attention import SpaceAttention, everyone
from equiscope.geometry.calculator import calculator
from equiscope.geometry.features import KINDS, PLAIN, Features, Group, Widths, product_kinds
from equiscope.geometry.maps import Gated, Map, Norm, Products, length
from equiscope.geometry.model import Answer, PointSpec, SpaceBlock, SpaceModel
from equiscope.geometry.neighbours import neighbours, pairs
from equiscope.geometry.radial import Radial, distance, envelope

__all__ = [
    "KINDS",
    "PLAIN",
    "Answer",
    "Features",
    "Gated",
    "Group",
    "Map",
    "Norm",
    "PointSpec",
    "Products",
    "Radial",
    "SpaceAttention",
    "SpaceBlock",
    "SpaceModel",
    "Widths",
    "calculator",
    "distance",
    "envelope",
    "everyone",
    "length",
    "neighbours",
    "pairs",
    "product_kinds",
]
