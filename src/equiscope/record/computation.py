"""Computation: a function of tensors as steps over strided numbers, for a machine that knows nothing of the function.

Numbers lie in slots, row by row; a view [slot, offset, stride, ...] reads or writes a slot with one stride for each axis of a step.
So shapes, transposes, slices and broadcasts are settled when the record is written, and what is left is loops.
"""

from msgspec import Struct

from equiscope.record.array import Array

VERSION = 1


class TensorSlot(Struct, frozen=True):
    """Where an input is put, or an output is read: a whole slot, in row-major order."""

    slot: int
    shape: list[int]


class Constant(Struct, frozen=True):
    """A slot that no input changes: weights, tables of rows, masks."""

    slot: int
    array: Array


class Loop(Struct, frozen=True):
    """One operation at every index of `shape`.

    to     the view that is written. Where its stride is 0 on a longer axis, the operation joins what it finds there: `sum`, `dot`
           (the sum of products of two), `amax`, `amin`, `prod` begin with 0, 0, -inf, inf, 1
    of     views that are read, or numbers. `gather` reads of[0] at an offset of of[1] numbers; `scatter` (adds) and `put`
           (writes) offset `to` in the same way, and keep the other entries
    """

    op: str
    shape: list[int]
    to: list[int]
    of: list[list[int] | float]


class Computation(Struct, frozen=True, kw_only=True):
    """Steps in an order in which they can be run, in float64; integers and booleans are numbers.

    sizes    number of entries of each slot; a slot may be written by several steps, all of them before it is read
    outputs  by name; those who want only some run the steps that these need
    """

    version: int = VERSION
    inputs: dict[str, TensorSlot]
    outputs: dict[str, TensorSlot]
    constants: list[Constant]
    sizes: list[int]
    steps: list[Loop]
