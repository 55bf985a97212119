"""Texts: the documents in files: plain text, lines of JSON, a column of CSV, TEI XML, archives and folders of these.

A document is read in stretches, so that a file can be larger than memory; only a TEI text is read whole.
"""

import codecs
import io
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar, runtime_checkable
from xml.etree import ElementTree

from equiscope import budgets
from equiscope.budgets import DAMAGED, OPENERS, Limited, archive, unfolded
from equiscope.data import other_formats
from equiscope.data.faults import SHOWN, Faults
from equiscope.data.files import find_files, is_archive, is_hidden, open_file
from equiscope.data.split_folders import ABOUT, no_parts
from equiscope.data.tables import CELL, records
from equiscope.errors import InputError, did_you_mean, sentences

TEI = "{http://www.tei-c.org/ns/1.0}"
BLOCKS = (f"{TEI}p", f"{TEI}head", f"{TEI}l")
T = TypeVar("T")
TABLES = (".csv", ".tsv", ".jsonl", ".ndjson")
ENDINGS = (".txt", ".md", ".jsonl", ".ndjson", ".csv", ".tsv", ".xml")
STRETCH = 2**18  # bytes that are read at once
BETWEEN = "\n\n"  # two documents


@runtime_checkable
class Readable(Protocol):
    """A source of bytes: a file, compressed or not, or a member of an archive."""

    def read(self, size: int = -1, /) -> bytes: ...


def files(paths: Iterable[Path]) -> list[Path]:
    """The files of paths: for a folder, its text files sorted by name (also a folder saved by `datasets`).

    raises  InputError for a folder without texts
    """
    text_files: list[Path] = []
    for path in paths:
        if not path.is_dir():
            text_files.append(path)
            continue
        inner = sorted(p for p in budgets.listed(path.rglob("*"), path) if p.is_file() and not is_hidden(p.relative_to(path)))
        if (path / "state.json").is_file():
            text_files += [p for p in inner if p.suffix == ".arrow" and not p.name.startswith("cache-")]  # what it computed once
            continue
        some = [p for p in inner if kind_of(p.name) in ENDINGS or is_archive(p)]
        if not some:
            raise _no_text(path)
        text_files += _without_notes(some, lambda p: p.name)
    return text_files


def _without_notes(files: Sequence[T], name_of: Callable[[T], str]) -> list[T]:
    """Files without those that say what a data set is, such as README.md, where there are tables."""
    if not any(kind_of(name_of(one)) in TABLES for one in files):
        return list(files)
    return [one for one in files if kind_of(name_of(one)) in TABLES or Path(name_of(one)).stem.upper() not in ABOUT]


def is_text_file(path: Path) -> bool:
    """Whether `files` takes this file of a folder."""
    return kind_of(path.name) in ENDINGS or is_archive(path) or (path.suffix == ".arrow" and not path.name.startswith("cache-"))


def _no_text(path: Path) -> InputError:
    return InputError(f"{path} has no text in it. Texts are files that end in {', '.join(ENDINGS)}, compressed or not.")


def texts(paths: Iterable[Path], field: str = "text", stretch: int = STRETCH) -> Iterator[str]:
    """The documents of files, in order, each whole. Raises InputError as `documents`."""
    for document in documents(paths, field, stretch):
        yield "".join(document)


def stretches(paths: Iterable[Path], field: str = "text", separator: str | None = None, stretch: int = STRETCH) -> Iterator[str]:
    """All documents as one text, with the separator or an empty line between two, a stretch at a time. Raises as `documents`."""
    for i, document in enumerate(documents(paths, field, stretch)):
        if i:
            yield separator or BETWEEN
        yield from document


def named_files(text: str) -> list[Path]:
    """The files that a person names, where a text could be meant as well: a file, a folder, or a pattern like a/*.txt; else none.

    raises  Missing for a pattern that no file fits
    """
    if "*" in text and ("/" in text or "." in text) and not any(map(str.isspace, text)):
        return find_files(text)
    try:
        path = Path(text or "\0")
        return [path] if path.is_file() or path.is_dir() else []
    except (OSError, ValueError):  # too long for a name, or a zero byte
        return []


