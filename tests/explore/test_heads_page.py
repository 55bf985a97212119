"""The record of all heads: what a page computes from it is what the model computed."""

import json
import re

import msgspec
import numpy as np
import pytest
import torch
from tests.judges import transformers
from torch import nn

from equiscope.errors import InputError
from equiscope.explore.pages.heads import HeadsPage
from equiscope.record import AttentionTensors, TokenSequence, unpack
from equiscope.record.token_sequence import patch_sequence

WORDS = ["the", " dog", " is", " on", " the", " lawn"]
IDS = torch.tensor([[5, 9, 14, 3, 5, 31]])
TINY = {"vocab_size": 50, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}


def line(name="text", labels=WORDS):
    return TokenSequence(name=name, kind="words", labels=list(labels))


def looked(model=None, args=(IDS,), kwargs=None, sequences=None):
    torch.manual_seed(0)
    model = model or transformers.LlamaForCausalLM(transformers.LlamaConfig(**TINY, num_key_value_heads=2)).eval()
    return HeadsPage(model, args, kwargs or {}, [line()] if sequences is None else sequences, "a title", "llama")


def weights(numbers, head, group):
    """As a page computes them, in float64."""
    q, k = (unpack(t).astype(np.float64) for t in (numbers.q, numbers.k))
    scores = numbers.scale * q[head] @ k[group].T
    n, m = scores.shape
    if numbers.causal:
        scores[~np.tri(n, m, m - n, dtype=bool)] = -np.inf
    made = np.exp(scores - scores.max(-1, keepdims=True))
    return made / made.sum(-1, keepdims=True)


def test_numbers_of_the_file_give_the_weights_of_the_model():
    made = looked()
    told = transformers.LlamaForCausalLM._from_config(
        transformers.LlamaConfig(**TINY, num_key_value_heads=2), attn_implementation="eager"
    ).eval()
    torch.manual_seed(0)
    told.load_state_dict(transformers.LlamaForCausalLM(transformers.LlamaConfig(**TINY, num_key_value_heads=2)).state_dict())
    attentions = told(IDS, output_attentions=True).attentions
    content = made.file()
    assert [layer.kv_heads for layer in content.layers] == [2, 2]
    for layer, theirs in zip(content.layers, attentions, strict=True):
        for h in range(4):
            assert np.allclose(weights(layer.tensors, h, h // 2), theirs[0, h].detach().numpy(), atol=1e-6)


def test_the_page_says_what_it_shows():
    content = looked().file()
    assert content.summary.startswith("8 heads in 2 attention layers, 6 tokens. ")
    assert re.search(r"the relative error of the outputs is (1e-07|\de-08)\.$", content.summary)
    assert (content.model, content.dtype, content.served) == ("LlamaForCausalLM", "float32", False)
    assert content.sequences == [line()]
    assert all(layer.reconstruction_error < 1e-6 and not layer.reason for layer in content.layers)


def test_what_is_asked_for_one_by_one_is_what_a_file_holds():
    made = looked()
    whole = made.file().layers[1].tensors
    for h in range(4):
        one = msgspec.json.decode(made.answer_head({"layer": "1", "head": str(h)}), type=AttentionTensors)
        assert np.array_equal(unpack(one.q)[0], unpack(whole.q)[h])
        assert np.array_equal(unpack(one.k)[0], unpack(whole.k)[h // 2])
    assert made.content.served
    assert all(layer.tensors is None for layer in made.content.layers)


@pytest.mark.parametrize("asked", [{}, {"layer": "0"}, {"layer": "x", "head": "0"}, {"layer": "-1", "head": "0"}])
def test_a_question_without_two_numbers_is_refused(asked):
    with pytest.raises(InputError, match="two numbers from 0 on"):
        looked().answer_head(asked)


@pytest.mark.parametrize("asked", [("3", "0"), ("0", "4"), ("0", "999999")])
def test_a_head_that_is_not_there_is_refused(asked):
    with pytest.raises(InputError, match="There are 2 layers here"):
        looked().answer_head(dict(zip(("layer", "head"), asked, strict=True)))


def test_a_large_file_is_narrower_and_says_so():
    page = looked()
    page.float32_bytes = 10
    content = page.file()
    assert content.layers[0].tensors.q.dtype == "float16"
    assert "This file stores queries, keys and values as float16." in content.notes
    assert 1e-7 < content.layers[0].reconstruction_error < 2e-3


def test_what_is_too_large_for_a_file_is_left_out_and_says_so():
    page = looked()
    page.float32_bytes, page.float16_bytes = 10, 20
    content = page.file()
    assert all(layer.tensors is None and "too large" in layer.reason for layer in content.layers)
    assert any("this file has the overview only" in note for note in content.notes)
    assert content.layers[0].thumbnail


def test_two_towers_have_two_lines_also_where_they_are_as_long():
    config = transformers.MarianConfig(
        vocab_size=60, d_model=32, encoder_layers=1, decoder_layers=1, encoder_attention_heads=4, decoder_attention_heads=4,
        encoder_ffn_dim=32, decoder_ffn_dim=32, pad_token_id=0, decoder_start_token_id=0, eos_token_id=1,
    )  # fmt: skip
    torch.manual_seed(0)
    model = transformers.MarianMTModel(config).eval()
    for length in (4, 6):
        given = {"input_ids": IDS, "decoder_input_ids": IDS[:, :length]}
        content = looked(model, (), given, [line(), line("answer", WORDS[:length])]).file()
        named = [
            (content.sequences[layer.query_sequence].name, content.sequences[layer.key_sequence].name, layer.cross)
            for layer in content.layers
        ]
        assert named == [("text", "text", False), ("answer", "answer", False), ("answer", "text", True)]


def test_rows_that_nobody_named_are_numbered():
    content = looked(sequences=[line(labels=["one", "two"])]).file()
    assert [(found.name, found.labels) for found in content.sequences] == [("6 tokens", list("012345"))]


def test_of_many_lines_that_a_picture_may_have_the_one_that_fits_is_kept():
    layer = nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 32, batch_first=True), 1).eval()
    content = looked(layer, (torch.randn(1, 17, 32),), {}, [patch_sequence([4, 4], front) for front in (0, 1, 2)]).file()
    assert [(found.prefix_tokens, found.grid) for found in content.sequences] == [(1, [4, 4])]
    assert content.sequences[0].labels[:2] == ["class", "row 0, column 0"]


def test_learned_places_are_on_the_page():
    model = transformers.GPT2LMHeadModel(
        transformers.GPT2Config(vocab_size=50, n_positions=24, n_embd=32, n_layer=1, n_head=4)
    ).eval()
    (found,) = looked(model).file().position_tables
    assert (found.where, found.rows) == ("transformer.wpe", 24)


def test_the_record_is_whole_and_round():
    content = looked().file()
    text = msgspec.json.encode(content)
    assert msgspec.json.decode(text, type=type(content)) == content
    assert "NaN" not in json.dumps(json.loads(text))
