"""The worked examples: three words, two features, one head, numbers that a person can check by hand."""

import pytest
import torch

from equiscope.attention import MultiHeadAttention
from equiscope.positions import Index, NoPosition, Rope
from equiscope.tokens import Tokens

pytestmark = pytest.mark.quick

X = torch.tensor([[1.0, 2], [0, 2], [1, 1]], dtype=torch.float64)
WEIGHTS = {"q_proj": [[1.0, -1], [0, 1]], "k_proj": [[1.0, 0], [1, -1]], "v_proj": [[1.0, 0], [1, 1]]}  # [in, out]
RESULTS = [
    (NoPosition(), [[2.40, 1.60], [2.16, 1.33], [2.50, 1.75]]),
    (Index(), [[5.18, 2.84], [4.87, 2.72], [5.97, 3.00]]),
    (Rope(), [[2.11, 1.71], [2.00, 1.01], [2.02, 1.16]]),
]


def attend(position, start=0, x=X):
    attention = MultiHeadAttention(2, output=False).double()
    for name, weight in WEIGHTS.items():
        getattr(attention, name).weight.data = torch.tensor(weight, dtype=torch.float64).T
    tokens = Tokens.of(x, start)
    return attention(Tokens(x=position.embed(tokens.x, tokens.positions), positions=tokens.positions, order=tokens.order), position)


@pytest.mark.parametrize(("position", "wanted"), RESULTS, ids=lambda v: getattr(v, "name", ""))
def test_three_words_give_the_numbers_of_the_worked_examples(position, wanted):
    assert attend(position).detach().round(decimals=2).tolist() == wanted


@pytest.mark.parametrize("start", [1, 5, 100, 1000])
@pytest.mark.parametrize(("position", "wanted"), RESULTS[::2], ids=lambda v: getattr(v, "name", ""))
def test_rope_and_no_position_give_them_wherever_the_text_begins(position, wanted, start):
    # float64; an angle of 1000 radians keeps 13 digits, and so does the product of two turned rows
    assert (attend(position, start) - attend(position)).abs().max() < 1e-12
    assert attend(position, start).detach().round(decimals=2).tolist() == wanted


def test_the_index_gives_other_numbers_further_on():
    assert (attend(Index(), 5) - attend(Index())).abs().max() > 1


def test_without_positions_the_outputs_travel_with_their_words():
    order = [2, 0, 1]
    assert (attend(NoPosition(), x=X[order]) - attend(NoPosition())[order]).abs().max() < 1e-15
    assert (attend(Rope(), x=X[order]) - attend(Rope())[order]).abs().max() > 0.01
