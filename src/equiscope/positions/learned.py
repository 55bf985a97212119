"""Learned: a table with one row of numbers for every place, added to the word. It ends where the table ends.

With `stretch`, places are spread over the rows and a place between two rows mixes them: the first and last place keep the
first and last row. `lengthened` writes such mixes down as a longer table, to train on.
Source: Gehring et al. 2017; BERT, GPT-2; interpolation as in ViT (Dosovitskiy et al. 2021, section 3.2).
"""

from typing import ClassVar

import torch
from torch import Tensor, nn

from equiscope.errors import InputError
from equiscope.functional import semantic
from equiscope.positions.base import Added
from equiscope.positions.frequencies import one_axis


class Learned(Added):
    """Adds row `positions` of a table of `length` rows; shorter inputs use the first rows.

    stretch  read so many places from those rows, by linear interpolation; places may then be any numbers in 0 .. stretch-1
    raises   InputError past the table, for coordinates between two rows (without `stretch`), for NaN, and where the table was
             never made. On a GPU nothing is looked at, which would make the GPU wait: there an assertion of the GPU's own fails
    """

    name = "learned"
    title = "learned table"
    summary = "A table holds one trained row for every place; it ends where the table ends."
    source = "Gehring 2017; BERT; GPT-2"
    formula = "xᵢ + T[i]"
    longer = "not at all: there is no row (stretch mixes the rows that there are)"
    cost = "N·D sums, once; L·D parameters"
    because = "Learned adds a row of its own for every place"
    legend: ClassVar[dict[str, tuple[str, str, str]]] = {"table.weight": ("T", "place feature", "table of places")}

    def __init__(self, length: int = 512, stretch: int | None = None) -> None:
        super().__init__()
        if stretch is not None and stretch < length:
            raise InputError(f"stretch is at least the table's length of {length}, but got {stretch}. A shorter text needs none.")
        self.length, self.stretch = length, stretch

    def allocate(self, width: int, heads: int, head_width: int) -> None:
        self.table = nn.Embedding.from_pretrained(torch.randn(self.length, width) * 0.02, freeze=False)

    def encode(self, positions: Tensor, width: int) -> Tensor:
        if not hasattr(self, "table"):
            raise InputError("This Learned() has no table yet. Call .sized(width, heads, head_width), or build a model with it.")
        self._check(positions)
        if self.stretch is not None:
            return self._between(one_axis(positions))
        return self.table(one_axis(positions).squeeze(-1).long())

    def _between(self, positions: Tensor) -> Tensor:
        """Rows for places that are spread over the table: positions [..., N, 1] to [..., N, D], of the two nearest rows a mix."""
        last = self.length - 1
        wide = positions.to(torch.promote_types(positions.dtype, torch.float32))
        spread = (wide * (last / max((self.stretch or 1) - 1, 1))).clamp(0, last)
        below = spread.floor()
        above = (below + 1).clamp(0, last)
        first, second = (self.table(row.squeeze(-1).long()) for row in (below, above))
        part = spread - below
        return first + part * (second - first)

    @semantic
    def _check(self, positions: Tensor) -> None:
        """Raise for places that have no row; never a look at numbers that are on a GPU, on "meta", or in a compiler's hands."""
        if positions.numel() == 0 or positions.is_meta or torch.compiler.is_compiling():
            return
        end = (self.length if self.stretch is None else self.stretch) - 1
        if positions.is_cuda:
            fits = (positions >= 0) & (positions <= end) & ((positions == positions.floor()) if self.stretch is None else True)
            torch._assert_async(fits.all(), f"Learned knows positions 0..{end}")
        if not positions.is_cpu:
            return
        if not positions.isfinite().all():
            raise InputError("Some coordinates are NaN or infinite. Give every token a place.")
        worst = positions.max() if positions.min() >= 0 else positions.min()
        if not 0 <= worst <= end:
            name = "length" if self.stretch is None else "stretch"
            way = f"Use {name}={int(worst) + 1} or more, or" if worst > 0 else "Count places from 0, or use"
            raise InputError(f"Learned knows positions 0..{end}, but got {worst:g}. {way} a scheme without a table such as Rope().")
        if self.stretch is None and (positions != positions.floor()).any():
            raise InputError("Learned has rows for whole numbers only. For places between them use stretch=, Rope() or Alibi().")


def lengthened(scheme: Learned, length: int) -> Learned:
    """A new Learned with a table of `length` rows, mixed from the old one's; first and last row stay first and last.

    raises  InputError where the scheme has no table yet
    """
    if not hasattr(scheme, "table"):
        raise InputError("This Learned() has no table to lengthen. Call .sized(width, heads, head_width), or take it from a model.")
    old = scheme.table.weight.detach()
    wide = torch.promote_types(old.dtype, torch.float32)
    rows = torch.arange(length, device=old.device, dtype=wide) * ((len(old) - 1) / max(length - 1, 1))
    below = rows.floor().long().clamp(max=len(old) - 1)
    above = (below + 1).clamp(max=len(old) - 1)
    table = torch.lerp(old[below].to(wide), old[above].to(wide), (rows - below).unsqueeze(-1))
    fresh = Learned(length)
    fresh.table = nn.Embedding.from_pretrained(table.to(old.dtype), freeze=not scheme.table.weight.requires_grad)
    return fresh
