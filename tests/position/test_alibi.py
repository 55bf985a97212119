"""ALiBi: the paper's slopes, a bias of distance only, causal form (P8)."""

import math

import pytest
import torch
from tests.drawn import attending, words

from equiscope.attention import Causal
from equiscope.errors import InputError, ShapeError
from equiscope.position import Alibi
from equiscope.position.alibi import paper_slopes
from equiscope.trace import replay, watch


def get_slopes(n):
    """As in the paper's repository (attention_with_linear_biases, fairseq), written down again."""

    def get_slopes_power_of_2(n):
        start = 2 ** (-(2 ** -(math.log2(n) - 3)))
        return [start * start**i for i in range(n)]

    if math.log2(n).is_integer():
        return get_slopes_power_of_2(n)
    closest = 2 ** math.floor(math.log2(n))
    return get_slopes_power_of_2(closest) + get_slopes(2 * closest)[0::2][: n - closest]


@pytest.mark.parametrize("heads", range(1, 41))
def test_slopes_are_those_of_the_papers_code(heads):
    assert paper_slopes(heads) == pytest.approx(get_slopes(heads), rel=1e-14)  # powers of two, computed two ways
    assert Alibi().sized(8 * heads, heads, 8).rates == tuple(paper_slopes(heads))


def test_eight_heads_have_the_slopes_of_the_papers_figure():
    assert paper_slopes(8) == [2.0**-h for h in range(1, 9)]


def test_the_bias_is_minus_slope_times_distance():
    scheme = Alibi(slopes=(0.5, 0.25)).sized(8, 2, 4)
    at = torch.tensor([[0.0], [2.0], [2.5]])
    found = scheme.bias(torch.arange(2)[:, None, None], at, at.T)
    for h, slope in enumerate((0.5, 0.25)):
        assert found[h].tolist() == [[-slope * abs(i - j) for j in (0, 2, 2.5)] for i in (0, 2, 2.5)]


def test_under_a_causal_mask_it_is_the_papers_bias():
    """The paper adds slope * j to the visible scores: softmax does not see the -slope * i that a row shares."""
    model, tokens = attending(Alibi(), Causal()), words()
    values = replay(watch(model, tokens))
    scores, found = values["attention.S"], values["attention.A"]
    slopes = torch.tensor(get_slopes(2)).double()[:, None, None]
    hidden = torch.ones(6, 6, dtype=torch.bool).triu(1)
    theirs = (scores + slopes * torch.arange(6)).masked_fill(hidden, -math.inf).softmax(-1)
    assert (found - theirs).abs().max() < 1e-14


def test_slopes_that_do_not_match_the_heads_are_refused():
    with pytest.raises(ShapeError, match="given 1 slopes, but the attention has 2 heads"):
        Alibi(slopes=(0.5,)).sized(8, 2, 4)


def test_without_a_size_it_says_what_is_missing():
    with pytest.raises(InputError, match=r"does not know the number of heads.*sized"):
        Alibi().bias(torch.arange(1), torch.zeros(1, 1), torch.zeros(1, 1))
