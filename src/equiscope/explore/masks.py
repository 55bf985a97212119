"""The page of masks."""

from equiscope.record import Masks


def masks(sentence: str, seed: int) -> Masks:
    """What the page holds."""
    return Masks(title="masks", summary="")
