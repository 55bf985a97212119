"""Tokenizers: a text to ids and back. Bytes, characters, words, or pieces that a text has taught.

One idea: each of them is saved as a tokenizer.json, the file that the rest of the world reads, and any such file is read.
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
SPACE = r"\s\x{1c}-\x{1f}\x{85}"  # what str.split takes for white space


class Tokenizer:
    """What every tokenizer can do; `by_bytes`, `by_characters`, `by_words`, `by_pieces` and `Tokenizer.read` make one.

    inner   a `tokenizers.Tokenizer`, for whatever else that library can do
    """

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        inner.no_truncation()  # a file may hold both, for batches of somebody's model: texts would lose their ends
        inner.no_padding()

    @cached_property
    def size(self) -> int:
        """How many ids there are, special ones included: ids are 0..size - 1. An embedding table needs this many rows."""
        return 1 + max(self.inner.get_vocab(with_added_tokens=True).values(), default=-1)

    def encode(self, text: str) -> list[int]:
        """The ids of a text, with the special ones that the file itself puts around it.

        raises  InputError for a character or word that has no id
        """
        try:
            return self.inner.encode(readable(text)).ids
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # tokenizers raises nothing narrower, and panics of its own
            raise InputError(f"This text has no ids: {self._unknown(text) or error}.") from error

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids, without special ones; bytes that are no text become the replacement sign.

        raises  InputError for an id that there is not
        """
        wrong = [i for i in ids if isinstance(i, (str, float)) or not 0 <= i < self.size]
        if wrong:
            raise InputError(f"The tokenizer has ids 0..{self.size - 1}, but got {wrong[0]}. Use the one that made these ids.")
        return self.inner.decode(list(ids))

    def save(self, path: str | Path) -> Path:
        """Write a tokenizer.json: path is the file, or a folder that there is. Returns the file."""
        return outputs.write(_file(path), self.inner.to_str(pretty=True), "Give another folder, or make this one.")

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Any tokenizer.json: path is the file, or the folder that holds it.

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
        except BaseException as error:  # tokenizers raises nothing narrower, and panics of its own
            raise InputError(
                f"{file} is no tokenizer: {error}. Give a {FILE} as the library tokenizers writes it; "
                "a tokenizer.model or vocab.txt is another format."
            ) from error

    @classmethod
    def of(cls, text: str) -> Self:
        """The tokenizer that a tokenizer.json of this text holds, as `inner.to_str()` gives it. Raises InputError of another."""
        from tokenizers import Tokenizer as Inner

        try:
            return cls(Inner.from_str(text))
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # as in `read`
            raise InputError(f"This text is no tokenizer: {error}. Give what the library tokenizers writes.") from error

    def _unknown(self, text: str) -> str:
        """Which piece of the text has no id, in words; empty where another thing was wrong."""
        model, splitter = self.inner.model, self.inner.pre_tokenizer
        if type(model).__name__ != "WordLevel" or splitter is None:
            return ""
        whole = readable(text) if self.inner.normalizer is None else self.inner.normalizer.normalize_str(readable(text))
        new = [piece for piece, _ in splitter.pre_tokenize_str(whole) if model.token_to_id(piece) is None]
        return f"{new[0]!r} is not known. Make the tokenizer from texts that have it, or with unknown='<unknown>'" if new else ""


def by_bytes(special: Sequence[str] = ()) -> Tokenizer:
    """Every byte of UTF-8 a token: ids 0..255 are the bytes themselves, special ones follow. Any text has ids, and comes back,
    but for the words of special tokens, which are those tokens wherever they stand.
    """
    from tokenizers.models import BPE

    return _byte_level(BPE(vocab=dict(zip(_signs(), range(256), strict=True)), merges=[]), special)


def by_pieces(texts: str | Iterable[str], size: int, special: Sequence[str] = ()) -> Tokenizer:
    """Byte pair encoding, taught by texts: the most frequent pair of pieces becomes one piece, until there are `size` ids.

    It begins with the 256 bytes, so any text has ids, and comes back; no piece crosses from one word to the next.
    A short text runs out of pairs: then `Tokenizer.size` is smaller than what was asked. Special ones are the last ids.
    raises  InputError if size leaves no room for the bytes and the special ones
    source  Sennrich, Haddow & Birch 2016; over bytes and with these word borders: Radford et al. 2019 (GPT-2)
    """
    from tokenizers.models import BPE
    from tokenizers.pre_tokenizers import ByteLevel
    from tokenizers.trainers import BpeTrainer

    if size < 256 + len(special):
        raise InputError(f"{size} ids were asked for, but bytes and special tokens alone are {256 + len(special)}. Ask for more.")
    made = _byte_level(BPE())
    trainer = BpeTrainer(vocab_size=size - len(special), initial_alphabet=ByteLevel.alphabet(), show_progress=False)
    made.inner.train_from_iterator(map(readable, [texts] if isinstance(texts, str) else texts), trainer)
    made.inner.add_special_tokens(list(special))
    return made


def by_characters(texts: str | Iterable[str], special: Sequence[str] = (), unknown: str | None = None) -> Tokenizer:
    """Every character of the texts a token, in the order of first appearance; what `characters` splits.

    A text comes back composed (NFC). unknown: the special token that stands for other characters; without one they are refused.
    """
    from tokenizers import Regex
    from tokenizers.decoders import Fuse
    from tokenizers.pre_tokenizers import Split

    made = _listed(texts, characters, special, unknown)
    made.inner.pre_tokenizer = Split(Regex(r"[\s\S]"), "isolated")
    made.inner.decoder = Fuse()
    return made


def by_words(texts: str | Iterable[str], special: Sequence[str] = (), unknown: str | None = None) -> Tokenizer:
    """Every word of the texts a token, in the order of first appearance; what `words` splits.

    A text comes back composed (NFC), with one space between words. unknown: as in `by_characters`.
    """
    from tokenizers import Regex
    from tokenizers.pre_tokenizers import Split

    made = _listed(texts, words, special, unknown)
    made.inner.pre_tokenizer = Split(Regex(rf"[{SPACE}]+"), "removed")
    return made


def _listed(texts: str | Iterable[str], split: Any, special: Sequence[str], unknown: str | None) -> Tokenizer:
    """A list of what there is, numbered; unknown and special ones follow."""
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
    """The visible sign by which a byte-level file writes each byte, in the order of bytes (GPT-2's `bytes_to_unicode`)."""
    seen = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    hidden = [byte for byte in range(256) if byte not in seen]
    return [chr(byte if byte in seen else 256 + hidden.index(byte)) for byte in range(256)]


BYTES = _signs()


def _file(path: str | Path) -> Path:
    return Path(path) / FILE if Path(path).is_dir() else Path(path)
