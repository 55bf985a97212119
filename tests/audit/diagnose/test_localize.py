"""Sketches: features by a few directions, whichever axis holds them."""

import torch

from equiscope.audit.diagnose.localize import WIDTH, sketch


def test_a_sketch_projects_the_features_of_any_axis():
    features = torch.randn(2, 3, 3 * WIDTH, dtype=torch.float64)
    by_last, by_second = sketch(features), sketch(features.mT.contiguous(), -2)
    assert by_last.shape == (2, 3, WIDTH)
    assert torch.equal(by_second, by_last.mT)
    assert torch.allclose(sketch(2 * features), 2 * by_last, rtol=1e-12)


def test_a_few_features_stay_as_they_are():
    features = torch.randn(2, 3, WIDTH, dtype=torch.float64)
    assert torch.equal(sketch(features), features)
