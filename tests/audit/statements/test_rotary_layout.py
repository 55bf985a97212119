"""Which columns are rotated together."""

import pytest
import torch
from torch import nn

from equiscope.audit import check
from equiscope.models import build
from equiscope.models.presets import llama
from equiscope.positions import Rope
from tests.audit.statements.conftest import LLAMA
from tests.drawn import SEEDS
from tests.judges import transformers

FACTS = {
    "gpt2": ("none", "added or concatenated"),
    "llama": ("half-split", ""),
    "gptj": ("interleaved", "4 of 8 columns"),
    "neox": ("half-split", "4 of 8 columns"),
    "ours": ("none", ""),
    "ours-llama": ("half-split", ""),
}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", FACTS)
def test_the_layout_of_known_models_is_what_their_code_says(made, ids, name, seed):
    row = check(made(name, seed), ids, properties=["rotary-layout"], seed=seed)["rotary-layout"]
    layout, note = FACTS[name]
    assert (row.verdict, row.output) == ("not applicable" if layout == "none" else "holds", layout)
    assert note in row.note


@pytest.mark.parametrize("kind", ["eager", "sdpa"])
def test_a_layout_does_not_depend_on_who_attends(ids, kind):
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**LLAMA, attn_implementation=kind)).eval()
    assert check(model, ids, properties=["rotary-layout"])["rotary-layout"].output == "half-split"


def test_keys_rotated_in_the_other_layout_are_found_in_a_llama(made, ids, monkeypatch):
    def mixed(q, k, cos, sin, unsqueeze_dim=1):
        cos, sin = cos.unsqueeze(unsqueeze_dim), sin.unsqueeze(unsqueeze_dim)
        half = k.shape[-1] // 2
        c, s = cos[..., :half].repeat_interleave(2, -1), sin[..., :half].repeat_interleave(2, -1)
        neighbours = torch.stack([-k[..., 1::2], k[..., ::2]], -1).flatten(-2)
        return q * cos + transformers.models.llama.modeling_llama.rotate_half(q) * sin, k * c + neighbours * s

    monkeypatch.setattr(transformers.models.llama.modeling_llama, "apply_rotary_pos_emb", mixed)
    row = check(made("llama"), ids, properties=["rotary-layout"])["rotary-layout"]
    assert row.verdict == "broken"
    assert row.cause == "queries are rotated in the layout half-split, keys in the layout interleaved"
    assert row.where == "model.layers.0.self_attn"


@pytest.mark.parametrize(
    ("speed", "cause"), [(0, "only the queries are rotated"), (2, "different angles"), (-1, "opposite directions")]
)  # fmt: skip
def test_keys_that_are_rotated_differently_are_found_in_our_models(ids, speed, cause):
    from dataclasses import replace

    spec = llama(32, 2, 4, 2, 64, 50)
    attention = replace(spec.block.attention, position=Rope(key_angle_factor=speed))
    row = check(build(replace(spec, block=replace(spec.block, attention=attention))), ids, properties=["rotary-layout"])
    assert row["rotary-layout"].verdict == "broken"
    assert cause in row["rotary-layout"].cause


def test_torch_layers_rotate_nothing():
    layers = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 2)
    row = check(layers, torch.randn(2, 5, 16), properties=["rotary-layout"])["rotary-layout"]
    assert (row.output, row.note) == ("none", "queries and keys do not depend on the position")


def test_a_layer_without_positions_between_others_is_counted(ids):
    from transformers import SmolLM3Config, SmolLM3ForCausalLM

    model = SmolLM3ForCausalLM(SmolLM3Config(**LLAMA, num_key_value_heads=2, no_rope_layers=[1, 0], pad_token_id=0)).eval()
    row = check(model, ids, properties=["rotary-layout"])["rotary-layout"]
    assert (row.output, row.note) == ("half-split", "half-split; 1 of 2 attention layers are not rotated")
