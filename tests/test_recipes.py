"""Recorded results: what is kept of runs, and the table that is made of it."""

import importlib.util
import json
from pathlib import Path

import pytest

from equiscope.training import fit, open_task, read_recipe

RECIPES = Path(__file__).parents[1] / "recipes"
TEXT = """title = "Words"
data = { task = "language", train = "words.txt", context = 8 }
model = { width = 8, layers = 1, block = { attention = { heads = 2, position = "rope", causal = true } } }
budget = { steps = 4, batch = 2 }
evaluation = { every = 2 }
"""


@pytest.fixture
def script():
    found = importlib.util.spec_from_file_location("record", RECIPES / "record.py")
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


@pytest.fixture
def record(script, tmp_path):
    """The script's `main` on another folder, with one recipe."""
    (tmp_path / "README.md").write_text(f"Before\n{script.BEGIN}\n{script.END}\nAfter\n")
    (tmp_path / "words.toml").write_text(TEXT)
    (tmp_path / "words.txt").write_text("to be or not to be, that is the question\n" * 20)
    return lambda words: script.main(words, tmp_path)


def trained(folder, *changes):
    recipe = read_recipe(folder / "words.toml", list(changes))
    out = folder / "runs" / "-".join(changes or ["plain"])
    fit(recipe, open_task(recipe, folder), out, recipe_folder=folder)
    return str(out)


def test_the_table_of_results_is_up_to_date(script):
    assert script.main(["--check"]) == 0


def test_recorded_results_name_no_path_of_a_machine():
    for path in (RECIPES / "results").glob("*.json"):
        assert "/home/" not in path.read_text(encoding="utf-8")
        assert "recipe_folder" not in json.loads(path.read_text(encoding="utf-8"))


def test_every_sample_says_where_it_is_from_and_under_which_licence():
    said = (RECIPES / "samples" / "README.md").read_text(encoding="utf-8")
    for path in (RECIPES / "samples").iterdir():
        if path.name != "README.md":
            assert path.stem.split("-")[0] in said, f"{path.name} has its paragraph"
    for part in said.split("\n## ")[1:]:
        assert "github.com/" in part, "its project"
        assert "commit\n" in part or "commit " in part, "and commit"
        assert "public\ndomain" in part or "public domain" in part or "icence: " in part or "Licence:\n" in part


def test_runs_of_several_seeds_become_one_record_and_a_line_of_the_table(record, tmp_path):
    runs = [trained(tmp_path), trained(tmp_path, "seed=1")]
    assert record(["--check"]) == 1
    assert record(runs) == record(["--check"]) == 0
    kept = json.loads((tmp_path / "results" / "words.json").read_text())
    assert kept["seeds"] == [0, 1]
    losses = [one["result"]["validation"]["loss"] for one in kept["each"]]
    assert kept["result"]["validation"]["loss"]["mean"] == pytest.approx(sum(losses) / 2, rel=1e-4)
    assert kept["result"]["validation"]["loss"]["runs"] == 2
    assert [step for step, _ in kept["curve"]["loss"]] == [1, 2, 3, 4]
    assert str(tmp_path) not in json.dumps(kept)
    text = (tmp_path / "README.md").read_text()
    assert "| [words](words.toml) | language | 0.00 M | validation: loss " in text
    assert text.startswith("Before")
    assert text.endswith("After\n")


def test_the_table_says_where_a_recipe_has_changed_since(record, tmp_path):
    record([trained(tmp_path)])
    (tmp_path / "words.toml").write_text(TEXT.replace("steps = 4", "steps = 5"))
    record(["--table"])
    assert "the recipe has changed since: budget.steps" in (tmp_path / "README.md").read_text()


def test_a_run_from_before_a_field_was_is_of_the_recipe_still(record, tmp_path):
    run = Path(trained(tmp_path)) / "run.json"
    data = json.loads(run.read_text())
    del data["recipe"]["optimiser"]["fall"]
    run.write_text(json.dumps(data))
    assert record([str(run.parent)]) == 0


def test_runs_of_another_recipe_are_not_recorded(record, tmp_path, capsys):
    with pytest.raises(SystemExit, match=r"The most similar is words, with other fields: budget\.batch: 2, now 3"):
        record([trained(tmp_path, "budget.batch=3")])
    assert not (tmp_path / "results").exists()
