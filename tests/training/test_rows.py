"""Rows of a table alone: each column is a token; trained, measured beside simple models, predicted; drafted; and refused."""

import csv
import json
import random

import pytest

import equiscope as eq
from equiscope.errors import InputError
from equiscope.training import evaluate, load_task, open_task, predict, recipe, resolve_spec, train
from equiscope.training.draft import ChosenColumns, look
from equiscope.training.reading import merged
from tests.training.test_draft import opened


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def table(path, count=200, seed=0):
    """Whether a fruit is ripe depends on its weight, by its kind; its price is its weight."""
    chance, rows = random.Random(seed), []
    for i in range(count):
        weight, kind = round(chance.uniform(50, 250), 1), chance.choice(["apple", "pear"])
        ripe = weight > (100 if kind == "apple" else 180)
        rows.append((i, weight, kind, round(weight / 100 + chance.gauss(0, 0.05), 2), "ripe" if ripe else "green"))
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("number", "weight", "kind", "price", "state"), *rows])
    return path


def plain(**changes):
    return merged(
        {
            "title": "fruit",
            "data": {"task": "rows", "train": "t.csv", "columns": ["weight", "kind"], "label": "state", "test_held_out": 0.2},
            "model": {"width": 16, "layers": 2, "block": {"attention": {"heads": 2}}},
            "budget": {"steps": 120, "batch": 32}, "optimiser": {"rate": 1e-2, "warmup": 5}, "evaluation": {"every": 60},
        },
        changes,
    )  # fmt: skip


def test_a_class_of_rows_is_learned_measured_and_predicted(here):
    run = train(plain(), here / "run")
    assert run.result["test"]["accuracy"] > 0.85
    table(here / "new.csv", 80, seed=1)
    found = evaluate(here / "run", here / "new.csv")["data"]
    assert found["accuracy"].value > 0.85
    assert set(found.simple) == {"majority", "linear"}
    assert "kind" in found.worst[0].text
    (here / "ask.jsonl").write_text('{"weight": 140, "kind": "apple"}\n{"weight": 140, "kind": "pear"}\n{"kind": "plum"}\n')
    first, second, _ = predict(here / "run", ["ask.jsonl"])
    assert (first.given, first.answer, second.answer) == ("weight 140, kind apple", "ripe", "green")
    model, task = eq.load(here / "run"), load_task(here / "run")[1]
    inputs = task.model_inputs(model, "ask.jsonl")
    assert inputs.sequences[0].labels == ["weight 140", "kind apple"]
    assert model(*inputs.args).shape == (1, 2)
    with pytest.raises(InputError, match="There is no table gone"):
        predict(here / "run", ["gone"])
    (here / "other.csv").write_text("weight,colour\n140,red\n")
    with pytest.raises(InputError, match=r"but no 'kind'\. Give a table with the columns that the run reads"):
        predict(here / "run", ["other.csv"])


@pytest.fixture(autouse=True)
def fruit(here):
    table(here / "t.csv")


def test_a_number_of_rows_is_learned(here):
    run = train(plain(data={"numbers": ["price"]}), here / "run")
    assert run.result["test"]["r2"] > 0.8


def test_the_model_has_a_token_of_each_column():
    task = open_task(recipe(plain()))
    spec = resolve_spec(task)
    assert (spec.vocabulary, spec.readout, task.batch(0).tensors["inputs"].shape) == (17 + 3, "mean", (32, 2))
    assert int(task.batch(0).tensors["inputs"][:, 1].min()) >= 17


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"columns": []}, "data.columns names no column"),
        ({"columns": ["weight", "state"]}, "'state', which is what is predicted"),
        ({"columns": ["weight", "gone"]}, "but no 'gone'. Set data.columns"),
        ({"numbers": ["kind"]}, "data.columns names 'kind', which is what is predicted"),
        ({"columns": ["weight"], "numbers": ["kind"]}, "kind is 'apple', and no number"),
    ],
)
def test_columns_that_do_not_fit_are_refused(data, said):
    made = plain()
    made["data"] |= data
    with pytest.raises(InputError) as caught:
        open_task(recipe(made))
    assert said in str(caught.value)
    for model in ({"readout": "each"}, {"vocabulary": 7}):
        with pytest.raises(InputError, match=r"gives no one answer a row|but the data needs 20"):
            resolve_spec(open_task(recipe(plain(model=model))))


def test_a_table_of_numbers_and_kinds_is_drafted(here):
    draft = look(["t.csv"])
    assert (draft.data["task"], draft.data["label"], draft.data["columns"]) == ("rows", "state", ["weight", "kind", "price"])
    assert "Predicted is state, the last column. For another one: --target NAME." in draft.understood
    assert any(one.endswith("nearly as many categories as rows: number.") for one in draft.understood)
    assert sorted(opened(draft).parts) == ["test", "train", "validation"]
    other = look(["t.csv"], wanted=ChosenColumns(target="price"))
    assert (other.data["numbers"], other.data["columns"]) == (["price"], ["weight", "kind", "state"])
    opened(other)
    with pytest.raises(InputError, match=r"There is no column of t\.csv called 'prise'.*price"):
        look(["t.csv"], wanted=ChosenColumns(target="prise"))
    (here / "a.txt").write_text("a text")
    with pytest.raises(InputError, match="--metadata and --target name columns of a table, but these texts have none"):
        look(["a.txt"], wanted=ChosenColumns(target="x"))


def test_a_target_is_chosen_beside_texts_and_its_metadata_read(here):
    rows = [(f"a text with number {i}", i * 0.5, "ab"[i % 2], f"c{i % 3}") for i in range(60)]
    with (here / "said.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("words", "size", "kind", "label"), *rows])
    draft = look(["said.csv"], wanted=ChosenColumns(["size"], "kind"))
    assert (draft.data["field"], draft.data["label"], draft.data["metadata"]) == ("words", "kind", ["size"])
    assert "Read with each text, as tokens of it: size (60 different numbers)." in " ".join(draft.understood)
    assert opened(draft).metadata.sizes == [17]
    with pytest.raises(InputError, match="--target and --metadata both name 'size'"):
        look(["said.csv"], wanted=ChosenColumns(["size"], "size"))
    with pytest.raises(InputError, match="'words', which has 60 different values in 60 rows and is no column of numbers"):
        look(["said.csv"], wanted=ChosenColumns(target="words"))


def test_few_rows_and_missing_targets_are_refused(here):
    (here / "few.csv").write_text("a,b\n" + "".join(f"{i * 1.5},{i % 2}\n" for i in range(10)))
    with pytest.raises(InputError, match=r"few\.csv has 10 rows, too few for three parts"):
        look(["few.csv"])
    (here / "gaps.jsonl").write_text("".join(json.dumps({"a": i * 1.5, "y": i % 2 if i else None}) + "\n" for i in range(40)))
    with pytest.raises(InputError, match="1 row without anything in the column y"):
        look(["gaps.jsonl"])
