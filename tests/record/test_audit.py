"""An audit as data: what it holds, and how it is encoded."""

import msgspec
import pytest

from equiscope.record import Audit, Counterexample, Mark, Row

ROW = Row(
    name="causal", kind="property", verdict="broken", error=0.5, errors=[0.5], where="attention", cause="the mask is off by one",
    fails=True,
    counterexample=Counterexample(text="change token 1 of 2", error=0.4, element={"changed": 1}),
    trail=[Mark(module="attention", error=0.5)],
)  # fmt: skip
AUDIT = Audit(
    target="mine", model="GPT", parameters=10, dtype="float32", device="cpu", inputs="ids: ids [1, 13]",
    rows=[ROW, Row(name="permute", kind="action", verdict="holds", error=1e-16)],
)  # fmt: skip


def test_what_is_written_down_is_read_back():
    assert msgspec.json.decode(msgspec.json.encode(AUDIT), type=Audit) == AUDIT


def test_rows_are_found_by_name_and_unknown_names_list_the_known_ones():
    assert AUDIT["causal"] is ROW
    assert list(AUDIT) == AUDIT.rows
    with pytest.raises(KeyError, match="causal, permute"):
        AUDIT["cache"]


def test_only_rows_that_fail_are_failures():
    assert AUDIT.failed == [ROW]


def test_printed_it_has_a_line_for_each_statement():
    assert str(AUDIT).splitlines() == [
        "mine: 2 statements, 1 failed", "causal   unknown  broken  5.0e-01  attention  fails", "permute  unknown  holds   1.0e-16",
    ]  # fmt: skip
