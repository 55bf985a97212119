"""Image format: how a trained model reads an image, as a file beside its weights."""

import math
from typing import Literal

import torch
from msgspec import Struct
from torch import Tensor

from equiscope import budgets
from equiscope.data.images import normal

FILE = "image_format.json"


class ImageFormat(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a run reads a picture: size, channels and normalisation."""

    size: tuple[int, int]
    channels: Literal[1, 3]
    mean: tuple[float, ...]
    std: tuple[float, ...]

    def __post_init__(self) -> None:
        """Check values from a file: msgspec turns a ValueError into a DecodeError."""
        if min(self.size) < 1 or math.prod(self.size) > budgets.PIXELS:
            raise ValueError("a size is needed")
        if {len(self.mean), len(self.std)} != {self.channels} or not all(map(math.isfinite, self.mean)):
            raise ValueError("each channel has a mean and a std")
        if not all(0 < one < math.inf for one in self.std):
            raise ValueError("each std is positive")

    def normalise(self, images: Tensor) -> Tensor:
        """Bytes [B, C, H, W] to normalised numbers."""
        return normal(images, torch.tensor(self.mean), torch.tensor(self.std))
