"""Linear attention: a feature map replaces softmax, so keys and values are summed once and every query reads the sums.

    z_i = phi(q_i) (sum_j phi(k_j) v_j^T) / phi(q_i) . sum_j phi(k_j)

Time and memory grow with N, not with N^2; a causal layer is a recurrence with a state of fixed size (`RecurrentState`). The
function differs from softmax attention: `approximation_error` measures by how much. Scores are not divided by sqrt(K).
A rotary scheme rotates phi(q) and phi(k) in the numerator only, as RoFormer does (Su et al. 2021, section 3.3): the denominator
then stays positive, but a row of weights no longer sums to 1 and may be negative.
Source: Katharopoulos et al. 2020, "Transformers are RNNs", sections 3.2 to 3.4.
"""

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from equiscope import functional
from equiscope.attention.chunks import chunked
from equiscope.attention.context import AttentionContext
from equiscope.attention.mask import Causal, Everything, Mask
from equiscope.attention.multihead import KeyValues, MultiHeadAttention, ResolvedBackend
from equiscope.attention.scores import eager_attention
from equiscope.errors import InputError, wrong_choice
from equiscope.positions import NoPosition, Position
from equiscope.symmetry import relative_error
from equiscope.tokens import Tokens

Feature = Literal["elu", "relu", "softplus", "exp"]
FEATURES: tuple[Feature, ...] = ("elu", "relu", "softplus", "exp")
CHUNK = 64  # rows that attend to one another directly; they attend to all earlier rows through the state


def feature(x: Tensor, kind: Feature) -> Tensor:
    """phi, never negative: "elu" is elu(x) + 1 (Katharopoulos 2020), which is x + 1 above 0 and exp(x) below."""
    if kind == "relu":
        return x.relu()
    if kind == "softplus":
        return F.softplus(x)
    if kind == "exp":
        return x.exp()
    below = x.clamp(-(2.0**40), 0.0).exp()  # 1 where x > 0
    return x.relu() + below


@dataclass
class RecurrentState:
    """The state of a causal layer: sums over all rows so far. It replaces a cache, and its size is fixed.

    product  sum of phi(k) v^T, [..., H, K, V], keys rotated; keys: sum of phi(k), [..., H, K], not rotated
    order    the last rank that was read; document: the text of the last row. A new text begins with empty sums
    """

    product: Tensor | None = None
    keys: Tensor | None = None
    order: Tensor | None = None
    document: Tensor | None = None
    length: int = 0  # rows read

    def step(self, q: Tensor, k: Tensor, rotated_q: Tensor, rotated_k: Tensor, v: Tensor) -> Tensor:
        """Read one row, [..., H, K] each: add it to the sums, then compute its output. Katharopoulos 2020, equations 18 to 20."""
        outer = rotated_k[..., :, None] * v[..., None, :]
        self.product = outer if self.product is None else self.product + outer
        self.keys = k if self.keys is None else self.keys + k
        self.length += 1
        return _quotient((rotated_q[..., None, :] @ self.product)[..., 0, :], (q * self.keys).sum(-1, keepdim=True))


@dataclass(frozen=True)
class _Features:
    """Features and values, [..., H, N, K]: q and k give the sum of weights, rotated_q and rotated_k the weights."""

    q: Tensor
    k: Tensor
    rotated_q: Tensor
    rotated_k: Tensor
    v: Tensor


