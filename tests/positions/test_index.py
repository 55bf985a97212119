"""Index: the place's own number on every feature, and how it drowns the word (P2)."""

import pytest
import torch

from equiscope.positions import Index

pytestmark = pytest.mark.quick


def test_every_feature_grows_by_one_a_place():
    x, at = torch.randn(4, 3).double(), torch.arange(4).double().unsqueeze(-1)
    added = Index().sized(3, 1, 3).embed(x, at) - x
    assert (added - torch.tensor([[0.0], [1], [2], [3]]).double()).abs().max() < 1e-15


@pytest.mark.parametrize(("place", "alike"), [(0, 0.5), (1000, 0.99999)])
def test_far_into_a_text_all_words_point_the_same_way(place, alike):
    x = torch.randn(50, 16, generator=torch.Generator().manual_seed(1)).double()
    put = Index().embed(x, torch.full((50, 1), float(place)).double())
    closest = torch.nn.functional.cosine_similarity(put[:25], put[25:]).abs().mean()
    assert closest < alike if place == 0 else closest > alike
