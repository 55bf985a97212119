"""The page of tokens."""

from pathlib import Path

from equiscope.record import Tokenised


def tokens(image: Path | None, audio: Path | None, video: Path | None) -> Tokenised:
    """What the page holds."""
    return Tokenised(title="tokens", summary="")
