"""Language: texts become one long stream of ids, cut into passages; the target at each position is the next id.

Texts are read in stretches, and the stream can be memory-mapped, so both can be larger than memory. Every prefix of a passage is an
example, all trained at once under the causal mask.
"""

import math
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Annotated, Any, Self

import msgspec
import numpy as np
import torch
from msgspec import Struct
from torch import Tensor

from equiscope.data.files import find_files, sources
from equiscope.data.sampler import Sampler, derived_seed
from equiscope.data.split_folders import one_part, spread
from equiscope.data.tables import separator_notes
from equiscope.data.texts import files, is_text_file, stretches
from equiscope.data.token_stream import (
    TokenStream,
    UnknownCharacter,
    cached_facts,
    cached_stream,
    cut,
    encode_in_memory,
    unknown_id,
)
from equiscope.errors import InputError, counted
from equiscope.record import DataFile
from equiscope.spec_base import Size
from equiscope.tokens.text import readable
from equiscope.tokens.tokenizer import Tokenizer, by_bytes, by_characters, by_pieces

READING = 2  # raised when files are read otherwise than before, so that no line of then is taken for one of now
OTHER_TOKENS = 'Use data.tokens = "bytes" or "pieces", which know every text'
OTHER_MODEL = "Start from a model whose tokenizer knows it, such as one of bytes"
LOOKED = 4096  # characters of a text that a tokenizer from elsewhere is tried on
SMALL = 2**20  # bytes of files: texts of fewer are read each time, without a cache
AT_ONCE = 2**16  # ids among which a separator is looked for
IGNORED = -100  # an answer that is not counted


class Language(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="language", tag_field="task"):
    """Texts for language modelling.

    train       files: plain text, JSONL or CSV (with `field`), TEI XML, archives or folders of these, or a folder saved by
                `datasets`; with * for many; or a folder of parts: train, val, test
    validation  files that choose the best weights; by default the last `held_out` of the characters of train
    test        files that are evaluated once, at the end
    held_out    share of the characters of train for the validation part, if `validation` names no files
    share       of the training part that is trained on, from its beginning; a tokenizer is still trained on the whole part
    context     T, tokens of a passage
    tokens      "characters", "bytes", "pieces" (byte pair encoding, trained on the training part), "checkpoint" (of model.start),
                or a tokenizer.json
    vocabulary  size of the vocabulary of "pieces"
    field       of a line of JSONL, or column of CSV, with the text
    separator   between two documents, such as "\\n\\n" or "<|endoftext|>"; it also replaces the empty line between documents of
                different files. With the mask "documents", a model attends within a document only
    overlap     share of a passage that the previous passage contained, in evaluation: it is read as context, but counted only once
    """

    train: str
    validation: str | None = None
    test: str | None = None
    held_out: Annotated[float, msgspec.Meta(gt=0, lt=1)] = 0.1
    share: Annotated[float, msgspec.Meta(gt=0, le=1)] = 1.0
    context: Annotated[int, msgspec.Meta(ge=2)]
    tokens: str = "characters"
    vocabulary: Size = 4096
    field: str = "text"
    separator: Annotated[str, msgspec.Meta(min_length=1)] | None = None
    overlap: Annotated[float, msgspec.Meta(ge=0, lt=1)] = 0.0


