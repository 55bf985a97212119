"""Trace: every named number of a model's run and the step that made it."""

from typing import Literal

from msgspec import UNSET, Struct, UnsetType, field

from equiscope.record.array import Array
from equiscope.record.computation import Computation

VERSION = 1

Kind = Literal["content", "coordinate", "order", "document", "valid", "weight", "constant", "opaque"]
Parameter = bool | int | float | str | list[int]


class Leaf(Struct, frozen=True, kw_only=True):
    """Numbers that were given to the program.

    kind    content, document and valid move with the words; coordinate and order belong to the places; weight is the
            model's own, constant follows from its settings; opaque was made by code that the trace did not see
    array   the numbers, or nothing where `pool` names an entry in the pool of the explorable around it
    """

    id: str
    symbol: str
    label: str
    axes: list[str]
    kind: Kind
    where: str = ""
    array: Array | None = None
    pool: str | None = None


class Step(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Numbers that an operation made from others.

    op      a name in the closed list of operations (`equiscope.program.operations.OPERATIONS`), or "loops"
    inputs  ids of leaves and earlier steps
    where   the module it happened in, e.g. "blocks.0.attention"
    array   the numbers, kept where a test wants them; a page computes them again
    loops   of an operation "loops": what it computes, y of x0, x1, ... in the order of the inputs
    """

    id: str
    symbol: str
    label: str
    axes: list[str]
    op: str
    inputs: list[str]
    params: dict[str, Parameter] = field(default_factory=dict)
    where: str = ""
    array: Array | None = None
    loops: Computation | UnsetType = UNSET


class Trace(Struct, frozen=True, kw_only=True):
    """A program with its numbers: leaves first, then steps in the order in which they happened.

    outputs ids of what the model returned; named: those that it returned by name
    notes   what the record does not follow, in sentences
    """

    version: int = VERSION
    title: str = ""
    leaves: list[Leaf]
    steps: list[Step]
    outputs: list[str]
    named: dict[str, str] | UnsetType = UNSET
    notes: list[str] | UnsetType = UNSET
