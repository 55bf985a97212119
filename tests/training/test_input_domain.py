"""Inputs unlike the training part: which numbers of a picture, a recording or a text say so, in `evaluate` and in `predict`."""

import json

import numpy as np
import pytest
import soundfile
from PIL import Image

from equiscope.errors import InputError
from equiscope.training import NEW, evaluation_task, fit, load_run, load_task, open_task, recipe
from equiscope.training.evaluation import evaluated
from equiscope.training.input_domain import FILE, InputDomain, InputNumbers
from equiscope.training.labelled_texts import TextsTask
from tests.training import test_translation

HERTZ = 8000


def numbers(*rows, names=("size", "weight")):
    return InputNumbers(names, [1.0] * len(names), np.array(rows, dtype=np.float64))


def spread(count, seed=0):
    return numbers(*np.random.default_rng(seed).normal([10, 100], [1, 5], (count, 2)))


def test_one_percent_of_the_validation_part_is_beyond_the_limit():
    domain = InputDomain.of(spread(2000), spread(1000, 1))
    assert (domain.distances(spread(1000, 1)) > 1).mean() <= 0.01
    assert (domain.distances(spread(5000, 2)) > 1).mean() < 0.03


def test_the_reason_is_the_most_unusual_number():
    domain = InputDomain.of(spread(2000), spread(1000, 1))
    odd = numbers((10, 300), (50, 100), (10, 100))
    assert (domain.distances(odd) > 1).tolist() == [True, True, False]
    assert domain.reason(odd, 0).startswith("weight 300, in training 8")
    assert domain.reason(odd, 1).startswith("size 50, in training 7.")


def test_a_number_that_is_always_the_same_in_training_may_differ_a_little():
    domain = InputDomain.of(numbers(*[(8, 8)] * 50), numbers(*[(8, 8)] * 10))
    assert domain.distances(numbers((8.9, 8), (8, 12))).tolist() == [pytest.approx(0.9), pytest.approx(4.0)]
    assert domain.reason(numbers((8, 12)), 0) == "weight 12, in training 8"


def test_what_was_written_is_read_and_another_file_refused(tmp_path):
    domain = InputDomain.of(spread(50), spread(20, 1), "ff00")
    assert InputDomain.read(tmp_path, ("size", "weight")) is None
    domain.write(tmp_path)
    assert InputDomain.read(tmp_path, ("size", "weight")) == domain
    with pytest.raises(InputError, match="does not fit this run"):
        InputDomain.read(tmp_path, ("size",))
    (tmp_path / FILE).write_text("{}")
    with pytest.raises(InputError, match=FILE):
        InputDomain.read(tmp_path, ("size", "weight"))


# --------------------------------------------------------------------------------------------------------------- tasks
def pictures(folder, change=lambda pixels: pixels, each=30):
    chance = np.random.default_rng(0)
    for name in ("light", "dark"):
        (folder / name).mkdir(parents=True)
        for i in range(each):
            pixels = chance.integers(0, 60, (8, 8)) + (60 if name == "light" else 20)
            Image.fromarray(change(pixels).astype(np.uint8)).save(folder / name / f"{i:02}.png")


def sounds(folder, rate=HERTZ, each=30):
    chance = np.random.default_rng(0)
    for name, low in (("low", 300), ("high", 600)):
        (folder / name).mkdir(parents=True)
        for i in range(each):
            time = np.arange(int(0.3 * rate)) / rate
            wave = 0.3 * np.sin(2 * np.pi * (low + chance.integers(0, 200)) * time) + 0.01 * chance.normal(size=len(time))
            soundfile.write(folder / name / f"{i:02}.wav", wave, rate)


def texts(path, words, each=40):
    chance = np.random.default_rng(0)
    rows = [(" ".join(chance.choice(words, 6)) + f" {label}", label) for _ in range(each) for label in ("good", "bad")]
    path.write_text("text,label\n" + "".join(",".join(row) + "\n" for row in rows), encoding="utf-8")


