"""Question: a comparison as a file with a recipe, what varies, and the seeds; `equiscope compare FILE` answers it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Struct, field

from equiscope.comparison.vary import Change, combinations
from equiscope.errors import InputError, short_repr
from equiscope.record.comparison import Equal
from equiscope.training import Recipe, read_recipe
from equiscope.training.field_names import resolved
from equiscope.training.fields import misfits
from equiscope.training.reading import read_toml

MOST = 10_000  # seeds of a comparison


class NamedCandidate(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A candidate with a name. set: values by the names of fields, which may be shortened."""

    name: str
    set: dict[str, Any] = field(default_factory=dict)


class Question(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A question that a comparison answers.

    question   one line, as a person would ask
    recipe     path relative to this file
    set        "budget.steps=500": changes for all candidates
    vary       fields with their values: every combination is a candidate
    candidate  named candidates, instead of `vary`
    seeds      how many, counted from the recipe's seed; or a list of seeds
    looks      [4, 8]: the pairs are tested at 4 seeds, and at 8 if a pair is undecided; by default once, at all seeds
    smallest_effect  the smallest difference of the metric that matters; without one no pair is called equivalent
    sizes      times the trained context, or sides of pictures, at which every run is evaluated; by default the usual ones
    tune       fields with values: for each candidate the best is chosen on the validation part, with seeds that are not reported
    equal      "parameters" or "compute", of all candidates
    """

    question: str
    recipe: str
    set: list[str] = field(default_factory=list)
    vary: dict[str, list[Any]] = field(default_factory=dict)
    candidate: list[NamedCandidate] = field(default_factory=list)
    seeds: int | list[int] = 3
    looks: list[int] = field(default_factory=list)
    smallest_effect: Annotated[float, msgspec.Meta(gt=0)] | None = None
    sizes: list[Annotated[float, msgspec.Meta(gt=0)]] | None = None
    tune: dict[str, list[Any]] = field(default_factory=dict)
    equal: Equal = ""

    def candidates(self, task: str, where: Path) -> dict[str, Change]:
        """By name. Raises InputError if there are none, both ways are used, or a field is unknown."""
        if bool(self.vary) == bool(self.candidate):
            raise InputError(f"{where}: say what varies in a table [vary], or in several [[candidate]], and not in both.")
        if self.vary:
            return combinations({resolved(name, task): values for name, values in self.vary.items()})
        names = [one.name for one in self.candidate]
        if repeated := [name for name in names if names.count(name) > 1]:
            raise InputError(f"{where}: the candidate {repeated[0]!r} is there twice. Give each a name of its own.")
        return {one.name: {resolved(name, task): value for name, value in one.set.items()} for one in self.candidate}


def is_question(path: Path) -> bool:
    """Whether a TOML file is a question, and not a recipe."""
    try:
        return isinstance(read_toml(path, "question")[1].get("recipe"), str)
    except InputError:
        return False


def read_question(path: Path, changes: list[str], small: bool) -> tuple[Question, Recipe, Path]:
    """The question, its recipe and that recipe's folder. small: with the recipe's small form.

    raises  InputError naming the file and the field that does not fit
    """
    data = read_toml(path, "question")[1]
    if mistakes := [sentence for _, sentence in misfits(data, Question)]:
        raise InputError("\n".join(f"{path}: {sentence}" for sentence in mistakes))
    question = msgspec.convert(data, Question)
    source = path.parent / question.recipe
    return question, read_recipe(source, changes, small, question.set), source.parent


def seeds_of(seeds: int | Sequence[int], first: int) -> list[int]:
    """So many seeds, counted from `first`, or the given ones."""
    if isinstance(seeds, int):
        if not 1 <= seeds <= MOST:
            raise InputError(f"A comparison has 1 to {MOST} seeds, but got {short_repr(seeds)}.")
        return list(range(first, first + seeds))
    return list(seeds)


def parse_seeds(text: str) -> int | list[int]:
    """ "3" is three seeds; "1,5,9" are these three."""
    numbers = _numbers(text, "--seeds takes how many, or which: 3, or 1,5,9")
    return numbers if "," in text else numbers[0]


def parse_looks(text: str) -> list[int]:
    """ "4,8" are looks at 4 and at 8 seeds."""
    return _numbers(text, "--looks takes numbers of seeds, such as 4,8")


def _numbers(text: str, takes: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError as error:
        raise InputError(f"{takes}; but got {short_repr(text)}.") from error
