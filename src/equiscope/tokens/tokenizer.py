"""Tokenizers: text to ids and back, by bytes, characters, words or byte pair encoding.

Each is saved as a tokenizer.json, the format of the library `tokenizers`, and any such file can be read.
"""

from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from equiscope import outputs
from equiscope.budgets import read
from equiscope.errors import InputError, printable, reason
from equiscope.tokens.text import characters, readable, vocabulary, words

FILE = "tokenizer.json"
SPACE = r"\s\x{1c}-\x{1f}\x{85}"  # white space as str.split defines it


class Tokenizer:
    """A tokenizer, from `by_bytes`, `by_characters`, `by_words`, `by_pieces` or `Tokenizer.read`.

    inner   the `tokenizers.Tokenizer`, for other functions of that library
    """

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        inner.no_truncation()  # a file may have both, for batches of its model: texts would be truncated
        inner.no_padding()

    @cached_property
    def size(self) -> int:
        """Number of ids, special ones included: ids are 0..size - 1. An embedding table needs this many rows."""
        return 1 + max(self.inner.get_vocab(with_added_tokens=True).values(), default=-1)

    def encode(self, text: str) -> list[int]:
        """The ids of a text, with the special ones that the tokenizer adds.

        raises  InputError for a character or word that has no id
        """
        try:
            return self.inner.encode(readable(text)).ids
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # tokenizers raises no narrower exception, and its panics
            raise InputError(f"This text has no ids: {self._unknown(text) or error}.") from error

    def encode_words(self, words: Sequence[str]) -> tuple[list[int], list[int | None]]:
        """The ids of words, with the special ones that the tokenizer adds, and the index of the first id of each word; None for a
        word without ids.

        raises  InputError for a word that has no id
        """
        try:
            found = self.inner.encode([readable(word) for word in words], is_pretokenized=True)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # as in `encode`
            unknown = next((named for word in words if (named := self._unknown(word))), "")
            raise InputError(f"These words have no ids: {unknown or error}.") from error
        first: dict[int | None, int] = {}
        for place, word in enumerate(found.word_ids):
            first.setdefault(word, place)
        return found.ids, [first.get(i) for i in range(len(words))]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids, without special ones; invalid bytes become the replacement character.

        raises  InputError for an id out of range
        """
        wrong = [i for i in ids if isinstance(i, (str, float)) or not 0 <= i < self.size]
        if wrong:
            raise InputError(f"The tokenizer has ids 0..{self.size - 1}, but got {wrong[0]}. Use the one that made these ids.")
        return self.inner.decode(list(ids))

    def save(self, path: str | Path) -> Path:
        """Write a tokenizer.json: path is the file, or an existing folder. Returns the file."""
        return outputs.write(_file(path), self.inner.to_str(pretty=True), "Give another folder, or make this one.")

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Read a tokenizer.json: path is the file or its folder.

        raises  InputError where there is no such file, or it is no tokenizer
        """
        from tokenizers import Tokenizer as Inner

        file = _file(path)
        try:
            content = read(file)
        except FileNotFoundError as error:
            raise InputError(f"There is no file {file}. Give a {FILE}, or a folder that has one.") from error
        except (OSError, ValueError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(
                f"{printable(file)} cannot be read: {reason(error)}. Give a {FILE}, or a folder that has one."
            ) from error
        try:
            return cls(Inner.from_buffer(content))
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # tokenizers raises no narrower exception, and its panics
            raise InputError(
                f"{file} is no tokenizer: {error}. Give a {FILE} as the library tokenizers writes it; "
                "a tokenizer.model or vocab.txt is another format."
            ) from error

    @classmethod
    def of(cls, text: str) -> Self:
        """The tokenizer of a tokenizer.json with this content, as from `inner.to_str()`. Raises InputError for other content."""
        from tokenizers import Tokenizer as Inner

        try:
            return cls(Inner.from_str(text))
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # as in `read`
            raise InputError(f"This text is no tokenizer: {error}. Give what the library tokenizers writes.") from error

    def _unknown(self, text: str) -> str:
        """A message on the piece of the text without an id; empty if another error occurred."""
        model, splitter = self.inner.model, self.inner.pre_tokenizer
        if type(model).__name__ != "WordLevel" or splitter is None:
            return ""
        whole = readable(text) if self.inner.normalizer is None else self.inner.normalizer.normalize_str(readable(text))
        new = [piece for piece, _ in splitter.pre_tokenize_str(whole) if model.token_to_id(piece) is None]
        return f"{new[0]!r} is not known. Make the tokenizer from texts that have it, or with unknown='<unknown>'" if new else ""


def by_bytes(special: Sequence[str] = ()) -> Tokenizer:
    """Every byte of UTF-8 a token: ids 0..255 are the bytes, special ones follow. Any text can be encoded and decoded
    exactly, except for texts of special tokens, which become those tokens.
    """
    from tokenizers.models import BPE

    return _byte_level(BPE(vocab=dict(zip(_signs(), range(256), strict=True)), merges=[]), special)


def by_pieces(texts: str | Iterable[str], size: int, special: Sequence[str] = ()) -> Tokenizer:
    """Byte pair encoding, trained on texts: the most frequent pair of pieces is merged until there are `size` ids.

    It starts with the 256 bytes, so any text can be encoded and decoded exactly; no piece spans two words.
    A short text runs out of pairs: then `Tokenizer.size` is smaller than requested. Special ones are the last ids.
    raises  InputError if size is too small for the bytes and the special ones
    source  Sennrich, Haddow & Birch 2016; over bytes and with these word borders: Radford et al. 2019 (GPT-2)
    """
    from tokenizers.models import BPE
    from tokenizers.pre_tokenizers import ByteLevel
    from tokenizers.trainers import BpeTrainer

    if size < 256 + len(special):
        raise InputError(f"{size} ids were asked for, but bytes and special tokens alone are {256 + len(special)}. Ask for more.")
    tokenizer = _byte_level(BPE())
    trainer = BpeTrainer(vocab_size=size - len(special), initial_alphabet=ByteLevel.alphabet(), show_progress=False)
    tokenizer.inner.train_from_iterator(map(readable, [texts] if isinstance(texts, str) else texts), trainer)
    tokenizer.inner.add_special_tokens(list(special))
    return tokenizer


def by_characters(texts: str | Iterable[str], special: Sequence[str] = (), unknown: str | None = None) -> Tokenizer:
    """Every character of the texts a token, in the order of first appearance, as `characters` splits.

    Decoded text is composed (NFC). unknown: the special token for other characters; without it they raise an error.
    """
    from tokenizers import Regex
    from tokenizers.decoders import Fuse
    from tokenizers.pre_tokenizers import Split

    tokenizer = _listed(texts, characters, special, unknown)
    tokenizer.inner.pre_tokenizer = Split(Regex(r"[\s\S]"), "isolated")
    tokenizer.inner.decoder = Fuse()
    return tokenizer


def by_words(texts: str | Iterable[str], special: Sequence[str] = (), unknown: str | None = None) -> Tokenizer:
    """Every word of the texts a token, in the order of first appearance, as `words` splits.

    Decoded text is composed (NFC), with one space between words. unknown: as in `by_characters`.
    """
    from tokenizers import Regex
    from tokenizers.pre_tokenizers import Split

    tokenizer = _listed(texts, words, special, unknown)
    tokenizer.inner.pre_tokenizer = Split(Regex(rf"[{SPACE}]+"), "removed")
    return tokenizer


def _listed(texts: str | Iterable[str], split: Any, special: Sequence[str], unknown: str | None) -> Tokenizer:
    """A word-level tokenizer of the pieces; unknown and special tokens follow."""
    from tokenizers import Tokenizer as Inner
    from tokenizers.models import WordLevel
    from tokenizers.normalizers import NFC

    pieces = (piece for text in ([texts] if isinstance(texts, str) else texts) for piece in split(text))
    more = [] if unknown is None else [unknown]
    inner = Inner(WordLevel(vocabulary([*pieces, *more]), **({} if unknown is None else {"unk_token": unknown})))
    inner.normalizer = NFC()
    inner.add_special_tokens([*more, *special])
    return Tokenizer(inner)


def _byte_level(model: Any, special: Sequence[str] = ()) -> Tokenizer:
    from tokenizers import Tokenizer as Inner
    from tokenizers import decoders, pre_tokenizers

    inner = Inner(model)
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    inner.add_special_tokens(list(special))
    return Tokenizer(inner)


def _signs() -> list[str]:
    """The printable character for each byte in a byte-level file, in the order of bytes (GPT-2's `bytes_to_unicode`)."""
    printable_bytes = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    hidden = [byte for byte in range(256) if byte not in printable_bytes]
    return [chr(byte if byte in printable_bytes else 256 + hidden.index(byte)) for byte in range(256)]


BYTES = _signs()


def _file(path: str | Path) -> Path:
    return Path(path) / FILE if Path(path).is_dir() else Path(path)
