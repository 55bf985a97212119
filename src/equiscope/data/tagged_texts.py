"""Tagged texts: words, each with a label, from files of lines or of lists: parts of speech, names, stress."""

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Struct

from equiscope import budgets
from equiscope.data.faults import Faults
from equiscope.data.files import is_archive, is_hidden
from equiscope.data.labelled_texts import LabelledText, LabelledTexts
from equiscope.data.targets import ADVICE
from equiscope.data.texts import kind_of, lines_of, members, parsed
from equiscope.errors import InputError, counted
from equiscope.spec_base import Share, Size

LINES = (".conll", ".conllu", ".bio", ".iob", ".iob2", ".tsv", ".txt")
LISTS = (".jsonl", ".ndjson")
CONLLU = (2, 4)  # columns of the word and of its part of speech


class Tags(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="tags", tag_field="task"):
    """Texts with a label for each word: parts of speech, names, stress.

    train       a file of lines, each a word and its label, with an empty line after each text (CoNLL; .conll, .conllu, .bio, .iob,
                .tsv, .txt); or of lists (.jsonl): the words of a text and as many labels; many with *, an archive, a folder of
                these, or a folder of parts: train, val, test
    validation  texts that choose the best weights; by default `held_out` of train
    test        texts that are evaluated once, at the end
    held_out    share of train for the validation part; texts that occur twice fall into one part
    test_held_out  share of train for the test part, if `test` names no files
    columns     of the word and of its label in files of lines, counted from 1, or from the end with -1; by default [1, -1], and
                [2, 4] for .conllu
    field       list of words in files of lists; label: list of labels
    tokens      "pieces" (byte pair encoding of the words of the training part), "characters", "bytes", "checkpoint" (of
                model.start), or a tokenizer.json; the output at a word's first token is that of the word
    vocabulary  size of the vocabulary of "pieces"
    length      most tokens of a text: words beyond it are not read, and a note counts them
    smoothing   label smoothing: share of the target that is spread over all labels
    """

    train: str
    validation: str | None = None
    test: str | None = None
    held_out: Annotated[float, msgspec.Meta(gt=0, lt=1)] = 0.1
    test_held_out: Share = 0.0
    columns: tuple[int, int] | None = None
    field: str = "tokens"
    label: str = "tags"
    tokens: str = "pieces"
    vocabulary: Size = 2000
    length: Annotated[int, msgspec.Meta(ge=2)] = 256
    smoothing: Share = 0.0


class TaggedTexts(LabelledTexts):
    """The texts of a `Tags` recipe, opened and checked, by part. raises: InputError with every fault that was found"""

    config: Tags

    @staticmethod
    def is_text(path: Path) -> bool:
        """Whether a file of a folder is read."""
        return kind_of(path.name) in (*LINES, *LISTS) or is_archive(path)

    def _check(self) -> None:
        if 0 in (self.config.columns or ()):
            raise InputError("data.columns counts from 1, or from the end with -1, but has a 0.")

    @property
    def _columns(self) -> list[str]:
        return []

    def _files(self, paths: Sequence[Path]) -> list[Path]:
        return files(paths)

    def _read(self, paths: Sequence[Path]) -> list[LabelledText]:
        return read(paths, self.config)

    def _has_classes(self, paths: Sequence[Path]) -> bool:
        return False


def files(paths: Iterable[Path]) -> list[Path]:
    """The files of paths: for a folder, those with the endings that are read, sorted. Raises InputError if it has none."""
    found: list[Path] = []
    for path in paths:
        if not path.is_dir():
            found.append(path)
            continue
        inner = sorted(budgets.listed(path.rglob("*"), path))
        some = [p for p in inner if p.is_file() and not is_hidden(p.relative_to(path)) and TaggedTexts.is_text(p)]
        if not some:
            raise InputError(f"{path} has no file of words and labels ({', '.join((*LINES, *LISTS))}).")
        found += some
    return found


def read(paths: Sequence[Path], config: Tags, labelled: bool = True) -> list[LabelledText]:
    """The texts of files, in order, as tuples of words. labelled: whether to read labels too.

    raises  InputError that names the first faults, and how many there are
    """
    found: list[LabelledText] = []
    faults = Faults(ADVICE)
    for path in files(paths):
        for name, content in members(path):
            kind, lines = kind_of(name), lines_of(content, name)
            texts: Iterable[LabelledText | str]
            if kind in LISTS:
                rows = ((f"{name}, line {n}", line) for n, line in enumerate(lines, 1) if line.strip())
                texts = (_listed(parsed(line, where), where, config, labelled) for where, line in rows)
            else:
                columns = config.columns or (CONLLU if kind == ".conllu" else (1, -1))
                texts = _stacked(lines, name, columns, labelled)
            for one in texts:
                faults.add(one) if isinstance(one, str) else found.append(one)
    faults.check()
    if not found:
        raise InputError(f"{', '.join(map(str, paths))} has no text in it.")
    return found


def _listed(row: Any, where: str, config: Tags, labelled: bool) -> LabelledText | str:
    """The text of a row of JSONL, or a sentence on what is wrong with it."""
    names = [config.field, config.label] if labelled else [config.field]
    has = f"it has: {', '.join(map(str, row)) if isinstance(row, dict) else type(row).__name__}"
    for name in names:
        value = row.get(name) if isinstance(row, dict) else None
        if not isinstance(value, list) or not all(isinstance(one, str | int) and str(one).strip() for one in value) or not value:
            return f"{where} has no list of words {name!r}; {has}."
    words = [str(word) for word in row[config.field]]
    if not labelled:
        return LabelledText(tuple(words), None, where)
    if len(words) != len(row[config.label]):
        return (
            f"{where} has {counted(len(words), 'word')} in {config.field!r}, but "
            f"{counted(len(row[config.label]), 'label')} in {config.label!r}."
        )
    return LabelledText(tuple(words), [str(label) for label in row[config.label]], where)


def _stacked(lines: Iterable[str], name: str, columns: tuple[int, int], labelled: bool) -> Iterator[LabelledText | str]:
    """The texts of a file of lines, and a sentence for each line that does not fit."""
    words: list[str] = []
    labels: list[str] = []
    begins, width = 1, 0
    word_at, label_at = (at - 1 if at > 0 else at for at in columns)
    for number, line in enumerate([*lines, ""], 1):
        line = line.rstrip("\r\n")
        if not line.strip():
            if words:
                yield LabelledText(tuple(words), labels if labelled else None, f"{name}, lines {begins} to {number - 1}")
            words, labels = [], []
            continue
        if line.startswith("-DOCSTART-") or (line.startswith("#") and "\t" not in line and len(line.split()) != width):
            continue
        cells = [cell.strip() for cell in line.split("\t")] if "\t" in line else line.split()
        if columns == CONLLU and re.fullmatch(r"\d+[-.]\d+", cells[0]):
            continue  # several words in one, or one that is not written
        width = width or len(cells)
        least = max(at if at > 0 else -at for at in columns) if labelled else 1
        if len(cells) < max(least, 1 + labelled) or (labelled and len(cells) != width):
            columns_there = counted(len(cells), "column")
            yield f"{name}, line {number} has {columns_there}, where {max(width, 2)} are needed: {line[:40]!r}."
            continue
        word, label = cells[word_at], cells[label_at] if labelled else ""
        if not word or (labelled and not label):
            yield f"{name}, line {number} has an empty {'label' if word else 'word'}: {line[:40]!r}."
            continue
        if not words:
            begins = number
        words.append(word)
        labels.append(label)
