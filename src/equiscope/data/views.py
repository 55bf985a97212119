"""Views: a picture as it is seen in several ways, all of which answer for it together.

The mean of a model's answers (logits, so that probabilities are a geometric mean) over a group of changes is the same for each of
them, whatever the model: as they are and mirrored are a group. Moves by a few pixels are none, as what leaves the picture does
not come back: their mean is only nearer to one that moves leave as it is. Each view costs as much as the model.

Source: Murphy et al. 2019, "Janossy pooling"; Puny et al. 2022, "Frame averaging for invariant and equivariant network design"
"""

from collections.abc import Iterator
from itertools import product
from typing import Annotated

import msgspec
import torch
from msgspec import Struct
from torch import Tensor

from equiscope.data.augment import shifted


class Views(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The ways in which a finished model sees each picture that it answers for; as it is alone, unless more are said.

    flip   whether mirrored too, left for right
    shift  pixels: also moved by every whole number up to it along rows, along columns and along both; what comes in is 0 (black)
    """

    flip: bool = False
    shift: Annotated[int, msgspec.Meta(ge=0, le=8)] = 0

    def __len__(self) -> int:
        """How many ways there are."""
        return (1 + self.flip) * (2 * self.shift + 1) ** 2

    def of(self, images: Tensor) -> Iterator[Tensor]:
        """Pictures uint8 [B, C, H, W] in each way, as they are first. A picture is mirrored before it is moved."""
        moves = sorted(range(-self.shift, self.shift + 1), key=abs)
        for flip, down, across in product((False, True)[: 1 + self.flip], moves, moves):
            one = images.flip(-1) if flip else images
            yield shifted(one, *(torch.full((len(images),), by) for by in (down, across))) if down or across else one
