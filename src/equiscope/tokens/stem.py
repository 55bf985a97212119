"""A stem: several small convolutions instead of one patch embedding, so that neighbouring tokens overlap.

Source: Xiao et al. 2021, "Early Convolutions Help Transformers See Better", without batch norm, so that the tokens of an image
do not depend on other images; Radford et al. 2023 (Whisper) for sound.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, cast

import torch
from torch import Tensor, nn

from equiscope import functional
from equiscope.errors import InputError, ShapeError
from equiscope.tokens.base import Tokens

CONVOLUTIONS = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}


class Stem(nn.Module):
    """A sequence of convolutions with ReLU, each of stride 2: n of them make cells of 2^n samples along each axis.

    Each has a kernel of size 3 along every axis and zero padding.

    channels  of the samples, then of each convolution, e.g. (3, 24, 48, 96, 192) in place of patches of 16×16
    axes      of the samples: 1 for a sound, 2 for an image, 3 for a video
    raises    ShapeError where there is no convolution
    """

    plain: ClassVar[dict[str, Any]] = {"step_by_step": True}  # attributes that `watch` sets, so that every step is recorded

    def __init__(self, channels: Sequence[int], axes: int = 2) -> None:
        super().__init__()
        if len(channels) < 2 or axes not in CONVOLUTIONS:
            raise ShapeError(
                f"A stem has the samples' channels and those of one convolution or more, e.g. (3, 64), over 1 to 3 axes, "
                f"but got {tuple(channels)} over {axes}."
            )
        self.axes, self.step_by_step, self.channels = axes, False, tuple(channels)
        self.layers = nn.ModuleList(_convolution(a, b, axes) for a, b in itertools.pairwise(channels))
        weight = ("W_s", "channel feature" + " neighbour" * axes, "weights of a neighbourhood")
        parts = {"weight": weight, "bias": ("b_s", "channel", "bias of a neighbourhood")}
        self.legend = {f"layers.{i}.{name}": part for i in range(len(self.layers)) for name, part in parts.items()}

    def forward(self, samples: Tensor, valid: Tensor | None = None) -> Tokens:
        """Samples [..., C, sizes] to x [..., N, C'], positions [N, axes] counted in strides; sizes are rounded up.

        valid   for a sound of N cells, bool [..., N], False for padding, which is set to 0 before every convolution
        raises  ShapeError for samples of other channels or axes, and where valid is not one entry a cell
        """
        self._check(samples, valid)
        if not self.step_by_step or any(type(layer) is not CONVOLUTIONS[self.axes] for layer in self.layers):  # e.g. with LoRA
            stride = 2 ** len(self.layers)
            samples = _masked(samples, valid, stride)
            for layer in self.layers:
                stride //= 2
                samples = _masked(_convolved(layer, samples, self.axes).relu(), valid, stride)
            return replace(Tokens.on_grid(samples.movedim(-self.axes - 1, -1), self.axes), convolved=True)
        if valid is not None and not bool(valid.all()):
            raise InputError("A padded sound with a stem cannot be recorded step by step. Give one sound, without padding.")
        sizes: Sequence[int] = samples.shape[-self.axes :]
        x = samples.movedim(-self.axes - 1, -1).flatten(-self.axes - 1, -2)
        for layer in self.layers:
            x, sizes = _step_by_step(layer, x, sizes), _half(sizes)
        return replace(Tokens.on_grid(x.unflatten(-2, tuple(sizes)), self.axes), x=x, convolved=True)

    def _check(self, samples: Tensor, valid: Tensor | None) -> None:
        channels = self.channels[0]
        if samples.ndim <= self.axes or samples.shape[-self.axes - 1] != channels or not samples.shape[-self.axes :].numel():
            axes = {1: "T", 2: "H, W", 3: "T, H, W"}[self.axes]
            raise ShapeError(f"This stem takes samples [..., {channels}, {axes}], but got the shape {tuple(samples.shape)}.")
        if valid is None:
            return
        cells = -(-samples.shape[-1] // 2 ** len(self.layers))
        if self.axes != 1 or valid.shape[-1] != cells:
            raise ShapeError(f"valid is one entry for each of the {cells} cells of a sound, but its shape is {tuple(valid.shape)}.")


def _convolution(before: int, after: int, axes: int) -> nn.Module:
    """Weights of variance 2 / inputs (He et al. 2015), drawn by neighbour, then by channel."""
    layer, fan = CONVOLUTIONS[axes](before, after, 3, stride=2, padding=1, device="meta"), before * 3**axes
    weight = (torch.randn(fan, after) * math.sqrt(2 / fan)).T.unflatten(1, (*[3] * axes, before)).movedim(-1, 1)
    layer.weight, layer.bias = nn.Parameter(weight.contiguous()), nn.Parameter(torch.zeros(after))
    return layer


def _convolved(layer: nn.Module, x: Tensor, axes: int) -> Tensor:
    """[..., C, sizes] to [..., C', sizes / 2, rounded up]; torch's convolutions take one leading axis."""
    y: Tensor = layer(x.reshape(-1, *x.shape[-axes - 1 :]))
    return y.reshape(*x.shape[: -axes - 1], *y.shape[1:])


def _step_by_step(layer: nn.Module, x: Tensor, sizes: Sequence[int]) -> Tensor:
    """Convolution and ReLU step by step: rows [..., N, C] of a grid of these sizes to the rows of the grid half as large."""
    kernel, bias = cast(Tensor, layer.weight), cast(Tensor, layer.bias)  # [C', C, 3, ...] and [C']
    for _ in sizes[1:]:
        kernel = kernel.flatten(-2)
    near = functional.neighbours(x, neighbours(sizes).to(x.device))
    weights = kernel.mT.flatten(-2).mT  # [3^axes·C, C']: rows by neighbour, then by channel
    y = near @ weights + bias
    return y.relu()


def _masked(x: Tensor, valid: Tensor | None, stride: int) -> Tensor:
    """Features [..., C, T], set to 0 in padding cells [..., N]; stride: features per cell."""
    if valid is None:
        return x
    return x * valid.repeat_interleave(stride, -1)[..., : x.shape[-1]].unsqueeze(-2)


def neighbours(sizes: Sequence[int]) -> Tensor:
    """Rows of a grid that each row of the grid half as large reads: [N', 3^axes], -1 beyond the edge."""
    along = [2 * torch.arange(n)[:, None] + torch.tensor([-1, 0, 1]) for n in _half(sizes)]  # per axis: [N'_a, 3]
    index = torch.zeros(*[1] * (2 * len(sizes)), dtype=torch.long)
    beyond = torch.zeros_like(index, dtype=torch.bool)
    for axis, (coordinates, size) in enumerate(zip(along, sizes, strict=True)):
        shape = [1] * (2 * len(sizes))
        shape[axis], shape[len(sizes) + axis] = coordinates.shape
        index = index * size + coordinates.view(shape)
        beyond = beyond | ((coordinates < 0) | (coordinates >= size)).view(shape)
    return torch.where(beyond, -1, index).reshape(math.prod(_half(sizes)), 3 ** len(sizes))


def _half(sizes: Sequence[int]) -> list[int]:
    return [(n + 1) // 2 for n in sizes]
