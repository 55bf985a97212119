"""Layouts: how the tensors of several processes make up one tensor of a single process."""

from dataclasses import dataclass
from itertools import groupby
from typing import Literal

import torch
from torch import Tensor

from equiscope.audit.parity.alignment import STORED, difference, is_rounding

Kind = Literal["whole", "sharded", "partial", "permuted"]


@dataclass(frozen=True)
class RankLayout:
    """How the processes hold a tensor.

    kind   whole: each process holds all of it; sharded: each a part along an axis; partial: their sum is the tensor; permuted: they
           hold all columns, in another order
    order  of `permuted`: the columns of the tensor in the order in which the processes hold them
    error  relative, in float64; error32: in float32
    """

    kind: Kind
    axis: int | None = None
    order: tuple[int, ...] = ()
    shared: bool = False
    error: float = 0.0
    error32: float = 0.0

    def __str__(self) -> str:
        if self.kind == "sharded":
            return f"sharded over axis {self.axis}"
        return {"whole": "whole on every process", "partial": "a partial sum on every process"}.get(
            self.kind, f"all columns {'on every process ' * self.shared}in another order"
        )


@dataclass(frozen=True)
class Shared:
    """A tensor of the single process, and what every process holds; `low`: both in float32, where that ran."""

    one: Tensor
    ranks: list[Tensor]
    low: "Shared | None" = None


def layout(value: Shared) -> RankLayout | None:
    """How the processes hold a value; None where no layout reproduces its numbers."""
    one, ranks = value.one, value.ranks
    if all(t.numel() == one.numel() and _sizes(t) == _sizes(one) for t in ranks):
        found = _tried(value, "whole")
        if found is not None:
            return found
        if len(ranks) > 1 and (found := _tried(value, "partial")) is not None:
            return found
    axes = [axis for axis in range(one.ndim) if _joins(one, ranks, axis)]
    for axis in axes:
        if (found := _tried(value, "sharded", axis)) is not None:
            return found
    return _permuted(value, one.ndim - 1 in axes)


def _tried(value: Shared, kind: Kind, axis: int | None = None) -> RankLayout | None:
    error, low = distance(value, kind, axis), 0.0
    if value.low is not None:
        low = distance(value.low, kind, axis)
    return RankLayout(kind, axis, error=error, error32=low) if is_rounding(error, low) else None


def distance(value: Shared, kind: Kind, axis: int | None = None) -> float:
    """The relative difference between the tensor and what the processes make up in this layout."""
    one, ranks = value.one.double(), [t.double() for t in value.ranks]
    if kind == "whole":
        return max(difference(one, t.reshape(one.shape)) for t in ranks)
    if kind == "partial":
        return difference(one, torch.stack(ranks).sum(0).reshape(one.shape))
    assert axis is not None
    return difference(one, torch.cat(ranks, axis))


def joined(value: Shared) -> Tensor | None:
    """All columns as the processes hold them, in the order of the processes; None where they do not make up the tensor."""
    one, ranks = value.one, value.ranks
    if one.ndim and _joins(one, ranks, one.ndim - 1):
        return torch.cat(ranks, -1)
    return ranks[0] if ranks[0].shape == one.shape else None


def _permuted(value: Shared, joins: bool) -> RankLayout | None:
    """The columns in another order: each process has some of them, or all have all in the same order."""
    one = value.one.double()
    shared = not joins and all(torch.equal(t, value.ranks[0]) for t in value.ranks)
    if one.ndim < 1 or one.shape[-1] < 2 or not (joins or shared):
        return None
    other = torch.cat(value.ranks, -1).double() if joins else value.ranks[0].double()
    if other.shape != one.shape:
        return None
    weights = torch.randn(one.numel() // one.shape[-1], generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    ours, theirs = weights @ one.reshape(len(weights), -1), weights @ other.reshape(len(weights), -1)
    order = torch.empty_like(ours, dtype=torch.long)
    order[theirs.argsort()] = ours.argsort()
    error = difference(one[..., order], other)
    return (
        RankLayout("permuted", one.ndim - 1, tuple(order.tolist()), shared, error, STORED) if is_rounding(error, STORED) else None
    )


def _sizes(t: Tensor) -> list[int]:
    return [n for n in t.shape if n > 1]


def _joins(one: Tensor, ranks: list[Tensor], axis: int) -> bool:
    """Whether the tensors have the shape of the whole one when they are joined along this axis."""
    if any(t.ndim != one.ndim or t.shape[axis] == one.shape[axis] for t in ranks):
        return False
    others = [i for i in range(one.ndim) if i != axis]
    same = all(t.shape[i] == one.shape[i] for t in ranks for i in others)
    return same and sum(t.shape[axis] for t in ranks) == one.shape[axis]


def is_part(whole: Tensor, part: Tensor, rank: int, processes: int) -> bool:
    """Whether the numbers of a process are all of a tensor, or its share along one axis."""
    if whole.shape == part.shape and is_rounding(difference(whole.double(), part.double())):
        return True
    for axis in range(whole.ndim):
        if part.ndim == whole.ndim and part.shape[axis] * processes == whole.shape[axis]:
            share = whole.chunk(processes, axis)[rank]
            if share.shape == part.shape and is_rounding(difference(share.double(), part.double())):
                return True
    return False


def columns(order: tuple[int, ...], rank: int, processes: int) -> str:
    """The columns that one process holds, as ranges: 0-3, 8-11."""
    size = len(order) // processes
    own = order[rank * size : (rank + 1) * size]
    runs = [list(g) for _, g in groupby(enumerate(own), lambda pair: pair[1] - pair[0])]
    ranges = [f"{run[0][1]}-{run[-1][1]}" if len(run) > 1 else str(run[0][1]) for run in runs]
    return ", ".join(ranges[:6]) + (", ..." if len(ranges) > 6 else "")
