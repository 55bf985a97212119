"""Ways of moving: the names there are, in families. What one action takes for its own says nothing about another's.

A force is a vector under turns; under a change of units it grows with some power, which is measured.
"""

import re

from equiscope.errors import UnknownName

ANY = ("invariant", "permuted", "moved")
GRID = ("map", "map-last", "patches", "wave", "frames")
SPACE = ("vector", "pseudo-vector", "pseudo-scalar", "tensor", "points")
IRREPS = re.compile(r"(\d+x)?\d+[eo](\+(\d+x)?\d+[eo])*")
POWER = re.compile(r"power -?\d+(\.\d+)?")


def family(way: str) -> str:
    """any, grid, space or power. Raises UnknownName with the list."""
    name = way.partition("@")[0]
    if way in ANY:
        return "any"
    if way in GRID:
        return "grid"
    if name in SPACE or IRREPS.fullmatch(name):
        return "space"
    if POWER.fullmatch(way):
        return "power"
    raise UnknownName("way of moving", way, [*ANY, *GRID, *SPACE, "irreps such as 1o, 2e or 4x0e+1o", "power 2"])
