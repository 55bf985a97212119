"""How far two attentions are apart, head by head."""

import pytest
import torch

from equiscope.program.attended.attended import Attended
from equiscope.program.attended.side_by_side import total_variation


def given(weights, sinks=False):
    """An attention that has these weights, [H, N, M]."""
    weights = torch.as_tensor(weights, dtype=torch.float64)
    nothing = torch.zeros(*weights.shape[:2], 4)
    return Attended("here", nothing, torch.zeros(len(weights), weights.shape[2], 4), None, 1.0, weights=weights)


def test_two_alike_are_not_apart_and_two_that_share_nothing_are_one_apart():
    eye, other = torch.eye(3)[None], torch.eye(3).roll(1, -1)[None]
    assert total_variation(given(eye), given(eye)) == [0.0]
    assert total_variation(given(eye), given(other)) == [1.0]


def test_it_is_half_of_what_was_moved_as_the_mean_over_rows_head_by_head():
    one, other = torch.rand(2, 5, 7, dtype=torch.float64).softmax(-1), torch.rand(2, 5, 7, dtype=torch.float64).softmax(-1)
    wanted = ((one - other).abs().sum(-1) / 2).mean(-1).tolist()
    assert total_variation(given(one), given(other)) == pytest.approx(wanted, abs=1e-12)
    assert total_variation(given(other), given(one)) == pytest.approx(wanted, abs=1e-12)


def test_what_a_sink_takes_counts():
    one, other = torch.tensor([[[0.5, 0.5]]]), torch.tensor([[[0.2, 0.2]]])
    assert total_variation(given(one), given(other)) == pytest.approx([0.6])


def test_of_many_rows_some_at_equal_distances_are_compared():
    one, other = torch.zeros(1, 2000, 2), torch.zeros(1, 2000, 2)
    one[..., 0], other[..., 1] = 1, 1
    assert total_variation(given(one), given(other)) == [1.0]
