"""The page of a comparison of two implementations: one offline file. Without JavaScript it is plain tables."""

from html import escape

from equiscope.explore.page import table
from equiscope.record import Parity
from equiscope.record.parity import CELLS, WEIGHT_CELLS
from equiscope.record.report import percent

HEADS = ["step of A", "step of B", "state", "error"]


def plain(content: Parity) -> str:
    """The outputs, the first difference, and a table of steps for each layer."""
    parts = [f"<h1>{escape(content.title)}</h1>\n<p>{escape(content.summary)}</p>\n"]
    parts += [f"<p>First difference: {escape(content.where)}.</p>\n"] if content.where else []
    parts += [f"<p>Difference {i}: {escape(str(one))}.</p>\n" for i, one in enumerate(content.further, 2)]
    parts += [f"<p>{escape(note)}</p>\n" for note in [*map(str, content.answers), *content.notes]]
    parts.append(table("Outputs", list(CELLS), [list(row.cells) for row in content.rows]))
    if content.drift:
        rows = [[one.layer, percent(one.error)] for one in content.drift]
        parts.append(table("Difference at the end of each layer", ["layer of A", "relative difference"], rows))
    if content.weights:
        parts.append(table("Weight matrices", list(WEIGHT_CELLS), [list(one.cells) for one in content.weights]))
    for layer in content.layers:
        name = " and ".join(filter(None, dict.fromkeys((layer.a, layer.b)))) or "outside the layers"
        rows = [
            [*("" if step is None else str(step) for step in (x.a, x.b)), x.state, "" if x.error is None else f"{x.error:.1e}"]
            for x in layer.pairs
        ]
        parts.append(table(name, HEADS, rows))
    return f'<div class="bare-report">{"".join(parts)}</div>'
