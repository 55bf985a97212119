"""Read-outs: what is taken from the rows of the last layer, and which actions survive that.

A mean does not care which row is which; the first row, the last row and all rows in a line do. A class token is a row of its
own, held out of any shuffle, that gathers what it wants.
"""

from typing import ClassVar

import torch
from torch import Tensor, nn

from equiscope.symmetry import ACTIONS, Action, Permute, Reverse, Shift
from equiscope.tokens import Tokens
from equiscope.trace import constant, ops


class Readout(nn.Module):
    """Base: takes every row as it is. `open` may add rows before the first layer, `forward` reads after the last."""

    name: ClassVar[str]
    title: ClassVar[str]
    because: str = ""

    def __init__(self, width: int) -> None:
        super().__init__()

    @property
    def preserves(self) -> frozenset[type[Action]]:
        return frozenset(ACTIONS)

    def open(self, tokens: Tokens) -> Tokens:
        return tokens

    def forward(self, y: Tensor, tokens: Tokens) -> Tensor:
        """y [..., N, D] with the tokens that entered the layers."""
        return y


class Each(Readout):
    """One row for each token: [..., N, D]."""

    name = "each"
    title = "every row"


class Mean(Readout):
    """Mean of the valid rows: [..., D]."""

    name = "mean"
    title = "mean of the rows"

    def forward(self, y: Tensor, tokens: Tokens) -> Tensor:
        return ops.mean(y, tokens.valid, name="mean", label=self.title)


class _Row(Readout):
    """One row, by number: notices which word stands there, but not where that place is."""

    index: ClassVar[int]

    @property
    def preserves(self) -> frozenset[type[Action]]:
        return frozenset({Shift, Reverse})

    def forward(self, y: Tensor, tokens: Tokens) -> Tensor:
        return ops.pick(y, self.index, name=self.name, label=self.title)


class First(_Row):
    """Row 0: [..., D]."""

    name = "first"
    title = "first row"
    because = "the first row belongs to whichever word comes first"
    index = 0


class Last(_Row):
    """The last row: [..., D]. Batches are to be padded on the left."""

    name = "last"
    title = "last row"
    because = "the last row belongs to whichever word comes last"
    index = -1


class Concatenation(Readout):
    """All rows in one line: [..., N * D]."""

    name = "concatenation"
    title = "all rows in a line"
    because = "a line of rows keeps their order"

    @property
    def preserves(self) -> frozenset[type[Action]]:
        return frozenset({Shift, Reverse})

    def forward(self, y: Tensor, tokens: Tokens) -> Tensor:
        return ops.flatten(y, name="line", label=self.title)


class ClassToken(Readout):
    """A learned row in front, one place after the last word (so that it moves with the text and sees all): [..., D]."""

    name = "class"
    title = "class token"
    because = "the class token stays behind the last place when the words turn round"
    legend: ClassVar[dict[str, tuple[str, str, str]]] = {"row": ("c", "token feature", "class token")}

    def __init__(self, width: int) -> None:
        super().__init__(width)
        self.row = nn.Parameter(torch.randn(1, width) / width**0.5)

    @property
    def preserves(self) -> frozenset[type[Action]]:
        return frozenset({Permute, Shift})

    def open(self, tokens: Tokens) -> Tokens:
        x = ops.concat(self.row, tokens.x, axis=-2, name="X_c", label="a class token in front")
        at = torch.cat([tokens.at.amax(-2, keepdim=True) + 1, tokens.at], -2)
        order = torch.cat([tokens.order.amax(-1, keepdim=True) + 1, tokens.order], -1)
        at = constant(at, "at", "where the rows are", "token axis", kind="coordinate", symbol="t")
        order = constant(order, "order", "which row comes first", "token", kind="order", symbol="o")
        return Tokens(x=x, at=at, order=order, document=_front(tokens.document), valid=_front(tokens.valid))

    def forward(self, y: Tensor, tokens: Tokens) -> Tensor:
        return ops.pick(y, 0, name="class", label=self.title)


def _front(entries: Tensor | None) -> Tensor | None:
    if entries is None:
        return None
    first = torch.ones_like(entries[..., :1]) if entries.dtype == torch.bool else entries[..., :1]
    return torch.cat([first, entries], -1)


READOUTS: dict[str, type[Readout]] = {r.name: r for r in (Each, Mean, First, Last, Concatenation, ClassToken)}