def inputs_of(paths: Sequence[Path], field: str) -> list[str]:
    """The inputs in files: a column of a table, a field of lines of JSON, or the lines of a plain text. Raises as `documents`."""
    found: list[str] = []
    for path in files(paths):
        for name, content in members(path):
            if kind_of(name) in TABLES:
                found += map("".join, _documents(name, content, field, STRETCH))
                continue
            lines = decoded(content.read(), name).split("\n")  # only "\n" ends a line, as in parallel files
            found += [line.removesuffix("\r") for line in (lines if lines[-1] else lines[:-1])]
    return found


def documents(paths: Iterable[Path], field: str = "text", stretch: int = STRETCH) -> Iterator[Iterator[str]]:
    """The documents of files, in order, each in stretches: read one before you ask for the next.

    raises  InputError with the file and line that cannot be read, and for files without a text
    """
    for path in paths:
        seen = [False]
        for name, content in members(path):
            try:
                for document in _documents(name, content, field, stretch):
                    yield _watched(document, seen, path)
            except DAMAGED as error:
                raise _damaged(path, error) from error
        if not seen[0]:
            raise InputError(f"{path} is empty: there is no text in it.")


def decoded(content: bytes, name: str) -> str:
    """UTF-8 as text, with unified line ends. Raises InputError with the line of the first invalid byte."""
    return "".join(_decoded(io.BytesIO(content), name))


def _watched(document: Iterator[str], seen: list[bool], path: Path) -> Iterator[str]:
    """The stretches of a document, recording whether there is any text."""
    try:
        for stretch in document:
            seen[0] = seen[0] or bool(stretch.strip())
            yield stretch
    except DAMAGED as error:
        raise _damaged(path, error) from error


def _damaged(path: Path, error: Exception) -> InputError:
    return error if isinstance(error, InputError) else InputError(f"{path} is damaged: {error}. Fetch it again.")


def members(path: Path) -> Iterator[tuple[str, Readable]]:
    """Members of an archive, or the file itself, by name."""
    if not is_archive(path):
        with open_file(path) as file:
            yield str(path), file
        return
    try:
        with archive(path) as held:
            all_ = [m for m in held if not is_hidden(Path(m.name))]
            some = [m for m in all_ if kind_of(m.name) in ENDINGS] or [m for m in all_ if not kind_of(m.name)]
            if not some:
                raise _no_text(path)
            no_parts(path, [m.name for m in some])
            for member in sorted(_without_notes(some, lambda m: m.name), key=lambda m: m.name):
                content, inner, where = held.open(member), OPENERS.get(Path(member.name).suffix.lower()), f"{path}: {member.name}"
                yield where, content if inner is None else Limited(inner(content, "rb"), where, unfolded(path))
    except DAMAGED as error:
        raise _damaged(path, error) from error


def _decoded(file: Readable | io.BytesIO, name: str, stretch: int = STRETCH) -> Iterator[str]:
    """UTF-8 a stretch at a time. Raises InputError with the line of the first invalid byte."""
    decoder, ends = codecs.getincrementaldecoder("utf-8-sig")(), io.IncrementalNewlineDecoder(None, translate=True)
    read, lines = 0, 1
    while True:
        content = file.read(stretch)
        try:
            text = ends.decode(decoder.decode(content, final=not content), final=not content)
        except UnicodeDecodeError as error:
            _check_zeros(content, name, lines, read == 0)
            before = read + len(content) - len(error.object)  # what the decoder held back comes first
            line = lines + error.object[: error.start].count(b"\n")
            wide = read == 0 and content[:2] in (b"\xff\xfe", b"\xfe\xff")  # as some programs write "Unicode"
            encoding = ": iconv -f UTF-16" if wide else " from the encoding that it was written in, such as: iconv -f WINDOWS-1252"
            raise InputError(
                f"{name}, line {line} is not UTF-8: byte {error.object[error.start]:#04x} at {before + error.start}. "
                f"Convert the file{encoding} -t UTF-8."
            ) from error
        if not read and content.startswith(budgets.POINTER):  # in an archive
            raise InputError(f"{name} {budgets.stand_in(content)}")
        if not read and (order := _sixteen_bits(content)):
            raise InputError(f"{name} is UTF-16 without a mark that says so. Convert the file: iconv -f UTF-16{order} -t UTF-8.")
        _check_zeros(content, name, lines)
        if text:
            yield text
        if not content:
            return
        read, lines = read + len(content), lines + content.count(b"\n")


