"""Attention among points in space, over all pairs or over neighbour lists.

Queries and keys are features with invariant products: scalars, and the components of vectors concatenated. Weights fall with the
squared distance. A head sums values and u_j (x_j - x_i), the relative positions. The dense form is one call of torch's attention,
as |x_i - x_j|² = |x_i|² - 2 x_i·x_j + |x_j|², where the first term is constant along a row:

    query (q, 2g x_i, -g),  key (k, x_j, |x_j|²),  value (v, u, u x_j),  and then  Σ a u_j x_j - x_i Σ a u_j.

Where values are vectors, their products with the relative positions, w_j·(x_j - x_i), are summed in the same way: scalars that
depend on angles. Both forms give the same result where all pairs are within the cutoff.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from equiscope.errors import ShapeError


@dataclass(frozen=True)
class Neighbours:
    """The neighbours of each point: itself first, then those within the cutoff; lists are padded to one length J.

    index         [B, N, J] indices of points; None: all points in their order, J = N
    displacement  [B, N, J, 3] from the point to its neighbour, or to its nearest image in a periodic cell
    mask          [B, N, J], False where the list is padded
    """

    index: Tensor | None
    displacement: Tensor
    mask: Tensor

    @property
    def squared_distance(self) -> Tensor:
        """Squared distances [B, N, J]."""
        return self.displacement.square().sum(-1)


def dense(
    q: Tensor, k: Tensor, v: Tensor, u: Tensor, at: Tensor, decay: Tensor, scale: float, valid: Tensor | None = None,
    bias: Tensor | None = None, vectors: slice | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Attention over all pairs: values [B, H, N, V + n], and summed relative positions [B, H, N, 3, U].

    q, k     [B, H, N, K]; v [B, H, N, V]; u [B, H, N, U]: factors of the relative positions
    vectors  which 3n of the V are n vectors, x components first: their products with the relative positions follow the values
    at       [B, N, 3]; decay: g >= 0 of each head [H], per squared unit of length
    valid    [B, N], False where there is no point; bias: [B, H, N, N], added to the scores
    """
    _check_shapes(q, k, v, u, at)
    present = at.new_ones(at.shape[:2]) if valid is None else valid.to(at.dtype)
    centre = (at * present.unsqueeze(-1)).sum(1, keepdim=True) / present.sum(1).clamp_min(1)[:, None, None]
    x = ((at - centre) * present.unsqueeze(-1)).to(q.dtype).unsqueeze(1)  # [B, 1, N, 3]; small numbers round less
    g = decay.to(q.dtype)[:, None, None]
    heads, near = q.shape[1], x.square().sum(-1, keepdim=True)
    queries = torch.cat([q * scale, 2 * g * x, (-g).expand(len(q), heads, q.shape[2], 1)], -1)
    keys = torch.cat([k, x.expand(-1, heads, -1, -1), near.expand(-1, heads, -1, -1)], -1)
    weighted_positions = (x.unsqueeze(-1) * u.unsqueeze(-2)).flatten(-2)  # [B, H, N, 3U]
    projections = [] if vectors is None else [along(v[..., vectors], x)]
    values = torch.cat([v, *projections, u, weighted_positions], -1)
    allowed = None if valid is None else (valid | ~valid.any(-1, keepdim=True))[:, None, None, :]  # all, if none is valid
    if bias is not None:
        allowed = bias if allowed is None else bias.masked_fill(~allowed, -torch.inf)
    if torch.is_grad_enabled() and at.requires_grad:  # a loss of forces: torch's fused kernel has no second derivative
        z = _unfused_attention(queries, keys, values, allowed)
    else:
        z = F.scaled_dot_product_attention(queries, keys, values, attn_mask=allowed, scale=1.0)
    values, dots, total, displacements = z.split(
        (v.shape[-1], sum(p.shape[-1] for p in projections), u.shape[-1], 3 * u.shape[-1]), -1
    )
    if vectors is not None:
        values = torch.cat([values, dots - along(values[..., vectors], x)], -1)
    displacements = displacements.unflatten(-1, (3, -1)) - x.unsqueeze(-1) * total.unsqueeze(-2)
    return values, displacements


