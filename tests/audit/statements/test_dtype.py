"""The error of low precisions."""

import re

import pytest
import torch
from torch import nn

from equiscope.audit import check
from equiscope.audit.statements.numerics.dtype import wrong_angles_from
from tests.drawn import SEEDS


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", ["gpt2", "gptj", "neox", "ours", "ours-llama"])
def test_rounding_explains_the_drift_of_sound_models(made, ids, name, seed):
    row = check(made(name, seed), ids, properties=["dtype"], seed=seed)["dtype"]
    assert row.verdict == "holds", row.cause
    assert row.error < 0.1


def test_a_llama_cast_whole_has_wrong_angles_far_away_and_the_buffer_is_named(made, ids):
    row = check(made("llama"), ids, properties=["dtype"])["dtype"]
    assert row.verdict == "broken"
    assert ".to(bfloat16) rounds the buffers model.rotary_emb.inv_freq" in row.cause
    assert row.where == "model.rotary_emb"
    assert re.search(r"angles are off by more than 0\.1 rad between tokens that are [\d,]+ positions or more apart", row.cause)


def test_the_distance_from_which_an_angle_is_wrong_is_that_of_the_rounded_frequencies(made):
    model = made("llama")
    name = "model.rotary_emb.inv_freq"
    first = wrong_angles_from(model, [name], torch.bfloat16)
    speeds = model.get_buffer(name).double()
    wrong = (speeds - speeds.bfloat16().double()).abs().max()
    assert (first - 1) * wrong <= 0.1 <= first * wrong
    assert wrong_angles_from(model, [name], torch.float32) is None
    counts = nn.BatchNorm1d(6)
    counts.running_var.copy_(torch.tensor([0.3, 0.7, 0.2, 0.9, 1.3, 0.1]))
    assert wrong_angles_from(counts, ["running_var"], torch.bfloat16) is None  # no frequencies: neither falling nor rising


def test_that_buffer_is_wrong_without_us_too(made):
    model = made("llama")
    places = torch.tensor([[0, 4096]])
    wide = model.model.rotary_emb(torch.zeros(1, 2, 32), places)[0]
    cast = model.to(torch.bfloat16).model.rotary_emb(torch.zeros(1, 2, 32), places)[0]
    assert (wide - cast)[:, 1].abs().max() > 0.3  # of a cosine: 0.1 becomes 0.1001, which is 0.4 rad over 4096 places


def test_weights_in_bfloat16_with_buffers_in_float32_hold(made, ids):
    model = made("llama")
    for p in model.parameters():
        p.data = p.data.bfloat16()
    row = check(model, ids, properties=["dtype"])["dtype"]
    assert "in bfloat16" not in row.cause


def test_it_does_not_fail_a_check_by_itself(made, ids):
    assert not check(made("llama"), ids, random_parameters=False, effort="quick", proof=False)["dtype"].fails


def test_passes_are_few(made, ids):
    assert check(made("neox"), ids, properties=["dtype"])["dtype"].passes <= 15
