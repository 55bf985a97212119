"""Input and output layer: raw features, or cells cut from a grid, become rows of width D; the last rows become the outputs.

A patch of an image, a frame of sound and a tubelet of video are one thing: a cell of a grid of samples, laid out as one line
and mapped linearly, which is a convolution whose stride is its size (Dosovitskiy et al. 2021, section 3.1).
"""

import itertools
import math
from dataclasses import replace
from typing import ClassVar, cast

import torch
from torch import Tensor, nn

from equiscope import functional
from equiscope.blocks.norm import norm as new_norm
from equiscope.errors import InputError, ShapeError, counted
from equiscope.init import linear
from equiscope.models import spec as specs
from equiscope.models.readout import prepended
from equiscope.symmetry import Permute, Shift
from equiscope.tokens import Embedding, Stem, Tokens, patches, tubelets
from equiscope.tokens.images import check_whole, times
from equiscope.tokens.text import outside


class InputEmbedding(nn.Module):
    """Raw features [..., N, F] to [..., N, D]; and what else is done to tokens before the first layer."""

    legend: ClassVar[dict[str, tuple[str, str, str]]] = {
        "proj": ("X", "", "what the tokens are"),
        "proj.weight": ("W_x", "value feature", "weights of raw numbers"),
        "proj.bias": ("b_x", "feature", "bias of raw numbers"),
        "types.weight": ("T_k", "type feature", "table of kinds"),
    }

    def __init__(self, spec: "specs.Spec", width: int) -> None:
        super().__init__()
        self.spec = e = spec.input
        raw = e.features or 0
        self.wide = spec.width
        self.proj = linear(raw, spec.width) if raw and e.map else None
        self.stem = Stem(e.stem, len(e.patch or ())) if e.stem else None
        self.separator = Separator(e.separator) if e.separator else None
        self.types: nn.Embedding | None = None
        if e.types:
            kinds = torch.randn(e.types, spec.width) / math.sqrt(spec.width)
            self.types = nn.Embedding(e.types, spec.width, _weight=kinds)
        norm = spec.blocks[0].norm
        self.norm = new_norm(width, norm.kind, norm.eps, norm.bias) if e.norm and norm is not None else None

    def mapped(self, x: Tensor) -> Tensor:
        """Raw features to the model's width."""
        if self.proj is None:
            beside = x.new_zeros(x.shape[-2], self.wide - x.shape[-1])
            if beside.shape[-1] == 0:
                return x
            return functional.concat(x, beside)
        mapped: Tensor = self.proj(x)
        return mapped

    def cut(self, samples: Tensor) -> Tokens:
        """One raw token for each cell; its position counts cells along each axis, or is its index in row-major order.

        samples  a sound [..., T] ([..., C, T] of several channels), a picture [..., C, H, W], a video [..., T, C, H, W]
        raises   ShapeError for other channels, or a size that is not a multiple of the cell
        """
        patch, channels = self.spec.patch or (), self.spec.channels
        if len(patch) == 1:
            samples = samples.unsqueeze(-2) if channels == 1 else samples
        sound = "[..., T]" if channels == 1 else "[..., C, T]"
        named, axis = {1: (sound, -2), 2: ("[..., C, H, W]", -3), 3: ("[..., T, C, H, W]", -3)}[len(patch)]
        if samples.ndim < len(patch) + 1 or samples.shape[axis] != channels:
            raise ShapeError(
                f"This model cuts {times(patch)} samples of {counted(channels, 'channel')} out of {named}, "
                f"but got the shape {tuple(samples.shape)}."
            )
        tokens = self._cells(samples, patch)
        return tokens.by_index() if self.spec.positions == "index" else tokens

    def _cells(self, samples: Tensor, patch: tuple[int, ...]) -> Tokens:
        if self.stem is not None:
            samples = samples.movedim(-3, -4) if len(patch) == 3 else samples
            cells: Tokens = self.stem(samples)
            return cells
        if len(patch) == 1:
            check_whole(samples.shape[-1:], patch, "A sound", "samples", "samples a frame")
            return Tokens.on_grid(samples.unflatten(-1, (-1, *patch)).movedim(-2, -3).flatten(-2), axes=1)
        return patches(samples, patch) if len(patch) == 2 else tubelets(samples, cast(tuple[int, int, int], patch))

    def convolved(self, tokens: Tokens) -> Tokens:
        """Apply the stem to tokens that hold consecutive cells of a sound; without a stem, the tokens unchanged.

        Padding is silence for every convolution, so that a padded sound gives the same result as the sound alone.
        """
        cell = self.spec.channels * math.prod(self.spec.patch or ())
        if self.stem is None or self.stem.axes != 1 or tokens.mapped or tokens.convolved or tokens.x.shape[-1] != cell:
            return tokens
        if tokens.document is not None:
            raise InputError("These sounds are packed in one row, which a stem would mix. Give them as a padded batch.")
        samples = tokens.x.unflatten(-1, (self.spec.channels, -1)).movedim(-2, -3).flatten(-2)
        return replace(tokens, x=self.stem(samples, tokens.valid).x, convolved=True)

    def typed(self, x: Tensor, types: Tensor | None) -> Tensor:
        """Tokens with the embedding of their type added; type 0 by default."""
        if self.types is None:
            if types is not None:
                raise InputError("This model has no token types. Use input=InputLayer(types=...), or leave types out.")
            return x
        kinds = torch.zeros(x.shape[:-1], dtype=torch.long, device=x.device) if types is None else types
        if types is not None and not torch.compiler.is_compiling():
            if types.shape[-1] != x.shape[-2]:
                raise ShapeError(f"There are {x.shape[-2]} tokens, but {types.shape[-1]} types. Give one a token.")
            known = self.types.num_embeddings
            if outside(types, known):
                raise InputError(f"This model knows the types 0..{known - 1}, but got {int(types.min())}..{int(types.max())}.")
        return x + self.types(kinds.long())

    def forward(self, x: Tensor) -> Tensor:
        """The norm after positions are added."""
        return x if self.norm is None else self.norm(x)


