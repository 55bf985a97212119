"""Static cache: a buffer of fixed size, so that every decoding step has the same shapes.

As with `cache.Cache`, token by token gives the output of the full pass. Rows are written in place; free rows are marked as
padding, so that a compiled step never sees a new shape. A window masks rows here, but drops none.
"""

import torch
from torch import Tensor

from equiscope.attention.cache import Cache, axis_of
from equiscope.attention.mask import Mask
from equiscope.errors import InputError
from equiscope.tokens import Tokens


class StaticCache(Cache):
    """The cache of one attention layer. `extend` appends new rows and returns the whole buffer.

    size    capacity in rows, of every sequence
    raises  InputError for a mask that lets a token attend to later ones, and past the last row (under a compiler torch raises)

    Within a document, ranks must grow from call to call, as for `Cache`; this is not checked here.
    """

    def __init__(self, mask: Mask, size: int) -> None:
        if size < 1:
            raise InputError(f"A static cache has a size of at least 1, but got size={size}.")
        self.mask, self.spare, self.rows, self.latest, self.size = mask, 0, {}, None, size
        self.__post_init__()
        self.filled = torch.zeros((), dtype=torch.long)

    @property
    def length(self) -> int:  # type: ignore[override]
        """Rows read."""
        return int(self.filled)

    def extend(self, k: Tensor, v: Tensor, tokens: Tokens) -> tuple[Tensor, Tensor, Tokens]:
        """Append keys and values [..., H, N, K] with their tokens; return the whole buffer [..., H, size, K]."""
        lead, new_rows = k.shape[:-3] if k.ndim > 2 else (), k.shape[-2]
        valid = tokens.valid if tokens.valid is not None else torch.ones(new_rows, dtype=torch.bool, device=k.device)
        flags = {"order": tokens.order, "document": tokens.document, "valid": valid}
        new = {"k": k, "v": v, "positions": tokens.positions.expand(*lead, *tokens.positions.shape[-2:])}
        new |= {name: f.expand(*lead, new_rows) for name, f in flags.items() if f is not None}
        if not self.rows:
            self._allocate(new)
        if new.keys() != self.rows.keys():
            raise InputError("Some parts of this sequence have documents and others have none. Give them always or never.")
        if not torch.compiler.is_compiling() and self.length + new_rows > self.size:
            raise InputError(f"This cache holds {self.size} rows, but got {self.length} + {new_rows}. Use a larger size.")
        index = self.filled + torch.arange(new_rows, device=k.device)
        for name, part in new.items():
            self.rows[name].index_copy_(axis_of(name), index, part.to(self.rows[name].dtype))
        self.filled.add_(new_rows)
        positions = self.rows["positions"]
        fields = {name: self.rows.get(name) for name in ("order", "document", "valid")}
        blank = positions.new_empty(*positions.shape[:-1], 0)
        return self.rows["k"], self.rows["v"], Tokens(x=blank, positions=positions, **fields)  # type: ignore[arg-type]

    def pick(self, rows: Tensor) -> None:
        """Select sequences of the batch by index, in this order; one may be repeated."""
        self.rows = {name: part.index_select(0, rows) for name, part in self.rows.items()}

    def back(self, count: int) -> None:
        """Remove the last `count` rows. Raises InputError where fewer are stored."""
        if count > self.length:
            raise InputError(f"{count} rows were to be removed, but only {self.length} are stored.")
        self.filled.sub_(count)
        if self.rows:
            self.rows["valid"][..., self.length :] = False

    def _allocate(self, new: dict[str, Tensor]) -> None:
        for name, part in new.items():
            axis, shape = axis_of(name), list(part.shape)
            shape[axis] = self.size
            self.rows[name] = part.new_zeros(shape)
        self.filled = self.filled.to(new["k"].device)
