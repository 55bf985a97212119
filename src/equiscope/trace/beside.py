"""Beside: two attentions on the same tokens, compared head by head."""

import torch

from equiscope.trace.attended import Attended

ROWS = 512  # that are compared: all of them, or so many at equal distances


def apart(one: Attended, other: Attended) -> list[float]:
    """How far the weights of each pair of heads are apart: 0 alike, 1 where no token that one looks at is looked at by the other.

    It is the total variation distance of two rows, half the sum of |weight − weight|, as the mean over rows. What a sink takes
    counts as the weight of one token more.
    """
    assert one.heads == other.heads
    n = one.q.shape[-2]
    rows = torch.arange(n) if n <= ROWS else torch.linspace(0, n - 1, ROWS).round().long()
    found = []
    for head in range(one.heads):
        moved = one.shown(head, rows) - other.shown(head, rows)
        found.append(((moved.abs().sum(-1) + moved.sum(-1).abs()) / 2).mean().item())
    return found