class ColumnEmbedding(nn.Module):
    """Columns beside an input, such as the price of what a picture shows: a token of each in front of the others.

    They get no position embedding, have the position after the last token, and are visible to every token under a causal mask.
    """

    because: ClassVar[str] = "the columns stay behind the last position when the tokens turn round"
    legend: ClassVar[dict[str, tuple[str, str, str]]] = {"weight": ("E_c", "value feature", "values of columns")}
    preserves = frozenset({Permute, Shift})

    def __init__(self, sizes: tuple[int, ...], width: int) -> None:
        super().__init__()
        self.sizes = sizes
        self.table = Embedding(sum(sizes), width)
        self.register_buffer("first", torch.tensor([0, *itertools.accumulate(sizes[:-1])]), persistent=False)

    def forward(self, tokens: Tokens, values: Tensor | None) -> Tokens:
        """values: int [..., columns], the value of each; the first of each by default. Raises ShapeError, InputError."""
        if tokens.document is not None:
            raise InputError("Columns belong to one input, but several documents are packed in a row. Unpack them.")
        first = self.get_buffer("first")
        if values is None:
            return prepended(self.table(first), tokens, before=True)
        if values.shape[-1] != len(self.sizes):
            raise ShapeError(
                f"This model has {counted(len(self.sizes), 'column')} beside an input, but got "
                f"{counted(values.shape[-1], 'value')}."
            )
        if not torch.compiler.is_compiling():
            for i, size in enumerate(self.sizes):
                if outside(values[..., i], size):
                    raise InputError(f"Column {i} has the values 0..{size - 1}, but got others.")
        return prepended(self.table(values + first), tokens, before=True)


class Separator(nn.Module):
    """Document numbers of a sequence of ids, from the ids that end each document.

    Source: document masking in FlexAttention's examples; a separator belongs to the document that it ends, as in torchtitan.
    """

    def __init__(self, ids: tuple[int, ...]) -> None:
        super().__init__()
        self.register_buffer("ids", torch.tensor(ids), persistent=False)

    def forward(self, ids: Tensor) -> Tensor:
        """Ids [..., N] to document numbers from 0; a separator belongs to the document that it ends."""
        separator = self.get_buffer("ids")
        before = nn.functional.pad(ids, (len(separator), 0), value=-1).unfold(-1, len(separator), 1)[..., :-1, :]
        return before.eq(separator).all(-1).cumsum(-1)


class OutputProjection(nn.Module):
    """Tokens [..., D] to outputs [..., outputs]."""

    legend: ClassVar[dict[str, tuple[str, str, str]]] = {
        "lm_head": ("out", "", "the model's answer"),
        "dense": ("H", "", "before the output map"),
        "lm_head.weight": ("W_out", "feature output", "output map"),
        "lm_head.bias": ("b_out", "output", "bias of the answer"),
        "dense.weight": ("W_h", "feature channel", "map before the output map"),
        "dense.bias": ("b_h", "channel", "bias of the map before"),
    }

    def __init__(self, spec: "specs.Spec", width: int) -> None:
        super().__init__()
        self.spec = h = spec.output
        outputs = spec.outputs or 0
        if spec.tied:
            self.lm_head = nn.Linear(width, outputs, h.bias, device="meta")  # its weight is the embedding's: `Model.tie`
            if h.bias:
                self.lm_head.bias = nn.Parameter(torch.zeros(outputs))
        else:
            self.lm_head = linear(width, outputs, h.bias)
        self.dense = linear(width, width) if h.hidden else None
        norm = spec.blocks[0].norm
        self.norm = new_norm(width, norm.kind, norm.eps, norm.bias) if h.norm and norm is not None else None

    def forward(self, y: Tensor) -> Tensor:
        if self.spec.hidden is not None and self.dense is not None:
            hidden = self.dense(y)
            y = functional.activation(hidden, self.spec.hidden)
        if self.norm is not None:
            y = self.norm(y)
        if self.spec.scale is not None:
            y = y * self.spec.scale
        answer: Tensor = self.lm_head(y)
        return answer
