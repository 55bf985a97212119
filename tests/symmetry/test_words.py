"""Words: other names for them, and places that are no whole numbers."""

import pytest
import torch

from equiscope.symmetry import inputs_of, named
from equiscope.symmetry.words import WORDS, RealShift, Relabel, Stretch
from equiscope.tokens import Tokens

pytestmark = pytest.mark.quick


def text():
    return inputs_of((), {"input_ids": torch.tensor([[3, 5, 5, 9], [9, 3, 7, 3]])})


def placed():
    return inputs_of((), {"at": torch.rand(4, 2, dtype=torch.float64), "position_ids": torch.arange(4)})


@pytest.mark.parametrize("action", WORDS)
def test_every_element_says_itself_and_is_plain_data(action):
    inputs = text() if action is Relabel else placed()
    for one in [*action.samples(inputs, torch.Generator().manual_seed(0), 5), *action.simpler(inputs)]:
        assert action(**one.element()) == one
        assert one.describe() != one.summary
    assert named(action.name) is action


def test_other_names_are_names_of_the_same_vocabulary():
    for one in Relabel.samples(text(), torch.Generator().manual_seed(0), 6):
        assert sorted(one.old) == sorted(one.new)
        back = Relabel(one.new, one.old)
        assert torch.equal(back.on_input(one.on_input(text())).values["input_ids"], text().values["input_ids"])


def test_the_score_of_a_word_goes_with_its_new_name():
    one, scores = Relabel((3, 5), (5, 3)), torch.arange(10.0)
    assert one.on_input(text()).values["input_ids"].tolist() == [[5, 3, 3, 9], [9, 5, 7, 5]]
    assert one.moved(scores, "renamed", ()).tolist() == [0, 1, 2, 5, 4, 3, 6, 7, 8, 9]
    assert one.moved(scores, "invariant", ()) is scores
    assert one.describe() == "relabel the ids 3 as 5, 5 as 3"


def test_one_word_has_no_other_name():
    assert Relabel.missing(inputs_of((), {"input_ids": torch.ones(2, 3, dtype=torch.long)})) == "there is one id only"
    assert Relabel.missing(text()) == ""


def test_a_fraction_moves_real_places_and_leaves_ranks_and_row_numbers():
    before = placed()
    moved = RealShift(0.25).on_input(before)
    assert torch.equal(moved.values["at"], before.values["at"] + 0.25)
    assert torch.equal(moved.values["position_ids"], torch.arange(4))
    tokens = Tokens.of(torch.randn(3, 8))
    later = RealShift(0.25).on_input(tokens)
    assert later.positions[:, 0].tolist() == [0.25, 1.25, 2.25]
    assert torch.equal(later.order, tokens.order)


def test_words_moved_apart_keep_whole_places_whole():
    moved = Stretch(3.0).on_input(placed())
    assert moved.values["position_ids"].tolist() == [0, 3, 6, 9]
    assert moved.values["position_ids"].dtype == torch.long
