"""Token stream: a text as one long array of ids in a memory-mapped file, so that it can be larger than memory.

Stored in a cache folder, under a digest of its sources; written once, whole or not at all. If no file can be written, it is kept in
memory.
"""

import hashlib
import json
import os
import re
import shutil
import sys
import tempfile
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from equiscope import outputs
from equiscope.errors import InputError
from equiscope.tokens.text import readable
from equiscope.tokens.tokenizer import BYTES, Tokenizer

WHOLE, MOST = 2**18, 2**20  # characters of a stretch that is encoded at once, and the most
FACTS = "line.json"


@dataclass(frozen=True)
class TokenStream:
    """ids [N], memory-mapped or in memory; characters: of the text that they encode."""

    ids: np.ndarray
    characters: int


def cache() -> Path:
    """The cache folder: EQUISCOPE_CACHE, or the system's cache folder."""
    if given := os.environ.get("EQUISCOPE_CACHE"):
        try:
            return Path(given).expanduser()
        except RuntimeError as error:  # ~ of an unknown user
            raise InputError(f"EQUISCOPE_CACHE is {given}, which is no folder: {error} Set another, or unset it.") from error
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local")) / "equiscope" / "cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "equiscope"
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "equiscope"


def cached_stream(key: str, tokenizer: Tokenizer, text: Callable[[], Iterator[str]], separator: str | None = None) -> TokenStream:
    """The stream of a text: memory-mapped from the cache, or encoded now and cached if possible.

    key        a digest of the text's sources, including the separator; the tokenizer is added here
    text       returns an iterator over the text, a stretch at a time
    separator  between two documents: it always has the same ids, since no token crosses its border
    raises  InputError for characters that have no id
    """
    kind = smallest(tokenizer)
    name = hashlib.sha256(f"{key} {tokenizer.inner.to_str()} {np.dtype(kind).str}".encode()).hexdigest()[:32]
    folder = cache() / "lines" / name
    if (line := _mapped(folder, kind)) is not None:
        return line
    part = None
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        part = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=folder.parent))
        count = characters = 0
        with (part / "ids").open("wb") as file:
            for ids, long in encoded(tokenizer, text(), kind, separator):
                file.write(ids.tobytes())
                count, characters = count + len(ids), characters + long
            file.flush()
            os.fsync(file.fileno())
        (part / FACTS).write_text(json.dumps({"ids": count, "characters": characters}), encoding="utf-8")
        with suppress(OSError):  # another process has just made the same
            part.rename(folder)
        if (line := _mapped(folder, kind)) is not None:
            return line
    except OSError:  # a full disk, or a folder that cannot be written
        pass
    finally:
        if part is not None:
            shutil.rmtree(part, ignore_errors=True)
    return encode_in_memory(tokenizer, text(), separator, kind)


