"""Tokenised: a picture, a sound or a video as the tokens that a transformer would read."""

from msgspec import Struct, field

from equiscope.record.trace import VERSION


class Tokenised(Struct, frozen=True, kw_only=True):
    """A page of tokens."""

    version: int = VERSION
    title: str
    summary: str
    notes: list[str] = field(default_factory=list)
