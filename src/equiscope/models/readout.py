"""Read-outs: what is taken from the rows of the last layer, and which actions survive that.

A mean does not care which row is which; the first row, the last row and all rows in a line do. A class token is a row of its
own, held out of any shuffle, that gathers what it wants.
"""

from typing import ClassVar

import torch
from torch import Tensor, nn

from equiscope import functional
from equiscope.errors import InputError
from equiscope.symmetry import CLAIMED, Action, Permute, Reverse, Shift
from equiscope.tokens import Tokens


class Readout(nn.Module):
    """Base: takes every row as it is. `open` may add rows before the first layer, `forward` reads after the last."""

    name: ClassVar[str]
    title: ClassVar[str]
    because: str = ""

    def __init__(self, width: int) -> None:
        super().__init__()

    @property
    def preserves(self) -> frozenset[type[Action]]:
        return frozenset(CLAIMED)

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
        _one_text(self, tokens)
        return functional.mean(y, tokens.valid)


class _Row(Readout):
    """One row, counted among the valid ones: notices which word stands there, but not where that place is."""

    index: ClassVar[int]

    @property
    def preserves(self) -> frozenset[type[Action]]:
        return frozenset({Shift, Reverse})

    def forward(self, y: Tensor, tokens: Tokens) -> Tensor:
        _one_text(self, tokens)
        if tokens.valid is None:
            return y.select(-2, self.index)
        rows = torch.arange(tokens.valid.shape[-1], device=y.device)
        real = (
            rows.masked_fill(~tokens.valid, len(rows)).amin(-1) if self.index == 0 else rows.masked_fill(~tokens.valid, -1).amax(-1)
        )
        chosen = rows == real.unsqueeze(-1)
        return functional.mean(y, chosen)  # the mean of one row


class First(_Row):
    """The first valid row: [..., D]."""

    name = "first"
    title = "first row"
    because = "the first row belongs to whichever word comes first"
    index = 0


class Last(_Row):
    """The last valid row: [..., D]."""

    name = "last"
    title = "last row"
    because = "the last row belongs to whichever word comes last"
    index = -1


class Concatenation(Readout):
    """All rows in one line: [..., N * D]. Raises InputError for padding, which has no place in a line of fixed meaning."""

    name = "concatenation"
    title = "all rows in a line"
    because = "a line of rows keeps their order"

    @property
    def preserves(self) -> frozenset[type[Action]]:
        return frozenset({Shift, Reverse})

    def forward(self, y: Tensor, tokens: Tokens) -> Tensor:
        _one_text(self, tokens)
        if tokens.valid is not None and not torch.compiler.is_compiling() and not bool(tokens.valid.all()):
            raise InputError("A line of all rows cannot leave padding out. Use texts of one length, or the read-out mean.")
        return y.flatten(-2)


class ClassToken(Readout):
    """A learned row in front, one place after the last word (so that it moves with the text and sees all): [..., D].

    Nothing is added to it for its place. rows: with more, the others stand beside it, and nobody reads them out.
    """

    name = "class"
    title = "class token"
    because = "the class token stays behind the last place when the words turn round"
    legend: ClassVar[dict[str, tuple[str, str, str]]] = {"row": ("c", "token feature", "class token")}

    def __init__(self, width: int, rows: int = 1) -> None:
        super().__init__(width)
        self.row = nn.Parameter(torch.randn(rows, width) / width**0.5)

    @property
    def preserves(self) -> frozenset[type[Action]]:
        return frozenset({Permute, Shift})

    def open(self, tokens: Tokens) -> Tokens:
        _one_text(self, tokens)
        x = functional.concat(self.row, tokens.x, axis=-2)
        places, ranks = tokens.positions.to(torch.promote_types(tokens.positions.dtype, torch.float32)), tokens.order
        if tokens.valid is not None:  # padding stands nowhere
            places = places.masked_fill(~tokens.valid.unsqueeze(-1), -torch.inf)
            ranks = ranks.masked_fill(~tokens.valid, torch.iinfo(ranks.dtype).min)
        rows = len(self.row)
        at = _ahead((places.amax(-2, keepdim=True) + 1).repeat_interleave(rows, -2), tokens.positions, -2)
        order = _ahead((ranks.amax(-1, keepdim=True) + 1).repeat_interleave(rows, -1), tokens.order, -1)
        valid = tokens.valid
        if valid is not None:
            valid = torch.cat([torch.ones_like(valid[..., :1]).repeat_interleave(rows, -1), valid], -1)
        return Tokens(x=x, positions=at, order=order, valid=valid)

    def forward(self, y: Tensor, tokens: Tokens) -> Tensor:
        return y.select(-2, 0)


def _ahead(first: Tensor, rest: Tensor, axis: int) -> Tensor:
    """Joined along `axis`; leading axes are those of `first`, which padding may have given more of them."""
    return torch.cat([first, rest.expand(*first.shape[:axis], *rest.shape[axis:])], axis)


def _one_text(readout: Readout, tokens: Tokens) -> None:
    if tokens.document is not None:
        raise InputError(
            f"The read-out {readout.name!r} gives one answer a row, but several documents are packed in one. Unpack them first."
        )


READOUTS: dict[str, type[Readout]] = {r.name: r for r in (Each, Mean, First, Last, Concatenation, ClassToken)}
