"""Scores: how much a query asks for a key; and the look-up that turns scores into a mix of values.

1/sqrt(K) is applied here, once. The reason: for unit-normal q and k the product has variance K, and softmax saturates.
Source: Vaswani et al. 2017, section 3.2.1.
"""

import math

import torch
from torch import Tensor

from equiscope.trace import ops


def scaled_dot(q: Tensor, k: Tensor) -> Tensor:
    """q [..., N, K], k [..., M, K] to scores [..., N, M]: products of rows, divided by sqrt(K)."""
    product = ops.matmul(q, ops.transpose(k, name="Kᵀ", label="keys, as columns"), name="QKᵀ", label="products of queries and keys")
    width = q.shape[-1]
    return ops.scale(product, 1 / math.sqrt(width), name="S", label="scores", root=width)


def look_up(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None = None, visible: Tensor | None = None) -> Tensor:
    """Attention as a soft look-up, every step in sight: q [..., N, K], k [..., M, K], v [..., M, V] to [..., N, V].

    bias     added to the scores, broadcast to [..., N, M]
    visible  True = may look; a query that may look nowhere gets 0
    """
    wide = torch.promote_types(q.dtype, torch.float32)  # products of half-precision rows overflow
    scores = scaled_dot(ops.cast(q, wide), ops.cast(k, wide))
    if bias is not None:
        scores = ops.add(scores, ops.cast(bias, wide), name="S′", label="scores with the cost of distance")
    if visible is not None:
        scores = ops.mask(scores, visible, name="S∘M", label="scores, hidden ones out")
    weights = ops.softmax(scores, name="A", label="attention weights")
    return ops.cast(ops.matmul(weights, ops.cast(v, wide), name="Z", label="mix of the values"), q.dtype)


def score_split(x: Tensor, p: Tensor, query: Tensor, key: Tensor, heads: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """What adding a position does to the scores: (x + p) Wq ((x + p) Wk)^T / sqrt(K) as four matrices that sum to it.

    x, p [..., N, D] words and places; query, key [D, H*K]
    returns content-content, content-position, position-content, position-position, each [..., H, N, N]
    """
    named = {"c": (x, "words"), "p": (p, "places")}
    q = {s: _subspaces(ops.matmul(v, query, name=f"Q_{s}", label=f"queries of the {w}"), heads) for s, (v, w) in named.items()}
    k = {s: _subspaces(ops.matmul(v, key, name=f"K_{s}", label=f"keys of the {w}"), heads) for s, (v, w) in named.items()}

    def part(i: str, j: str) -> Tensor:
        product = ops.matmul(q[i], ops.transpose(k[j]))
        width = q[i].shape[-1]
        label = f"{named[i][1]} ask {named[j][1]}"
        return ops.scale(product, 1 / math.sqrt(width), name=f"S_{i}{j}", label=label, root=width)

    return part("c", "c"), part("c", "p"), part("p", "c"), part("p", "p")


def _subspaces(x: Tensor, heads: int) -> Tensor:
    return x if heads == 1 and x.ndim == 2 else ops.heads(x, heads)
