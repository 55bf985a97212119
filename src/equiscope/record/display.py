"""What an interpreter prints of a record, and a notebook shows: a heading and a table."""

from collections.abc import Sequence
from html import escape

Rows = Sequence[Sequence[str]]


def text(heading: str, rows: Rows) -> str:
    """A line for the heading, then one for each row, its cells in columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([heading, *lines])


def html(heading: str, columns: Sequence[str], rows: Rows) -> str:
    """The same as an HTML table. Every text is escaped: names come from models and files."""
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in columns)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><caption>{escape(heading)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


class Printed:
    """Prints itself as a heading, a table whose first row names its columns, and remarks below it."""

    @property
    def _heading(self) -> str:
        raise NotImplementedError

    @property
    def _rows(self) -> Rows:
        raise NotImplementedError

    @property
    def _remarks(self) -> Sequence[str]:
        return ()

    def __repr__(self) -> str:
        return "\n".join([text(self._heading, self._rows), *self._remarks])

    def _repr_html_(self) -> str:
        return html(" ".join([self._heading, *self._remarks]), self._rows[0], self._rows[1:])
