"""Roles: what a head does with one input, as measured figures, and a small picture of its weights."""

import torch
from torch import Tensor
from torch.nn.functional import adaptive_max_pool2d

from equiscope.record import Head
from equiscope.record.heads import Role
from equiscope.trace.attended import Attended

ROWS = 512  # that figures are taken from: all of them, or so many at equal distances
SIDE = 32  # cells of the small picture
MOST = 0.5  # weight on one place, on average, that makes a role of it
EVEN = 0.98  # entropy from which on a head hardly chooses
CHUNK = 2**22  # pairs at once


def head(one: Attended, number: int, own: bool) -> Head:
    """The figures of one head. own: the tokens ask themselves, so that before and beside mean something."""
    n, m = one.q.shape[-2], one.k.shape[-2]
    rows = torch.arange(n) if n <= ROWS else torch.linspace(0, n - 1, ROWS).round().long()
    weights, seen = one.shown(number, rows), one.visible(number, rows)
    choosing = seen.sum(-1) > 1
    rows, weights, seen = rows[choosing], weights[choosing], seen[choosing]
    if not len(rows):
        return Head(role="mixed")
    entropy = -(weights * weights.clamp(min=1e-300).log()).sum(-1) / seen.sum(-1).log()
    figures: dict[str, float | None] = {"entropy": entropy.mean().item(), "content": _content(weights, seen, rows, own)}
    figures["first"] = _on(weights, torch.zeros_like(rows), rows > 0) if own else weights[:, 0].mean().item()
    if own:
        columns = torch.arange(m)
        figures["previous"] = _on(weights, rows - 1, rows > 0)
        figures["own"] = _on(weights, rows, rows < m)
        figures["distance"] = (weights * (columns[None, :] - rows[:, None]).abs()).sum(-1).mean().item()
    return Head(role=_role(figures), **figures)


def _on(weights: Tensor, columns: Tensor, where: Tensor) -> float | None:
    """The mean weight on one column of each row."""
    return weights[where].gather(-1, columns[where, None]).mean().item() if bool(where.any()) else None


def _role(figures: dict[str, float | None]) -> Role:
    one = {name: figures.get(key) or 0.0 for name, key in (("previous", "previous"), ("self", "own"), ("first", "first"))}
    name = max(one, key=lambda n: one[n])
    if one[name] >= MOST:
        return name  # type: ignore[return-value]
    if (figures["entropy"] or 0.0) >= EVEN:
        return "even"
    return "content" if (figures["content"] or 0.0) >= MOST else "mixed"


def _content(weights: Tensor, seen: Tensor, rows: Tensor, own: bool) -> float | None:
    """Share of the variation among seen pairs that is left when what follows from distance and from the key's place is gone.

    Weights are taken relative to an even row; the rest is set against what chance would leave with so many free numbers.
    None where nothing varies, or too few pairs are seen to tell.
    """
    relative = (weights * seen.sum(-1, keepdim=True))[seen]
    i, j = seen.nonzero(as_tuple=True)
    kinds = [j, j - rows[i] + int(rows.max())] if own else [j]
    values = relative - relative.mean()
    total, rest = (values**2).sum().item(), values.clone()
    for _ in range(12 if own else 1):
        for kind in kinds:
            count = torch.bincount(kind).clamp(min=1)
            rest = rest - (torch.bincount(kind, rest) / count)[kind]
    used = sum(len(kind.unique()) for kind in kinds) - (len(kinds) - 1)
    left, free = len(values) - used, len(values) - 1
    if total < 1e-12 * len(values) or left < 1:
        return None
    return min(1.0, max(0.0, ((rest**2).sum().item() / left) / (total / free)))


def small(one: Attended) -> tuple[bytes, int]:
    """H · side · side bytes, 255·√(largest weight) in each cell, and the side."""
    n, m = one.q.shape[-2], one.k.shape[-2]
    side = min(SIDE, max(n, m))
    made = torch.stack([_pooled(one, number, side) for number in range(one.heads)])
    return (255 * made.clamp(0, 1).sqrt()).round().to(torch.uint8).numpy().tobytes(), side


def _pooled(one: Attended, number: int, side: int) -> Tensor:
    """[side, side] of largest weights; many rows are taken in pieces that are whole cells."""
    n, m = one.q.shape[-2], one.k.shape[-2]
    if n * m <= CHUNK or n % side:
        return adaptive_max_pool2d(one.shown(number, dtype=torch.float32)[None], side)[0]
    step = n // side
    pieces = [one.shown(number, torch.arange(start, start + step), torch.float32) for start in range(0, n, step)]
    return torch.cat([adaptive_max_pool2d(piece[None], (1, side))[0] for piece in pieces])
