"""Faults of data are named together: the first few one by one, those that differ in their place alone once."""

import pytest

from equiscope.data import Missing
from equiscope.data.faults import SHOWN, Faults
from equiscope.errors import InputError, OverBudget


def sentence(faults):
    with pytest.raises(InputError) as error:
        faults.check()
    return str(error.value)


def test_no_fault_is_no_error():
    Faults("Correct them.").check()


def test_the_first_faults_are_named_and_the_others_counted():
    faults = Faults("Correct these lines.")
    for line in range(SHOWN):
        faults.add(f"Line {line} is {line}.")
    assert sentence(faults) == "Line 0 is 0. Line 1 is 1. Line 2 is 2. Line 3 is 3. Line 4 is 4. Correct these lines."
    faults.add("Line 5 is 5.")
    assert sentence(faults).endswith("Line 4 is 4. And 1 more fault. Correct these lines.")
    faults.add("Line 6 is 6.")
    assert sentence(faults).endswith("And 2 more faults. Correct these lines.")


def test_faults_that_differ_in_their_place_alone_are_one():
    faults = Faults()
    for line in (3, 7, 9):
        with faults.caught(f"a.csv, line {line}"):
            raise InputError(f"a.csv, line {line} has no label.")
    faults.add("a.csv, line 8 is odd.", "a.csv, line 8")
    assert sentence(faults) == (
        "a.csv, line 3 has no label. 2 others have the same fault; the last: a.csv, line 9. a.csv, line 8 is odd."
    )


@pytest.mark.parametrize("kind", [Missing, OverBudget, KeyError])
def test_what_is_missing_or_too_large_is_no_fault_of_many(kind):
    faults = Faults()
    with pytest.raises(kind), faults.caught():
        raise kind("a.csv")
    assert not faults.found
