"""Every pair of values is in a default run, and the full product in a thorough one."""

from itertools import combinations, product

import pytest

from tests.pairwise import cover, each_value, few, pairwise

pytestmark = pytest.mark.quick

letters = pytest.mark.parametrize("letter", ["a", "b"])
numbers = pytest.mark.parametrize("number", [0, 1, pytest.param(2, marks=pytest.mark.thorough)])
words = pytest.mark.parametrize(("word", "length"), [("one", 3), ("three", 5)], ids=["first", "second"])


@pytest.mark.parametrize("sizes", [(3, 2), (2, 2, 2), (5, 3, 4), (29, 4, 3, 2), (2, 3, 4, 5, 6)], ids=str)
def test_every_pair_of_values_is_covered_by_few_rows(sizes):
    rows = cover(list(sizes))
    for a, b in combinations(range(len(sizes)), 2):
        assert {(row[a], row[b]) for row in rows} == set(product(range(sizes[a]), range(sizes[b])))
    largest, second = sorted(sizes)[-1], sorted(sizes)[-2]
    assert largest * second <= len(rows) <= 1.5 * largest * second
    assert rows == cover(list(sizes))


def test_cells_beyond_the_pairs_and_values_that_are_thorough_are_thorough():
    mark = pairwise(letters, numbers, words)
    names, cells = mark.args
    assert names == ["letter", "number", "word", "length"]
    assert len(cells) == 2 * 3 * 2
    default = [cell.values for cell in cells if not cell.marks]
    assert {(a, w) for a, n, w, _ in default} == {(a, w) for a in "ab" for w in ("one", "three")}
    assert len(default) == 4
    assert all(n < 2 for _, n, _, _ in default)
    assert cells[0].id == "a-0-first"


def test_each_value_is_in_one_default_cell():
    cells = each_value(letters, words).args[1]
    assert len(cells) == 4
    assert [cell.values for cell in cells if not cell.marks] == [("a", "one", 3), ("b", "three", 5)]


def test_few_values_are_default():
    assert [getattr(value, "values", value) for value in few(["a", "b"], 1)] == ["a", ("b",)]
    assert [bool(cell.marks) for cell in pairwise(pytest.mark.parametrize("n", few([1, 2], 1))).args[1]] == [False, True]
