"""Messages: one attention as messages along the edges of a graph, and the measured reasons why a transformer is a graph network."""

from msgspec import Struct, field

from equiscope.record.explorable import Fact
from equiscope.record.program import VERSION, ProgramRecord


class ExampleGraph(Struct, frozen=True, kw_only=True):
    """A ready graph over the words. edges: pairs (who sends, who receives), by the numbers of the words as they were typed."""

    name: str
    title: str
    text: str
    edges: list[list[int]]


class Figures(Struct, frozen=True, kw_only=True):
    """A small table of measured numbers, one list a row. corner: what stands over the names of the rows."""

    corner: str
    columns: list[str]
    rows: list[str]
    numbers: list[list[float]]


class Reason(Struct, frozen=True, kw_only=True):
    """One step of an answer.

    claim    a short sentence; text: how it was measured, or why it is so
    measurements numbers, each with the function that gives it again
    command  what to type to see them again; empty where nothing was measured
    """

    claim: str
    text: str
    measurements: list[Fact] = field(default_factory=list)
    figures: Figures | None = None
    command: str = ""


class Messages(Struct, frozen=True, kw_only=True):
    """A page of attention on a graph.

    trace    the program that the page runs again: its leaf `roles["edges"]` [N, N] says who receives (rows) from whom (columns)
    roles    ids of the values that the page asks for: words, edges, queries, keys, values, scores, weights, messages, output,
             and sent and given, the weights and values as they enter the messages
    start    name of the graph to begin with
    reasons  why a transformer is a graph network
    differences  what a transformer has that a plain graph network has not
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
