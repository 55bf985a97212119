"""Texts: the documents in a file, whatever it is: plain text, lines of JSON, a column of CSV, TEI XML, an archive of these."""

import csv
import io
import json
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from xml.etree import ElementTree

from equiscope.data.files import OPENERS, opened
from equiscope.errors import InputError

TEI = "{http://www.tei-c.org/ns/1.0}"


def texts(paths: Iterable[Path], field: str = "text") -> Iterator[str]:
    """The documents of files, in order.

    raises  InputError naming the file and line of what cannot be read
    """
    for path in paths:
        some = False
        for name, content in _members(path):
            for text in _documents(name, content, field):
                some = some or bool(text.strip())
                yield text
        if not some:
            raise InputError(f"{path} is empty: there is no text in it.")


def decoded(content: bytes, name: str) -> str:
    """UTF-8 as text. Raises InputError with the line of the first byte that is none."""
    try:
        return content.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise InputError(
            f"{name}, line {line} is not UTF-8: byte {content[error.start]:#04x} at {error.start}. Convert the file: iconv -t UTF-8."
        ) from error


def _members(path: Path) -> Iterator[tuple[str, bytes]]:
    """Files of an archive, or the one file itself, by name."""
    try:
        if ".tar" in path.suffixes:
            with tarfile.open(path) as archive:
                for member in sorted(archive.getmembers(), key=lambda m: m.name):
                    if member.isfile():
                        yield f"{path}: {member.name}", archive.extractfile(member).read()  # type: ignore[union-attr]
        else:
            with opened(path) as file:
                yield str(path), file.read()
    except (tarfile.TarError, EOFError, OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path} is damaged: {error}. Fetch it again.") from error


def _documents(name: str, content: bytes, field: str) -> Iterator[str]:
    suffixes = [s for s in Path(name).suffixes if s not in OPENERS]
    kind = suffixes[-1].lower() if suffixes else ".txt"
    if kind == ".xml":
        yield tei(content, name)
        return
    text = decoded(content, name)
    if kind in (".jsonl", ".ndjson"):
        for number, line in enumerate(text.splitlines(), 1):
            if line.strip():
                yield _field(line, field, f"{name}, line {number}")
    elif kind in (".csv", ".tsv"):
        rows = csv.DictReader(io.StringIO(text), delimiter="\t" if kind == ".tsv" else ",")
        if field not in (rows.fieldnames or ()):
            raise InputError(f"{name} has the columns {', '.join(rows.fieldnames or ())}, but no {field!r}. Set data.field.")
        for row in rows:
            yield row[field] or ""
    else:
        yield text


def _field(line: str, field: str, where: str) -> str:
    try:
        row = json.loads(line)
    except json.JSONDecodeError as error:
        raise InputError(f"{where} is not JSON: {error}.") from error
    if not isinstance(row, dict) or not isinstance(row.get(field), str):
        raise InputError(
            f"{where} has no text {field!r}. Set data.field to one of: {', '.join(row) if isinstance(row, dict) else ''}."
        )
    return row[field]


def tei(content: bytes, name: str) -> str:
    """The body of a TEI text: paragraphs, heads and lines of verse, an empty line between two paragraphs."""
    try:
        root = ElementTree.fromstring(content)
    except ElementTree.ParseError as error:
        raise InputError(f"{name} is no XML: {error}.") from error
    body = root.find(f".//{TEI}body")
    if body is None:
        raise InputError(f"{name} is no TEI text: it has no body.")
    parts = [e for e in body.iter() if e.tag in (f"{TEI}p", f"{TEI}head", f"{TEI}l")]
    return "\n\n".join(" ".join("".join(part.itertext()).split()) for part in parts)
