"""Translation: parallel lines become pairs of id sequences; the target is the second of a pair, given the first.

Pairs of similar length form a batch, so that there is little padding. The pairs of a step are a function of the seed and the step.
"""

import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, NamedTuple, Self

import msgspec
import numpy as np
import torch
from msgspec import Struct
from torch import Tensor

from equiscope.budgets import undamaged
from equiscope.data.bpe_dropout import BpeDropout
from equiscope.data.faults import Faults
from equiscope.data.files import find_files, is_archive, open_file, sources
from equiscope.data.sampler import derived_seed, generator
from equiscope.data.tables import separator_notes, table
from equiscope.data.texts import decoded, kind_of, members, parsed
from equiscope.errors import InputError, counted
from equiscope.record import DataFile
from equiscope.spec_base import Share, Size
from equiscope.tokens.tokenizer import Tokenizer, by_pieces

Letters = Annotated[str, msgspec.Meta(pattern="^[a-z]{2}$")]  # ISO 639-1
END, START, PADDING = (
    ("<end>", "</s>"),
    ("<start>", "<pad>"),
    ("<pad>",),
)  # what they are called: here, and in Marian's and T5's files


class Translation(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="translation", tag_field="task"):
    """Pairs of texts for translation.

    train       two files of parallel lines [source, target]; or one TSV, CSV or JSONL file (with `fields`). Any may be compressed
    validation  pairs that choose the best weights; by default the last `held_out` of the training pairs
    test        pairs that are evaluated once, at the end
    held_out    share of the training pairs for the validation part, if `validation` names no files
    fields      columns, or fields of a line of JSONL: [source, target]
    languages   of source and target, two letters each, such as ["en", "de"]: BLEU then counts their words. Without them, what
                stands between spaces is counted, such as the phonemes of a word
    tokens      "pieces" (byte pair encoding, trained on both sides of the training part), "checkpoint" (of model.start), or a
                tokenizer.json
    vocabulary  size of the vocabulary of "pieces"
    lower       whether to lower-case all text: inputs, targets and translations
    length      most tokens of a side; longer training pairs are left out and counted
    dropout     probability that a merge of byte pairs is skipped in training (BPE-dropout)
    smoothing   label smoothing: share of the target that is spread over all tokens in training
    rdrop       weight of R-Drop, which trains on two forward passes with different dropout and pulls their outputs together; 0: off
    length_penalty  power of the length by which beam search divides a score: above 0 it prefers longer translations
    """

    train: tuple[str, str] | str
    validation: tuple[str, str] | str | None = None
    test: tuple[str, str] | str | None = None
    held_out: Annotated[float, msgspec.Meta(gt=0, lt=1)] = 0.1
    fields: tuple[str, str] = ("source", "target")
    languages: tuple[Letters, Letters] | None = None
    tokens: str = "pieces"
    vocabulary: Size = 8000
    lower: bool = False
    length: Size = 128
    dropout: Share = 0.0
    smoothing: Share = 0.1
    rdrop: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    length_penalty: Annotated[float, msgspec.Meta(ge=-1, le=10)] = 1.0


class SentencePair(NamedTuple):
    """A line and its translation; where: file and line of each side."""

    source: str
    target: str
    where: str


class RaggedIds:
    """Many short sequences of ids, stored in one long array."""

    def __init__(self, rows: Sequence[Sequence[int] | np.ndarray], size: int) -> None:
        self.ends = np.cumsum([0, *map(len, rows)])
        self.flat = np.fromiter((i for row in rows for i in row), np.uint16 if size <= 2**16 else np.uint32, int(self.ends[-1]))
        self.lengths = np.diff(self.ends)

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, row: int) -> np.ndarray:
        return self.flat[self.ends[row] : self.ends[row + 1]]


class EncodedPair(NamedTuple):
    """An encoded training pair: its index, and the ids of both sides, each with its end token."""

    pair: int
    source: np.ndarray
    target: np.ndarray


class _Epoch(NamedTuple):
    key: tuple[int, int]
    batches: list[np.ndarray]
    source: RaggedIds
    target: RaggedIds