def local(
    q: Tensor, k: Tensor, v: Tensor, u: Tensor, neighbours: Neighbours, decay: Tensor, scale: float,
    bias: Tensor | None = None, envelope: Tensor | None = None, filters: Tensor | None = None, vectors: slice | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Attention over neighbour lists: values [B, H, N, V + n], and summed relative positions [B, H, N, 3, U].

    bias      [B, H, N, J], added to the scores
    envelope  [B, N, J], 1 at the point and 0 at the cutoff: weights go to 0 there smoothly, as every point attends to itself
    filters   [B, H, N, J, V + U], factors of each message: functions of the distance
    """
    mask, squared_distance = neighbours.mask.unsqueeze(1), neighbours.squared_distance.to(q.dtype).unsqueeze(1)
    if neighbours.index is None:
        messages, products = torch.cat([v, u], -1).unsqueeze(2), q @ k.mT
    else:
        rows = neighbours.index.unsqueeze(1)
        keys, messages = gathered(torch.cat([k, v, u], -1), rows).split((k.shape[-1], v.shape[-1] + u.shape[-1]), -1)
        products = (q.unsqueeze(-2) * keys).sum(-1)
    scores = products * scale - decay.to(q.dtype)[:, None, None] * squared_distance
    scores = scores if bias is None else scores + bias
    share = mask.to(scores.dtype) if envelope is None else torch.where(mask, envelope.unsqueeze(1).to(scores.dtype), 0.0)
    floor = torch.finfo(scores.dtype).tiny
    highest = (scores + share.clamp_min(floor).log()).masked_fill(~mask, -torch.inf).amax(-1, keepdim=True).detach()
    raw = share * (scores - highest).masked_fill(~mask, 0.0).exp()
    weights = raw / raw.sum(-1, keepdim=True).clamp_min(floor)
    messages = messages if filters is None else messages * filters
    values, total = (weights.unsqueeze(-1) * messages).split((v.shape[-1], u.shape[-1]), -1)
    displacement = neighbours.displacement.to(q.dtype).unsqueeze(1)
    displacements = (displacement.unsqueeze(-1) * total.unsqueeze(-2)).sum(-3)
    dots = [] if vectors is None else [along(values[..., vectors], displacement).sum(-2)]
    return torch.cat([values.sum(-2), *dots], -1), displacements


def listed(at: Tensor, index: Tensor, mask: Tensor, wraps: Tensor | None = None) -> Neighbours:
    """Neighbour lists of indices [B, N, J] for points at [B, N, 3]; wraps: [B, N, J, 3], added to the displacements."""
    rows = at.gather(1, index.reshape(len(at), -1, 1).expand(-1, -1, 3)).view(*index.shape, 3)
    displacement = rows - at.unsqueeze(2)
    return Neighbours(index, displacement if wraps is None else displacement + wraps.to(displacement.dtype), mask)


def along(v: Tensor, displacement: Tensor) -> Tensor:
    """Products of n vectors v [..., 3n] with a displacement [..., 3]: [..., n]."""
    return (v.unflatten(-1, (3, -1)) * displacement.unsqueeze(-1)).sum(-2)


def gathered(x: Tensor, index: Tensor) -> Tensor:
    """The rows of x [B, H, N, D] at index [B, 1, N, J]: [B, H, N, J, D]."""
    flat = index.expand(*x.shape[:2], *index.shape[2:]).flatten(2)
    return x.gather(2, flat.unsqueeze(-1).expand(-1, -1, -1, x.shape[-1])).unflatten(2, index.shape[2:])


def _unfused_attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
    scores = q @ k.mT
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask
    return scores.softmax(-1) @ v


def _check_shapes(q: Tensor, k: Tensor, v: Tensor, u: Tensor, at: Tensor) -> None:
    if at.ndim != 3 or at.shape[-1] != 3:
        raise ShapeError(f"Points in space have coordinates [B, N, 3], but got {tuple(at.shape)}.")
    rows = (at.shape[0], q.shape[1], at.shape[1])
    if q.shape != k.shape or any(part.shape[:3] != rows for part in (q, v, u)):
        shapes = ", ".join(str(tuple(part.shape)) for part in (q, k, v, u))
        raise ShapeError(
            f"Queries and keys are [B, H, N, K], values [B, H, N, V], shares [B, H, N, U], but got {shapes} for coordinates "
            f"{tuple(at.shape)}."
        )
