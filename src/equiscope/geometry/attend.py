"""Attention among points in space: by one ordinary product over all pairs, or over lists of neighbours.

Queries and keys are whatever has invariant products: numbers and the components of arrows side by side. Weights fall with the
square of the distance, and what is carried home are values and u_j (x_j - x_i), the way to whom one looks. In the dense form this
is one call of torch's attention, as |x_i - x_j|² = |x_i|² - 2 x_i·x_j + |x_j|², where the first is the same for a whole row:

    query (q, 2g x_i, -g),  key (k, x_j, |x_j|²),  value (v, u, u x_j),  and then  Σ a u_j x_j - x_i Σ a u_j.

Where values are arrows, how far they point along the way, w_j·(x_j - x_i), comes home in the same manner: a number that knows of
angles. Both forms give the same where the cutoff holds every pair.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from equiscope.errors import ShapeError


@dataclass(frozen=True)
class Neighbours:
    """Whom each point may look at: itself first, then those within the cutoff; rows are padded to one length J.

    index  [B, N, J] rows of the points; None: all of them in their order, J = N
    way    [B, N, J, 3] from the point to them, through the walls of a periodic cell where they are images
    seen   [B, N, J], False where the list is padded
    """

    index: Tensor | None
    way: Tensor
    seen: Tensor

    @property
    def square(self) -> Tensor:
        """Squared distances [B, N, J]."""
        return self.way.square().sum(-1)


def dense(
    q: Tensor, k: Tensor, v: Tensor, u: Tensor, at: Tensor, sharp: Tensor, scale: float, valid: Tensor | None = None,
    bias: Tensor | None = None, arrows: slice | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """All pairs at once: values [B, H, N, V + n], and ways home [B, H, N, 3, U].

    q, k   [B, H, N, K]; v [B, H, N, V]; u [B, H, N, U]: how much of the way each carries
    arrows which 3n of the V are n arrows, x of all first: how far they point along the way comes home after the values
    at     [B, N, 3]; sharp: g >= 0 of each head [H], per squared unit of length
    valid  [B, N], False where there is no point; bias: [B, H, N, N], added to the scores
    """
    _matching(q, k, v, u, at)
    there = at.new_ones(at.shape[:2]) if valid is None else valid.to(at.dtype)
    centre = (at * there.unsqueeze(-1)).sum(1, keepdim=True) / there.sum(1).clamp_min(1)[:, None, None]
    x = ((at - centre) * there.unsqueeze(-1)).to(q.dtype).unsqueeze(1)  # [B, 1, N, 3]; small numbers round less
    g = sharp.to(q.dtype)[:, None, None]
    heads, near = q.shape[1], x.square().sum(-1, keepdim=True)
    asked = torch.cat([q * scale, 2 * g * x, (-g).expand(len(q), heads, q.shape[2], 1)], -1)
    known = torch.cat([k, x.expand(-1, heads, -1, -1), near.expand(-1, heads, -1, -1)], -1)
    carried = (x.unsqueeze(-1) * u.unsqueeze(-2)).flatten(-2)  # [B, H, N, 3U]
    pointing = [] if arrows is None else [along(v[..., arrows], x)]
    told = torch.cat([v, *pointing, u, carried], -1)
    hidden = None if valid is None else (valid | ~valid.any(-1, keepdim=True))[:, None, None, :]  # of no points nothing is hidden
    if bias is not None:
        hidden = bias if hidden is None else bias.masked_fill(~hidden, -torch.inf)
    if torch.is_grad_enabled() and at.requires_grad:  # forces are learned: torch's fused kernel has no second derivative
        z = _by_hand(asked, known, told, hidden)
    else:
        z = F.scaled_dot_product_attention(asked, known, told, attn_mask=hidden, scale=1.0)
    values, dots, much, ways = z.split((v.shape[-1], sum(p.shape[-1] for p in pointing), u.shape[-1], 3 * u.shape[-1]), -1)
    if arrows is not None:
        values = torch.cat([values, dots - along(values[..., arrows], x)], -1)
    ways = ways.unflatten(-1, (3, -1)) - x.unsqueeze(-1) * much.unsqueeze(-2)
    return values, ways


def local(
    q: Tensor, k: Tensor, v: Tensor, u: Tensor, neighbours: Neighbours, sharp: Tensor, scale: float,
    bias: Tensor | None = None, envelope: Tensor | None = None, filters: Tensor | None = None, arrows: slice | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The same over neighbours only: values [B, H, N, V + n], and ways home [B, H, N, 3, U].

    bias      [B, H, N, J], added to the scores
    envelope  [B, N, J], 1 at the point and 0 at the cutoff: a weight vanishes there smoothly, as every point sees itself
    filters   [B, H, N, J, V + U], what each message is multiplied by: a filter of the distance
    """
    seen, square = neighbours.seen.unsqueeze(1), neighbours.square.to(q.dtype).unsqueeze(1)
    if neighbours.index is None:
        told, products = torch.cat([v, u], -1).unsqueeze(2), q @ k.mT
    else:
        rows = neighbours.index.unsqueeze(1)
        keys, told = gathered(torch.cat([k, v, u], -1), rows).split((k.shape[-1], v.shape[-1] + u.shape[-1]), -1)
        products = (q.unsqueeze(-2) * keys).sum(-1)
    scores = products * scale - sharp.to(q.dtype)[:, None, None] * square
    scores = scores if bias is None else scores + bias
    share = seen.to(scores.dtype) if envelope is None else torch.where(seen, envelope.unsqueeze(1).to(scores.dtype), 0.0)
    floor = torch.finfo(scores.dtype).tiny
    highest = (scores + share.clamp_min(floor).log()).masked_fill(~seen, -torch.inf).amax(-1, keepdim=True).detach()
    raw = share * (scores - highest).masked_fill(~seen, 0.0).exp()
    weights = raw / raw.sum(-1, keepdim=True).clamp_min(floor)
    told = told if filters is None else told * filters
    values, much = (weights.unsqueeze(-1) * told).split((v.shape[-1], u.shape[-1]), -1)
    way = neighbours.way.to(q.dtype).unsqueeze(1)
    ways = (way.unsqueeze(-1) * much.unsqueeze(-2)).sum(-3)
    dots = [] if arrows is None else [along(values[..., arrows], way).sum(-2)]
    return torch.cat([values.sum(-2), *dots], -1), ways


