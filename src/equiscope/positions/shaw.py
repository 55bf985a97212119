"""Relative positions after Shaw: each distance has a row that is added to the key, and another that is added to the value.

Distances beyond `max_distance` share the outermost rows. All heads read the same tables, as in the paper.
Source: Shaw, Uszkoreit & Vaswani 2018, section 3, whose index is clip(j - i, -max_distance, max_distance).
"""

from typing import ClassVar

import torch
from torch import Tensor, nn

from equiscope.errors import InputError
from equiscope.functional import bins, take
from equiscope.positions.base import AxisPositions, Position
from equiscope.positions.gaps import allocated, whole
from equiscope.symmetry import Shift


class Shaw(Position):
    """Adds q . a^K[clip(j - i)] / sqrt(K) to the scores and sum_j w_ij a^V[clip(j - i)] to the output.

    The [N, M, K] tensor of the formula is never computed: queries are multiplied by the table, then each pair selects one number.

    max_distance  distinct distances on each side; tables have 2 max_distance + 1 rows, row 0 for the earliest keys
    values        whether values get a row too; they must then be as wide as keys
    raises        InputError for a max_distance below 1, and for positions that are not finite
    """

    name = "shaw"
    title = "Shaw"
    summary = "Each distance has a row that is added to the key, and another that is added to the value."
    source = "Shaw 2018, section 3"
    formula = "qᵢ·(kⱼ + aᴷ[j − i])/√K, Σⱼ wᵢⱼ(vⱼ + aⱽ[j − i])"
    longer = "–"
    cost = "N·(2·far + 1)·K per head, far = max_distance, and N² selected numbers"
    because = "Shaw has a separate row for each signed distance"
    legend: ClassVar[dict[str, tuple[str, str, str]]] = {
        "key_table": ("aᴷ", "distance channel", "what each distance adds to a key"),
        "value_table": ("aⱽ", "distance channel", "what each distance adds to a value"),
    }
    preserves = frozenset({Shift})

    def __init__(self, max_distance: int = 16, values: bool = True) -> None:
        super().__init__()
        if max_distance < 1:
            raise InputError(f"max_distance is the number of distinct distances on each side, 1 or more, but got {max_distance}.")
        self.max_distance, self.values = max_distance, values

    def allocate(self, width: int, heads: int, head_width: int) -> None:
        rows = 2 * self.max_distance + 1
        self.key_table = nn.Parameter(torch.randn(rows, head_width) * 0.02)
        self.value_table = nn.Parameter(torch.randn(rows, head_width) * 0.02) if self.values else None

    def content_bias(self, q: Tensor, k: Tensor, at_q: AxisPositions, at_k: AxisPositions, mask: Tensor | None) -> Tensor:
        allocated(self, "key_table")
        each = q @ self.key_table.mT
        width = q.shape[-1]
        each = each * width**-0.5
        return take(each, self.table_rows(at_q, at_k))

    def value_bias(self, weights: Tensor, at_q: AxisPositions, at_k: AxisPositions) -> Tensor | None:
        if not self.values:
            return None
        allocated(self, "value_table")
        assert self.value_table is not None
        shares = bins(weights, self.table_rows(at_q, at_k), 2 * self.max_distance + 1)
        return shares @ self.value_table

    def table_rows(self, at_q: AxisPositions, at_k: AxisPositions) -> Tensor:
        """max_distance + clip(j - i): the row of each pair, [..., N, M]."""
        steps = whole(at_q, at_k).clamp(-float(self.max_distance), float(self.max_distance))
        delta = self.max_distance - steps
        return delta
