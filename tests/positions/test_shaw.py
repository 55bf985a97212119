"""Shaw's relative rows for keys and values, against the paper's equations one pair at a time (P9)."""

import math

import msgspec
import pytest
import torch
from tests.drawn import randomised

from equiscope.errors import InputError
from equiscope.positions import Shaw, from_json, to_json
from equiscope.symmetry import relative_error

pytestmark = pytest.mark.quick

PLACES = [0.0, 1.0, 2.0, 6.0, 7.0, 3.0]


def of(at):
    at = torch.as_tensor(at, dtype=torch.float64)[:, None]
    return (at,), (at.T,)


def papers(scheme, q, weights, at=PLACES):
    """Section 3: a_ij = w[clip(j - i, k)], whose row in the table is k + clip(j - i, k)."""
    heads, n, width = q.shape
    term, mix = torch.zeros(heads, n, n).double(), torch.zeros(heads, n, width).double()
    for h in range(heads):
        for i in range(n):
            for j in range(n):
                row = scheme.max_distance + max(-scheme.max_distance, min(scheme.max_distance, round(at[j] - at[i])))
                term[h, i, j] = q[h, i] @ scheme.key_table[row] / math.sqrt(width)
                mix[h, i] += weights[h, i, j] * scheme.value_table[row]
    return term.detach(), mix.detach()


@pytest.mark.parametrize("far", [1, 3, 16])
def test_scores_and_values_are_the_papers(far):
    scheme, q = randomised(Shaw(far).sized(8, 2, 4)), torch.randn(2, 6, 4, dtype=torch.float64)
    weights = torch.rand(2, 6, 6, dtype=torch.float64)
    term, mix = papers(scheme, q, weights)
    assert relative_error(scheme.content_bias(q, q, *of(PLACES), None), term) < 1e-14
    assert relative_error(scheme.value_bias(weights, *of(PLACES)), mix) < 1e-14


def test_row_zero_is_for_keys_far_before_the_query():
    """The paper's sign: a_ij belongs to j - i."""
    (rows,) = Shaw(max_distance=2).sized(8, 2, 4).table_rows(*of([0.0, 10.0]))[1:]
    assert rows.tolist() == [0.0, 2.0]


def test_a_batch_is_each_of_its_sequences_and_one_head_needs_no_axis():
    scheme, q, weights = randomised(Shaw(2).sized(8, 2, 4)), torch.randn(3, 2, 6, 4).double(), torch.rand(3, 2, 6, 6).double()
    at = 4 * torch.randn(3, 6, dtype=torch.float64)
    places = ((at[:, None, :, None],), (at[:, None, None, :],))
    term, mix = scheme.content_bias(q, q, *places, None), scheme.value_bias(weights, *places)
    for b in range(3):
        assert relative_error(term[b], scheme.content_bias(q[b], q[b], *of(at[b]), None)) < 1e-14
        assert relative_error(mix[b, 1], scheme.value_bias(weights[b, 1], *of(at[b]))) < 1e-14
        assert relative_error(term[b, 1], scheme.content_bias(q[b, 1], q[b, 1], *of(at[b]), None)) < 1e-14


def test_places_that_moved_by_a_real_number_keep_their_rows():
    scheme = Shaw(8).sized(8, 2, 4)
    assert torch.equal(scheme.table_rows(*of([0.37 + i for i in range(30)])), scheme.table_rows(*of(range(30))))


def test_values_may_be_left_alone():
    scheme = randomised(Shaw(values=False).sized(8, 2, 4))
    assert scheme.value_bias(torch.rand(2, 6, 6), *of(PLACES)) is None
    assert [name for name, _ in scheme.named_parameters()] == ["key_table"]


def test_a_place_that_is_no_number_is_refused():
    with pytest.raises(InputError, match="NaN or infinite"):
        Shaw().sized(8, 2, 4).table_rows(*of([0.0, math.nan]))


def test_a_table_without_distances_is_refused():
    with pytest.raises(InputError, match="1 or more, but got 0"):
        Shaw(max_distance=0)


def test_without_a_size_it_says_what_is_missing():
    with pytest.raises(InputError, match=r"Shaw\(\) has no parameters yet"):
        Shaw().content_bias(torch.zeros(2, 6, 4), torch.zeros(2, 6, 4), *of(PLACES), None)


def test_settings_survive_a_file():
    scheme = Shaw(max_distance=3, values=False)
    assert from_json(msgspec.json.decode(msgspec.json.encode(to_json(scheme)))).settings == scheme.settings
