"""Masks: who may look at whom, as functions of rank and validity. A boolean means one thing here: True = may look.

torch's `nn.MultiheadAttention` means the opposite, and its answer for a row that sees nothing is NaN; ours is 0.
A mask reads `order`, never a coordinate: a repeated time or a 2-D place says nothing about before and after.
"""

from typing import ClassVar

from torch import Tensor, nn

from equiscope.errors import InputError
from equiscope.symmetry import ACTIONS, Action, Shift
from equiscope.tokens import Tokens
from equiscope.trace import ops


class Mask(nn.Module):
    """Base: says which pairs (query, key) may look, from their ranks."""

    name: ClassVar[str]
    because: str = ""

    @property
    def preserves(self) -> frozenset[type[Action]]:
        return frozenset(ACTIONS)

    def visible(self, order_q: Tensor, order_k: Tensor) -> Tensor | None:
        """order_q [..., N, 1], order_k [..., 1, M] to bool [..., N, M], or None where everybody may look."""
        return None


class Everything(Mask):
    """Every token may look at every token."""

    name = "everything"


class Causal(Mask):
    """A token may look at itself and at what came before."""

    name = "causal"
    because = "the causal mask lets a word look only at itself and at earlier words"

    @property
    def preserves(self) -> frozenset[type[Action]]:
        return frozenset({Shift})

    def visible(self, order_q: Tensor, order_k: Tensor) -> Tensor:
        return ops.not_after(order_k, order_q, name="M", label="who may look: not at what comes later")


def visible(mask: Mask, queries: Tokens, keys: Tokens) -> Tensor | None:
    """The mask, the padding and the documents of two sequences joined: bool [..., N, M], or None where nothing is hidden."""
    if (queries.document is None) != (keys.document is None):
        raise InputError("One sequence says which document its tokens belong to, the other does not. Give both or neither.")
    parts: list[Tensor] = []
    by_rank = None if isinstance(mask, Everything) else mask.visible(ops.column(queries.order), ops.row(keys.order))
    if by_rank is not None:
        parts.append(by_rank)
    if keys.valid is not None:
        parts.append(ops.row(keys.valid, name="M", label="who may be looked at: real words"))
    if queries.document is not None and keys.document is not None:
        mine, theirs = ops.column(queries.document), ops.row(keys.document)
        parts.append(ops.both(ops.not_after(mine, theirs), ops.not_after(theirs, mine), name="M", label="same text"))
    joined = parts[0] if parts else None
    for part in parts[1:]:
        joined = ops.both(joined, part, name="M", label="who may look") if joined is not None else part
    return joined
