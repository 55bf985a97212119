"""A block in space: norm, attention, residual; norm, feed-forward, residual."""

from torch import Tensor, nn

from equiscope.geometry.attend import Neighbours
from equiscope.geometry.attention import SpaceAttention
from equiscope.geometry.features import Features, Group, Widths
from equiscope.geometry.maps import Gated, Norm


class SpaceBlock(nn.Module):
    """Features at points to features of the same widths; options as of `SpaceAttention` and `Gated`."""

    def __init__(
        self, widths: Widths, heads: int, inner: int, group: Group = "E(3)", carried: int = 1, radial: int = 0,
        cutoff: float | None = None, filtered: bool = False, products: int = 0,
    ) -> None:  # fmt: skip
        super().__init__()
        self.attention_norm, self.feedforward_norm = Norm(widths, group), Norm(widths, group)
        self.attention = SpaceAttention(widths, heads, group, carried, radial, cutoff, filtered)
        self.feedforward = Gated(widths, inner, group, products)

    def forward(
        self, x: Features, at: Tensor, neighbours: Neighbours | None = None, valid: Tensor | None = None
    ) -> Features:  # fmt: skip
        x = x.plus(self.attention(self.attention_norm(x), at, neighbours, valid))
        return x.plus(self.feedforward(self.feedforward_norm(x)))
