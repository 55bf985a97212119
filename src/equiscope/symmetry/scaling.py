"""Scaling by a positive factor: the output is invariant, or proportional to a power of the factor, which is measured.

Examples: lengths in other units, an amplified waveform. An energy proportional to 1 / distance has the power -1.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from torch import Generator, Tensor

from equiscope.symmetry.actions import Action
from equiscope.symmetry.representations import family

POWERS = (1.0, 2.0, -1.0, -2.0, 3.0, -3.0, 0.5, -0.5, 4.0, -4.0, 6.0, -6.0, 12.0, -12.0)
FACTORS = (1.001, 2.0, 0.5, 10.0)


@dataclass(frozen=True)
class Scaling(Action):
    """Multiply inputs of some kinds by a positive factor."""

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
    def distinguishing(cls, inputs: Any) -> "Action | None":
        return cls(2.0)

    @classmethod
    def simpler(cls, inputs: Any) -> Iterator[Self]:
        yield from (cls(f) for f in (2.0, 10.0, 1.001))

    @classmethod
    def representations(cls, output: Tensor, axes: tuple[int, ...], inputs: Any) -> tuple[str, ...]:
        return ("invariant", *(f"power {p:g}" for p in POWERS))

    @classmethod
    def possible_representations(cls, given: str | None, output: Tensor, axes: tuple[int, ...], inputs: Any) -> tuple[str, ...]:
        own = given is not None and (given == "invariant" or family(given) == "power")
        return (given,) if own and given else cls.representations(output, axes, inputs)

    def describe(self) -> str:
        return f"{self.summary}: times {self.factor:.6g}"

    def on_output(self, output: Tensor) -> Tensor:
        return output * self.factor

    def moved(self, output: Tensor, representation: str, axes: tuple[int, ...]) -> Tensor:
        return output * self.factor ** self.power(representation)

    def power(self, representation: str) -> float:
        """Exponent of the factor in this representation. Raises UnknownName."""
        return float(representation.split()[1]) if family(representation) == "power" else 0.0