def listed(at: Tensor, index: Tensor, seen: Tensor, wraps: Tensor | None = None) -> Neighbours:
    """Lists of rows [B, N, J] with the ways to them from points at [B, N, 3]; wraps: [B, N, J, 3], added to the ways."""
    rows = at.gather(1, index.reshape(len(at), -1, 1).expand(-1, -1, 3)).view(*index.shape, 3)
    way = rows - at.unsqueeze(2)
    return Neighbours(index, way if wraps is None else way + wraps.to(way.dtype), seen)


def along(v: Tensor, way: Tensor) -> Tensor:
    """How far n arrows v [..., 3n] point along a way [..., 3]: [..., n]."""
    return (v.unflatten(-1, (3, -1)) * way.unsqueeze(-1)).sum(-2)


def gathered(x: Tensor, index: Tensor) -> Tensor:
    """Rows x [B, H, N, D] of neighbours index [B, 1, N, J]: [B, H, N, J, D]."""
    flat = index.expand(*x.shape[:2], *index.shape[2:]).flatten(2)
    return x.gather(2, flat.unsqueeze(-1).expand(-1, -1, -1, x.shape[-1])).unflatten(2, index.shape[2:])


def _by_hand(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
    scores = q @ k.mT
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask
    return scores.softmax(-1) @ v


def _matching(q: Tensor, k: Tensor, v: Tensor, u: Tensor, at: Tensor) -> None:
    if at.ndim != 3 or at.shape[-1] != 3:
        raise ShapeError(f"Points in space have coordinates [B, N, 3], but got {tuple(at.shape)}.")
    rows = (at.shape[0], q.shape[1], at.shape[1])
    if q.shape != k.shape or any(part.shape[:3] != rows for part in (q, v, u)):
        shapes = ", ".join(str(tuple(part.shape)) for part in (q, k, v, u))
        raise ShapeError(
            f"Queries and keys are [B, H, N, K], values [B, H, N, V], shares [B, H, N, U], but got {shapes} for coordinates "
            f"{tuple(at.shape)}."
        )