def cached_facts(key: str, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The cached result of `make` for this key, or a new one, cached if possible."""
    path = cache() / "facts" / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.json"
    with suppress(OSError, ValueError):
        known: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return known
    facts = make()
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        outputs.put(path, json.dumps(facts))
    return facts


def encode_in_memory(
    tokenizer: Tokenizer, text: Iterable[str], separator: str | None = None, kind: type[np.unsignedinteger] | None = None,
    stretch: int = WHOLE,
) -> TokenStream:  # fmt: skip
    """The stream of a text, in memory."""
    kind = kind or smallest(tokenizer)
    rows = list(encoded(tokenizer, text, kind, separator, stretch))
    return TokenStream(np.concatenate([np.zeros(0, kind), *(ids for ids, _ in rows)]), sum(long for _, long in rows))


def _mapped(folder: Path, kind: type[np.unsignedinteger]) -> TokenStream | None:
    """The stream of a cache folder; None if there is none, or it is incomplete."""
    try:
        facts = json.loads((folder / FACTS).read_text(encoding="utf-8"))
        if (folder / "ids").stat().st_size != facts["ids"] * np.dtype(kind).itemsize:
            shutil.rmtree(folder, ignore_errors=True)
            return None
        ids = np.memmap(folder / "ids", kind, "r") if facts["ids"] else np.zeros(0, kind)
        return TokenStream(ids, int(facts["characters"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def smallest(tokenizer: Tokenizer) -> type[np.unsignedinteger]:
    """The smallest dtype that holds all ids."""
    return next(kind for kind in (np.uint8, np.uint16, np.uint32) if tokenizer.size <= np.iinfo(kind).max + 1)


# --- text to ids ------------------------------------------------------------------------------------------------------
def encoded(
    tokenizer: Tokenizer, text: Iterable[str], kind: type[np.unsignedinteger], separator: str | None = None, stretch: int = WHOLE
) -> Iterator[tuple[np.ndarray, int]]:
    """Ids of a text, a stretch at a time, and the number of characters (composed, NFC) of each stretch."""
    table, bytes_ = character_table(tokenizer), byte_table(tokenizer)
    for part in cut(text, separator or "", stretch):
        given = readable(part)
        whole = unicodedata.normalize("NFC", given)
        if table is not None:
            yield character_ids(table, whole).astype(kind), len(whole)
        elif bytes_ is not None:
            yield bytes_[np.frombuffer(given.encode(), np.uint8)].astype(kind), len(whole)
        else:
            parts = [given] if separator is None else [part for part in re.split(f"({re.escape(separator)})", given) if part]
            ids = [one.ids for one in tokenizer.inner.encode_batch(parts, add_special_tokens=False)]
            yield np.array(list(chain.from_iterable(ids)), kind), len(whole)


def cut(text: Iterable[str], separator: str = "", length: int = WHOLE, most: int = MOST) -> Iterator[str]:
    """The same text in longer stretches, which end at the end of a document or a word: neither words nor separators are split."""
    rest = ""
    for stretch in text:
        rest += stretch
        while len(rest) >= length:
            head = rest[: len(rest) - len(separator)]  # what may have begun behind it is not whole yet
            end = rest.rfind(separator) + len(separator) if separator and separator in rest else _end(head)
            if not end and len(rest) < most:
                break
            end = end or head.rfind("\n") + 1 or min(most, len(head))
            yield rest[:end]
            rest = rest[end:]
    if rest:
        yield rest


def _end(text: str) -> int:
    """The last boundary between a letter and a space that a letter follows; 0 if there is none."""
    end = len(text)
    while (end := text.rfind(" ", 1, end)) > 0:
        if end + 1 < len(text) and text[end - 1].isalpha() and text[end + 1].isalpha():
            return end
    return 0


def unknown_id(tokenizer: Tokenizer) -> int | None:
    """The id of a tokenizer's unknown token; None if there is none."""
    model = json.loads(tokenizer.inner.to_str())["model"]
    if (sign := model.get("unk_token")) is not None:
        token_id: int | None = tokenizer.inner.token_to_id(sign)
        return token_id
    number: int | None = model.get("unk_id")
    return number


def character_table(tokenizer: Tokenizer) -> np.ndarray | None:
    """The id of every character by its code point, -1 for none; None if the tokenizer does more than look up characters."""
    description = json.loads(tokenizer.inner.to_str())
    model, split = description["model"], description.get("pre_tokenizer") or {}
    plain = model.get("type") == "WordLevel" and split.get("type") == "Split" and split.get("pattern") == {"Regex": r"[\s\S]"}
    more = description.get("added_tokens") or description.get("normalizer") != {"type": "NFC"}
    if not plain or more or model.get("unk_token") in model["vocab"]:
        return None
    known = {sign: i for sign, i in model["vocab"].items() if len(sign) == 1}
    table = np.full(0x110000, -1, np.int32)
    table[[ord(sign) for sign in known]] = list(known.values())
    return table


def byte_table(tokenizer: Tokenizer) -> np.ndarray | None:
    """The id of every byte; None if the tokenizer does more than look up bytes."""
    description = json.loads(tokenizer.inner.to_str())
    model, split = description["model"], description.get("pre_tokenizer") or {}
    plain = (
        model.get("type") == "BPE" and not model["merges"] and split.get("type") == "ByteLevel" and not split["add_prefix_space"]
    )
    if (
        not plain
        or split["add_prefix_space"]
        or description.get("normalizer")
        or description.get("added_tokens")
        or any(sign not in model["vocab"] for sign in BYTES)
    ):
        return None
    return np.array([model["vocab"][sign] for sign in BYTES])


def character_ids(table: np.ndarray, text: str) -> np.ndarray:
    """Ids of a text's characters. Raises InputError for one that has none."""
    ids = table[np.frombuffer(text.encode("utf-32-le"), np.uint32)]
    if len(ids) and ids.min() < 0:
        raise UnknownCharacter(text[int((ids < 0).argmax())])
    known_ids: np.ndarray = ids
    return known_ids


class UnknownCharacter(InputError):
    """A character that has no id."""

    def __init__(self, sign: str) -> None:
        super().__init__(f"{sign!r} (U+{ord(sign):04X}) has no id.")
        self.sign = sign
