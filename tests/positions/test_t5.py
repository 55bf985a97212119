"""T5's buckets: near distances alone, far ones together; the table is Hugging Face's (P9)."""

import math

import msgspec
import pytest
import torch
from tests.drawn import randomised

from equiscope.errors import InputError
from equiscope.positions import T5Bias, from_json, to_json

pytestmark = pytest.mark.quick

sides = pytest.mark.parametrize("bidirectional", [True, False])


def table(scheme, at, heads=2):
    """The bias [H, N, N] for places at."""
    at = torch.as_tensor(at, dtype=torch.float64)[:, None]
    return scheme.score_bias(torch.arange(heads)[:, None, None], (at,), (at.T,))


def bucket(gap, buckets, max_distance, bidirectional):
    """The paper's text as plain Python: half the buckets of a side hold one distance, the rest widen up to `far`."""
    half = buckets // 2 if bidirectional else buckets
    start = half if bidirectional and gap < 0 else 0
    steps = abs(gap) if bidirectional else max(gap, 0)
    near = half // 2
    if steps < near:
        return start + steps
    return start + min(near + int(math.log(steps / near) / math.log(max_distance / near) * (half - near)), half - 1)


@pytest.mark.parametrize(("buckets", "max_distance"), [(32, 128), (8, 20), (64, 200)])
@sides
def test_the_bias_is_the_tables_row_for_the_bucket(buckets, max_distance, bidirectional):
    scheme, places = (
        randomised(T5Bias(buckets, max_distance, bidirectional).sized(8, 2, 4)),
        [-300, -40, -3, 0, 1, 2, 7, 15, 16, 31, 90, 128, 400],
    )
    found = table(scheme, places)
    rows = torch.tensor([[bucket(i - j, buckets, max_distance, bidirectional) for j in places] for i in places])
    assert torch.equal(found, scheme.table.weight[rows].movedim(-1, 0))


def test_places_that_moved_by_a_real_number_keep_their_distances():
    """8.37 - 7.37 is not 1."""
    scheme = randomised(T5Bias().sized(8, 2, 4))
    assert 8.37 - 7.37 != 1
    assert torch.equal(table(scheme, [0.37 + i for i in range(40)]), table(scheme, list(range(40))))


def test_without_buckets_for_both_sides_all_later_keys_are_alike():
    found = table(randomised(T5Bias(bidirectional=False).sized(8, 2, 4)), list(range(6)))
    assert (found[:, torch.ones(6, 6, dtype=torch.bool).triu()] == found[:, :1, 0]).all()


def test_in_a_batch_and_for_one_head_it_is_the_same_table():
    scheme, at = randomised(T5Bias().sized(8, 2, 4)), torch.tensor([[0.0, 5.0, 6.0], [9.0, 4.0, -2.0]], dtype=torch.float64)
    found = scheme.score_bias(torch.arange(2)[:, None, None], (at[:, None, :, None],), (at[:, None, None, :],))
    for b in range(2):
        assert torch.equal(found[b], table(scheme, at[b]))
        assert torch.equal(scheme.score_bias(torch.tensor(1), (at[b][:, None],), (at[b][None],)), table(scheme, at[b])[1])


def test_a_place_that_is_no_number_is_refused():
    with pytest.raises(InputError, match=r"NaN or infinite.*Give every token a position"):
        table(T5Bias().sized(8, 2, 4), [0.0, math.nan])


@pytest.mark.parametrize("settings", [{"buckets": 2}, {"buckets": 7}, {"max_distance": 8}, {"buckets": 1, "bidirectional": False}])
def test_buckets_that_hold_nothing_are_refused(settings):
    with pytest.raises(InputError, match="even number of 4 or more buckets and a larger max_distance"):
        T5Bias(**settings)


def test_without_a_size_it_says_what_is_missing():
    with pytest.raises(InputError, match=r"T5Bias\(\) has no parameters yet.*sized"):
        table(T5Bias(), [0, 1])


def test_settings_survive_a_file():
    scheme = T5Bias(buckets=8, max_distance=20, bidirectional=False)
    assert from_json(msgspec.json.decode(msgspec.json.encode(to_json(scheme)))).settings == scheme.settings
