"""Synthetic tasks as a task: learned, measured at longer inputs, asked by a person, and refused in sentences."""

import importlib.util
from pathlib import Path

import pytest
import torch

import equiscope as eq
from equiscope.comparison import of_folder
from equiscope.comparison.plan import make_plan
from equiscope.comparison.vary import parse_vary
from equiscope.errors import InputError
from equiscope.training import open_task, read_recipe, recipe, resolve_spec

FOLDER = Path(__file__).parents[2] / "recipes" / "synthetic"
RECIPES = sorted(FOLDER.glob("*.toml"))
WORDS = {
    "copy": ("3 1 4", 3), "reverse": ("3 1 4 |", 3), "sort": ("3 1 2", 3), "recall": ("k1 v2 k3 v1 k1", 1),
    "induction": ("5 6 7 5", 1), "back": ("1 2 3 4 5 6", 2), "parity": ("1 0 1", 3), "addition": ("5 7", 1),
}  # fmt: skip


def small(name, *changes):
    return read_recipe(
        FOLDER / f"{name}.toml", ["budget.steps=2", "optimiser.warmup=0", "evaluation.every=2", *changes], small=True
    )


@pytest.fixture(scope="module")
def suite():
    found = importlib.util.spec_from_file_location("suite", FOLDER / "suite.py")
    script = importlib.util.module_from_spec(found)
    found.loader.exec_module(script)
    return script


@pytest.mark.parametrize("name", WORDS)
def test_a_run_answers_questions_and_is_measured_at_another_length(name, tmp_path):
    run = eq.train(small(name), tmp_path / "run")
    assert {"accuracy", "exact", "loss", "chance"} == set(run.result["test"])
    question, answers = WORDS[name]
    [answer] = eq.predict(tmp_path / "run", [question])
    assert len(answer.answer.split()) == answers
    assert answer.text() == answer.answer
    if name == "addition":
        return
    longer = eq.evaluate(tmp_path / "run", ["40"]).result["data"]
    assert 0 <= longer["accuracy"] <= 1
    again = eq.evaluate(tmp_path / "run", [str(run.recipe["data"]["length"])]).result["data"]
    assert again == pytest.approx(run.result["test"]), "the trained length is the test part"


@pytest.mark.usefixtures("unchecked")  # of a stand-in for a model
@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_a_perfect_answer_is_scored_as_one(path):
    task = open_task(read_recipe(path))
    inputs, targets = task.generated.examples("validation")

    class Perfect(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.zeros(1))

        def forward(self, ids):
            rows = [int((inputs == row).all(1).nonzero()[0]) for row in ids]
            return 20.0 * torch.nn.functional.one_hot(targets[rows].clamp(min=0), len(task.generated.words))

    found = task.evaluate(Perfect())
    assert found["accuracy"] == found["exact"] == 1
    assert found["loss"] < 1e-3


@pytest.mark.thorough  # tests/study/test_facts.py has a smaller task
def test_a_model_learns_the_token_four_back_by_rope_and_not_without_positions():
    """One hundred steps of the recipe on small batches; measured 1.00 and 0.19."""
    accuracy = {}
    for scheme in ("rope", "none"):
        changes = ["budget.steps=100", "budget.batch=32", "evaluation.every=100", f"model.block.attention.position={scheme}"]
        task = open_task(read_recipe(FOLDER / "back.toml", changes))
        torch.manual_seed(0)
        model = eq.build(resolve_spec(task))
        optimiser = torch.optim.AdamW(model.parameters(), 3e-3)
        for step in range(100):
            batch = task.batch(step)
            (task.loss(model, batch) / batch.terms).backward()
            optimiser.step()
            optimiser.zero_grad()
        accuracy[scheme] = task.evaluate(model)["accuracy"]
    assert accuracy["rope"] > 0.9
    assert accuracy["none"] < 0.5


def test_the_share_of_a_step_is_independent_of_the_number_of_processes():
    task = open_task(read_recipe(FOLDER / "recall.toml"))
    whole, parts = task.batch(5), [task.batch(5, share, 3) for share in range(3)]
    assert [part.terms for part in parts] == [whole.terms] * 3
    assert sum(part.size for part in parts) == whole.size
    assert torch.equal(parts[1].tensors["targets"], whole.tensors["targets"][1::3])


