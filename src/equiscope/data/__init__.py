"""Data: files of people become examples, in an order that is a function of the seed. One file a task."""

from equiscope.data.files import Missing, digest, found, sources
from equiscope.data.images import Images
from equiscope.data.language import Language, Passages
from equiscope.data.molecules import Molecules
from equiscope.data.order import Order, generator
from equiscope.data.sounds import Sounds
from equiscope.data.translation import Translation

__all__ = [
    "Images",
    "Language",
    "Missing",
    "Molecules",
    "Order",
    "Passages",
    "Sounds",
    "Translation",
    "digest",
    "found",
    "generator",
    "sources",
]
