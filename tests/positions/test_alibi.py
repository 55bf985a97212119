"""ALiBi: the paper's slopes, a bias of distance only, causal form (P8)."""

import math

import msgspec
import pytest
import torch
from tests.drawn import attending, words
from tests.recorded import attention_of, recorded

from equiscope.attention import Causal
from equiscope.errors import InputError, ShapeError
from equiscope.positions import Alibi, from_json, to_json
from equiscope.positions.alibi import paper_slopes
from equiscope.program.replay import replay
from equiscope.symmetry import Reverse, Shift, relative_error

pytestmark = pytest.mark.quick


def get_slopes(n):
    """As in the paper's repository (attention_with_linear_biases, fairseq), computed again."""

    def get_slopes_power_of_2(n):
        start = 2 ** (-(2 ** -(math.log2(n) - 3)))
        return [start * start**i for i in range(n)]

    if math.log2(n).is_integer():
        return get_slopes_power_of_2(n)
    closest = 2 ** math.floor(math.log2(n))
    return get_slopes_power_of_2(closest) + get_slopes(2 * closest)[0::2][: n - closest]


def bias(scheme, places):
    at = torch.tensor(places, dtype=torch.float64)[:, None]
    return scheme.score_bias(torch.arange(2)[:, None, None], (at,), (at.T,))


@pytest.mark.parametrize("heads", range(1, 41))
def test_slopes_are_those_of_the_papers_code(heads):
    assert paper_slopes(heads) == pytest.approx(get_slopes(heads), rel=1e-14)  # powers of two, computed two ways
    assert Alibi().sized(8 * heads, heads, 8).rates == tuple(paper_slopes(heads))


def test_eight_heads_have_the_slopes_of_the_papers_figure():
    assert paper_slopes(8) == [2.0**-h for h in range(1, 9)]


def test_the_bias_is_minus_slope_times_distance():
    scheme = Alibi(slopes=(0.5, 0.25)).sized(8, 2, 4)
    found = bias(scheme, [0.0, 2.0, 2.5])
    for h, slope in enumerate((0.5, 0.25)):
        assert found[h].tolist() == [[-slope * abs(i - j) for j in (0, 2, 2.5)] for i in (0, 2, 2.5)]


def test_under_a_causal_mask_it_is_the_papers_bias():
    """The paper adds slope * j to the visible scores: softmax does not see the -slope * i that a row shares."""
    model, tokens = attending(Alibi(), Causal()), words()
    program = recorded(model, tokens)
    found, products = attention_of(program)[1], next(step.id for step in program.steps if step.symbol == "S")
    scores = replay(program)[products]
    slopes = torch.tensor(get_slopes(2)).double()[:, None, None]
    hidden = torch.ones(6, 6, dtype=torch.bool).triu(1)
    theirs = (scores + slopes * torch.arange(6)).masked_fill(hidden, -math.inf).softmax(-1)
    assert (found - theirs).abs().max() < 1e-14


def test_slopes_that_do_not_match_the_heads_are_refused():
    with pytest.raises(ShapeError, match="given 1 slopes, but the attention has 2 heads"):
        Alibi(slopes=(0.5,)).sized(8, 2, 4)


def test_without_a_size_it_says_what_is_missing():
    with pytest.raises(InputError, match=r"has no number of heads.*sized"):
        Alibi().score_bias(torch.arange(1), (torch.zeros(1, 1),), (torch.zeros(1, 1),))


def test_on_a_plane_distance_is_euclids():
    across, down = torch.tensor([[0.0, 3.0, -3.0], [0.0, 4.0, 4.0]], dtype=torch.float64)
    scheme = Alibi(slopes=(1.0, 2.0)).sized(8, 2, 4)
    found = scheme.score_bias(torch.arange(2)[:, None, None], (across[:, None], down[:, None]), (across[None], down[None]))
    assert found[1].tolist() == [[0, -10, -10], [-10, 0, -12], [-10, -12, 0]]


@pytest.mark.parametrize("right", [0.25, (0.125, 0.0625)])
def test_later_keys_may_cost_another_amount(right):
    found = bias(Alibi(slopes=(0.5, 0.25), kind="asymmetric", right=right).sized(8, 2, 4), [0.0, 2.0, 2.5])
    for h, (left, later) in enumerate([(0.5, 0.125), (0.25, 0.0625)]):
        assert found[h].tolist() == [[-left * (i - j) if i > j else -later * (j - i) for j in (0, 2, 2.5)] for i in (0, 2, 2.5)]


def test_the_same_slopes_on_both_sides_are_symmetric():
    for right in (1.0, (0.5, 0.25)):
        scheme = Alibi(slopes=(0.5, 0.25), kind="asymmetric", right=right).sized(8, 2, 4)
        assert scheme.preserves == {Shift, Reverse}
        assert torch.equal(bias(scheme, [-3.0, 0.5, 9.0]), bias(Alibi(slopes=(0.5, 0.25)).sized(8, 2, 4), [-3.0, 0.5, 9.0]))
    assert Alibi(kind="asymmetric").sized(8, 2, 4).preserves == {Shift}


def test_the_key_form_moves_every_score_of_a_row_alike():
    """BLOOM's m * j: softmax sees no difference to -m |i - j| before the query, nor where the text starts."""
    scheme, plain = Alibi(kind="key").sized(8, 2, 4), Alibi().sized(8, 2, 4)
    near, far = (bias(scheme, [s + i for i in range(5)]).expand(2, 5, 5) for s in (0, 1000))
    hidden = torch.ones(5, 5, dtype=torch.bool).triu(1)
    weights = [b.masked_fill(hidden, -math.inf).softmax(-1) for b in (near, far, bias(plain, [float(i) for i in range(5)]))]
    assert (near - far).abs().max() > 1
    assert relative_error(weights[1], weights[0]) < 1e-12  # 1000 costs three of sixteen digits
    assert relative_error(weights[0], weights[2]) < 1e-14
    assert not scheme.relative


@pytest.mark.usefixtures("unchecked")
def test_an_unknown_kind_names_the_three():
    with pytest.raises(InputError, match=r'kind cannot be .causal.: it should be "symmetric", "asymmetric" or "key"'):
        Alibi(kind="causal")


def test_slopes_to_the_right_that_do_not_match_the_heads_are_refused():
    with pytest.raises(ShapeError, match="given 3 slopes to the right, but the attention has 2 heads"):
        Alibi(kind="asymmetric", right=(1.0, 2.0, 3.0)).sized(8, 2, 4)


@pytest.mark.parametrize("right", [0.25, (0.125, 0.0625)])
def test_settings_survive_a_file(right):
    scheme = Alibi(slopes=(0.5, 0.25), kind="asymmetric", right=right)
    data = msgspec.json.decode(msgspec.json.encode(to_json(scheme)))
    assert from_json(data).settings == scheme.settings
