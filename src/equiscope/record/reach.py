"""Reach: how strongly each output depends on each token, in three networks, and the time that each takes. No torch.

Every network reads from left to right and uses no positions, so what it computes for a short text is the beginning of what it
computes for a longer one: one table of `length` tokens serves every shorter text.
"""

from typing import Literal

from msgspec import Struct, field

from equiscope.record.array import Array
from equiscope.record.program import VERSION

Weights = Literal["random", "trained"]


class ReachNetwork(Struct, frozen=True, kw_only=True):
    """One network.

    about      one sentence that says how it combines tokens
    influence  by weights, [length, length] in float32: row i, column j is the change of the output at token j when the symbol of
               token i, the marked one, is replaced, relative to the size of the output; exactly 0 where nothing changes
    right      by weights and seed, [length] each: the share of right answers at the last token, by how many tokens back the marked
               one is; the tables are of the first seed
    steps      matrix products that wait for each other, the longest chain, for each timed length
    times      lower quartile, median and upper quartile in milliseconds, for each timed length
    """

    name: str
    title: str
    about: str
    parameters: int
    influence: dict[Weights, Array]
    right: dict[Weights, list[list[float]]]
    steps: list[int]
    times: list[list[float]]


class Reach(Struct, frozen=True, kw_only=True):
    """A page of three networks.

    symbols         names of the symbols that a token can be
    example         [length] a text: numbers of its symbols
    trained_length  the longest text that was trained on
    timed_lengths   lengths of the texts whose pass was timed: CPU time of one thread, one sequence, networks `timed_width` wide
    """

    version: int = VERSION
    title: str
    summary: str
    symbols: list[str]
    example: list[int]
    length: int
    trained_length: int
    networks: list[ReachNetwork]
    timed_lengths: list[int]
    timed_width: int
    rounds: int
    dtype: str
    cpu: str
    torch: str
    notes: list[str] = field(default_factory=list)
