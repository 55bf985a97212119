"""Two attentions on the same tokens, compared head by head."""

import torch
from torch import Tensor

from equiscope.program.attended.attended import Attended

ROWS = 512  # rows that are compared: all, or this many at equal distances


def total_variation(one: Attended, other: Attended) -> list[float]:
    """Total variation distance between the weights of each pair of heads: 0 for equal weights, 1 for disjoint ones.

    For two rows it is half the sum of |weight − weight|; the result is the mean over rows. The weight of a sink counts as one more
    token.
    """
    assert one.heads == other.heads
    n = one.q.shape[-2]
    rows = torch.arange(n) if n <= ROWS else torch.linspace(0, n - 1, ROWS).round().long()
    distances = []
    for head in range(one.heads):
        change = one.best_weights(head, rows) - other.best_weights(head, rows)
        distances.append(((change.abs().sum(-1) + change.sum(-1).abs()) / 2).mean().item())
    return distances


def max_difference(one: Attended, other: Attended, rows: Tensor | None = None, columns: Tensor | None = None) -> float:
    """The largest |weight[i, j] − weight[rows[i], columns[j]]| of the other and the one, in any head. None: no permutation."""
    n, m = one.q.shape[-2], one.k.shape[-2]
    compared = torch.arange(n) if n <= ROWS else torch.linspace(0, n - 1, ROWS).round().long()
    source = compared if rows is None else rows[compared]
    worst = 0.0
    for head in range(one.heads):
        wanted = one.best_weights(head, source)
        wanted = wanted if columns is None else wanted[:, columns]
        assert wanted.shape[-1] == m
        worst = max(worst, (other.best_weights(head, compared) - wanted).abs().max().item())
    return worst


def angle_rounding(one: Attended, reach: int) -> float:
    """How much rounding of angles may change a weight, where positions up to `reach` are multiplied by frequencies in float32.

    The error of an angle is reach · ε / 2, that of a score twice this times |q| · |k| · scale, that of a weight half of it.
    """
    size = abs(one.scale) * one.q.double().norm(dim=-1).max().item() * one.k.double().norm(dim=-1).max().item()
    return torch.finfo(torch.float32).eps * reach * size / 2
