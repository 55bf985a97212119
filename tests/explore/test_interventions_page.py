"""What a page of heads asks of the model: its answers are those of `eq.intervene`, and what cannot be asked gets a sentence."""

import msgspec
import pytest
import torch
from tests.judges import transformers
from tests.pictures_of_timm import timm

import equiscope as eq
from equiscope import trained
from equiscope.cli.heads import ModelInput, page_of
from equiscope.errors import InputError
from equiscope.explore.heads.model_inputs import LabelledInputs
from equiscope.explore.heads.predictions import PredictionReader
from equiscope.explore.pages.heads import HeadsPage
from equiscope.interventions import head, log_probability, move, stream
from equiscope.record import Heads, InterventionEffect, RankedHeads, TokenSequence

KING, BOSS = "The king is dead, long live", "The boss is dead, long live"
IDS, OTHER = (torch.tensor([list(text.encode())]) for text in (KING, BOSS))
CHANGES = {
    "zero_output_2.3": head(2, 3).zero(),
    "mean_output_1.1": head(1, 1).mean(),
    "scale_output_0.2__1.5": head(0, 2).scale(1.5),
    "patch_output_1.1": head(1, 1).patch(OTHER),
    "patch_stream_2_5": stream(2).on(5).patch(OTHER),
    "patch_weights_1": head(1).weights.patch(OTHER),
    "freeze_weights_1.1": head(1, 1).weights.freeze(),
    "cut_weights_1.1_9.8": head(1, 1).cut(9, 8),
    "cut_weights_1_9.8": head(1).cut(9, 8),
    "set_weights_1.1_9.8_0.25": head(1, 1).weights.on(9, entry=8).set(0.25),
    "set_q_1.1_9.3_-2.5": head(1, 1).q.on(9, entry=3).set(-2.5),
    "set_k_1.1_9.3_1e-3": head(1, 1).k.on(9, entry=3).set(1e-3),
    "move_token__4_9": move(4, 9),
}
TINY = {"vocab_size": 50, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}


@pytest.fixture(scope="module")
def characters():
    return page_of("characters", ModelInput(text=KING))


def effect(page, changes="", **more):
    return msgspec.json.decode(page.interventions.answer_effect({"changes": changes} | more), type=InterventionEffect)


def ranked(page, **query):
    return msgspec.json.decode(page.interventions.answer_rank(query), type=RankedHeads)


def looked(model, args, kwargs=None, labels=(), reader=None):
    torch.manual_seed(0)
    model = model().eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.2 * torch.randn_like(weight))
    lines = [TokenSequence(name=name, kind="words", labels=[f"{name}{i}" for i in range(n)]) for name, n in labels]
    return HeadsPage(model, args, kwargs or {}, lines, "a title", "x", reader=reader)


@pytest.mark.parametrize("text", CHANGES)
def test_a_change_of_the_page_is_that_of_eq_intervene(characters, text):
    found = effect(characters, text, after="20", second=BOSS)
    model = eq.load("characters")
    wanted = eq.intervene(model, IDS, CHANGES[text])
    for row in found.rows:
        assert row.before == wanted.before[0, 20].double().softmax(-1)[row.id].item()
        assert row.after == pytest.approx(wanted.after[0, 20].double().softmax(-1)[row.id].item(), rel=1e-6)
        assert row.second == pytest.approx(model(OTHER)[0, 20].double().softmax(-1)[row.id].item(), rel=1e-5)
    assert found.largest == pytest.approx(wanted.largest, rel=1e-5)
    assert (found.largest > 1e-4) == (text != "freeze_weights_1.1")  # alone it freezes what nothing changes


