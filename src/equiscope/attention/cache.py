"""Key-value cache of a causal layer: the next token costs one row instead of the whole sequence.

Keys are stored after rotation, with their positions, ranks, documents and padding, so that a new query attends to exactly the
same keys as in the full pass. Nothing depends on the length so far. A sliding window drops keys that no later query can attend
to.
"""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from equiscope.attention.mask import Mask
from equiscope.errors import InputError
from equiscope.tokens import Tokens


@dataclass
class Cache:
    """The cache of one attention layer. `extend` appends new rows and returns all rows that queries may attend to.

    spare   rows that a window keeps beyond those needed, so that `back` can remove as many
    raises  InputError for a mask that lets a token attend to later ones: the output of earlier tokens would change

    Within a document, ranks must grow from call to call. Otherwise earlier tokens would attend to the new one in the full pass.
    """

    mask: Mask
    spare: int = 0
    rows: dict[str, Tensor] = field(default_factory=dict, repr=False)
    length: int = 0  # rows read, dropped ones included
    latest: Tensor | None = field(default=None, repr=False)  # the highest rank of each sequence; on a CPU only

    def __post_init__(self) -> None:
        if not self.mask.is_causal:
            raise InputError(
                f"A cache needs a causal mask, but this layer's is {self.mask.name!r}: each new token would "
                "change the earlier rows. Use Causal(), or run the whole sequence again."
            )

    def extend(self, k: Tensor, v: Tensor, tokens: Tokens) -> tuple[Tensor, Tensor, Tokens]:
        """Append keys and values [..., H, N, K] with their tokens; return all stored ones, as if read at once.

        raises  InputError where only one of two parts has documents or padding, batches differ, or (on a CPU) a new token does
                not rank after those that were read
        """
        lead = k.shape[:-3] if k.ndim > 2 else ()
        new = {"k": k, "v": v, "positions": tokens.positions.expand(*lead, *tokens.positions.shape[-2:])}
        flags = {"order": tokens.order, "document": tokens.document, "valid": tokens.valid}
        new |= {name: f.expand(*lead, f.shape[-1]) for name, f in flags.items() if f is not None}
        self._check_order(new)
        rows = {name: self._append(name, part) for name, part in new.items()} if self.rows else new
        if rows.keys() != (self.rows or rows).keys():
            raise InputError(
                "Some parts of this sequence have documents or padding and others have none. Give them always or never."
            )
        self.rows, self.length = rows, self.length + k.shape[-2]
        stored = dict(self.rows)
        self._drop_unreachable()
        fields = {name: stored.get(name) for name in ("positions", "order", "document", "valid")}
        positions = fields.pop("positions")
        assert positions is not None
        return stored["k"], stored["v"], Tokens(x=positions.new_empty(*positions.shape[:-1], 0), positions=positions, **fields)  # type: ignore[arg-type]

    def pick(self, rows: Tensor) -> None:
        """Select sequences of the batch by index, in this order; one may be repeated."""
        if self.rows:
            self.rows = {name: part.index_select(0, rows) for name, part in self.rows.items()}
            self.latest = None if self.latest is None else self.latest.index_select(0, rows)

    def back(self, count: int) -> None:
        """Remove the last `count` rows. Raises InputError where fewer are stored."""
        stored_rows = self.rows["order"].shape[-1] if self.rows else 0
        if count > stored_rows or (stored_rows < self.length and count > self.spare):
            raise InputError(f"{count} rows were to be removed, but a window drops rows. Use a cache with spare={count}.")
        self.length -= count
        rest = stored_rows - count
        self.rows = {name: part.narrow(axis_of(name), 0, rest) for name, part in self.rows.items()} if rest else {}
        self.latest = _latest(self.rows) if self.rows and self.latest is not None else None

    def _append(self, name: str, part: Tensor) -> Tensor:
        before = self.rows.get(name)
        if before is None:
            raise InputError(f"The first part of this sequence had no {name}, but this one has. Give it always or never.")
        axis = axis_of(name)
        if before.shape[:axis] != part.shape[:axis]:
            shapes = f"{tuple(part.shape)} after {tuple(before.shape)}"
            raise InputError(f"Every part of a cached sequence has one batch, but {name} came as {shapes}.")
        return torch.cat([before, part.to(before.dtype)], axis)

    def _check_order(self, new: dict[str, Tensor]) -> None:
        """Raise if a new row does not rank after the stored ones of its document."""
        order = new["order"]
        if torch.compiler.is_compiling() or order.device.type != "cpu" or not self.rows or not order.shape[-1]:
            return
        if self.latest is not None and bool((_latest(new, first=True) > self.latest).all()):
            return  # also across documents: no need to compare pairs
        before = {name: self.rows.get(name) for name in ("order", "document", "valid")}
        if before["order"] is None or before["order"].shape[:-1] != order.shape[:-1]:
            return  # `_append` raises
        misordered = before["order"][..., None, :] >= order[..., :, None]
        if before["document"] is not None and "document" in new:
            misordered = misordered & (before["document"][..., None, :] == new["document"][..., :, None])
        for flag, axis in ((before["valid"], -2), (new.get("valid"), -1)):
            misordered = misordered if flag is None else misordered & flag.unsqueeze(axis)
        if bool(misordered.any()):
            raise InputError(
                "Some new tokens do not rank after those in the cache, which would attend to them in the full pass. Give ranks "
                "(order) that grow within each document."
            )

    def _drop_unreachable(self) -> None:
        """Drop the oldest rows that no later query can attend to: their rank is outside the mask's window in every sequence."""
        rows = self.rows["order"].shape[-1]
        if not rows:
            return
        if self.rows["order"].device.type == "cpu" and not torch.compiler.is_compiling():
            newest = _latest(self.rows)
            self.latest = newest if self.latest is None else torch.maximum(self.latest, newest)
        if self.mask.window is None:
            return
        order, valid = self.rows["order"].reshape(-1, rows), self.rows.get("valid")
        reachable = order > _next_rank(self.rows).reshape(-1, rows) - self.mask.window - self.spare
        if valid is not None:
            reachable = reachable & valid.reshape(-1, rows)
        first = int(reachable.any(0).long().argmax()) if bool(reachable.any()) else rows
        if first:
            self.rows = {n: part.narrow(axis_of(n), first, part.shape[axis_of(n)] - first) for n, part in self.rows.items()}