class Pairs:
    """The texts of a `Translation` recipe, opened and checked: a tokenizer, and two id sequences for each pair of each part.

    notes   what was left out, in sentences
    raises  InputError for files that are missing, empty, undecodable or have unequal line counts, and for evaluated pairs with an
            empty side
    """

    def __init__(
        self, config: Translation, seed: int = 0, recipe_folder: Path | None = None, tokenizer: Tokenizer | None = None
    ) -> None:
        self.config, self.seed = config, seed
        named = {"train": config.train, "validation": config.validation, "test": config.test}
        paths = {part: _paths(name, recipe_folder) for part, name in named.items() if name is not None}
        self.sources: list[DataFile] = sources({part: [p for side in sides for p in side] for part, sides in paths.items()})
        self.notes = separator_notes([path for sides in paths.values() if len(sides) == 1 for path in sides[0]], config.fields)
        self.texts = {part: list(_pairs(sides, config)) for part, sides in paths.items()}
        self._check_pairs(self.texts)
        if config.validation is None:
            self._hold_out()
        self.tokenizer = tokenizer or make_tokenizer(config, self.texts["train"], recipe_folder)
        self.end, self.start, self.padding = (special(self.tokenizer, names) for names in (END, START, PADDING))
        self.ids: dict[str, tuple[RaggedIds, RaggedIds]] = {}
        for part in self.texts:
            self._encode(part)
        self.pieces: BpeDropout | None = None
        if config.dropout:
            self.pieces = BpeDropout(self.tokenizer, config.dropout, seed)
            self._word_ids = [RaggedIds([self.pieces.words(side) for side in sides], 2**32) for sides in self._sides("train")]
        self._epoch: _Epoch | None = None

    @classmethod
    def from_files(cls, config: Translation, tokenizer: Tokenizer, part: str, names: Sequence[str]) -> Self:
        """New pairs as the one part, in the ids of a run's tokenizer. names: two files of lines, source and target, or a table."""
        if len(names) > 2:
            raise InputError(f"Pairs are in two files, source and target, or in one table, but got {len(names)}. Give one or two.")
        pairs = cls.__new__(cls)
        pairs.config, pairs.tokenizer, pairs.pieces = config, tokenizer, None
        pairs.end, pairs.start, pairs.padding = (special(tokenizer, names) for names in (END, START, PADDING))
        sides = _paths(names[0] if len(names) == 1 else (names[0], names[1]), None)
        pairs.sources = sources({part: [path for side in sides for path in side]})
        pairs.notes = separator_notes(sides[0], config.fields) if len(sides) == 1 else []
        pairs.texts = {part: list(_pairs(sides, config))}
        pairs._check_pairs(pairs.texts)
        pairs.ids = {}
        pairs._encode(part)
        return pairs

    def batch(self, step: int, size: int) -> list["EncodedPair"]:
        """The pairs of a step, counted from 0: `size` on average, of similar length, with about the same number of tokens in every
        batch.

        In an epoch every pair occurs once; with dropout, split differently in each epoch.
        """
        epoch, place = divmod(step, -(-len(self.texts["train"]) // size))
        if self._epoch is None or self._epoch.key != (epoch, size):
            self._epoch = self._plan_epoch(epoch, size)
        now = self._epoch
        return [EncodedPair(pair, now.source[pair], now.target[pair]) for pair in now.batches[place].tolist()]

    def ordered(self, part: str, size: int) -> Iterator[np.ndarray]:
        """All pairs of a part, sorted by length, `size` at a time."""
        source, target = self.ids[part]
        order = np.lexsort((target.lengths, source.lengths))
        for first in range(0, len(order), size):
            yield order[first : first + size]

    def _plan_epoch(self, epoch: int, size: int) -> "_Epoch":
        """Pairs sorted by length, ties at random; cut into batches with about equally many tokens; the batches shuffled."""
        source, target = self._cut(epoch)
        count, chance = len(source), generator(self.seed, "epoch", epoch)
        steps = -(-count // size)
        noise = torch.rand(count, generator=chance).numpy()
        order = np.lexsort((noise, source.lengths, target.lengths))
        read = np.cumsum((source.lengths + target.lengths)[order])
        cuts = np.searchsorted(read, read[-1] * np.arange(1, steps) / steps, side="right")
        least = np.arange(1, steps)  # every batch has a pair at least
        cuts = np.minimum(np.maximum.accumulate(np.maximum(cuts, least) - least) + least, count - steps + least)
        batches = np.split(order, cuts)
        return _Epoch((epoch, size), [batches[i] for i in torch.randperm(steps, generator=chance).tolist()], source, target)

    def _cut(self, epoch: int) -> tuple[RaggedIds, RaggedIds]:
        """Ids of both sides of all training pairs, each with its end token, as they are split in this epoch."""
        if self.pieces is None:
            return self.ids["train"]
        draw, cut = np.random.default_rng(derived_seed(self.seed, "cut", epoch)), self.pieces.cut
        sides = [[[*cut(side[i], draw), self.end] for i in range(len(side))] for side in self._word_ids]
        return RaggedIds(sides[0], self.tokenizer.size), RaggedIds(sides[1], self.tokenizer.size)

    def _check_pairs(self, parts: dict[str, list[SentencePair]]) -> None:
        """Refuse or leave out pairs with an empty side, and refuse parts without pairs, or with two equal sides."""
        for part, pairs in parts.items():
            whole = [pair for pair in pairs if pair.source and pair.target]
            if empty := [pair for pair in pairs if not (pair.source and pair.target)]:
                if part != "train":
                    faults = Faults("Take the lines out of both sides.")
                    for pair in empty:
                        faults.add(f"{pair.where}: a side is empty, so nothing is measured.", pair.where)
                    faults.check()
                number = counted(len(empty), "training pair with an empty side is", "training pairs with an empty side are")
                self.notes.append(f"{number} left out; the first: {empty[0].where}.")
            if not whole:
                raise InputError(f"The {part} part has no pair of texts{f': {pairs[0].where} is empty' if pairs else ''}.")
            if all(pair.source == pair.target for pair in whole):
                raise InputError(f"Both sides of the {part} part are the same text: {whole[0].where}. Name both files of the pair.")
            parts[part] = whole

    def _hold_out(self) -> None:
        pairs = self.texts["train"]
        cut = round(len(pairs) * (1 - self.config.held_out))
        if not 0 < cut < len(pairs):
            raise InputError(
                f"{counted(len(pairs), 'pair is', 'pairs are')} too few to hold some out. Give more, or name files "
                "for data.validation."
            )
        self.texts["train"], self.texts["validation"] = pairs[:cut], pairs[cut:]

    def _sides(self, part: str) -> tuple[list[str], list[str]]:
        return [pair.source for pair in self.texts[part]], [pair.target for pair in self.texts[part]]

    def _encode(self, part: str) -> None:
        """Id sequences of a part; training pairs that are too long are left out."""
        sides = [[encoded(self.tokenizer, text, self.end) for text in side] for side in self._sides(part)]
        if part == "train":
            most = self.config.length
            fits = [max(len(a), len(b)) <= most for a, b in zip(*sides, strict=True)]
            if not all(fits):
                first = self.texts[part][fits.index(False)].where
                many = f"of more than {counted(most, 'token')} a side"
                left = f"{counted(fits.count(False), f'training pair {many} is', f'training pairs {many} are')} left out"
                self.notes.append(f"{left} (data.length); the first: {first}.")
            if not any(fits):
                raise InputError(f"No training pair has {counted(most, 'token')} a side or fewer. Set data.length higher.")
            self.texts[part] = [pair for pair, fit in zip(self.texts[part], fits, strict=True) if fit]
            sides = [[row for row, fit in zip(side, fits, strict=True) if fit] for side in sides]
        size = self.tokenizer.size
        self.ids[part] = RaggedIds(sides[0], size), RaggedIds(sides[1], size)


def make_tokenizer(config: Translation, pairs: Sequence[SentencePair], recipe_folder: Path | None = None) -> Tokenizer:
    """The tokenizer of a recipe; pieces are trained on the training part alone.

    Every text starts as if after a space, so that a word has the same piece at every position.
    """
    if config.tokens != "pieces":
        return Tokenizer.read(find_files(config.tokens, recipe_folder)[0])
    from tokenizers import pre_tokenizers, processors

    names = ["<end>", "<start>", "<pad>"]
    tokenizer = by_pieces((f" {text}" for pair in pairs for text in (pair.source, pair.target)), config.vocabulary, names)
    tokenizer.inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    end = tokenizer.inner.token_to_id("<end>")
    tokenizer.inner.post_processor = processors.TemplateProcessing(single="$A <end>", special_tokens=[("<end>", end)])
    return tokenizer


def special(tokenizer: Tokenizer, names: Sequence[str]) -> int:
    """The id of the first of these tokens that exists. Raises InputError if there is none."""
    for name in names:
        if (token := tokenizer.inner.token_to_id(name)) is not None:
            return int(token)
    raise InputError(f"Translation needs a token {' or '.join(names)}, but this tokenizer has none. Use another tokenizer.json.")


def encoded(tokenizer: Tokenizer, text: str, end: int) -> list[int]:
    """Ids of a text and its end token."""
    ids = tokenizer.encode(text)
    return ids if ids[-1:] == [end] else [*ids, end]


def padded(rows: Sequence[Sequence[int] | np.ndarray], padding: int) -> Tensor:
    """Ids [B, N], padded on the right."""
    ids = np.full((len(rows), max(map(len, rows))), padding, dtype=np.int64)
    for i, row in enumerate(rows):
        ids[i, : len(row)] = row
    return torch.from_numpy(ids)


def _paths(name: tuple[str, str] | str, recipe_folder: Path | None) -> list[list[Path]]:
    """Files of the two sides, or of the one table."""
    sides = [find_files(side, recipe_folder) for side in ([name] if isinstance(name, str) else name)]
    if len({len(side) for side in sides}) > 1:
        raise InputError(
            f"{name[0]} are {len(sides[0])} files, but {name[1]} are {len(sides[1])}. Each source file needs its target file."
        )
    return sides


def _pairs(sides: list[list[Path]], config: Translation) -> Iterator[SentencePair]:
    for paths in zip(*sides, strict=True):
        for pair in _parallel(*paths) if len(paths) == 2 else _table(paths[0], config.fields):
            yield SentencePair(pair.source.lower(), pair.target.lower(), pair.where) if config.lower else pair


def _parallel(source: Path, target: Path) -> Iterator[SentencePair]:
    """Line by line. Only a line feed ends a line: other line separators could make the two sides differ."""
    both = [_content(path).split("\n") for path in (source, target)]
    both = [lines[:-1] if lines[-1] == "" else lines for lines in both]
    first, second = map(len, both)
    for path, count in ((source, first), (target, second)):
        if not count:
            raise InputError(f"{path} is empty: there is no line in it.")
    if first != second:
        raise InputError(
            f"{source} has {first} lines, but {target} has {second}. Each line of one has to be the translation of the same line "
            "of the other."
        )
    for line, (a, b) in enumerate(zip(*both, strict=True), 1):
        yield SentencePair(a.strip(), b.strip(), f"{source} and {target}, line {line}")


def _table(path: Path, fields: tuple[str, str]) -> Iterator[SentencePair]:
    """Rows of TSV or CSV with a first line of names, or lines of JSON; of each table of an archive."""
    if not is_archive(path):
        yield from _rows(str(path), _content(path), fields)
        return
    for name, content in members(path):
        yield from _rows(name, decoded(content.read(), name), fields)


def _rows(path: str, text: str, fields: tuple[str, str]) -> Iterator[SentencePair]:
    kind, faults = kind_of(path), Faults()
    if kind in (".jsonl", ".ndjson"):
        for number, row in enumerate(text.split("\n"), 1):
            if row.strip():
                pair = None
                with faults.caught(f"{path}, line {number}"):
                    pair = _fields(row, fields, f"{path}, line {number}")
                if pair is not None:
                    yield pair
        faults.check()
        return
    if kind not in (".tsv", ".csv"):
        raise InputError(f"{path} is no .tsv, .csv or .jsonl. Parallel text files are named as a pair: [source, target].")
    names, whole, _ = table(io.StringIO(text), path, fields, "Set data.fields = [source, target].")
    a, b = (names.index(name) for name in fields)
    for line, cells in whole:
        if len(cells) == len(names):
            yield SentencePair(cells[a].strip(), cells[b].strip(), f"{path}, line {line}")
        elif cells:  # no empty line
            where = f"{path}, line {line}"
            count = counted(len(cells), "cell")
            faults.add(f"{where} has {count}, but the first line names {counted(len(names), 'column')}. Correct the line.", where)
    faults.check()


def _fields(line: str, fields: tuple[str, str], where: str) -> SentencePair:
    row = parsed(line, where)
    for name in fields:
        if not isinstance(row, dict) or not isinstance(row.get(name), str):
            has = ", ".join(row) if isinstance(row, dict) else type(row).__name__
            raise InputError(f"{where} has no text {name!r}, but: {has}. Set data.fields = [source, target].")
    return SentencePair(row[fields[0]].strip(), row[fields[1]].strip(), where)


def _content(path: Path) -> str:
    """A file as text. A carriage return ends a line before a line feed, or alone if there is no line feed at all."""
    with undamaged(path), open_file(path) as file:
        content = file.read()
    try:
        text = str(content.decode("utf-8-sig")).replace("\r\n", "\n")
        return text if "\n" in text else text.replace("\r", "\n")
    except UnicodeDecodeError:
        return decoded(content, str(path))  # which says where
