"""Data: files of people become examples, in an order that is a function of the seed. One file a task."""

from equiscope.data.files import Missing, digest, found, sources
from equiscope.data.language import Language, Passages
from equiscope.data.order import Order, generator

__all__ = ["Language", "Missing", "Order", "Passages", "digest", "found", "generator", "sources"]
