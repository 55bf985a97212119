"""Attention rollout: the product of the layers, where there is a stack, at once or when asked for."""

import msgspec
import numpy as np
import pytest
import torch
from tests.judges import transformers

from equiscope.errors import InputError
from equiscope.explore.pages.heads import HeadsPage
from equiscope.record import AttentionTensors, TokenSequence, unpack
from equiscope.record.token_sequence import patch_sequence

WORDS = ["the", " dog", " is", " on", " the", " lawn"]
IDS = torch.tensor([[5, 9, 14, 3, 5, 31]])


def gpt2(layers=3, page=HeadsPage):
    torch.manual_seed(0)
    model = transformers.GPT2LMHeadModel(
        transformers.GPT2Config(vocab_size=50, n_positions=24, n_embd=32, n_layer=layers, n_head=4)
    ).eval()
    return page(model, (IDS,), {}, [TokenSequence(name="text", kind="words", labels=list(WORDS))], "a title", "a")


def product(layers):
    """The definition of Abnar and Zuidema, from the first layer up."""
    flow = np.eye(layers[0].shape[-1])
    for one in layers:
        flow = (0.5 * one + 0.5 * np.eye(len(one))) @ flow
    return flow


def test_it_is_the_product_of_the_layers_from_the_mean_and_from_the_largest_of_the_heads():
    made = gpt2()
    (found,) = made.file().rollout
    mean, most = unpack(found.tensors.weights).astype(float)
    weights = [np.stack([one.recomputed_weights(h).numpy() for h in range(4)]) for one in made.attentions]
    assert np.allclose(mean, product([w.mean(0) for w in weights]), atol=1e-7)
    largest = [w.max(0) / w.max(0).sum(-1, keepdims=True) for w in weights]
    assert np.allclose(most, product(largest), atol=1e-7)
    assert np.allclose(mean.sum(-1), 1, atol=1e-6)
    assert (np.triu(mean, 1) == 0).all(), "nothing comes from later tokens"
    assert (found.where, found.query_sequence, found.tensors.causal) == ("attention rollout", 0, True)
    assert "does not explain" in found.reason
    assert "3 layers" in found.reason


def test_it_is_asked_for_like_a_layer_after_the_last():
    made = gpt2()
    kept = unpack(made.file().rollout[0].tensors.weights)
    for head in range(2):
        one = msgspec.json.decode(made.answer_head({"layer": "3", "head": str(head)}), type=AttentionTensors)
        assert (unpack(one.weights)[0] == kept[head]).all()
    assert made.content.rollout[0].tensors is None
    for layer, head in (("3", "2"), ("4", "0")):
        with pytest.raises(InputError, match="There are 3 layers here"):
            made.answer_head({"layer": layer, "head": head})


def test_of_many_tokens_it_is_made_when_it_is_asked_for():
    kept = unpack(gpt2().file().rollout[0].tensors.weights)
    made = gpt2(page=type("Short", (HeadsPage,), {"rollout_tokens": 4}))
    assert made.file().rollout[0].tensors is None
    assert "the served page computes it" in made.content.rollout[0].reason
    one = msgspec.json.decode(made.answer_head({"layer": "3", "head": "0"}), type=AttentionTensors)
    assert (unpack(one.weights)[0] == kept[0]).all()
    assert gpt2(page=type("Shorter", (HeadsPage,), {"longest_rollout": 4})).content.rollout == []


def test_patches_are_rolled_out_too():
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    torch.manual_seed(0)
    model = transformers.ViTModel(transformers.ViTConfig(image_size=32, patch_size=8, **sizes)).eval()
    made = HeadsPage(model, (), {"pixel_values": torch.randn(1, 3, 32, 32)}, [patch_sequence([4, 4], 1)], "a title", "vit")
    assert unpack(made.file().rollout[0].tensors.weights).shape == (2, 17, 17)


def test_where_tokens_look_elsewhere_too_or_there_is_one_layer_nothing_is_rolled_out():
    assert gpt2(layers=1).content.rollout == []
    torch.manual_seed(0)
    config = transformers.T5Config(vocab_size=50, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, decoder_start_token_id=0)
    lines = [TokenSequence(name=name, kind="words", labels=WORDS[:n]) for name, n in (("text", 6), ("answer", 4))]
    made = HeadsPage(
        transformers.T5Model(config).eval(), (), {"input_ids": IDS, "decoder_input_ids": IDS[:, :4]}, lines, "a title", "t5"
    )
    assert [layer.query_sequence for layer in made.content.rollout] == [0], "the encoder's"


def test_a_small_file_leaves_it_out():
    assert gpt2().file(compact=True).rollout == []
