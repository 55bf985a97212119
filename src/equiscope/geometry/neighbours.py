"""Neighbour lists within a cutoff, also through the faces of a periodic cell of any shape, in time linear in the number of points.

Points are sorted into bins as wide as the cutoff, and the 27 bins around a point are searched. In a periodic cell, the images
within the cutoff are sorted in too, so the cell may be smaller than the cutoff, and points may lie outside it.
"""

import itertools
import math
from collections.abc import Sequence

import torch
from torch import Tensor

from equiscope.errors import InputError, ShapeError
from equiscope.geometry.attend import Neighbours, listed

MANY = 10**7  # largest number of images of points in the cells around
FEW = 128  # up to this number of points without a cell, all pairs are compared
AT_ONCE = 1 << 16  # candidate pairs that are compared at once: their data fits the cache of the processor


def neighbours(
    at: Tensor, cutoff: float, cell: Tensor | None = None, periodic: tuple[bool, bool, bool] = (True, True, True),
    valid: Tensor | None = None,
) -> Neighbours:  # fmt: skip
    """Neighbour lists for points at [B, N, 3]. The first neighbour of a point is itself. `at` and `cell` receive gradients.

    cutoff    in the unit of the points; a point at exactly this distance is not a neighbour
    cell      [B, 3, 3], whose rows are the vectors of periodicity; None for points that are not periodic
    periodic  the vectors along which the points are periodic
    valid     [B, N], False for padding
    raises    InputError for NaN or infinite coordinates, a cell without a volume, a cutoff that is not above 0
    """
    if at.ndim != 3 or at.shape[-1] != 3:
        raise ShapeError(f"Points in space have coordinates [B, N, 3], but got {tuple(at.shape)}.")
    if not 0 < cutoff < float("inf"):
        raise InputError(f"A cutoff is a number above 0, but got {cutoff}.")
    if cell is not None and cell.shape != (len(at), 3, 3):
        raise ShapeError(f"Each of {len(at)} sets of points has a cell [3, 3], but cell has shape {tuple(cell.shape)}.")
    if not bool(at.detach().isfinite().all()):
        raise InputError("Some coordinates are NaN or infinite. Check the data.")
    if cell is None and at.shape[1] <= FEW:
        return _all_pairs(at, cutoff, valid)
    return _joined(at, [_listed(at, i, cutoff, cell, periodic, valid) for i in range(len(at))], cell)


def pairs(
    at: Tensor, cutoff: float, cell: Tensor | None = None, periodic: tuple[bool, bool, bool] = (True, True, True)
) -> tuple[Tensor, Tensor, Tensor]:
    """Ordered pairs i, j [E] of points at [N, 3] within the cutoff, and the offset [E, 3] of j in cells.

    Sorted by i, as ASE's `ijS`.
    """
    x, wraps, box = at.detach().double(), None, None
    shifts = torch.zeros(1, 3, dtype=torch.long, device=at.device)
    if cell is not None:
        box, inverse, reach = _box(cell, cutoff)
        turn = torch.tensor(periodic, device=at.device)
        share = x @ inverse
        wraps = torch.where(turn, share.floor(), torch.zeros_like(share)).long()
        share = share - wraps
        x = share @ box
        counts = [int(n) if p else 0 for n, p in zip(reach.ceil().tolist(), periodic, strict=True)]
        if (many := math.prod(2 * n + 1 for n in counts) * max(len(x), 1)) > MANY:
            raise InputError(
                f"A cutoff of {cutoff:g} reaches through {many:.1g} images of {len(x)} points in the cell {cell.tolist()}: "
                "look at the cell's unit, or take a smaller cutoff."
            )
        shifts = torch.tensor(list(itertools.product(*(range(-n, n + 1) for n in counts))), device=at.device)
        moved = share[None] + shifts[:, None]
        near = ((moved > -reach) & (moved < 1 + reach) | ~turn).all(-1)
        which, image_of = near.nonzero(as_tuple=True)
        images = x[image_of] + shifts[which].to(x) @ box
    else:
        which, image_of = torch.zeros(len(x), dtype=torch.long, device=x.device), torch.arange(len(x), device=x.device)
        images = x
    i, g = _close(x, images, cutoff)
    j, s = image_of[g], shifts[which[g]]
    other = (i != j) | (s != 0).any(-1)
    i, j, s = i[other], j[other], s[other]
    return (i, j, s) if wraps is None else (i, j, s - wraps[j] + wraps[i])


def filled(cell: Tensor, periodic: Sequence[bool], at: Tensor, empty: float) -> Tensor:
    """A cell for points at [N, 3] that are periodic along some vectors only, such as a slab or a wire: the other vectors become
    perpendicular to those, and so long that images along them are `empty` or more away. So nothing within a cutoff of at most
    `empty` changes.

    cell      [3, 3]; the vectors that are not periodic are not read
    raises    InputError if the periodic vectors are zero or parallel
    """
    box, points = cell.detach().double(), at.detach().double()
    rows = [row for row, turn in enumerate(periodic) if turn]
    others = [row for row, turn in enumerate(periodic) if not turn]
    first = box[rows[0]] / box[rows[0]].norm()
    second = box[rows[1]] if len(rows) > 1 else torch.eye(3, dtype=box.dtype, device=box.device)[int(first.abs().argmin())]
    normal = torch.linalg.cross(first, second)
    if not bool(normal.isfinite().all()) or float(normal.norm()) <= 1e-9 * float(second.norm()):
        raise InputError(f"The cell {box.tolist()} has vectors of periodicity that are zero or parallel. Give others.")
    normal = normal / normal.norm()
    result = box.clone()
    for row, along in zip(others, (normal, torch.linalg.cross(first, normal)), strict=False):
        reached = points @ along
        result[row] = along * (float(reached.max() - reached.min()) + empty)
    return result


