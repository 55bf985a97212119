"""Low-rank attention: the matrix of weights is a product of thin matrices, so the cost grows with N instead of N^2.

`Linformer` projects keys and values along the length to R rows by learned maps; `Nystrom` approximates the weights through R
landmarks, means of neighbouring rows. Both combine all keys before a query is known, so neither can be causal, and neither is
permutation-equivariant: see `preserves`. `approximation_error` compares with exact softmax attention.
Sources: Wang et al. 2020, "Linformer", section 4; Xiong et al. 2021, "Nystromformer", sections 3.2 and 3.3.
"""

import math
from typing import ClassVar

import torch
from torch import Tensor, nn

from equiscope import functional
from equiscope.attention.cache import Cache
from equiscope.attention.context import AttentionContext
from equiscope.attention.mask import Everything, Mask
from equiscope.attention.multihead import KeyValues, MultiHeadAttention, ResolvedBackend
from equiscope.attention.scores import attend, eager_attention
from equiscope.errors import InputError, ShapeError
from equiscope.positions import NoPosition, Position
from equiscope.symmetry import Action, Reverse, Shift, relative_error
from equiscope.tokens import Tokens


class _LowRank(MultiHeadAttention):
    """Base of both: the projections of multi-head attention, what is not supported, and the distance from exact attention."""

    because: str = ""
    forbidden: ClassVar[tuple[str, ...]]  # methods that a scheme must not override

    def __init__(
        self, width: int, heads: int = 1, head_width: int | None = None, value_width: int | None = None,
        source_width: int | None = None, mask: Mask | None = None, output: bool = True, bias: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(width, heads, head_width, value_width, source_width, mask, output, bias)
        if type(self.mask) is not Everything:
            raise InputError(
                f"{type(self).__name__} combines all keys before a query is known, so one query cannot have its own mask, but "
                f"the mask is {self.mask.name!r}. Use Everything(), or MultiHeadAttention or LinearAttention."
            )

    @property
    def preserves(self) -> frozenset[type[Action]]:
        return frozenset()

    def forward(  # type: ignore[override]  # it has no key_values
        self, tokens: Tokens, position: Position | None = None, source: Tokens | None = None,
        context: AttentionContext | None = None, cache: Cache | None = None,
    ) -> Tensor:  # fmt: skip
        if cache is not None:
            self.cache()  # raises and says why
        return self._output(self._head_outputs(tokens, source or tokens, position or NoPosition()))

    def key_values(self, source: Tokens, position: Position | None = None) -> KeyValues:
        """Not supported: keys are combined before they meet a query."""
        raise InputError(f"{type(self).__name__} keeps no keys. Give the tokens as source=...")

    @torch.no_grad()
    def approximation_error(self, tokens: Tokens, position: Position | None = None) -> float:
        """Distance from exact softmax attention on the same queries, keys and values, relative to its size."""
        position = position or NoPosition()
        mask = _per_head(tokens.valid)
        exact = eager_attention(*self.project(tokens, tokens, position), mask=mask)
        return relative_error(self._head_outputs(tokens, tokens, position), exact)

    def attend(
        self, tokens: Tokens, position: Position | None = None, source: Tokens | KeyValues | None = None,
        context: AttentionContext | None = None,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        """Not supported: the weights [..., H, N, M] are never computed."""
        raise InputError(f"{type(self).__name__} computes no weights between single tokens. Use MultiHeadAttention to see weights.")

    def runs_on(
        self, tokens: Tokens | None = None, position: Position | None = None, source: Tokens | None = None
    ) -> ResolvedBackend:  # fmt: skip
        """Always "eager": the matrices are thin."""
        return "eager"

    def _head_outputs(self, tokens: Tokens, source: Tokens, position: Position) -> Tensor:
        """The heads' outputs [..., H, N, V]."""
        raise AssertionError(f"{type(self).__name__} does not define `_head_outputs`")

    def _check(self, tokens: Tokens, source: Tokens, position: Position) -> None:
        acts = [method for method in self.forbidden if position.acts(method)]
        if acts:
            rotates = "rotate" not in self.forbidden
            able = "embeds or rotates, such as Sinusoidal() or Rope()" if rotates else "embeds, such as Sinusoidal()"
            raise InputError(
                f"{position.name} acts on one query and one key, but {type(self).__name__} combines the keys before they meet a "
                f"query. Use a scheme that {able}."
            )
        if tokens.document is not None or source.document is not None:
            raise InputError(f"{type(self).__name__} would combine texts of one row. Give each text its own row, with padding.")
        position.check(tokens.positions)
        position.check(source.positions)


class Linformer(_LowRank):
    """Keys and values of all tokens, projected to `rank` rows by maps [rank, max_length], one column for each rank in the text.

    max_length  columns of the maps; `order` is 0 .. max_length - 1
    rank        R, rows of projected keys and values
    raises      InputError for a causal mask, for a scheme that does more than embed, for documents and for ranks beyond the
                maps; ShapeError where rank or max_length is not positive

    The maps are shared by all heads, one for keys and one for values (the paper's "headwise" sharing).
    """

    forbidden = ("rotate", "score_bias", "content_bias", "value_bias")
    because = "Linformer has separate weights for each rank, so permuted or shifted tokens are projected differently"
    legend: ClassVar[dict[str, tuple[str, str, str]]] = {
        **MultiHeadAttention.legend,
        "key_map": ("E", "row token", "projection of keys along the text"),
        "value_map": ("F", "row token", "projection of values along the text"),
    }

    def __init__(
        self, width: int, heads: int = 1, head_width: int | None = None, value_width: int | None = None,
        source_width: int | None = None, mask: Mask | None = None, max_length: int = 512, rank: int = 64, output: bool = True,
        bias: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(width, heads, head_width, value_width, source_width, mask, output, bias)
        if max_length < 1 or rank < 1:
            raise ShapeError(f"max_length and rank are at least 1, but got {max_length} and {rank}.")
        self.max_length, self.rank = max_length, rank
        self.key_map = nn.Parameter(torch.randn(rank, max_length) / math.sqrt(rank))  # Johnson-Lindenstrauss, as in the paper
        self.value_map = nn.Parameter(torch.randn(rank, max_length) / math.sqrt(rank))

    def _head_outputs(self, tokens: Tokens, source: Tokens, position: Position) -> Tensor:
        self._check(tokens, source, position)
        self._check_ranks(source.order)
        q, k, v = self.project(tokens, source, position)
        k, v = self._project(k, self.key_map, source), self._project(v, self.value_map, source)
        return attend(q, k, v, plain=self.backend == "eager")[0]

    def _project(self, x: Tensor, along: Tensor, source: Tokens) -> Tensor:
        """Project [..., N, K] along the text to [..., R, K]; padding is left out."""
        columns = along.mT[source.order.long()]
        if source.valid is not None:
            columns = columns * source.valid.unsqueeze(-1).to(columns.dtype)
        mixing = columns.mT
        mixing = mixing if x.ndim == 2 or mixing.ndim == 2 else mixing.unsqueeze(-3)
        return mixing @ x

    def _check_ranks(self, order: Tensor) -> None:
        if torch.compiler.is_compiling() or order.device.type != "cpu" or not order.numel():
            return
        low, high = int(order.min()), int(order.max())
        if not 0 <= low <= high < self.max_length:
            raise InputError(
                f"Linformer's maps have ranks 0..{self.max_length - 1}, but got {low}..{high}. Use max_length={high + 1} or more, "
                "or attention without such maps, e.g. LinearAttention."
            )


class Nystrom(_LowRank):
    """softmax(Q L_K^T) softmax(L_Q L_K^T)^+ softmax(L_Q K^T) V, where the landmarks L are means of neighbouring rows.

    landmarks   R; a text with no more tokens than landmarks is exact up to the pseudo-inverse
    iterations  steps of the pseudo-inverse, 6 in the paper. More come closer to the inverse, not always to exact attention:
                if the landmarks' matrix is ill-conditioned, its true inverse amplifies the approximation error
    raises      InputError for a causal mask, for a scheme that acts on scores, and for documents

    Segments are consecutive rows without padding, of equal sizes up to one row. Unlike Hugging Face's, the pseudo-inverse of
    each matrix starts from its own norm, so that a sequence does not depend on the rest of the batch; the depthwise convolution
    beside the attention is left out, because it is no part of the approximation.
    """

    forbidden = ("score_bias", "content_bias", "value_bias")
    because = "Nystrom takes means of neighbouring rows, so permuted tokens enter other means"
    preserves = frozenset({Shift, Reverse})  # landmarks depend on rows, not on positions

    def __init__(
        self, width: int, heads: int = 1, head_width: int | None = None, value_width: int | None = None,
        source_width: int | None = None, mask: Mask | None = None, landmarks: int = 64, iterations: int = 6, output: bool = True,
        bias: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(width, heads, head_width, value_width, source_width, mask, output, bias)
        if landmarks < 1 or iterations < 0:
            raise ShapeError(f"Nystrom needs a landmark and no negative iterations, but got {landmarks} and {iterations}.")
        self.landmarks, self.iterations = landmarks, iterations

    def _head_outputs(self, tokens: Tokens, source: Tokens, position: Position) -> Tensor:
        self._check(tokens, source, position)
        q, k, v = self.project(tokens, source, position)
        wide = torch.promote_types(q.dtype, torch.float32)
        q, k, v = q.to(wide) * (1 / math.sqrt(self.head_width)), k.to(wide), v.to(wide)
        landmarks_q, has_q = self._means(q, tokens)
        landmarks_k, has_k = self._means(k, source)
        mask = _per_head(source.valid)
        first = _weights(q, landmarks_k, has_k)
        middle = _weights(landmarks_q, landmarks_k, has_k)
        if has_q is not None:
            middle = middle * has_q.unsqueeze(-1).to(wide)
        last = _weights(landmarks_q, k, mask, row=False)
        mixed = last @ v
        bridge = first @ self.pseudo_inverse(middle)
        z = bridge @ mixed
        return z.to(tokens.x.dtype)

    def _means(self, x: Tensor, tokens: Tokens) -> tuple[Tensor, Tensor | None]:
        """Means of segments, [..., R, K], and which segments have a token, [..., R] bool with an axis for heads; None: all."""
        n = x.shape[-2]
        landmark = torch.arange(self.landmarks if tokens.valid is not None else min(self.landmarks, max(n, 1)), device=x.device)[
            :, None
        ]
        if tokens.valid is None:
            segment, real = torch.arange(n, device=x.device) * len(landmark) // max(n, 1), None
        else:
            real, count = tokens.valid, tokens.valid.sum(-1, keepdim=True)
            segment = (real.cumsum(-1) - 1) * count.clamp(max=self.landmarks) // count.clamp(min=1)
        member = segment.unsqueeze(-2) == landmark
        if real is not None:
            member = member & real.unsqueeze(-2)
        count = member.sum(-1, keepdim=True)
        share = member.to(x.dtype) / count.clamp(min=1)
        share = share if x.ndim == 2 or share.ndim == 2 else share.unsqueeze(-3)
        has = None if real is None else (count > 0).squeeze(-1)
        has = has if has is None or x.ndim == 2 or has.ndim == 1 else has.unsqueeze(-2)
        return share @ x, has

    def pseudo_inverse(self, a: Tensor) -> Tensor:
        """A+ by Z <- Z (13 - A Z (15 - A Z (7 - A Z))) / 4, from Z = A^T / (largest column sum x largest row sum)."""
        one = torch.eye(a.shape[-2], dtype=a.dtype, device=a.device)
        one_7, one_13, one_15 = 7 * one, 13 * one, 15 * one
        plain = self.backend == "eager"
        norm = _largest_row(a.mT, plain) * _largest_row(a, plain)
        z = a.mT / norm
        for _ in range(self.iterations):
            az = a @ z
            inner = one_15 - az @ (one_7 - az)
            z = (z @ (one_13 - az @ inner)) * 0.25
        return z


def _weights(q: Tensor, k: Tensor, mask: Tensor | None, row: bool = True) -> Tensor:
    scores = q @ k.mT
    if mask is not None:
        scores = scores.masked_fill(~(mask.unsqueeze(-2) if row else mask), -math.inf)
    return functional.softmax(scores)


def _per_head(valid: Tensor | None) -> Tensor | None:
    """`valid` as a mask: [N] to [1, N], [B, N] to [B, 1, 1, N]."""
    if valid is None:
        return None
    mask = valid.unsqueeze(-2)
    return mask if mask.ndim == 2 else mask.unsqueeze(-3)


def _largest_row(a: Tensor, plain: bool) -> Tensor:
    """The largest row sum, [..., 1, 1]; 1 for a zero matrix. plain: by pairwise maxima."""
    ones = torch.ones(a.shape[-1], 1, dtype=a.dtype, device=a.device)
    sums = (a @ ones).mT
    if not plain:
        largest = sums.amax(-1, keepdim=True)
        return largest.masked_fill(largest == 0, 1.0)
    while sums.shape[-1] > 1:
        half = (sums.shape[-1] + 1) // 2
        sums = torch.maximum(sums[..., :half], sums[..., sums.shape[-1] - half :])
    return sums + (sums == 0).to(a.dtype)  # 1 for 0
