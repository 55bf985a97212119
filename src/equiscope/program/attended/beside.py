"""Beside: two attentions on the same tokens, compared head by head."""

import torch
from torch import Tensor

from equiscope.program.attended.attended import Attended

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


def differs(one: Attended, other: Attended, rows: Tensor | None = None, columns: Tensor | None = None) -> float:
    """The largest |weight[i, j] − weight[rows[i], columns[j]]| of the other and the one, in any head. None: all stay in place."""
    n, m = one.q.shape[-2], one.k.shape[-2]
    asked = torch.arange(n) if n <= ROWS else torch.linspace(0, n - 1, ROWS).round().long()
    came = asked if rows is None else rows[asked]
    worst = 0.0
    for head in range(one.heads):
        wanted = one.shown(head, came)
        wanted = wanted if columns is None else wanted[:, columns]
        assert wanted.shape[-1] == m
        worst = max(worst, (other.shown(head, asked) - wanted).abs().max().item())
    return worst


def turned(one: Attended, reach: int) -> float:
    """What rounding of angles may make of a weight where places up to `reach` are multiplied with frequencies in float32.

    An angle is wrong by reach · ε / 2, a score by that on both sides times |q| · |k| · scale, a weight by half of it.
    """
    size = abs(one.scale) * one.q.double().norm(dim=-1).max().item() * one.k.double().norm(dim=-1).max().item()
    return torch.finfo(torch.float32).eps * reach * size / 2