@pytest.mark.parametrize(
    ("name", "question", "message"),
    [
        ("copy", "3 99", r"'99' is not a symbol of this task, which has 0 to 15\. Separate symbols by spaces\."),
        ("recall", "k1 x", r"'x' is not a symbol of this task, which has k0 to k7 and v0 to v7"),
        ("recall", "k1 v1 k2", r'The last symbol asks what followed it before, such as "k0 k1 k0"'),
        ("back", "1 2 3", r"The answer is the token 4 before, but got 3 tokens\. Give more\."),
        ("addition", "1 2 3", r"Addition is of two numbers"),
        ("sort", "", r"There is no question\. Give at least one symbol\."),
    ],
)  # fmt: skip
def test_a_question_without_an_answer_is_refused(name, question, message):
    task = open_task(read_recipe(FOLDER / f"{name}.toml"))
    with pytest.raises(InputError, match=message):
        task.predict(eq.build(resolve_spec(task)), [question])


def test_new_data_of_a_generated_task_is_a_length(tmp_path):
    eq.train(small("copy"), tmp_path / "run")
    for wrong in (["book.txt"], ["8", "16"], ["0"]):
        with pytest.raises(
            InputError, match=r"generated, not read: evaluate takes the length of their inputs, such as `evaluate RUN 64`"
        ):
            eq.evaluate(tmp_path / "run", wrong)


def test_a_model_that_would_see_the_answer_is_refused():
    with pytest.raises(InputError, match=r"causal is false: each position would attend to the token that it predicts"):
        resolve_spec(open_task(read_recipe(FOLDER / "copy.toml", ["model.block.attention.causal=false"])))
    resolve_spec(open_task(read_recipe(FOLDER / "addition.toml", ["model.block.attention.causal=false"])))


def test_a_table_shorter_than_the_inputs_of_training_is_refused_before_training(tmp_path):
    with pytest.raises(InputError, match="15"):
        eq.train(small("copy", "model.block.attention.position={scheme='learned',length=15}"), tmp_path / "run")
    assert not (tmp_path / "run" / "run.json").exists()


def test_a_value_that_does_not_fit_names_what_does():
    data = read_recipe(FOLDER / "copy.toml").to_dict()
    data["data"]["generate"] = "copying"
    with pytest.raises(InputError, match=r'data\.generate is "copying", but takes "addition" or "back" or "copy"'):
        recipe(data)


def test_every_scheme_of_one_axis_is_a_candidate_of_the_suite(suite):
    base = read_recipe(FOLDER / "recall.toml", small=True)
    plan = make_plan(base, FOLDER, suite.candidates(base), [1])
    assert len(plan.candidates) == 21
    assert "lstm" in plan.candidates


def test_a_short_suite_has_every_length_and_its_tables(suite, tmp_path, capsys):
    """Two schemes, one task, a few steps; a second call finds nothing left to do."""
    arguments = (tmp_path, ["back"], 1, 1, True, ["none", "learned"])
    threads = torch.get_num_threads()
    assert suite.run(*arguments) == 0
    assert suite.run(*arguments) == 0
    torch.set_num_threads(threads)
    assert "2 runs, 0 left" in capsys.readouterr().out
    found = of_folder(tmp_path / "back")
    assert found.axis == "symbols of input"
    none, learned = (next(t for t in found.trials if t.candidate == name) for name in ("none", "learned"))
    assert [one.factor for one in none.extrapolation] == [1, 2, 4, 8]
    assert none.extrapolation[0].value == pytest.approx(none.value)
    assert [one.value is None for one in learned.extrapolation] == [False, True, True, True]
    assert "128" in learned.extrapolation[3].reason
    text = suite.one_task("back", found)
    assert "| `learned` | 0." in text
    assert "| – | – | – |" in text


def test_the_tables_of_the_suite_are_up_to_date(suite):
    assert suite.main(["table", "--check"]) == 0


def test_a_comparison_of_addition_has_no_other_length(tmp_path):
    names = parse_vary(["position=none,rope"], "synthetic")
    plan = make_plan(small("addition"), FOLDER, names, [1])
    assert plan.varied == ["model.block.attention.position"]
