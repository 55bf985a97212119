"""Tokens: the input of a model, for every modality.

Positions are data, never implied by the row index: shifted texts, left padding, packing and irregular times only differ in
their positions. Position schemes read `positions`; masks read `order`, `document` and `valid`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import torch
from torch import Tensor

from equiscope.errors import InputError, ShapeError
from equiscope.shapes import Coordinates, Features, Flags, Order


@dataclass(frozen=True)
class Tokens:
    """A sequence, or a batch of sequences, as a model reads it.

    x          features [..., N, D], one row a token
    positions  coordinates [..., N, A]: an index, a time in seconds, a point on a grid or in space
    order      rank of each token [..., N]: what "before" means to a causal mask
    document   number of the text in a packed row to which each token belongs [..., N]; None: one text
    valid      bool [..., N], False for padding; None: no padding
    counted    the tensors `positions` and `order` themselves if they are known to count up by one (see `is_consecutive`)
    mapped     True if the model's input layer has computed the features, so that it does not map them again
    convolved  True if a stem has computed the features, so that it does not convolve them again
    raises     ShapeError where the lengths disagree
    """

    x: Features
    positions: Coordinates
    order: Order
    document: Order | None = None
    valid: Flags | None = None
    counted: tuple[Tensor, Tensor] | None = field(default=None, repr=False, compare=False)
    mapped: bool = field(default=False, repr=False, compare=False)
    convolved: bool = field(default=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.positions.ndim < 2 or self.x.ndim < 2:
            shapes = f"{tuple(self.x.shape)} and {tuple(self.positions.shape)}"
            raise ShapeError(f"x is [..., N, D] and positions is [..., N, A], one row a token, but their shapes are {shapes}.")
        if self.valid is not None and self.valid.dtype != torch.bool:
            raise InputError(f"valid is bool, True = a real token, but got {self.valid.dtype}. Use valid.bool().")
        length = self.x.shape[-2]
        alone = self.valid is None and self.document is None
        if alone and self.x.ndim <= 3 and self.positions.shape[:-1] == (length,) == self.order.shape:
            return  # as most tokens are
        rows = {"positions": self.positions.shape[-2], "order": self.order.shape[-1]}
        rows |= {n: t.shape[-1] for n, t in (("document", self.document), ("valid", self.valid)) if t is not None}
        for name, size in rows.items():
            if size != length:
                raise ShapeError(f"x has {length} tokens, but {name} has {size}. Give one entry a token.")
        for name, axes in (("positions", 2), ("order", 1), ("document", 1), ("valid", 1)):
            flag = getattr(self, name)
            if flag is not None and not alike(self.x.shape[:-2], flag.shape[:-axes]):
                raise ShapeError(f"x is a batch of {tuple(self.x.shape[:-2])}, but {name} is one of {tuple(flag.shape[:-axes])}.")
        if self.x.ndim > 3:
            self._every_sequence()

    def _every_sequence(self) -> None:
        """With several batch axes, expand every flag that has some of them to all; a list for all sequences stays as it is."""
        lead = self.x.shape[:-2]
        for name, axes in (("positions", 2), ("order", 1), ("document", 1), ("valid", 1)):
            flag = getattr(self, name)
            if flag is not None and flag.ndim > axes and flag.shape[:-axes] != lead:
                object.__setattr__(self, name, flag.expand(*lead, *flag.shape[-axes:]))

    @classmethod
    def of(cls, x: Tensor, start: int = 0, valid: Tensor | None = None) -> Self:
        """Features [..., N, D] at positions start, start + 1, ..."""
        if x.ndim < 2:
            raise ShapeError(f"Tokens need features [..., N, D], one row a token, but got shape {tuple(x.shape)}.")
        order = torch.arange(start, start + x.shape[-2], device=x.device)
        dtype = torch.promote_types(x.dtype, torch.float32)  # bfloat16 counts exactly only to 256
        positions = order.to(dtype).unsqueeze(-1)
        return cls(x=x, positions=positions, order=order, valid=valid, counted=(positions, order))

    @classmethod
    def on_grid(cls, x: Tensor, axes: int = 2) -> Self:
        """Features [..., G1, ..., GA, D] of a grid with A axes, in row-major order: positions [N, A] count cells from 0."""
        if x.ndim <= axes:
            raise ShapeError(f"A grid with {axes} axes needs features of {axes + 1} axes or more, but got shape {tuple(x.shape)}.")
        counts = x.shape[-axes - 1 : -1]
        dtype = torch.promote_types(x.dtype, torch.float32)
        steps = torch.meshgrid(*(torch.arange(n, dtype=dtype, device=x.device) for n in counts), indexing="ij")
        positions = torch.stack(steps, -1).flatten(0, -2)
        return cls(x=x.flatten(-axes - 1, -2), positions=positions, order=torch.arange(len(positions), device=x.device))

    def by_index(self) -> Self:
        """The same tokens with their rank as position, [N, 1]: cells of a grid as one line, in row-major order."""
        return replace(self, positions=self.order.unsqueeze(-1).to(self.positions.dtype))

    @property
    def is_consecutive(self) -> bool:
        """Whether positions and ranks are known to grow by one from row to row, without reading their values.

        It holds for these tensors only: replacing one of them clears it. On a GPU and under a compiler it selects kernels that
        need no dense table; on a CPU the values are read.
        """
        return self.counted is not None and self.counted[0] is self.positions and self.counted[1] is self.order

    def to(self, dtype: torch.dtype | None = None, device: torch.device | str | None = None) -> Self:
        """Convert: features to a dtype (positions to float32 or better), everything to a device."""
        wide = None if dtype is None else torch.promote_types(dtype, torch.float32)
        flags = {name: getattr(self, name) for name in ("order", "document", "valid")}
        moved = {name: flag.to(device=device) for name, flag in flags.items() if flag is not None}
        positions = self.positions.to(device=device, dtype=wide)
        counted = (positions, moved["order"]) if self.is_consecutive else None
        return replace(self, x=self.x.to(device=device, dtype=dtype), positions=positions, counted=counted, **moved)

    def leaves(self, axis: str = "token") -> Iterator[tuple[Tensor, tuple[str, str, str, tuple[str, ...], str]]]:
        """How a trace names these numbers: id, symbol, label, axes, kind; axis names the rows ("source" where they only answer)."""
        many = ("batch",) * (self.x.ndim - 2)
        yield self.x, ("X", "X", "features of the tokens", (*many, axis, "feature"), "content")
        many = ("batch",) * (self.positions.ndim - 2)
        yield self.positions, ("positions", "t", "positions of the tokens", (*many, axis, "axis"), "coordinate")
        flags = {
            "order": (self.order, "o", "ranks of the tokens", "order"),
            "document": (self.document, "d", "text that each token belongs to", "document"),
            "valid": (self.valid, "v", "whether a row is a token", "valid"),
        }
        for name, (flag, symbol, label, kind) in flags.items():
            if flag is not None:
                yield flag, (name, symbol, label, (*("batch",) * (flag.ndim - 1), axis), kind)


def alike(a: Sequence[int], b: Sequence[int]) -> bool:
    """Whether two shapes of leading axes broadcast. (`torch.broadcast_shapes` would load sympy first.)"""
    return all(n == m or 1 in (n, m) for n, m in zip(reversed(a), reversed(b), strict=False))
