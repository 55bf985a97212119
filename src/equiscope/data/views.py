"""Views: test-time augmentation of pictures.

The output is the mean of the model's logits over the views, so probabilities are a geometric mean. If the views form a group, the
output is exactly invariant under it, whatever the model: the identity and the horizontal flip are a group. Shifts by a few pixels
are not, since pixels that leave the picture do not come back; averaging over them only makes the output more nearly invariant.
Each view costs one forward pass.

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
    """Views of a picture over which a finished model averages its outputs (test-time augmentation); by default only the picture
    itself.

    flip   whether to add the horizontally flipped picture
    shift  pixels: adds every shift of up to this many whole pixels along rows, along columns and along both; pixels from outside
           are 0
    """

    flip: bool = False
    shift: Annotated[int, msgspec.Meta(ge=0, le=8)] = 0

    def __len__(self) -> int:
        """Number of views."""
        return (1 + self.flip) * (2 * self.shift + 1) ** 2

    def of(self, images: Tensor) -> Iterator[Tensor]:
        """Pictures uint8 [B, C, H, W] in each view; the first is the picture itself. A picture is flipped before it is shifted."""
        moves = sorted(range(-self.shift, self.shift + 1), key=abs)
        for flip, down, across in product((False, True)[: 1 + self.flip], moves, moves):
            one = images.flip(-1) if flip else images
            yield shifted(one, *(torch.full((len(images),), by) for by in (down, across))) if down or across else one
