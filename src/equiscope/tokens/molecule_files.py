"""Files of molecules, in Å: XYZ and extended XYZ, SDF (V2000), Chemical JSON. `points.read_points` calls these.

Sources: Open Babel's page on XYZ; the extended XYZ of libAtoms (github.com/libAtoms/extxyz); BIOVIA, "CTfile Formats" 2020;
Open Chemistry's Chemical JSON (github.com/OpenChemistry/chemicaljson).
"""

import json
import math
import re
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from equiscope.budgets import SETS
from equiscope.errors import OverBudget, counted
from equiscope.tokens.elements import SYMBOLS
from equiscope.tokens.lines import Lines
from equiscope.tokens.points import Points

UNIT = "angstrom"
OWN = ("title", "bond_order")  # values of an SDF that its blocks say
ELEMENTS = ("species", "Z")  # columns of extended XYZ that hold elements, as symbols or numbers
SIZES = ("a", "b", "c", "alpha", "beta", "gamma")  # of a cell in Chemical JSON
TRUTH = {"T": True, "F": False, "True": True, "False": False, "true": True, "false": False, "TRUE": True, "FALSE": False}
QUOTED = r""""(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'"""
LIST = r"\{[^{}]*\}|\[(?:[^\[\]]|\[[^\[\]]*\])*\]"
PAIR = re.compile(  # of extended XYZ's comments: a key, and what it says
    rf"""\s*(?P<key>{QUOTED}|[^\s="][^\s=]*)
    (?:(?:=|\s+=\s+)(?P<value>{QUOTED}|{LIST}|"[^"]*"[^\s"]*|[^\s"]\S*|)(?=\s|$))?(?=\s|$)""",
    re.VERBOSE,
)
PAIRS = re.compile(rf"""\s*([^\s="'{{}}\[\]]+=({QUOTED}|[^\s"'{{}}\[\]]+)(\s+|$))+""")
FAR = 1e300  # beyond it is no place


def xyz(path: Path, content: bytes) -> list[Points]:
    """Frames: a count, a comment, then a line an atom. A comment with `Properties=` or `Lattice=`, or of pairs key=value alone, is
    one of extended XYZ.
    """
    lines, result = Lines(path, content), list[Points]()
    while lines.left:
        _check_count(path, result)
        head = lines.next("a number of atoms")
        if not head.strip():  # between frames
            continue
        count = lines.integer(head, "the number of atoms")
        if count < 1:
            lines.fail(f"there are {count} atoms, and a molecule has one or more.")
        comment = lines.next("a comment")
        result.append(
            _extended(lines, count, comment)
            if re.search(r"(^|\s)(Properties|Lattice)=", comment) or PAIRS.fullmatch(comment)
            else _plain(lines, count, comment)
        )
    return result


def _plain(lines: Lines, count: int, comment: str) -> Points:
    """Symbol, x, y, z; further columns have no names and are left out."""
    numbers, coordinates = [], []
    for _ in range(count):
        words = lines.next(f"{count} atoms").split()
        if len(words) < 4:
            lines.fail(f"expected an element and three coordinates, but found {' '.join(words)!r}.")
        numbers.append(lines.element(words[0]))
        coordinates.append(lines.floats(words[1:4], 3, "coordinates"))
    return Points(_table(coordinates), UNIT, torch.tensor(numbers), values={"comment": comment})


