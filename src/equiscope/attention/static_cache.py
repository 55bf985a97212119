"""Static cache: room for so many rows, made once, so that every step of decoding has the same shapes.

The same law as `cache.Cache`: token by token gives what the full pass gives. Rows are written in place; those that nobody has
read yet are marked as padding, so that a compiled step runs again and again without a new shape. A window hides rows here,
but lets go of none.
"""

import torch
from torch import Tensor

from equiscope.attention.cache import Cache, axis_of
from equiscope.attention.mask import Mask
from equiscope.errors import InputError
from equiscope.tokens import Tokens


class StaticCache(Cache):
    """For one attention layer; `extend` takes the new rows and gives all rows that there is room for.

    size    rows that there is room for, of every sequence
    raises  InputError for a mask that lets a token see later ones, and past the last row (in a compiler's hands torch says it)

    Ranks must grow from part to part within a document, as for `Cache`; here nobody looks.
    """

    def __init__(self, mask: Mask, size: int) -> None:
        if size < 1:
            raise InputError(f"A static cache has room for at least 1 row, but got size={size}.")
        self.mask, self.spare, self.rows, self.latest, self.size = mask, 0, {}, None, size
        self.__post_init__()
        self.filled = torch.zeros((), dtype=torch.long)

    @property
    def length(self) -> int:  # type: ignore[override]
        """Rows read."""
        return int(self.filled)

    def extend(self, k: Tensor, v: Tensor, tokens: Tokens) -> tuple[Tensor, Tensor, Tokens]:
        """New keys and values [..., H, N, K] with their tokens: all rows, [..., H, size, K]."""
        lead, new_rows = k.shape[:-3] if k.ndim > 2 else (), k.shape[-2]
        valid = tokens.valid if tokens.valid is not None else torch.ones(new_rows, dtype=torch.bool, device=k.device)
        flags = {"order": tokens.order, "document": tokens.document, "valid": valid}
        new = {"k": k, "v": v, "positions": tokens.positions.expand(*lead, *tokens.positions.shape[-2:])}
        new |= {name: f.expand(*lead, new_rows) for name, f in flags.items() if f is not None}
        if not self.rows:
            self._open(new)
        if new.keys() != self.rows.keys():
            raise InputError("Some parts of this sequence have documents and others have none. Give them always or never.")
        if not torch.compiler.is_compiling() and self.length + new_rows > self.size:
            raise InputError(f"This cache has room for {self.size} rows, but {self.length} + {new_rows} came. Use a larger size.")
        where = self.filled + torch.arange(new_rows, device=k.device)
        for name, part in new.items():
            self.rows[name].index_copy_(axis_of(name), where, part.to(self.rows[name].dtype))
        self.filled.add_(new_rows)
        positions = self.rows["positions"]
        places = {name: self.rows.get(name) for name in ("order", "document", "valid")}
        blank = positions.new_empty(*positions.shape[:-1], 0)
        return self.rows["k"], self.rows["v"], Tokens(x=blank, positions=positions, **places)  # type: ignore[arg-type]

    def pick(self, rows: Tensor) -> None:
        """Of a batch, keep the sequences with these numbers, in this order; one may come several times."""
        self.rows = {name: part.index_select(0, rows) for name, part in self.rows.items()}

    def back(self, count: int) -> None:
        """Forget the `count` rows that were read last. Raises InputError where fewer were."""
        if count > self.length:
            raise InputError(f"{count} rows were to be taken back, but only {self.length} were read.")
        self.filled.sub_(count)
        if self.rows:
            self.rows["valid"][..., self.length :] = False

    def _open(self, new: dict[str, Tensor]) -> None:
        for name, part in new.items():
            axis, shape = axis_of(name), list(part.shape)
            shape[axis] = self.size
            self.rows[name] = part.new_zeros(shape)
        self.filled = self.filled.to(new["k"].device)