BLOCK = {"attention": {"heads": 2, "position": "rope"}}
BUDGET = {"budget": {"steps": 2, "batch": 4}, "evaluation": {"samples": 0}}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A run of each task, and data of another kind: inverted pictures, sounds of another rate, texts of other words."""
    base = tmp_path_factory.mktemp("domain")
    pictures(base / "pictures")
    pictures(base / "inverted", lambda pixels: 255 - pixels, 5)
    sounds(base / "sounds")
    sounds(base / "fast", 2 * HERTZ, 5)
    texts(base / "texts.csv", ["apple", "bear", "cloud", "door", "eagle"])
    texts(base / "greek.csv", ["μῆλον", "ἄρκτος", "νεφέλη", "θύρα"], 5)
    data = {
        "images": ({"train": str(base / "pictures")}, {"input": {"patch": [4, 4]}}),
        "sounds": ({"train": str(base / "sounds"), "rate": HERTZ, "longest": 0.3}, {"readout": "mean"}),
        "texts": ({"train": str(base / "texts.csv"), "vocabulary": 300}, {}),
    }
    for task, (where, model) in data.items():
        block = {"attention": {"heads": 2}} if task == "images" else BLOCK
        found = recipe(
            {
                "title": task,
                "data": {"task": task, "held_out": 0.3, **where},
                "model": {"width": 8, "layers": 1, "block": block, **model},
            }
            | BUDGET
        )
        fit(found, open_task(found), base / f"run-{task}")
    return base


OTHERS = [
    ("images", "inverted", "pictures", "brightness"), ("sounds", "fast", "sounds", "samples a second of the file 16,000"),
    ("texts", "greek.csv", "texts.csv", "tokens "),
]  # fmt: skip


@pytest.mark.parametrize(("task", "odd", "usual", "reason"), OTHERS)
def test_evaluate_names_examples_unlike_the_training_part(runs, task, odd, usual, reason):
    run = runs / f"run-{task}"
    for name, warned in ((odd, True), (usual, False)):
        _, found = evaluation_task(run, [str(runs / name)])
        part = evaluated(found, load_run(run), NEW, folder=run)
        assert bool(part.warnings) == warned, part.warnings
        far = [example.more["distance"] > 1 for example in part.examples]
        assert all(far) if warned else sum(far) <= 0.05 * len(far)
    _, found = evaluation_task(run, [str(runs / odd)])
    (sentence,) = evaluated(found, load_run(run), NEW, folder=run).warnings
    assert sentence.startswith("10 of 10 examples are unlike the training part, such as ")
    assert reason in sentence
    assert sentence.endswith("% are right.")


@pytest.mark.parametrize(("task", "odd", "usual", "reason"), OTHERS)
def test_predict_warns_of_an_input_unlike_the_training_part(runs, task, odd, usual, reason):
    _, found = load_task(runs / f"run-{task}")
    model = load_run(runs / f"run-{task}")
    answers = found.predict(model, [str(runs / odd)])
    assert all("is unlike the training part: " in answer.warning for answer in answers)
    assert reason in answers[0].warning
    assert sum(bool(answer.warning) for answer in found.predict(model, [str(runs / usual)])) <= 3
    json.dumps([answer.arrays for answer in answers])


def test_a_text_of_tokens_that_training_never_had_is_far_whatever_the_vocabulary(runs):
    _, task = load_task(runs / "run-texts")
    assert isinstance(task, TextsTask)
    assert task.domain is not None
    (answer,) = task.predict(load_run(runs / "run-texts"), ["zzz qqq xxx jjj vvv kkk"])
    assert "share of tokens that training never had" in answer.warning
    (run, usual) = (load_run(runs / "run-texts"), "apple cloud door eagle bear apple good")
    assert not task.predict(run, [usual])[0].warning


def test_a_source_of_other_words_is_unlike_those_of_a_translation(tmp_path):
    found = test_translation.asked(tmp_path, budget={"steps": 2}, optimiser={"warmup": 0})
    task = open_task(found)
    fit(found, task, tmp_path / "run")
    _, task = load_task(tmp_path / "run")
    answers = task.predict(load_run(tmp_path / "run"), [test_translation.PAIRS[0][0], "μῆλον ἄρκτος νεφέλη θύρα"], beams=1)
    assert [bool(answer.warning) for answer in answers] == [False, True]
    assert "characters a token" in answers[1].warning or "tokens" in answers[1].warning


def test_a_run_without_a_domain_says_nothing(runs):
    (runs / "run-texts" / FILE).rename(runs / "run-texts" / "aside.json")
    try:
        _, task = load_task(runs / "run-texts")
        assert not task.predict(load_run(runs / "run-texts"), ["μῆλον"])[0].warning
    finally:
        (runs / "run-texts" / "aside.json").rename(runs / "run-texts" / FILE)
