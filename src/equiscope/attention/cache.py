"""Cache: keys and values of what a causal layer has read, so that the next token costs one row instead of all.

Keys are kept as the scheme turned them, with their places, ranks, documents and padding beside them: then a new query meets
exactly what it would meet in the full pass. Nothing here depends on the length so far. A sliding window lets go of what no
later query can see.
"""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from equiscope.attention.mask import Mask
from equiscope.errors import InputError
from equiscope.tokens import Tokens


@dataclass
class Cache:
    """For one attention layer; `extend` takes the new rows and gives all rows that may still be seen.

    raises  InputError for a mask that lets a token see later ones: what was computed for earlier tokens would change
    """

    mask: Mask
    rows: dict[str, Tensor] = field(default_factory=dict, repr=False)
    length: int = 0  # rows read, also those let go

    def __post_init__(self) -> None:
        if not self.mask.blind:
            raise InputError(
                f"A cache needs a mask that never looks ahead, but this layer's is {self.mask.name!r}: each new token would "
                "change the earlier rows. Use Causal(), or run the whole sequence again."
            )

    def extend(self, k: Tensor, v: Tensor, tokens: Tokens) -> tuple[Tensor, Tensor, Tokens]:
        """New keys and values [..., H, N, K] with their tokens: those kept so far and the new ones, as if read at once.

        raises  InputError where only one of two parts has documents or padding, or batches differ
        """
        lead = k.shape[:-3] if k.ndim > 2 else ()
        new = {"k": k, "v": v, "at": tokens.at.expand(*lead, *tokens.at.shape[-2:])}
        flags = {"order": tokens.order, "document": tokens.document, "valid": tokens.valid}
        new |= {name: f.expand(*lead, f.shape[-1]) for name, f in flags.items() if f is not None}
        kept = {name: self._append(name, part) for name, part in new.items()} if self.rows else new
        if kept.keys() != (self.rows or kept).keys():
            raise InputError(
                "Some parts of this sequence have documents or padding and others have none. Give them always or never."
            )
        self.rows, self.length = kept, self.length + k.shape[-2]
        answer = dict(self.rows)
        self._let_go()
        places = {name: answer.get(name) for name in ("at", "order", "document", "valid")}
        at = places.pop("at")
        assert at is not None
        return answer["k"], answer["v"], Tokens(x=at.new_empty(*at.shape[:-1], 0), at=at, **places)  # type: ignore[arg-type]

    def _append(self, name: str, part: Tensor) -> Tensor:
        before = self.rows.get(name)
        if before is None:
            raise InputError(f"The first part of this sequence had no {name}, but this one has. Give it always or never.")
        axis = -2 if name in ("k", "v", "at") else -1
        if before.shape[:axis] != part.shape[:axis]:
            found = f"{tuple(part.shape)} after {tuple(before.shape)}"
            raise InputError(f"Every part of a cached sequence has one batch, but {name} came as {found}.")
        return torch.cat([before, part.to(before.dtype)], axis)

    def _let_go(self) -> None:
        """Drop the oldest rows that no later query can see: their rank lies beyond the mask's horizon in every sequence."""
        if self.mask.horizon is None:
            return
        order = self.rows["order"].reshape(-1, self.rows["order"].shape[-1])
        seen = order > order[:, -1:] + 1 - self.mask.horizon  # of the next rank at the earliest
        first = int(seen.any(0).long().argmax()) if bool(seen.any()) else 0
        if first:
            axis = {name: -2 if name in ("k", "v", "at") else -1 for name in self.rows}
            self.rows = {n: part.narrow(axis[n], first, part.shape[axis[n]] - first) for n, part in self.rows.items()}
