"""Random changes of bytes, JSON and TOML."""

import copy
import json
import random
import struct
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DEEP = "[" * 5000
WORDS = [  # no path of them can be written outside of the case's folder, by root neither
    "", "x", "a" * 300, "a/" * 200, "../../../../etc/passwd/x", "$(touch canary)", "; touch canary", "`touch canary`",
    "|touch canary",
    "\x01\x02", "é", "𝄞", "-1", "0", "1e400", "nan", "None", "null", "{}", "[]", "rope", "gpt2", "~nobody", "/dev/null",
    "/dev/zero",
    "/dev/full", ".", "/proc", "*", "**", "{0}", "%s", "module:factory", "os:system", "transformers:os.system", "timm:../x",
    "a:b:c",
]  # fmt: skip
VALUES: list[Any] = [
    None, True, False, -1, 0, 1, 2**31, 10**30, -(10**30), 1.5, float("nan"), float("inf"), -1e308, "", "rope", "a" * 300, "\0",
    "\ud800",
    "$(touch canary)", "../../x", [], ["rope"], [[[]]], {}, {"scheme": ["rope"]}, {"": {}}, [None], list(range(1000)),
    "x" * 100_000, 7,
]  # fmt: skip
LINES = [
    "[model]", "[[data]]", "x = 1", "width = 0", DEEP, "[a.b.c]", "model = 3", "a" + ".a" * 900 + " = 1", "[[model.block]]",
    "[small]",
    "[data.augment]", "[engine]", "evaluation = { every = 0 }", "seed = -1", "seed = 1e9", "\ufeff", "title = 3", "[vary]",
]  # fmt: skip
ODD = ["x", DEEP, "0x" + "f" * 9000, "9" * 5000, "2020-01-01", "'''", "{ a = { b = 1 } }", "inf", "-nan", "[1, [2]]"]


def bytes_of(draw: random.Random, content: bytes) -> bytes:
    """Randomly changed bytes."""
    made, many = bytearray(content), len(content)
    for _ in range(draw.choice((1, 1, 2, 5))):
        place = draw.randrange(max(1, many))
        match draw.randrange(9):
            case 0:
                made = made[:place]
            case 1:
                made[place : place + 1] = bytes([draw.randrange(256)])
            case 2:
                made[place:place] = draw.choice(
                    (b"\0" * 9, b"\xff\xfe", DEEP.encode(), b"9" * 5000, b"-", b"nan ", b"1e999 ", b"\r", b'"')
                )
            case 3:
                made[place : place + draw.randrange(1, 64)] = b""
            case 4:
                made[:8] = struct.pack("<Q", draw.choice((0, 7, 2**20, 2**40, 2**63, 2**64 - 1)))
            case 5:
                made = bytearray(bytes(made).decode("latin-1").encode("utf-16"))
            case 6:
                made += made[: draw.randrange(1, 200)] * draw.choice((1, 50))
            case 7:
                digits = [i for i, byte in enumerate(made) if 48 <= byte < 58]
                if digits:
                    place = draw.choice(digits)
                    made[place : place + 1] = draw.choice((b"-1", b"0", b"999999999", b"1e30", b"x", b"nan"))
            case 8:
                made = bytearray(
                    draw.choice((b"", b"\0", b"[]", b"{}", b"null", b"\xef\xbb\xbf", b"\x80\x04N.", b"\x1f\x8b", DEEP.encode()))
                )
        many = len(made)
    return bytes(made)


def places(data: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of all values in plain data."""
    for key, held in data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ():
        yield (*path, key)
        yield from places(held, (*path, key))


def data_of(draw: random.Random, data: Any) -> Any:
    """Plain data with a random change: another value, a missing value, another name."""
    made = copy.deepcopy(data)
    for _ in range(draw.choice((1, 1, 1, 2, 4))):
        known = list(places(made))
        if not known:
            return copy.deepcopy(draw.choice(VALUES))
        *way, key = draw.choice(known)
        held = made
        for step in way:
            held = held[step]
        value = copy.deepcopy(draw.choice(VALUES))
        if draw.random() < 0.1:
            for _ in range(draw.choice((3, 70, 500))):
                value = draw.choice(([value], {"block": value}))
        match draw.randrange(6):
            case 0:
                del held[key]
            case 1 if isinstance(held, dict):
                held[draw.choice((key + "s", "x", key.upper(), "", "version", "scheme", "auto_map"))] = held.pop(key)
            case 2:
                held[key] = [held[key]]
            case 3:
                held[key] = {draw.choice(("scheme", "kind", "x")): held[key]}
            case _:
                held[key] = value
    return made


def json_of(draw: random.Random, path: Path) -> bytes:
    """A JSON file with a random change, or invalid JSON."""
    if draw.random() < 0.25:
        return bytes_of(draw, path.read_bytes())
    text = json.dumps(data_of(draw, json.loads(path.read_bytes())))
    return (text.replace('"x"', DEEP) if draw.random() < 0.05 else text).encode("utf-8", "surrogatepass")


def toml_of(draw: random.Random, content: str) -> bytes:
    """TOML with a random change, by line or by table, or invalid TOML."""
    chance = draw.random()
    if chance < 0.15:
        return bytes_of(draw, content.encode())
    if chance < 0.5:
        made = data_of(draw, tomllib.loads(content))
        try:
            lines = [f"{_key(name)} = {_toml(held)}" for name, held in made.items()] if isinstance(made, dict) else [_toml(made)]
        except RecursionError:
            lines = [DEEP]
        return "\n".join(lines).encode("utf-8", "surrogatepass")
    lines = content.splitlines()
    for _ in range(draw.choice((1, 1, 2, 4))):
        place = draw.randrange(len(lines))
        name, sign, _ = lines[place].partition("=")
        match draw.randrange(6):
            case 0:
                del lines[place]
            case 1:
                lines.insert(place, draw.choice(LINES))
            case 2:
                lines.insert(place, lines[draw.randrange(len(lines))])
            case _ if sign:
                value = draw.choice(ODD) if draw.random() < 0.15 else _toml(draw.choice(VALUES))
                lines[place] = f"{name}= {value}"
    return "\n".join(lines).encode("utf-8", "surrogatepass")


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_key(name)} = {_toml(held)}" for name, held in value.items()) + " }"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, float):
        return repr(value)
    return json.dumps(value).replace("null", '"none"')


def _key(name: Any) -> str:
    return json.dumps(str(name))
