"""Words: other names for them, and places between whole numbers or further apart.

Moving a text inside a longer window is no action of its own: it is what `left-padding` and `right-padding` check.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar, Self

import torch
from torch import Generator, Tensor

from equiscope.symmetry.actions import Action, Shift
from equiscope.symmetry.inputs import Inputs, Kind
from equiscope.symmetry.ways import family

NAMES = 64  # ids that change their names at most


@dataclass(frozen=True)
class Relabel(Action):
    """Rename the vocabulary: id old[i] becomes new[i], which are the same ids in another order; all others keep their names.

    An output with one entry a word of the vocabulary, in the last axis, has these entries renamed too.
    """

    old: tuple[int, ...]
    new: tuple[int, ...]
    name: ClassVar[str] = "relabel"
    summary: ClassVar[str] = "give the words other names"
    acts_on: ClassVar[tuple[Kind, ...]] = ("ids",)
    inside: ClassVar[bool] = False
    usual: ClassVar[bool] = False  # an embedding is there to tell words apart

    @classmethod
    def missing(cls, inputs: Inputs) -> str:
        return super().missing(inputs) or ("" if len(_names(inputs)) > 1 else "there is one word only")

    @classmethod
    def sample(cls, inputs: Any, generator: Generator) -> Self:
        old = _names(inputs)
        order = torch.randperm(len(old), generator=generator).tolist()
        return cls(old, tuple(old[i] for i in order))

    @classmethod
    def samples(cls, inputs: Any, generator: Generator, count: int) -> list[Self]:
        return [next(iter(cls.simpler(inputs)))] + [cls.sample(inputs, generator) for _ in range(count - 1)]

    @classmethod
    def telling(cls, inputs: Any) -> "Action | None":
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

    def told(self) -> str:
        renamed = [f"{a} as {b}" for a, b in zip(self.old, self.new, strict=True) if a != b]
        return f"write the word {', '.join(renamed[:4])}{', ...' if len(renamed) > 4 else ''}"

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
    def ways(cls, said: str | None, output: Tensor, axes: tuple[int, ...], inputs: Any) -> tuple[str, ...]:
        return (said,) if said in ("renamed", "invariant") else cls.representations(output, axes, inputs)

    def _renamed(self, ids: Tensor) -> Tensor:
        made = ids.clone()
        for a, b in zip(self.old, self.new, strict=True):
            made[ids == a] = b
        return made


@dataclass(frozen=True)
class RealShift(Shift):
    """Move the whole text along by any number: places between the whole ones too. Ranks stay."""

    name: ClassVar[str] = "real-shift"
    summary: ClassVar[str] = "move the whole text along by a fraction"
    acts_on: ClassVar[tuple[Kind, ...]] = ("tokens", "coordinates")
    usual: ClassVar[bool] = False  # the Lie derivative of `shift` sees it too

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
            return tokens.each(self._along, "coordinates").each(self.on_input, "tokens")
        return replace(tokens, positions=self._along(tokens.positions))

    def _along(self, positions: Tensor) -> Tensor:
        return (positions.double() + torch.tensor(self.by, dtype=torch.float64, device=positions.device)).to(positions.dtype)


@dataclass(frozen=True)
class Stretch(Action):
    """Move the words apart: every place times a factor. A text read slower, a place in other units."""

    factor: float
    name: ClassVar[str] = "stretch"
    summary: ClassVar[str] = "move the words apart"
    acts_on: ClassVar[tuple[Kind, ...]] = ("tokens", "coordinates", "position_ids")
    inside: ClassVar[bool] = False
    usual: ClassVar[bool] = False  # what reads distances is there to tell near from far

    @classmethod
    def sample(cls, inputs: Any, generator: Generator) -> Self:
        return cls(float(2 + int(torch.randint(8, (), generator=generator))))

    @classmethod
    def samples(cls, inputs: Any, generator: Generator, count: int) -> list[Self]:
        return [cls(2.0)] + [cls.sample(inputs, generator) for _ in range(count - 1)]

    @classmethod
    def simpler(cls, inputs: Any) -> Iterator[Self]:
        yield from (cls(by) for by in (2.0, 3.0, 10.0))

    def told(self) -> str:
        return f"multiply every place by {self.factor:g}"

    def on_input(self, tokens: Any) -> Any:
        if isinstance(tokens, Inputs):
            return tokens.each(self._apart, "position_ids", "coordinates").each(self.on_input, "tokens")
        return replace(tokens, positions=self._apart(tokens.positions))

    def _apart(self, positions: Tensor) -> Tensor:
        return (positions.double() * self.factor).to(positions.dtype)


def _names(inputs: Any) -> tuple[int, ...]:
    """The ids that occur, the smallest first."""
    tensors = inputs.of("ids").values() if isinstance(inputs, Inputs) else (inputs,)
    return tuple(sorted({int(i) for t in tensors for i in torch.unique(t)}))[:NAMES]


WORDS: tuple[type[Action], ...] = (Relabel, RealShift, Stretch)
