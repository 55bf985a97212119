"""A model that is larger than the memory is refused before a number of it is made."""

import pytest

import equiscope as eq
from equiscope.errors import InputError
from equiscope.models.memory import check_memory, machine_memory

pytestmark = pytest.mark.quick
WIDE = eq.Spec(10**8, layers=1, vocabulary=65)


def test_what_does_not_fit_is_refused_with_its_size():
    with pytest.raises(InputError, match=r"cannot be made: its parameters need [\d,]+ GiB, and this machine has \d+ GiB\. Make it"):
        eq.build(WIDE)


def test_training_needs_more_than_the_model():
    fits_once = int(machine_memory() / 4 / 2)
    check_memory(WIDE, lambda: fits_once)
    with pytest.raises(InputError, match="training keeps at least 4 numbers for each parameter, which need"):
        check_memory(WIDE, lambda: fits_once, copies=4)


def test_a_small_model_is_not_counted():
    check_memory(eq.Spec(256, layers=6, vocabulary=8000), lambda: pytest.fail("it was counted"))
