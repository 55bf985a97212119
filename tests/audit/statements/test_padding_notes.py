"""Left padding without `position_ids`."""

import pytest

from equiscope.audit import check
from tests.drawn import SEEDS


@pytest.mark.parametrize("seed", SEEDS)
def test_a_learned_table_needs_position_ids(made, ids, seed):
    row = check(made("gpt2", seed), ids, properties=["left-padding"], seed=seed)["left-padding"]
    assert row.verdict == "holds"
    assert row.note.startswith("without position_ids it does not hold")


def test_a_rotation_does_not(made, ids):
    row = check(made("llama"), ids, properties=["left-padding"])["left-padding"]
    assert (row.verdict, row.note) == ("holds", "")


def test_padding_on_the_right_needs_none(made, ids):
    assert check(made("gpt2"), ids, properties=["right-padding"])["right-padding"].note == ""
