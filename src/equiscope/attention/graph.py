"""Attention on a graph: messages along edges, computed for the edges alone, so memory grows with E and not with N^2.

Edges are [2, E], (source, target): the target is the query, the source the key, as in PyTorch Geometric. The mask `Edges` has
pairs in the opposite order, (query, key). A duplicate edge counts twice here; a mask cannot express that.
Source: Shi et al. 2021, "Masked Label Prediction" (UniMP), section 3.1: PyTorch Geometric's TransformerConv; Battaglia et al.
2018 for attention as message passing.
"""

import math

import torch
from torch import Tensor, nn

from equiscope.attention.context import AttentionContext
from equiscope.attention.multihead import MultiHeadAttention
from equiscope.attention.scores import attend
from equiscope.errors import InputError, ShapeError
from equiscope.functional import semantic
from equiscope.positions import NoPosition, Position
from equiscope.tokens import Tokens


def edge_attention(
    q: Tensor, k: Tensor, v: Tensor, edges: Tensor, bias: Tensor | None = None, mask: Tensor | None = None,
    scale: float | None = None,
) -> Tensor:  # fmt: skip
    """q [..., N, K], k [..., M, K], v [..., M, V] and edges [2, E] (source, target) to [..., N, V].

    bias   a number for each edge, broadcast to [..., E]; mask: bool, False = the edge is ignored
    scale  of the products, 1/sqrt(K) by default
    The output of a node without incoming edges is 0. Raises ShapeError and InputError for edges that do not fit.
    """
    check_edges(edges, q.shape[-2], k.shape[-2])
    source, target = edges[0].long(), edges[1].long()
    wide = torch.promote_types(q.dtype, torch.float32)
    scores = (q[..., target, :].to(wide) * k[..., source, :].to(wide)).sum(-1)
    scores = scores * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    scores = scores if bias is None else scores + bias
    scores = scores if mask is None else scores.masked_fill(~mask, -math.inf)
    weights = edge_softmax(scores, target, q.shape[-2])
    out = weights.new_zeros(*weights.shape[:-1], q.shape[-2], v.shape[-1])
    return out.index_add(-2, target, weights.unsqueeze(-1) * v[..., source, :].to(wide)).to(q.dtype)


def edge_softmax(scores: Tensor, target: Tensor, nodes: int) -> Tensor:
    """Softmax over the edges [..., E] of each target; masked edges (minus infinity) get weight 0."""
    index = target.expand(scores.shape)
    highest = scores.new_full((*scores.shape[:-1], nodes), -math.inf)
    highest = highest.scatter_reduce(-1, index, scores.detach(), "amax", include_self=True)
    highest = highest.masked_fill(highest == -math.inf, 0.0)
    shares = (scores - highest.gather(-1, index)).exp()
    total = scores.new_zeros(*scores.shape[:-1], nodes).scatter_add(-1, index, shares)
    return shares / total.masked_fill(total == 0, 1.0).gather(-1, index)


@semantic
def check_edges(edges: Tensor, queries: int, keys: int) -> None:
    """Raises ShapeError where edges are not [2, E], InputError where they are not integers or not nodes."""
    if edges.ndim != 2 or edges.shape[0] != 2:
        raise ShapeError(f"edges is [2, E], a row of sources and a row of targets, but its shape is {tuple(edges.shape)}.")
    if edges.is_floating_point() or edges.dtype == torch.bool:
        raise InputError(f"edges are indices of nodes, integers, but got {edges.dtype}. Use edges.long().")
    if torch.compiler.is_compiling() or edges.device.type != "cpu" or not edges.numel():
        return
    for name, row, nodes in (("source", edges[0], keys), ("target", edges[1], queries)):
        low, high = int(row.min()), int(row.max())
        if not 0 <= low <= high < nodes:
            raise InputError(f"The graph has {name}s 0..{nodes - 1}, but an edge names {low if low < 0 else high}.")


