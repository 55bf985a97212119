"""Labels and numbers of pictures and of sounds, from a table: trained, measured beside simple models, predicted; and refused."""

import csv
import json
import wave

import numpy as np
import pytest
import torch
from PIL import Image

import equiscope as eq
from equiscope.errors import InputError
from equiscope.training import evaluate, open_task, predict, recipe, resolve_spec, train
from equiscope.training.draft import look
from equiscope.training.reading import merged

MODEL = {"width": 16, "layers": 1, "readout": "mean", "block": {"attention": {"heads": 2}}}


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def table(path, header, rows):
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])
    return path


def pictures(folder, count=60):
    """Pictures with a bright row and a bright column: their places are numbers, and whether they are low or right are labels."""
    chance, rows = np.random.default_rng(0), []
    for i in range(count):
        pixels = chance.integers(0, 60, (8, 8))
        down, across = chance.integers(0, 8, 2).tolist()
        pixels[down] += 150
        pixels[:, across] += 40
        Image.fromarray(pixels.astype(np.uint8)).save(folder / f"{i:03}.png")
        labels = ";".join(name for name, there in (("low", down > 3), ("right", across > 3)) if there)
        rows.append((f"{i:03}.png", down + 0.5, 100 * across + 0.5, labels))
    return table(folder / "t.csv", ("file", "down", "across", "labels"), rows)


def tones(folder, count=40):
    """Recordings of a tone: its pitch in hertz is the number."""
    chance, rows = np.random.default_rng(0), []
    for i in range(count):
        pitch = float(chance.uniform(200, 2000))
        seconds = np.arange(1600) / 8000
        samples = 0.5 * np.sin(2 * np.pi * pitch * seconds) + 0.01 * chance.normal(size=1600)
        with wave.open(str(folder / f"{i:03}.wav"), "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(8000)
            file.writeframes((samples * 32767).astype("<i2").tobytes())
        rows.append((f"{i:03}.wav", round(pitch, 1)))
    return table(folder / "t.csv", ("path", "pitch"), rows)


def plain(data, **changes):
    return merged(
        {
            "title": "numbers", "seed": 1, "data": data, "model": MODEL, "budget": {"steps": 80, "batch": 20},
            "optimiser": {"rate": 1e-2, "warmup": 5}, "evaluation": {"every": 40},
        },
        changes,
    )  # fmt: skip


def of_pictures(here, **data):
    given = {"task": "images", "train": str(pictures(here)), "field": "file", "test_held_out": 10, "held_out": 10}
    return plain(given | data, model={"input": {"patch": [4, 4]}, "block": {"attention": {"position": "learned-nd"}}})


def test_numbers_of_pictures_from_a_table_to_an_interval(here):
    run = train(of_pictures(here, numbers=["down", "across"]), here / "run")
    assert list(run.result["test"]) == [
        "mae", "mae down", "rmse down", "r2 down", "mae across", "rmse across", "r2 across", "pictures",
    ]  # fmt: skip
    found = evaluate(here / "run")["test"]
    assert found["r2 down"].value > 0.5
    assert found["r2 down"].low < found["r2 down"].value
    assert set(found.simple) == {"mean", "linear"}
    assert found.simple["mean"]["mae"] > found["mae"].value
    new = evaluate(here / "run", here / "t.csv")["data"]  # without the training data
    assert new["pictures"].value == 60
    answer = predict(here / "run", [str(here / "000.png")])[0]
    assert list(answer.more) == ["down", "across"]
    assert len(predict(here / "run", [str(here / "t.csv")])) == 60  # its column file, as in the recipe


def test_several_labels_of_a_picture(here):
    run = train(of_pictures(here, labels="labels"), here / "run")
    assert list(run.result["test"]) == ["f1", "f1 macro", "exact", "loss", "pictures"]
    assert set(predict(here / "run", [str(here / "000.png")])[0].more) == {"low", "right"}


def test_the_pitch_of_tones_from_a_table(here):
    data = {"task": "sounds", "train": str(tones(here)), "numbers": ["pitch"], "test_held_out": 0.25, "mels": 20}
    run = train(plain(data, model={"block": {"attention": {"position": "rope"}}}), here / "run")
    assert run.result["test"]["r2"] > 0.5
    assert run.result["test"]["recordings"] == 10
    (answer,) = predict(here / "run", [str(here / "000.wav")])
    assert 0 < answer.more["pitch"] < 3000


def test_a_lower_error_is_better(here):
    found = recipe(of_pictures(here, numbers=["down"]))
    task = open_task(found)
    assert (task.better, task.better_for(found)) == ("less", "less")
    classes = recipe(of_pictures(here, label="down", test_held_out=1, held_out=1))
    assert open_task(classes).better == "more"


def test_random_parts_of_numbers_do_not_depend_on_the_folder(here):
    first = open_task(recipe(of_pictures(here, numbers=["down"])))
    second = open_task(recipe(of_pictures(here, numbers=["down"], train="t.csv")))
    assert torch.equal(first.targets["test"], second.targets["test"])
    last = first.pictures.parts["test"].rows.tolist()
    assert last != list(range(50, 60))  # a table may be sorted by its numbers


def test_the_numbers_of_mixed_pictures_are_mixed(here):
    task = open_task(recipe(of_pictures(here, numbers=["down"], augment={"mixup": 1.0})))
    model = eq.build(resolve_spec(task)).eval()
    batch = task.batch(0)
    t = batch.tensors
    outputs = model(t["inputs"])
    both = [task.answer.loss(outputs, t[name], 0.0, "none") for name in ("targets", "other")]
    wanted = (t["part"] * both[0] + (1 - t["part"]) * both[1]).sum()
    assert torch.allclose(task.loss(model, batch), wanted)


def test_faults_of_a_table_come_all_at_once(here):
    path = pictures(here)
    lines = path.read_text(encoding="utf-8").splitlines()
    lines[2] = "001.png,high,0,"
    lines[4] = "gone.png,1,0,"
    lines[6] = "005.png,inf,0,"
    lines[8] = ",1,0,"
    lines.append("000.png,7.25,0,")
    path.write_text("\n".join(lines), encoding="utf-8")
    data = {"task": "images", "train": str(path), "field": "file", "numbers": ["down"]}
    with pytest.raises(InputError) as caught:
        open_task(recipe(plain(data, model={"input": {"patch": [4, 4]}})))
    said = str(caught.value)
    for fault in (
        "t.csv, line 3: down is 'high', and no number.", f"line 5: there is no file {here / 'gone.png'}",
        "line 7: down is inf, and no finite number.", "line 9 has no file in 'file'",
        "line 62: 000.png is [7.25], but a line before",
        "Correct these lines",
    ):  # fmt: skip
        assert fault in said


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"numbers": ["gone"]}, "has the columns file, down, across, labels, but no 'gone'"),
        ({"numbers": ["down"], "labels": "labels"}, "Leave one of them out"),
        ({"numbers": ["down", "down"]}, "data.numbers names 'down' twice"),
        ({"numbers": ["down"], "classes": ["a", "b"]}, "data.classes names classes, but numbers are predicted"),
        ({"field": "path", "numbers": ["down"]}, "but no 'path'. Set data.field to the column with the file names"),
    ],
)
def test_what_a_table_does_not_have_is_refused(here, changes, said):
    with pytest.raises(InputError) as caught:
        open_task(recipe(of_pictures(here, **changes)))
    assert said in str(caught.value)


