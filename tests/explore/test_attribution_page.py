"""The page of an answer holds what Python measured: tokens, layers and parts of one logit."""

import base64
import gzip
import re
from functools import cache

import msgspec
import pytest
import torch
from tests.interventions.subjects import SUBJECTS

import equiscope as eq
from equiscope import trained
from equiscope.cli import heads
from equiscope.errors import InputError
from equiscope.explore import html
from equiscope.explore.heads.predictions import PredictionReader, token_reader
from equiscope.explore.pages.attribution import _visible, attribution, attribution_response, plain
from equiscope.interventions import head, logit, logit_difference
from equiscope.record import Attribution, unpack
from equiscope.record.token_sequence import TokenSequence

DATA = re.compile(r'<script type="application/octet-stream" id="attribution">([\w+/=]+)</script>')
TEXT = "To be, or"


@cache
def of_text(token: int = -1) -> Attribution:
    ready = heads._prepare("characters", heads.ModelInput(TEXT), 0)
    return attribution(ready.model, ready.args, ready.kwargs, ready.sequences, ready.reader, "To be", "characters", token=token)


def test_the_page_holds_the_record_as_it_is():
    (data,) = DATA.findall(html(of_text()))
    assert msgspec.json.decode(gzip.decompress(base64.b64decode(data)), type=Attribution) == of_text()


def test_its_numbers_are_those_of_an_experiment():
    content, ids = of_text(4), torch.tensor([list(TEXT.encode())])
    model = eq.load("characters")
    answer = int(model(ids)[0, 4].argmax())
    one = eq.Experiment(model, ids, {"x": logit(answer, 4)})
    assert content.answer == chr(answer)
    assert content.value == pytest.approx(one.metrics_before[0])
    assert content.read == [4]
    assert content.tokens == [0, 1, 2, 3], "no token sees a later one"
    assert content.removed[1] == pytest.approx(one.run(head().cut(None, 1))["x"].change, abs=1e-4)
    part = next(part for part in content.parts if part.name == "L1H2")
    assert part.removed == pytest.approx(one.run(head(1, 2).zero())["x"].change, abs=1e-4)
    assert part.share == pytest.approx(one.attribution()["L1H2"].share, abs=1e-5)
    best = unpack(content.lens_best)
    assert best.shape == (5, 9)
    assert [content.lens_names[i] for i in best[-1]] == [chr(i) for i in model(ids)[0].argmax(-1)]


def test_patches_stand_on_their_picture():
    ready = heads._prepare("clothes", heads.ModelInput(image=trained.examples("clothes")[0]), 0)
    content = attribution(ready.model, ready.args, ready.kwargs, ready.sequences, ready.reader, "boot", "clothes")
    assert content.answer == "Ankle boot"
    assert content.sequence.grid == [7, 7]
    assert content.tokens == list(range(1, 50))
    assert content.lens_best is None
    assert [one.rank for one in content.lens][-1] == 1
    assert content.summary.startswith("The score nearest to the measured effect of removal is")


def test_a_translation_is_read_at_its_middle_and_explained_by_its_source():
    model, inputs, _ = SUBJECTS["T5"]()
    sequences = [TokenSequence(name=name, kind="words", labels=[f"{name}{i}" for i in range(8)]) for name in ("source", "target")]
    content = attribution(model, (), inputs, sequences, token_reader(None), "", "")
    assert content.read == [4]
    assert content.answers == sequences[1]
    assert content.sequence == sequences[0]
    assert content.tokens == list(range(8))
    assert [one.name for one in content.scores][:2] == ["cross-attention", "cross-attention of rollouts"]
    assert "as a value of every head of cross-attention" in content.scores[2].explanation
    assert "What the decoder has written stays" in content.removal


def test_without_a_script_the_page_is_tables_and_a_token_adds_no_element():
    sequence = TokenSequence(name="text", kind="words", labels=["<img src=x>", *"o be, or"])
    content = msgspec.structs.replace(of_text(), sequence=sequence)
    text = plain(content)
    assert text.count("<table>") == 3
    assert "<img" not in html(content)
    assert "&lt;img" in text


def test_a_model_without_logits_has_no_such_page():
    model = eq.build(eq.Spec(width=8, vocabulary=9, layers=1))
    reader = PredictionReader("class", str)
    with pytest.raises(InputError, match="declares no classes and no next tokens"):
        attribution(model, (torch.tensor([[1, 2, 3]]),), {}, [], reader, "", "")
    with pytest.raises(InputError, match="declares no classes and no next tokens"):
        attribution(model, (torch.tensor([[1, 2, 3]]),), {}, [], None, "", "")


def test_an_experiment_is_shown_in_a_notebook():
    ids = torch.tensor([list(TEXT.encode())])
    experiment = eq.Experiment(eq.load("characters"), ids, {"space or line end": logit_difference(32, 10)})
    content = eq.show(experiment, labels=list(TEXT)).content
    assert (content.answer, content.metric, content.sequence.labels) == ("", "space or line end", list(TEXT))
    assert content.value == pytest.approx(experiment.metrics_before[0])
    assert content.lens[-1].value == pytest.approx(content.value, abs=1e-5)
    assert sum(part.share for part in content.parts) == pytest.approx(content.value, abs=1e-4)
    with pytest.raises(InputError, match="needs a metric"):
        eq.show(eq.Experiment(eq.load("characters"), ids))


def test_a_server_answers_for_another_token_and_answer():
    asks = []
    response = attribution_response(lambda token, answer: asks.append((token, answer)) or of_text())
    assert msgspec.json.decode(response({"token": "3", "answer": ""}), type=Attribution) == of_text()
    response({"answer": "32"})
    assert asks == [(3, None), (None, 32)]
    for wrong in ({"token": "-1"}, {"answer": "x"}, {"token": "1" * 12}):
        with pytest.raises(InputError, match="numbers from 0 on"):
            response(wrong)


def test_another_answer_is_explained():
    ready = heads._prepare("characters", heads.ModelInput(TEXT), 0)
    whole = ready.model, ready.args, ready.kwargs, ready.sequences, ready.reader, "", ""
    second = of_text().candidates[1]
    content = attribution(*whole, answer=second.index)
    assert (content.chosen, content.answer, content.probability) == (second.index, second.name, pytest.approx(second.probability))
    with pytest.raises(InputError, match="The model has 256 answers, counted from 0, but answer 256"):
        attribution(*whole, answer=256)


@pytest.mark.parametrize(("name", "wanted"), [("\n", "↵"), (" the", "␣the"), ("  ", "␣␣"), ("a b", "a b"), ("", "")])
def test_spaces_are_written_out(name, wanted):
    assert _visible(name) == wanted
