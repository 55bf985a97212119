"""What a model says stands beside where it looked, and comes from the same pass."""

import msgspec
import numpy as np
import pytest
import torch
from tests.judges import transformers

from equiscope.explore.heads.predictions import ROWS, PredictionReader, classes, predictions
from equiscope.explore.pages.heads import HeadsPage
from equiscope.record import Heads, TokenSequence, unpack
from equiscope.record.token_sequence import patch_sequence

IDS = torch.tensor([[5, 9, 14, 3, 5, 31]])
SIZES = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}


def line(name="text", count=6):
    return TokenSequence(name=name, kind="words", labels=[f"word {i}" for i in range(count)])


def chances(found, row=0):
    return {found.names[int(i)]: p for i, p in zip(unpack(found.indices)[row], unpack(found.probabilities)[row], strict=True)}


def vit(kind="ViTForImageClassification", **more):
    torch.manual_seed(0)
    model = getattr(transformers, kind)(transformers.ViTConfig(image_size=32, patch_size=8, num_labels=7, **SIZES, **more)).eval()
    return model, torch.randn(1, 3, 32, 32)


def test_the_classes_of_a_picture_are_those_of_the_model():
    model, pixels = vit()
    model.config.id2label = {i: f"thing {i}" for i in range(7)}
    voice = PredictionReader("class", lambda i: model.config.id2label[i])
    made = HeadsPage(
        model, (), {"pixel_values": pixels}, [patch_sequence([4, 4], 1)], "a title", "vit", reader=voice
    ).content.predictions
    with torch.no_grad():
        wanted = model(pixel_values=pixels).logits.double().softmax(-1)[0]
    assert made.kind == "class"
    assert len(chances(made)) == 5
    for name, chance in chances(made).items():
        assert chance == pytest.approx(float(wanted[int(name.split()[1])]), rel=1e-6)
    assert list(chances(made).values()) == sorted(chances(made).values(), reverse=True)


def test_after_each_token_the_next_one_is_told():
    torch.manual_seed(0)
    model = transformers.GPT2LMHeadModel(
        transformers.GPT2Config(vocab_size=50, n_embd=32, n_layer=2, n_head=4, n_positions=16)
    ).eval()
    made = HeadsPage(model, (IDS,), {}, [line()], "a title", "gpt2", reader=PredictionReader("next", str)).content.predictions
    with torch.no_grad():
        wanted = model(IDS).logits[0].double().softmax(-1)
    assert (made.kind, made.sequence, made.first_row, made.probabilities.shape) == ("next", 0, 0, [6, 5])
    for row in range(6):
        assert max(chances(made, row).items(), key=lambda one: one[1])[0] == str(int(wanted[row].argmax()))
        for name, chance in chances(made, row).items():
            assert chance == pytest.approx(float(wanted[row, int(name)]), rel=1e-6)


def test_when_the_tokens_move_the_answer_is_that_of_the_moved_ones():
    torch.manual_seed(0)
    model = transformers.GPT2LMHeadModel(
        transformers.GPT2Config(vocab_size=50, n_embd=32, n_layer=2, n_head=4, n_positions=16)
    ).eval()
    order = [5, 0, 3, 1, 2, 4]
    looked = HeadsPage(model, (IDS,), {}, [line()], "a title", "gpt2", reader=PredictionReader("next", str))
    made = msgspec.json.decode(looked.answer_rerun({"order": ",".join(map(str, order))}), type=Heads).predictions
    with torch.no_grad():
        wanted = model(IDS[:, order]).logits[0].double().softmax(-1)
    for name, chance in chances(made, 3).items():
        assert chance == pytest.approx(float(wanted[3, int(name)]), rel=1e-6)


def test_of_a_long_text_the_last_answer_is_kept():
    logits = torch.randn(1, ROWS + 1, 9, generator=torch.Generator().manual_seed(0))
    made = predictions(logits, PredictionReader("next", str), [line(count=ROWS + 1)])
    assert (made.first_row, made.probabilities.shape) == (ROWS, [1, 5])
    assert max(chances(made).values()) == pytest.approx(float(logits[0, -1].double().softmax(-1).max()), rel=1e-6)