def test_folders_and_idx_files_have_no_numbers(here):
    pictures(here)
    (here / "a").mkdir()
    for train_, said in (
        (str(here), r"t\.csv has the columns file, down, across, labels, but no 'path'"),
        (str(here / "a"), "is a folder, but numbers are columns of a table"),
        (["x", "y"], "are idx files, but numbers"),
    ):
        (here / "x").touch()
        (here / "y").touch()
        data = {"task": "images", "train": train_, "numbers": ["down"]}
        with pytest.raises(InputError, match=said):
            open_task(recipe(plain(data, model={"input": {"patch": [4, 4]}})))
    tones(here)
    with pytest.raises(InputError, match=r"000\.wav is a recording alone, but numbers are columns of a table"):
        open_task(recipe(plain({"task": "sounds", "train": str(here / "000.wav"), "numbers": ["pitch"]})))


def test_new_understands_a_table_of_pictures_with_numbers_or_classes(here):
    pictures(here)
    draft = look([str(here)])  # the table among its pictures
    assert (draft.data["field"], draft.data["numbers"]) == ("file", ["down", "across"])
    assert "for each 2 numbers: down (from 0.5 to 7.5), across (from 0.5 to 700.5)" in draft.understood[0]
    assert "augment" not in draft.data  # which would change the numbers
    assert "Not used: labels." in draft.understood[-1]
    open_task(recipe(draft.recipe()))
    rows = [(f"{i:03}.png", "cat" if i % 2 else "dog", i) for i in range(60)]
    draft = look([str(table(here / "u.csv", ("filename", "label", "number"), rows))])
    assert (draft.data["field"], draft.data["label"]) == ("filename", "label")
    assert open_task(recipe(draft.recipe())).classes == ["cat", "dog"]
    with pytest.raises(InputError, match="none of its other columns is of classes or of numbers"):
        look([str(table(here / "v.csv", ("filename", "n"), [(f"{i:03}.png", i) for i in range(60)]))])


def test_new_understands_a_table_of_sounds_with_numbers(here):
    (here / "t").mkdir()
    draft = look([str(tones(here / "t"))])
    assert (draft.data["task"], draft.data["numbers"]) == ("sounds", ["pitch"])
    for name, content in draft.files.items():
        (here / name).write_text(content)
    counts = {part: len(some) for part, some in open_task(recipe(draft.recipe())).recordings.parts.items()}
    assert counts == {"train": 28, "test": 8, "validation": 4}


def test_a_table_of_lists_names_pictures_too(here):
    pictures(here)
    rows = [{"file": f"{i:03}.png", "labels": ["low"] if i % 2 else ["low", "right"]} for i in range(60)]
    (here / "t.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    task = open_task(recipe(of_pictures(here, labels="labels") | {"data": {
        "task": "images", "train": str(here / "t.jsonl"), "field": "file", "labels": "labels",
    }}))  # fmt: skip
    assert task.answer.labels == ["low", "right"]
