"""The model runs again on moved tokens: who notices a shuffle or a slide, at which layer, and what cannot be asked."""

import msgspec
import pytest
import torch
from tests.judges import transformers
from torch import nn

import equiscope as eq
from equiscope.errors import InputError
from equiscope.explore.pages.heads import RUNS, HeadsPage
from equiscope.positions import Learned, NoPosition, Rope
from equiscope.record import AttentionTensors, Heads, TokenSequence, unpack
from equiscope.record.token_sequence import patch_sequence

WORDS = ["the", " dog", " is", " on", " the", " lawn"]
IDS = torch.tensor([[5, 9, 14, 3, 5, 31]])
ORDER = [3, 0, 5, 1, 2, 4]
TINY = {"vocab_size": 50, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}


def gpt2():
    config = transformers.GPT2Config(vocab_size=50, n_embd=32, n_layer=2, n_head=4, n_positions=150, bos_token_id=0, eos_token_id=0)
    return transformers.GPT2LMHeadModel(config)


def llama():
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**TINY, num_key_value_heads=2))


def bert():
    return transformers.BertModel(transformers.BertConfig(**TINY))


def bloom():
    return transformers.BloomModel(transformers.BloomConfig(vocab_size=50, hidden_size=32, n_layer=2, n_head=4))


def ours(position=None, causal=False):
    """A model of equiscope: without positions by default."""
    attention = eq.Attention(heads=4, position=position or NoPosition(), causal=causal)
    return lambda: eq.build(eq.Spec(width=32, vocabulary=50, layers=2, block=eq.Block(attention=attention)))


def looked(model, args=(IDS,), kwargs=None, sequences=None):
    torch.manual_seed(0)
    model = model()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.ndim == 2 and "norm" not in name.lower():
                weight.mul_(4)  # so that heads choose
    return HeadsPage(
        model.eval(),
        args,
        kwargs or {},
        sequences or [TokenSequence(name="text", kind="words", labels=list(WORDS))],
        "a title",
        "x",
    )


def again(made, order=None, start=0):
    asked = {"order": ",".join(map(str, order))} if order else {}
    return msgspec.json.decode(made.answer_rerun(asked | ({"offset": str(start)} if start else {})), type=Heads)


def noticed(made, **asked):
    """The layers that notice, from 1."""
    said = again(made, **asked).rerun
    return [i + 1 for i, (far, floor) in enumerate(zip(said.max_differences, said.rounding_floors, strict=True)) if far > floor]


def test_without_positions_nobody_notices_a_shuffle():
    said = again(looked(ours()), ORDER).rerun
    assert max(said.max_differences) < 1e-5, "rounding alone, which differs from CPU to CPU"
    assert noticed(looked(ours()), order=ORDER) == []


def test_with_learned_places_the_first_layer_notices():
    assert noticed(looked(gpt2), order=ORDER) == [1, 2]
    assert noticed(looked(bert), order=ORDER) == [1, 2]
    assert noticed(looked(ours(Learned(150))), order=ORDER) == [1, 2]


def test_a_causal_mask_alone_notices_too():
    assert noticed(looked(ours(causal=True)), order=ORDER) == [1, 2]


def test_angles_do_not_notice_a_slide():
    for model in (llama, ours(Rope(), causal=True), ours()):
        assert noticed(looked(model), start=100) == []
        assert max(again(looked(model), start=100).rerun.max_differences) < 1e-4, "rounding of angles at place 100"


def test_learned_places_notice_a_slide():
    for model in (gpt2, bert, ours(Learned(150))):
        assert noticed(looked(model), start=100) == [1, 2]


def test_weights_of_the_run_are_those_of_the_model_on_moved_tokens():
    made = looked(gpt2)
    found = again(made, ORDER)
    assert found.sequences[0].labels == [WORDS[i] for i in ORDER]
    assert (found.rerun.run, found.rerun.order, found.rerun.offset) == (1, ORDER, 0)
    asked = {"layer": "1", "head": "2"}
    one, other = (msgspec.json.decode(made.answer_head(asked | run), type=AttentionTensors) for run in ({}, {"run": "1"}))
    alone = looked(gpt2, (IDS[:, ORDER],))
    assert (unpack(other.q) == unpack(msgspec.json.decode(alone.answer_head(asked), type=AttentionTensors).q)).all()
    assert (unpack(other.q) != unpack(one.q)).any()


