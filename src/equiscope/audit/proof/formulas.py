"""Formulas: a tensor whose entries are formulas in the inputs and the parameters, each known by its number in the field."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from equiscope.audit.proof.field import constant, function, letters


@dataclass(frozen=True)
class Formulas:
    """t: numbers of the field; dtype: of the tensor that they stand for; imag: of complex numbers the imaginary parts."""

    t: Tensor
    dtype: torch.dtype
    imag: Tensor | None = None

    @property
    def whole(self) -> Tensor:
        """One number for each entry."""
        return self.t if self.imag is None else function("complex", self.t, self.imag)

    def map(self, change: Callable[..., Tensor], *others: "Formulas") -> "Formulas":
        """The same done to real and imaginary parts, of these and of others."""
        real = change(self.t, *(other.t for other in others))
        return Formulas(real, self.dtype, None if self.imag is None else change(self.imag, *(other.imag for other in others)))


def unknown_numbers(like: Tensor, *name: object) -> Formulas:
    """Letters in the place of a tensor: nothing is known of its entries."""
    imag = letters(like.shape, *name, "imaginary") if like.dtype.is_complex else None
    return Formulas(letters(like.shape, *name), like.dtype, imag)


def lifted(value: Any, deep: bool = False) -> Tensor:
    """Any number or tensor, in the field: one number for each entry."""
    if isinstance(value, Formulas):
        return value.whole
    t = value if isinstance(value, Tensor) else torch.tensor(value, dtype=torch.float64 if isinstance(value, float) else None)
    return function("complex", constant(t.real, deep), constant(t.imag, deep)) if t.is_complex() else constant(t, deep)