def _extended(lines: Lines, count: int, comment: str) -> Points:
    values = _properties(lines, comment)
    value, known = values.pop("Properties", None), dict[str, Tensor]()
    columns = _columns(lines, "species:S:1:pos:R:3" if value is None else str(value))
    rows: dict[str, list[Any]] = {name: [] for name, _, _ in columns}
    for _ in range(count):
        words = lines.next(f"{count} atoms").split()
        words = words[:4] if value is None else words  # further columns have no names
        if len(words) != sum(wide for _, _, wide in columns):
            number = sum(wide for _, _, wide in columns)
            lines.fail(
                f"Properties say {counted(number, 'column')}, but the line of an atom has {len(words)}: {' '.join(words)!r}."
            )
        for name, kind, wide in columns:
            mine, words = words[:wide], words[wide:]
            rows[name].append([lines.element(mine[0])] if name in ELEMENTS else _cells(lines, mine, kind, name))
    for name, kind, wide in columns:
        if kind == "S" and name not in ELEMENTS:
            values[_distinct_name(values, name)] = [row[0] if wide == 1 else row for row in rows[name]]
            continue
        try:
            table = torch.tensor(rows[name], dtype=torch.float64 if kind == "R" else None).reshape(count, wide)
        except (ValueError, RuntimeError, OverflowError):  # beyond 64 bits
            lines.fail(f"{name} has a number that is too large.")
        table = table[:, 0] if wide == 1 else table
        if name in (*ELEMENTS, "pos"):
            known[name] = table
        else:
            values[_distinct_name(values, name)] = table
    cell = values.pop("Lattice", None)
    if cell is not None:
        cell = _cell(cell)
        if cell is None:
            lines.fail("Lattice is nine numbers in quotation marks: the three vectors of the cell.", lines.number - count)
    return Points(known["pos"], UNIT, known.get("Z", known.get("species")), cell=cell, values=values)


def _distinct_name(values: dict[str, Any], name: str) -> str:
    """The name of a column, where the frame has a value of that name too."""
    return f"{name} of atoms" if name in values else name


def _cell(value: Any) -> Tensor | None:
    """Three vectors [3, 3] of nine numbers; None where they are none."""
    fits = isinstance(value, list) and len(value) == 9 and all(type(n) in (int, float) and abs(n) < FAR for n in value)
    return torch.tensor(value, dtype=torch.float64).view(3, 3) if fits else None


def _columns(lines: Lines, value: str) -> list[tuple[str, str, int]]:
    """Name, kind and width from `species:S:1:pos:R:3`."""
    words = value.split(":")
    result = list(zip(words[::3], words[1::3], words[2::3], strict=False))
    if len(words) % 3 or any(kind not in "SRIL" or len(kind) != 1 or not wide.isdecimal() for _, kind, wide in result):
        lines.fail(f"Properties are name:kind:columns with kind S, R, I or L, again and again, but found {value!r}.")
    names = [name for name, _, _ in result]
    if len(set(names)) < len(names) or any(not 1 <= len(wide) <= 4 or int(wide) < 1 for _, _, wide in result):
        lines.fail(f"Properties {value[:80]!r} have a duplicate name, or no columns, or too many.")
    if odd := next((name for name, kind, wide in result if name in ELEMENTS and (kind not in "SI" or wide != "1")), None):
        lines.fail(f"{odd} is one column of symbols (S) or numbers (I), but Properties are {value[:80]!r}.")
    if ("pos", "R", "3") not in result:
        lines.fail(f"Properties {value!r} have no pos:R:3, so the atoms have no positions.")
    return [(name, kind, int(wide)) for name, kind, wide in result]


def _cells(lines: Lines, words: list[str], kind: str, name: str) -> list[Any]:
    if kind == "R":
        return lines.floats(words, len(words), name)
    if kind == "I":
        return [lines.integer(word, name) for word in words]
    return [word in ("T", "True", "TRUE", "true") for word in words] if kind == "L" else words


def _properties(lines: Lines, comment: str) -> dict[str, Any]:
    """The key=value pairs of a comment; a key alone is true. What is no pair at all is left out."""
    result, offset = dict[str, Any](), 0
    while offset < len(comment) and (word := re.compile(r"\s*\S+").match(comment, offset)) is not None:
        if (pair := PAIR.match(comment, offset)) is not None:
            result[_bare(pair["key"])] = True if pair["value"] is None else _value(pair["value"])
        elif '"' in word[0]:
            lines.fail("a quotation mark is not closed.")
        offset = (pair or word).end()
    return result


def _bare(text: str) -> str:
    """What stands between quotation marks, where a backslash keeps the next mark from closing them."""
    if re.fullmatch(QUOTED, text):
        return re.sub(r"""\\(["'\\])""", r"\1", text[1:-1])
    return text.replace('"', "")


