"""FIRE: the share of a distance in how far one may attend, through a small network; it does notice where a text starts (P9)."""

import msgspec
import pytest
import torch
from tests.drawn import randomised

from equiscope.errors import InputError
from equiscope.positions import Fire, from_json, to_json
from equiscope.symmetry import relative_error

pytestmark = pytest.mark.quick

PLACES = [0.0, 1.0, 2.0, 3.5, 30.0, 900.0]


def table(scheme, at=PLACES, heads=2):
    at = torch.as_tensor(at, dtype=torch.float64)[:, None]
    return scheme.score_bias(torch.arange(heads)[:, None, None], (at,), (at.T,))


def papers(scheme, at=PLACES):
    """The formula one pair at a time, with the safeguards of the appendix: |c|, |L| and 1e-6."""
    c, least = scheme.rate.abs(), (scheme.threshold * scheme.length).abs()
    network = torch.nn.Sequential(torch.nn.Linear(1, scheme.hidden), torch.nn.ReLU(), torch.nn.Linear(scheme.hidden, 2)).double()
    network.load_state_dict(scheme.mlp.state_dict())
    out = torch.empty(2, len(at), len(at), dtype=torch.float64)
    for a, i in enumerate(at):
        room = torch.maximum(least, torch.tensor([i]).double())
        for b, j in enumerate(at):
            out[:, a, b] = network(torch.log(c * abs(i - j) + 1) / (torch.log(c * room + 1) + 1e-6))
    return out.detach()


@pytest.mark.parametrize("settings", [{}, {"length": 2.0, "hidden": 5}])
def test_the_bias_is_the_papers_formula(settings):
    scheme = randomised(Fire(**settings).sized(8, 2, 4))
    assert relative_error(table(scheme), papers(scheme)) < 1e-14


def test_it_starts_with_the_constants_of_the_papers_code():
    scheme = Fire().sized(8, 2, 4)
    assert (scheme.rate.item(), scheme.threshold.item(), scheme.length) == (pytest.approx(0.1), 1.0, 512.0)
    assert scheme.mlp[0].weight.shape == (32, 1)


def test_it_notices_where_the_text_starts_once_beyond_its_threshold():
    scheme = randomised(Fire(length=10.0).sized(8, 2, 4))
    scheme.threshold.data.fill_(1.0)
    start, near, far = (table(scheme, [s + i for i in range(5)]) for s in (0, 5, 1000))
    assert relative_error(near, start) < 1e-14  # 0 .. 9 lie below the threshold of 10
    assert relative_error(far, start) > 1e-2


def test_nothing_is_undefined_above_the_diagonal_before_zero_or_without_a_threshold():
    scheme = randomised(Fire().sized(8, 2, 4))
    scheme.threshold.data.zero_()
    found = table(scheme, [-9.0, -1.0, 0.0, 0.0, 4.0])
    assert found.isfinite().all()
    found.sum().backward()
    assert all(p.grad.isfinite().all() for p in scheme.parameters())


def test_in_a_batch_and_for_one_head_it_is_the_same():
    scheme, at = randomised(Fire().sized(8, 2, 4)), torch.tensor([[0.0, 5.0, 6.0], [9.0, 4.0, 2.0]], dtype=torch.float64)
    found = scheme.score_bias(torch.arange(2)[:, None, None], (at[:, None, :, None],), (at[:, None, None, :],))
    for b in range(2):
        assert relative_error(found[b], table(scheme, at[b])) < 1e-14
        assert (
            relative_error(scheme.score_bias(torch.tensor(1), (at[b][:, None],), (at[b][None],)), table(scheme, at[b])[1]) < 1e-14
        )


def test_in_half_precision_places_are_read_in_full():
    scheme = randomised(Fire().sized(8, 2, 4))
    at = torch.arange(2000, 2004).float()[:, None]
    wanted = scheme.score_bias(torch.arange(2)[:, None, None], (at,), (at.T,))
    scheme.to(torch.bfloat16)
    found = scheme.score_bias(torch.arange(2)[:, None, None], (at,), (at.T,))
    assert found.dtype == torch.float32
    assert relative_error(found, wanted) < 0.02  # weights of 8 bits


@pytest.mark.parametrize("settings", [{"length": 0.0}, {"hidden": 0}])
def test_sizes_of_nothing_are_refused(settings):
    with pytest.raises(InputError, match="larger than 0"):
        Fire(**settings)


def test_without_a_size_it_says_what_is_missing():
    with pytest.raises(InputError, match=r"Fire\(\) has no parameters yet"):
        table(Fire())


def test_settings_survive_a_file():
    scheme = Fire(length=64.0, hidden=8)
    assert from_json(msgspec.json.decode(msgspec.json.encode(to_json(scheme)))).settings == scheme.settings


def test_on_several_axes_distances_and_the_largest_one_are_euclidean():
    scheme = randomised(Fire(length=2.0).sized(8, 2, 4))
    head, zero = torch.arange(2)[:, None, None], torch.zeros(len(PLACES), 1, dtype=torch.float64)
    at = torch.tensor(PLACES, dtype=torch.float64)[:, None]
    one_axis = scheme.score_bias(head, (at,), (at.T,))
    assert relative_error(scheme.score_bias(head, (at, zero), (at.T, zero.T)), one_axis) < 1e-14
    turned = scheme.score_bias(head, (0.6 * at, 0.8 * at), (0.6 * at.T, 0.8 * at.T))
    assert relative_error(turned, one_axis) < 1e-12
