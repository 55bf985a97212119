"""Terminal: an audit as text. One table, and below it a few sentences for every row that fails.

The sentences are those of the report page (`record.report`). Names in them may come from any model, so nothing is interpreted as
markup or as an escape code.
"""

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from equiscope.record import Audit, Row, ServedModel
from equiscope.record.report import coverage, finding, number, outputs, repeat_command, summary


def table(audit: Audit, report: bool = False) -> RenderableType:
    """What rich's Console prints: heading, table, and sentences on the rows that fail or are undecided.

    report  whether a report page is written too: then nothing advises to write one
    """
    parts: list[RenderableType] = [_heading(audit), Text(""), _rows(audit), *_columns(audit), Text("")]
    for row in audit.failed:
        parts += [*_failing(audit, row), Text("")]
    parts += [Text(printable_text(f"– {row.name}: accepted by the baseline file: {row.accepted}")) for row in audit.accepted]
    undecided = [row for row in audit.rows if row.verdict in ("undecided", "not applicable") and not row.fails]
    parts += [_line(row) for row in undecided]
    covered = [row for row in audit.rows if row.coverage and row.holds]
    parts += [Text(f"{row.name}: measured {coverage(row.coverage)}", style="dim") for row in covered]
    mixed = [row for row in audit.rows if not row.fails and len({o.verdict for o in row.outputs}) > 1]
    parts += [Text(printable_text(f"{row.name}: {'; '.join(outputs(row))}")) for row in mixed]
    parts += [Text(f"note: {printable_text(note)}") for note in audit.notes]
    parts += [Text("")] * bool(audit.accepted or undecided or audit.notes)
    parts.append(Text(printable_text(summary(audit)), style="bold"))
    others = [row for row in audit.rows if row.verdict in ("approximate", "broken") and not (row.fails or row.accepted)]
    if others and not audit.failed and audit.served is None:
        page = "" if report else "add --html report.html, or "
        more = f"Where and why: {page}require a row by its name: --{others[0].kind} {others[0].name}"
        parts.append(Text(printable_text(more), style="dim"))
    if audit.failed and audit.served is not None:
        parts.append(Text("The requests as a script, with both answers: add --reproduce FILE.py", style="dim"))
    elif audit.failed and not report:
        parts.append(Text("Module by module, with the counterexamples: add --html report.html", style="dim"))
    return Group(*parts)


def _heading(audit: Audit) -> Text:
    if audit.served is not None:
        return _served_heading(audit, audit.served)
    calls = ", ".join(f"{count} in {dtype}" for dtype, count in sorted(audit.passes.items())) or "none"
    rows = sum(audit.sequences.values())
    mode = "evaluation mode" if audit.mode == "eval" else "training mode, dropout off"
    title = audit.target if audit.target == audit.model else f"{audit.target} ({audit.model})"
    details = (
        f"{audit.parameters:,} parameters, {audit.dtype} on {audit.device}; {mode}; seed {audit.seed}, effort {audit.effort}\n"
        f"{audit.inputs}\n"
        f"calls of the model: {calls}, with {rows} rows in all; {audit.seconds:.1f} s"
    )
    return Text.assemble((printable_text(title), "bold"), "\n", (printable_text(details), "dim"))


def _served_heading(audit: Audit, served: ServedModel) -> Text:
    details = (
        f"{served.api} of {audit.model}; seed {audit.seed}, effort {audit.effort}\n"
        f"{served.requests} of at most {served.budget} requests, with {served.prompt_tokens:,} tokens of prompts and "
        f"{served.completion_tokens:,} of answers; {audit.seconds:.1f} s\n"
        f"rounding changes a logprob by {served.noise:.1g} nats, typically; errors are relative to {served.size:.2g} nats"
    )
    return Text.assemble((printable_text(audit.target), "bold"), "\n", (printable_text(details), "dim"))


def _rows(audit: Audit) -> Table:
    grid = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
    grid.add_column("")
    grid.add_column("statement", no_wrap=True)
    grid.add_column("claimed")
    grid.add_column("verdict", no_wrap=True)
    grid.add_column("worst", justify="right", no_wrap=True)
    grid.add_column("rounding", justify="right", no_wrap=True)
    grid.add_column("where", overflow="fold")
    properties, actions = ([row for row in audit.rows if row.kind == kind] for kind in ("property", "action"))
    for row in properties:
        grid.add_row(*_cells(row, audit.served is not None))
    if properties and actions:
        grid.add_row("")
    for row in actions:
        grid.add_row(*_cells(row, audit.served is not None))
    return grid


def _columns(audit: Audit) -> list[Text]:
    """What the columns of numbers hold. The heading of a served model says it for its own."""
    if audit.served is not None:
        return []
    words = "worst: the largest error, relative to the size of the output; rounding: what rounding alone explains"
    return [Text(words, style="dim")]


def _cells(row: Row, served: bool) -> list[Text]:
    sign, style = _sign(row)
    not_finite = row.verdict in ("approximate", "broken") and not served  # of a server, such a row has no number
    return [
        Text(sign, style=style),
        Text(printable_text(row.name), style="bold" if row.fails else ""),
        Text("" if row.claimed == "unknown" else row.claimed, style="dim" if row.claimed == "no" else ""),
        Text(row.verdict, style=style),
        Text(_number(row.error) if row.error is not None or not_finite else ""),
        Text(_number(row.floor) if row.floor else "", style="dim"),
        Text(printable_text(row.where)),
    ]


def _sign(row: Row) -> tuple[str, str]:
    """A symbol and a style: holds, fails, does not hold but is not required, undecided."""
    if row.fails:
        return "✗", "bold red"
    if row.holds:
        return "✓", "green"
    if row.verdict == "not applicable":
        return "·", "dim"
    return ("?", "dim") if row.verdict == "undecided" else ("–", "")


def _number(value: float | None) -> str:
    return number(value).replace(" %", "%")


def _failing(audit: Audit, row: Row) -> list[RenderableType]:
    body = " ".join(printable_text(sentence) for sentence in finding(audit, row)).replace(
        " %", "%"
    )  # no line break before the sign
    advice = f"read {row.where}, then repeat" if row.where and row.where != audit.model else "repeat"
    step = Text.assemble(
        printable_text(f"Next: {advice} this row alone:"), "\n", (printable_text(repeat_command(audit, row)), "cyan")
    )
    return [
        Text(f"✗ {printable_text(row.name)}: {printable_text(row.summary)}", style="bold red"),
        Padding(Text(body), (0, 0, 0, 2)),
        Padding(step, (0, 0, 0, 2)),
    ]


def _line(row: Row) -> Text:
    return Text(f"{_sign(row)[0]} {printable_text(row.name)}: {printable_text(row.note or 'no reason was given')}", style="dim")


def printable_text(text: str) -> str:
    """Without escape codes and other control characters."""
    return "".join(letter if letter.isprintable() or letter == "\n" else "\N{REPLACEMENT CHARACTER}" for letter in text)


__all__ = ["printable_text", "summary", "table"]
