"""The report page of an audit: one offline file. Without JavaScript it is a plain table, which says the same in fewer words."""

from html import escape

from equiscope.record import Audit, Report, ReportRow, Row
from equiscope.record.report import finding, number

COLUMNS = ("statement", "claimed", "verdict", "worst error", "rounding", "samples", "where")


def plain(content: Report) -> str:
    """The table as markup, and under it the sentences of the rows that do not hold."""
    audit = content.audit
    heads = "".join(f'<th scope="col">{name}</th>' for name in COLUMNS)
    rows = "\n".join(_row(row, text) for row, text in zip(audit.rows, content.rows, strict=True))
    more = "\n".join(_section(audit, row) for row in audit.rows if row.where or row.fails)
    facts = f"{audit.model}, {audit.parameters:,} parameters, {audit.dtype} on {audit.device}; {audit.inputs}; seed {audit.seed}"
    if served := audit.served:
        facts = f"{served.api} of {audit.model}, {served.requests} requests; {audit.inputs}; seed {audit.seed}"
    return (
        f'<div class="bare-report"><h1>{escape(content.title)}</h1>\n<p>{escape(content.summary)}</p>\n<p>{escape(facts)}</p>\n'
        f"<table><thead><tr>{heads}</tr></thead>\n<tbody>{rows}</tbody></table>\n{more}</div>"
    )


def _row(row: Row, text: ReportRow) -> str:
    verdict = f"{row.verdict}, fails" if row.fails else row.verdict
    rest = (row.claimed, verdict, number(row.error) if row.error is not None else "", number(row.floor) if row.floor else "",
            text.samples, row.where)  # fmt: skip
    return f'<tr><th scope="row">{escape(row.name)}</th>' + "".join(f"<td>{escape(cell)}</td>" for cell in rest) + "</tr>"


def _section(audit: Audit, row: Row) -> str:
    return f"<h2>{escape(row.name)}</h2><p>{escape(' '.join(finding(audit, row)))}</p>"
