"""The model runs again on moved tokens: who notices a shuffle or a slide, at which layer, and what cannot be asked."""

import msgspec
import pytest
import torch
import transformers
from torch import nn

import equiscope as eq
from equiscope.errors import InputError
from equiscope.explore.pages.heads import RUNS, Looked
from equiscope.positions import Learned, NoPosition, Rope
from equiscope.record import Heads, Line, Numbers, unpack
from equiscope.record.heads import patches

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
    """A model of equiscope: without positions unless said."""
    attention = eq.Attention(heads=4, position=position or NoPosition(), causal=causal)
    return lambda: eq.build(eq.Spec(width=32, vocabulary=50, layers=2, block=eq.Block(attention=attention)))


def looked(model, args=(IDS,), kwargs=None, lines=None):
    torch.manual_seed(0)
    model = model()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.ndim == 2 and "norm" not in name.lower():
                weight.mul_(4)  # so that heads choose
    return Looked(model.eval(), args, kwargs or {}, lines or [Line(name="text", kind="words", labels=list(WORDS))], "a title", "x")


def again(made, order=None, start=0):
    asked = {"order": ",".join(map(str, order))} if order else {}
    return msgspec.json.decode(made.again(asked | ({"from": str(start)} if start else {})), type=Heads)


def noticed(made, **asked):
    """The layers that notice, from 1."""
    said = again(made, **asked).again
    return [i + 1 for i, (far, floor) in enumerate(zip(said.differs, said.floor, strict=True)) if far > floor]


def test_without_positions_nobody_notices_a_shuffle():
    said = again(looked(ours()), ORDER).again
    assert max(said.differs) < 1e-5, "rounding alone, which differs from CPU to CPU"
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
        assert max(again(looked(model), start=100).again.differs) < 1e-4, "rounding of angles at place 100"


def test_learned_places_notice_a_slide():
    for model in (gpt2, bert, ours(Learned(150))):
        assert noticed(looked(model), start=100) == [1, 2]


def test_weights_of_the_run_are_those_of_the_model_on_moved_tokens():
    made = looked(gpt2)
    found = again(made, ORDER)
    assert found.lines[0].labels == [WORDS[i] for i in ORDER]
    assert (found.again.run, found.again.order, found.again.start) == (1, ORDER, 0)
    asked = {"layer": "1", "head": "2"}
    one, other = (msgspec.json.decode(made.answer(asked | run), type=Numbers) for run in ({}, {"run": "1"}))
    alone = looked(gpt2, (IDS[:, ORDER],))
    assert (unpack(other.q) == unpack(msgspec.json.decode(alone.answer(asked), type=Numbers).q)).all()
    assert (unpack(other.q) != unpack(one.q)).any()


def test_differences_are_those_of_the_definition():
    made = looked(gpt2)
    said = again(made, ORDER).again
    alone = looked(gpt2, (IDS[:, ORDER],))
    for layer, (one, other) in enumerate(zip(made.found, alone.found, strict=True)):
        wanted = max((other.weigh(h) - one.weigh(h)[ORDER][:, ORDER]).abs().max().item() for h in range(4))
        assert said.differs[layer] == pytest.approx(wanted, abs=1e-12)


def test_of_two_towers_the_text_is_moved_and_the_answer_stays():
    config = transformers.T5Config(vocab_size=50, d_model=32, d_kv=8, d_ff=64, num_layers=1, num_heads=4, decoder_start_token_id=0)
    lines = [Line(name=name, kind="words", labels=list(WORDS)) for name in ("text", "answer")]
    made = looked(lambda: transformers.T5Model(config), (), {"input_ids": IDS, "decoder_input_ids": IDS + 1}, lines)
    assert [line.labels[0] for line in again(made, ORDER).lines] == [" on", "the"]


def test_the_last_runs_are_kept_and_older_ones_are_refused():
    made = looked(llama)
    for start in range(1, RUNS + 2):
        assert again(made, start=start).again.run == start
    asked = {"layer": "0", "head": "0"}
    made.answer(asked | {"run": "2"})
    with pytest.raises(InputError, match="Run 1 is not kept any more: the last 4 are"):
        made.answer(asked | {"run": "1"})
    with pytest.raises(InputError, match="Run x is not kept"):
        made.answer(asked | {"run": "x"})


@pytest.mark.parametrize(
    ("asked", "wanted"),
    [
        ({}, "Nothing would be moved"),
        ({"from": "0"}, "Nothing would be moved"),
        ({"order": "0,1,2"}, "An order of 6 tokens has each place from 0 to 5 once"),
        ({"order": "0,0,1,2,3,4"}, "has each place from 0 to 5 once"),
        ({"order": "-1,0,1,2,3,4"}, "Ask for /again"),
        ({"order": "a"}, "Ask for /again"),
        ({"order": ",".join(map(str, range(7)))}, "An order of 6 tokens"),
        ({"from": "-5"}, "Ask for /again"),
        ({"from": "1.5"}, "Ask for /again"),
        ({"from": "1000001"}, "at most 1000000 places"),
        ({"from": "145"}, "GPT2LMHeadModel has places 0 to 149, but the last token would stand at 150"),
    ],
)
def test_a_wrong_question_is_refused(asked, wanted):
    with pytest.raises(InputError, match=wanted):
        looked(gpt2).again(asked)


def test_what_cannot_be_moved_says_why():
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 32, batch_first=True), 1)
    vit = transformers.ViTModel(transformers.ViTConfig(image_size=32, patch_size=8, **TINY))
    cases = [
        (bloom, (IDS,), {}, None, ("", "BloomModel takes no position_ids")),
        (lambda: encoder, (torch.randn(1, 6, 32),), {}, None, ("only tokens of a text", "only a text or a sound is slid")),
        (lambda: vit, (), {"pixel_values": torch.randn(1, 3, 32, 32)}, [patches([4, 4], 1)],
         ("ViTModel reads patches of a picture here: only tokens of a text are shuffled", "only a text or a sound is slid")),
    ]  # fmt: skip
    for model, args, kwargs, lines, wanted in cases:
        made = looked(model, args, kwargs, lines)
        live = made.content.live
        assert wanted[0] in live.shuffle
        assert bool(live.shuffle) == bool(wanted[0])
        assert wanted[1] in live.slide
        with pytest.raises(InputError, match=wanted[1]):
            made.again({"from": "3"})


def test_tokens_with_times_of_their_own_are_slid():
    spec = eq.Spec(width=32, layers=2, block=eq.Block(attention=eq.Attention(heads=4, position=Rope())))
    tokens = eq.Tokens.of(torch.randn(1, 6, 32))
    line = Line(name="sound", kind="slices", labels=[f"{i} s" for i in range(6)])
    made = looked(lambda: eq.build(spec), (tokens,), {}, [line])
    assert noticed(made, start=50) == []
    assert "only tokens of a text are shuffled" in made.content.live.shuffle