def _value(text: str) -> Any:
    """Numbers and T/F become what they are, several of them a list; `[[1, 2], [3, 4]]` a list of lists; all else stays text."""
    if re.fullmatch(LIST, text):
        inner = text[1:-1].strip()
        nested = inner.startswith("[") and text.startswith("[")
        lists = [_listed(_words(row)) for row in (re.findall(r"\[([^\[\]]*)\]", inner) if nested else [inner])]
        return lists if nested else lists[0]
    result = _listed(_bare(text).split())
    return _bare(text) if not result or isinstance(result[0], str) else result[0] if len(result) == 1 else result


def _words(text: str) -> list[str]:
    """The items of a list in brackets or braces, split at commas; also at spaces, unless there are quotation marks."""
    words = text.split(",") if '"' in text or "'" in text else re.split(r"[\s,]+", text)
    return [word.strip() for word in words if word.strip()]


def _listed(words: list[str]) -> list[Any]:
    """Words as numbers, or as T/F, where all of them are; else as they stand."""
    for read in (int, float, TRUTH.__getitem__) if "_" not in "".join(words) else ():  # which Python would read as a number's
        try:
            return [read(word) for word in words]
        except (ValueError, KeyError):
            continue
    return [_bare(word) for word in words]


def sdf(path: Path, content: bytes) -> list[Points]:
    """Molecules of an SD file, each closed by `$$$$`: atoms, bonds, and the data items `> <NAME>` as texts."""
    lines, result = Lines(path, content), list[Points]()
    while lines.left:
        _check_count(path, result)
        result.append(_molecule(lines))
    return result


def _check_count(path: Path, result: list[Points]) -> None:
    if len(result) >= SETS:
        raise OverBudget(f"{path} has more than {SETS:,} molecules, which are read at most. Cut the file into several.")


def _molecule(lines: Lines) -> Points:
    title, *_ = [lines.next("the three lines of a header") for _ in range(3)]
    counts = lines.next("the counts line")
    if "V3000" in counts:
        lines.fail("this molecule is in version V3000, and V2000 is read here. Convert it, e.g. obabel in.sdf -O out.sdf.")
    atoms, bonds = lines.integer(counts[:3], "the number of atoms"), lines.integer(counts[3:6], "the number of bonds")
    if atoms < 1:
        lines.fail(f"there are {atoms} atoms, and a molecule has one or more.")
    numbers, coordinates, pairs, orders = [], [], [], []
    for _ in range(atoms):
        line = lines.next(f"{atoms} atoms")  # columns of fixed width: numbers may touch
        coordinates.append(lines.floats([word for i in (0, 10, 20) if (word := line[i : i + 10].strip())], 3, "coordinates"))
        numbers.append(lines.element(line[31:34].strip()))
    for _ in range(bonds):
        line = lines.next(f"{bonds} bonds")
        pairs.append([lines.integer(line[i : i + 3], "the number of an atom") - 1 for i in (0, 3)])
        orders.append(lines.integer(line[6:9], "the order of a bond"))
        if not all(0 <= end < atoms for end in pairs[-1]):
            lines.fail(f"this bond joins atoms {pairs[-1][0] + 1} and {pairs[-1][1] + 1}, but there are {atoms}.")
    return Points(
        _table(coordinates), UNIT, torch.tensor(numbers), torch.tensor(pairs, dtype=torch.long).view(-1, 2),
        values=_items(lines) | {"title": title.strip(), "bond_order": torch.tensor(orders, dtype=torch.long)},
    )  # fmt: skip


def _items(lines: Lines) -> dict[str, str]:
    """What follows the bonds up to `$$$$`, or to the end of a file of one molecule."""
    items: dict[str, str] = {}
    ended = False
    while lines.left:
        line = lines.next("$$$$")
        if line.startswith("$$$$"):
            break
        if line.startswith(">") and line[1:].strip():
            name = line[line.index("<") + 1 : line.rindex(">")] if "<" in line else line[1:].strip()  # also by a number: DT12
            text = list[str]()
            while lines.left and not lines.lines[lines.number].startswith("$$$$") and (more := lines.next("data")).strip():
                text.append(more)
            items[f"{name} of the file" if name in OWN else name] = "\n".join(text)
        elif ended and line.strip():
            lines.fail("after 'M  END' come data items '> <NAME>', or $$$$, which closes a molecule.")
        ended = ended or line.startswith("M  END")
    return items


