"""Who is within a cutoff of whom, through the walls of a periodic cell of any shape, in time that grows with the number of points.

Points are put into bins as wide as the cutoff and looked for in the 27 bins around; of a cell, the images that the cutoff reaches
are put there too, so a cell may be smaller than the cutoff and points may lie outside it.
"""

import itertools

import torch
from torch import Tensor

from equiscope.attention.space import Neighbours, listed
from equiscope.errors import InputError, ShapeError

FEW = 128  # points up to which all pairs are compared, where nothing is periodic


def neighbours(
    at: Tensor, cutoff: float, cell: Tensor | None = None, periodic: tuple[bool, bool, bool] = (True, True, True),
    valid: Tensor | None = None,
) -> Neighbours:  # fmt: skip
    """Lists for points at [B, N, 3], each point first among its own; a gradient flows to `at` and `cell`.

    cutoff    in the unit of the points; what is exactly that far is not a neighbour
    cell      [B, 3, 3], its rows the vectors by which the points repeat; None: they do not
    periodic  along which of them
    valid     [B, N], False where there is no point
    raises    InputError for coordinates that are no numbers, a cell without a volume, a cutoff that is not above 0
    """
    if at.ndim != 3 or at.shape[-1] != 3:
        raise ShapeError(f"Points in space have coordinates [B, N, 3], but got {tuple(at.shape)}.")
    if not 0 < cutoff < float("inf"):
        raise InputError(f"A cutoff is a number above 0, but got {cutoff}.")
    if cell is not None and cell.shape != (len(at), 3, 3):
        raise ShapeError(f"Each of {len(at)} sets of points has a cell [3, 3], but cell has shape {tuple(cell.shape)}.")
    if not bool(at.detach().isfinite().all()):
        raise InputError("Some coordinates are no numbers (NaN or infinite). Look at the data.")
    if cell is None and at.shape[1] <= FEW:
        return _all_pairs(at, cutoff, valid)
    return _joined(at, [_listed(at, i, cutoff, cell, periodic, valid) for i in range(len(at))], cell, valid)


def pairs(
    at: Tensor, cutoff: float, cell: Tensor | None = None, periodic: tuple[bool, bool, bool] = (True, True, True)
) -> tuple[Tensor, Tensor, Tensor]:
    """Ordered pairs i, j [E] of points at [N, 3] nearer than the cutoff, and the cells [E, 3] that j lies away: as ASE's `ijS`."""
    x, wraps, box = at.detach().double(), None, None
    shifts = torch.zeros(1, 3, dtype=torch.long, device=at.device)
    if cell is not None:
        box, inverse, reach = _box(cell, cutoff, periodic)
        turn = torch.tensor(periodic, device=at.device)
        share = x @ inverse
        wraps = torch.where(turn, share.floor(), torch.zeros_like(share)).long()
        share = share - wraps
        x = share @ box
        counts = [int(n) if p else 0 for n, p in zip(reach.ceil().tolist(), periodic, strict=True)]
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


def _box(cell: Tensor, cutoff: float, periodic: tuple[bool, bool, bool]) -> tuple[Tensor, Tensor, Tensor]:
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
    order = (theirs * weight).sum(-1).argsort()
    sorted_bins = (theirs * weight).sum(-1)[order]
    around = torch.tensor(list(itertools.product((-1, 0, 1), repeat=2)), device=x.device)
    rows = ((ours[:, None, :2] + around) * weight[:2]).sum(-1) + ours[:, None, 2]  # the middle one of three bins in a line
    begin, end = torch.searchsorted(sorted_bins, rows - 1), torch.searchsorted(sorted_bins, rows + 1, right=True)
    many = (end - begin).flatten()
    i = torch.arange(len(x), device=x.device).repeat_interleave(len(around)).repeat_interleave(many)
    first = (begin.flatten() - many.cumsum(0) + many).repeat_interleave(many)
    g = order[first + torch.arange(int(many.sum()), device=x.device)]
    near = (images[g] - x[i]).square().sum(-1) < cutoff**2
    return i[near], g[near]


def _listed(
    at: Tensor, one: int, cutoff: float, cell: Tensor | None, periodic: tuple[bool, bool, bool], valid: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Pairs of one set, itself first, sorted by i."""
    rows = torch.arange(at.shape[1], device=at.device) if valid is None else valid[one].nonzero()[:, 0]
    i, j, s = pairs(at[one, rows], cutoff, None if cell is None else cell[one], periodic)
    own = torch.arange(len(rows), device=at.device)
    i, j, s = torch.cat([own, i]), torch.cat([own, j]), torch.cat([s.new_zeros(len(rows), 3), s])
    order = i.argsort(stable=True)
    return rows[i[order]], rows[j[order]], s[order]


def _joined(at: Tensor, lists: list[tuple[Tensor, Tensor, Tensor]], cell: Tensor | None, valid: Tensor | None) -> Neighbours:
    batch, count = at.shape[:2]
    many = [torch.bincount(i, minlength=count) for i, _, _ in lists]
    longest = max([1, *(int(m.max()) for m in many if len(m))])
    rows = torch.arange(count, device=at.device)[:, None].expand(count, longest)
    index, cells, seen = (
        rows.repeat(batch, 1, 1),
        at.new_zeros(batch, count, longest, 3),
        torch.zeros(batch, count, longest, dtype=torch.bool),
    )
    seen = seen.to(at.device)
    for b, (i, j, s) in enumerate(lists):
        place = torch.arange(len(i), device=at.device) - (many[b].cumsum(0) - many[b])[i]
        index[b, i, place], cells[b, i, place], seen[b, i, place] = j, s.to(at.dtype), True
    return listed(at, index, seen, None if cell is None else torch.einsum("bnjk,bkl->bnjl", cells, cell.to(at.dtype)))


def _all_pairs(at: Tensor, cutoff: float, valid: Tensor | None) -> Neighbours:
    count = at.shape[1]
    with torch.no_grad():
        square = (at.unsqueeze(2) - at.unsqueeze(1)).square().sum(-1)
        near = square < cutoff**2
        if valid is not None:
            near = near & valid.unsqueeze(1) & valid.unsqueeze(2)
        own = torch.eye(count, dtype=torch.bool, device=at.device)
        far = torch.where(near, 1.0, 2.0).masked_fill(own & near, 0.0)  # each itself first, then the others in their order
        order = far.argsort(dim=-1, stable=True)
        longest = max(1, int(near.sum(-1).max())) if count else 1
        index = order[..., :longest]
        seen = near.gather(-1, index)
    return listed(at, index, seen)