def _check_zeros(content: bytes, name: str, line: int, wide: bool = False) -> None:
    """Raise InputError for a zero byte, as files have that are no texts. wide: not if a mark says that the text is UTF-16."""
    place = content.find(b"\0")
    if place >= 0 and not (wide and content[:2] in (b"\xff\xfe", b"\xfe\xff")):
        line += content.count(b"\n", 0, place)
        raise InputError(
            f"{name}, line {line} has a zero byte, so this is no text, or a damaged one. "
            "Give another file; from a text, take such bytes out: tr -d '\\000' < FILE > NEW."
        )


def _sixteen_bits(content: bytes) -> str:
    """Of text in UTF-16 without a byte order mark, the order of its bytes: every other byte is zero in most of its signs."""
    start = content[:1000]
    for first, order in ((1, "LE"), (0, "BE")):
        if len(start) >= 4 and start[first::2].count(0) > 0.4 * len(start[first::2]) and not start[1 - first :: 2].count(0):
            return order
    return ""


def lines_of(file: Readable, name: str, stretch: int = STRETCH) -> Iterator[str]:
    """The lines of a file, with their line ends."""
    rest = ""
    for text in _decoded(file, name, stretch):
        *whole, rest = (rest + text).split("\n")
        for line in whole:
            yield line + "\n"
    if rest:
        yield rest


def kind_of(name: str) -> str:
    """The file's suffix, without that of its compression."""
    endings = [s for s in map(str.lower, Path(name).suffixes) if s not in OPENERS]
    return endings[-1] if endings else ""


def _documents(name: str, file: Readable, field: str, stretch: int) -> Iterator[Iterator[str]]:
    kind = kind_of(name)
    if kind == ".xml":
        yield iter([tei(_all(file, name), name)])
    elif kind in (".jsonl", ".ndjson"):
        faults = Faults()
        for number, line in enumerate(lines_of(file, name, stretch), 1):
            text = None
            with faults.caught(f"{name}, line {number}"):
                text = _field(line, field, f"{name}, line {number}") if line.strip() else None
            if text is not None:
                yield iter([text])
            if len(faults.found) >= SHOWN:  # a long file is not read to its end
                break
        faults.check()
    elif kind in (".csv", ".tsv"):
        for text in _column(file, name, field, stretch):
            yield iter([text])
    elif kind == ".arrow":
        for text in _rows(name, field):
            yield iter([text])
    else:
        other_formats.check(name, kind_of(name))
        yield _decoded(file, name, stretch)


def _all(file: Readable, name: str) -> bytes:
    """The whole content. Raises OverBudget if it is too large."""
    content = file.read(budgets.XML + 1)
    if len(content) > budgets.XML:
        raise budgets.OverBudget(f"{name} has more than {budgets.size(budgets.XML)}, which XML is read up to. Cut it first.")
    return content


def _field(line: str, field: str, where: str) -> str:
    row = parsed(line, where)
    if not isinstance(row, dict) or not isinstance(row.get(field), str):
        texts = [name for name, value in row.items() if isinstance(value, str)] if isinstance(row, dict) else []
        way = f"Set data.field to one of: {', '.join(texts)}." if texts else 'Correct the line: {"text": "what is written"}.'
        raise InputError(f"{where} has no text {field!r}. {way}")
    return row[field]


