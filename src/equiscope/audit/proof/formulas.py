"""Formulas: a tensor whose entries are formulas in the inputs and the parameters, each known by its number in the field."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from equiscope.audit.proof.field import PRIME, constant


@dataclass(frozen=True)
class Formulas:
    """t: numbers of the field; dtype: of the tensor that they stand for."""

    t: Tensor
    dtype: torch.dtype

    @property
    def truth(self) -> bool:
        """Whether the entries are true or false: 1, 0, or a letter for what is one of the two."""
        return self.dtype == torch.bool


@dataclass(frozen=True)
class Call:
    """One operation: what is read, and the shape that comes out.

    deep  large negative constants count as minus infinity
    made  what comes out, without numbers (a fake tensor, or several)
    """

    op: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    made: Any = None
    deep: bool = False

    @property
    def name(self) -> str:
        return str(self.op.overloadpacket.__name__)

    def arg(self, number: int, name: str, default: Any = None) -> Any:
        """An argument, by position or by name."""
        return self.args[number] if number < len(self.args) else self.kwargs.get(name, default)

    def lifted(self, value: Any) -> Tensor:
        """Any number or tensor, in the field."""
        if isinstance(value, Formulas):
            return value.t
        if isinstance(value, Tensor):
            return constant(value, self.deep)
        return constant(torch.tensor(value, dtype=torch.float64 if isinstance(value, float) else None), self.deep)

    def dims(self, number: int, name: str, ndim: int) -> list[int]:
        """The axes that are asked for, from 0; all where none is."""
        given = self.arg(number, name)
        given = [given] if isinstance(given, int) else list(given or range(ndim))
        return [d % ndim for d in given] if ndim else []


Made = Tensor | tuple[Tensor | None, ...]
Rule = Callable[[Call], Made]


def truth(value: Any) -> bool:
    """Whether a value is true or false by its type."""
    return value.dtype == torch.bool if isinstance(value, (Tensor, Formulas)) else isinstance(value, bool)


def known(t: Tensor) -> Tensor:
    """Where a truth value is 0 or 1, and no letter."""
    return t <= 1


__all__ = ["PRIME", "Call", "Formulas", "Made", "Rule", "known", "truth"]
