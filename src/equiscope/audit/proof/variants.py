"""Variants: two calls that a statement relates, on indeterminates, and how their outputs have to agree.

A transposition and a cyclic shift generate all permutations, so two variants cover them. Causality: the outputs before every
position are equal whatever follows. Batch independence: the outputs of a sequence are equal beside others and in another row.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice, product
from typing import Any

import torch
from torch import Tensor

from equiscope.audit.proof.exported_program import ProofLeaf
from equiscope.audit.proof.formulas import Formulas, unknown_values

MAX_READINGS = 256  # interpretations of the axes of a tensor that are tried


class ProofVariant:
    """original and transformed: values of the leaves."""

    original: list[Any]
    transformed: list[Any]
    size: int  # of the axis in question

    def sides(self, original: Tensor, transformed: Tensor, axes: tuple[int, ...]) -> tuple[Tensor, Tensor] | None:
        """The parts of an output that have to be equal; None where the statement does not cover it."""
        raise AssertionError(type(self).__name__)

    def agrees(self, original: Tensor, transformed: Tensor, token_indices: list[Tensor | None]) -> bool:
        """Whether a tensor inside satisfies the statement; token_indices: for every axis, the token (or sequence) at each index."""
        raise AssertionError(type(self).__name__)

    def readable(self, original: Tensor, transformed: Tensor) -> bool:
        """Whether the tensor satisfies the statement for any interpretation of its axes."""
        if torch.equal(original, transformed):
            return True
        readings = [_axis_readings(size, self.size) for size in original.shape]
        return any(self.agrees(original, transformed, list(way)) for way in islice(product(*readings), MAX_READINGS))


def _axis_readings(size: int, count: int) -> list[Tensor | None]:
    """Interpretations of an axis for `count` tokens: without tokens, or as the middle one of three merged axes."""
    if size % count:
        return [None]
    rest = size // count
    inner = [b for b in range(1, rest + 1) if rest % b == 0]
    return [torch.arange(size) // b % count for b in inner] + [None]


@dataclass
class PermutedTokens(ProofVariant):
    """The tokens in another order: order[i] is the old row that moves to row i."""

    original: list[Any]
    transformed: list[Any]
    size: int
    order: list[int]

    def sides(self, original: Tensor, transformed: Tensor, axes: tuple[int, ...]) -> tuple[Tensor, Tensor] | None:
        for axis in axes:
            original = original.index_select(axis, torch.tensor(self.order))
        return original, transformed

    def agrees(self, original: Tensor, transformed: Tensor, token_indices: list[Tensor | None]) -> bool:
        for axis, index in enumerate(token_indices):
            if index is not None:
                step = int((index == 0).long().argmin()) if self.size > 1 else 1  # how many entries a token has in a row
                rows = torch.arange(len(index)) + (torch.tensor(self.order)[index] - index) * max(step, 1)
                original = original.index_select(axis, rows)
        return torch.equal(original, transformed)


@dataclass
class ChangedSuffix(ProofVariant):
    """Other tokens from a position on."""

    original: list[Any]
    transformed: list[Any]
    size: int
    position: int

    def sides(self, original: Tensor, transformed: Tensor, axes: tuple[int, ...]) -> tuple[Tensor, Tensor] | None:
        if not axes:
            return None
        for axis in axes:
            original, transformed = original.narrow(axis, 0, self.position), transformed.narrow(axis, 0, self.position)
        return original, transformed

    def agrees(self, original: Tensor, transformed: Tensor, token_indices: list[Tensor | None]) -> bool:
        if all(p is None for p in token_indices):
            return False
        for axis, index in enumerate(token_indices):
            if index is not None:
                rows = (index < self.position).nonzero().flatten()
                original, transformed = original.index_select(axis, rows), transformed.index_select(axis, rows)
        return torch.equal(original, transformed)


@dataclass
class MovedSequence(ProofVariant):
    """The first sequence in another row, with other sequences around it."""

    original: list[Any]
    transformed: list[Any]
    size: int
    row: int

    def sides(self, original: Tensor, transformed: Tensor, axes: tuple[int, ...]) -> tuple[Tensor, Tensor] | None:
        return (original.select(axes[0], 0), transformed.select(axes[0], self.row)) if axes else None

    def agrees(self, original: Tensor, transformed: Tensor, token_indices: list[Tensor | None]) -> bool:
        if sum(p is not None for p in token_indices) != 1:
            return False
        axis, index = next((a, p) for a, p in enumerate(token_indices) if p is not None)
        first, other = ((index == row).nonzero().flatten() for row in (0, self.row))
        return torch.equal(original.index_select(axis, first), transformed.index_select(axis, other))


def _free_values(leaves: list[ProofLeaf], seed: int, name: str) -> list[Any]:
    return [
        unknown_values(leaf.value, "input", leaf.argument, leaf.part, name, seed) if leaf.free else leaf.value for leaf in leaves
    ]


def _insert_sequence(here: Tensor, axis: int, rows: Tensor, own: Tensor, others: Tensor) -> Tensor:
    """The own sequence where `here` is true, others elsewhere."""
    return torch.where(here, own.index_select(axis, rows), others)


def _apply(value: Any, change: Any) -> Any:
    return value.map(change) if isinstance(value, Formulas) else change(value)


def token_permutations(leaves: list[ProofLeaf], length: int, seed: int) -> Iterator[PermutedTokens]:
    """Two permutations that generate all."""
    original = _free_values(leaves, seed, "plain")
    identity = list(range(length))
    for order in ([1, 0, *identity[2:]], [*identity[1:], 0]):
        transformed = []
        new_row = torch.empty(length, dtype=torch.long)
        rows = torch.tensor(order)
        new_row[rows] = torch.arange(length)
        for leaf, value in zip(leaves, original, strict=True):
            if leaf.edges:
                transformed.append(new_row[value])
            else:
                for axis in leaf.token_axes:
                    value = _apply(value, lambda t, axis=axis, rows=rows: t.index_select(t.ndim + axis, rows))
                transformed.append(value)
        yield PermutedTokens(original, transformed, length, order)


def changed_suffixes(leaves: list[ProofLeaf], length: int, seed: int) -> Iterator[ChangedSuffix]:
    """A change of all tokens from each position on."""
    original, other = _free_values(leaves, seed, "plain"), _free_values(leaves, seed, "other")
    for position in range(1, length):
        transformed = []
        for leaf, value, new in zip(leaves, original, other, strict=True):
            if leaf.free and leaf.token_axes:
                size = value.t.ndim + leaf.token_axes[0]
                is_late = (torch.arange(length) >= position).view([length if d == size else 1 for d in range(value.t.ndim)])
                transformed.append(value.map(lambda a, b, is_late=is_late: torch.where(is_late, b, a), new))
            else:
                transformed.append(value)
        yield ChangedSuffix(original, transformed, length, position)


def moved_sequences(leaves: list[ProofLeaf], batch: int, seed: int) -> Iterator[MovedSequence]:
    """The first sequence in every row, with other sequences around it; of their flags, those of one sequence in all rows."""
    original = _free_values(leaves, seed, "plain")
    for row in range(batch):
        other = _free_values(leaves, seed, f"other {row}")
        transformed = []
        for leaf, value, new in zip(leaves, original, other, strict=True):
            rows = torch.tensor([row if r == 0 else 0 if r == row else r for r in range(batch)])
            if leaf.batch_axis is None:
                transformed.append(value)
            elif leaf.free:
                here = (torch.arange(batch) == row).view([batch if d == leaf.batch_axis else 1 for d in range(value.t.ndim)])
                transformed.append(value.map(partial(_insert_sequence, here, leaf.batch_axis, rows), new))
            else:
                other_row = 1 + row % (batch - 1)
                flag_rows = torch.tensor([0 if r == row else other_row for r in range(batch)])
                transformed.append(value.index_select(leaf.batch_axis, flag_rows))
        yield MovedSequence(original, transformed, batch, row)
