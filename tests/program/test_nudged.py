"""A nudge is a unit in the last place of each module's output, and nothing is left of it afterwards."""

import torch
from torch import nn

from equiscope.program.attended.nudged import nudged


def test_each_output_is_wrong_by_one_unit_up_or_down():
    layer = nn.Identity()
    x = torch.ones(1000, dtype=torch.float64)
    with nudged(layer):
        moved = layer(x) - 1
    assert set((moved / torch.finfo(torch.float64).eps).round().tolist()) == {-1.0, 1.0}
    assert torch.equal(layer(x), x)


def test_the_same_seed_nudges_alike_and_bfloat16_by_its_own_unit():
    layer, x = nn.Linear(8, 8).bfloat16(), torch.randn(5, 8, dtype=torch.bfloat16)
    found = []
    for seed in (0, 0, 1):
        with nudged(layer, seed):
            found.append(layer(x))
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[0], found[2])
    assert 1e-3 < ((found[0] - layer(x)) / layer(x)).abs().max() < 1.6e-2
    assert found[0].dtype == torch.bfloat16


def test_what_a_model_answers_besides_numbers_stays():
    class Two(nn.Module):
        def forward(self, x):
            return x, [x], None, x.long()

    x = torch.ones(3)
    with nudged(Two()) as _:
        pass
    model = Two()
    with nudged(model):
        one, listed, nothing, count = model(x)
    assert not torch.equal(one, x)
    assert torch.equal(listed[0], x)
    assert nothing is None
    assert torch.equal(count, x.long())
