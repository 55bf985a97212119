"""Which tokens matter, and the output of a row without any key."""

import pytest
import torch
from torch import nn

from equiscope.audit import check
from tests.drawn import SEEDS

REACH = {
    "gpt2": "outputs depend on all earlier tokens", "llama": "outputs depend on all earlier tokens",
    "mistral": "outputs depend on the last 2 tokens before their own", "ours": "outputs depend on all earlier tokens",
}  # fmt: skip
FULLY_MASKED = {"gpt2": "0", "llama": "0", "gptj": "the mean of all values, masked ones included", "ours": "0"}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", REACH)
def test_how_far_back_a_model_attends(made, ids, name, seed):
    row = check(made(name, seed), ids, properties=["dead-context"], seed=seed)["dead-context"]
    assert (row.verdict, row.note) == ("holds", REACH[name])


def test_tokens_beyond_a_clipped_mask_are_named(ids, made):
    model = made("gpt2")
    model.transformer.h = model.transformer.h[:1]
    attend = model.transformer.h[0].attn

    def first_three_only(_, args, kwargs):
        states = args[0]
        kwargs["attention_mask"] = torch.full((1, 1, states.shape[1], states.shape[1]), -1e9, dtype=states.dtype).triu(1)
        kwargs["attention_mask"][..., 3:] = -1e9
        kwargs["attention_mask"][..., range(states.shape[1]), range(states.shape[1])] = 0
        return args, kwargs

    attend.register_forward_pre_hook(first_three_only, with_kwargs=True)
    row = check(model, ids, properties=["dead-context"])["dead-context"]
    assert row.verdict == "broken"
    assert row.cause == "the tokens 3, 4, 5, 6, 7 of 9 (counted from 0) affect no output at another token"


def test_what_begins_at_zero_is_dead_as_given_and_alive_at_random_parameters(made, ids):
    model = made("gpt2")
    for block in model.transformer.h:
        nn.init.zeros_(block.attn.c_proj.weight)
    row = check(model, ids, properties=["dead-context"])["dead-context"]
    assert row.cause == "every output depends on its own token only"
    assert "at random parameters" in row.note
    assert not check(model, ids, random_parameters=False, effort="quick", proof=False)[
        "dead-context"
    ].fails  # information, unless it is asked for


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", FULLY_MASKED)
def test_the_output_of_a_fully_masked_row(made, ids, name, seed):
    row = check(made(name, seed), ids, properties=["masked-rows"], seed=seed)["masked-rows"]
    assert (row.verdict, row.output) == ("holds", FULLY_MASKED[name])


def test_torch_layers_give_nan_for_a_fully_masked_row():
    row = check(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), torch.randn(2, 5, 8), properties=["masked-rows"])
    assert row["masked-rows"].verdict == "broken"
    assert "NaN" in row["masked-rows"].output
