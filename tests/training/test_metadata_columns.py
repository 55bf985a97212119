"""Columns beside a text are tokens of it: a number or a kind that decides what the text does not say."""

import csv
import random

import pytest

from equiscope.errors import InputError
from equiscope.training import evaluate, load_task, open_task, predict, recipe, resolve_spec, train
from equiscope.training.metadata_columns import MetadataColumns
from equiscope.training.reading import merged


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def table(path, count=120):
    """The text says nothing of the class; the number and the source decide it."""
    chance, rows = random.Random(0), []
    for i in range(count):
        price, source = round(chance.uniform(0, 100), 2), chance.choice(["shop", "web"])
        rows.append((f"offer {i} of a thing", price, source, "dear" if (price > 50) == (source == "shop") else "cheap"))
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("text", "price", "source", "label"), *rows])
    return path


def plain(path, **changes):
    return merged(
        {
            "title": "offers", "seed": 1,
            "data": {
                "task": "texts", "train": str(path), "metadata": ["price", "source"], "vocabulary": 280, "test_held_out": 0.2,
            },
            "model": {"width": 32, "layers": 2, "block": {"attention": {"heads": 2, "position": "rope"}}},
            "budget": {"steps": 100, "batch": 32}, "optimiser": {"rate": 5e-3, "warmup": 5}, "evaluation": {"every": 50},
        },
        changes,
    )  # fmt: skip


def test_a_column_is_cut_into_ranges_or_has_its_values():
    rows = [(str(i), "ab"[i % 2]) for i in range(100)]
    metadata = MetadataColumns.of(["n", "kind"], rows)
    number, kind = metadata.columns
    assert (number.size, kind.size, metadata.size) == (17, 3, 20)
    assert [number.token(cell) for cell in ("-5", "0", "99", "1e9", "", "x")] == [1, 1, 16, 16, 0, 0]
    assert metadata.tokens(("0", "b")) == [1, 17 + 2]
    assert metadata.tokens(()) == [0, 17]  # unknown
    assert metadata.one_hot([metadata.tokens(("0", "b"))])[0].nonzero().flatten().tolist() == [1, 19]


def test_a_run_learns_from_the_columns_what_the_texts_do_not_say(here):
    run = train(plain(table(here / "t.csv")), here / "run")
    assert run.result["test"]["accuracy"] > 0.75
    found = evaluate(here / "run", here / "t.csv")["data"]  # without the training data
    assert found["accuracy"].value > 0.75
    rows = [("offer", 90, "shop"), ("offer", 90, "web"), ("offer", "", "elsewhere")]
    with (here / "new.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("text", "price", "source"), *rows])
    first, second, _ = predict(here / "run", ["new.csv"])
    assert (first.answer, second.answer) == ("dear", "cheap")
    assert predict(here / "run", ["an offer"])  # of which a text alone says nothing
    assert load_task(here / "run")[1].metadata.columns[1].values == ["shop", "web"]


def test_the_vocabulary_has_the_tokens_of_the_columns(here):
    task = open_task(recipe(plain(table(here / "t.csv"))))
    assert resolve_spec(task).vocabulary == task.tokenizer.size + 17 + 3
    assert int(task.batch(0).tensors["inputs"][:, 0].min()) >= task.tokenizer.size


@pytest.mark.parametrize(
    ("metadata", "said"),
    [
        (["label"], "data.metadata names 'label', which is the text or what is predicted"),
        (["price", "price"], "or twice"),
        (["gone"], "but no 'gone'"),
    ],
)
def test_columns_that_cannot_be_read_beside_are_refused(here, metadata, said):
    with pytest.raises(InputError) as caught:
        open_task(recipe(plain(table(here / "t.csv"), data={"metadata": metadata})))
    assert said in str(caught.value)


def test_a_column_that_says_nothing_or_too_much_is_refused():
    with pytest.raises(InputError, match="'n', which has 1 value in the training part"):
        MetadataColumns.of(["n"], [("a",)] * 5)
    with pytest.raises(InputError, match="'n', which has 501 different values and is no column of numbers"):
        MetadataColumns.of(["n"], [(f"a{i}",) for i in range(501)])
