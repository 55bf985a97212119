"""Learned: a table with one row for every position, added to the token. It is undefined beyond the table.

With `stretch`, positions are spread over the rows and a position between two rows interpolates them; the first and last
position keep the first and last row. `lengthened` builds a longer table by this interpolation, for further training.
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
    """Adds row i of a table of `length` rows at position i; shorter inputs use the first rows.

    stretch  number of positions to read from the rows, by linear interpolation; positions may then be real, in 0 .. stretch-1
    raises   InputError past the table, for positions between two rows (without `stretch`), for NaN, and before `sized`.
             On a GPU, reading the positions would synchronise: there a device-side assertion fails
    """

    name = "learned"
    title = "learned table"
    summary = "A table holds one trained row for every position; positions beyond the table have none."
    source = "Gehring 2017; BERT; GPT-2"
    formula = "xᵢ + T[i]"
    longer = "not at all: there is no row (stretch interpolates the existing rows)"
    cost = "N·D sums, once; L·D parameters"
    because = "Learned adds a separate row for every absolute position"
    legend: ClassVar[dict[str, tuple[str, str, str]]] = {"table.weight": ("T", "position feature", "table of positions")}

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
        """Interpolate between the two nearest rows: positions [..., N, 1] to [..., N, D]."""
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
        """Raise for positions that have no row; never read numbers on a GPU, on "meta" or under a compiler."""
        if positions.numel() == 0 or positions.is_meta or torch.compiler.is_compiling():
            return
        end = (self.length if self.stretch is None else self.stretch) - 1
        if positions.is_cuda:
            fits = (positions >= 0) & (positions <= end) & ((positions == positions.floor()) if self.stretch is None else True)
            torch._assert_async(fits.all(), f"Learned knows positions 0..{end}")
        if not positions.is_cpu:
            return
        if not positions.isfinite().all():
            raise InputError("Some positions are NaN or infinite. Give every token a position.")
        worst = positions.max() if positions.min() >= 0 else positions.min()
        if not 0 <= worst <= end:
            name = "length" if self.stretch is None else "stretch"
            way = f"Use {name}={int(worst) + 1} or more, or" if worst > 0 else "Count positions from 0, or use"
            raise InputError(f"Learned knows positions 0..{end}, but got {worst:g}. {way} a scheme without a table such as Rope().")
        if self.stretch is None and (positions != positions.floor()).any():
            raise InputError("Learned has rows for whole numbers only. For positions between them use stretch=, Rope() or Alibi().")


def lengthened(scheme: Learned, length: int) -> Learned:
    """A new Learned with a table of `length` rows, interpolated from the old one; first and last row stay first and last.

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
