"""What the studies find, in their quick forms; SYSTEMS rows A1, A3, A10, A11, M1, P4, P13, P14."""

import math

import pytest
import torch

from equiscope.positions import Sinusoidal
from equiscope.study import collide, cost, decay, orthogonality, parallel, split

pytestmark = pytest.mark.xdist_group("findings")
ROUNDING = 1e-14  # float64 has 2e-16; sums of some dozens of terms stay below this


# --- lookup -----------------------------------------------------------------------------------------------------------
def test_larger_scores_make_a_harder_look_up(found):
    result = found("lookup")
    largest, distance = ([row[i] for row in result.table.rows] for i in (1, 3))
    assert largest == sorted(largest)
    assert distance == sorted(distance, reverse=True)
    assert result.numbers["largest weight, x1"] < 0.4 < 0.95 < result.numbers["largest weight, x100"]


def test_rows_of_attention_sum_to_one_and_stay_in_the_span_of_the_values(found):
    assert found("lookup").numbers["row sums"] < ROUNDING
    assert found("lookup").numbers["outside the span"] < ROUNDING


def test_scores_have_the_rank_of_their_keys_and_softmax_has_more(found):
    numbers = found("lookup").numbers
    assert numbers["rank of the scores"] == numbers["K"] < numbers["rank of the weights"]


# --- scaling ----------------------------------------------------------------------------------------------------------
def test_the_variance_of_a_product_is_its_width_until_it_is_scaled(found):
    for width, kind, variance, *_ in found("scaling").table.rows:
        wanted = width if kind == "not scaled" else 1
        assert variance == pytest.approx(wanted, rel=0.1)  # 16 000 products that share 1000 queries


def test_without_the_scale_the_median_gradient_vanishes(found):
    numbers = found("scaling").numbers
    assert numbers["median gradient, first"] == pytest.approx(0.33, abs=0.03)
    assert numbers["median gradient, last"] < 1e-4
    assert numbers["median gradient, scaled, last"] == pytest.approx(0.30, abs=0.03)


def test_the_mean_gradient_falls_only_as_a_root(found):
    numbers = found("scaling").numbers
    assert numbers["mean gradient, last"] > 1000 * numbers["median gradient, last"]
    assert -0.6 < numbers["power of the mean"] < -0.3  # -1/2 as K grows; 1000 rows


def test_subtracting_the_maximum_prevents_overflow_and_the_scale_prevents_saturation(found):
    numbers = found("scaling").numbers
    assert numbers["overflows, not scaled"] > 0.01 > 0 == numbers["overflows, maximum subtracted"]


# --- depth ------------------------------------------------------------------------------------------------------------
def test_without_norm_gradients_explode_with_a_residual_and_vanish_without(found):
    numbers = found("depth").numbers
    assert numbers["gradient, no norm, residual"] > 1e3
    assert numbers["gradient, no norm, no residual"] < 1e-3
    assert all(1e-2 < numbers[f"gradient, {order}, residual"] < 1e2 for order in ("pre", "post"))


def test_post_norm_keeps_the_size_and_pre_norm_with_residual_keeps_words_apart(found):
    numbers = found("depth").numbers
    assert numbers["growth, post, residual"] == pytest.approx(1, abs=0.2)  # words of random size become rows of size 1
    assert numbers["words apart, pre, residual"] > 0.1 > 1e-6 > numbers["words apart, pre, no residual"]


# --- reach ------------------------------------------------------------------------------------------------------------
def test_an_lstm_fades_convolutions_end_and_attention_does_neither(found):
    numbers = found("reach").numbers
    assert numbers["LSTM at 63"] < 1e-9
    assert numbers["reach of the convolutions"] == 8  # 8 layers, one neighbour on each side
    assert numbers["convolutions beyond"] == 0
    assert 0.1 < numbers["attention at 63 / at 1"] < 10


def test_convolutions_commute_with_a_shift_but_for_the_ends(found):
    numbers = found("reach").numbers
    assert numbers["shift, circular"] < ROUNDING
    assert numbers["shift, zeros, inside"] < ROUNDING
    assert numbers["shift, zeros, at the edge"] > 0.1


# --- cost -------------------------------------------------------------------------------------------------------------
def test_the_formulas_are_what_torch_counts():
    for n, d in ((3, 4), (10, 8), (7, 12)):
        assert cost.multiply_adds(n, d) == {part: formula(n, d) for part, (_, formula) in cost.FORMULAS.items()}


def test_attention_passes_the_feed_forward_at_twice_its_width_and_its_products_alone_at_four_times():
    for d in (4, 8):
        assert (cost.crossing(d, True), cost.crossing(d, False)) == (2 * d, 4 * d)


def test_a_causal_mask_counts_in_full_and_the_fused_kernel_not_at_all(found):
    numbers = found("cost").numbers
    assert numbers["eager"] == numbers["causal"] > numbers["sdpa"] == numbers["projections of those"]


