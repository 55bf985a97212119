"""Image augmentation: flips, shifts, rotations, brightness, random erasing, mixup and CutMix.

Each function takes a batch and its random numbers, and draws none itself. The numbers of a picture are a row of a table that
depends on the seed and the epoch; those of a mixture depend on the seed and the step. So training does not depend on the number of
processes, or on whether a run was stopped and resumed.
"""

import math
from typing import Annotated

import msgspec
import numpy as np
import torch
import torch.nn.functional as F
from msgspec import Struct
from torch import Tensor

from equiscope.data.sampler import derived_seed, generator

Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
Positive = Annotated[float, msgspec.Meta(ge=0)]
COLUMNS = ("flip", "down", "across", "turn", "zoom", "light", "contrast", "erase", "area", "shape", "top", "left")


class Augment(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Random augmentation of pictures; 0 turns an augmentation off.

    flip      probability of a horizontal flip
    shift     largest shift in pixels, along rows and along columns; pixels from outside are 0 (black)
    rotate    largest rotation in degrees, in either direction
    zoom      largest relative change of size
    brightness  largest change of brightness, as a share of the range; the contrast changes by the same share
    erase     probability that a rectangle of 2 to 33 % of the area is set to the mean (random erasing, Zhong et al. 2020)
    mixup     alpha of the beta distribution of mixup (Zhang et al. 2018)
    cutmix    alpha of the beta distribution of CutMix (Yun et al. 2019)
    mix_probability  share of the steps that mix pictures; if both mixup and cutmix are on, each takes half of them
    """

    flip: Share = 0.0
    shift: Annotated[int, msgspec.Meta(ge=0)] = 0
    rotate: Annotated[float, msgspec.Meta(ge=0, le=180)] = 0.0
    zoom: Annotated[float, msgspec.Meta(ge=0, lt=1)] = 0.0
    brightness: Share = 0.0
    erase: Share = 0.0
    mixup: Positive = 0.0
    cutmix: Positive = 0.0
    mix_probability: Share = 1.0

    @property
    def mixes(self) -> bool:
        return (self.mixup > 0 or self.cutmix > 0) and self.mix_probability > 0


class Draws:
    """Random numbers 0..1 for every example of an epoch, [examples, columns]: row i belongs to example i, in any batch."""

    def __init__(self, count: int, seed: int) -> None:
        self.count, self.seed = count, seed
        self._epochs: dict[int, Tensor] = {}

    def of(self, examples: list[tuple[int, int]]) -> Tensor:
        """The rows of examples, each given with its epoch."""
        return torch.stack([self._table(epoch)[example] for epoch, example in examples])

    def _table(self, epoch: int) -> Tensor:
        if epoch not in self._epochs:
            self._epochs = {e: table for e, table in self._epochs.items() if e == epoch - 1}
            self._epochs[epoch] = torch.rand(self.count, len(COLUMNS), generator=generator(self.seed, "augment", epoch))
        return self._epochs[epoch]


def augmented(images: Tensor, draws: Tensor, config: Augment, mean: Tensor, std: Tensor) -> Tensor:
    """Pictures uint8 [B, C, H, W] as float32 inputs of a model, augmented by their rows of draws.

    mean, std  of the channels, in 0..1, for normalisation
    """
    draws_of = {name: draws[:, i] for i, name in enumerate(COLUMNS)}
    if config.flip:
        images = flipped(images, draws_of["flip"] < config.flip)
    if config.shift:
        images = shifted(images, *(whole(draws_of[axis], config.shift) for axis in ("down", "across")))
    x = images.to(torch.float32) / 255
    if config.rotate or config.zoom:
        x = rotated(x, around(draws_of["turn"]) * math.radians(config.rotate), 1 + around(draws_of["zoom"]) * config.zoom)
    if config.brightness:
        x = brightened(x, around(draws_of["light"]) * config.brightness, 1 + around(draws_of["contrast"]) * config.brightness)
    x = (x - mean.view(-1, 1, 1)) / std.view(-1, 1, 1)
    if config.erase:
        x = erased(x, draws_of["erase"] < config.erase, *(draws_of[name] for name in ("area", "shape", "top", "left")))
    return x


def around(draws: Tensor) -> Tensor:
    """Numbers 0..1 as -1..1."""
    return 2 * draws - 1


def whole(draws: Tensor, most: int) -> Tensor:
    """Numbers 0..1 as whole numbers -most..most, uniformly."""
    return (draws * (2 * most + 1)).long().clamp(max=2 * most) - most


def flipped(images: Tensor, which: Tensor) -> Tensor:
    """Horizontal flip of the pictures where `which` [B] is true."""
    return torch.where(which.view(-1, 1, 1, 1), images.flip(-1), images)


def shifted(images: Tensor, down: Tensor, right: Tensor) -> Tensor:
    """Shift every picture by its own whole numbers of pixels [B]; pixels from outside are 0."""
    height, width = images.shape[-2:]
    rows = torch.arange(height) - down.unsqueeze(-1)  # where each row is taken from
    columns = torch.arange(width) - right.unsqueeze(-1)
    inside = ((rows >= 0) & (rows < height)).unsqueeze(-1) & ((columns >= 0) & (columns < width)).unsqueeze(-2)
    which = torch.arange(len(images)).view(-1, 1, 1)
    taken = images.movedim(1, -1)[which, rows.clamp(0, height - 1).unsqueeze(-1), columns.clamp(0, width - 1).unsqueeze(-2)]
    return (taken * inside.unsqueeze(-1)).movedim(-1, 1).contiguous()


def rotated(x: Tensor, angle: Tensor, zoom: Tensor) -> Tensor:
    """Rotate every picture about its centre by its angle [B] in radians, counter-clockwise, and scale it by `zoom` [B].

    Bilinear interpolation; pixels from outside are 0.
    """
    height, width = x.shape[-2:]
    cos, sin, zero = angle.cos() / zoom, angle.sin() / zoom, torch.zeros_like(angle)
    matrix = torch.stack([cos, -sin * height / width, zero, sin * width / height, cos, zero], -1).view(-1, 2, 3)
    grid = F.affine_grid(matrix, list(x.shape), align_corners=False)
    return F.grid_sample(x, grid, mode="bilinear", padding_mode="zeros", align_corners=False)


def brightened(x: Tensor, light: Tensor, contrast: Tensor) -> Tensor:
    """Pixels 0..1 with contrast scaled about the picture's mean by `contrast` [B], plus `light` [B]; clamped to 0..1."""
    mean = x.mean((-3, -2, -1), keepdim=True)
    return ((x - mean) * contrast.view(-1, 1, 1, 1) + mean + light.view(-1, 1, 1, 1)).clamp(0, 1)


def erased(x: Tensor, which: Tensor, area: Tensor, shape: Tensor, top: Tensor, left: Tensor) -> Tensor:
    """Set a rectangle of some pictures to 0, the mean of all data. Numbers 0..1 [B] determine its area, shape and position."""
    height, width = x.shape[-2:]
    size = (0.02 + area * (1 / 3 - 0.02)) * height * width
    slender = torch.exp(around(shape) * math.log(1 / 0.3))  # 0.3 to 3.3, either way as often
    tall = (size * slender).sqrt().round().clamp(1, height)
    wide = (size / slender).sqrt().round().clamp(1, width)
    inside = _box((top * (height - tall + 1)).floor(), (left * (width - wide + 1)).floor(), tall, wide, height, width)
    return x.masked_fill((inside & which.view(-1, 1, 1)).unsqueeze(1), 0.0)


def mixture(config: Augment, seed: int, step: int, size: int, height: int, width: int) -> tuple[Tensor, Tensor, Tensor] | None:
    """The partner of each picture in the batch of a step, and the weights of the mixture; None for a step without mixing.

    returns  other [B], keep [B, 1, H, W] (weight of each of its own pixels), and part [B], the weight of its own target
    """
    draws = np.random.default_rng(derived_seed(seed, "mixture", step))
    if draws.random() >= config.mix_probability:
        return None
    cut = config.cutmix > 0 and (config.mixup == 0 or draws.random() < 0.5)
    alpha = config.cutmix if cut else config.mixup
    part = torch.from_numpy(draws.beta(alpha, alpha, size).astype(np.float32))
    other = torch.from_numpy(draws.permutation(size))
    if not cut:
        return other, part.view(-1, 1, 1, 1), part
    down, across = (torch.from_numpy(draws.random(size).astype(np.float32)) for _ in range(2))
    side = (1 - part).sqrt()
    tall, wide = (side * height).round(), (side * width).round()
    top, left = (down * (height - tall + 1)).floor(), (across * (width - wide + 1)).floor()
    keep = 1 - _box(top, left, tall, wide, height, width).to(torch.float32)
    return other, keep.unsqueeze(1), keep.mean((-2, -1))


def _box(top: Tensor, left: Tensor, tall: Tensor, wide: Tensor, height: int, width: int) -> Tensor:
    """Whether a pixel lies in the rectangle of its picture: [B] each to [B, H, W]."""
    rows, columns = torch.arange(height), torch.arange(width)
    top, left, tall, wide = (t.unsqueeze(-1) for t in (top, left, tall, wide))
    return ((rows >= top) & (rows < top + tall)).unsqueeze(-1) & ((columns >= left) & (columns < left + wide)).unsqueeze(-2)
