"""Messages: one attention as messages along the edges of a graph."""

from msgspec import Struct, field

from equiscope.record.trace import VERSION


class Messages(Struct, frozen=True, kw_only=True):
    """A page of attention on a graph."""

    version: int = VERSION
    title: str
    summary: str
    notes: list[str] = field(default_factory=list)
