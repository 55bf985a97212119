"""Learned: a table with one row of numbers for every place, added to the word. It ends where the table ends.

Source: Gehring et al. 2017; BERT, GPT-2.
"""

from typing import ClassVar

import torch
from torch import Tensor, nn

from equiscope.errors import InputError
from equiscope.position.base import Added
from equiscope.position.frequencies import one_axis
from equiscope.trace import ops


class Learned(Added):
    """Adds row `at` of a table of `length` rows; shorter inputs use the first rows.

    raises  InputError past the table, for coordinates between two rows, and where the table was never made
    """

    name = "learned"
    title = "learned table"
    summary = "A table holds one trained row for every place; it ends where the table ends."
    source = "Gehring 2017; BERT; GPT-2"
    because = "Learned adds a row of its own for every place"
    legend: ClassVar[dict[str, tuple[str, str, str]]] = {"table": ("T", "place feature", "table of places")}

    def __init__(self, length: int = 512) -> None:
        super().__init__()
        self.length = length

    def allocate(self, width: int, heads: int, head_width: int) -> None:
        self.table = nn.Parameter(torch.randn(self.length, width) * 0.02)

    def encode(self, at: Tensor, width: int) -> Tensor:
        if not hasattr(self, "table"):
            raise InputError("This Learned() has no table yet. Call .sized(width, heads, head_width), or build a model with it.")
        if not torch.compiler.is_compiling():
            self._check(at)
        return ops.gather(self.table, ops.squeeze(one_axis(at), label="places as a list"), name="P", label="the rows of the places")

    def _check(self, at: Tensor) -> None:
        if at.numel() == 0:
            return
        worst = at.max() if at.min() >= 0 else at.min()
        if at.isnan().any():
            raise InputError("Some coordinates are NaN. Give every token a place.")
        if not 0 <= worst < self.length:
            raise InputError(
                f"Learned knows positions 0..{self.length - 1}, but got {worst:g}. Use length={int(worst.abs()) + 1} or more, "
                "or a scheme without a table such as Rope()."
            )
        if (at != at.floor()).any():
            raise InputError("Learned has rows for whole numbers only. For places between them use Rope() or Alibi().")