def test_several_changes_act_together_and_their_text_gives_the_same_answer(characters):
    found = effect(characters, "zero_output_2.3,cut_weights_1.1_9.8,move_token__4_9")
    wanted = eq.intervene(eq.load("characters"), IDS, [head(2, 3).zero(), head(1, 1).cut(9, 8), move(4, 9)])
    variables = {}
    exec(f"{found.setup}\n{found.code}", variables)
    for row in found.rows:
        assert row.after == pytest.approx(wanted.after[0, -1].double().softmax(-1)[row.id].item(), rel=1e-5)
        assert row.after == pytest.approx(variables["output"][0, -1].double().softmax(-1)[row.id].item(), rel=1e-5)


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({"changes": "zero_output_9.0"}, "There are 4 layers, counted from 0, but layer 9 was requested."),
        ({"changes": "zero_output_1.7"}, "Layer 1 has 4 heads, counted from 0, but head 7 was requested."),
        ({"changes": "zero_output"}, "'zero_output' is no change."),
        ({"changes": "zero_brain_1.1"}, "'zero_brain_1.1' is no change."),
        ({"changes": "burn_output_1.1"}, "'burn_output_1.1' is no change. Request /effect?changes="),
        ({"changes": "__import__('os')"}, "is no change. Request"),
        ({"changes": "scale_output_1.1"}, "'scale_output_1.1' is no change."),
        ({"changes": "scale_output_1.1__1e9"}, "A value is a number between -1e6 and 1e6, but got '1e9'."),
        ({"changes": "scale_output_1.1__1-2"}, "A value is a number between -1e6 and 1e6, but got '1-2'."),
        ({"changes": "cut_weights_1.1_5"}, "'cut_weights_1.1_5' is no change."),
        ({"changes": "cut_weights_1.1_99.0"}, "27 tokens attend to 27, counted from 0"),
        ({"changes": "set_q_1.1_5.99_1"}, "A row has 32 numbers, counted from 0"),
        ({"changes": "move_token__99_1"}, "There are 27 tokens, counted from 0"),
        ({"changes": "move_token__1_1.5"}, "'move_token__1_1.5' is no change."),
        ({"changes": "patch_output_1.1"}, "Patching takes values from a second input. Give one first."),
        ({"changes": "patch_output_1.1", "second": "short"}, "The second input has 5 tokens and the first 27"),
        ({"changes": "zero_output_1.1", "after": "27"}, "after is a whole number from 0 to 26, but got '27'."),
        ({"changes": ",".join(["zero_output_1.1"] * 41)}, "A request has at most 40 changes, but this one has 41."),
        ({"changes": "patch_stream_9_1", "second": BOSS}, "There are 4 layers, counted from 0"),
    ],
)
def test_a_request_that_is_none_gets_a_sentence(characters, query, words):
    with pytest.raises(InputError) as refusal:
        characters.interventions.answer_effect(query)
    assert words in str(refusal.value)


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({"by": "fire"}, "by cannot be 'fire'"),
        ({"by": "zero", "layer": "9", "answer": "1"}, "layer is a whole number from 0 to 3, but got '9'."),
        ({"by": "zero", "layer": "1", "answer": "999"}, "answer is a whole number from 0 to 255, but got '999'."),
        ({"by": "zero", "layer": "1"}, "answer is a whole number from 0 to 255, but got ''."),
        ({"by": "patch", "layer": "1", "answer": "1"}, "Patching takes values from a second input. Give one first."),
    ],
)
def test_a_ranking_that_is_none_gets_a_sentence(characters, query, words):
    with pytest.raises(InputError) as refusal:
        characters.interventions.answer_rank(query)
    assert words in str(refusal.value)


def test_a_ranking_is_that_of_an_experiment(characters):
    experiment = eq.Experiment(eq.load("characters"), IDS, log_probability(115, 20))
    for by, change in (("zero", "zero"), ("mean", "mean"), ("patch", lambda one: one.patch(OTHER))):
        found = ranked(characters, by=by, layer="1", after="20", answer="115", second=BOSS)
        wanted = {row.site.index: row.effect for row in experiment.rank([head(1, i) for i in range(4)], by=change)}
        assert found.effects == pytest.approx([wanted[i] for i in range(4)], abs=1e-5)
        assert found.calls == (1 if by == "zero" else 2)  # one to read the values that replace those of the heads
        assert (found.copies, found.metric, found.name) == (16, "log-probability", "s")


def test_a_file_has_what_was_computed():
    page = page_of("characters", ModelInput(text=KING))
    assert page.file().interventions.effects == []
    found = effect(page, "zero_output_2.3")
    ranking = ranked(page, by="zero", layer="0", answer="115")
    stored = msgspec.json.decode(msgspec.json.encode(page.file()), type=Heads).interventions
    assert (stored.effects, stored.rankings) == ([found], [ranking])
    assert stored.second == "text"


def test_a_classifier_answers_with_classes_and_takes_pictures_that_come_along():
    page = page_of("clothes", ModelInput(image=trained.examples("clothes")[6]))
    assert page.content.interventions.choices == [file.stem for file in trained.examples("clothes")]
    found = effect(page, "patch_stream_0", second="dress")
    assert {row.name: row.after for row in found.rows} == pytest.approx({row.name: row.second for row in found.rows}, rel=1e-4)
    assert found.second.sequence.picture.startswith("data:image/")
    moved = effect(page, "move_token__4_9")
    assert moved.largest > 1e-3
    with pytest.raises(InputError, match="second cannot be '/etc/passwd'"):
        effect(page, "", second="/etc/passwd")


