"""Multi-head attention: several attention functions in parallel, each in its own subspace.

The columns of head h are h*K .. (h+1)*K - 1, as in torch and Hugging Face. With fewer key heads than query heads (grouped
queries), key head g serves H/G consecutive query heads: kv-major, as in Hugging Face.
All backends compute the same function. A backend that does not support a configuration falls back to the next one; `runs_on`
returns the backend that runs.
Sources: Vaswani et al. 2017, section 3.2.2; Shazeer 2019 (one key head); Ainslie et al. 2023 (grouped queries).
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from equiscope import kernels
from equiscope.attention.cache import Cache
from equiscope.attention.chunks import chunked
from equiscope.attention.context import AttentionContext
from equiscope.attention.mask import Everything, Mask
from equiscope.attention.normalizer import Normalizer, Softmax
from equiscope.attention.scores import ScaledDot, ScoreFunction, attend
from equiscope.errors import InputError, ShapeError, wrong_choice
from equiscope.init import linear
from equiscope.positions import NoPosition, Position
from equiscope.positions.base import Role
from equiscope.tokens import Tokens
from equiscope.tokens.base import alike

FLEX_MIN_QUERIES = 2048  # queries from which FlexAttention beats a dense mask: 1.0 ms, not 2.8, both passes (H100, bfloat16)
DENSE_MAX_PAIRS = 2**26  # query-key pairs up to which a dense mask is faster in float32: 35 ms instead of 81 at 8192 tokens
EAGER_MAX_PAIRS = 2**22  # query-key pairs up to which all weights are computed at once; beyond, in chunks of queries
Backend = Literal["auto", "eager", "sdpa", "flex", "chunked"]
ResolvedBackend = Literal["eager", "sdpa", "flex", "chunked"]
BACKENDS: tuple[ResolvedBackend, ...] = ("flex", "sdpa", "chunked", "eager")  # each falls back to the next
MAX_WEIGHTS = 2**31  # attention weights in one tensor: beyond this number, 32-bit indices overflow


@dataclass(frozen=True)
class KeyValues:
    """Keys and values [..., H, M, K] of a source, computed once for many queries."""

    k: Tensor
    v: Tensor
    tokens: Tokens


class MultiHeadAttention(nn.Module):
    """Self-attention or cross-attention: [..., N, D] to [..., N, D].

    width         D, the features of a query token; source_width: those of a key token (cross-attention), D by default
    heads         H; head_width: K (D / H by default); value_width: V (K by default)
    kv_heads      heads of keys and values, a divisor of H (H by default; 1 is multi-query attention)
    mask          which queries attend to which keys, in addition to padding and documents
    score         score function: ScaledDot(), Dot(), General(), Additive(), Concat()
    normalizer    maps scores to weights: Softmax(), Softmax(sink=True), Sigmoid()
    norm          "rms" or "layer": normalises queries and keys before rotation, with a weight (QK norm); eps: of this norm
    output        whether an output projection [H*V, D] follows; without it the output is [..., N, H*V]
    bias          whether the projections have biases; "qkv" or "output": only these projections
    backend       "auto" selects the fastest backend that supports the call; "eager" is the step-by-step reference
    raises        ShapeError if D is not a multiple of H and head_width is None, or if H is not a multiple of kv_heads
    """

    plain: ClassVar[dict[str, Any]] = {"backend": "eager"}  # attributes that `watch` sets, so that every step is recorded
    legend: ClassVar[dict[str, tuple[str, str, str]]] = {
        "q_proj": ("Q", "", "queries"),
        "k_proj": ("K", "", "keys"),
        "v_proj": ("V", "", "values"),
        "o_proj": ("O", "", "output of attention"),
        "q_proj.weight": ("W_Q", "feature channel", "query weights"),
        "k_proj.weight": ("W_K", "feature channel", "key weights"),
        "v_proj.weight": ("W_V", "feature channel", "value weights"),
        "o_proj.weight": ("W_O", "channel feature", "output weights"),
        "q_proj.bias": ("b_Q", "channel", "query bias"),
        "k_proj.bias": ("b_K", "channel", "key bias"),
        "v_proj.bias": ("b_V", "channel", "value bias"),
        "o_proj.bias": ("b_O", "feature", "output bias"),
        "q_norm.weight": ("g_Q", "channel", "weight of the queries' norm"),
        "k_norm.weight": ("g_K", "channel", "weight of the keys' norm"),
    }

    def __init__(
        self, width: int, heads: int = 1, head_width: int | None = None, value_width: int | None = None,
        source_width: int | None = None, mask: Mask | None = None, output: bool = True,
        bias: bool | Literal["qkv", "output"] = False, backend: Backend = "auto", kv_heads: int | None = None,
        score: ScoreFunction | None = None, normalizer: Normalizer | None = None, norm: Literal["rms", "layer"] | None = None,
        eps: float = 1e-6,
    ) -> None:  # fmt: skip
        super().__init__()
        sizes = {"width": width, "head_width": head_width, "value_width": value_width, "source_width": source_width}
        for name, size in sizes.items():
            if size is not None and size < 1:
                raise ShapeError(f"{name} is at least 1, but got {size}.")
        if heads < 1 or (head_width is None and width % heads):
            raise ShapeError(f"{heads} heads do not divide a width of {width}. Give head_width, or a width of {heads} x K.")
        if norm not in ("rms", "layer", None):
            raise wrong_choice("MultiHeadAttention.norm", norm, ["rms", "layer", None])
        if backend not in ("auto", *BACKENDS):
            raise wrong_choice("MultiHeadAttention.backend", backend, ["auto", *BACKENDS])
        self.heads, self.head_width = heads, head_width or width // heads
        self.kv_heads = heads if kv_heads is None else kv_heads
        if self.kv_heads < 1 or heads % self.kv_heads:
            raise ShapeError(f"{self.kv_heads} key heads cannot serve {heads} query heads alike. Use a divisor of {heads}.")
        self.value_width = value_width or self.head_width
        self.mask, self.backend = mask or Everything(), backend
        self.score = (score or ScaledDot()).sized(heads, self.head_width)
        self.normalizer = (normalizer or Softmax()).sized(heads)
        source = source_width or width
        in_bias = bias in (True, "qkv")
        self.q_proj = linear(width, heads * self.head_width, in_bias)
        self.k_proj = linear(source, self.kv_heads * self.head_width, in_bias)
        self.v_proj = linear(source, self.kv_heads * self.value_width, in_bias)
        self.q_norm, self.k_norm = qk_norm(norm, self.head_width, eps), qk_norm(norm, self.head_width, eps)
        self.o_proj = linear(heads * self.value_width, width, bias in (True, "output")) if output else None

    # --- forward ------------------------------------------------------------------------------------------------------
    def forward(
        self, tokens: Tokens, position: Position | None = None, source: Tokens | KeyValues | None = None,
        context: AttentionContext | None = None, cache: Cache | None = None,
    ) -> Tensor:  # fmt: skip
        """Compute attention.

        tokens    the query tokens
        position  scheme that acts on queries, keys and scores
        source    the key tokens, or their `key_values`; the query tokens by default
        context   masks and biases shared by layers with the same tokens and scheme; computed here by default
        cache     keys and values of earlier tokens; `tokens` are then the next tokens
        """
        q, k, v, context = self._prepare(tokens, position, source, context, cache)  # project, rotate
        z = self._attention(q, k, v, context)
        return self._output(z)  # project

    def attend(
        self, tokens: Tokens, position: Position | None = None, source: Tokens | KeyValues | None = None,
        context: AttentionContext | None = None,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        """Return the output of `forward` and the attention weights [..., H, N, M]; [N, M] for one head without a batch."""
        q, k, v, context = self._prepare(tokens, position, source, context, None)
        z, weights = self._step_by_step(q, k, v, context)
        return self._output(z), weights

    def key_values(self, source: Tokens, position: Position | None = None) -> KeyValues:
        """Compute keys and values once, to pass them as `source` many times: for example those of an encoder's output."""
        position = position or NoPosition()
        position.check(source.positions)
        return KeyValues(*self.project_key_values(source, position), source)

    def cache(self) -> Cache:
        """Return an empty cache for this layer. Raises InputError if decoding with it would differ from a full forward pass."""
        return Cache(self.mask)

    def runs_on(
        self, tokens: Tokens | None = None, position: Position | None = None, source: Tokens | None = None
    ) -> ResolvedBackend:  # fmt: skip
        """Return the backend that a forward pass would use.

        Without tokens: for one sequence of two tokens without padding, on this module's device. Longer inputs may use another.
        """
        with torch.no_grad():
            tokens = tokens or Tokens.of(self.q_proj.weight.new_zeros(1, 2, self.q_proj.in_features))
        context = AttentionContext(position or NoPosition(), tokens, source or tokens)
        return self._runs(context, tokens.x.ndim if self.heads == 1 and tokens.x.ndim == 2 else tokens.x.ndim + 1)

    def why_not(self, backend: ResolvedBackend, context: AttentionContext, ndim: int = 4) -> str:
        """Return why a backend does not support this attention, or an empty string if it does."""
        position, x = context.position, context.queries.x
        if backend == "flex":
            reads = next((name for name in ("content_bias", "value_bias") if position.acts(name)), "")
            if ndim == 2:
                return "it needs axes for heads and batch"
            if not context.queries.positions.shape[-2] or not context.keys.positions.shape[-2]:
                return "there are no pairs"
            if reads:
                return f"{position.name} reads the content of the tokens"
            if not (self.score.fused and self.normalizer.fused):
                return f"its scores are {self.score.name}, its weights {self.normalizer.name}"
            if x.is_cpu and torch.is_grad_enabled() and any(p.requires_grad for p in self.parameters()):
                return "FlexAttention has no backward on CPU"
            if not x.is_cpu and x.dtype == torch.float64:
                return "FlexAttention is not compiled for float64"
        if backend == "sdpa":
            if position.acts("value_bias"):
                return f"{position.name} reads the weights"
            if self.score.cap is not None:
                return "SDPA has no soft cap on the scores"
            if not (self.score.fused and self.normalizer.fused):
                return f"its scores are {self.score.name}, its weights {self.normalizer.name}"
        return ""

    def _runs(self, context: AttentionContext, ndim: int) -> ResolvedBackend:
        if self.backend == "eager":
            return "eager"
        if self.backend == "auto":
            able = [b for b in self._preferred(context) if not self.why_not(b, context, ndim)]
            if able:
                return able[0]
            return (
                "eager" if context.queries.positions.shape[-2] * context.keys.positions.shape[-2] <= EAGER_MAX_PAIRS else "chunked"
            )
        from_here = BACKENDS[BACKENDS.index(self.backend) :]
        return next(b for b in from_here if not self.why_not(b, context, ndim))

    def _preferred(self, context: AttentionContext) -> tuple[ResolvedBackend, ...]:
        if not context.queries.x.is_cuda:
            return ("sdpa",)
        rows, keys = context.queries.positions.shape[-2], context.keys.positions.shape[-2]
        narrow = context.queries.x.dtype != torch.float32 or torch.is_autocast_enabled("cuda")
        dense_is_faster = rows < FLEX_MIN_QUERIES if narrow else rows * keys <= DENSE_MAX_PAIRS
        return ("sdpa", "flex") if dense_is_faster or self._needs_no_dense_mask(context) else ("flex", "sdpa")

    def _needs_no_dense_mask(self, context: AttentionContext) -> bool:
        free = context.is_row_causal(self.mask) or context.is_full(self.mask)
        return free and not context.position.acts("score_bias") and not context.position.acts("content_bias")

    def _prepare(
        self, tokens: Tokens, position: Position | None, source: Tokens | KeyValues | None, context: AttentionContext | None,
        cache: Cache | None,
    ) -> tuple[Tensor, Tensor, Tensor, AttentionContext]:  # fmt: skip
        position, source = position or NoPosition(), source or tokens
        key_values, source = (source, source.tokens) if isinstance(source, KeyValues) else (None, source)
        learned = position.acts("rotate") and any(True for _ in position.parameters())
        if position.sized_for not in (None, self.heads) and (
            learned or any(map(position.acts, ("score_bias", "content_bias", "value_bias")))
        ):
            raise ShapeError(
                f"This {type(position).__name__} was sized for {position.sized_for} heads, but the attention has {self.heads}. "
                "Call .sized(width, heads, head_width) again."
            )
        if not alike(tokens.x.shape[:-2], source.positions.shape[:-2]) or not alike(tokens.x.shape[:-2], source.x.shape[:-2]):
            raise ShapeError(f"A batch of {tuple(tokens.x.shape[:-2])} cannot attend to one of {tuple(source.x.shape[:-2])}.")
        if context is None:  # a caller that passes a context has checked the positions
            position.check(tokens.positions)
            if source is not tokens:
                position.check(source.positions)
        if key_values is None:
            q, k, v = self.project(tokens, source, position)
        else:
            q, k, v = self.project_queries(tokens, position), key_values.k, key_values.v
        if cache is not None:
            k, v, source = cache.extend(k, v, source)
        if context is None or cache is not None:
            context = AttentionContext(position, tokens, source)
        if not torch.compiler.is_compiling():  # under torch.compile, the comparison would add a guard
            self._check_size(tokens.x.shape[:-1].numel() * source.positions.shape[-2] * self.heads, q, k, context)
        repeat = self.heads // self.kv_heads
        if repeat > 1:
            k, v = k.repeat_interleave(repeat, -3), v.repeat_interleave(repeat, -3)
        return q, k, v, context

    def _check_size(self, largest: int, q: Tensor, k: Tensor, context: AttentionContext) -> None:
        if largest >= MAX_WEIGHTS and self._runs(context, q.ndim) == "eager":
            raise ShapeError(
                f"{q.shape[-2]} queries and {k.shape[-2]} keys in {self.heads} heads make {largest:,} weights, more than 2^31. "
                'Use backend="chunked", or a shorter sequence.'
            )

    def project(self, tokens: Tokens, source: Tokens, position: Position) -> tuple[Tensor, Tensor, Tensor]:
        """Return rotated queries, rotated keys and values, each [..., H, N, K]; [N, K] for one head without a batch."""
        q, (k, v) = self._queries(tokens), self._keys_values(source)
        q = self._rotate(q, tokens, position, "query")
        k = self._rotate(k, source, position, "key")
        return q, k, v

    def project_queries(self, tokens: Tokens, position: Position) -> Tensor:
        """Return rotated queries."""
        return self._rotate(self._queries(tokens), tokens, position, "query")

    def project_key_values(self, source: Tokens, position: Position) -> tuple[Tensor, Tensor]:
        """Return rotated keys, and values."""
        k, v = self._keys_values(source)
        return self._rotate(k, source, position, "key"), v

    def _queries(self, tokens: Tokens) -> Tensor:
        x = _checked_features(tokens, self.q_proj.in_features, "tokens")
        return self._split(self.q_proj(x), self.heads)

    def _keys_values(self, source: Tokens) -> tuple[Tensor, Tensor]:
        x = _without_padding(source, _checked_features(source, self.k_proj.in_features, "source"))
        k = self._split(self.k_proj(x), self.kv_heads)
        v = self._split(self.v_proj(x), self.kv_heads)
        return k, v

    def _rotate(self, x: Tensor, tokens: Tokens, position: Position, role: Role) -> Tensor:
        return position.rotate(self._normalize(x, role), tokens.positions, role)

    def _normalize(self, x: Tensor, role: Role) -> Tensor:
        norm = self.q_norm if role == "query" else self.k_norm
        return x if norm is None else norm(x)

    def _split(self, x: Tensor, heads: int) -> Tensor:
        """[..., N, H*K] to [..., H, N, K]: one matrix per head."""
        if self.heads == 1 and x.ndim == 2:
            return x
        return x.unflatten(-1, (heads, -1)).transpose(-3, -2)

    def _output(self, z: Tensor) -> Tensor:
        if z.ndim > 2:
            z = z.transpose(-3, -2).flatten(-2)  # concatenate the heads
        return z if self.o_proj is None else self.o_proj(z)

    # --- attention ----------------------------------------------------------------------------------------------------
    def _attention(self, q: Tensor, k: Tensor, v: Tensor, context: AttentionContext) -> Tensor:
        runs = self._runs(context, q.ndim)
        if runs == "sdpa":
            return self._fused(q, k, v, context)
        if runs == "flex":
            return self._flex(q, k, v, context)
        if runs == "chunked":

            def some(start: int, stop: int) -> Tensor:
                return self._step_by_step(q[..., start:stop, :], k, v, context.for_queries(start, stop))[0]

            return chunked(some, q.shape[-2], (self, context.position))
        return self._step_by_step(q, k, v, context)[0]

    def _step_by_step(self, q: Tensor, k: Tensor, v: Tensor, context: AttentionContext) -> tuple[Tensor, Tensor]:
        mask = _broadcast_heads(context.dense_mask(self.mask), q)
        plain = self.backend == "eager"
        bias = self._bias(q, k, context, mask, plain)
        z, weights = attend(q, k, v, bias, mask, self.score, self.normalizer, self.head_width, plain)
        if context.position.acts("value_bias"):
            more = context.position.value_bias(weights.to(z.dtype), *context.coordinates())
            if more is not None and more.shape[-1] != z.shape[-1]:
                raise ShapeError(
                    f"{context.position.name} adds rows of {more.shape[-1]} numbers to the values, but they have {z.shape[-1]}. "
                    "Use a value_width equal to the head width."
                )
            z = z if more is None else z + more
        return z, weights

    def _bias(self, q: Tensor, k: Tensor, context: AttentionContext, mask: Tensor | None, plain: bool = False) -> Tensor | None:
        """Return the bias of the position scheme on the scores, as a dense tensor."""
        table = context.dense_bias(self.heads, q.ndim, plain)
        if not context.position.acts("content_bias"):
            return table
        content = context.position.content_bias(q, k, *context.coordinates(), mask)
        return table if content is None else content if table is None else table + content

    def _fused(self, q: Tensor, k: Tensor, v: Tensor, context: AttentionContext) -> Tensor:
        scale = self.score.factor(self.head_width)
        causal = context.is_row_causal(self.mask)
        mask = None if causal else _broadcast_heads(context.dense_mask(self.mask), q)
        extra: Tensor | kernels.DistanceBias | None
        if context.position.acts("content_bias"):
            extra = self._bias(q, k, context, _broadcast_heads(context.dense_mask(self.mask), q) if causal else mask)
        else:
            same = None if q.ndim == 2 else context.distance_bias(self.heads)
            extra = context.dense_bias(self.heads, q.ndim) if same is None else same
        return kernels.attention(self.score.map_queries(q), k, v, scale=scale, mask=mask, causal=causal, bias=extra)

    def _flex(self, q: Tensor, k: Tensor, v: Tensor, context: AttentionContext) -> Tensor:
        compiled = q.device.type != "cpu"
        mask = None if context.is_full(self.mask) else context.block_mask(self.mask, q.shape[:-3].numel())
        bias = context.pairwise_bias(self.heads)
        cap = self.score.cap

        def change(score: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
            score = score if bias is None else score + bias(b, h, i, j)
            return score if cap is None else cap * torch.tanh(score / cap)

        modified = change if bias is not None or cap is not None else None
        scale = self.score.factor(self.head_width)
        return kernels.flex_attention(
            self.score.map_queries(q), k, v, scale=scale, mask=mask, score_bias=modified, compiled=compiled
        )

    def extra_repr(self) -> str:
        return f"heads={self.heads}, head_width={self.head_width}, mask={self.mask.name}, backend={self.backend}"


def kv_major(weight: Tensor, heads: int, kv_heads: int) -> Tensor:
    """Reorder the rows of a query projection's weight [H*K, D] from kv-minor heads (x-transformers) to kv-major heads.

    Kv-minor: query head h attends to key head h mod G; kv-major: key head h // (H/G). The columns of an output projection's weight
    [D, H*V] are reordered in the same way: pass its transpose.
    raises  ShapeError if H does not divide the number of rows, or G does not divide H
    """
    if heads < 1 or kv_heads < 1 or heads % kv_heads or len(weight) % heads:
        raise ShapeError(f"{len(weight)} rows do not make {heads} query heads for {kv_heads} key heads.")
    return weight.unflatten(0, (heads // kv_heads, kv_heads, -1)).transpose(0, 1).flatten(0, 2)


def kv_minor(weight: Tensor, heads: int, kv_heads: int) -> Tensor:
    """The inverse of `kv_major`."""
    return kv_major(weight, heads, heads // max(kv_heads, 1))


def qk_norm(kind: Literal["rms", "layer"] | None, width: int, eps: float) -> nn.RMSNorm | nn.LayerNorm | None:
    """Return the norm of the queries or keys of each head, or None."""
    return None if kind is None else nn.RMSNorm(width, eps) if kind == "rms" else nn.LayerNorm(width, eps, bias=False)


def _checked_features(tokens: Tokens, width: int, name: str) -> Tensor:
    """Return the features of the tokens. Raises ShapeError for another width, InputError for a dtype that is not floating-point."""
    if tokens.x.shape[-1] != width:
        raise ShapeError(f"This attention reads {name} of {width} features, but got {tokens.x.shape[-1]}.")
    if not tokens.x.is_floating_point():
        raise InputError(f"Attention reads features, but {name} are {tokens.x.dtype}. Look ids up in an embedding first.")
    return tokens.x


def _without_padding(source: Tokens, x: Tensor) -> Tensor:
    """Set the features of padding rows to 0: their attention weight is 0, but 0 times infinity would be NaN."""
    return x if source.valid is None else x.masked_fill(~source.valid.unsqueeze(-1), 0.0)


def _broadcast_heads(mask: Tensor | None, q: Tensor) -> Tensor | None:
    """[B, N, M] to [B, 1, N, M]: the mask is the same in every head."""
    return mask if mask is None or mask.ndim == 2 else mask.unsqueeze(-3)