def table_rows(
    lines: Iterable[str], name: str, wanted: Sequence[str], way: str, faults: Faults, most: int = CELL
) -> Iterator[tuple[str, Any]]:  # fmt: skip
    """The rows of a table, each with its file and line: cells by column name; of JSONL, whatever the line holds.

    wanted, way, most  as in `tables.table`; faults: to which lines that cannot be read are added
    """
    if kind_of(name) in (".csv", ".tsv"):
        for line, row in records(lines, name, wanted, way, most, faults):
            yield f"{name}, line {line}", row
        return
    for number, one in enumerate(lines, 1):
        if one.strip():
            where, found = f"{name}, line {number}", list[Any]()
            with faults.caught(where):
                found.append(parsed(one, where))
            yield from ((where, value) for value in found)


def parsed(line: str, where: str) -> Any:
    """A line of JSON. Raises InputError with its location."""
    if line.strip() in ("[", "{"):
        way = "jq -c '.[]'" if line.strip() == "[" else "jq -c ."
        raise InputError(
            f"{where} opens JSON of several lines, but each line is an object of its own. Write it so: {way} FILE > NEW."
        )
    try:
        return budgets.parsed(line)
    except ValueError as error:  # also of a number with very many digits
        raise InputError(f"{where} is not JSON: {error}. Correct the line.") from error


def _column(file: Readable, name: str, field: str, stretch: int) -> Iterator[str]:
    """A column of a table, in which texts may be long."""
    for line, row in records(lines_of(file, name, stretch), name, [field], "Set data.field.", sys.maxsize):
        if field not in row:
            raise InputError(f"{name}, line {line} ends before its {field!r}. Correct the line.")
        yield row[field]


def _rows(name: str, field: str) -> Iterator[str]:
    """A column of a folder saved by Hugging Face `datasets`."""
    try:
        import datasets  # type: ignore[import-not-found]
    except ImportError as error:
        raise InputError(f"Reading {name} needs the package datasets. Install it: pip install datasets.") from error
    rows: Any = datasets.Dataset.from_file(name)
    if field not in rows.column_names:
        next_step = sentences(did_you_mean(field, rows.column_names), "Set data.field.")
        raise InputError(f"{name} has the columns {', '.join(rows.column_names)}, but no {field!r}. {next_step}")
    for number, row in enumerate(rows.select_columns([field]), 1):
        if not isinstance(row[field], str):
            raise InputError(
                f"{name}, row {number} has no text {field!r}, but {row[field]!r}. Leave the row out, or set data.field."
            )
        yield row[field]


def tei(content: bytes, name: str) -> str:
    """The body of a TEI text: paragraphs, heads and lines of verse, with an empty line between paragraphs."""
    try:
        root = ElementTree.fromstring(content)
    except (ElementTree.ParseError, LookupError, ValueError) as error:  # an encoding that is not known, or not supported
        raise InputError(f"{name} is no XML: {error}.") from error
    try:
        return _body(root, name)
    except RecursionError as error:
        raise InputError(f"{name} is not read: {budgets.TOO_DEEP}.") from error


def _body(root: ElementTree.Element, name: str) -> str:
    body = root.find(f".//{TEI}body")
    if body is None:
        raise InputError(f"{name} is no TEI text: it has no body.")
    return BETWEEN.join(" ".join("".join(_signs(part)).split()) for part in _blocks(body))


def _blocks(part: ElementTree.Element) -> Iterator[ElementTree.Element]:
    """The outermost paragraphs, heads and lines of verse."""
    for one in part:
        if one.tag in BLOCKS:
            yield one
        else:
            yield from _blocks(one)


def _signs(part: ElementTree.Element) -> Iterator[str]:
    """The text of an element; line breaks and nested blocks are separated by spaces."""
    apart = (part.tag == f"{TEI}lb" and part.get("break") != "no") or part.tag in BLOCKS
    yield (" " if apart else "") + (part.text or "")
    for one in part:
        yield from _signs(one)
        yield one.tail or ""
    if apart:
        yield " "
