"""Rows: a table without texts and without files, whose columns are numbers and categories."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from equiscope.errors import InputError, counted
from equiscope.training.draft.draft import RecipeDraft, class_warnings, extent, listed, number_ranges, title_of
from equiscope.training.draft.labelled import are_numbers, counts_lines, few_values
from equiscope.training.draft.table_file import CLASSES

TARGETS = (*CLASSES, "target", "y", "outcome", "response", "species")  # columns that are predicted, if they are there
FEWEST = 30  # rows, for three parts
SMALL = 10_000  # rows
SHARE = 0.2  # of the rows for the test part; half as many of the others choose the weights


def of_table(
    path: Path, columns: Mapping[str, Sequence[str]], group: str | None, others: Mapping[str, Path] | None = None,
    named: str | None = None,
) -> RecipeDraft | None:  # fmt: skip
    """A table of numbers and categories; None where it has no column to predict, or none to read.

    group   column whose equal values belong together
    others  tables of the other parts
    named   the column that is predicted; by default one of a usual name, or the last
    """
    useful = {name: [cell.strip() for cell in cells] for name, cells in columns.items() if name != group and _says(cells)}
    names = [name for name in useful if any(useful[name])]
    if len(names) < 2:
        return None
    usual = [name for one in TARGETS for name in names if name.lower() == one]
    target = named or next(iter(usual), names[-1])
    read = [name for name in names if name != target]
    rows = len(columns[target])
    if rows < FEWEST:
        raise InputError(f"{path} has {counted(rows, 'row')}, too few for three parts. Give {FEWEST} or more.")
    if missing := [i for i, cell in enumerate(useful[target]) if not cell]:
        raise InputError(
            f"{path} has {counted(len(missing), 'row')} without anything in the column {target}, which is to be predicted. Leave "
            "them out, or name the columns in a recipe: docs/howto/data.md."
        )
    numbers = are_numbers(useful[target]) and (not few_values(useful[target], 20) or _fractions(useful[target]))
    data: dict[str, Any] = {"task": "rows", "train": str(path), "columns": read}
    counts = {} if numbers else dict(sorted(Counter(useful[target]).items()))
    data |= {"numbers": [target]} if numbers else {"label": target}
    what = number_ranges([target], [[float(cell)] for cell in useful[target]]) if numbers else ""
    what = what or f"a class, {target}: {listed([f'{name} ({count})' for name, count in counts.items()])}"
    if len(counts) == 1:
        raise InputError(f"Every row of {path} has the {target} {next(iter(counts))!r}. Give rows of two classes or more.")
    how = "" if named else ", by its name" if usual else ", the last column"
    understood = [
        f"{path} is a table of {counted(rows, 'row')} of numbers and categories, and for each {what}.",
        f"Predicted is {target}{how}{'.' if named else '. For another one: --target NAME.'}",
        f"{counted(len(read), 'column is', 'columns are')} read: "
        f"{listed([_column(name, useful[name]) for name in read])}. Leave out what is not "
        "known before the answer is.",
    ]
    if unread := [name for name in columns if name not in (*names, group)]:
        understood.append(
            f"Not read, as they count the rows, hold one value or nearly as many categories as rows: {listed(unread)}."
        )
    warnings = class_warnings(counts)
    if twice := rows - len(set(zip(*(useful[name] for name in read), strict=True))):
        understood.append(f"{counted(twice, 'row occurs', 'rows occur')} again; all copies of a row are in one part.")
    if rows < SMALL:
        warnings.append(
            "A transformer learns little from a small table: on three such tables it was behind its linear model, or no better "
            "(docs/howto/own_data.md). See the linear model that `evaluate` prints beside it."
        )
    if others:
        understood.append(f"The tables of the parts {listed(['train', *others])} are kept.")
        data |= {part: str(other) for part, other in others.items()} | ({} if "validation" in others else {"held_out": 0.1})
    else:
        data |= {"test_held_out": SHARE, "held_out": 0.1}
        understood.append("A fifth of the rows, drawn at random, is the test part; a tenth of the others chooses the weights.")
    if group is not None:
        data["group"] = group
        understood.append(f"The column {group} names rows that belong together: all rows of one value are in one part.")
    train = rows if others else round(rows * (1 - SHARE) * 0.9)
    return _draft(path, data, train, understood, warnings, bool(counts))


def _draft(
    path: Path, data: dict[str, Any], train: int, understood: list[str], warnings: list[str], classes: bool
) -> RecipeDraft:  # fmt: skip
    data |= {"smoothing": 0.05} if classes else {}
    width, layers = (32, 2) if train < 5000 else (64, 3)
    model = {
        "width": width, "layers": layers, "readout": "mean", "dropout": 0.2 if train < 5000 else 0.1,
        "block": {"attention": {"heads": 4}},
    }  # fmt: skip
    comments = {
        "data.columns": "one token of each: of a value, or of one of 16 ranges of numbers",
        "data.test_held_out": "copies of a row are in one part",
        "model.block": "without positions, as a row is a set of columns",
    }
    optimiser = {"rate": 2e-3, "decay": 0.1, "floor": 0.01, "betas": [0.9, 0.98], "average": 0.99}
    batch = 32 if train < 5000 else 128
    return RecipeDraft(
        title_of(path), data, model, train, 60 if train < 5000 else 20, batch, understood, optimiser, warnings=warnings,
        comments=comments, example=[str(data.get("test", path))],
    )  # fmt: skip


def _says(cells: Sequence[str]) -> bool:
    """Whether a column may be read or predicted: numbers that do not count the rows, or few categories, and not one value alone."""
    there = [cell.strip() for cell in cells if cell.strip()]
    if len(set(there)) < 2:
        return False
    if are_numbers(there):
        return len(there) < 3 or not counts_lines(there)
    return few_values(there, 200)


def _fractions(cells: Sequence[str]) -> bool:
    return any(not float(cell).is_integer() for cell in cells)


def _column(name: str, cells: Sequence[str]) -> str:
    there = [cell for cell in cells if cell]
    kinds = len(set(there))
    what = extent(list(map(float, there))) if are_numbers(there) else f"{kinds} values"
    missing = f", {len(cells) - len(there)} empty" if len(there) < len(cells) else ""
    return f"{name} ({what}{missing})"
