"""recipes/evaluated.py: what a run recorded is what `evaluate` measures, on its own parts and on their files as new data."""

import importlib.util
import json
from pathlib import Path

import pytest

RECIPES = Path(__file__).parents[1] / "recipes"
if not RECIPES.exists():
    pytest.skip("recipes/ is not in the source archive", allow_module_level=True)
FEW = ["--small", "--steps", "2"]


@pytest.fixture(scope="module")
def script():
    found = importlib.util.spec_from_file_location("evaluated", RECIPES / "evaluated.py")
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    return tmp_path_factory.mktemp("work")


NAMES = ["copy", "languages", "capitals", "shakespeare-char-cpu"]
THOROUGH = ["ethanol", "fashion-mnist", "fsdd-mel", "multi30k-lower"]


@pytest.mark.parametrize("name", [*NAMES, *(pytest.param(name, marks=pytest.mark.thorough) for name in THOROUGH)])
def test_evaluate_measures_what_the_run_recorded(script, work, capsys, name):
    assert script.main([str(work), name, *FEW]) == 0
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| ")][2:]
    assert rows
    assert any("its files as new data" in row for row in rows) == (name in ("languages", "capitals", "multi30k-lower"))


def test_a_recorded_figure_that_differs_or_is_not_measured_is_named(script, work, capsys):
    assert script.main([str(work), "languages", *FEW]) == 0
    path = work / "languages" / "run.json"
    run = json.loads(path.read_text())
    run["result"]["test"] |= {"loss": run["result"]["test"]["loss"] * 1.001, "luck": 7.0}
    path.write_text(json.dumps(run))
    assert script.main([str(work), "languages", *FEW]) == 1
    said = capsys.readouterr().err
    assert "languages of proverbs, test: {'loss': (" in said
    assert "'luck': (7.0, None)" in said
    assert "validation" not in said


def test_the_page_is_of_every_recipe_and_of_every_model_that_comes_along(script):
    text = script.PAGE.read_text(encoding="utf-8")
    for name in [
        *script.recipes(),
        *(f"trained/{one}" for one in script.trained.NAMES),
        *(f"{one} of proverbs" for one in script.GENERATED),
    ]:
        assert f"\n| {name} | " in text, name
    assert " 0 parts with a metric that differs" in text
