"""The page of graph."""

from equiscope.record import Messages


def graph(sentence: str, seed: int) -> Messages:
    """What the page holds."""
    return Messages(title="graph", summary="")