@pytest.mark.parametrize("source", ["clothes", "timm:vit_tiny_patch16_224"])
def test_a_second_image_of_ones_own(tmp_path, source):
    if source != "clothes":
        timm()
    dress = tmp_path / "mine.png"
    dress.write_bytes(trained.examples("clothes")[3].read_bytes())
    shirt = trained.examples("clothes")[6]
    page = page_of(source, ModelInput(image=shirt, second_image=dress))
    found = effect(page, "patch_stream_0", second="mine.png")
    assert page.content.interventions.choices[-1] == "mine.png"
    assert {row.id: row.after for row in found.rows} == pytest.approx({row.id: row.second for row in found.rows}, rel=1e-3)


def test_a_model_without_predictions_answers_with_a_cosine():
    page = looked(lambda: transformers.BertModel(transformers.BertConfig(**TINY)), (torch.arange(6)[None],), labels=[("text", 6)])
    assert page.content.interventions.answer == "vector"
    assert page.content.interventions.second == "none"
    plain = page.interventions.experiment
    found = effect(page, "zero_output_1.2")
    vectors = [x[0].double().mean(0) for x in (plain.before, plain.run(head(1, 2).zero()).after)]
    assert found.rows[0].name == "cosine with the unchanged vector"
    assert found.rows[0].after == pytest.approx(torch.cosine_similarity(*vectors, 0).item(), rel=1e-9)
    assert found.rows[0].before == pytest.approx(1)
    assert ranked(page, by="zero", layer="1").effects[2] == pytest.approx(found.rows[0].after - 1, abs=1e-6)
    with pytest.raises(InputError, match="This page has no second input"):
        effect(page, "", second="another text")
    other = torch.arange(6).flip(0)[None]
    line = TokenSequence(name="text", kind="words", labels=[str(i) for i in range(6)])
    page.set_second_input(lambda text: LabelledInputs((other,), {}, [line]))
    assert effect(page, "patch_stream_0", second="reversed").rows[0].after == pytest.approx(1, abs=1e-6)


def test_under_grouped_queries_the_keys_of_a_head_are_those_of_its_group():
    config = transformers.LlamaConfig(**TINY, num_key_value_heads=2)
    reader = PredictionReader("next", str)
    page = looked(lambda: transformers.LlamaForCausalLM(config), (torch.arange(6)[None],), labels=[("text", 6)], reader=reader)
    found = effect(page, "set_k_1.3_2.5_2.0")
    wanted = page.interventions.experiment.run(head(1, 1).k.on(2, entry=5).set(2.0))
    assert found.largest == wanted.largest > 1e-4


def test_a_decoder_and_its_encoder_are_changed():
    config = transformers.T5Config(vocab_size=50, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4)
    inputs = {"input_ids": torch.arange(7)[None], "decoder_input_ids": torch.arange(5)[None]}
    page = looked(
        lambda: transformers.T5ForConditionalGeneration(config), (), inputs, [("source", 7), ("answer", 5)],
        PredictionReader("next", str),
    )  # fmt: skip
    assert page.content.sequences[page.content.interventions.sequence].name == "answer"
    cross = next(i for i, layer in enumerate(page.content.layers) if layer.cross)
    for text in (f"cut_weights_{cross}.1_3.6", "zero_output_0.1"):
        assert effect(page, text).largest > 1e-4
    own = next(i for i, layer in enumerate(page.content.layers) if layer.where.startswith("decoder") and not layer.cross)
    for layer, of in ((0, "encoder"), (own, "decoder")):
        wanted = page.interventions.experiment.run(move(1, 3, of))
        assert effect(page, f"move_token_{layer}_1_3").largest == wanted.largest > 1e-4


def test_a_rerun_offers_no_changes():
    page = page_of("characters", ModelInput(text=KING))
    assert msgspec.json.decode(page.answer_rerun({"offset": "3"}), type=Heads).interventions is None


def test_numbers_that_are_not_finite_are_refused():
    model = eq.build(eq.Spec(width=32, vocabulary=50, layers=2, outputs=50)).eval()
    line = TokenSequence(name="text", kind="words", labels=list("abc"))
    page = HeadsPage(model, (torch.arange(3)[None],), {}, [line], "a title", "x", reader=PredictionReader("next", str))
    with torch.no_grad():
        page.interventions.experiment.model.get_parameter("blocks.1.attention.o_proj.weight").fill_(1e38)
    with pytest.raises(InputError, match="numbers that are not finite"):
        effect(page, "scale_output_1.0__1e6")
