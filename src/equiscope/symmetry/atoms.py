"""Atoms: permutations within one element, and other units of length."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar, Self

import torch
from torch import Generator, Tensor

from equiscope.symmetry.actions import Action, Permute, exchanged
from equiscope.symmetry.inputs import InputKind, Inputs
from equiscope.symmetry.motions import in_space
from equiscope.symmetry.scaling import Scaling


class PermuteLike(Permute):
    """Exchange atoms of the same element only. A model may distinguish atoms by element, not by row."""

    name: ClassVar[str] = "permute-like"
    summary: ClassVar[str] = "exchange atoms of the same element"
    implies: ClassVar[tuple[str, ...]] = ()
    acts_on: ClassVar[tuple[InputKind, ...]] = ("atoms",)
    shortens: ClassVar[bool] = False

    @classmethod
    def missing(cls, inputs: Inputs) -> str:
        if not inputs.has("atoms"):
            return "the model is given no atoms"
        return "" if any(len(rows) > 1 for rows in alike(inputs)) else "no two atoms are of the same element"

    @classmethod
    def sample(cls, inputs: Any, generator: Generator) -> Self:
        order = list(range(inputs.length or 0))
        for rows in alike(inputs):
            for i, j in zip(rows, torch.randperm(len(rows), generator=generator).tolist(), strict=True):
                order[i] = rows[j]
        return cls(tuple(order))

    @classmethod
    def samples(cls, inputs: Any, generator: Generator, count: int) -> list[Self]:
        swaps = [*cls.simpler(inputs)][: max(count // 2, 1)]
        return swaps + [cls.sample(inputs, generator) for _ in range(count - len(swaps))]

    @classmethod
    def simpler(cls, inputs: Any) -> Iterator[Self]:
        for rows in alike(inputs):
            yield from (cls(exchanged(inputs.length or 0, i, j)) for i, j in pairwise(rows))

    @classmethod
    def subgroups(cls, inputs: Any) -> Iterator[tuple[str, list[Self]]]:
        return iter(())


@dataclass(frozen=True)
class Scale(Scaling):
    """Multiply points and vectors by a factor, as in other units of length."""

    name: ClassVar[str] = "scale"
    summary: ClassVar[str] = "multiply the points by a factor"
    acts_on: ClassVar[tuple[InputKind, ...]] = ("points", "vectors", "tokens", "coordinates")

    @classmethod
    def missing(cls, inputs: Inputs) -> str:
        return "" if in_space(inputs, cls.acts_on) else "the model is given no points in space"

    def on_input(self, inputs: Any) -> Any:
        if isinstance(inputs, Inputs):
            return inputs.each(self._scaled, "points", "vectors", "coordinates").each(self.on_input, "tokens")
        return self._scaled(inputs) if isinstance(inputs, Tensor) else replace(inputs, positions=self._scaled(inputs.positions))

    def _scaled(self, points: Tensor) -> Tensor:
        return (points.double() * self.factor).to(points.dtype) if points.shape[-1] == 3 else points


def alike(inputs: Inputs) -> list[list[int]]:
    """Rows of atoms of the same element, in every molecule of the batch."""
    atoms = torch.stack([a.reshape(-1, a.shape[-1]) for a in inputs.of("atoms").values()]).flatten(0, 1)
    kinds: dict[tuple[int, ...], list[int]] = {}
    for row, kind in enumerate(atoms.mT.tolist()):
        kinds.setdefault(tuple(kind), []).append(row)
    return list(kinds.values())


ATOMS: tuple[type[Action], ...] = (PermuteLike, Scale)
