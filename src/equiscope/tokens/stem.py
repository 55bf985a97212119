"""A stem: small convolutions instead of one large cut, so that the cells of neighbouring tokens overlap.

Source: Xiao et al. 2021, "Early Convolutions Help Transformers See Better", without batch norm, so that the tokens of a picture
depend on no other picture; Radford et al. 2023 (Whisper) for sound.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from equiscope import functional
from equiscope.errors import InputError, ShapeError
from equiscope.tokens.base import Tokens

CONVOLVE = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}


class Convolution(nn.Module):
    """Every second place with its neighbours, three along each axis, through one affine map and ReLU; beyond the edge are zeros.

    weight  [3^axes·C, C']: rows by neighbour, then by channel
    """

    legend: ClassVar[dict[str, tuple[str, str, str]]] = {
        "weight": ("W_s", "neighbour channel", "weights of a neighbourhood"),
        "bias": ("b_s", "channel", "bias of a neighbourhood"),
    }

    def __init__(self, before: int, after: int, axes: int) -> None:
        super().__init__()
        self.axes, fan = axes, before * 3**axes
        self.weight = nn.Parameter(torch.randn(fan, after) * math.sqrt(2 / fan))
        self.bias = nn.Parameter(torch.zeros(after))

    def forward(self, x: Tensor) -> Tensor:
        """[..., C, sizes] to [..., C', sizes / 2, rounded up], in one call of torch's convolution."""
        kernel = self.weight.T.unflatten(1, (*[3] * self.axes, -1)).movedim(-1, 1)
        flat = x.reshape(-1, *x.shape[-self.axes - 1 :])
        y = CONVOLVE[self.axes](flat, kernel, self.bias, stride=2, padding=1).relu()
        return y.reshape(*x.shape[: -self.axes - 1], *y.shape[1:])

    def rows(self, x: Tensor, sizes: Sequence[int]) -> Tensor:
        """The same, step by step: rows [..., N, C] of a grid with these sizes to the rows of the grid half as large."""
        index = neighbours(sizes).to(x.device)
        near = functional.neighbours(x, index)
        y = near @ self.weight + self.bias
        return y.relu()


class Stem(nn.Module):
    """Convolutions one after another, each halving every axis: n of them stand for cells of 2^n samples along each axis.

    channels  of the samples, then of each convolution, e.g. (3, 24, 48, 96, 192) in place of patches of 16×16
    axes      of the samples: 1 for a sound, 2 for a picture, 3 for a video
    raises    ShapeError where there is no convolution
    """

    plain: ClassVar[dict[str, Any]] = {"by_rows": True}  # attributes that a watcher sets, so that every step is written out

    def __init__(self, channels: Sequence[int], axes: int = 2) -> None:
        super().__init__()
        if len(channels) < 2 or axes not in CONVOLVE:
            raise ShapeError(
                f"A stem has the samples' channels and those of one convolution or more, e.g. (3, 64), over 1 to 3 axes, "
                f"but got {tuple(channels)} over {axes}."
            )
        self.axes, self.by_rows = axes, False
        self.layers = nn.ModuleList(Convolution(a, b, axes) for a, b in itertools.pairwise(channels))

    def forward(self, samples: Tensor, valid: Tensor | None = None) -> Tokens:
        """Samples [..., C, sizes] to x [..., N, C'], at [N, axes] counted in strides; sizes are rounded up, none is refused.

        valid   of a sound of N cells, bool [..., N]: those that it has itself; the others are silent for every convolution
        raises  ShapeError for samples of other channels or axes, and where valid is not one entry a cell
        """
        self._check(samples, valid)
        if not self.by_rows:
            stride = 2 ** len(self.layers)
            samples = _silenced(samples, valid, stride)
            for layer in self.layers:
                stride //= 2
                samples = _silenced(layer(samples), valid, stride)
            return replace(Tokens.on_grid(samples.movedim(-self.axes - 1, -1), self.axes), convolved=True)
        if valid is not None and not bool(valid.all()):
            raise InputError("A padded sound with a stem cannot be watched number by number. Give one sound, without padding.")
        sizes: Sequence[int] = samples.shape[-self.axes :]
        x = samples.movedim(-self.axes - 1, -1).flatten(-self.axes - 1, -2)
        for layer in self.layers:
            x, sizes = cast(Convolution, layer).rows(x, sizes), _half(sizes)
        return replace(Tokens.on_grid(x.unflatten(-2, tuple(sizes)), self.axes), x=x, convolved=True)

    def _check(self, samples: Tensor, valid: Tensor | None) -> None:
        channels = cast(Convolution, self.layers[0]).weight.shape[0] // 3**self.axes
        if samples.ndim <= self.axes or samples.shape[-self.axes - 1] != channels or not samples.shape[-self.axes :].numel():
            axes = {1: "T", 2: "H, W", 3: "T, H, W"}[self.axes]
            raise ShapeError(f"This stem takes samples [..., {channels}, {axes}], but got the shape {tuple(samples.shape)}.")
        if valid is None:
            return
        cells = -(-samples.shape[-1] // 2 ** len(self.layers))
        if self.axes != 1 or valid.shape[-1] != cells:
            raise ShapeError(f"valid is one entry for each of the {cells} cells of a sound, but its shape is {tuple(valid.shape)}.")


def _silenced(x: Tensor, valid: Tensor | None, stride: int) -> Tensor:
    """Features [..., C, T] that are zero beyond the cells [..., N] that a sound has; stride: how many of them are a cell."""
    if valid is None:
        return x
    return x * valid.repeat_interleave(stride, -1)[..., : x.shape[-1]].unsqueeze(-2)


def neighbours(sizes: Sequence[int]) -> Tensor:
    """Which rows of a grid each row of the grid half as large reads: [N', 3^axes], -1 beyond the edge."""
    along = [2 * torch.arange(n)[:, None] + torch.tensor([-1, 0, 1]) for n in _half(sizes)]  # per axis: [N'_a, 3]
    found = torch.zeros(*[1] * (2 * len(sizes)), dtype=torch.long)
    beyond = torch.zeros_like(found, dtype=torch.bool)
    for axis, (places, size) in enumerate(zip(along, sizes, strict=True)):
        shape = [1] * (2 * len(sizes))
        shape[axis], shape[len(sizes) + axis] = places.shape
        found = found * size + places.view(shape)
        beyond = beyond | ((places < 0) | (places >= size)).view(shape)
    return torch.where(beyond, -1, found).reshape(math.prod(_half(sizes)), 3 ** len(sizes))


def _half(sizes: Sequence[int]) -> list[int]:
    return [(n + 1) // 2 for n in sizes]
