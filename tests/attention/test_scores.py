"""Attention as a soft look-up: its rows, its rank, why 1/sqrt(K), and what adding places does (A1, A3, P14)."""

import math

import pytest
import torch
from tests.drawn import HEADS, LISTED, WIDTH, attending, placed, title, words
from tests.recorded import attention_of, recorded

from equiscope.attention import Causal, eager_attention, scaled_dot, score_split
from equiscope.positions import Shaw, Sinusoidal
from equiscope.symmetry import relative_error

pytestmark = pytest.mark.quick


def drawn(*shape):
    return torch.randn(*shape, dtype=torch.float64)


@pytest.mark.parametrize("mask", [None, Causal()], ids=["everything", "causal"])
@pytest.mark.parametrize("scheme", LISTED, ids=title)
def test_each_row_of_weights_is_a_convex_mix_of_values(scheme, mask):
    scheme = Shaw(values=False) if scheme.acts("value_bias") else scheme  # what it adds to the values is no mix of them
    _, a, v, z = attention_of(recorded(attending(scheme, mask, value_width=3), placed(scheme, words())))
    assert ((a >= 0) & (a <= 1)).all()
    assert (a.sum(-1) - 1).abs().max() < 1e-14  # float64: six terms
    assert relative_error(a @ v, z) < 1e-14
    assert (z <= v.amax(-2, keepdim=True) + 1e-14).all()
    assert (z >= v.amin(-2, keepdim=True) - 1e-14).all()


def test_the_mix_lies_in_the_span_of_the_values():
    q, k, v = drawn(9, 4), drawn(2, 4), drawn(2, 5)  # two keys: a plane in five dimensions
    z = eager_attention(q, k, v)
    assert torch.linalg.matrix_rank(v) == 2
    assert torch.linalg.matrix_rank(torch.cat([v, z])) == 2


@pytest.mark.parametrize("width", [1, 2, 3])
def test_products_have_at_most_the_rank_of_a_head_and_weights_need_not(width):
    q, k = drawn(8, width), drawn(8, width)
    assert torch.linalg.matrix_rank(q @ k.T) == width
    assert torch.linalg.matrix_rank(scaled_dot(q, k).softmax(-1)) > width


@pytest.mark.parametrize("width", [4, 64, 1024])
def test_the_variance_of_a_product_is_the_width_of_the_head(width):
    q, k = drawn(400, width), drawn(400, width)
    product = q @ k.T
    assert product.var().item() == pytest.approx(width, rel=0.1)  # 800 rows: a standard error of about 4 %
    assert scaled_dot(q, k).var().item() == pytest.approx(1, rel=0.1)
    assert relative_error(scaled_dot(q, k) * math.sqrt(width), product) < 1e-15


def test_a_soft_look_up_becomes_a_hard_one_as_scores_grow():
    q, k, v = drawn(5, 4), drawn(6, 4), drawn(6, 3)
    best = v[(q @ k.T).argmax(-1)]
    errors = [relative_error(eager_attention(q * by, k, v), best) for by in (1, 10, 100, 10000)]
    assert errors == sorted(errors, reverse=True)
    assert errors[0] > 0.1
    assert errors[-1] < 1e-12  # what is left is exp(-10000 * the gap to the second best)


def test_large_scores_do_not_overflow():
    assert eager_attention(drawn(3, 4) * 1e200, drawn(3, 4), drawn(3, 4)).isfinite().all()


@pytest.mark.parametrize("heads", [1, HEADS])
def test_the_score_of_word_plus_place_is_a_sum_of_four(heads):
    tokens, model = words(), attending(Sinusoidal(), heads=heads, head_width=WIDTH // heads)
    p = Sinusoidal().encode(tokens.positions, WIDTH)
    parts = score_split(tokens.x, p, model.attention.q_proj.weight.mT, model.attention.k_proj.weight.mT, heads)
    assert relative_error(sum(parts), attention_of(recorded(model, tokens))[0]) < 1e-14
    content, content_place, place_content, place = parts
    nowhere = score_split(tokens.x, p * 0, model.attention.q_proj.weight.mT, model.attention.k_proj.weight.mT, heads)
    assert torch.equal(nowhere[0], content)
    assert all((part == 0).all() for part in nowhere[1:])
    assert not torch.equal(content_place, place_content)
    assert torch.equal(
        score_split(tokens.x * 2, p, model.attention.q_proj.weight.mT, model.attention.k_proj.weight.mT, heads)[3], place
    )
