"""Columns beside a text, a picture or a sound are tokens of it: a number or a kind that decides what it does not say."""

import csv
import random
import wave

import numpy as np
import pytest
import torch
from PIL import Image

import equiscope as eq
from equiscope.errors import InputError
from equiscope.training import evaluate, load_task, open_task, predict, recipe, resolve_spec, train
from equiscope.training.metadata_columns import MetadataColumns
from equiscope.training.reading import merged
from tests.pairwise import few


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
    assert (number.size, kind.size, metadata.sizes) == (17, 3, [17, 3])
    assert [number.token(cell) for cell in ("-5", "0", "99", "1e9", "", "x")] == [1, 1, 16, 16, 0, 0]
    assert metadata.tokens([("0", "b"), ()]).tolist() == [[1, 2], [0, 0]]  # without a table: unknown
    assert metadata.one_hot(metadata.tokens([("0", "b")]))[0].nonzero().flatten().tolist() == [1, 17 + 2]


def test_a_run_learns_from_the_columns_what_the_texts_do_not_say(here):
    run = train(plain(table(here / "t.csv")), here / "run")
    assert run.result["test"]["accuracy"] > 0.75
    found = evaluate(here / "run", here / "t.csv")["data"]  # without the training data
    assert found["accuracy"].value > 0.75
    text = "offer 7 of a thing"
    rows = [(text, 90, "shop"), (text, 90, "web"), (text, "", "elsewhere")]
    with (here / "new.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("text", "price", "source"), *rows])
    first, second, _ = predict(here / "run", ["new.csv"])
    assert (first.answer, second.answer) == ("dear", "cheap")
    assert predict(here / "run", ["an offer"])  # of which a text alone says nothing
    assert load_task(here / "run")[1].metadata.columns[1].values == ["shop", "web"]


def test_the_model_has_a_table_of_the_columns(here):
    task = open_task(recipe(plain(table(here / "t.csv"))))
    spec = resolve_spec(task)
    assert (spec.vocabulary, spec.input.columns) == (task.tokenizer.size, (17, 3))
    assert task.batch(0).tensors["columns"].shape == (32, 2)


def wavs(folder, names):
    samples = (np.random.default_rng(0).normal(size=(len(names), 800)) * 3000).astype("<i2")
    for name, own in zip(names, samples, strict=True):
        with wave.open(str(folder / name), "wb") as file:
            file.setparams((1, 2, 8000, 0, "NONE", ""))
            file.writeframes(own.tobytes())


def pngs(folder, names):
    pixels = np.random.default_rng(0).integers(0, 256, (len(names), 8, 8), dtype=np.uint8)
    for name, own in zip(names, pixels, strict=True):
        Image.fromarray(own).save(folder / name)


KINDS = {
    "images": (pngs, "png", {"width": 32, "layers": 1, "readout": "mean", "input": {"patch": [4, 4]}}),
    "sounds": (wavs, "wav", {"width": 32, "layers": 1, "readout": "mean"}),
}


@pytest.mark.parametrize("task", few(KINDS, 1))
def test_a_run_of_noise_learns_from_the_columns(here, task):
    """The file is noise: the price and the source decide the class."""
    write, ending, model = KINDS[task]
    chance, rows = random.Random(0), []
    for i in range(160):
        price, source = round(chance.uniform(0, 100), 2), chance.choice(["shop", "web"])
        rows.append((f"{i:03}.{ending}", price, source, "dear" if price > 50 else "cheap"))
    write(here, [row[0] for row in rows])
    with (here / "t.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("path", "price", "source", "label"), *rows])
    made = {
        "title": "noise", "seed": 1,
        "data": {"task": task, "train": "t.csv", "metadata": ["price", "source"], "held_out": 0.2},
        "model": model | {"block": {"attention": {"heads": 2}}},
        "budget": {"steps": 100, "batch": 32}, "optimiser": {"rate": 5e-3, "warmup": 5}, "evaluation": {"every": 30},
    }  # fmt: skip
    run = train(made, here / "run")
    assert run.result["validation"]["accuracy"] > 0.8
    found = evaluate(here / "run", here / "t.csv")["data"]
    assert found["accuracy"].value > 0.8
    assert found.simple["linear"]["accuracy"] > 0.8
    with (here / "new.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("path", "price"), (rows[0][0], 95), (rows[0][0], 5)])
    first, second = predict(here / "run", ["new.csv"])
    assert (first.answer, second.answer) == ("dear", "cheap")
    assert predict(here / "run", [rows[0][0]])  # whose columns are unknown
    model, task = eq.load(here / "run"), load_task(here / "run")[1]
    labels = task.model_inputs(model, rows[0][0]).sequences[0].labels
    assert labels[:2] == ["price: unknown", "source: unknown"]


def test_files_without_a_table_have_unknown_columns_and_a_note_says_so(here):
    rows = [(f"{i}.png", i, "ab"[i % 2]) for i in range(40)]
    pngs(here, [row[0] for row in rows])
    with (here / "t.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("path", "n", "label"), *rows])
    for name in "ab":
        (here / "more" / name).mkdir(parents=True)
        pngs(here / "more" / name, ["1.png"])
    data = {"task": "images", "train": "t.csv", "validation": "more", "metadata": ["n"]}
    made = {"title": "p", "data": data, "model": KINDS["images"][2], "budget": {"steps": 2, "batch": 4}}
    note = "2 of 2 examples of the validation part are not from a table: what stands in n is unknown."
    assert note in open_task(recipe(made)).notes
    made["data"] = {"task": "images", "train": "more", "metadata": ["n"], "held_out": 1}
    (here / "more" / "a" / "2.png").write_bytes((here / "0.png").read_bytes())
    (here / "more" / "b" / "2.png").write_bytes((here / "1.png").read_bytes())
    with pytest.raises(InputError, match=r"data\.metadata names n, which are columns of a table, but 2 training examples are not"):
        open_task(recipe(made))
    made["data"] = {"task": "images", "train": "t.csv", "metadata": ["n"], "augment": {"mixup": 0.5}}
    with pytest.raises(InputError, match="mixes two pictures, whose columns"):
        open_task(recipe(made))


def test_columns_are_tokens_that_every_token_reads_also_under_a_causal_mask():
    block = eq.Block(eq.Attention(heads=2, position="rope", causal=True))
    model = eq.build(eq.Spec(16, 10, input=eq.InputLayer(columns=(3, 4)), readout="first", outputs=2, block=block)).double().eval()
    ids, padding = torch.tensor([[1, 2, 3], [1, 2, 0]]), torch.tensor([[True, True, True], [True, True, False]])
    values = torch.tensor([[1, 2], [1, 2]])
    plain, other = model(ids, columns=values), model(ids, columns=values.flip(0) * 0)
    assert (plain - other).abs().max() > 1e-3
    last = eq.build(eq.Spec(16, 10, input=eq.InputLayer(columns=(3, 4)), readout="last", outputs=2, block=block)).double().eval()
    assert torch.equal(last(ids), last(ids, columns=values * 0))  # the first value of each by default
    assert (last(ids, columns=values) - last(ids)).abs().min() > 1e-4  # causal: the last token reads what is in front
    both, alone = last(ids, valid=padding, columns=values)[1], last(ids[1:, :2], columns=values[1:])[0]
    assert (both - alone).abs().max() < 1e-12
    with pytest.raises(InputError, match=r"Column 1 has the values 0\.\.3"):
        last(ids, columns=values + torch.tensor([0, 2]))
    with pytest.raises(InputError, match="no columns beside its input"):
        eq.build(eq.Spec(8, 10, outputs=2))(ids, columns=values)
    with pytest.raises(InputError, match="the read-out 'each' gives an output of every token"):
        eq.Spec(8, 10, input=eq.InputLayer(columns=(3,)), outputs=2)
    assert eq.Spec.of(model.spec.to_dict()) == model.spec


@pytest.mark.parametrize(
    ("metadata", "said"),
    [
        (["label"], "data.metadata names 'label', which is the input or what is predicted"),
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