def cjson(path: Path, content: bytes) -> list[Points]:
    """One molecule: `atoms.coords.3d`, `atoms.elements.number`, `bonds.connections.index`; `properties` go into the values."""
    lines = Lines(path, content)
    try:
        data = json.loads(content)
    except (ValueError, RecursionError) as error:
        lines.fail(f"this is no JSON: {error}.", getattr(error, "lineno", 1))
    coordinates, numbers = _inside(data, "atoms", "coords", "3d"), _inside(data, "atoms", "elements", "number")
    for name, result, each in (("atoms.coords.3d", coordinates, 3), ("atoms.elements.number", numbers, 1)):
        if not isinstance(result, list) or len(result) % each or not all(type(n) in (int, float) and abs(n) < FAR for n in result):
            lines.fail(f"{name} should be a list of numbers, {each} for each atom.", 1)
    if odd := [n for n in numbers if n != int(n) or not 1 <= n <= len(SYMBOLS)]:
        lines.fail(f"there is no element {odd[0]}.", 1)
    if len(coordinates) != 3 * len(numbers) or not numbers:
        lines.fail(f"atoms.coords.3d has {len(coordinates)} numbers, and there are {len(numbers)} atoms, with three each.", 1)
    pairs, orders = _inside(data, "bonds", "connections", "index"), _inside(data, "bonds", "order")
    if pairs is not None and not (
        isinstance(pairs, list) and len(pairs) % 2 == 0 and all(end in range(len(numbers)) for end in pairs)
    ):
        lines.fail(f"bonds.connections.index should be pairs of atoms 0..{len(numbers) - 1}.", 1)
    value = _inside(data, "properties")
    values = dict(value) if isinstance(value, dict) else {}
    if pairs is not None and isinstance(orders, list) and len(orders) == len(pairs) // 2:
        if not all(type(order) in (int, float) and abs(order) < 2**53 for order in orders):
            lines.fail("bonds.order should be a list of numbers, one for each bond.", 1)
        values["bond_order"] = torch.tensor(orders)
    bonds = None if pairs is None else torch.tensor(pairs, dtype=torch.long).view(-1, 2)
    said_cell = _inside(data, "unitCell") or _inside(data, "unit cell")  # the older name
    vectors = _inside(said_cell, "cellVectors")
    known = [name for name in SIZES if _inside(said_cell, name) is not None]
    cell = _cell(vectors) if vectors is not None else _of_lengths(said_cell) if known else None
    if cell is None and (known or vectors is not None):
        lines.fail(
            "unitCell.cellVectors should be nine numbers: the three vectors of the cell; or unitCell has their lengths a, b, c and "
            "the angles alpha, beta, gamma between them.",
            1,
        )
    return [Points(_table(coordinates), UNIT, torch.tensor(numbers, dtype=torch.long), bonds, cell=cell, values=values)]


def _of_lengths(value: Any) -> Tensor | None:
    """Vectors [3, 3] of lengths and of angles in degrees: the first along x, the second in the plane of x and y; None of none."""
    numbers = [_inside(value, name) for name in SIZES]
    if not all(type(n) in (int, float) and 0 < n < FAR for n in numbers):
        return None
    a, b, c = numbers[:3]
    alpha, beta, gamma = (math.radians(n) for n in numbers[3:])
    if not 0 < gamma < math.pi:
        return None
    x = math.cos(beta)
    y = (math.cos(alpha) - x * math.cos(gamma)) / math.sin(gamma)
    if x * x + y * y >= 1:  # no three directions have these angles
        return None
    rows = [[a, 0, 0], [b * math.cos(gamma), b * math.sin(gamma), 0], [c * x, c * y, c * math.sqrt(1 - x * x - y * y)]]
    return torch.tensor(rows, dtype=torch.float64)


def _inside(data: Any, *keys: str) -> Any:
    for key in keys:
        data = data.get(key) if isinstance(data, dict) else None
    return data


def _table(coordinates: list[Any]) -> Tensor:
    return torch.tensor(coordinates, dtype=torch.float64).view(-1, 3)
