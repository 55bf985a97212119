"""Readouts (pooling): from the tokens of the last layer to the output, and which actions they respect.

A mean is invariant to permutations; the first token, the last token and a concatenation are not. A class token is an extra token
that no permutation moves.
"""

from typing import ClassVar

import torch
from torch import Tensor, nn

from equiscope import functional
from equiscope.errors import InputError
from equiscope.symmetry import CLAIMED, Action, Permute, Reverse, Shift
from equiscope.tokens import Tokens


class Readout(nn.Module):
    """Base class. `prepend` may add tokens before the first layer; `forward` pools after the last."""

    name: ClassVar[str]
    title: ClassVar[str]
    because: str = ""

    def __init__(self, width: int) -> None:
        super().__init__()

    @property
    def preserves(self) -> frozenset[type[Action]]:
        return frozenset(CLAIMED)

    def prepend(self, tokens: Tokens) -> Tokens:
        return tokens

    def forward(self, y: Tensor, tokens: Tokens) -> Tensor:
        """y [..., N, D]; tokens: the input of the layers."""
        return y


class Each(Readout):
    """One output for each token: [..., N, D]."""

    name = "each"
    title = "every row"


class Mean(Readout):
    """Mean of the valid tokens: [..., D]."""

    name = "mean"
    title = "mean of the rows"

    def forward(self, y: Tensor, tokens: Tokens) -> Tensor:
        _one_text(self, tokens)
        return functional.mean(y, tokens.valid)


class _Row(Readout):
    """One of the valid tokens: not invariant to permutations, but to shifts."""

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
        return functional.mean(y, chosen)  # the mean of one token


class First(_Row):
    """The first valid token: [..., D]."""

    name = "first"
    title = "first row"
    because = "the first row belongs to whichever word comes first"
    index = 0


class Last(_Row):
    """The last valid token: [..., D]."""

    name = "last"
    title = "last row"
    because = "the last row belongs to whichever word comes last"
    index = -1


class Concatenation(Readout):
    """All tokens concatenated: [..., N * D]. Raises InputError for padding, as the positions in the output have a fixed meaning."""

    name = "concatenation"
    title = "all rows in a line"
    because = "a line of rows keeps their order"
    preserves = frozenset({Shift, Reverse})

    def forward(self, y: Tensor, tokens: Tokens) -> Tensor:
        _one_text(self, tokens)
        if tokens.valid is not None and not torch.compiler.is_compiling() and not bool(tokens.valid.all()):
            raise InputError("A concatenation cannot leave padding out. Use sequences of one length, or the read-out mean.")
        return y.flatten(-2)


class ClassToken(Readout):
    """A learned token in front, at the position after the last token, so that it shifts with them: [..., D].

    It gets no position embedding. rows: number of learned tokens; all but the first are registers, which are not read.
    """

    name = "class"
    title = "class token"
    because = "the class token stays behind the last place when the words turn round"
    legend: ClassVar[dict[str, tuple[str, str, str]]] = {"row": ("c", "token feature", "class token")}
    preserves = frozenset({Permute, Shift})

    def __init__(self, width: int, rows: int = 1) -> None:
        super().__init__(width)
        self.row = nn.Parameter(torch.randn(rows, width) / width**0.5)

    def prepend(self, tokens: Tokens) -> Tokens:
        _one_text(self, tokens)
        return prepended(self.row, tokens)

    def forward(self, y: Tensor, tokens: Tokens) -> Tensor:
        return y.select(-2, 0)


def prepended(x: Tensor, tokens: Tokens, before: bool = False) -> Tokens:
    """Tokens with further ones in front, at the position after the last, so that they shift with them.

    x       [..., R, D]; it may lack the batch axes of the tokens
    before  whether their rank is before that of the first, so that a causal mask shows them to every token; by default it is after
            the last, and they attend to every token
    """
    rows = x.shape[-2]
    x = functional.concat(x, tokens.x, axis=-2)
    places, ranks = tokens.positions.to(torch.promote_types(tokens.positions.dtype, torch.float32)), tokens.order
    limits = torch.iinfo(ranks.dtype)
    if tokens.valid is not None:  # padding has no position
        places = places.masked_fill(~tokens.valid.unsqueeze(-1), -torch.inf)
        ranks = ranks.masked_fill(~tokens.valid, limits.max if before else limits.min)
    rank = ranks.amin(-1, keepdim=True) - 1 if before else ranks.amax(-1, keepdim=True) + 1
    at = _ahead((places.amax(-2, keepdim=True) + 1).repeat_interleave(rows, -2), tokens.positions, -2)
    order = _ahead(rank.repeat_interleave(rows, -1), tokens.order, -1)
    valid = tokens.valid
    if valid is not None:
        valid = torch.cat([torch.ones_like(valid[..., :1]).repeat_interleave(rows, -1), valid], -1)
    return Tokens(x=x, positions=at, order=order, valid=valid)


def _ahead(first: Tensor, rest: Tensor, axis: int) -> Tensor:
    """Concatenated along `axis`; leading axes are those of `first`, which may have more of them with padding."""
    return torch.cat([first, rest.expand(*first.shape[:axis], *rest.shape[axis:])], axis)


def _one_text(readout: Readout, tokens: Tokens) -> None:
    if tokens.document is not None:
        raise InputError(
            f"The read-out {readout.name!r} gives one output a sequence, but several documents are packed in it. Unpack them."
        )


READOUTS: dict[str, type[Readout]] = {r.name: r for r in (Each, Mean, First, Last, Concatenation, ClassToken)}
