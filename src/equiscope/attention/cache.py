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

    Within a document ranks must grow from part to part: a token that comes later and ranks no higher would be seen by earlier
    ones in the full pass.

    spare  rows that a window keeps beyond those that can be seen, so that as many can be taken back
    """

    mask: Mask
    spare: int = 0
    rows: dict[str, Tensor] = field(default_factory=dict, repr=False)
    length: int = 0  # rows read, also those let go
    latest: Tensor | None = field(default=None, repr=False)  # the highest rank read, of each sequence; on a CPU only

    def __post_init__(self) -> None:
        if not self.mask.is_causal:
            raise InputError(
                f"A cache needs a mask that never looks ahead, but this layer's is {self.mask.name!r}: each new token would "
                "change the earlier rows. Use Causal(), or run the whole sequence again."
            )

    def extend(self, k: Tensor, v: Tensor, tokens: Tokens) -> tuple[Tensor, Tensor, Tokens]:
        """New keys and values [..., H, N, K] with their tokens: those kept so far and the new ones, as if read at once.

        raises  InputError where only one of two parts has documents or padding, batches differ, or (on a CPU) a new token does
                not rank after those that were read
        """
        lead = k.shape[:-3] if k.ndim > 2 else ()
        new = {"k": k, "v": v, "positions": tokens.positions.expand(*lead, *tokens.positions.shape[-2:])}
        flags = {"order": tokens.order, "document": tokens.document, "valid": tokens.valid}
        new |= {name: f.expand(*lead, f.shape[-1]) for name, f in flags.items() if f is not None}
        self._comes_after(new)
        kept = {name: self._append(name, part) for name, part in new.items()} if self.rows else new
        if kept.keys() != (self.rows or kept).keys():
            raise InputError(
                "Some parts of this sequence have documents or padding and others have none. Give them always or never."
            )
        self.rows, self.length = kept, self.length + k.shape[-2]
        answer = dict(self.rows)
        self._let_go()
        places = {name: answer.get(name) for name in ("positions", "order", "document", "valid")}
        positions = places.pop("positions")
        assert positions is not None
        return answer["k"], answer["v"], Tokens(x=positions.new_empty(*positions.shape[:-1], 0), positions=positions, **places)  # type: ignore[arg-type]

    def pick(self, rows: Tensor) -> None:
        """Of a batch, keep the sequences with these numbers, in this order; one may come several times."""
        if self.rows:
            self.rows = {name: part.index_select(0, rows) for name, part in self.rows.items()}
            self.latest = None if self.latest is None else self.latest.index_select(0, rows)

    def back(self, count: int) -> None:
        """Forget the `count` rows that were read last. Raises InputError where so many were not kept."""
        kept = self.rows["order"].shape[-1] if self.rows else 0
        if count > kept or (kept < self.length and count > self.spare):
            raise InputError(f"{count} rows were to be taken back, but a window lets go of rows. Use a cache with spare={count}.")
        self.length -= count
        self.rows = {name: part.narrow(axis_of(name), 0, kept - count) for name, part in self.rows.items()} if count < kept else {}
        self.latest = _latest(self.rows) if self.rows and self.latest is not None else None

    def _append(self, name: str, part: Tensor) -> Tensor:
        before = self.rows.get(name)
        if before is None:
            raise InputError(f"The first part of this sequence had no {name}, but this one has. Give it always or never.")
        axis = axis_of(name)
        if before.shape[:axis] != part.shape[:axis]:
            found = f"{tuple(part.shape)} after {tuple(before.shape)}"
            raise InputError(f"Every part of a cached sequence has one batch, but {name} came as {found}.")
        return torch.cat([before, part.to(before.dtype)], axis)

    def _comes_after(self, new: dict[str, Tensor]) -> None:
        """Raise where a new row does not rank after the kept ones of its document."""
        order = new["order"]
        if torch.compiler.is_compiling() or order.device.type != "cpu" or not self.rows or not order.shape[-1]:
            return
        if self.latest is not None and bool((_latest(new, first=True) > self.latest).all()):
            return  # also across documents: nothing to look up
        before = {name: self.rows.get(name) for name in ("order", "document", "valid")}
        if before["order"] is None or before["order"].shape[:-1] != order.shape[:-1]:
            return  # `_append` has the words for it
        late = before["order"][..., None, :] >= order[..., :, None]
        if before["document"] is not None and "document" in new:
            late = late & (before["document"][..., None, :] == new["document"][..., :, None])
        for flag, axis in ((before["valid"], -2), (new.get("valid"), -1)):
            late = late if flag is None else late & flag.unsqueeze(axis)
        if bool(late.any()):
            raise InputError(
                "Some new tokens do not rank after those in the cache, which would have seen them in the full pass. Give ranks "
                "(order) that grow within each document."
            )

    def _let_go(self) -> None:
        """Drop the oldest rows that no later query can see: their rank lies beyond the mask's horizon in every sequence."""
        rows = self.rows["order"].shape[-1]
        if not rows:
            return
        if self.rows["order"].device.type == "cpu" and not torch.compiler.is_compiling():
            newest = _latest(self.rows)
            self.latest = newest if self.latest is None else torch.maximum(self.latest, newest)
        if self.mask.window is None:
            return
        order, valid = self.rows["order"].reshape(-1, rows), self.rows.get("valid")
        seen = order > _next_rank(self.rows).reshape(-1, rows) - self.mask.window - self.spare
        if valid is not None:
            seen = seen & valid.reshape(-1, rows)
        first = int(seen.any(0).long().argmax()) if bool(seen.any()) else rows
        if first:
            self.rows = {n: part.narrow(axis_of(n), first, part.shape[axis_of(n)] - first) for n, part in self.rows.items()}


def axis_of(name: str) -> int:
    """Which axis counts rows."""
    return -2 if name in ("k", "v", "positions") else -1


def _latest(rows: dict[str, Tensor], first: bool = False) -> Tensor:
    """The highest rank (or the lowest) among the real rows of each sequence."""
    order, valid = rows["order"], rows.get("valid")
    ends = torch.iinfo(order.dtype)
    if valid is not None:
        order = order.masked_fill(~valid, ends.max if first else ends.min)
    return order.amin(-1) if first else order.amax(-1)


def _next_rank(rows: dict[str, Tensor]) -> Tensor:
    """For every row, the lowest rank that a later token of its document can have: padding has none, its rank says nothing."""
    order, document, valid = rows["order"], rows.get("document"), rows.get("valid")
    least = torch.iinfo(order.dtype).min
    real = order if valid is None else order.masked_fill(~valid, least)
    if document is None:
        return real.amax(-1, keepdim=True).expand_as(order) + 1
    flat = document.reshape(-1, document.shape[-1])
    sequence = torch.arange(len(flat), device=flat.device)[:, None].expand_as(flat)
    texts, number = torch.stack([sequence, flat], -1).flatten(0, 1).unique(dim=0, return_inverse=True)
    highest = real.new_full((len(texts),), least).scatter_reduce(0, number, real.flatten(), "amax")
    return highest[number].reshape(order.shape) + 1
