"""The page of cost."""

from equiscope.record import Cost


def cost() -> Cost:
    """What the page holds."""
    return Cost(title="cost", summary="")