class LinearAttention(MultiHeadAttention):
    """Attention [..., N, D] to [..., N, D] in time and memory that grow with N.

    mask     Everything() or Causal()
    feature  phi: "elu", "relu", "softplus" or "exp"
    raises   InputError for other masks, and for a scheme that acts on scores or weights, which are never computed

    The other arguments are those of `MultiHeadAttention`. With documents, or ranks that do not grow from
    row to row, all pairs are computed in chunks: memory stays linear, but time grows with N^2. A causal layer over packed texts
    (document numbers that never decrease) stays linear.
    """

    def __init__(
        self, width: int, heads: int = 1, head_width: int | None = None, value_width: int | None = None,
        source_width: int | None = None, mask: Mask | None = None, feature: Feature = "elu", output: bool = True,
        bias: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(width, heads, head_width, value_width, source_width, mask, output, bias)
        if type(self.mask) not in (Everything, Causal):
            raise InputError(
                f"LinearAttention sums the keys before a query is known, so its masks are Everything() and Causal(), but got "
                f"{self.mask.name!r}. Use MultiHeadAttention for others."
            )
        if feature not in FEATURES:
            raise wrong_choice("LinearAttention.feature", feature, list(FEATURES))
        self.feature = feature

    def forward(  # type: ignore[override]  # its cache is a RecurrentState
        self, tokens: Tokens, position: Position | None = None, source: Tokens | None = None,
        context: AttentionContext | None = None, cache: RecurrentState | None = None,
    ) -> Tensor:  # fmt: skip
        """As `MultiHeadAttention.forward`; cache: the state after the earlier rows."""
        position, source = position or NoPosition(), source or tokens
        rows = self._rows(tokens, source, position)
        if cache is not None:
            _check_next(cache, tokens)
            return self._output(self._recurrent(rows, source, cache).to(tokens.x.dtype))
        context = AttentionContext(position, tokens, source) if context is None else context
        runs = self._method(context)
        if runs == "eager":
            z = self._pairs(rows, context)[0]
        elif runs == "sums":
            z = self._recurrent(rows, source, RecurrentState()) if isinstance(self.mask, Causal) else _all_at_once(rows)
        else:

            def chunk(start: int, stop: int) -> Tensor:
                part = slice(start, stop)
                part_features = _Features(rows.q[..., part, :], rows.k, rows.rotated_q[..., part, :], rows.rotated_k, rows.v)
                return self._pairs(part_features, context.for_queries(start, stop))[0]

            z = chunked(chunk, rows.q.shape[-2], ())
        return self._output(z.to(tokens.x.dtype))

    def attend(  # type: ignore[override]  # it has no key_values
        self, tokens: Tokens, position: Position | None = None, source: Tokens | None = None,
        context: AttentionContext | None = None,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        """The output of `forward` and the weights [..., H, N, M]."""
        position, source = position or NoPosition(), source or tokens
        z, weights = self._pairs(self._rows(tokens, source, position), AttentionContext(position, tokens, source))
        return self._output(z.to(tokens.x.dtype)), weights

    def key_values(self, source: Tokens, position: Position | None = None) -> KeyValues:
        """Not supported: only the sums could be reused, and they are computed for each call."""
        raise InputError("LinearAttention keeps no keys. Give the tokens as source=...")

    def cache(self) -> RecurrentState:  # type: ignore[override]
        """An empty state for this layer. Raises InputError if the mask lets a token attend to later ones."""
        super().cache()  # raises for masks that are not causal
        return RecurrentState()

    def runs_on(
        self, tokens: Tokens | None = None, position: Position | None = None, source: Tokens | None = None
    ) -> ResolvedBackend:  # fmt: skip
        """ "eager" if `backend` is "eager", else "chunked": sums, or all pairs in chunks."""
        return "eager" if self.backend == "eager" else "chunked"

    @torch.no_grad()
    def approximation_error(self, tokens: Tokens, position: Position | None = None) -> float:
        """Distance from exact softmax attention on the same queries, keys and values, relative to its size."""
        position = position or NoPosition()
        context, rows = AttentionContext(position, tokens, tokens), self._rows(tokens, tokens, position)
        q, k, v = self.project(tokens, tokens, position)
        mask = context.dense_mask(self.mask)
        exact = eager_attention(q, k, v, mask=mask if mask is None or mask.ndim == 2 else mask.unsqueeze(-3))
        return relative_error(self._pairs(rows, context)[0], exact)

    # --- features -----------------------------------------------------------------------------------------------------
    def _rows(self, tokens: Tokens, source: Tokens, position: Position) -> _Features:
        acts = [method for method in ("score_bias", "content_bias", "value_bias") if position.acts(method)]
        if acts:
            raise InputError(
                f"{position.name} acts on scores or weights, but LinearAttention never computes them. Use a scheme that embeds or "
                "rotates, such as Sinusoidal() or Rope(), or MultiHeadAttention."
            )
        position.check(tokens.positions)
        position.check(source.positions)
        q, k, v = self.project(tokens, source, NoPosition())
        wide = torch.promote_types(q.dtype, torch.float32)
        phi_q = feature(q.to(wide), self.feature)
        phi_k = feature(k.to(wide), self.feature)
        if source.valid is not None:
            valid = source.valid.unsqueeze(-1).to(wide)
            phi_k = phi_k * (valid if k.ndim == 2 or valid.ndim == 2 else valid.unsqueeze(-3))
        rotated_q, rotated_k = position.rotate(phi_q, tokens.positions, "query"), position.rotate(phi_k, source.positions, "key")
        return _Features(phi_q, phi_k, rotated_q, rotated_k, v.to(wide))

    # --- three methods ------------------------------------------------------------------------------------------------
    def _method(self, context: AttentionContext) -> Literal["eager", "sums", "pairs"]:
        if self.backend == "eager":
            return "eager"
        q, k = context.queries, context.keys
        if isinstance(self.mask, Everything):
            return "sums" if k.document is None and q.document is None else "pairs"
        if q.order is not k.order:
            return "pairs"
        if torch.compiler.is_compiling() or q.order.device.type != "cpu":
            return "sums" if q.is_consecutive and q.document is None else "pairs"
        grows = bool((q.order.diff() > 0).all())
        return "sums" if grows and (q.document is None or bool((q.document.diff() >= 0).all())) else "pairs"

    def _pairs(self, rows: _Features, context: AttentionContext) -> tuple[Tensor, Tensor]:
        """Every query with every key, as the formula reads."""
        mask = context.dense_mask(self.mask)
        mask = mask if mask is None or mask.ndim == 2 else mask.unsqueeze(-3)

        def products(q: Tensor, k: Tensor) -> Tensor:
            pairs = q @ k.mT
            return pairs if mask is None else pairs * mask.to(pairs.dtype)

        scores = products(rows.rotated_q, rows.rotated_k)
        if rows.rotated_q is rows.q:
            weights = functional.share(scores)
        else:
            unturned = products(rows.q, rows.k)
            ones = torch.ones(unturned.shape[-1], 1, dtype=unturned.dtype, device=unturned.device)
            total = unturned @ ones
            total = total + (total == 0).to(total.dtype)  # 1 for 0
            weights = scores / total
        z = weights @ rows.v
        return z, weights

    def _recurrent(self, rows: _Features, source: Tokens, state: RecurrentState) -> Tensor:
        """Chunk by chunk: pairs within a chunk, the state for everything before it."""
        alone = rows.q.ndim == 2
        parts = [t.unsqueeze(0) if alone else t for t in (rows.q, rows.k, rows.rotated_q, rows.rotated_k, rows.v)]
        outputs = []
        for start in range(0, parts[0].shape[-2], CHUNK):
            part_features = _Features(*(t[..., start : start + CHUNK, :] for t in parts))
            document = None if source.document is None else source.document[..., start : start + CHUNK]
            outputs.append(_chunk(part_features, document, state))
        if source.order.shape[-1]:
            state.order = source.order[..., -1:]
        state.length += source.order.shape[-1]
        z = torch.cat(outputs, -2) if outputs else parts[-1][..., :0, :]
        return z[0] if alone else z


def _all_at_once(rows: _Features) -> Tensor:
    above = rows.rotated_q @ (rows.rotated_k.mT @ rows.v)
    return _quotient(above, rows.q @ rows.k.sum(-2).unsqueeze(-1))


def _chunk(rows: _Features, document: Tensor | None, state: RecurrentState) -> Tensor:
    """Output of the next chunk of rows [..., H, R, K]; updates the state."""
    size = rows.q.shape[-2]
    mask = torch.ones(size, size, dtype=torch.bool, device=rows.q.device).tril()
    same, last, same_last = None, None, None
    if document is not None:
        document = document.unsqueeze(-2) if document.ndim > 1 else document  # an axis for heads
        last = document[..., -1:]
        mask = mask & (document[..., :, None] == document[..., None, :])
        if state.document is not None:
            same, same_last = torch.eq(document, state.document)[..., None], torch.eq(last, state.document)[..., None]
    weights, plain = rows.rotated_q @ rows.rotated_k.mT, rows.q @ rows.k.mT
    above, below = weights.masked_fill(~mask, 0.0) @ rows.v, plain.masked_fill(~mask, 0.0).sum(-1, keepdim=True)
    if state.product is not None and state.keys is not None:
        before, total = rows.rotated_q @ state.product, rows.q @ state.keys.unsqueeze(-1)
        if same is not None:  # masked, not multiplied: 0 times infinity would be NaN
            before, total = before.masked_fill(~same, 0.0), total.masked_fill(~same, 0.0)
        above, below = above + before, below + total
    rotated_k, k, v = rows.rotated_k, rows.k, rows.v
    if document is not None and last is not None:
        others = torch.ne(document, last)[..., None]
        rotated_k, k, v = (t.masked_fill(others, 0.0) for t in (rotated_k, k, v))
    new, keys = rotated_k.mT @ v, k.sum(-2)
    if state.product is not None and state.keys is not None:
        old = (state.product, state.keys)
        if same_last is not None:
            old = (old[0].masked_fill(~same_last, 0.0), old[1].masked_fill(~same_last[..., 0], 0.0))
        new, keys = new + old[0], keys + old[1]
    state.product, state.keys, state.document = new, keys, last
    return _quotient(above, below)


def _quotient(above: Tensor, below: Tensor) -> Tensor:
    """The quotient; 0 for a fully masked row."""
    return above / below.masked_fill(below == 0, 1.0)


def _check_next(state: RecurrentState, tokens: Tokens) -> None:
    """Raises InputError for rows that do not follow those of the state."""
    order, document = tokens.order, tokens.document
    if torch.compiler.is_compiling() or not order.shape[-1]:
        return
    ranks = order if state.order is None else torch.cat([state.order.expand(*order.shape[:-1], 1), order], -1)
    if bool((ranks.diff() <= 0).any()):
        raise InputError("The state reads rows in order, but these ranks do not grow. Sort the tokens by rank first.")
    if state.length and (state.document is None) != (document is None):
        raise InputError("Some parts of this sequence have documents and others have none. Give them always or never.")
    if document is not None:
        before = None if state.document is None else state.document.reshape(*state.document.shape[:-2], 1)
        texts = document if before is None else torch.cat([before.expand(*document.shape[:-1], 1), document], -1)
        if bool((texts.diff() < 0).any()):
            raise InputError(
                "The state covers one text at a time, but a document number decreases. Number the texts of a packed row upwards."
            )
