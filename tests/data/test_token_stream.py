"""Line: a text becomes one row of ids, the same in memory and mapped, and never half a row."""

import os
import unicodedata
from functools import partial

import numpy as np
import pytest

from equiscope.data import token_stream as room
from equiscope.data.token_stream import (
    UnknownCharacter,
    byte_table,
    cache,
    cached_facts,
    cached_stream,
    character_table,
)
from equiscope.errors import InputError
from equiscope.tokens import Tokenizer, by_bytes, by_characters, by_pieces, by_words

cut, encode_in_memory = partial(room.cut, length=64), partial(room.encode_in_memory, stretch=64)
TEXT = "Größe und cafe\u0301: €5, 😀 and don't; the end.\n\n  Two\tlines here.\n" * 40


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.setenv("EQUISCOPE_CACHE", str(tmp_path / "cache"))


TOKENIZERS = {"characters": by_characters, "bytes": lambda text: by_bytes(), "pieces": lambda text: by_pieces(text, 300)}


@pytest.mark.parametrize("name", TOKENIZERS)
def test_a_line_has_the_ids_that_the_tokenizer_gives_to_the_whole_text(name):
    tokenizer = TOKENIZERS[name](TEXT)
    line = encode_in_memory(tokenizer, [TEXT[i : i + 5] for i in range(0, len(TEXT), 5)])
    assert line.ids.tolist() == tokenizer.encode(TEXT)
    assert line.ids.dtype == (np.uint16 if name == "pieces" else np.uint8)
    assert line.characters == len(unicodedata.normalize("NFC", TEXT))


def test_characters_and_bytes_are_looked_up_and_nothing_else_is():
    assert character_table(by_characters(TEXT)) is not None
    assert byte_table(by_bytes()) is not None
    for other in (
        by_bytes(),
        by_pieces(TEXT, 300),
        by_words(TEXT),
        by_characters(TEXT, unknown="?!"),
        by_characters(TEXT, ["<end>"]),
    ):
        assert character_table(other) is None
    for other in (by_characters(TEXT), by_pieces(TEXT, 300), by_bytes(["<end>"])):
        assert byte_table(other) is None


def test_a_tokenizer_from_a_file_is_looked_up_too(tmp_path):
    tokenizer = Tokenizer.read(by_characters(TEXT).save(tmp_path / "tokenizer.json"))
    assert character_table(tokenizer) is not None
    assert encode_in_memory(tokenizer, [TEXT]).ids.tolist() == tokenizer.encode(TEXT)


def test_a_character_without_an_id_is_named():
    with pytest.raises(UnknownCharacter, match=r"'é' \(U\+00E9\) has no id"):
        encode_in_memory(by_characters("abc"), ["ab", "caé"])


def test_longer_stretches_tear_no_word_and_lose_nothing():
    words = "some words and others " * 50
    found = list(cut(words[i : i + 9] for i in range(0, len(words), 9)))
    assert "".join(found) == words
    assert len(found) > 3
    assert all(part.startswith(" ") for part in found[1:])


@pytest.mark.parametrize("separator", ["\n\n", "THE END", "<|endoftext|>"])
def test_a_separator_has_the_same_ids_wherever_stretches_end(separator):
    """Also where a file comes in stretches that tear it, and where a document is longer than a stretch."""
    text = separator.join(["a few words.", "some more of them " * 9, "!", "one last"] * 4)
    tokenizer = by_pieces(text, 300)
    alone, whole = (
        encode_in_memory(tokenizer, [separator], separator).ids.tolist(),
        encode_in_memory(tokenizer, [text], separator).ids.tolist(),
    )
    for size in (1, 5, 64, 70):
        ids = encode_in_memory(tokenizer, [text[i : i + size] for i in range(0, len(text), size)], separator).ids.tolist()
        assert ids == whole
        assert sum(ids[i : i + len(alone)] == alone for i in range(len(ids))) == text.count(separator) == 15
    assert tokenizer.decode(whole) == text


def test_a_text_without_spaces_is_cut_all_the_same():
    found = list(cut(["人" * 1000], most=128))
    assert "".join(found) == "人" * 1000
    assert max(map(len, found)) == 128


def test_a_line_is_made_once_and_then_mapped():
    asked = []

    def text():
        asked.append(1)
        yield TEXT

    tokenizer = by_characters(TEXT)
    first, second = cached_stream("a", tokenizer, text), cached_stream("a", tokenizer, text)
    assert len(asked) == 1
    assert isinstance(second.ids, np.memmap)
    assert first.ids.tolist() == second.ids.tolist() == encode_in_memory(tokenizer, [TEXT]).ids.tolist()
    assert first.characters == second.characters
    cached_stream("b", tokenizer, text), cached_stream("a", by_bytes(), text)  # other texts, other tokenizers
    assert len(asked) == 3


def test_a_line_that_was_cut_short_is_made_again():
    tokenizer = by_characters(TEXT)
    cached_stream("a", tokenizer, lambda: iter([TEXT]))
    file = next((cache() / "lines").glob("*/ids"))
    file.write_bytes(file.read_bytes()[:-5])
    assert len(cached_stream("a", tokenizer, lambda: iter([TEXT])).ids) == len(tokenizer.encode(TEXT))


def test_nothing_half_made_stays_when_a_text_cannot_be_read():
    def broken():
        yield TEXT
        raise RuntimeError("gone")

    with pytest.raises(RuntimeError):
        cached_stream("a", by_characters(TEXT), broken)
    assert list((cache() / "lines").iterdir()) == []


def test_where_no_file_can_be_written_a_line_is_held_in_memory(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("EQUISCOPE_CACHE", str(tmp_path / "file" / "cache"))
    line = cached_stream("a", by_characters(TEXT), lambda: iter([TEXT]))
    assert not isinstance(line.ids, np.memmap)
    assert line.ids.tolist() == by_characters(TEXT).encode(TEXT)
    assert cached_facts("a", lambda: {"n": 1}) == {"n": 1}


def test_facts_are_remembered_and_a_damaged_memory_is_made_again():
    made = iter(range(9))
    assert cached_facts("a", lambda: {"n": next(made)}) == {"n": 0}
    assert cached_facts("a", lambda: {"n": next(made)}) == {"n": 0}
    next((cache() / "facts").iterdir()).write_text("{")
    assert cached_facts("a", lambda: {"n": next(made)}) == {"n": 1}


def test_the_cache_is_where_the_system_keeps_what_can_be_made_again(monkeypatch):
    monkeypatch.delenv("EQUISCOPE_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", os.path.join(os.sep, "some", "where"))
    monkeypatch.setattr("sys.platform", "linux")
    assert cache().parts[-2:] == ("where", "equiscope")


def test_a_cache_of_nobody_is_refused(monkeypatch):
    monkeypatch.setenv("EQUISCOPE_CACHE", "~nobody-at-all/cache")
    with pytest.raises(InputError, match="EQUISCOPE_CACHE is ~nobody-at-all/cache, which is no folder"):
        cache()