class GraphAttention(nn.Module):
    """Attention along edges: [..., N, D] and [2, E] to [..., N, D]; the arguments are those of `MultiHeadAttention`.

    Nodes are rows; one list of edges serves the whole batch (several graphs are one graph with several components). An edge
    from padding, or between two documents, is ignored.
    raises  InputError for a scheme that reads all pairs; schemes that embed, rotate or add a score bias are supported
    """

    def __init__(
        self, width: int, heads: int = 1, head_width: int | None = None, value_width: int | None = None,
        source_width: int | None = None, output: bool = True, bias: bool = False, kv_heads: int | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.attention = MultiHeadAttention(
            width, heads, head_width, value_width, source_width, output=output, bias=bias, kv_heads=kv_heads
        )

    def forward(
        self, tokens: Tokens, edges: Tensor, position: Position | None = None, source: Tokens | None = None
    ) -> Tensor:  # fmt: skip
        """tokens are the targets (queries), source the sources (keys), the same by default; different for a bipartite graph."""
        position, source = position or NoPosition(), source or tokens
        acts = [method for method in ("content_bias", "value_bias") if position.acts(method)]
        if acts:
            raise InputError(
                f"{position.name} reads every query with every key, but only edges are computed here. Use a scheme that embeds, "
                "rotates or adds a score bias, or MultiHeadAttention(mask=Edges(...))."
            )
        check_edges(edges, tokens.x.shape[-2], source.x.shape[-2])
        position.check(tokens.positions)
        position.check(source.positions)
        q, k, v = self.attention.project(tokens, source, position)
        repeat = self.attention.heads // self.attention.kv_heads
        if repeat > 1:
            k, v = k.repeat_interleave(repeat, -3), v.repeat_interleave(repeat, -3)
        mask = _edge_mask(tokens, source, edges)
        if self.attention.backend == "eager":
            z = self._as_table(q, k, v, edges, mask, AttentionContext(position, tokens, source))
        else:
            bias, heads = self._bias(tokens, source, edges, position), q.ndim > 2
            bias = bias if bias is None or heads else bias[0]
            mask = mask.unsqueeze(-2) if mask is not None and heads and mask.ndim > 1 else mask
            scale = self.attention.score.factor(self.attention.head_width)  # a scheme may have widened queries and keys
            z = edge_attention(q, k, v, edges, bias, mask, scale)
        return self.attention._output(z)

    def _bias(self, tokens: Tokens, source: Tokens, edges: Tensor, position: Position) -> Tensor | None:
        """The scheme's bias on each edge, [..., H, E]; it is elementwise, so a list of pairs is enough."""
        if not position.acts("score_bias"):
            return None
        number = torch.arange(self.attention.heads, device=edges.device)[:, None, None]
        axes = []
        for positions, rows in ((tokens.positions, edges[1]), (source.positions, edges[0])):
            ends = positions[..., rows.long(), :] if positions.ndim == 2 else positions[..., rows.long(), :].unsqueeze(-3)
            axes.append(tuple(ends[..., a : a + 1] for a in range(positions.shape[-1])))
        bias = position.score_bias(number, axes[0], axes[1])
        return None if bias is None else bias.squeeze(-1)

    def _as_table(self, q: Tensor, k: Tensor, v: Tensor, edges: Tensor, mask: Tensor | None, context: AttentionContext) -> Tensor:
        """The same with a dense table of scores, step by step: an edge that occurs n times adds log n."""
        n, m = q.shape[-2], k.shape[-2]
        cell = edges[1].long() * m + edges[0].long()
        one = torch.ones(cell.shape, dtype=q.dtype, device=q.device) if mask is None else mask.to(q.dtype)
        count = one.new_zeros(*one.shape[:-1], n * m).scatter_add(-1, cell.expand(one.shape), one).unflatten(-1, (n, m))
        count = count.unsqueeze(-3) if count.ndim > 2 else count
        bias = context.dense_bias(self.attention.heads, q.ndim, plain=True)
        if bool((count > 1).any()):
            repeats = count.clamp(min=1).log()
            bias = repeats if bias is None else bias + repeats
        edge = count > 0
        return attend(q, k, v, bias, edge, self.attention.score, self.attention.normalizer, self.attention.head_width, plain=True)[
            0
        ]


def _edge_mask(tokens: Tokens, source: Tokens, edges: Tensor) -> Tensor | None:
    """Mask of edges from real tokens of the same document, [..., E]; None: all."""
    if (tokens.document is None) != (source.document is None):
        raise InputError("One sequence has documents, the other has none. Give both or neither.")
    parts = []
    if source.valid is not None:
        parts.append(source.valid[..., edges[0].long()])
    if tokens.document is not None and source.document is not None:
        parts.append(tokens.document[..., edges[1].long()] == source.document[..., edges[0].long()])
    return None if not parts else parts[0] if len(parts) == 1 else parts[0] & parts[1]
