"""`equiscope explore` of a model: a spec, a folder, a preset; a sentence stays a sentence."""

import json

import pytest
import torch
from tests.cli.test_cli import equi, refused
from tests.explore.short import short_page

import equiscope as eq
from equiscope.cli.explore import is_model
from equiscope.models import PRESETS, Attention, Block, Spec
from equiscope.positions import Learned

__all__ = ["equi", "short_page"]  # fixtures
GPT = Spec(
    16, 50, layers=2, block=Block(Attention(heads=2, position=Learned(32), causal=True, bias=True)), outputs=50, tied=True
)  # fmt: skip


def test_a_spec_is_drawn(equi, tmp_path):
    path = tmp_path / "my model.json"
    path.write_text(PRESETS["transformer-base"]().to_json(), encoding="utf-8")
    code, out, _ = equi("explore", path, "--json")
    data = json.loads(out)
    assert (code, data["title"], data["towers"]) == (0, "my model", ["Encoder", "Decoder"])


def test_a_folder_with_few_weights_shows_its_own_numbers(equi, tmp_path):
    torch.manual_seed(0)
    model = eq.build(GPT)
    eq.save(model, tmp_path / "gpt", "gpt2")
    data = json.loads(equi("explore", tmp_path / "gpt", "--json")[1])
    assert data["title"] == "gpt"
    said = "The numbers are those of this model itself. Weights: 28 of 28 tensors from model.safetensors; none missing."
    assert data["program_note"] == said


def test_a_folder_needs_no_weights_to_be_drawn(equi, tmp_path):
    eq.save(eq.build(GPT), tmp_path / "gpt", "gpt2")
    (tmp_path / "gpt" / "model.safetensors").unlink()
    data = json.loads(equi("explore", tmp_path / "gpt", "--json")[1])
    assert data["parameters"] == sum(p.numel() for p in eq.build(GPT).parameters())
    assert "toy model of the same architecture" in data["program_note"]


@pytest.mark.parametrize("option", ["--export", "--html"])
def test_a_drawing_is_one_file(equi, tmp_path, option):
    target = tmp_path / "vit.html"
    code, out, err = equi("explore", "--model", "vit-ti", option, target)
    assert (code, err) == (0, "")
    assert out.startswith(f"wrote {target} (")
    assert 'id="drawing">' in target.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["explore", "none.json"], ["There is no file none.json", "or a preset: gpt2"]),
        (["explore", "GOOD.JSON"], ["There is no file GOOD.JSON"]),
        (["explore", "./nothing"], ["There is no file nothing"]),
        (["explore", "--model", "gpt9"], ["There is no file gpt9", "vit-b"]),
        (["explore", "--model", "gpt2", "--position", "rope", "--causal"], ["Only a sentence takes --position and --causal"]),
    ],
)
def test_what_is_no_model_is_refused(equi, words, wanted):
    refused(equi(*words), *wanted)


def test_a_file_that_is_no_model_is_no_sentence(equi, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run").mkdir()
    for name in ("some.txt", "recipe.toml", "run/run.json", "run/metrics.jsonl"):
        (tmp_path / name).write_text("to be", encoding="utf-8")
    refused(equi("explore", "some.txt"), "some.txt is a file, but no spec (.json). Give a spec, the folder of a checkpoint or")
    refused(equi("explore", "recipe.toml"), "recipe.toml is a recipe at most. Give the folder of a run that `equiscope train rec")
    refused(equi("explore", "run/metrics.jsonl"), "run/metrics.jsonl is a file, but no spec (.json). run is a run: give that.")
    refused(equi("explore", "--model", "run"), "run is a run, which has a page of its own: leave --model out.")
    refused(equi("explore", tmp_path / "run" / ".."), "is a folder without config.json, so it is no checkpoint to draw. Give one,")


def test_sizes_that_no_tensor_has_are_refused(equi, tmp_path):
    (tmp_path / "wide.json").write_text('{"version": 2, "width": 2147483647}', encoding="utf-8")
    for verb in ("explore", "describe", "check"):
        refused(equi(verb, tmp_path / "wide.json"), "A model of these sizes cannot be made: ")


def test_a_config_of_no_family_is_refused(equi, tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "nothing"}', encoding="utf-8")
    refused(equi("explore", tmp_path), "holds a nothing, which is no family", "gpt2")
    refused(equi("explore", tmp_path / "config.json"), "model_type")


@pytest.mark.parametrize("sentence", ["Love conquers all", "gpt2", "sound", "either/or", "w " * 300, "a\0b", ".", "?"])
def test_a_sentence_stays_a_sentence(sentence, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sound").mkdir()
    assert not is_model(sentence)


@pytest.mark.usefixtures("short_page")
def test_a_sentence_that_is_a_presets_name_says_how_the_preset_is_drawn(equi, tmp_path):
    code, _, said = equi("explore", "bert-base", "--export", tmp_path / "page.html")
    assert (code, "To draw that model: equiscope explore --model bert-base" in said) == (0, True)
    assert "preset" not in equi("explore", "Love conquers all", "--export", tmp_path / "page.html")[2]


def test_numbers_of_any_model_are_a_program(equi, tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(
        "import torch\n\n\ndef layer():\n    made = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)\n"
        "    return made, torch.randn(1, 3, 8)\n",
        encoding="utf-8",
    )
    code, out, _ = equi("explore", "--model", f"{path}:layer", "--numbers", "--json")
    program = json.loads(out)
    assert code == 0
    assert {"Q", "K", "V", "S", "A", "Z"} <= {step["symbol"] for step in program["steps"]}
    assert "No input was given" in program["notes"][0]


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (["a b"], "--numbers needs a model"),
        (["--model", "vit-ti", "--causal"], "without --causal"),
        (["--model", "FILE:large"], "at most 20 million parameters, but"),
    ],
)
def test_numbers_need_a_model_that_fits_a_page(equi, tmp_path, given, sentence):
    path = tmp_path / "mine.py"
    path.write_text(
        "import torch\n\n\ndef large():\n    return torch.nn.Linear(5000, 4100), torch.randn(1, 5000)\n", encoding="utf-8"
    )
    refused(equi("explore", *(word.replace("FILE", str(path)) for word in given), "--numbers"), sentence)
