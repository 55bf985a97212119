"""A preset's name means the preset, also where a folder of that name lies beside it: the folder is ./NAME."""

import json

import pytest
from tests.cli.test_cli import equi
from tests.explore.short import short_page

from equiscope.checkpoints import save
from equiscope.errors import InputError
from equiscope.models import PRESETS, build, folder_of, spec_of, tiny

__all__ = ["equi", "short_page"]  # fixtures


@pytest.fixture
def beside(tmp_path, monkeypatch):
    """A folder with a small checkpoint under the name of a preset, in the folder where commands run."""
    monkeypatch.chdir(tmp_path)
    save(build(tiny(PRESETS["gpt2"]())), "gpt2")
    return tmp_path


@pytest.mark.parametrize("name", ["gpt2", "vit-b", "bert-base", "llama-1b", "transformer-base"])
def test_a_spec_of_a_presets_name_is_the_preset(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).mkdir()
    assert spec_of(name) == PRESETS[name]()
    assert folder_of(name) is None
    assert folder_of(f"./{name}") is not None
    with pytest.raises(InputError, match="A checkpoint is read by load"):
        spec_of(f"./{name}")


def test_describe_takes_the_preset_or_the_folder(equi, beside):
    preset, folder = (json.loads(equi("describe", name, "--spec")[1])["width"] for name in ("gpt2", "./gpt2"))
    assert preset == PRESETS["gpt2"]().width != folder


def test_the_page_of_costs_is_made_beside_such_a_folder(equi, beside):
    code, out, _ = equi("explore", "--page", "cost", "--json")
    assert code == 0
    assert json.loads(out)


def test_a_drawing_takes_the_preset_or_the_folder(equi, beside):
    preset, folder = (json.loads(equi("explore", "--model", name, "--json")[1]) for name in ("gpt2", "./gpt2"))
    assert preset["title"] == "gpt2"
    assert preset != folder


@pytest.mark.usefixtures("short_page")
def test_the_name_alone_stays_a_sentence(equi, beside):
    code, out, _ = equi("explore", "gpt2", "--json")
    assert code == 0
    assert json.loads(out)["words"] == ["gpt2"]  # a drawing has towers instead


def test_a_preset_does_not_read_texts_by_the_folders_tokenizer(equi, beside):
    (beside / "gpt2" / "tokenizer.json").write_text("{", encoding="utf-8")
    code, _, said = equi("explore", "two words", "--model", "gpt2", "--json")
    assert code == 2
    assert "preset gpt2 has no tokenizer.json" in said


def test_check_takes_the_preset(equi, beside):
    assert "the same parts at a small size" in equi("check", "gpt2", "--effort", "quick", "--property", "pure")[1]
