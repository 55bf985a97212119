"""Actions on vocabularies and positions: relabelled ids, fractional shifts, scaled positions.

Moving a text inside a longer padded window is no action of its own: `left-padding` and `right-padding` check it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar, Self

import torch
from torch import Generator, Tensor

from equiscope.symmetry.actions import Action, Shift
from equiscope.symmetry.inputs import InputKind, Inputs
from equiscope.symmetry.representations import family

NAMES = 64  # ids that are relabelled at most


@dataclass(frozen=True)
class Relabel(Action):
    """Permute the vocabulary: id old[i] becomes new[i], the same ids in another order; all others stay.

    In an output with one entry for each id of the vocabulary, in the last axis, these entries are permuted too.
    """

    old: tuple[int, ...]
    new: tuple[int, ...]
    name: ClassVar[str] = "relabel"
    summary: ClassVar[str] = "permute the vocabulary"
    acts_on: ClassVar[tuple[InputKind, ...]] = ("ids",)
    inside: ClassVar[bool] = False
    by_default: ClassVar[bool] = False  # an embedding exists to distinguish ids

    @classmethod
    def missing(cls, inputs: Inputs) -> str:
        return super().missing(inputs) or ("" if len(_names(inputs)) > 1 else "there is one id only")

    @classmethod
    def sample(cls, inputs: Any, generator: Generator) -> Self:
        old = _names(inputs)
        order = torch.randperm(len(old), generator=generator).tolist()
        return cls(old, tuple(old[i] for i in order))

    @classmethod
    def samples(cls, inputs: Any, generator: Generator, count: int) -> list[Self]:
        return [next(iter(cls.simpler(inputs)))] + [cls.sample(inputs, generator) for _ in range(count - 1)]

    @classmethod
    def distinguishing(cls, inputs: Any) -> "Action | None":
        old = _names(inputs)
        return cls(old, (*old[1:], old[0]))

    @classmethod
    def simpler(cls, inputs: Any) -> Iterator[Self]:
        names = _names(inputs)
        yield from (cls((a, b), (b, a)) for a, b in pairwise(names))

    @classmethod
    def representations(cls, output: Tensor, axes: tuple[int, ...], inputs: Any) -> tuple[str, ...]:
        largest = max(_names(inputs), default=0) if isinstance(inputs, Inputs) else 0
        return ("invariant", "renamed") if output.ndim and output.shape[-1] > largest else ("invariant",)

    def describe(self) -> str:
        renamed = [f"{a} as {b}" for a, b in zip(self.old, self.new, strict=True) if a != b]
        return f"relabel the ids {', '.join(renamed[:4])}{', ...' if len(renamed) > 4 else ''}"

    def on_input(self, inputs: Any) -> Any:
        return inputs.each(self._renamed, "ids") if isinstance(inputs, Inputs) else self._renamed(inputs)

    def on_output(self, output: Tensor) -> Tensor:
        moved = output.clone()
        moved[..., list(self.new)] = output[..., list(self.old)]
        return moved

    def moved(self, output: Tensor, representation: str, axes: tuple[int, ...]) -> Tensor:
        if representation != "renamed":
            family(representation)
        return self.on_output(output) if representation == "renamed" else output

    @classmethod
    def possible_representations(cls, given: str | None, output: Tensor, axes: tuple[int, ...], inputs: Any) -> tuple[str, ...]:
        return (given,) if given in ("renamed", "invariant") else cls.representations(output, axes, inputs)

    def _renamed(self, ids: Tensor) -> Tensor:
        renamed = ids.clone()
        for a, b in zip(self.old, self.new, strict=True):
            renamed[ids == a] = b
        return renamed


@dataclass(frozen=True)
class RealShift(Shift):
    """Add any real offset to every position. Ranks stay."""

    name: ClassVar[str] = "real-shift"
    summary: ClassVar[str] = "shift all positions by a fraction"
    acts_on: ClassVar[tuple[InputKind, ...]] = ("tokens", "coordinates")
    by_default: ClassVar[bool] = False  # the Lie derivative of `shift` covers it

    @classmethod
    def samples(cls, inputs: Any, generator: Generator, count: int) -> list[Self]:
        return [cls(0.5), cls(0.001)][:count] + [cls.sample(inputs, generator) for _ in range(count - 2)]

    @classmethod
    def sample(cls, inputs: Any, generator: Generator) -> Self:
        return cls(100 * torch.rand((), generator=generator, dtype=torch.float64).item())

    @classmethod
    def simpler(cls, inputs: Any) -> Iterator[Self]:
        yield from (cls(by) for by in (0.5, 0.25, 0.001))

    @classmethod
    def subgroups(cls, inputs: Any) -> Iterator[tuple[str, list[Self]]]:
        yield "shifts by whole numbers", [cls(1.0), cls(2.0), cls(5.0)]

    def on_input(self, tokens: Any) -> Any:
        if isinstance(tokens, Inputs):
            return tokens.each(self._shifted, "coordinates").each(self.on_input, "tokens")
        return replace(tokens, positions=self._shifted(tokens.positions))

    def _shifted(self, positions: Tensor) -> Tensor:
        return (positions.double() + torch.tensor(self.by, dtype=torch.float64, device=positions.device)).to(positions.dtype)


@dataclass(frozen=True)
class Stretch(Action):
    """Multiply every position by a factor, as in other units."""

    factor: float
    name: ClassVar[str] = "stretch"
    summary: ClassVar[str] = "multiply all positions by a factor"
    acts_on: ClassVar[tuple[InputKind, ...]] = ("tokens", "coordinates", "position_ids")
    inside: ClassVar[bool] = False
    by_default: ClassVar[bool] = False  # a scheme that reads distances exists to distinguish them

    @classmethod
    def sample(cls, inputs: Any, generator: Generator) -> Self:
        return cls(float(2 + int(torch.randint(8, (), generator=generator))))

    @classmethod
    def samples(cls, inputs: Any, generator: Generator, count: int) -> list[Self]:
        return [cls(2.0)] + [cls.sample(inputs, generator) for _ in range(count - 1)]

    @classmethod
    def simpler(cls, inputs: Any) -> Iterator[Self]:
        yield from (cls(by) for by in (2.0, 3.0, 10.0))

    def describe(self) -> str:
        return f"multiply every position by {self.factor:g}"

    def on_input(self, tokens: Any) -> Any:
        if isinstance(tokens, Inputs):
            return tokens.each(self._scaled, "position_ids", "coordinates").each(self.on_input, "tokens")
        return replace(tokens, positions=self._scaled(tokens.positions))

    def _scaled(self, positions: Tensor) -> Tensor:
        return (positions.double() * self.factor).to(positions.dtype)


def _names(inputs: Any) -> tuple[int, ...]:
    """The ids that occur, the smallest first."""
    tensors = inputs.of("ids").values() if isinstance(inputs, Inputs) else (inputs,)
    return tuple(sorted({int(i) for t in tensors for i in torch.unique(t)}))[:NAMES]


WORDS: tuple[type[Action], ...] = (Relabel, RealShift, Stretch)
