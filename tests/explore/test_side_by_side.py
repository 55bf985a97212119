"""Two models head by head: who is compared with whom, and what is said where nobody is."""

import msgspec
import pytest
import torch
from tests.judges import transformers

from equiscope.errors import InputError
from equiscope.explore.pages.heads import HeadsPage
from equiscope.program.attended import attended
from equiscope.record import AttentionTensors, TokenSequence, unpack

WORDS = ["the", " dog", " is", " on", " the", " lawn"]
IDS = torch.tensor([[5, 9, 14, 3, 5, 31]])


def gpt2(seed=0, layers=2, heads=4):
    torch.manual_seed(seed)
    return transformers.GPT2LMHeadModel(
        transformers.GPT2Config(vocab_size=50, n_positions=24, n_embd=32, n_layer=layers, n_head=heads)
    ).eval()


def looked(model, words=WORDS, target="a", ids=IDS):
    return HeadsPage(model, (ids,), {}, [TokenSequence(name="text", kind="words", labels=list(words))], "a title", target)


def both(one, other):
    one.set_side_by_side(other, ["a", "b"])
    return one


def test_the_figures_are_the_distances_of_the_models_weights():
    models = gpt2(0), gpt2(1)
    found = both(looked(models[0]), looked(models[1], target="b")).content.side_by_side
    ours, theirs = (attended(model, (IDS,)) for model in models)
    for layer, row in enumerate(found.total_variation):
        wanted = [
            ((ours[layer].recomputed_weights(h) - theirs[layer].recomputed_weights(h)).abs().sum(-1) / 2).mean().item()
            for h in range(4)
        ]
        assert row == pytest.approx(wanted, abs=1e-9)
        assert 0 < min(row) < max(row) < 1
    assert (found.names, found.target, found.model) == (["a", "b"], "b", "GPT2LMHeadModel")


def test_a_model_beside_itself_is_not_apart():
    found = both(looked(gpt2()), looked(gpt2())).content.side_by_side
    assert found.total_variation == [[0.0] * 4] * 2


def test_numbers_of_the_other_come_with_a_file_and_when_asked_for():
    made = both(looked(gpt2(0)), looked(gpt2(1)))
    in_file = made.file().side_by_side.layers[1].tensors
    asked = {"layer": "1", "head": "2"}
    mine, other = (
        msgspec.json.decode(made.answer_head(asked | more), type=AttentionTensors) for more in ({}, {"of": "side_by_side"})
    )
    assert (unpack(other.q)[0] == unpack(in_file.q)[2]).all()
    assert (unpack(other.q) != unpack(mine.q)).any()
    assert made.content.side_by_side.layers[1].tensors is None


def test_layers_without_a_partner_are_left_out_and_said():
    made = both(looked(gpt2(layers=3), target="deep"), looked(gpt2(1)))
    assert [layer is None for layer in made.content.side_by_side.layers] == [False, False, True]
    assert made.content.side_by_side.total_variation[2] == []
    assert made.content.notes == ["Some layers have no partner with the same rows and as many heads: 1 of deep."]
    with pytest.raises(InputError, match="No layer of another model is compared with layer 2"):
        made.answer_head({"layer": "2", "head": "0", "of": "side_by_side"})


def test_towers_are_compared_with_their_like():
    config = transformers.MarianConfig(
        vocab_size=60, d_model=32, encoder_layers=1, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4,
        encoder_ffn_dim=32, decoder_ffn_dim=32, pad_token_id=0, decoder_start_token_id=0, eos_token_id=1,
    )  # fmt: skip
    found = []
    for layers in (1, 2):
        torch.manual_seed(layers)
        model = transformers.MarianMTModel(transformers.MarianConfig(**config.to_dict() | {"encoder_layers": layers})).eval()
        lines = [TokenSequence(name=name, kind="words", labels=WORDS[:n]) for name, n in (("text", 6), ("answer", 4))]
        found.append(HeadsPage(model, (), {"input_ids": IDS, "decoder_input_ids": IDS[:, :4]}, lines, "a title", "marian"))
    made = both(*found).content
    assert [layer.where for layer in made.layers] == [layer.where for layer in made.side_by_side.layers]


@pytest.mark.parametrize(
    ("other", "wanted"),
    [
        (lambda: looked(gpt2(), WORDS[:5], ids=IDS[:, :5]), "the input is 6 words for a, but 5 words for a"),
        (lambda: looked(gpt2(), [*WORDS[:2], "was", *WORDS[3:]]), "token 3 is ' is' for a, but 'was' for a"),
        (lambda: looked(gpt2(heads=2)), "4 heads a layer in a and 2 heads a layer in a"),
    ],
)
def test_where_rows_or_heads_do_not_match_it_is_said_what_differs(other, wanted):
    with pytest.raises(InputError, match=wanted):
        both(looked(gpt2()), other())
