"""Masks: what may look at what, the training examples that one sentence makes, and decoding token by token with a cache."""

from msgspec import Struct, field

from equiscope.record.trace import VERSION


class Masks(Struct, frozen=True, kw_only=True):
    """A page of masks."""

    version: int = VERSION
    title: str
    summary: str
    notes: list[str] = field(default_factory=list)
