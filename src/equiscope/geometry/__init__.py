"""Points in space: features that turn with the input, their maps, norms and attention, neighbour lists."""

from equiscope.geometry.attention import SpaceAttention, everyone
from equiscope.geometry.block import SpaceBlock
from equiscope.geometry.features import KINDS, PLAIN, Features, Group, Widths, product_kinds
from equiscope.geometry.maps import Gated, Map, Norm, Products, length
from equiscope.geometry.neighbours import neighbours, pairs
from equiscope.geometry.radial import Radial, distance, envelope

__all__ = [
    "KINDS",
    "PLAIN",
    "Features",
    "Gated",
    "Group",
    "Map",
    "Norm",
    "Products",
    "Radial",
    "SpaceAttention",
    "SpaceBlock",
    "Widths",
    "distance",
    "envelope",
    "everyone",
    "length",
    "neighbours",
    "pairs",
    "product_kinds",
]
