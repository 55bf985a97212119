"""Names of representations, in families. A representation under one action implies none under another.

A force is a vector under rotations; under a change of units it scales with a power, which is measured.
"""

import re

from equiscope.errors import UnknownName

ANY = ("invariant", "permuted", "moved")
GRID = ("map", "map-last", "patches", "wave", "frames")
SPACE = ("vector", "pseudo-vector", "pseudo-scalar", "tensor", "points")
IRREPS = re.compile(r"(\d+x)?\d+[eo](\+(\d+x)?\d+[eo])*")
POWER = re.compile(r"power -?\d+(\.\d+)?")


def family(representation: str) -> str:
    """any, grid, space or power. Raises UnknownName with the list."""
    name = representation.partition("@")[0]
    if representation in ANY:
        return "any"
    if representation in GRID:
        return "grid"
    if name in SPACE or IRREPS.fullmatch(name):
        return "space"
    if POWER.fullmatch(representation):
        return "power"
    raise UnknownName("representation", representation, [*ANY, *GRID, *SPACE, "irreps such as 1o, 2e or 4x0e+1o", "power 2"])
