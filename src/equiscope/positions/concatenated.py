"""Concatenated: the encoding of the position is concatenated to the token instead of being added to it.

Followed by one linear layer, [x; p] W = x W1 + p W2: the same as adding a projected position. The token gets wider.
"""

from torch import Tensor

from equiscope.errors import InputError, ShapeError
from equiscope.functional import concat, sinusoid
from equiscope.positions.base import Added, Position
from equiscope.positions.frequencies import angles, geometric_frequencies

BASE = 10000.0


class Concatenated(Position):
    """Appends `width` features of the position to the token's features (as many as the token has by default).

    of      the additive scheme whose encoding to use; sinusoids by default
    base    of those sinusoids
    raises  ShapeError for an odd width with sinusoids, InputError for a base beside a scheme
    """

    name = "concatenated"
    title = "concatenated"
    summary = "Sinusoids of the position are concatenated to the token's features instead of being added."
    source = "as Vaswani 2017, concatenated"
    formula = "[xᵢ ; pᵢ]"
    longer = "as the encoding that it uses"
    cost = "wider tokens: the projections of the first layer grow by N·W·D products"
    because = "Concatenated appends the absolute position to the token"

    def __init__(self, of: Added | None = None, width: int | None = None, base: float = BASE) -> None:
        super().__init__()
        if of is not None and not isinstance(of, Added):
            raise InputError(
                f"Concatenated uses the encoding of an additive scheme, but {of.name} has none. Use a scheme that adds one."
            )
        if of is not None and base != BASE:
            raise InputError(
                f"base={base:g} is for the sinusoids, but {of.name} was given. Use {type(of).__name__}(...) with its own."
            )
        self.of, self.width, self.base = of, width, base

    def allocate(self, width: int, heads: int, head_width: int) -> None:
        self.width = self.width or width
        if self.of is not None:
            self.of = self.of.sized(self.width, heads, head_width)
        elif self.width % 2:
            raise ShapeError(f"Concatenated sinusoids need an even width, but got {self.width}. Use {self.width + 1}.")

    def widened(self, width: int) -> int:
        return width + (self.width or width)

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        return self.put(x, self.encode(positions, x.shape[-1]))

    def encode(self, positions: Tensor, width: int) -> Tensor:
        """positions [..., N, A] to [..., N, W], for tokens of this width."""
        width = self.width or width
        return (
            self.of.encode(positions, width)
            if self.of
            else sinusoid(angles(positions, geometric_frequencies(width // 2, self.base)), "interleaved")
        )

    def put(self, x: Tensor, encoding: Tensor) -> Tensor:
        """Append an encoding to tokens."""
        return concat(x, encoding.to(x.dtype))
