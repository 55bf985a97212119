"""Drawing: the architecture of one model as boxes, arrows and frames; the claims of each box and the numbers behind it.

The layout follows from the links alone: "stream" leads up a tower, everything else joins it from the side.
"""

from typing import Literal

from msgspec import Struct, field

from equiscope.record.array import Array
from equiscope.record.explorable import Claim
from equiscope.record.program import VERSION, ProgramRecord

BoxKind = Literal[
    "input", "table", "map", "token", "position", "norm", "attention", "cross", "mask", "feedforward", "readout", "output_layer",
    "output", "sum", "join",
]  # fmt: skip
Slot = Literal["", "rotate", "scores", "values"]
Wire = Literal["stream", "side", "residual", "source", "tied"]


class Box(Struct, frozen=True, kw_only=True):
    """One part of a model, drawn once for all equal layers.

    about       what the part does, in a sentence; lines: its sizes and settings
    shape       of its output, N tokens (M of an encoder)
    parameters  of one copy; total: of all copies, without those counted at another box, so that totals add up to the model's
    tower       index of its column; frame: the innermost frame around it, empty for none
    inside      the box around it; slot: where it acts in that box, on queries and keys, on scores, on values
    claims      claims of this part and the boxes in it about each action; empty for none
    where       paths of its modules, one per layer
    steps       ids of what it computes in the program of the drawing
    mask        of a mask: True where a row may attend to a column, for a few tokens
    """

    id: str
    kind: BoxKind
    title: str
    about: str = ""
    lines: list[str] = field(default_factory=list)
    shape: list[str] = field(default_factory=list)
    parameters: int = 0
    total: int = 0
    tower: int = 0
    frame: str = ""
    inside: str = ""
    slot: Slot = ""
    claims: list[Claim] = field(default_factory=list)
    where: list[str] = field(default_factory=list)
    steps: list[str] = field(default_factory=list)
    mask: list[list[bool]] = field(default_factory=list)


class Frame(Struct, frozen=True, kw_only=True):
    """A group of boxes that repeats. outer: the frame around this one, empty for none."""

    id: str
    title: str
    repeat: int
    tower: int = 0
    outer: str = ""


class Link(Struct, frozen=True, kw_only=True):
    """An arrow between boxes, by id.

    kind  "stream" goes up a tower, "side" joins it (a position added to a token), "residual" bypasses a part, "source" leads from
          an encoder to cross-attention, "tied" joins boxes that share a parameter
    """

    source: str
    target: str
    kind: Wire = "stream"


class ModelClaim(Struct, frozen=True, kw_only=True):
    """The claim of the whole model about one action, and the ids of the boxes that are not equivariant to it."""

    action: str
    summary: str
    holds: bool
    reason: str
    boxes: list[str]


class Drawing(Struct, frozen=True, kw_only=True):
    """A page that draws one model.

    towers   headings of the columns, from left to right
    program_note  which model the numbers come from: this one, or a toy model of the same architecture
    program  its program on a small input; leaves name their numbers in the pool
    axis_names  what stands along an axis of that program: words of "token", of "source", of "vocabulary"
    heads    the most heads that an attention of the program has
    """

    version: int = VERSION
    title: str
    summary: str
    parameters: int
    towers: list[str]
    boxes: list[Box]
    frames: list[Frame]
    links: list[Link]
    claims: list[ModelClaim]
    program_note: str
    program: ProgramRecord
    pool: dict[str, Array]
    axis_names: dict[str, list[str]]
    heads: int
