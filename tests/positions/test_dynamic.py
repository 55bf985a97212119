"""Dynamic position bias: a network of the distance, linear or logarithmic (P9)."""

import math

import msgspec
import pytest
import torch
from tests.drawn import randomised

from equiscope.errors import InputError
from equiscope.positions import DynamicBias, from_json, to_json
from equiscope.symmetry import relative_error

pytestmark = pytest.mark.quick

PLACES = [-7.0, 0.0, 0.25, 1.0, 2.0, 40.0]
spacings = pytest.mark.parametrize("spacing", ["log", "linear"])


def table(scheme, at=PLACES, heads=2):
    at = torch.as_tensor(at, dtype=torch.float64)[:, None]
    return scheme.score_bias(torch.arange(heads)[:, None, None], (at,), (at.T,))


@spacings
def test_the_bias_is_a_network_of_the_distance(spacing):
    scheme = randomised(DynamicBias(spacing, hidden=5).sized(8, 2, 4))
    network = torch.nn.Sequential(torch.nn.Linear(1, 5), torch.nn.ReLU(), torch.nn.Linear(5, 2)).double()
    network.load_state_dict(scheme.mlp.state_dict())
    read = (lambda d: math.copysign(math.log(1 + abs(d)), d)) if spacing == "log" else (lambda d: d)
    gaps = torch.tensor([[[read(i - j)] for j in PLACES] for i in PLACES], dtype=torch.float64)
    assert relative_error(table(scheme), network(gaps).movedim(-1, 0)) < 1e-14


@spacings
def test_one_value_for_each_distance_is_all_there_is(spacing):
    scheme = randomised(DynamicBias(spacing).sized(8, 2, 4))
    dense = table(scheme, list(range(6)))
    steps = torch.arange(5, -6, -1, dtype=torch.float64)
    values = scheme.score_bias(torch.arange(2)[:, None, None], (steps[None],), (torch.zeros(1, 1).double(),)).squeeze(-2)
    for i in range(6):
        assert relative_error(values[:, 5 - i : 11 - i], dense[:, i]) < 1e-13


def test_in_a_batch_and_for_one_head_it_is_the_same():
    scheme, at = randomised(DynamicBias().sized(8, 2, 4)), torch.tensor([[0.0, 5.0, 6.0], [9.0, 4.0, -2.0]], dtype=torch.float64)
    found = scheme.score_bias(torch.arange(2)[:, None, None], (at[:, None, :, None],), (at[:, None, None, :],))
    for b in range(2):
        assert relative_error(found[b], table(scheme, at[b])) < 1e-14
        assert (
            relative_error(scheme.score_bias(torch.tensor(1), (at[b][:, None],), (at[b][None],)), table(scheme, at[b])[1]) < 1e-14
        )


@pytest.mark.usefixtures("unchecked")
def test_what_it_cannot_be_made_from_is_named():
    with pytest.raises(InputError, match=r'spacing cannot be .*: it should be "log" or "linear"'):
        DynamicBias("square")
    with pytest.raises(InputError, match="larger than 0, but got 0"):
        DynamicBias(hidden=0)


def test_without_a_size_it_says_what_is_missing():
    with pytest.raises(InputError, match=r"DynamicBias\(\) has no parameters yet"):
        table(DynamicBias())


def test_settings_survive_a_file():
    scheme = DynamicBias("linear", hidden=7)
    assert from_json(msgspec.json.decode(msgspec.json.encode(to_json(scheme)))).settings == scheme.settings
