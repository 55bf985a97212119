"""Patches: attention among the patches of one photograph, with given weights, under a few position schemes."""

from msgspec import Struct, field

from equiscope.record.array import Array
from equiscope.record.explorable import SchemeProgram, SchemeVariant
from equiscope.record.program import VERSION


class Region(Struct, frozen=True, kw_only=True):
    """The patches of one thing in the photograph, labelled by hand. patches: their indices, row by row."""

    name: str
    title: str
    patches: list[int]


class Share(Struct, frozen=True, kw_only=True):
    """Of a region under a scheme: its share of the area, and the mean share of attention that its own patches give it."""

    scheme: str
    region: str
    area: float
    attention: float


class Patches(Struct, frozen=True, kw_only=True):
    """A page of attention among patches.

    size      rows and columns of the photograph in pixels; side: of a patch; grid: rows and columns of patches
    credit    source and licence of the photograph; empty for the user's own
    features  names of the numbers of a patch
    unit      patches in one unit of position
    programs  one for each scheme, with roles bytes, pixels, features, input, queries, keys, values, scores,
              weights, added, output; the leaf "bytes" holds [N, 3·side·side] bytes, by channel, row, column
    regions   may be empty: then the page states no shares
    shares    as Python measured them, for every scheme and region
    start     the patch that is selected at first
    """

    version: int = VERSION
    title: str
    summary: str
    name: str
    credit: str
    size: list[int]
    side: int
    grid: list[int]
    features: list[str]
    unit: int
    schemes: list[SchemeVariant]
    programs: list[SchemeProgram]
    pool: dict[str, Array]
    regions: list[Region]
    shares: list[Share]
    start: int
    notes: list[str] = field(default_factory=list)
