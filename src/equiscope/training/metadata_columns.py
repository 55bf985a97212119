"""Columns beside a text: each is one more token in front of it, of a value that occurs or of a range of numbers.

Numbers are cut at the quantiles of the training part, so that every range has about as many texts. A cell that is empty, or a value
that training does not have, is the token "unknown" of its column. A run stores this as `columns.json`.
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
        number = _number(cell)
        return 0 if number is None else 1 + bisect(self.edges, number)


class MetadataColumns(Struct, frozen=True, kw_only=True):
    """The columns that are read with a text, in order."""

    columns: list[ColumnTokens] = []

    @classmethod
    def of(cls, names: Sequence[str], rows: Sequence[Sequence[str]]) -> "MetadataColumns":
        """Of a training part. rows: the cells of each text. Raises InputError for a column that says nothing, or too much."""
        found = []
        for k, name in enumerate(names):
            cells = [row[k] for row in rows if row[k]]
            different = sorted(set(cells))
            numbers = [_number(cell) for cell in cells]
            if len(different) < 2:
                raise InputError(
                    f"data.metadata names {name!r}, which has {len(different)} value in the training part. Leave it out."
                )
            if len(different) >= MANY and None not in numbers:
                shares = np.linspace(0, 1, RANGES + 1)[1:-1]
                found.append(ColumnTokens(name=name, edges=np.unique(np.quantile(np.array(numbers, float), shares)).tolist()))
                continue
            if len(different) > MOST:
                raise InputError(
                    f"data.metadata names {name!r}, which has {len(different)} different values and is no column of numbers. "
                    "Leave it out, or make fewer values of it."
                )
            found.append(ColumnTokens(name=name, values=different))
        return cls(columns=found)

    @property
    def size(self) -> int:
        """Tokens of all columns."""
        return sum(column.size for column in self.columns)

    def tokens(self, cells: Sequence[str]) -> list[int]:
        """One token of each column, counted over all columns. cells: as many as columns, or none of an unknown text."""
        found, first = [], 0
        for k, column in enumerate(self.columns):
            found.append(first + (column.token(cells[k]) if cells else 0))
            first += column.size
        return found

    def one_hot(self, rows: Sequence[Sequence[int]]) -> Tensor:
        """The tokens of texts [N, size] as 0 and 1."""
        if not self.columns:
            return torch.zeros(len(rows), 0)
        return torch.nn.functional.one_hot(torch.tensor(rows), self.size).sum(1).double()

    def save(self, folder: Path) -> None:
        """Write them into a run's folder, if there are any."""
        if self.columns:
            write_settings(folder / FILE, self)

    @classmethod
    def read(cls, folder: Path, names: Sequence[str]) -> "MetadataColumns":
        """Those of a run. Raises InputError if they cannot be read."""
        return read_settings(folder / FILE, cls, "how this run reads the columns beside a text") if names else cls()


def _number(cell: str) -> float | None:
    try:
        number = float(cell)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
