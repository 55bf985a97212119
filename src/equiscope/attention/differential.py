"""Differential attention: the difference of two attention matrices over the same values, so that common noise cancels.

    z = (softmax(q1 k1^T / sqrt(K)) - lambda softmax(q2 k2^T / sqrt(K))) v
    lambda = exp(l_q1 . l_k1) - exp(l_q2 . l_k2) + start,  start = 0.8 - 0.6 exp(-0.3 (layer - 1))

The output of every head is normalised and multiplied by 1 - start, so its gradient is that of a plain layer. A row of weights
sums to 1 - lambda and may be negative. In the columns of W_Q and W_K the two halves of a head are adjacent, as in the authors'
code; in Hugging Face's DiffLlama all first halves come first.
Source: Ye et al. 2024, "Differential Transformer", section 2.1.
"""

import math
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from equiscope import functional
from equiscope.attention.cache import Cache
from equiscope.attention.context import AttentionContext
from equiscope.attention.mask import Mask
from equiscope.attention.multihead import Backend, KeyValues, MultiHeadAttention, qk_norm
from equiscope.attention.normalizer import Normalizer
from equiscope.attention.scores import ScoreFunction
from equiscope.errors import ShapeError
from equiscope.positions import Position
from equiscope.positions.base import Role
from equiscope.tokens import Tokens

Halves = tuple[Tensor, Tensor]


def initial_lambda(layer: int) -> float:
    """Initial lambda of layer 1, 2, ...: 0.2 in the first, towards 0.8 in deep ones. Ye 2024, equation 3."""
    return 0.8 - 0.6 * math.exp(-0.3 * (layer - 1))


class DifferentialAttention(MultiHeadAttention):
    """Differential attention [..., N, D] to [..., N, D].

    heads       H, each with two halves of queries and keys; head_width: K, of one half (D / 2H by default)
    layer       the layer's number in its model, from 1
    raises      ShapeError where D is not a multiple of 2H and no head width is given

    The other arguments are those of `MultiHeadAttention`; values are 2K wide. Schemes, masks, scores, backends and the cache
    apply to each half. A scheme with a value bias (Shaw) is not supported, because its rows are K wide.
    """

    legend: ClassVar[dict[str, tuple[str, str, str]]] = {
        **MultiHeadAttention.legend,
        "query_lambda": ("λ_q", "half channel", "lambda's queries"),
        "key_lambda": ("λ_k", "half channel", "lambda's keys"),
        "norm.weight": ("g", "channel", "weight of the heads' norm"),
    }

    def __init__(
        self, width: int, heads: int = 1, head_width: int | None = None, source_width: int | None = None,
        mask: Mask | None = None, output: bool = True, bias: bool = False, backend: Backend = "auto",
        kv_heads: int | None = None, score: ScoreFunction | None = None, normalizer: Normalizer | None = None,
        norm: Literal["rms", "layer"] | None = None, layer: int = 1,
    ) -> None:  # fmt: skip
        if heads < 1 or (head_width is None and width % (2 * heads)):
            raise ShapeError(f"{heads} heads of two halves do not divide a width of {width}. Give head_width.")
        if layer < 1:
            raise ShapeError(f"Layers are counted from 1, but got layer={layer}.")
        half = head_width or width // (2 * heads)
        super().__init__(width, heads, 2 * half, 2 * half, source_width, mask, output, bias, backend, kv_heads, norm=norm)
        self.head_width, self.layer, self.start = half, layer, initial_lambda(layer)
        self.score = (score or self.score).sized(heads, half)
        self.normalizer = (normalizer or self.normalizer).sized(heads)
        self.q_norm, self.k_norm = qk_norm(norm, half, 1e-6), qk_norm(norm, half, 1e-6)
        self.query_lambda = nn.Parameter(torch.randn(2, half) * 0.1)
        self.key_lambda = nn.Parameter(torch.randn(2, half) * 0.1)
        self.norm = nn.RMSNorm(2 * half, eps=1e-5)

    def forward(
        self, tokens: Tokens, position: Position | None = None, source: Tokens | KeyValues | None = None,
        context: AttentionContext | None = None, cache: Cache | None = None,
    ) -> Tensor:  # fmt: skip
        """As `MultiHeadAttention.forward`, for two attention functions that share values, mask and context."""
        q, k, v, context = self._prepare(tokens, position, source, context, cache)
        first, second = (self._attention(a, b, v, context) for a, b in zip(_halves(q), _halves(k), strict=True))
        return self._combine(first, second)

    def attend(
        self, tokens: Tokens, position: Position | None = None, source: Tokens | KeyValues | None = None,
        context: AttentionContext | None = None,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        """The output of `forward` and the weights [..., H, N, M]: the first minus lambda times the second."""
        q, k, v, context = self._prepare(tokens, position, source, context, None)
        halves = zip(_halves(q), _halves(k), strict=True)
        (z1, a1), (z2, a2) = (self._step_by_step(a, b, v, context) for a, b in halves)
        return self._combine(z1, z2), a1 - self.lambda_() * a2

    def _rotate(self, x: Tensor, tokens: Tokens, position: Position, role: Role) -> Tensor:
        """Normalise and rotate each half by itself, then concatenate them: one row for the cache and for `key_values`."""
        first, second = (super(DifferentialAttention, self)._rotate(half, tokens, position, role) for half in _halves(x))
        return functional.concat(first, second)

    def lambda_(self) -> Tensor:
        """lambda, [1, 1]."""

        q, k = self.query_lambda, self.key_lambda
        exp_1 = (q.select(-2, 0).unsqueeze(-2) @ k.select(-2, 0).unsqueeze(-1)).exp()
        exp_2 = (q.select(-2, 1).unsqueeze(-2) @ k.select(-2, 1).unsqueeze(-1)).exp()
        difference = exp_1 - exp_2
        lambda_ = difference + torch.full((1, 1), self.start, dtype=difference.dtype, device=difference.device)
        return lambda_

    def _combine(self, first: Tensor, second: Tensor) -> Tensor:
        wide = torch.promote_types(first.dtype, torch.float32)
        off = second.to(wide) * self.lambda_().to(wide)
        z = (first.to(wide) - off).to(first.dtype)
        z = self.norm(z)
        z = z * (1 - self.start)
        return self._output(z)


def _halves(x: Tensor) -> Halves:
    """The two halves of each head."""
    half = x.shape[-1] // 2
    return x[..., :half], x[..., half : 2 * half]
