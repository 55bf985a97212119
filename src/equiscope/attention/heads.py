"""Multi-head attention: several look-ups side by side, each in a subspace of its own.

Two backends compute the same: `eager` makes every intermediate (and can be traced), `sdpa` is torch's fused kernel and the
default. The columns of head h are h*K .. (h+1)*K - 1, as in torch and Hugging Face.
Source: Vaswani et al. 2017, section 3.2.2.
"""

import math
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from equiscope.attention.mask import Everything, Mask, visible
from equiscope.attention.scores import look_up
from equiscope.errors import InputError, ShapeError
from equiscope.position import NoPosition, Position
from equiscope.position.frequencies import one_axis
from equiscope.tokens import Tokens
from equiscope.trace import constant, ops, recording

Backend = Literal["auto", "eager", "sdpa"]


class MultiHeadAttention(nn.Module):
    """Tokens ask tokens: [..., N, D] to [..., N, D].

    width        D of the tokens that ask; source_width: of those that answer (cross-attention), the same unless said
    heads        H; head_width: K (D / H unless said); value_width: V, free (K unless said)
    mask         who may look, besides padding and documents
    output       whether a projection [H*V, D] follows; without it the result is [..., N, H*V]
    bias         whether the projections add one
    backend      "auto" takes sdpa unless somebody watches
    raises       ShapeError where D is not a multiple of H and no head width is given
    """

    legend: ClassVar[dict[str, tuple[str, str, str]]] = {
        "query": ("W_Q", "feature channel", "query weights"),
        "key": ("W_K", "feature channel", "key weights"),
        "value": ("W_V", "feature channel", "value weights"),
        "output": ("W_O", "channel feature", "output weights"),
        "query_bias": ("b_Q", "channel", "query bias"),
        "key_bias": ("b_K", "channel", "key bias"),
        "value_bias": ("b_V", "channel", "value bias"),
        "output_bias": ("b_O", "feature", "output bias"),
    }

    def __init__(
        self, width: int, heads: int = 1, head_width: int | None = None, value_width: int | None = None,
        source_width: int | None = None, mask: Mask | None = None, output: bool = True, bias: bool = False,
        backend: Backend = "auto",
    ) -> None:  # fmt: skip
        super().__init__()
        for name, size in {
            "width": width,
            "head_width": head_width,
            "value_width": value_width,
            "source_width": source_width,
        }.items():
            if size is not None and size < 1:
                raise ShapeError(f"{name} is at least 1, but got {size}.")
        if heads < 1 or (head_width is None and width % heads):
            raise ShapeError(f"{heads} heads do not divide a width of {width}. Give head_width, or a width of {heads} x K.")
        if backend not in ("auto", "eager", "sdpa"):
            raise InputError(f'The backends are "auto", "eager" and "sdpa", but got {backend!r}.')
        self.heads, self.head_width = heads, head_width or width // heads
        self.value_width = value_width or self.head_width
        self.mask, self.backend = mask or Everything(), backend
        inner, values, source = heads * self.head_width, heads * self.value_width, source_width or width
        self.query, self.query_bias = _map(width, inner, bias)
        self.key, self.key_bias = _map(source, inner, bias)
        self.value, self.value_bias = _map(source, values, bias)
        self.output: nn.Parameter | None = None
        self.output_bias: nn.Parameter | None = None
        if output:
            self.output, self.output_bias = _map(values, width, bias)

    def runs_on(self) -> Literal["eager", "sdpa"]:
        """The backend that a forward pass made now would take."""
        if recording() or self.backend == "eager":
            return "eager"
        return "sdpa"

    def forward(self, tokens: Tokens, position: Position | None = None, source: Tokens | None = None) -> Tensor:
        """tokens ask; source answers (tokens themselves unless given); position acts on queries, keys and scores."""
        position, source = position or NoPosition(), source or tokens
        q, k, v = self.project(tokens, source, position)
        bias = self._bias(position, tokens, source, q)
        z = self._attend(q, k, v, bias, tokens, source)
        if z.ndim > 2:
            z = ops.join(z, name="Z_all", label="the heads side by side")
        if self.output is None:
            return z
        return ops.affine(z, self.output, self.output_bias, name="ΔE", label="what attention adds")

    def project(self, tokens: Tokens, source: Tokens, position: Position) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys (turned by their places) and values, [..., H, N, K] each; [N, K] for one head without a batch."""
        q = self._split(ops.affine(tokens.x, self.query, self.query_bias, name="Q", label="queries"), "Q")
        k = self._split(ops.affine(source.x, self.key, self.key_bias, name="K", label="keys"), "K")
        v = self._split(ops.affine(source.x, self.value, self.value_bias, name="V", label="values"), "V")
        return position.turn(q, tokens.at, "query"), position.turn(k, source.at, "key"), v

    def _split(self, x: Tensor, name: str) -> Tensor:
        if self.heads == 1 and x.ndim == 2:
            return x
        return ops.heads(x, self.heads, name=f"{name}_h", label="one matrix a head")

    def _bias(self, position: Position, tokens: Tokens, source: Tokens, like: Tensor) -> Tensor | None:
        """The scheme's bias as a dense table [..., H, N, M]."""
        if type(position).bias is Position.bias:
            return None
        number = torch.arange(self.heads, device=like.device)
        number = number[0] if like.ndim == 2 else number[:, None, None]
        head = constant(number, "h", "number of the head", "head . ." if number.ndim else "")
        at_k = ops.transpose(one_axis(source.at), name="tᵀ", label="places of the keys")
        at_q = one_axis(tokens.at)
        if at_q.ndim > 2:
            at_q, at_k = ops.broadcast_heads(at_q), ops.broadcast_heads(at_k)
        return position.bias(head, at_q, at_k)

    def _attend(self, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, tokens: Tokens, source: Tokens) -> Tensor:
        if self.runs_on() == "sdpa":
            return self._sdpa(q, k, v, bias, tokens, source)
        return look_up(q, k, v, bias, _over_heads(visible(self.mask, tokens, source), q))

    def _sdpa(self, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, tokens: Tokens, source: Tokens) -> Tensor:
        seen = _over_heads(visible(self.mask, tokens, source), q)
        extra: Tensor | None = seen
        if bias is not None:
            extra = bias.to(q.dtype) if seen is None else bias.to(q.dtype).masked_fill(~seen, -math.inf)
        if extra is not None:
            extra = extra.expand(*q.shape[:-1], k.shape[-2])
        return F.scaled_dot_product_attention(q, k, v, attn_mask=extra)

    def extra_repr(self) -> str:
        return f"heads={self.heads}, head_width={self.head_width}, mask={self.mask.name}, backend={self.backend}"


def _map(rows: int, columns: int, bias: bool) -> tuple[nn.Parameter, nn.Parameter | None]:
    weight = nn.Parameter(torch.randn(rows, columns) / math.sqrt(rows))
    return weight, nn.Parameter(torch.zeros(columns)) if bias else None


def _over_heads(seen: Tensor | None, q: Tensor) -> Tensor | None:
    """[B, N, M] to [B, 1, N, M]: what a pair of tokens may do, it may do in every head."""
    return seen if seen is None or seen.ndim == 2 else ops.broadcast_heads(seen)
