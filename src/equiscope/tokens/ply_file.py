"""PLY files, as text or binary, of either byte order: vertices and faces with any number of corners, each row as it stands.

Source: Turk 1994, "The PLY Polygon File Format". (trimesh reads every row of a binary file like its first one, so that faces with
different numbers of corners are refused or read wrongly.)
"""

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from equiscope.errors import InputError
from equiscope.tokens.lines import Lines

KINDS = {
    "char": "i1", "int8": "i1", "uchar": "u1", "uint8": "u1", "short": "i2", "int16": "i2", "ushort": "u2", "uint16": "u2",
    "int": "i4", "int32": "i4", "uint": "u4", "uint32": "u4",
    "int64": "i8", "uint64": "u8", "float": "f4", "float32": "f4", "double": "f8", "float64": "f8",
}  # fmt: skip
SIGNS = dict(zip(("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8"), "bBhHiIqQfd", strict=True))  # as struct has them
TOGETHER, SHORT = 1024, 16  # rows that are looked at together; fewer alike than so many are read one by one
ORDERS = {"ascii": "", "binary_little_endian": "<", "binary_big_endian": ">"}


@dataclass
class Element:
    """What stands in a number of rows; columns: name, kind of a number, and of the count before it, where it is a list."""

    name: str
    rows: int
    columns: list[tuple[str, str, str | None]] = field(default_factory=list)

    def column(self, *names: str) -> int | None:
        """Which column has one of these names."""
        return next((i for i, (name, _, _) in enumerate(self.columns) if name in names), None)


class Truncated(Exception):
    """The file ends inside this row."""

    def __init__(self, row: int) -> None:
        super().__init__(row)
        self.row = row


def read(path: Path, content: bytes) -> tuple[list[list[float]], list[list[int]]]:
    """Places of the vertices, and corners of the faces, counted from 0.

    raises  InputError for a header that is none, and for a file that is cut off
    """
    head = re.match(rb"ply\s*?(?:\r\n|\n|\r)(.*?)(?:^|[\r\n])end_header[ \t]*(?:\r\n|\n|\r|$)", content, re.DOTALL)
    if not content.startswith(b"ply"):
        Lines(path, content[:80]).fail("a PLY file begins with the line 'ply'.", 1)
    if head is None:
        raise InputError(f"{path} has no line end_header after its line 'ply'. The file is cut off.")
    order, elements = _header(path, head[1])
    _check(path, elements)
    body = content[head.end() :]
    rows = _text(body, elements) if order == "ascii" else _binary(body, elements, ORDERS[order])
    places: list[list[float]] = []
    faces: list[list[int]] = []
    for element in elements:
        try:
            element_rows = next(rows)
        except Truncated as cut:
            raise InputError(
                f"{path} says that it has {element.rows} of element {element.name}, but has {cut.row}. The file is cut off."
            ) from cut
        except (ValueError, OverflowError) as error:
            raise InputError(f"{path} cannot be read as PLY: element {element.name}: {str(error)[:200]}.") from error
        if element.name == "vertex":
            axes = [element.column(axis) for axis in "xyz"]
            places = [[float(row[axis]) for axis in axes if axis is not None] for row in element_rows]
        if element.name == "face" and (corners := element.column("vertex_indices", "vertex_index")) is not None:
            faces = [list(row[corners]) for row in element_rows]
    return places, faces


def _check(path: Path, elements: list[Element]) -> None:
    """Raise InputError for invalid vertices and faces, and for content that would be dropped."""
    for element in elements:
        lists = {name: (kind, count is not None) for name, kind, count in element.columns}
        if element.name == "vertex" and not all(axis in lists and not lists[axis][1] for axis in "xyz"):
            raise InputError(f"{path} has vertices without x, y and z, a number each.")
        for name in ("vertex_indices", "vertex_index") if element.name == "face" else ():
            if name in lists and (not lists[name][1] or lists[name][0][0] == "f"):
                raise InputError(f"{path} has faces whose {name} is no list of whole numbers.")
        if element.name == "tristrips" and element.rows:
            raise InputError(f"{path} has strips of triangles (tristrips), and faces are read here. Save it with faces.")
    for name in ("vertex", "face"):
        if sum(element.name == name for element in elements) > 1:
            raise InputError(f"{path} has more than one element {name}. Join them.")


