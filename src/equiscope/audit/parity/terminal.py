"""Terminal: a comparison of two implementations as text."""

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from equiscope.audit.terminal import printable_text
from equiscope.record import Parity, ParityDifference, ParityDrift
from equiscope.record.parity import CELLS
from equiscope.record.report import percent


def lines(parity: Parity) -> RenderableType:
    """What rich's Console prints: the outputs, the first step that differs, its cause, and notes."""
    grid = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
    for name in CELLS:
        grid.add_column(name, overflow="fold")
    for row in parity.rows:
        grid.add_row(*(Text(printable_text(cell), style="" if row.verdict == "holds" else "bold") for cell in row.cells))
    heading = f"A: {parity.a}\nB: {parity.b}\n{parity.aligned} of {parity.values} values of A have an equal in B"
    parts: list[RenderableType] = [Text(printable_text(heading), style="dim"), Text(""), grid, Text("")]
    if parity.verdict != "undecided":
        parts += _difference("first difference", parity, parity.holds, parity.differs_in_precision)
    for number, one in enumerate(parity.further, 2):
        parts += _difference(f"difference {number}", one)
        if one.repeated:
            parts.append(Text(printable_text(f"  again in {', '.join(one.repeated)}"), style="dim"))
    if parity.drift:
        parts += [Text(""), *_drift(parity.drift)]
    parts += [Text(printable_text(str(one))) for one in parity.answers]
    said = [f"{row.name}: {row.note}" for row in parity.rows if row.note] + parity.notes
    parts += [Text(printable_text(f"note: {note}"), style="dim") for note in said]
    parts += [
        Text(printable_text(f"{row.name}: accepted by the baseline file: {row.accepted}")) for row in parity.rows if row.accepted
    ]
    words = f"The comparison is {parity.verdict}."
    words = (
        parity.summary
        if parity.verdict in ("holds", "undecided")
        else "They differ in precision alone."
        if parity.differs_in_precision
        else words
    )
    return Group(*parts, Text(words, style="bold"))


def _difference(title: str, one: Parity | ParityDifference, holds: bool = False, drift: bool = False) -> list[RenderableType]:
    """The step on both sides, and the cause."""
    steps = [(name, step) for name, step in (("A", one.step_a), ("B", one.step_b)) if step is not None]
    parts: list[RenderableType] = [
        Text(printable_text(f"{title} in {name}: {step}, shape {step.shape} ({step.value})")) for name, step in steps
    ]
    if one.cause:
        parts.append(Text(printable_text(f"cause: {one.cause}"), style="bold" if drift else "bold red"))
        parts.append(Text(f"  tried: {one.evidence}", style="dim"))
    elif not holds:
        parts.append(Text("cause: none of the listed ones reproduces B's numbers"))
        if one.evidence:
            parts.append(Text(printable_text(f"  tried: {one.evidence}"), style="dim"))
    return parts


def _drift(drift: list[ParityDrift]) -> list[RenderableType]:
    """A line for each layer."""
    grid = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
    grid.add_column("layer of A", overflow="fold")
    grid.add_column("relative difference at its end", justify="right")
    for one in drift:
        grid.add_row(printable_text(one.layer), percent(one.error))
    return [grid]
