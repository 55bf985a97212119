"""Labelled texts: each text with a class, with several labels, or with numbers, from tables or from folders of classes."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple, Self

import msgspec
from msgspec import Struct

from equiscope.data import other_formats
from equiscope.data.faults import Faults
from equiscope.data.files import find_files, member_name, sources
from equiscope.data.groups import Groups, held_out
from equiscope.data.sampler import Sampler, derived_seed
from equiscope.data.split_folders import one_part, spread
from equiscope.data.tables import separator_notes
from equiscope.data.targets import (
    ADVICE,
    WAY,
    OtherCells,
    check_groups,
    check_targets,
    named_parts,
    only_classes,
    other_cells,
    target_columns,
    target_kind,
    target_of,
)
from equiscope.data.texts import TABLES, decoded, files, is_text_file, kind_of, lines_of, members, table_rows
from equiscope.errors import InputError, counted
from equiscope.record import DataFile
from equiscope.spec_base import Share, Size

CELL = 2**31 - 1  # characters of a text in a table


class Texts(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="texts", tag_field="task"):
    """Texts, each with a class, with several labels, or with numbers.

    train       a table (CSV, TSV or JSONL, also compressed) with a column for the text and others for the target; a folder with one
                folder of text files for each class; an archive of either; or a folder of parts: train, val, test
    validation  texts that choose the best weights; by default `held_out` of train
    test        texts that are evaluated once, at the end
    held_out    share of train for the validation part; texts that occur twice fall into one part
    test_held_out  share of train for the test part, if `test` names no files
    field       column with the text
    label       column with the class of a text; in folders of classes, the folder's name is the class
    labels      column with any number of labels, separated by `separator`, or a list in JSONL; instead of `label`
    separator   between two labels of a cell
    numbers     columns with the numbers that are predicted; instead of `label`
    metadata    further columns that are read with the text, such as a source or a price: one token of each, in front of the text
    group       column whose equal values belong together, such as an author: random shares of train take whole groups, and so do
                the folds in which the simple model is chosen
    tokens      "pieces" (byte pair encoding, trained on the training part), "characters", "bytes", "checkpoint" (of model.start),
                or a tokenizer.json
    vocabulary  size of the vocabulary of "pieces"
    length      most tokens of a text: longer texts are cut, and a note counts them
    smoothing   label smoothing: share of the target that is spread over all classes
    """

    train: str
    validation: str | None = None
    test: str | None = None
    held_out: Annotated[float, msgspec.Meta(gt=0, lt=1)] = 0.1
    test_held_out: Share = 0.0
    field: str = "text"
    label: str = "label"
    labels: str | None = None
    separator: Annotated[str, msgspec.Meta(min_length=1)] = ";"
    numbers: tuple[str, ...] = ()
    metadata: tuple[str, ...] = ()
    group: str | None = None
    tokens: str = "pieces"
    vocabulary: Size = 2000
    length: Annotated[int, msgspec.Meta(ge=2)] = 256
    smoothing: Share = 0.0


class LabelledText(NamedTuple):
    """A text, or a tuple of words, and what is predicted for it.

    target  a class, a list of labels, or a list of numbers; of words, a label of each; None where it is unknown
    where   its file and line
    others  its cells in further columns of the table
    """

    text: Any
    target: Any
    where: str
    others: OtherCells = OtherCells()


class LabelledTexts:
    """The texts of a `Texts` recipe, opened and checked, by part.

    raises  InputError with every fault that was found: file, line, column
    """

    what = "texts"  # in a sentence

    def __init__(self, config: Any, seed: int = 0, recipe_folder: Path | None = None) -> None:
        self.config = config
        self._check()
        named: dict[str, str | None] = named_parts(config)
        classes = self._has_classes(find_files(config.train, recipe_folder))
        named, self.notes = spread(named, recipe_folder, self.is_text, classes, ("test",) if config.test_held_out else ())
        paths = {part: find_files(name, recipe_folder) for part, name in named.items() if name is not None}
        self.notes += separator_notes((p for some in paths.values() for p in self._files(some)), self._columns)
        self.sources: list[DataFile] = sources({part: self._files(some) for part, some in paths.items()})
        self.parts = {part: self._read(some) for part, some in paths.items()}
        check_groups(config, [row.others.group for row in self.parts["train"]])
        for part, share in (("test", config.test_held_out), ("validation", 0.0 if "validation" in paths else config.held_out)):
            if share:
                self.parts["train"], self.parts[part] = _split(self.parts["train"], share, seed, part)
        inside = {row.text for row in self.parts["train"]}
        for part in set(self.parts) - {"train"}:
            if leaked := [row for row in self.parts[part] if row.text in inside]:
                self.notes.append(
                    f"{len(leaked)} of {len(self.parts[part])} {self.what} of the {part} part are also in the training part; "
                    f"the first: {leaked[0].where}."
                )
        self.sampler = Sampler(len(self.parts["train"]), seed)

    @classmethod
    def from_files(cls, config: Any, part: str, names: Sequence[str]) -> Self:
        """New texts as the one part."""
        texts = cls.__new__(cls)
        texts.config = config
        paths = [path for name in names for path in find_files(name)]
        for path in paths:
            one_part(path, cls.is_text, texts._has_classes([path]))
        texts.parts, texts.sources = {part: texts._read(paths)}, sources({part: texts._files(paths)})
        texts.notes = separator_notes(texts._files(paths), texts._columns)
        return texts

    is_text = staticmethod(is_text_file)

    def _check(self) -> None:
        check_targets(self.config)

    @property
    def _columns(self) -> list[str]:
        return [self.config.field, *target_columns(self.config)]

    def _files(self, paths: Sequence[Path]) -> list[Path]:
        return files(paths)

    def _read(self, paths: Sequence[Path]) -> list[LabelledText]:
        return read(paths, self.config)

    def _has_classes(self, paths: Sequence[Path]) -> bool:
        return _has_classes(paths, self.config)


def _has_classes(paths: Sequence[Path], config: Texts) -> bool:
    """Whether the files of a folder are texts in folders of classes, and not tables."""
    if target_kind(config) != "class" or len(paths) != 1 or not paths[0].is_dir():
        return False
    return not any(kind_of(path.name) in TABLES for path in files(paths))


def read(paths: Sequence[Path], config: Texts, labelled: bool = True) -> list[LabelledText]:
    """The texts of files, in order. labelled: whether to read targets too.

    raises  InputError that names the first faults, and how many there are
    """
    faults = Faults(ADVICE)
    found: list[LabelledText] = []
    wanted = [config.field, *([*target_columns(config), *config.metadata] if labelled else [])]
    way = WAY.format(what="the text")
    for path in files(paths):
        for name, content in members(path):
            if kind_of(name) not in TABLES:
                text = ""
                with faults.caught(name):
                    other_formats.check(name, kind_of(name))
                    text = decoded(content.read(), name)
                target = Path(member_name(name)).parent.name if labelled else None
                if labelled:
                    only_classes(config, f"{name} is a text alone")
                if target == "":
                    faults.add(f"{name} lies in no folder that could be its class. Give a table, or a folder for each class.", name)
                found.append(LabelledText(text, target, name))
                continue
            for where, row in table_rows(lines_of(content, name), name, wanted, way, faults, CELL):
                one = _example(where, row, config, labelled)
                faults.add(one, where) if isinstance(one, str) else found.append(one)
    known = {where for places in faults.found.values() for where in places[1:]}
    for row in found:
        if not row.text.strip() and row.where not in known:
            faults.add(f"{row.where} has an empty text.", row.where)
    faults.check()
    if not found:
        raise InputError(f"{', '.join(map(str, paths))} has no text in it. Give a file that has some.")
    return found


def _example(where: str, row: Any, config: Texts, labelled: bool) -> LabelledText | str:
    """The example of a row, or a sentence on what is wrong with it."""
    if not isinstance(row, dict) or not isinstance(row.get(config.field), str):
        has = ", ".join(map(str, row)) if isinstance(row, dict) else type(row).__name__
        return f"{where} has no text {config.field!r}; it has: {has}."
    others = other_cells(config, row)
    if not labelled:
        return LabelledText(row[config.field], None, where, others)
    try:
        return LabelledText(row[config.field], target_of(config, row, where), where, others)
    except InputError as error:
        return str(error)


def _split(rows: list[LabelledText], share: float, seed: int, part: str) -> tuple[list[LabelledText], list[LabelledText]]:
    """The rows without those of a part, and these: a share of the different texts, by a number of the text and the seed; of
    groups, whole ones.
    """
    if any(row.others.group for row in rows):
        groups = Groups(len(rows))
        groups.join_equal(row.others.group or None for row in rows)
        groups.join_equal(row.text for row in rows)
        out = set(held_out(groups, round(share * len(rows)), seed, part))
        return [row for i, row in enumerate(rows) if i not in out], [row for i, row in enumerate(rows) if i in out]
    different = sorted({row.text for row in rows}, key=lambda text: derived_seed(seed, part, str(text)))
    held = set(different[: max(1, round(share * len(different)))])
    kept = [row for row in rows if row.text not in held]
    if not kept:
        raise InputError(
            f"{counted(len(different), 'different text is', 'different texts are')} too few to hold some out. Give more."
        )
    return kept, [row for row in rows if row.text in held]
