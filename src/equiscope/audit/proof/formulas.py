"""Formulas: a tensor whose entries are formulas in the inputs and the parameters, each represented by a number in the field."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from equiscope.audit.proof.field import constant, function, indeterminates


@dataclass(frozen=True)
class Formulas:
    """t: numbers of the field; dtype: of the represented tensor; imag: imaginary parts of complex numbers."""

    t: Tensor
    dtype: torch.dtype
    imag: Tensor | None = None

    @property
    def whole(self) -> Tensor:
        """One number for each entry."""
        return self.t if self.imag is None else function("complex", self.t, self.imag)

    def map(self, change: Callable[..., Tensor], *others: "Formulas") -> "Formulas":
        """The change applied to real and imaginary parts, of this and of others."""
        real = change(self.t, *(other.t for other in others))
        return Formulas(real, self.dtype, None if self.imag is None else change(self.imag, *(other.imag for other in others)))


def unknown_values(like: Tensor, *name: object) -> Formulas:
    """Indeterminates with the shape of a tensor: nothing is known of its entries."""
    imag = indeterminates(like.shape, *name, "imaginary") if like.dtype.is_complex else None
    return Formulas(indeterminates(like.shape, *name), like.dtype, imag)


def in_field(value: Any, masks_infinite: bool = False) -> Tensor:
    """Any number or tensor as numbers of the field, one for each entry."""
    if isinstance(value, Formulas):
        return value.whole
    t = value if isinstance(value, Tensor) else torch.tensor(value, dtype=torch.float64 if isinstance(value, float) else None)
    return (
        function("complex", constant(t.real, masks_infinite), constant(t.imag, masks_infinite))
        if t.is_complex()
        else constant(t, masks_infinite)
    )
