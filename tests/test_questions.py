"""Every question that comes along can be asked: its candidates fit the small form of its recipe, before anything is trained."""

import importlib.util
from pathlib import Path

import pytest

from equiscope.comparison.plan import make_plan
from equiscope.comparison.question import is_question, read_question, seeds_of
from tests.pairwise import few

FOLDER = Path(__file__).parents[1] / "recipes" / "questions"
QUESTIONS = sorted(FOLDER.glob("*.toml"))


@pytest.mark.parametrize("path", few(QUESTIONS, 3), ids=lambda path: path.stem)
def test_every_candidate_of_a_question_fits_its_recipe(path):
    assert is_question(path)
    question, recipe, beside = read_question(path, [], small=True)
    candidates = question.candidates(recipe.to_dict()["data"]["task"], path)
    made = make_plan(
        recipe, beside, candidates, seeds_of(question.seeds, recipe.seed), question=question.question, equal=question.equal
    )  # fmt: skip
    assert len(made.candidates) == len(candidates) >= 2
    assert made.question.endswith("?")


def test_the_table_of_answers_is_up_to_date():
    found = importlib.util.spec_from_file_location("record_answers", FOLDER / "record.py")
    script = importlib.util.module_from_spec(found)
    found.loader.exec_module(script)
    assert script.main(["--check"]) == 0


def test_the_small_form_overrides_the_budget_that_a_question_sets():
    recipe = read_question(FOLDER / "schemes-sizes.toml", [], small=True)[1]
    assert (recipe.budget.steps, recipe.budget.batch, recipe.optimiser.kind) == (120, 32, "adamw")
    assert read_question(FOLDER / "schemes-sizes.toml", ["budget.steps=130"], small=True)[1].budget.steps == 130
