"""Columns beside a text, a picture or a sound: each is one more token of it, of a value that occurs or of a range of numbers.

Numbers are cut at the quantiles of the training part, so that every range has about as many examples. A cell that is empty,
or a value that training does not have, is the token "unknown" of its column. A run stores this as `columns.json`.
"""

import math
from bisect import bisect
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from msgspec import Struct
from torch import Tensor

from equiscope.errors import InputError
from equiscope.training.folder import read_settings, write_settings

FILE = "columns.json"
RANGES = 16  # of a column of numbers
MANY = 20  # different numbers from which a column is cut into ranges
MOST = 500  # different values of a column


class ColumnTokens(Struct, frozen=True, kw_only=True):
    """The tokens of a column: "unknown", and one for each value, or for each range between `edges`."""

    name: str
    values: list[str] = []
    edges: list[float] = []

    @property
    def size(self) -> int:
        return 1 + (len(self.edges) + 1 if self.edges else len(self.values))

    def token(self, cell: str) -> int:
        """The token of a cell, 0 for unknown."""
        if not self.edges:
            return 1 + self.values.index(cell) if cell in self.values else 0
        number = number_in(cell)
        return 0 if number is None else 1 + bisect(self.edges, number)


class MetadataColumns(Struct, frozen=True, kw_only=True):
    """The columns that are read with an example, in order."""

    columns: list[ColumnTokens] = []

    @classmethod
    def of(cls, names: Sequence[str], rows: Sequence[Sequence[str]], where: str = "data.metadata") -> "MetadataColumns":
        """Of a training part. rows: the cells of each example; where: the field of the recipe that names them.

        raises  InputError for a column that says nothing, or too much, and for examples that are not from a table
        """
        found = []
        if names and (missing := sum(len(row) != len(names) for row in rows)):
            raise InputError(
                f"{where} names {', '.join(names)}, which are columns of a table, but {missing} training examples are not from a "
                f"table. Give .csv, .tsv or .jsonl, or leave {where} out."
            )
        for k, name in enumerate(names):
            cells = [row[k] for row in rows if row[k]]
            different = sorted(set(cells))
            numbers = [number_in(cell) for cell in cells]
            if len(different) < 2:
                raise InputError(f"{where} names {name!r}, which has {len(different)} value in the training part. Leave it out.")
            if len(different) >= MANY and None not in numbers:
                shares = np.linspace(0, 1, RANGES + 1)[1:-1]
                found.append(ColumnTokens(name=name, edges=np.unique(np.quantile(np.array(numbers, float), shares)).tolist()))
                continue
            if len(different) > MOST:
                raise InputError(
                    f"{where} names {name!r}, which has {len(different)} different values and is no column of numbers. "
                    "Leave it out, or make fewer values of it."
                )
            found.append(ColumnTokens(name=name, values=different))
        return cls(columns=found)

    @property
    def sizes(self) -> list[int]:
        """Tokens of each column."""
        return [column.size for column in self.columns]

    def tokens(self, rows: Sequence[Sequence[str]]) -> Tensor:
        """The token of each column [N, columns]. rows: the cells of each example; none of one that is not from a table."""
        each = [[column.token(row[k]) if row else 0 for k, column in enumerate(self.columns)] for row in rows]
        return torch.tensor(each, dtype=torch.long).reshape(len(rows), len(self.columns))

    def one_hot(self, tokens: Tensor) -> Tensor:
        """Tokens [N, columns] as 0 and 1, [N, sum of sizes]."""
        each = [torch.nn.functional.one_hot(tokens[:, k], size) for k, size in enumerate(self.sizes)]
        return torch.cat(each, -1).double() if each else torch.zeros(len(tokens), 0, dtype=torch.float64)

    def save(self, folder: Path) -> None:
        """Write them into a run's folder, if there are any."""
        if self.columns:
            write_settings(folder / FILE, self)

    @classmethod
    def read(cls, folder: Path, names: Sequence[str]) -> "MetadataColumns":
        """Those of a run. Raises InputError if they cannot be read."""
        return read_settings(folder / FILE, cls, "how this run reads the columns beside an example") if names else cls()


def number_in(cell: str) -> float | None:
    """The finite number in a cell; None where there is none."""
    try:
        number = float(cell)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