# --- parallel ---------------------------------------------------------------------------------------------------------
def test_an_rnn_waits_once_a_word():
    rnn = torch.nn.RNN(parallel.WIDTH, parallel.WIDTH, batch_first=True)
    assert [parallel.longest_wait(rnn, n) for n in (1, 5, 20)] == [1, 5, 20]


def test_step_by_step_is_torchs_rnn(found):
    assert found("parallel").numbers["both RNNs"] < 1e-5  # float32, two orders of summation


# --- collide ----------------------------------------------------------------------------------------------------------
def test_one_sine_takes_nineteen_values_and_a_pair_tells_exactly_one_period_apart(found):
    numbers = found("collide").numbers
    assert (numbers["one sine"], numbers["pair"], numbers["pair, one position more"]) == (19, 36, 36)
    assert numbers["ladder"] == numbers["positions"]
    assert numbers["i and 18 - i"] < ROUNDING


def test_a_linear_step_needs_sine_and_cosine(found):
    numbers = found("collide").numbers
    assert numbers["sines only"] == pytest.approx(0.66, abs=0.005)
    assert numbers["sine + cosine"] < ROUNDING
    assert numbers["order of columns"] == 0


def test_rows_that_differ_by_rounding_are_one_row():
    assert collide.different(torch.tensor([[0.5], [0.5 + 1e-15], [-0.5], [0.6]], dtype=torch.float64)) == 3


# --- decay ------------------------------------------------------------------------------------------------------------
def test_a_vector_of_equal_pairs_turned_is_a_sinusoid(found):
    assert found("decay").numbers["sinusoids against rope"] < ROUNDING


def test_alibi_halves_after_ln_2_over_its_slope(found):
    numbers = found("decay").numbers
    for head in (1, 4):
        assert numbers[f"half, alibi, head {head} of 8"] == math.ceil(math.log(2) / 2.0**-head)


def test_a_larger_base_forgets_later(found):
    numbers = found("decay").numbers
    assert numbers["half, sinusoidal, base 100"] < numbers["half, sinusoidal"]
    assert decay.half(torch.tensor([1.0, 0.9])) is None


# --- orthogonality ----------------------------------------------------------------------------------------------------
def test_random_directions_meet_as_the_formula_says_and_places_do_not(found):
    numbers = found("orthogonality").numbers
    assert numbers["random at 64"] == pytest.approx(numbers["formula at 64"], rel=0.05)  # 2000 pairs: 1.7 %
    assert numbers["between positions"] == pytest.approx(0.58, abs=0.005)


def test_both_can_be_read_from_the_sum(found):
    numbers = found("orthogonality").numbers
    assert numbers["word read at 64"] > 0.9
    assert numbers["position read at 64"] > 0.2  # guessing: 0.02


def test_neighbours_and_analogies_stay_while_all_words_share_a_place(found):
    for name, near, analogies, own, _ in found("orthogonality").table.rows:
        assert (near, analogies) == (1, 1), name
        assert own < 1, name


def test_a_missing_corpus_is_said():
    names, vectors, data = orthogonality._words(10, folders=("nowhere",))
    assert names == []
    assert vectors.shape == (10, 128)
    assert "seeded random table" in data


# --- split ------------------------------------------------------------------------------------------------------------
def test_four_matrices_sum_to_the_score_and_one_knows_places_only(found):
    numbers = found("split").numbers
    assert numbers["sum against the score"] < ROUNDING
    assert numbers["position-position, another text"] == 0
    assert sum(numbers[f"share of {part}"] for part in split.PARTS) == pytest.approx(1)


def test_sinusoids_offer_the_distance_and_weights_must_take_it(found):
    numbers = found("split").numbers
    assert numbers["position-position off its diagonals, W = 1"] < ROUNDING
    assert numbers["position-position off its diagonals, W random"] > 0.3
    p = Sinusoidal().encode(torch.arange(6, dtype=torch.float64)[:, None], 8)
    assert split.off_diagonals(p @ p.T) < ROUNDING


# --- token-back -------------------------------------------------------------------------------------------------------
def test_rope_learns_the_token_back_and_a_set_does_not(found):
    numbers = found("token-back").numbers
    assert numbers["steps, rope"] <= 50
    assert numbers["steps, none"] is None
    assert numbers["steps, alibi"] is None
    assert "Not within 50 steps: " in found("token-back").notes[0]


# --- approximate ------------------------------------------------------------------------------------------------------
def test_what_meets_every_key_is_exact_and_less_is_not(found):
    numbers = found("approximate").numbers
    assert numbers["dilated, N"] < ROUNDING
    assert numbers["Nystrom, N"] < 0.2  # six steps of the pseudo-inverse
    assert all(numbers[f"{kind}, N/4"] > 0.1 for kind in ("sliding window", "dilated", "Linformer", "Nystrom"))


def test_more_keys_leave_a_smaller_error(found):
    for column in zip(*found("approximate").table.rows, strict=True):
        assert list(column) == sorted(column) or list(column) == sorted(column, reverse=True)
