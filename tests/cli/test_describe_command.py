"""`equiscope describe` says what a model is without its weights."""

import json

import pytest
from tests.judges import transformers
from typer.testing import CliRunner

import equiscope as eq
from equiscope.cli import main
from equiscope.cli.app import app
from equiscope.models import PRESETS
from equiscope.trained import NAMES


def said(*words):
    done = CliRunner().invoke(app, ["describe", *words])
    assert done.exit_code == 0, done.output
    return done.output


def test_a_preset_is_described_with_the_part_that_decides():
    text = said("gpt2")
    assert "124.4 M" in text
    assert "no   shift    Learned adds a separate row for every absolute position (position)" in text


def test_without_a_name_all_presets_are_listed():
    assert list(json.loads(said("--json"))) == [*PRESETS, *NAMES]
    assert "124.4 M parameters" in said()


def test_a_folder_is_described_by_its_config_alone(tmp_path):
    transformers.LlamaConfig(vocab_size=50, hidden_size=24, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4,
                architectures=["LlamaForCausalLM"]).save_pretrained(tmp_path)  # fmt: skip
    data = json.loads(said(str(tmp_path), "--tokens", "9", "--json"))
    assert data["tokens"] == 9
    assert {c["action"]: c["holds"] for c in data["claims"]}["shift"] is True


def test_the_spec_that_it_prints_can_be_read_again(tmp_path):
    file = tmp_path / "spec.json"
    file.write_text(said("transformer-base", "--spec"), encoding="utf-8")
    assert eq.Spec.of(file) == PRESETS["transformer-base"]()
    assert said(str(file)) == said("transformer-base")


@pytest.mark.parametrize("wrong", [["nobody"], ["gpt2", "--spec", "--json"]])
def test_wrong_use_is_one_sentence_and_exit_code_2(wrong, capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["equiscope", "describe", *wrong])
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 2
    assert "Traceback" not in capsys.readouterr().err