def test_differences_are_those_of_the_definition():
    made = looked(gpt2)
    said = again(made, ORDER).rerun
    alone = looked(gpt2, (IDS[:, ORDER],))
    for layer, (one, other) in enumerate(zip(made.attentions, alone.attentions, strict=True)):
        wanted = max(
            (other.recomputed_weights(h) - one.recomputed_weights(h)[ORDER][:, ORDER]).abs().max().item() for h in range(4)
        )
        assert said.max_differences[layer] == pytest.approx(wanted, abs=1e-12)


def test_of_two_towers_the_text_is_moved_and_the_answer_stays():
    config = transformers.T5Config(vocab_size=50, d_model=32, d_kv=8, d_ff=64, num_layers=1, num_heads=4, decoder_start_token_id=0)
    lines = [TokenSequence(name=name, kind="words", labels=list(WORDS)) for name in ("text", "answer")]
    made = looked(lambda: transformers.T5Model(config), (), {"input_ids": IDS, "decoder_input_ids": IDS + 1}, lines)
    assert [line.labels[0] for line in again(made, ORDER).sequences] == [" on", "the"]


def test_the_last_runs_are_kept_and_older_ones_are_refused():
    made = looked(llama)
    for start in range(1, RUNS + 2):
        assert again(made, start=start).rerun.run == start
    asked = {"layer": "0", "head": "0"}
    made.answer_head(asked | {"run": "2"})
    with pytest.raises(InputError, match="Run 1 is no longer stored: only the last 4 are"):
        made.answer_head(asked | {"run": "1"})
    with pytest.raises(InputError, match="Run x is no longer stored"):
        made.answer_head(asked | {"run": "x"})


@pytest.mark.parametrize(
    ("asked", "wanted"),
    [
        ({}, "Nothing would change"),
        ({"offset": "0"}, "Nothing would change"),
        ({"order": "0,1,2"}, "An order of 6 tokens has each position from 0 to 5 once"),
        ({"order": "0,0,1,2,3,4"}, "has each position from 0 to 5 once"),
        ({"order": "-1,0,1,2,3,4"}, "Request /rerun"),
        ({"order": "a"}, "Request /rerun"),
        ({"order": ",".join(map(str, range(7)))}, "An order of 6 tokens"),
        ({"offset": "-5"}, "Request /rerun"),
        ({"offset": "1.5"}, "Request /rerun"),
        ({"offset": "1000001"}, "at most 1000000 positions"),
        ({"offset": "145"}, "GPT2LMHeadModel has positions 0 to 149, but the last token would have position 150"),
    ],
)
def test_a_wrong_question_is_refused(asked, wanted):
    with pytest.raises(InputError, match=wanted):
        looked(gpt2).answer_rerun(asked)


def test_what_cannot_be_moved_says_why():
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 32, batch_first=True), 1)
    vit = transformers.ViTModel(transformers.ViTConfig(image_size=32, patch_size=8, **TINY))
    cases = [
        (bloom, (IDS,), {}, None, ("", "BloomModel takes no position_ids")),
        (lambda: encoder, (torch.randn(1, 6, 32),), {}, None, ("only the tokens of a text", "only a text or a sound can be")),
        (lambda: vit, (), {"pixel_values": torch.randn(1, 3, 32, 32)}, [patch_sequence([4, 4], 1)],
         ("ViTModel reads patches of a picture here: only the tokens of a text can be shuffled", "only a text or a sound can be")),
    ]  # fmt: skip
    for model, args, kwargs, lines, wanted in cases:
        made = looked(model, args, kwargs, lines)
        options = made.content.rerun_options
        assert wanted[0] in options.no_shuffle
        assert bool(options.no_shuffle) == bool(wanted[0])
        assert wanted[1] in options.no_shift
        with pytest.raises(InputError, match=wanted[1]):
            made.answer_rerun({"offset": "3"})


def test_tokens_with_times_of_their_own_are_slid():
    spec = eq.Spec(width=32, layers=2, block=eq.Block(attention=eq.Attention(heads=4, position=Rope())))
    tokens = eq.Tokens.of(torch.randn(1, 6, 32))
    line = TokenSequence(name="sound", kind="slices", labels=[f"{i} s" for i in range(6)])
    made = looked(lambda: eq.build(spec), (tokens,), {}, [line])
    assert noticed(made, start=50) == []
    assert "only the tokens of a text can be shuffled" in made.content.rerun_options.no_shuffle
