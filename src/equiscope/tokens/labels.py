"""Labels: tokens of a text as people read them, and which of them are pieces of one word.

A tokenizer of bytes may cut a letter in two. Such a piece is written as the bytes that it is and the letter that they belong to:
⟨E6 of 日⟩. A token that stands for what the tokenizer does not know says so: ⟨[UNK] for 👩⟩.
"""

import re
import unicodedata
from collections.abc import Sequence
from typing import Any

from equiscope.tokens.tokenizer import BYTES

SPACE = "▁"  # how SentencePiece writes the space before a word
GOES_ON = "##"  # how WordPiece writes that a word goes on
BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")  # a byte among pieces that are no bytes
UNKNOWN = ("[UNK]", "<unk>", "<UNK>", "<unknown>")
NUMBERS = {sign: byte for byte, sign in enumerate(BYTES)}
PART = re.compile(r"⟨[0-9A-F]{2}( [0-9A-F]{2})*( of [^⟩]+)?⟩")  # of a letter, as it is written here


def labels(inner: Any, ids: Sequence[int], text: str | None = None, offsets: Sequence[tuple[int, int]] = ()) -> list[str]:
    """What each token stands for, with the space before it where it has one.

    inner   a `tokenizers.Tokenizer`; text, offsets: what was read, and where each token lies in it; without: the ids alone say
    """
    special = {one.content for one in inner.get_added_tokens_decoder().values()}
    signs = [inner.id_to_token(i) or str(i) for i in ids]
    level = "ByteLevel" in f"{inner.decoder}{inner.pre_tokenizer}"
    bytes_ = [None if sign in special else _bytes(sign, level) for sign in signs]
    result = _decoded(bytes_)
    for index, (sign, piece_bytes) in enumerate(zip(signs, bytes_, strict=True)):
        read = text[slice(*offsets[index])] if text is not None and offsets else ""
        if sign in UNKNOWN:
            result[index] = f"⟨{sign} for {read.strip()}⟩" if read.strip() else sign
        elif sign in special:
            result[index] = sign
        elif piece_bytes is None:
            result[index] = sign.replace(SPACE, " ") if SPACE in sign else read or inner.decode([ids[index]]) or sign
    return result


def partial_letter_note(texts: Sequence[str]) -> str:
    """A sentence about labels that are no whole letters; empty where all are."""
    part = next((result for label in texts if (result := PART.search(label))), None)
    if part is None:
        return ""
    return f"A label such as {part[0]} is no whole letter: this tokenizer cuts the letter into bytes, and each is a token."


def words(inner: Any, ids: Sequence[int], texts: Sequence[str]) -> list[int]:
    """Of each token the number of its word, from 0 on. texts: the labels of the ids. Signs such as a full stop stand alone."""
    special = {one.content for one in inner.get_added_tokens_decoder().values()}
    signs = [inner.id_to_token(i) or "" for i in ids]
    spaced = any(label[:1].isspace() or label[-1:].isspace() for label in texts)
    result = list[int]()
    for index, (sign, label) in enumerate(zip(signs, texts, strict=True)):
        before = texts[index - 1] if index else ""
        separated = label[:1].isspace() or before[-1:].isspace() if spaced else not sign.startswith(GOES_ON)
        single = any(one in special for one in signs[max(0, index - 1) : index + 1]) or _letters(label) != _letters(before)
        result.append(0 if not index else result[-1] + (separated or single))
    return result


def _letters(label: str) -> bool:
    """Whether it is a word or a piece of one, rather than a sign between words."""
    return PART.search(label) is not None or any(letter.isalnum() for letter in label)


def _bytes(sign: str, level: bool) -> bytes | None:
    """The bytes that a token is; None where it is text."""
    if level and all(letter in NUMBERS for letter in sign):
        return bytes(NUMBERS[letter] for letter in sign)
    single = BYTE.fullmatch(sign)
    return bytes([int(single[1], 16)]) if single else None


def _decoded(pieces: Sequence[bytes | None]) -> list[str]:
    """Each piece as text: complete characters as themselves, parts of characters as bytes. "" for None."""
    result = [""] * len(pieces)
    index = 0
    while index < len(pieces):
        end = index
        while end < len(pieces) and pieces[end] is not None:
            end += 1
        stretch = [piece for piece in pieces[index:end] if piece is not None]
        for position, label in enumerate(_labels_of_bytes(stretch), start=index):
            result[position] = label
        index = end + 1
    return result


def _labels_of_bytes(pieces: Sequence[bytes]) -> list[str]:
    """Pieces that follow one another, as text."""
    stream = b"".join(pieces)
    letters = list[tuple[int, int, str]]()  # where each begins and ends, and what it is; nothing where the bytes are no letter
    offset = 0
    while offset < len(stream):
        size, letter = next(((n, text) for n in range(1, 5) if (text := _letter(stream[offset : offset + n]))), (1, ""))
        letters.append((offset, offset + size, letter))
        offset += size
    piece_bytes, begin, number = [], 0, 0
    for piece in pieces:
        end, label = begin + len(piece), ""
        while number < len(letters) and letters[number][0] < end:
            first, last, letter = letters[number]
            inside = stream[max(first, begin) : min(last, end)]
            whole = letter and first >= begin and last <= end
            label += letter if whole else f"⟨{inside.hex(' ').upper()}{f' of {_printable(letter)}' if letter else ''}⟩"
            if last > end:
                break
            number += 1
        piece_bytes.append(label)
        begin = end
    return piece_bytes


def _printable(letter: str) -> str:
    """A letter that can be seen: marks on a circle, what is empty or a control as its number."""
    kind = unicodedata.category(letter)[0]
    return f"◌{letter}" if kind == "M" else f"U+{ord(letter):04X}" if kind in "CZ" else letter


def _letter(part: bytes) -> str:
    try:
        text = part.decode()
    except UnicodeDecodeError:
        return ""
    return text if len(text) == 1 else ""
