"""Score functions of queries and keys, and eager attention, the step-by-step reference.

1/sqrt(K) is applied here, once. The reason: for unit-normal q and k the product has variance K, and softmax saturates.
Sources: Vaswani et al. 2017, section 3.2.1; Bahdanau et al. 2015 (additive); Luong et al. 2015 (dot, general, concat).
"""

import math
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from equiscope import functional
from equiscope.attention.blockwise import blockwise_attention, supports
from equiscope.attention.normalizer import Normalizer, Softmax
from equiscope.errors import InputError, ShapeError
from equiscope.positions.base import Position, arguments


class ScoreFunction(nn.Module):
    """Base class: scores of every query with every key. It keeps every constructor argument as an attribute of the same name.

    cap                 soft cap on the scores, cap * tanh(score / cap), after the bias is added (Gemma 2)
    fused               scores are products of (mapped) queries and keys times `factor`, so a fused kernel can compute them
    rotation_invariant  a common rotation of query and key leaves their score unchanged, so a rotary scheme stays relative
    """

    name: ClassVar[str]
    fused: ClassVar[bool] = True
    rotation_invariant: ClassVar[bool] = False

    def __init__(self, cap: float | None = None) -> None:
        super().__init__()
        if cap is not None and not cap > 0:
            raise InputError(f"A cap is larger than 0, but got {cap}. Use cap=None for none.")
        self.cap = cap

    @property
    def settings(self) -> dict[str, Any]:
        """The constructor's arguments."""
        return arguments(self)

    @property
    def is_plain(self) -> bool:
        """Whether it is the default score: ScaledDot()."""
        return type(self) is ScaledDot and set(self.settings.values()) == {None}

    @property
    def because(self) -> str:
        return f"{self.name} scores of rotated queries and keys depend on both positions, not on their distance alone"

    def preserves_claims(self, position: Position) -> bool:
        """Whether the scheme's claims hold with this score function."""
        return self.rotation_invariant or not position.acts("rotate")

    def sized(self, heads: int, head_width: int) -> Self:
        """A new copy for this number and width of heads, with its parameters."""
        fresh = type(self)(**self.settings)
        fresh.allocate(heads, head_width)
        return fresh

    def allocate(self, heads: int, head_width: int) -> None:
        """Create the parameters."""

    def factor(self, head_width: int) -> float:
        """Factor on the products."""
        return 1.0

    def map_queries(self, q: Tensor) -> Tensor:
        """Queries as they enter the product."""
        return q

    def multiply_adds(self, rows: int, keys: int, heads: int, head_width: int) -> int:
        """Multiply-adds of all scores of one sequence, its linear maps included."""
        return rows * keys * heads * head_width

    def forward(self, q: Tensor, k: Tensor, head_width: int) -> Tensor:
        """q [..., N, K], k [..., M, K] to scores [..., N, M]; head_width is K before a scheme widened queries and keys."""
        scores = self.map_queries(q) @ k.mT
        factor = self.factor(head_width)
        return scores if factor == 1 else scores * factor

    def capped(self, scores: Tensor) -> Tensor:
        """Apply the soft cap, after the bias: it limits the whole score."""
        if self.cap is None:
            return scores
        small = (scores * (1 / self.cap)).tanh()
        return small * self.cap


class ScaledDot(ScoreFunction):
    """q . k / sqrt(K), or times `scale`."""

    name = "scaled-dot"
    rotation_invariant = True

    def __init__(self, scale: float | None = None, cap: float | None = None) -> None:
        super().__init__(cap)
        self.scale = scale

    def factor(self, head_width: int) -> float:
        return 1 / math.sqrt(head_width) if self.scale is None else self.scale


class Dot(ScoreFunction):
    """q . k, not scaled. Source: Luong 2015; T5."""

    name = "dot"
    rotation_invariant = True


class General(ScoreFunction):
    """q W k with a matrix for each head. Source: Luong 2015."""

    name = "general"
    legend: ClassVar[dict[str, tuple[str, str, str]]] = {"weight": ("W_a", "head channel channel", "weights between query and key")}
    weight: nn.Parameter

    def allocate(self, heads: int, head_width: int) -> None:
        self.weight = nn.Parameter(torch.randn(heads, head_width, head_width) / head_width)

    def multiply_adds(self, rows: int, keys: int, heads: int, head_width: int) -> int:
        return rows * heads * head_width * (keys + head_width)

    def map_queries(self, q: Tensor) -> Tensor:
        _fits(self, q, self.weight.shape[-1])
        return q @ (self.weight if q.ndim > 2 else self.weight[0])


class _HiddenLayer(ScoreFunction):
    """A score by a network with one hidden layer. hidden: its features, by default those of a head."""

    fused = False
    out: nn.Parameter

    def __init__(self, hidden: int | None = None, cap: float | None = None) -> None:
        super().__init__(cap)
        if hidden is not None and hidden < 1:
            raise ShapeError(f"A hidden layer has at least 1 feature, but got hidden={hidden}.")
        self.hidden = hidden


