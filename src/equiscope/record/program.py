"""The record of a program: every named value of one run of a model, and the step that computed it."""

from typing import Literal

from msgspec import UNSET, Struct, UnsetType, field

from equiscope.record.array import Array
from equiscope.record.computation import Computation

VERSION = 2

LeafKind = Literal["content", "coordinate", "order", "document", "valid", "weight", "constant", "opaque"]
Parameter = bool | int | float | str | list[int]


class LeafRecord(Struct, frozen=True, kw_only=True):
    """Numbers that the program reads and does not compute.

    kind    content, document and valid move with the tokens; coordinate and order belong to the positions; weight is a
            parameter of the model, constant follows from its settings; opaque was computed by code that was not recorded
    array   the numbers, or nothing where `pool` names an entry in the pool of the explorable around it
    """

    id: str
    symbol: str
    label: str
    axes: list[str]
    kind: LeafKind
    where: str = ""
    array: Array | None = None
    pool: str | None = None


class StepRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Numbers that an operation computes from others.

    op      a name in the closed list of operations (`equiscope.program.operations.OPERATIONS`), or "loops"
    inputs  ids of leaves and earlier steps
    where   path of the module that ran it, e.g. "blocks.0.attention"
    array   the numbers, stored where a test needs them; a page recomputes them
    loops   of the operation "loops": what it computes, y of x0, x1, ... in the order of the inputs
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


class ProgramRecord(Struct, frozen=True, kw_only=True):
    """A program with its numbers: leaves first, then steps in the order in which they ran.

    outputs ids of the values that the model returned; named: those that it returned by name
    notes   what the record does not reproduce, in sentences
    """

    version: int = VERSION
    title: str = ""
    leaves: list[LeafRecord]
    steps: list[StepRecord]
    outputs: list[str]
    named: dict[str, str] | UnsetType = UNSET
    notes: list[str] | UnsetType = UNSET
