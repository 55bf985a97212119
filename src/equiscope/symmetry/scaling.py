"""Scaling: everything made larger by one factor; the output stays, or grows with a power of it, which is measured.

A length in other units, a sound played louder. An energy that falls with the distance has the power -1.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from torch import Generator, Tensor

from equiscope.symmetry.actions import Action
from equiscope.symmetry.ways import family

POWERS = (1.0, 2.0, -1.0, -2.0, 3.0, -3.0, 0.5, -0.5, 4.0, -4.0, 6.0, -6.0, 12.0, -12.0)
FACTORS = (1.001, 2.0, 0.5, 10.0)


@dataclass(frozen=True)
class Scaling(Action):
    """Numbers of some kinds times a factor above zero."""

    factor: float
    shortens: ClassVar[bool] = True
    inside: ClassVar[bool] = False

    @classmethod
    def sample(cls, inputs: Any, generator: Generator) -> Self:
        return cls(10 ** (2 * torch.rand((), generator=generator, dtype=torch.float64).item() - 1))

    @classmethod
    def samples(cls, inputs: Any, generator: Generator, count: int) -> list[Self]:
        first = [cls(f) for f in FACTORS[: max(count // 2, 1)]]
        return first + [cls.sample(inputs, generator) for _ in range(count - len(first))]

    @classmethod
    def telling(cls, inputs: Any) -> "Action | None":
        return cls(2.0)

    @classmethod
    def simpler(cls, inputs: Any) -> Iterator[Self]:
        yield from (cls(f) for f in (2.0, 10.0, 1.001))

    @classmethod
    def representations(cls, output: Tensor, axes: tuple[int, ...], inputs: Any) -> tuple[str, ...]:
        return ("invariant", *(f"power {p:g}" for p in POWERS))

    @classmethod
    def ways(cls, said: str | None, output: Tensor, axes: tuple[int, ...], inputs: Any) -> tuple[str, ...]:
        own = said is not None and (said == "invariant" or family(said) == "power")
        return (said,) if own and said else cls.representations(output, axes, inputs)

    def told(self) -> str:
        return f"{self.summary}: times {self.factor:.6g}"

    def on_output(self, output: Tensor) -> Tensor:
        return output * self.factor

    def moved(self, output: Tensor, representation: str, axes: tuple[int, ...]) -> Tensor:
        return output * self.factor ** self.power(representation)

    def power(self, representation: str) -> float:
        """Of the factor, in which such an output grows. Raises UnknownName."""
        return float(representation.split()[1]) if family(representation) == "power" else 0.0