def _box(cell: Tensor, cutoff: float) -> tuple[Tensor, Tensor, Tensor]:
    """The cell in float64, its inverse, and how many cells the cutoff reaches along each vector."""
    box = cell.detach().double()
    volume, sizes = box.det().abs(), box.norm(dim=-1)
    if not bool(box.isfinite().all()) or float(volume) <= 1e-9 * float(sizes.prod().clamp_min(1e-300)):
        raise InputError(f"The cell {box.tolist()} has no volume. Give three vectors that do not lie in a plane, or no cell.")
    inverse = box.inverse()
    return box, inverse, cutoff * inverse.norm(dim=0)


def _close(x: Tensor, images: Tensor, cutoff: float) -> tuple[Tensor, Tensor]:
    """Rows of x [N, 3] and of images [M, 3] that are nearer than the cutoff."""
    if not len(x) or not len(images):
        empty = torch.zeros(0, dtype=torch.long, device=x.device)
        return empty, empty
    low = torch.minimum(x.amin(0), images.amin(0))
    ours, theirs = ((p - low).div(cutoff).floor().long() + 1 for p in (x, images))
    size = torch.maximum(ours.amax(0), theirs.amax(0)) + 2
    weight = torch.stack([size[1] * size[2], size[2], size.new_ones(())])
    bins, order = (theirs * weight).sum(-1).sort()
    around = torch.tensor(list(itertools.product((-1, 0, 1), repeat=2)), device=x.device)
    rows = ((ours[:, None, :2] + around) * weight[:2]).sum(-1) + ours[:, None, 2]  # the middle of three consecutive bins
    begin, end = torch.searchsorted(bins, rows - 1), torch.searchsorted(bins, rows + 1, right=True)
    many = end - begin
    here, there = ([axis.contiguous() for axis in p.unbind(-1)] for p in (x, images[order]))
    upto, pairs, first = many.sum(-1).cumsum(0), [], 0
    while first < len(x):
        done = int(upto[first - 1]) if first else 0
        last = max(first + 1, int(torch.searchsorted(upto, done + AT_ONCE, right=True)))
        each = many[first:last].flatten()
        i = torch.arange(first, last, device=x.device).repeat_interleave(many[first:last].sum(-1))
        g = (begin[first:last].flatten() - each.cumsum(0) + each).repeat_interleave(each) + torch.arange(len(i), device=x.device)
        squared_distance = sum(((b[g] - a[i]).square() for a, b in zip(here, there, strict=True)), x.new_zeros(()))
        near = (squared_distance < cutoff**2).nonzero()[:, 0]
        pairs.append((i[near], order[g[near]]))
        first = last
    return torch.cat([i for i, _ in pairs]), torch.cat([g for _, g in pairs])


def _listed(
    at: Tensor, one: int, cutoff: float, cell: Tensor | None, periodic: tuple[bool, bool, bool], valid: Tensor | None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The valid points of one set, and its pairs, sorted by i."""
    rows = torch.arange(at.shape[1], device=at.device) if valid is None else valid[one].nonzero()[:, 0]
    i, j, s = pairs(at[one, rows], cutoff, None if cell is None else cell[one], periodic)
    return rows, rows[i], rows[j], s


def _joined(at: Tensor, lists: list[tuple[Tensor, Tensor, Tensor, Tensor]], cell: Tensor | None) -> Neighbours:
    batch, count = at.shape[:2]
    many = [torch.bincount(i, minlength=count) for _, i, _, _ in lists]
    longest = 1 + max([0, *(int(m.max()) for m in many if len(m))])
    own = torch.arange(count, device=at.device)[:, None].expand(count, longest)
    index, mask = own.repeat(batch, 1, 1), torch.zeros(batch, count, longest, dtype=torch.bool, device=at.device)
    cells = None if cell is None else at.new_zeros(batch, count, longest, 3)
    for b, (rows, i, j, s) in enumerate(lists):
        place = 1 + torch.arange(len(i), device=at.device) - (many[b].cumsum(0) - many[b])[i]
        index[b, i, place], mask[b, i, place], mask[b, rows, 0] = j, True, True
        if cells is not None:
            cells[b, i, place] = s.to(at.dtype)
    wraps = None if cells is None or cell is None else torch.einsum("bnjk,bkl->bnjl", cells, cell.to(at.dtype))
    return listed(at, index, mask, wraps)


def _all_pairs(at: Tensor, cutoff: float, valid: Tensor | None) -> Neighbours:
    count = at.shape[1]
    with torch.no_grad():
        squared_distance = (at.unsqueeze(2) - at.unsqueeze(1)).square().sum(-1)
        near = squared_distance < cutoff**2
        if valid is not None:
            near = near & valid.unsqueeze(1) & valid.unsqueeze(2)
        own = torch.eye(count, dtype=torch.bool, device=at.device)
        far = torch.where(near, 1.0, 2.0).masked_fill(own & near, 0.0)  # the point itself first, then the others in their order
        order = far.argsort(dim=-1, stable=True)
        longest = max(1, int(near.sum(-1).max())) if count else 1
        index = order[..., :longest]
        mask = near.gather(-1, index)
    return listed(at, index, mask)
