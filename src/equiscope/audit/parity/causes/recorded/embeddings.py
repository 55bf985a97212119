"""Embeddings with another scale."""

from dataclasses import dataclass

from torch import Tensor

from equiscope.audit.parity.causes.elementwise import in_words
from equiscope.audit.parity.causes.finding import Finding
from equiscope.audit.parity.causes.recorded.recording import ModelChange, RecordedTensors, Values
from equiscope.audit.parity.causes.recorded.solving import solved
from equiscope.audit.parity.causes.replayed import parameters_of
from equiscope.audit.parity.sides import Node
from equiscope.program.program import Edit


@dataclass(frozen=True, eq=False)
class EmbeddingSite:
    """Rows of a table that the input chooses, multiplied by A's own scale if it has one."""

    node: Node


def sites(r: RecordedTensors) -> list[EmbeddingSite]:
    """The embeddings of A, in order."""
    found = []
    for node in r.d.a.nodes:
        if node.op in ("embedding", "index_select", "getitem") and node.value in r.d.a.moving and parameters_of(r.d.a, node):
            table = max((r.d.a.high[v].ndim for v in parameters_of(r.d.a, node)), default=0)
            if table == 2 and r.d.a.high[node.value].shape[-1] > 2:
                found.append(EmbeddingSite(node))
    return found


def scale(r: RecordedTensors, group: list[EmbeddingSite]) -> Finding | None:
    """B multiplies the embedding by another number."""
    first = group[0].node.value
    width = r.d.a.high[first].shape[-1]

    def change(x: float) -> ModelChange:
        edits = {s.node.value: _times(x) for s in group}
        says = in_words(x, width)
        evidence = f"{{0}} times {says} gives {{1}}'s numbers"
        return ModelChange("embedding scale", "1 time the embedding", f"{says} times", evidence, first, edits)

    return solved(r, [width**0.5, width**-0.5, 2.0, 0.5], change)


def _times(x: float) -> Edit:
    def edit(t: Tensor, _: Values) -> Tensor:
        return t * x

    return edit