class Passages:
    """The texts of a `Language` recipe, opened and checked: a tokenizer, and a stream of ids for each part.

    unknown  id of the tokenizer's unknown token, if it has one
    whole    whether ids encode all of a text: a pretrained tokenizer may drop capitals or spaces
    raises  InputError for files that are missing, empty, undecodable, or shorter than one passage, and for characters that a
            pretrained tokenizer does not know
    """

    def __init__(
        self, config: Language, seed: int = 0, recipe_folder: Path | None = None, tokenizer: Tokenizer | None = None,
        cached_from: int = SMALL,
    ) -> None:  # fmt: skip
        self.config = config
        named: dict[str, str | None] = {"train": config.train, "validation": config.validation, "test": config.test}
        named, self.notes = spread(named, recipe_folder, is_text_file, False)
        self.paths = {part: files(find_files(name, recipe_folder)) for part, name in named.items() if name is not None}
        self.notes += separator_notes(chain.from_iterable(self.paths.values()), [config.field])
        self.sources: list[DataFile] = sources(self.paths)
        self.cached = sum(source.bytes for source in self.sources) >= cached_from
        self.cut = self._cut() if "validation" not in self.paths else 0
        parts: list[str] = [part for part in ("train", "validation", "test") if part in self.paths or part == "validation"]
        self.tokenizer = tokenizer or self._tokenizer(parts, recipe_folder)
        lines = {part: self._stream(part) for part in parts}
        self.characters = {part: line.characters for part, line in lines.items()}
        self.ids = {part: line.ids for part, line in lines.items()}
        self.ids["train"] = self.ids["train"][: math.ceil(len(self.ids["train"]) * config.share)]
        if config.share < 1:
            self.characters["train"] = len(self.tokenizer.decode(self.ids["train"].tolist()))
        self.unknown = unknown_id(self.tokenizer)
        self.whole = self._whole()
        for part, ids in self.ids.items():
            if len(ids) <= config.context:
                raise InputError(
                    f"The {part} part has {counted(len(ids), 'token')}, but one passage takes context + 1 = {config.context + 1}. "
                    "Give more text, or a shorter context."
                )
        self.seed, span = seed, config.context
        self.sampler = Sampler((len(self.ids["train"]) - 1 - span) // span + 1, seed)

    @classmethod
    def from_files(cls, config: Language, tokenizer: Tokenizer, part: str, names: Sequence[str]) -> Self:
        """New texts as the one part, in the ids of a run's tokenizer."""
        passages = cls.__new__(cls)
        passages.config, passages.tokenizer, passages.cached, passages.cut = config, tokenizer, False, 0
        paths = [path for name in names for path in find_files(name)]
        for path in paths:
            one_part(path, is_text_file, False)
        passages.paths = {part: files(paths)}
        passages.notes, passages.sources = separator_notes(passages.paths[part], [config.field]), sources(passages.paths)
        line = passages._stream(part)
        passages.ids, passages.characters, passages.unknown = {part: line.ids}, {part: line.characters}, unknown_id(tokenizer)
        passages.whole = passages._whole(part)
        if len(line.ids) < 2:
            raise InputError(
                f"{', '.join(names)} has {counted(len(line.ids), 'token')}, and of the first none is asked. Give more text."
            )
        return passages

    def text(self, part: str) -> Iterator[str]:
        """The text of a part, a stretch at a time."""
        if part in self.paths and (part != "train" or not self.cut):
            yield from self._stretches(part)
            return
        start = 0
        for stretch in self._stretches("train"):
            here = min(max(self.cut - start, 0), len(stretch))
            if some := stretch[:here] if part == "train" else stretch[here:]:
                yield some
            start += len(stretch)
            if part == "train" and start >= self.cut:
                return

    def batch(self, step: int, size: int) -> tuple[Tensor, Tensor]:
        """Passages of a step and their targets, ids [size, T] both.

        In an epoch every position is read once; the offset of the passages changes from epoch to epoch.
        """
        ids, span = self.ids["train"], self.config.context
        room = (len(ids) - 1) - ((len(ids) - 1 - span) // span + 1) * span  # what the passages of an epoch leave over
        rows = []
        for epoch, passage in self.sampler.batch(step, size):
            shift = derived_seed(self.seed, "shift", epoch) % (room + 1)
            rows.append(ids[shift + passage * span : shift + (passage + 1) * span + 1])
        both = torch.from_numpy(np.stack(rows).astype(np.int64))
        return both[:, :-1], both[:, 1:]

    def passages(self, part: str, size: int) -> Iterator[tuple[Tensor, Tensor]]:
        """All passages of a part in order, `size` at a time; the last one may be shorter and is a batch of its own.

        Targets that were in the previous passage are IGNORED: every position but the first is a target once.
        """
        ids, span = self.ids[part], self.config.context
        twice = min(round(self.config.overlap * span), span - 1)
        whole = np.lib.stride_tricks.sliding_window_view(ids, span + 1)[:: span - twice]
        for first in range(0, len(whole), size):
            rows = torch.from_numpy(whole[first : first + size].astype(np.int64))
            wanted = rows[:, 1:].clone()
            wanted[int(first == 0) :, :twice] = IGNORED
            yield rows[:, :-1], wanted
        begun = len(whole) * (span - twice)
        if begun + twice < len(ids) - 1:
            tail = torch.from_numpy(ids[begun:].astype(np.int64))[None]
            wanted = tail[:, 1:].clone()
            wanted[:, :twice] = IGNORED
            yield tail[:, :-1], wanted

    def separator(self) -> tuple[int, ...]:
        """The ids of data.separator. Raises InputError if there is none, or the training part does not contain it."""
        separator = self.config.separator
        if separator is None:
            raise InputError(
                "The mask separates documents, but the texts are one document: there is no data.separator. "
                'Set it, such as data.separator = "\\n\\n", or choose another mask.'
            )
        try:
            ids = encode_in_memory(self.tokenizer, [separator], separator).ids
        except UnknownCharacter:
            ids = np.zeros(0)
        if not len(ids) or not _occurs(ids, self.ids["train"]):
            raise InputError(
                f"The mask separates documents, but data.separator, {separator!r}, does not occur in the training part, "
                "which is one document. Set it to the text between two documents, or choose another mask."
            )
        return tuple(ids.tolist())

    def _stretches(self, part: str) -> Iterator[str]:
        return stretches(self.paths[part], self.config.field, self.config.separator)

    def _cut(self) -> int:
        """Number of characters before the held-out ones."""

        def count_characters() -> dict[str, Any]:
            return {"characters": sum(map(len, self._stretches("train")))}

        self.cut = 0  # while the whole is counted
        count = self._cached_facts("count", ["train"], count_characters)["characters"]
        return max(1, round(count * (1 - self.config.held_out)))

    def _tokenizer(self, parts: list[str], recipe_folder: Path | None) -> Tokenizer:
        """The tokenizer of a recipe. A character tokenizer covers all parts: its list of characters reveals nothing of their
        texts.
        """
        config = self.config
        if config.tokens == "bytes":
            return by_bytes()
        if config.tokens == "characters":

            def listed() -> dict[str, Any]:
                signs: set[str] = set()
                for stretch in cut(chain.from_iterable(self.text(part) for part in parts)):
                    signs.update(composed(stretch))
                return {"signs": sorted(signs)}

            return by_characters(self._cached_facts("signs", parts, listed)["signs"])
        if config.tokens == "pieces":

            def taught() -> dict[str, Any]:
                return {"tokenizer": by_pieces(cut(self.text("train")), config.vocabulary).inner.to_str()}

            return Tokenizer.of(self._cached_facts(f"pieces {config.vocabulary}", ["train"], taught)["tokenizer"])
        return Tokenizer.read(find_files(config.tokens, recipe_folder)[0])

    def _stream(self, part: str) -> TokenStream:
        try:
            if self.cached:
                return cached_stream(self._key(part), self.tokenizer, lambda: self.text(part), self.config.separator)
            return encode_in_memory(self.tokenizer, self.text(part), self.config.separator)
        except UnknownCharacter as error:
            taken = self.config.tokens == "checkpoint"  # the model knows its own words alone
            raise InputError(
                f"{self._location(error.sign)}: {error} The tokenizer of {'model.start' if taken else self.config.tokens} was "
                f"trained on other texts. {OTHER_MODEL if taken else OTHER_TOKENS}, or take the character out."
            ) from error

    def _whole(self, part: str = "validation") -> bool:
        """Checked on the beginning of a part; tokenizers that are trained here encode all of a text."""
        if self.config.tokens in ("characters", "bytes", "pieces"):
            return True
        text = composed("".join(islice(chain.from_iterable(self.text(part)), LOOKED)))
        return composed(self.tokenizer.decode(self.tokenizer.encode(text))).strip() == text.strip()

    def _cached_facts(self, what: str, parts: list[str], make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """The result of one pass over the texts of parts; cached if they are large."""
        return cached_facts(" ".join([what, *map(self._key, parts)]), make) if self.cached else make()

    def _key(self, part: str) -> str:
        """A key for a part's text: the digests of its files, and the settings and suffixes that determine how they are read."""
        of = part if part in self.paths else "train"
        kinds = ["".join(path.suffixes) for path in self.paths[of]]
        digests = [source.sha256 for source in self.sources if source.part == of]
        return repr((READING, self.config.field, self.config.separator, (self.cut, part) if of == "train" else (), kinds, digests))

    def _location(self, sign: str) -> str:
        """The file with this character, and its line in a plain text file."""
        for path in chain.from_iterable(self.paths.values()):
            line = 1
            for stretch in cut(stretches([path], self.config.field)):
                text = composed(stretch)
                if (at := text.find(sign)) >= 0:
                    return f"{path}, line {line + text.count(chr(10), 0, at)}" if path.suffix in (".txt", ".md") else str(path)
                line += text.count(chr(10))
        return str(next(iter(self.paths.values()))[0])


def _occurs(few: np.ndarray, ids: np.ndarray) -> bool:
    """Whether a short sequence of ids occurs in a long stream; searched a stretch at a time."""
    size = len(few)
    return any(
        bool((np.lib.stride_tricks.sliding_window_view(ids[start : start + AT_ONCE + size], size) == few).all(-1).any())
        for start in range(0, len(ids) - size + 1, AT_ONCE)
    )


def composed(text: str) -> str:
    """A text as a character tokenizer reads it."""
    return unicodedata.normalize("NFC", readable(text))
