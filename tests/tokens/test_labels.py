"""What tokens stand for, as people read it: letters stay whole, a piece of a letter says so; pieces of a word are known."""

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from equiscope.tokens.labels import labels, words
from equiscope.tokens.tokenizer import BYTES, by_bytes, by_characters, by_pieces, by_words

TEXTS = ["the dog", "日本語", "e\u0301te\u0301", "👩\u200d👩\u200d👧 a", "שלום עולם", "a\tb\nc"]


SEEN = {"\u0301": "◌\u0301", "\u200d": "U+200D"}


def read(tokenizer, text):
    return labels(tokenizer.inner, tokenizer.encode(text))


@pytest.mark.parametrize("text", TEXTS)
def test_bytes_of_a_letter_name_the_letter(text):
    found, at = read(by_bytes(), text), 0
    for letter in text:
        code = letter.encode()
        mine = found[at : at + len(code)]
        wanted = [letter] if len(code) == 1 else [f"⟨{byte:02X} of {SEEN.get(letter, letter)}⟩" for byte in code]
        assert mine == wanted
        at += len(code)
    assert at == len(found)


def test_pieces_of_whole_letters_are_text():
    made = by_pieces(["日本語 日本語 the dog the dog"] * 9, size=400)
    assert "".join(read(made, "the dog 日本語")) == "the dog 日本語"


def test_a_piece_that_ends_inside_a_letter_says_how_far():
    signs = [*BYTES, BYTES[0xE6] + BYTES[0x97]]
    inner = Tokenizer(models.BPE({sign: i for i, sign in enumerate(signs)}, [(BYTES[0xE6], BYTES[0x97])]))
    inner.pre_tokenizer, inner.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False), decoders.ByteLevel()
    assert labels(inner, inner.encode("a日").ids) == ["a", "⟨E6 97 of 日⟩", "⟨A5 of 日⟩"]


def test_a_byte_without_its_letter_is_a_byte():
    assert labels(by_bytes().inner, [0xE6, 97]) == ["⟨E6⟩", "a"]


def test_bytes_among_pieces_are_bytes():
    known = {"▁": 0, "a": 1, "<0xE6>": 2, "<0x97>": 3, "<0xA5>": 4, "▁dog": 5}
    inner = Tokenizer(models.BPE(known, []))
    assert labels(inner, [5, 2, 3, 4, 1]) == [" dog", "⟨E6 of 日⟩", "⟨97 of 日⟩", "⟨A5 of 日⟩", "a"]


def test_what_is_not_known_says_what_it_stands_for():
    inner = Tokenizer(models.WordLevel({"[UNK]": 0, "dog": 1}, unk_token="[UNK]"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    made = inner.encode("dog 👩")
    assert labels(inner, made.ids, "dog 👩", made.offsets) == ["dog", "⟨[UNK] for 👩⟩"]


def test_special_tokens_have_their_names():
    made = by_bytes(special=["<end>"])
    assert labels(made.inner, [97, 256]) == ["a", "<end>"]


def test_text_of_other_tokenizers_is_what_was_read():
    made = by_characters("the dog")
    assert read(made, "god") == ["g", "o", "d"]
    words = by_words("the dog runs")
    assert read(words, "dog runs") == ["dog", "runs"]


@pytest.mark.parametrize(
    ("signs", "wanted"),
    [
        (["▁A", "▁lo", "vel", "y", "▁dog", ".", "</s>"], [0, 1, 1, 1, 2, 3, 4]),
        (["▁The", "▁dog", "'", "s", "▁bone"], [0, 1, 2, 3, 4]),
    ],
)
def test_pieces_belong_to_words(signs, wanted):
    inner = Tokenizer(models.BPE({sign: i for i, sign in enumerate(dict.fromkeys(signs))}, []))
    inner.add_special_tokens(["</s>"])
    ids = [inner.token_to_id(sign) for sign in signs]
    assert words(inner, ids, labels(inner, ids)) == wanted


def test_word_pieces_go_on():
    known = {"play": 0, "##ing": 1, "chess": 2}
    inner = Tokenizer(models.WordPiece(known, unk_token="play"))
    assert words(inner, [0, 1, 2], ["play", "##ing", "chess"]) == [0, 0, 1]


def test_bytes_of_one_letter_are_one_word():
    made = by_bytes()
    ids = made.encode(" 日 a")
    assert words(made.inner, ids, labels(made.inner, ids)) == [0, 1, 1, 1, 2, 3]
