"""Index: the position itself is added to every feature.

The simplest scheme, included to show how it fails: it grows without bound and dominates the token's features.
"""

import torch
from torch import Tensor

from equiscope.positions.base import Added
from equiscope.positions.frequencies import one_axis


class Index(Added):
    """Adds 0, 1, 2, ... to all features of a token."""

    name = "index"
    title = "index"
    summary = "The position itself is added to every feature of the token."
    formula = "xᵢ + i"
    longer = "–"
    cost = "N·D sums, once"
    because = "Index adds the absolute position to the token"

    @property
    def uniform(self) -> bool:
        return True

    def encode(self, positions: Tensor, width: int) -> Tensor:
        step = torch.ones(width, dtype=positions.dtype, device=positions.device)
        return one_axis(positions) * step
