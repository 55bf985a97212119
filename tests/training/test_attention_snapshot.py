"""The attention of a fixed example: a dozen looks in a run, and few numbers in each."""

import pytest
import torch

import equiscope as eq
from equiscope.models import PRESETS
from equiscope.program.attended import attended
from equiscope.record import unpack
from equiscope.training.attention_snapshot import LONGEST, LOOKS, NUMBERS, attention_of, snapshot_due, snapshot_length
from tests.training.small import small

pytestmark = pytest.mark.quick


@pytest.mark.parametrize("steps", [1, 7, 12, 100, 2000, 5001])
@pytest.mark.parametrize("every", [None, 1, 3, 250])
def test_a_run_is_looked_at_a_dozen_times_the_first_and_the_last_evaluation_among_them(tmp_path, steps, every):
    recipe, _ = small(tmp_path, budget={"steps": steps}, optimiser={"warmup": 0}, evaluation={"every": every})
    apart = every or max(1, steps // 10)
    evaluated = [s for s in range(steps + 1) if s % apart == 0 or s == steps]
    looks = [s for s in evaluated if snapshot_due(recipe, s)]
    assert looks[0] == 0
    assert looks[-1] == steps
    assert len(looks) <= LOOKS
    assert len(looks) == len(evaluated) or len(looks) > LOOKS / 3


def gpt(layers=2, heads=4):
    torch.manual_seed(0)
    return eq.build(PRESETS["gpt2"](16, layers, heads, 20, 32)).eval()


def test_what_is_seen_is_what_the_model_weighs():
    model, ids = gpt(), torch.randint(20, (1, 9))
    seen = torch.from_numpy(unpack(attention_of(model, ids)))
    whole = torch.stack([torch.stack([one.best_weights(head) for head in range(4)]) for one in attended(model, (ids,))]).double()
    assert seen.shape == (2, 4, 9, 9)
    assert (seen - whole).abs().max() <= 0.0005 + 1e-9  # three decimals
    assert attention_of(model, ids[0]) == attention_of(model, ids), "with or without an axis for the batch"


def test_across_it_is_what_an_answer_drew_from_its_source():
    torch.manual_seed(0)
    model = eq.build(PRESETS["transformer-base"](16, 3, 2, 20)).eval()
    seen = unpack(attention_of(model, torch.randint(20, (1, 4)), torch.randint(20, (1, 7))))
    assert seen.shape == (3, 2, 4, 7)
    assert abs(seen.sum(-1) - 1).max() < 0.004


def test_rows_and_columns_are_chosen():
    model, ids = gpt(), torch.randint(20, (1, 9))
    some = unpack(attention_of(model, ids, rows=slice(8, 9), columns=slice(1, None)))
    assert (some == unpack(attention_of(model, ids))[:, :, 8:9, 1:]).all()


def test_layers_that_differ_in_heads_are_no_table():
    from dataclasses import replace

    spec = PRESETS["gpt2"](16, 2, 4, 20, 32)
    first, second = spec.blocks
    spec = replace(spec, block=(first, replace(second, attention=replace(second.attention, heads=2))), layers=2)
    assert attention_of(eq.build(spec).eval(), torch.randint(20, (1, 5))) is None


def test_an_example_is_as_long_as_few_numbers_allow():
    assert snapshot_length(gpt()) == LONGEST
    deep = snapshot_length(gpt(layers=12, heads=16))
    assert 2 <= deep < LONGEST
    assert 12 * 16 * deep**2 <= NUMBERS


def test_looking_leaves_the_model_as_it_was():
    model, ids = gpt(), torch.randint(20, (1, 9))
    before = model(ids)
    attention_of(model, ids)
    assert torch.equal(model(ids), before)
    assert not any(block.attention._forward_pre_hooks for block in model.blocks)


def test_a_task_shows_its_first_example(tmp_path):
    _, task = small(tmp_path, evaluation={"samples": 2})
    model = eq.build(
        eq.models.Spec.of(task.resolved_fields({"width": 16, "layers": 2, "block": {"attention": {"heads": 2, "causal": True}}}))
    ).eval()
    first, second = task.samples(model, 0)
    assert first.attention.shape == [2, 2, 16, 16]
    assert len(first.tokens) == 16
    assert second.attention is None
    assert task.samples(model, 1)[0].attention is None
