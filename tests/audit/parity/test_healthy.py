"""Two implementations of one model raise no alarm, whatever their names, layouts and functions."""

import copy

import pytest
import torch

import equiscope as eq
from equiscope.audit.inputs.targets import target
from tests.audit.parity.families import GatedA, PlainA, gated_b, ids, made, plain_b
from tests.pairwise import few


@pytest.mark.parametrize("permuted", [False, True], ids=["same order", "permuted weights"])
@pytest.mark.parametrize(
    ("family", "second", "options"),
    [
        (GatedA, gated_b, {}), (GatedA, gated_b, {"cap": 2.0, "window": 4, "embedding": 5.0, "output_cap": 3.0}),
        (PlainA, plain_b, {}), (PlainA, plain_b, {"causal": False, "padding": "left", "offset": 2, "placement": "post"}),
    ],
)  # fmt: skip
def test_another_form_of_the_same_model_holds(family, second, options, permuted):
    a = made(family, **options)
    found = eq.parity(a, second(a, permuted=permuted), ids())
    assert found.holds
    assert (found.where, found.cause) == ("", "")
    assert found.rows[0].error < 1e-14


@pytest.mark.parametrize(
    "name",
    few(["GPT2LMHeadModel", "LlamaForCausalLM", "T5ForConditionalGeneration", "BertForMaskedLM", "MistralForCausalLM"], 3),
)
def test_eager_and_sdpa_attention_of_transformers_hold(name):
    pytest.importorskip("transformers")
    found = target(f"transformers:{name}")
    first, second = found.model, copy.deepcopy(found.model)
    first.set_attn_implementation("eager")
    second.set_attn_implementation("sdpa")
    assert eq.parity(first, second, *found.args, kwargs=found.kwargs).holds


@pytest.mark.parametrize(
    "name", few(["GPT2LMHeadModel", "BertForMaskedLM", "Qwen3ForCausalLM", "LlamaForCausalLM", "GPTNeoXForCausalLM"], 3)
)
def test_our_model_of_a_checkpoint_holds_against_that_of_transformers(name, tmp_path):
    pytest.importorskip("transformers")
    model = target(f"transformers:{name}").model
    model.save_pretrained(tmp_path)
    found = eq.parity(eq.load(tmp_path).eval(), model, torch.randint(40, (1, 9)))
    assert found.holds
    assert found.cause == ""


def test_a_float32_table_is_named_and_is_no_difference():
    pytest.importorskip("transformers")
    import tempfile

    model = target("transformers:Qwen3ForCausalLM").model
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        found = eq.parity(eq.load(folder).eval(), model, torch.randint(40, (1, 9)))
    assert any("inv_freq in float32" in note for note in found.notes)


def test_two_models_with_other_weights_do_not_hold():
    torch.manual_seed(5)
    found = eq.parity(made(PlainA), PlainA().eval(), ids(), differences=1)
    assert found.verdict == "broken"
    assert found.kind == "weights"