def axis_of(name: str) -> int:
    """The axis of rows."""
    return -2 if name in ("k", "v", "positions") else -1


def _latest(rows: dict[str, Tensor], first: bool = False) -> Tensor:
    """The highest rank (or the lowest) among the real rows of each sequence."""
    order, valid = rows["order"], rows.get("valid")
    ends = torch.iinfo(order.dtype)
    if valid is not None:
        order = order.masked_fill(~valid, ends.max if first else ends.min)
    return order.amin(-1) if first else order.amax(-1)


def _next_rank(rows: dict[str, Tensor]) -> Tensor:
    """For every row, the lowest rank that a later token of its document can have. Ranks of padding are ignored."""
    order, document, valid = rows["order"], rows.get("document"), rows.get("valid")
    lowest = torch.iinfo(order.dtype).min
    real = order if valid is None else order.masked_fill(~valid, lowest)
    if document is None:
        return real.amax(-1, keepdim=True).expand_as(order) + 1
    flat = document.reshape(-1, document.shape[-1])
    sequence = torch.arange(len(flat), device=flat.device)[:, None].expand_as(flat)
    texts, number = torch.stack([sequence, flat], -1).flatten(0, 1).unique(dim=0, return_inverse=True)
    highest = real.new_full((len(texts),), lowest).scatter_reduce(0, number, real.flatten(), "amax")
    return highest[number].reshape(order.shape) + 1
