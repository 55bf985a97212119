"""Elements of an action, drawn and shrunk by Hypothesis."""

import pytest
import torch
from hypothesis import find, given, settings

from equiscope.audit.integrations.hypothesis import elements
from equiscope.errors import InputError
from equiscope.symmetry import Permute, Shift, inputs_of
from tests.audit.zoo import Attend, Table

X = torch.randn(2, 6, 8, generator=torch.Generator().manual_seed(0))
SET = Attend().double()


@settings(max_examples=25, deadline=None)
@given(element=elements("permute", X))
def test_attention_follows_every_order_that_is_drawn(element):
    moved = element.on_input(inputs_of((X.double(),))).call(SET)
    torch.testing.assert_close(moved, element.moved(SET(X.double()), "permuted", (1,)))


def test_what_breaks_shrinks_to_one_exchange_of_neighbours():
    table = Table()

    def broken(element):
        return not torch.allclose(element.on_input(inputs_of((X,))).call(table), element.moved(table(X), "permuted", (1,)))

    assert find(elements(Permute, X), broken) == Permute((1, 0, 2, 3, 4, 5))


def test_a_shift_shrinks_to_the_smallest_that_does_it():
    places = inputs_of((X, torch.arange(6)[:, None]), names=("x", "at"))
    assert find(elements(Shift, places), lambda g: g.by > 0).by == 1


def test_an_order_is_never_the_one_that_changes_nothing():
    assert find(elements(Permute, X[:, :2]), lambda g: True).order == (1, 0)


def test_an_action_that_moves_nothing_of_what_is_given_is_refused():
    with pytest.raises(InputError, match=r"no element of 'shift' for these inputs"):
        elements("shift", X)
