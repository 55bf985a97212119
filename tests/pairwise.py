"""All pairs instead of all combinations: most faults need at most two factors, and pairs are few.

`pairwise` takes the parametrize marks of a test. Cells that cover every pair of values run by default; the remaining cells of
the full product are marked `thorough`. The choice depends on nothing but the lengths of the factors.
Source: Cohen, Dalal, Fredman & Patton 1997, "The AETG System: An Approach to Testing Based on Combinatorial Design".
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import combinations, product
from typing import Any

import pytest


def pairwise(*factors: pytest.MarkDecorator) -> pytest.MarkDecorator:
    """One parametrize mark from several, with the ids of stacked marks, the lowest of them first."""
    return _crossed(cover, factors)


def each_value(*factors: pytest.MarkDecorator) -> pytest.MarkDecorator:
    """As `pairwise`, but every value of every factor is in one default cell: for tests that take seconds, such as a browser's."""
    return _crossed(lambda sizes: [tuple(i % size for size in sizes) for i in range(max(sizes))], factors)


def few(values: Iterable[Any], default: int) -> list[Any]:
    """The values, of which the first `default` are in a default run and the others in a thorough one."""
    thorough = pytest.mark.thorough
    return [
        v if i < default else pytest.param(*(v if isinstance(v, tuple) else (v,)), marks=thorough) for i, v in enumerate(values)
    ]


def _crossed(chosen_rows: Callable[[list[int]], list[tuple[int, ...]]], factors: Sequence[pytest.MarkDecorator]) -> Any:
    names = [name for factor in factors for name in _names(factor)]
    values = [[_param(factor, index, value) for index, value in enumerate(factor.args[1])] for factor in factors]
    default = [[i for i, value in enumerate(column) if not _is_thorough(value)] for column in values]
    chosen = {tuple(d[i] for d, i in zip(default, row, strict=True)) for row in chosen_rows([len(column) for column in default])}
    cells = []
    for row in product(*(range(len(column)) for column in values)):
        parts = [column[i] for column, i in zip(values, row, strict=True)]
        marks = [mark for part in parts for mark in part.marks]
        if row not in chosen and not any(_is_thorough(part) for part in parts):
            marks.append(pytest.mark.thorough)
        cells.append(pytest.param(*(v for part in parts for v in part.values), id="-".join(p.id for p in parts), marks=marks))
    return pytest.mark.parametrize(names, cells)


def cover(sizes: list[int]) -> list[tuple[int, ...]]:
    """Rows of indices, such that every pair of values of every two factors is in one of them. Greedy, the same for the same sizes.

    Each row starts from a pair that is still missing; each other factor takes the value with the most missing pairs, the one taken
    least among equals.
    """
    if len(sizes) < 3:
        return list(product(*map(range, sizes)))
    pairs = combinations(range(len(sizes)), 2)
    missing = {((a, i), (b, j)): None for a, b in pairs for i in range(sizes[a]) for j in range(sizes[b])}
    uses = [[0] * size for size in sizes]
    rows = []
    while missing:
        row = dict(next(iter(missing)))
        for factor in sorted(set(range(len(sizes))) - set(row), key=lambda f: -sizes[f]):

            def gain(value: int, factor: int = factor, row: dict[int, int] = row) -> tuple[int, int]:
                new = sum(tuple(sorted([(factor, value), other])) in missing for other in row.items())
                return new, -uses[factor][value]

            row[factor] = max(range(sizes[factor]), key=gain)
        for pair in combinations(sorted(row.items()), 2):
            missing.pop(pair, None)
        for factor, value in row.items():
            uses[factor][value] += 1
        rows.append(tuple(row[factor] for factor in range(len(sizes))))
    return rows


def _names(factor: pytest.MarkDecorator) -> list[str]:
    names = factor.args[0]
    return [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)


def _param(factor: pytest.MarkDecorator, index: int, value: Any) -> Any:
    """The value with an id: its own, the one that `ids` gives, or what pytest would write for a plain value."""
    names, ids = _names(factor), factor.kwargs.get("ids")
    if not hasattr(value, "marks"):
        value = pytest.param(*(value if len(names) > 1 else (value,)))
    if value.id is not None:
        return value
    title = ids if callable(ids) else None
    words = None if ids is None or title else list(ids)[index]
    words = words or "-".join(_word(v, name, index, title) for v, name in zip(value.values, names, strict=True))
    return pytest.param(*value.values, id=str(words), marks=value.marks)


def _word(value: object, name: str, index: int, ids: Any) -> str:
    word = ids(value) if ids else None
    plain = value is None or isinstance(value, (str, int, float, bool, complex))
    return str(word) if word is not None else str(value) if plain else getattr(value, "__name__", f"{name}{index}")


def _is_thorough(value: Any) -> bool:
    return any(mark.name == "thorough" for mark in value.marks)
