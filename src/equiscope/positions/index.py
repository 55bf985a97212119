"""Index: the number of the place itself is added to every feature.

The plainest scheme, here to be seen failing: it grows without bound and drowns the word.
"""

import torch
from torch import Tensor

from equiscope.positions.base import Added
from equiscope.positions.frequencies import one_axis


class Index(Added):
    """Adds 0, 1, 2, ... to all features of a token."""

    name = "index"
    title = "index"
    summary = "The place's own number is added to every feature of the word."
    formula = "xᵢ + i"
    longer = "–"
    cost = "N·D sums, once"
    because = "Index adds the place's number to the word"

    @property
    def uniform(self) -> bool:
        return True

    def encode(self, positions: Tensor, width: int) -> Tensor:
        step = torch.ones(width, dtype=positions.dtype, device=positions.device)
        return one_axis(positions) * step
