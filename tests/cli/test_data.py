"""`equiscope data`: what there is, where it is from, and whether it is right."""

import json
from pathlib import Path

import pytest
from tests.cli.test_cli import equi, refused  # noqa: F401

WORDS = """title = "Words"
data = { task = "language", train = "words.txt", validation = "fsdd/fsdd_train_idx05-49.tar.xz", context = 8 }
model = { width = 8 }
budget = { steps = 1, batch = 1 }
"""


@pytest.fixture(autouse=True)
def empty(tmp_path, monkeypatch):
    monkeypatch.setenv("EQUISCOPE_DATA", str(tmp_path))
    monkeypatch.chdir(tmp_path)


def test_it_lists_what_there_is_with_its_licence(equi):  # noqa: F811
    code, out, _ = equi("data")
    assert code == 0
    assert "do not redistribute" in next(line for line in out.splitlines() if line.startswith("multi30k"))
    assert "CC BY-SA 4.0" in next(line for line in out.splitlines() if line.startswith("fsdd"))
    code, out, _ = equi("data", "--json")
    assert {(one["name"], one["may be shared"]) for one in json.loads(out)} >= {("multi30k", False), ("fsdd", True)}


def test_of_one_it_says_the_command_that_fetches_it_and_its_files(equi, tmp_path):  # noqa: F811
    code, out, _ = equi("data", "tinyshakespeare")
    assert code == 0
    assert "git clone --filter=blob:none --no-checkout https://github.com/karpathy/char-rnn data/tinyshakespeare" in out
    assert "– missing    1,115,394" in out
    refused(equi("data", "shakespeare"), "There is no data set called 'shakespeare'", "tinyshakespeare")


def test_a_wrong_checksum_is_exit_code_1_and_a_missing_file_is_reported(equi, tmp_path):  # noqa: F811
    assert equi("data", "--check")[0] == 0
    (tmp_path / "tinyshakespeare").mkdir()
    (tmp_path / "tinyshakespeare" / "input.txt").write_text("to be")
    assert equi("data", "tinyshakespeare")[0] == 0
    code, out, _ = equi("data", "tinyshakespeare", "--check")
    assert code == 1
    assert "✗ invalid" in out
    code, out, _ = equi("data", "--check")
    assert code == 1
    assert "Not as listed: tinyshakespeare/input.txt. Fetch them again." in out
    code, out, _ = equi("data", "--check", "--json")
    assert code == 1
    assert {file["state"] for one in json.loads(out) for file in one["files"]} == {"invalid", "missing"}


def test_of_a_recipe_it_lists_which_files_are_present(equi, tmp_path):  # noqa: F811
    (tmp_path / "words.toml").write_text(WORDS)
    (tmp_path / "words.txt").write_text("to be")
    code, out, _ = equi("data", "words.toml")
    assert code == 0
    assert "unchecked words.txt" in out
    assert "– missing   fsdd/fsdd_train_idx05-49.tar.xz" in out
    assert "To get fsdd, under the licence CC BY-SA 4.0:" in out
    assert json.loads(equi("data", "words.toml", "--json")[1]) == {
        "words.txt": "unchecked",
        "fsdd/fsdd_train_idx05-49.tar.xz": "missing",
    }
    refused(equi("data", "nowhere.toml"), "There is no recipe nowhere.toml", "words.toml")


def test_a_recipe_without_files_says_so(equi):  # noqa: F811
    recipe = Path(__file__).parents[2] / "recipes" / "synthetic" / "copy.toml"
    assert equi("data", recipe)[:2] == (0, "This recipe reads no files: its examples are generated.\n")
