"""Block: attention and feed-forward, each added to the stream (residual), with a norm before ("pre") or after ("post")."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, cast

from torch import Tensor, nn

from equiscope.attention import AttentionContext, Cache, KeyValues, MultiHeadAttention, RecurrentState
from equiscope.blocks.feedforward import FeedForward
from equiscope.blocks.norm import Norm
from equiscope.positions import Position
from equiscope.tokens import Tokens

NormOrder = Literal["pre", "post"]


class Block(nn.Module):
    """One layer. Either part may be absent: no norm, no feed-forward, no residual.

    norms     of attention and feed-forward; then of `cross`
    parallel  both parts read the same stream, as in GPT-J and GPT-NeoX, instead of one after the other
    cross     attention to the rows of an encoder, between the two
    drop      what is left out of each part's change while the model is trained
    """

    def __init__(
        self, attention: MultiHeadAttention, feedforward: FeedForward | None = None, norms: Sequence[Norm] | None = None,
        order: NormOrder = "pre", residual: bool = True, parallel: bool = False, cross: MultiHeadAttention | None = None,
        drop: nn.Module | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.attention, self.feedforward, self.cross = attention, feedforward, cross
        self.attention_norm: Norm | None = norms[0] if norms else None
        self.feedforward_norm: Norm | None = norms[1] if norms and feedforward is not None else None
        self.cross_norm: Norm | None = norms[2] if norms and cross is not None else None
        self.order, self.residual, self.parallel, self.drop = order, residual, parallel, drop

    def forward(
        self, tokens: Tokens, position: Position | None = None, context: AttentionContext | None = None,
        cache: Cache | RecurrentState | None = None, source: Tokens | KeyValues | None = None, across: Position | None = None,
        cross_context: AttentionContext | None = None,
    ) -> Tensor:  # fmt: skip
        """Tokens to features [..., N, D]. plan: what this layer shares with the others; cache: what was read before.

        source  the encoder's rows, or what `cross.hold` made of them; across and cross_plan are for them
        """
        x = tokens.x
        seen = self._before(x, self.attention_norm)
        change = self.attention(
            replace(tokens, x=seen), position, context=context, cache=cast(Cache, cache)
        )  # a layer takes what it made
        if self.parallel and self.feedforward is not None:
            own = self.feedforward(self._before(x, self.feedforward_norm))
            change = change + own
            return self._after(x, change, self.attention_norm)
        x = self._after(x, change, self.attention_norm)
        if self.cross is not None and source is not None:
            seen = self._before(x, self.cross_norm)
            change = self.cross(replace(tokens, x=seen), across, source, cross_context)
            x = self._after(x, change, self.cross_norm)
        if self.feedforward is None:
            return x
        change = self.feedforward(self._before(x, self.feedforward_norm))
        return self._after(x, change, self.feedforward_norm)

    def _before(self, x: Tensor, norm: Norm | None) -> Tensor:
        return norm(x) if norm is not None and self.order == "pre" else x

    def _after(self, x: Tensor, change: Tensor, norm: Norm | None) -> Tensor:
        if self.drop is not None and self.training:
            change = self.drop(change)
        x = x + change if self.residual else change
        return norm(x) if norm is not None and self.order == "post" else x
