"""Tokenizers: every text comes back, each is a tokenizer.json, and byte pairs are those that counting finds (T1)."""

import json
from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equiscope.errors import InputError
from equiscope.tokens import Tokenizer, by_bytes, by_characters, by_pieces, by_words, characters, words

TEXTS = ["Grüße aus Köln ☕", "Любовь побеждает всё", "愛はすべてに打ち勝つ", "naïve café\n\n\ttabs  and  spaces ", "👩‍👧 🇩🇪"]
LESSON = "the cat sat on the mat, the hat on the cat. " * 5


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize(
    "make", [by_bytes, lambda: by_pieces(TEXTS, 300), lambda: by_characters(TEXTS)], ids=["bytes", "pieces", "chars"]
)
def test_a_text_in_any_script_comes_back(make, text):
    made = make()
    ids = made.encode(text)
    assert made.decode(ids) == text
    assert all(0 <= i < made.size for i in ids)


@settings(max_examples=60, deadline=None)
@given(st.text())
def test_any_text_comes_back_from_bytes_and_pieces(text):
    for made in (by_bytes(), by_pieces(LESSON, 280)):
        assert made.decode(made.encode(text)) == text


def test_ids_of_bytes_are_the_bytes():
    made = by_bytes(special=["<end>"])
    assert made.encode("é☕") == list("é☕".encode())
    assert made.encode("a<end>") == [97, 256]
    assert made.size == 257
    assert made.decode(["☕".encode()[0]]) == "\ufffd"


def test_characters_and_words_are_numbered_by_first_appearance():
    letters, listed = by_characters("banana!"), by_words("to be or not to be")
    assert letters.encode("nab!") == [2, 1, 0, 3]
    assert listed.encode("not  to\nbe") == [3, 0, 1]
    assert listed.decode([3, 0, 1]) == "not to be"
    assert letters.size == len(set(characters("banana!")))
    assert listed.size == len(set(words("to be or not to be")))
    assert by_characters("é").encode("e\u0301") == [0]  # composed, as everywhere here


def test_words_end_where_python_ends_them():
    made = by_words("a b")
    spaces = [chr(i) for i in range(0x110000) if chr(i).isspace()]
    assert "\x1c" in spaces
    assert all(made.encode(f"a{space}b") == [0, 1] for space in spaces)
    marked = by_words("a b", unknown="<unknown>")
    others = [chr(i) for i in range(0x2100) if not chr(i).isspace()]
    assert all(len(marked.encode(f"a{other}b")) == 1 for other in others)


def test_what_has_no_id_is_named_or_becomes_the_unknown_one():
    with pytest.raises(InputError, match=r"'z' is not known. Make the tokenizer from texts that have it, or with unknown="):
        by_characters("abc").encode("abz")
    with pytest.raises(InputError, match="'cats' is not known"):
        by_words("some words").encode("some cats")
    made = by_words("some words", unknown="<?>", special=["<pad>"])
    assert made.encode("some cats") == [0, 2]
    assert made.size == 4
    with pytest.raises(InputError, match=r"ids 0..3, but got 9"):
        made.decode([0, 9])


def pairs(pieces):
    return Counter(pair for piece in pieces for pair in pairwise(piece))


def test_the_first_pairs_are_the_most_frequent_ones(tmp_path):
    """Counted here in plain Python, over the words with the space in front of them, as GPT-2 cuts them."""
    file = by_pieces(LESSON, 262).save(tmp_path)
    learned = [tuple(merge) for merge in json.loads(file.read_text())["model"]["merges"]]
    pieces = [
        tuple(word)
        for word in LESSON.replace(",", " ,").replace(".", " .").replace(" ", " Ġ").replace("Ġ,", ",").replace("Ġ.", ".").split()
    ]
    for merge in learned:
        counts = pairs(pieces)
        assert counts[merge] == max(counts.values())
        pieces = [merged(piece, merge) for piece in pieces]
    assert len(learned) == 6


def merged(piece, merge):
    found, i = [], 0
    while i < len(piece):
        joined = piece[i : i + 2] == merge
        found.append("".join(merge) if joined else piece[i])
        i += 1 + joined
    return tuple(found)


def test_pieces_shorten_a_real_text_and_learning_repeats_itself(data):
    text = data("tinyshakespeare/input.txt").read_text()
    made, again = by_pieces(text[:300_000], 1000, special=["<end>"]), by_pieces(text[:300_000], 1000, special=["<end>"])
    unseen = text[-50_000:]
    assert made.size == 1000
    assert made.encode(unseen) == again.encode(unseen)
    assert len(made.encode(unseen)) < 0.5 * len(unseen)  # measured 0.46
    assert made.decode(made.encode(unseen)) == unseen
    assert by_characters(text).size == 65  # the count that everybody states for this text


def test_a_file_is_read_back_here_and_by_transformers(tmp_path):
    transformers = pytest.importorskip("transformers")
    for made in (by_pieces(LESSON, 300, special=["<end>"]), by_bytes(), by_characters(LESSON), by_words(LESSON)):
        file = made.save(tmp_path)
        theirs = transformers.PreTrainedTokenizerFast(tokenizer_file=str(file))
        assert Tokenizer.read(tmp_path).encode("the cat sat") == made.encode("the cat sat") == theirs("the cat sat")["input_ids"]
        assert Tokenizer.read(file).size == made.size == len(theirs)


def test_a_file_that_is_no_tokenizer_is_refused(tmp_path):
    (tmp_path / "config.json").write_text('{"width": 8}')
    with pytest.raises(InputError, match=r"config.json is no tokenizer: .* Give a tokenizer.json as the library tokenizers"):
        Tokenizer.read(tmp_path / "config.json")
    with pytest.raises(InputError, match=r"There is no file .*tokenizer.json. Give a tokenizer.json, or a folder"):
        Tokenizer.read(tmp_path)


def test_what_is_no_id_and_no_tokenizer_is_refused(unchecked):
    made = by_bytes()
    for ids in ([1.0], "ab"):
        with pytest.raises(InputError, match=r"has ids 0\.\.255, but got"):
            made.decode(ids)
    with pytest.raises(InputError, match="This text is no tokenizer"):
        Tokenizer.of("{}")


def test_too_few_ids_for_the_bytes_are_refused():
    with pytest.raises(InputError, match="100 ids were asked for, but bytes and special tokens alone are 257"):
        by_pieces(LESSON, 100, special=["<end>"])


def test_what_a_file_says_of_batches_cuts_no_text(tmp_path):
    made = by_bytes()
    made.inner.enable_truncation(4)
    made.inner.enable_padding(length=8)
    made.inner.save(str(tmp_path / "tokenizer.json"))
    read = Tokenizer.read(tmp_path)
    assert read.encode("hello world") == list(b"hello world")
    assert Tokenizer.of((tmp_path / "tokenizer.json").read_text()).decode(read.encode("a")) == "a"


def test_a_file_that_makes_the_library_panic_is_no_tokenizer(tmp_path):
    said = json.loads(by_bytes().inner.to_str()) | {"normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAA="}}
    (tmp_path / "tokenizer.json").write_text(json.dumps(said))
    with pytest.raises(InputError, match="is no tokenizer"):
        Tokenizer.read(tmp_path)
    with pytest.raises(InputError, match="cannot be written"):
        by_bytes().save(tmp_path / "nowhere" / "tokenizer.json")