def _header(path: Path, header: bytes) -> tuple[str, list[Element]]:
    lines = Lines(path, b"ply\n" + header)
    order, elements = "", list[Element]()
    lines.next("ply")
    while lines.left:
        words = lines.next("a line of the header").split()
        match words:
            case [] | ["comment" | "obj_info", *_]:
                pass
            case ["format", name, _] if name in ORDERS:
                order = name
            case ["element", name, count]:
                elements.append(Element(name, lines.integer(count, "a number of rows")))
                if elements[-1].rows < 0:
                    lines.fail(f"there are {count} of element {name}.")
            case ["property", "list", count, kind, name] if elements and {count, kind} <= KINDS.keys() and KINDS[count][0] != "f":
                elements[-1].columns.append((name, KINDS[kind], KINDS[count]))
            case ["property", kind, name] if elements and kind in KINDS:
                elements[-1].columns.append((name, KINDS[kind], None))
            case _:
                lines.fail(f"{' '.join(words)[:80]!r} is no line of a PLY header.")
    if not order:
        raise InputError(f"{path} does not say its format: {', '.join(ORDERS)}.")
    return order, elements


def _text(body: bytes, elements: list[Element]) -> Iterator[list[Any]]:
    """The rows of each element, a row a list of numbers and lists."""
    words = iter(body.split())

    def number(row: int, kind: str) -> Any:
        word = next(words, None)
        if word is None:
            raise Truncated(row)
        if b"_" in word:  # which Python would read as a number's
            raise ValueError(f"{word[:80].decode(errors='replace')!r} is no number")
        return float(word) if kind[0] == "f" else int(word)

    for element in elements:
        values = []
        for row in range(element.rows):
            values.append([
                number(row, kind) if count is None else [number(row, kind) for _ in range(number(row, count))]
                for _, kind, count in element.columns
            ])  # fmt: skip
        yield values


def _binary(body: bytes, elements: list[Element], order: str) -> Iterator[list[Any]]:
    """The same. Rows that follow one another with as many numbers are read at once."""
    offset = 0
    for element in elements:
        values: list[Any] = []
        together = TOGETHER
        while len(values) < element.rows:
            if together < SHORT:
                for _ in range(min(TOGETHER, element.rows - len(values))):
                    row, offset = _row(body, offset, element, order, len(values))
                    values.append(row)
                together = TOGETHER
                continue
            counts = _counts(body, offset, element, order, len(values))
            columns: list[Any] = []
            for i, ((_, kind, count), many) in enumerate(zip(element.columns, counts, strict=True)):
                columns += [(f"n{i}", order + count)] if count else []
                columns.append((f"c{i}", order + kind, (many,) if count else ()))
            each = np.dtype(columns)
            fit = min(
                element.rows - len(values), (len(body) - offset) // each.itemsize if each.itemsize else element.rows, together
            )
            if fit < 1:
                raise Truncated(len(values))
            table = np.frombuffer(body, each, fit, offset)
            alike = np.ones(fit, dtype=bool)
            for i, many in enumerate(counts):
                alike &= table[f"n{i}"] == many if element.columns[i][2] else True
            same = fit if alike.all() else int(alike.argmin())
            values += list(zip(*(table[f"c{i}"][:same].tolist() for i in range(len(counts))), strict=True)) or [()] * same
            offset += same * each.itemsize
            together = 2 * together if same == fit else TOGETHER if same >= SHORT else 0
        yield values


def _row(body: bytes, offset: int, element: Element, order: str, row: int) -> tuple[list[Any], int]:
    """One row, and where the next one begins."""
    counts, values = _counts(body, offset, element, order, row), []
    for (_, kind, count), many in zip(element.columns, counts, strict=True):
        offset += int(count[1]) if count else 0
        numbers = struct.unpack_from(f"{order}{many}{SIGNS[kind]}", body, offset)
        offset += many * int(kind[1])
        values.append(list(numbers) if count else numbers[0])
    return values, offset


def _counts(body: bytes, offset: int, element: Element, order: str, row: int) -> list[int]:
    """How many numbers each column of the row that begins here has."""
    counts = []
    for _, kind, count in element.columns:
        many = 1
        if count is not None:
            size = int(count[1])
            if offset + size > len(body):
                raise Truncated(row)
            many = int(struct.unpack_from(order + SIGNS[count], body, offset)[0])
            offset += size
            if many < 0:
                raise ValueError(f"a list of {many} numbers in row {row + 1}")
        offset += many * int(kind[1])
        if offset > len(body):
            raise Truncated(row)
        counts.append(many)
    return counts