class Additive(_HiddenLayer):
    """v . tanh(q W_q + k W_k), a small network of query and key. Source: Bahdanau 2015; Luong's concat with [W_q; W_k] as one."""

    name = "additive"
    legend: ClassVar[dict[str, tuple[str, str, str]]] = {
        "query_weight": ("W_q", "channel hidden", "weights of the query"),
        "key_weight": ("W_k", "channel hidden", "weights of the key"),
        "out": ("v", "hidden .", "weights of the hidden layer"),
    }
    query_weight: nn.Parameter
    key_weight: nn.Parameter

    def allocate(self, heads: int, head_width: int) -> None:
        hidden = self.hidden or head_width
        for name in ("query_weight", "key_weight"):
            setattr(self, name, nn.Parameter(torch.randn(head_width, hidden) / math.sqrt(head_width)))
        self.out = nn.Parameter(torch.randn(hidden, 1) / math.sqrt(hidden))

    def multiply_adds(self, rows: int, keys: int, heads: int, head_width: int) -> int:
        return heads * (self.hidden or head_width) * (rows * head_width + keys * head_width + rows * keys)

    def forward(self, q: Tensor, k: Tensor, head_width: int) -> Tensor:
        _fits(self, q, len(self.query_weight))
        mapped_queries = q @ self.query_weight
        mapped_keys = k @ self.key_weight
        pairs = mapped_queries.unsqueeze(-2) + mapped_keys.unsqueeze(-3)
        hidden = pairs.tanh()
        return (hidden @ self.out).squeeze(-1)


class Concat(_HiddenLayer):
    """v . tanh([q; k] W) with one matrix [2K, hidden]: the same function as `Additive`, written as Luong 2015 does."""

    name = "concat"
    legend: ClassVar[dict[str, tuple[str, str, str]]] = {
        "weight": ("W_a", "channel hidden", "weights of query and key side by side"),
        "out": ("v", "hidden .", "weights of the hidden layer"),
    }
    weight: nn.Parameter

    def allocate(self, heads: int, head_width: int) -> None:
        hidden = self.hidden or head_width
        self.weight = nn.Parameter(torch.randn(2 * head_width, hidden) / math.sqrt(2 * head_width))
        self.out = nn.Parameter(torch.randn(hidden, 1) / math.sqrt(hidden))

    def multiply_adds(self, rows: int, keys: int, heads: int, head_width: int) -> int:
        return heads * (self.hidden or head_width) * rows * keys * (2 * head_width + 1)

    def forward(self, q: Tensor, k: Tensor, head_width: int) -> Tensor:
        _fits(self, q, len(self.weight) // 2)
        query = q.unsqueeze(-2) + q.new_zeros(k.shape[-2], 1)  # of every pair
        key = k.unsqueeze(-3) + q.new_zeros(q.shape[-2], 1, 1)
        pairs = functional.concat(query, key)
        hidden = (pairs @ self.weight).tanh()
        return (hidden @ self.out).squeeze(-1)


def _fits(score: ScoreFunction, q: Tensor, width: int) -> None:
    if q.shape[-1] != width:
        raise ShapeError(
            f"{type(score).__name__} has weights for queries of {width} channels, but they have {q.shape[-1]}. A scheme that "
            "widens queries and keys (PoPE) goes with ScaledDot() and Dot()."
        )


SCORES: tuple[type[ScoreFunction], ...] = (ScaledDot, Dot, General, Additive, Concat)


def scaled_dot(q: Tensor, k: Tensor) -> Tensor:
    """q [..., N, K], k [..., M, K] to scores [..., N, M]: products of rows, divided by sqrt(K)."""
    return ScaledDot()(q, k, q.shape[-1])


def eager_attention(
    q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None = None, mask: Tensor | None = None, score: ScoreFunction | None = None,
    normalizer: Normalizer | None = None, head_width: int | None = None,
) -> Tensor:  # fmt: skip
    """Attention, step by step: q [..., N, K], k [..., M, K], v [..., M, V] to [..., N, V].

    bias  added to the scores, broadcast to [..., N, M]
    mask  bool, True = may attend; the output of a fully masked query is 0
    """
    return attend(q, k, v, bias, mask, score, normalizer, head_width, plain=True)[0]


def attend(
    q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None = None, mask: Tensor | None = None, score: ScoreFunction | None = None,
    normalizer: Normalizer | None = None, head_width: int | None = None, plain: bool = False,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The output of `eager_attention` and the weights [..., N, M], computed in float32 or better.

    plain  compute step by step, as the formula reads; else blocks of queries go through all steps where that is faster
    """
    score, normalizer = score or ScaledDot(), normalizer or Softmax()
    wide = torch.promote_types(q.dtype, torch.float32)  # products of half-precision rows overflow
    if not plain and score.fused and normalizer.fused and score.cap is None and supports(q, k, v, bias, mask):
        factor, bias = score.factor(head_width or q.shape[-1]), None if bias is None else bias.to(wide)
        z, weights = blockwise_attention(score.map_queries(q.to(wide)), k.to(wide), v.to(wide), factor, mask, bias)
        return z.to(q.dtype), weights
    scores = score.forward(q.to(wide), k.to(wide), head_width or q.shape[-1])  # a step of attention, not of a part
    if bias is not None:
        scores = scores + bias.to(wide)
    scores = score.capped(scores)
    weights = normalizer.forward(scores, mask)
    z = weights @ v.to(wide)
    return z.to(q.dtype), weights


def score_split(x: Tensor, p: Tensor, query: Tensor, key: Tensor, heads: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """How an added position changes the scores: (x + p) Wq ((x + p) Wk)^T / sqrt(K) as four matrices that sum to it.

    x, p [..., N, D] content and positions; query, key [D, H*K]
    returns content-content, content-position, position-content, position-position, each [..., H, N, N]
    """
    q_c, k_c = _subspaces(x @ query, heads), _subspaces(x @ key, heads)
    q_p, k_p = _subspaces(p @ query, heads), _subspaces(p @ key, heads)
    return scaled_dot(q_c, k_c), scaled_dot(q_c, k_p), scaled_dot(q_p, k_c), scaled_dot(q_p, k_p)


def _subspaces(x: Tensor, heads: int) -> Tensor:
    return x if heads == 1 and x.ndim == 2 else x.unflatten(-1, (heads, -1)).transpose(-3, -2)
