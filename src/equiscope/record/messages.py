"""Messages: one attention as messages along the edges of a graph, and the measured reasons why a transformer is a graph network."""

from msgspec import Struct, field

from equiscope.record.explorable import Fact
from equiscope.record.program import VERSION, ProgramRecord


class ExampleGraph(Struct, frozen=True, kw_only=True):
    """A ready graph over the words. edges: pairs (sender, receiver), by the indices of the words."""

    name: str
    title: str
    text: str
    edges: list[list[int]]


class Figures(Struct, frozen=True, kw_only=True):
    """A small table of measured numbers, one list a row. corner: heading of the row names."""

    corner: str
    columns: list[str]
    rows: list[str]
    numbers: list[list[float]]


class Reason(Struct, frozen=True, kw_only=True):
    """One step of an answer.

    claim         a short sentence; text: why it is so
    method        how it was measured; empty where nothing was measured
    measurements  numbers, each with the function that computes it
    command       command that repeats the measurement
    """

    claim: str
    text: str
    method: str = ""
    measurements: list[Fact] = field(default_factory=list)
    figures: Figures | None = None
    command: str = ""


class Messages(Struct, frozen=True, kw_only=True):
    """A page of attention on a graph.

    trace    the program that the page runs: its leaf `roles["edges"]` [N, N] is True where a row receives from a column
    roles    ids of the values that the page shows: words, edges, queries, keys, values, scores, weights, messages, output,
             and sent and given, the weights and values as they enter the messages
    start    name of the initial graph
    reasons  why a transformer is a graph network
    differences  what a transformer has and a plain graph network does not
    """

    version: int = VERSION
    title: str
    summary: str
    words: list[str]
    width: int
    program: ProgramRecord
    roles: dict[str, str]
    graphs: list[ExampleGraph]
    start: str
    reasons: list[Reason]
    differences: list[Reason]
    notes: list[str] = field(default_factory=list)
