"""Cost: multiply-adds of a transformer's parts as formulas of its sizes, and times that were measured."""

from msgspec import Struct, field

from equiscope.record.trace import VERSION


class Cost(Struct, frozen=True, kw_only=True):
    """A page of costs."""

    version: int = VERSION
    title: str
    summary: str
    notes: list[str] = field(default_factory=list)
