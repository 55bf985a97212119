"""Variants: two calls that a statement relates, letter for letter, and how their numbers have to agree.

Exchanging two tokens and moving all by one make every order, so two variants say all of them. A token that reads no later one is
the same whatever stands later, for every place. A sequence that stands alone is the same beside others, and in another row.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice, product
from typing import Any

import torch
from torch import Tensor

from equiscope.audit.proof.exported_program import Leaf
from equiscope.audit.proof.formulas import Formulas, unknown_numbers

READINGS = 256  # ways to read a tensor's axes that are tried when the place is looked for


class Variant:
    """plain and moved: values of the leaves."""

    original: list[Any]
    transformed: list[Any]
    size: int  # of the axis in question

    def sides(self, original: Tensor, transformed: Tensor, axes: tuple[int, ...]) -> tuple[Tensor, Tensor] | None:
        """Of an output: what has to be equal; None where nothing is said of it."""
        raise AssertionError(type(self).__name__)

    def agrees(self, original: Tensor, transformed: Tensor, places: list[Tensor | None]) -> bool:
        """Of a tensor inside, where `places` says for every axis which of the tokens (or sequences) stands where."""
        raise AssertionError(type(self).__name__)

    def readable(self, original: Tensor, transformed: Tensor) -> bool:
        """Whether there is any reading of the axes in which the tensor does what the statement asks."""
        if torch.equal(original, transformed):
            return True
        ways = [_ways(size, self.size) for size in original.shape]
        return any(self.agrees(original, transformed, list(way)) for way in islice(product(*ways), READINGS))


def _ways(size: int, count: int) -> list[Tensor | None]:
    """How an axis may hold so many tokens: not at all, or as the middle one of three that were merged."""
    if size % count:
        return [None]
    rest = size // count
    inner = [b for b in range(1, rest + 1) if rest % b == 0]
    return [torch.arange(size) // b % count for b in inner] + [None]


@dataclass
class Order(Variant):
    """The words in another order: order[i] is the old row that comes to row i."""

    original: list[Any]
    transformed: list[Any]
    size: int
    order: list[int]

    def sides(self, original: Tensor, transformed: Tensor, axes: tuple[int, ...]) -> tuple[Tensor, Tensor] | None:
        for axis in axes:
            original = original.index_select(axis, torch.tensor(self.order))
        return original, transformed

    def agrees(self, original: Tensor, transformed: Tensor, places: list[Tensor | None]) -> bool:
        for axis, place in enumerate(places):
            if place is not None:
                step = int((place == 0).long().argmin()) if self.size > 1 else 1  # how many entries a token has in a row
                rows = torch.arange(len(place)) + (torch.tensor(self.order)[place] - place) * max(step, 1)
                original = original.index_select(axis, rows)
        return torch.equal(original, transformed)


@dataclass
class Later(Variant):
    """Other words from a place on."""

    original: list[Any]
    transformed: list[Any]
    size: int
    place: int

    def sides(self, original: Tensor, transformed: Tensor, axes: tuple[int, ...]) -> tuple[Tensor, Tensor] | None:
        if not axes:
            return None
        for axis in axes:
            original, transformed = original.narrow(axis, 0, self.place), transformed.narrow(axis, 0, self.place)
        return original, transformed

    def agrees(self, original: Tensor, transformed: Tensor, places: list[Tensor | None]) -> bool:
        if all(p is None for p in places):
            return False
        for axis, place in enumerate(places):
            if place is not None:
                rows = (place < self.place).nonzero().flatten()
                original, transformed = original.index_select(axis, rows), transformed.index_select(axis, rows)
        return torch.equal(original, transformed)


@dataclass
class Beside(Variant):
    """The first sequence in another row, with others beside it."""

    original: list[Any]
    transformed: list[Any]
    size: int
    row: int

    def sides(self, original: Tensor, transformed: Tensor, axes: tuple[int, ...]) -> tuple[Tensor, Tensor] | None:
        return (original.select(axes[0], 0), transformed.select(axes[0], self.row)) if axes else None

    def agrees(self, original: Tensor, transformed: Tensor, places: list[Tensor | None]) -> bool:
        if sum(p is not None for p in places) != 1:
            return False
        axis, place = next((a, p) for a, p in enumerate(places) if p is not None)
        first, other = ((place == row).nonzero().flatten() for row in (0, self.row))
        return torch.equal(original.index_select(axis, first), transformed.index_select(axis, other))


def _free(parts: list[Leaf], seed: int, name: str) -> list[Any]:
    return [
        unknown_numbers(leaf.value, "input", leaf.argument, leaf.part, name, seed) if leaf.free else leaf.value for leaf in parts
    ]


def _in_row(here: Tensor, axis: int, rows: Tensor, ours: Tensor, others: Tensor) -> Tensor:
    """The sequence where `here` says, and others beside it."""
    return torch.where(here, ours.index_select(axis, rows), others)


def _changed(value: Any, change: Any) -> Any:
    return value.map(change) if isinstance(value, Formulas) else change(value)


def orders(parts: list[Leaf], length: int, seed: int) -> Iterator[Order]:
    """The two that make all."""
    original = _free(parts, seed, "plain")
    every = list(range(length))
    for order in ([1, 0, *every[2:]], [*every[1:], 0]):
        transformed = []
        place = torch.empty(length, dtype=torch.long)
        rows = torch.tensor(order)
        place[rows] = torch.arange(length)
        for leaf, value in zip(parts, original, strict=True):
            if leaf.edges:
                transformed.append(place[value])
            elif leaf.words is not None:
                transformed.append(_changed(value, lambda t, axis=leaf.words, rows=rows: t.index_select(t.ndim + axis, rows)))
            else:
                transformed.append(value)
        yield Order(original, transformed, length, order)


def laters(parts: list[Leaf], length: int, seed: int) -> Iterator[Later]:
    """From every place on, the last ones first: what looks one token ahead is seen by all."""
    original, other = _free(parts, seed, "plain"), _free(parts, seed, "other")
    for place in range(1, length):
        transformed = []
        for leaf, value, new in zip(parts, original, other, strict=True):
            if leaf.free and leaf.words is not None:
                size = value.t.ndim + leaf.words
                late = (torch.arange(length) >= place).view([length if d == size else 1 for d in range(value.t.ndim)])
                transformed.append(value.map(lambda a, b, late=late: torch.where(late, b, a), new))
            else:
                transformed.append(value)
        yield Later(original, transformed, length, place)


def besides(parts: list[Leaf], batch: int, seed: int) -> Iterator[Beside]:
    """Others beside it, in every row."""
    original = _free(parts, seed, "plain")
    for row in range(batch):
        other = _free(parts, seed, f"other {row}")
        transformed = []
        for leaf, value, new in zip(parts, original, other, strict=True):
            rows = torch.tensor([row if r == 0 else 0 if r == row else r for r in range(batch)])
            if leaf.rows is None:
                transformed.append(value)
            elif leaf.free:
                here = (torch.arange(batch) == row).view([batch if d == leaf.rows else 1 for d in range(value.t.ndim)])
                transformed.append(value.map(partial(_in_row, here, leaf.rows, rows), new))
            else:
                transformed.append(value.index_select(leaf.rows, rows))
        yield Beside(original, transformed, batch, row)
