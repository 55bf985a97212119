"""Errors are objects: their fields say all that their sentence says, in any process."""

import copy
import pickle

import pytest

from equiscope import errors
from equiscope.errors import OverBudget, UnknownField, UnknownName, Unwritable, WrongValue

pytestmark = pytest.mark.quick

MADE = [
    UnknownName("scheme", "rop", ["rope", "alibi"], "Give one of these."),
    UnknownName("unit", 7, []),
    UnknownField("spec.block", "hedas", ["heads", "bias"]),
    WrongValue("spec.width", -1, "it should be 1 or more."),
    WrongValue("data.held_out", float("nan"), "it should be finite"),
    Unwritable("out.html", "No space left on device.", "Choose another disk."),
    OverBudget("It is too large."),
]


@pytest.mark.parametrize("error", MADE, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy, *(lambda e, n=n: pickle.loads(pickle.dumps(e, n)) for n in (2, 4, 5))])
def test_an_error_is_the_same_in_another_process(error, way):
    other = way(error)
    assert type(other) is type(error)
    assert str(other) == str(error)
    assert repr(vars(other)) == repr(vars(error))


def test_the_fields_say_what_the_sentence_says():
    error = UnknownField("spec.block", "hedas", ["heads", "bias"], "Correct it.")
    assert (error.path, error.found, error.known) == ("spec.block", "hedas", ["heads", "bias"])
    assert str(error) == "There is no field of spec.block called 'hedas'. Did you mean heads? Correct it. Known: heads, bias."
    error = WrongValue("spec.width", -1, "it should be 1 or more.")
    assert (error.path, error.found, error.why) == ("spec.width", -1, "it should be 1 or more")
    assert str(error) == "spec.width cannot be -1: it should be 1 or more."


@pytest.mark.parametrize("value", ["a" * 10**6, [[]] * 10**5, 10**5000, {"x": "y" * 999}, b"\0" * 999], ids=range(5))
def test_a_value_is_shown_short(value):
    assert len(str(WrongValue("x", value, "it is too long"))) < 300


@pytest.mark.parametrize("name", ["\ud800", "\udcff.html", "zero\0byte", "n" * 10**5, "\x80", "\x1b[31mred"])
def test_a_name_can_be_printed(name):
    shown = errors.printable(name)
    assert shown.encode()
    assert shown.isprintable()
    assert len(shown) <= 301


def test_a_count_of_one_is_of_one_thing():
    assert [errors.counted(n, "step") for n in (0, 1, -1, 2, 1200)] == ["0 steps", "1 step", "-1 step", "2 steps", "1,200 steps"]
    assert errors.counted(1, "class is", "classes are") == "1 class is"
    assert errors.counted(3, "class is", "classes are") == "3 classes are"
