"""Transformer blocks: attention and a feed-forward network, each with a residual connection and a norm before or after it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, cast

from torch import Tensor, nn

from equiscope.attention import AttentionContext, Cache, KeyValues, MultiHeadAttention, RecurrentState
from equiscope.blocks.feedforward import FeedForwardNetwork
from equiscope.blocks.norm import NormLayer
from equiscope.positions import Position
from equiscope.tokens import Tokens

NormOrder = Literal["pre", "post"]


class TransformerBlock(nn.Module):
    """One layer of a transformer. Norms, the feed-forward network and the residual connection are optional.

    norms     one for attention, one for the feed-forward network, then one for `cross`
    order     "pre" normalises the input of each part, "post" the sum after it
    parallel  attention and feed-forward read the same input, as in GPT-J and GPT-NeoX, instead of one after the other
    cross     cross-attention to an encoder's output, between the two
    drop      dropout and stochastic depth, applied to the output of each part in training mode
    """

    def __init__(
        self, attention: MultiHeadAttention, feedforward: FeedForwardNetwork | None = None,
        norms: Sequence[NormLayer] | None = None, order: NormOrder = "pre", residual: bool = True, parallel: bool = False,
        cross: MultiHeadAttention | None = None, drop: nn.Module | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.attention, self.feedforward, self.cross = attention, feedforward, cross
        self.attention_norm: NormLayer | None = norms[0] if norms else None
        self.feedforward_norm: NormLayer | None = norms[1] if norms and feedforward is not None else None
        self.cross_norm: NormLayer | None = norms[2] if norms and cross is not None else None
        self.order, self.residual, self.parallel, self.drop = order, residual, parallel, drop

    def forward(
        self, tokens: Tokens, position: Position | None = None, context: AttentionContext | None = None,
        cache: Cache | RecurrentState | None = None, source: Tokens | KeyValues | None = None,
        cross_position: Position | None = None, cross_context: AttentionContext | None = None,
    ) -> Tensor:  # fmt: skip
        """Map tokens to features [..., N, D].

        context  masks and biases that this layer shares with the others; cache: keys and values of earlier tokens
        source   the encoder's output, or its keys and values from `cross.key_values`; cross_position and cross_context are its own
        """
        x = tokens.x
        normed = self._before(x, self.attention_norm)
        change = self.attention(
            replace(tokens, x=normed), position, context=context, cache=cast(Cache, cache)
        )  # each kind of attention takes its own kind of cache
        if self.parallel and self.feedforward is not None:
            own = self.feedforward(self._before(x, self.feedforward_norm))
            change = change + own
            return self._after(x, change, self.attention_norm)
        x = self._after(x, change, self.attention_norm)
        if self.cross is not None and source is not None:
            normed = self._before(x, self.cross_norm)
            change = self.cross(replace(tokens, x=normed), cross_position, source, cross_context)
            x = self._after(x, change, self.cross_norm)
        if self.feedforward is None:
            return x
        change = self.feedforward(self._before(x, self.feedforward_norm))
        return self._after(x, change, self.feedforward_norm)

    def _before(self, x: Tensor, norm: NormLayer | None) -> Tensor:
        return norm(x) if norm is not None and self.order == "pre" else x

    def _after(self, x: Tensor, change: Tensor, norm: NormLayer | None) -> Tensor:
        if self.drop is not None and self.training:
            change = self.drop(change)
        x = x + change if self.residual else change
        return norm(x) if norm is not None and self.order == "post" else x