def test_classes_that_are_likely_for_themselves_do_not_add_up():
    made = predictions(torch.tensor([[2.0, 3.0, -1.0]]), PredictionReader("class", str, independent=True), [])
    assert chances(made)["1"] == pytest.approx(1 / (1 + np.exp(-3)), rel=1e-6)
    assert chances(made)["0"] == pytest.approx(1 / (1 + np.exp(-2)), rel=1e-6)


@pytest.mark.parametrize(
    ("output", "voice"),
    [
        (torch.zeros(1, 3), None),
        (torch.zeros(1, 3), PredictionReader("next", str)),
        (torch.zeros(1, 6, 3), PredictionReader("class", str)),
        (torch.zeros(1, 5, 3), PredictionReader("next", str)),
        (torch.full((1, 3), torch.nan), PredictionReader("class", str)),
        (torch.zeros(1, 1), PredictionReader("class", str)),
        (("words",), PredictionReader("class", str)),
        ((), PredictionReader("class", str)),
        ({"loss": torch.zeros(1, 3)}, PredictionReader("class", str)),
    ],
)
def test_what_is_no_such_answer_is_not_told(output, voice):
    assert predictions(output, voice, [line()]) is None


def test_a_model_without_an_answer_says_nothing():
    model, pixels = vit("ViTModel")
    assert HeadsPage(model, (), {"pixel_values": pixels}, [patch_sequence([4, 4], 1)], "a title", "vit").content.predictions is None


def test_a_class_without_a_name_has_its_number():
    assert [classes(["cat"])(i) for i in (0, 1)] == ["cat", "class 1"]


# --- one line looks at another ----------------------------------------------------------------------------------------


def marian(page=HeadsPage):
    torch.manual_seed(0)
    config = transformers.MarianConfig(
        vocab_size=60, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4,
        encoder_ffn_dim=32, decoder_ffn_dim=32, pad_token_id=0, decoder_start_token_id=0, eos_token_id=1,
    )  # fmt: skip
    model = transformers.MarianMTModel._from_config(config, attn_implementation="eager").eval()
    given = {"input_ids": IDS, "decoder_input_ids": IDS[:, :4]}
    return (
        model,
        given,
        page(model, (), given, [line(), line("answer", 4)], "a title", "marian", reader=PredictionReader("next", str)),
    )


def test_means_across_are_those_of_the_model():
    model, given, looked = marian()
    (found,) = looked.content.cross_alignments
    with torch.no_grad():
        theirs = model(**given, output_attentions=True).cross_attentions
    assert [looked.content.sequences[i].name for i in (found.query_sequence, found.key_sequence)] == ["answer", "text"]
    assert all(looked.content.layers[i].cross for i in found.layers)
    assert np.allclose(unpack(found.weights), torch.stack([one[0].mean(0) for one in theirs]).numpy(), atol=1e-6)


def test_the_answer_of_two_towers_follows_the_tokens_that_the_decoder_reads():
    _, _, looked = marian()
    assert looked.content.sequences[looked.content.predictions.sequence].name == "answer"


def test_how_straight_a_head_links_is_counted():
    _, _, looked = marian()
    for number in looked.content.cross_alignments[0].layers:
        one = looked.attentions[number]
        for head, told in enumerate(looked.content.layers[number].heads):
            links = one.recomputed_weights(head).argmax(-1).tolist()
            met = [abs(m - n * 5 / 3) <= 1 for n, m in enumerate(links)]
            assert told.diagonal == pytest.approx(sum(met) / 4)
            near = sum(abs(m - n * 5 / 3) <= 1 for n in range(4) for m in range(6))
            assert told.diagonal_chance == pytest.approx(near / 24)
    assert all(head.diagonal is None for layer in looked.content.layers if not layer.cross for head in layer.heads)


def test_of_long_texts_no_means_are_kept():
    _, _, looked = marian(type("Small", (HeadsPage,), {"aligned_weights": 10}))
    (found,) = looked.content.cross_alignments
    assert found.weights is None
    assert len(found.layers) == 2


def test_a_picture_is_not_aligned():
    model, pixels = vit()
    assert (
        HeadsPage(model, (), {"pixel_values": pixels}, [patch_sequence([4, 4], 1)], "a title", "vit").content.cross_alignments == []
    )
