"""Evaluation with intervals, alone and of two runs on the same examples; texts with a class, labels or numbers."""

import csv
import json
import shutil
import wave

import numpy as np
import pytest
import torch
from scipy import stats

import equiscope as eq
from equiscope.errors import InputError
from equiscope.record.evaluation import MetricValue
from equiscope.training import answers, evaluation, measures, open_task, recipe, simple_model
from tests.cli.test_cli import equi, refused  # noqa: F401

WORDS = {"animal": ("cat", "dog", "hen"), "plant": ("oak", "elm", "fir")}
TARGETS = {"class": {}, "labels": {"labels": "tags"}, "numbers": {"numbers": ["letters", "words"]}}


def rows(count, start=0):
    draw = np.random.default_rng(start)
    for i in range(start, start + count):
        label = "animal" if draw.random() < 0.5 else "plant"
        text = " ".join(draw.choice(WORDS[label], int(draw.integers(1, 6)))) + f" {i}"
        tags = ";".join(word for word in ("cat", "oak") if word in text)
        yield {"text": text, "label": label, "tags": tags, "letters": len(text), "words": len(text.split())}


def table(path, some):
    some = list(some)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, some[0])
        writer.writeheader()
        writer.writerows(some)
    return path


def plain(folder, kind="class", **changes):
    head = {"heads": 2, "position": "rope"}
    return {
        "title": kind, "data": {"task": "texts", "train": str(folder / "train.csv"), "tokens": "bytes", **TARGETS[kind]},
        "model": {"width": 16, "layers": 1, "block": {"attention": head}}, "budget": {"steps": 30, "batch": 8},
        "optimiser": {"rate": 1e-2}, "evaluation": {"every": 15},
    } | changes  # fmt: skip


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    base = tmp_path_factory.mktemp("texts")
    table(base / "train.csv", rows(80))
    table(base / "new.csv", rows(40, 1000))
    for kind in TARGETS:
        eq.train(plain(base, kind), base / kind)
    eq.train(plain(base, seed=1), base / "seed-1")
    return base


@pytest.mark.parametrize("kind", TARGETS)
def test_an_evaluation_of_the_runs_own_part_equals_the_recorded_figures(runs, kind):
    found, run = eq.evaluate(runs / kind), eq.record.run.read_run(runs / kind)
    for name, value in run.result["validation"].items():
        assert found["validation"][name].value == pytest.approx(value, rel=1e-6)
    assert len(found["validation"].examples) == 8


def test_texts_are_measured_alike_in_every_form(runs, tmp_path):
    some = list(csv.DictReader((runs / "new.csv").open()))
    (tmp_path / "lines.jsonl").write_text("".join(json.dumps(row) + "\n" for row in some))
    for i, row in enumerate(some):
        (tmp_path / "folder" / row["label"]).mkdir(parents=True, exist_ok=True)
        (tmp_path / "folder" / row["label"] / f"{i}.txt").write_text(row["text"])
    shutil.make_archive(str(tmp_path / "packed"), "gztar", tmp_path / "folder")
    wanted = eq.evaluate(runs / "class", runs / "new.csv").result["data"]
    assert wanted["texts"] == 40
    for form in ("lines.jsonl", "folder", "packed.tar.gz", "*.jsonl"):
        assert eq.evaluate(runs / "class", tmp_path / form).result["data"] == pytest.approx(wanted)
    assert len(eq.predict(runs / "class", [str(runs / "new.csv")])) == 40


def test_two_runs_are_compared_on_the_same_examples(runs):
    found = eq.evaluate(runs / "class", runs / "new.csv", other=runs / "seed-1")["data"]
    one = next(d for d in found.differences if d.name == "accuracy")
    assert one.difference == pytest.approx(one.first - one.second)
    assert one.low <= one.difference <= one.high
    assert 0 <= one.p <= 1
    same = eq.evaluate(runs / "class", runs / "new.csv", other=runs / "class")["data"].differences[0]
    assert (same.difference, same.low, same.high, same.p) == (0, 0, 0, 1)
    with pytest.raises(InputError, match="do not read the same examples"):
        eq.evaluate(runs / "class", runs / "new.csv", other=runs / "labels")


def test_all_faults_of_a_table_are_named_at_once(runs, tmp_path):
    (tmp_path / "bad.csv").write_text("text,letters,words\na b,3,2\nc,many,1\n,1,1\nd,nan,1\n")
    with pytest.raises(InputError) as error:
        eq.evaluate(runs / "numbers", tmp_path / "bad.csv")
    said = str(error.value)
    assert "bad.csv, line 3: letters is 'many', and no number." in said
    assert "line 4 has an empty text" in said
    assert "line 5: letters is nan, and no finite number." in said
    assert said.endswith("Correct these lines, or take them out.")


def test_the_command_writes_answers(equi, runs, tmp_path):  # noqa: F811
    code, out, _ = equi("evaluate", runs / "class", runs / "seed-1", runs / "new.csv", "--out", tmp_path / "a.csv")
    assert code == 0
    assert "Difference from" in out
    assert "McNemar" in out
    assert len(list(csv.DictReader((tmp_path / "a.csv").open()))) == 40
    refused(equi("evaluate", runs / "class", runs / "new.csv", "--out", "a.png"), "--out writes .csv, .json, .jsonl")
    code, *_ = equi("predict", runs / "numbers", runs / "new.csv", "--out", tmp_path / "p.jsonl")
    assert code == 0
    first = json.loads((tmp_path / "p.jsonl").read_text().splitlines()[0])
    assert {"letters", "words"} <= first.keys()


def test_a_run_starts_from_a_model_with_other_outputs(runs):
    data = plain(runs, "numbers")["data"] | {"tokens": "checkpoint"}
    start = {"start": str(runs / "class")}
    run = eq.train(plain(runs, "numbers", data=data, model=start), runs / "tuned")
    assert (run.state, run.spec["outputs"]) == ("finished", 2)
    own, before = (eq.load(runs / name).state_dict() for name in ("tuned", "class"))
    assert own.keys() == before.keys(), "the same layers"
    with pytest.raises(InputError, match="model may only add"):
        eq.train(plain(runs, data=data, model=start | {"width": 8}), runs / "none")


def test_a_class_that_training_does_not_have_is_refused(runs, tmp_path):
    table(tmp_path / "new.csv", [{"text": "granite", "label": "stone"}])
    with pytest.raises(InputError, match="has the class 'stone', which is none of: animal, plant"):
        eq.evaluate(runs / "class", tmp_path / "new.csv")
    with pytest.raises(InputError, match="both say what is predicted"):
        eq.train(recipe(plain(runs) | {"data": plain(runs)["data"] | TARGETS["labels"] | TARGETS["numbers"]}), tmp_path / "run")


# --- simple models beside a run -------------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", TARGETS)
def test_simple_models_stand_beside_the_metrics_on_the_same_examples(runs, kind):
    pytest.importorskip("sklearn")
    part = eq.evaluate(runs / kind, runs / "new.csv")["data"]
    first = part.metrics[0].name
    without, linear = part.simple.values()
    assert first in without
    assert (linear[first] < without[first]) == (kind == "numbers"), "it has learned something: a lower error, a higher score"
    if kind == "class":
        answers = [row["label"] for row in csv.DictReader((runs / "new.csv").open())]
        train = [row["label"] for row in csv.DictReader((runs / "train.csv").open())]
        most = max(set(train), key=train.count)
        assert without["accuracy"] == answers.count(most) / 40


def test_counts_become_tf_idf_as_scikit_learn_computes_it():
    text = pytest.importorskip("sklearn.feature_extraction.text")
    texts = ["a cat and a dog", "a dog a dog", "the cat", "oak and elm and oak", "an elm"]
    counts = text.CountVectorizer(min_df=2).fit_transform(texts)
    wanted = text.TfidfTransformer(sublinear_tf=True).fit_transform(counts)
    found = simple_model._prepared([counts], simple_model._terms([counts]))
    assert np.abs(found.toarray() - wanted.toarray()).max() < 1e-6  # the rarities are stored in float32


@pytest.mark.parametrize("kind", ["class", "labels", "numbers"])
def test_the_penalty_of_the_linear_model_is_chosen_on_examples_that_were_left_out(kind):
    pytest.importorskip("sklearn")
    draw = np.random.default_rng(0)
    x = draw.normal(size=(400, 60))
    hidden = x[:, :3].sum(-1) + draw.normal(size=400)  # the other 57 features are noise
    targets = {
        "class": [str(h > 0) for h in hidden],
        "labels": [["up"] if h > 0 else [] for h in hidden],
        "numbers": hidden[:, None].tolist(),
    }
    answer = answers.of_targets(kind, targets[kind][:100], ["hidden"])
    encoded = answer.encoded(targets[kind])

    def error(weight, bias):
        outputs = torch.from_numpy(x[100:] @ weight.T + bias).float()
        return answer.outcomes([""] * 300, outputs, encoded[100:], "examples").errors.mean()

    chosen = error(*simple_model._chosen(answer, x[:100], encoded[:100]))
    assert chosen < 0.9 * error(*simple_model._fitted(answer, x[:100], encoded[:100], True, 1000.0))


def test_a_label_that_every_example_has_and_a_class_that_a_fold_lacks_are_fitted():
    pytest.importorskip("sklearn")
    x = np.random.default_rng(1).normal(size=(12, 2))
    labels = answers.of_targets("labels", [["all", "some"], ["all"]] * 6)
    weight, bias = simple_model._chosen(labels, x, labels.encoded([["all", "some"], ["all"]] * 6))
    assert (weight[0] == 0).all()
    assert bias[0] == 30
    classes = answers.of_targets("class", ["a"] * 6 + ["b"] * 5 + ["c"])
    weight, bias = simple_model._chosen(classes, x, classes.encoded(["a"] * 6 + ["b"] * 5 + ["c"]))
    assert weight.shape == (3, 2)
    assert np.isfinite(weight).all()


# --- intervals ------------------------------------------------------------------------------------------------------------
def test_wilsons_interval_is_that_of_scipy():
    assert measures.wilson(0, 7)[0] == 0.0
    assert measures.wilson(7, 7)[1] == 1.0
    for right, count in ((0, 5), (3, 10), (981, 1000), (9, 9)):
        ci = stats.binomtest(right, count).proportion_ci(method="wilson")
        assert measures.wilson(right, count) == pytest.approx((ci.low, ci.high))


def test_a_bootstrap_interval_of_a_mean_is_about_the_normal_one_and_covers():
    draw = np.random.default_rng(0)
    x = draw.normal(3, 2, 400)
    (found,) = measures.intervals([measures.mean("mean", x)])
    half = 1.96 * x.std() / 20
    assert found == pytest.approx((x.mean() - half, x.mean() + half), abs=0.02)


def test_f1_and_r2_are_those_of_scikit_learn():
    judge = pytest.importorskip("sklearn.metrics")
    draw = np.random.default_rng(1)
    true, predicted = draw.integers(0, 4, 60), draw.integers(0, 3, 60)
    eye = np.eye(4)
    assert measures.f1("f1", eye[true], eye[predicted]).point == pytest.approx(judge.f1_score(true, predicted, average="macro"))
    x, y = draw.normal(size=60), draw.normal(size=60)
    assert measures.explained("r2", x, y).point == pytest.approx(judge.r2_score(x, y))


# --- the sentence above the metrics ---------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("metrics", "simple", "better", "said"),
    [
        ([("accuracy", 0.9, 0.85, 0.94)], {"linear": {"accuracy": 0.8}}, "more",
         "Accuracy 0.9 (95 % interval 0.85 to 0.94), ahead of the best simple model (linear: 0.8)."),
        ([("accuracy", 0.9, 0.85, 0.94)], {"a": {"accuracy": 0.2}, "b": {"accuracy": 0.91}}, "more",
         "not clearly different from the best simple model (b: 0.91)"),
        ([("mae", 2.0, 1.9, 2.1)], {"mean": {"mae": 3.0}, "linear": {"mae": 1.5}}, "less",
         "MAE 2 (95 % interval 1.9 to 2.1), behind the best simple model (linear: 1.5)"),
        ([("forces", 7.0, 6.0, 8.0), ("energy", 1.0, 0.9, 1.1)], {"linear": {"energy": 9.0}}, "less",
         "Forces 7 (95 % interval 6 to 8). Energy 1 (95 % interval 0.9 to 1.1), ahead of the best simple model (linear: 9)."),
        ([("loss", 2.0, None, None)], {}, "less", "Loss 2."),
        ([("loss", None, None, None)], {"a": {"loss": 1.0}}, "less", "Loss no number."),
    ],
)  # fmt: skip
def test_a_sentence_says_whether_the_simple_models_are_worse(metrics, simple, better, said):
    values = [MetricValue(name=name, value=value, low=low, high=high) for name, value, low, high in metrics]
    assert said in evaluation._summary(values, simple, better)


def test_the_folds_of_the_simple_model_do_not_divide_a_group():
    """Every speaker has one class: by rows, the features of a speaker would be enough to know it again."""
    groups = [f"speaker {i // 10}" for i in range(40)] + ["", ""]
    folds = simple_model._folds(np.random.default_rng(0).permutation(42), groups)
    assert sorted(np.concatenate(folds).tolist()) == list(range(42))
    assert all(len({k for k, fold in enumerate(folds) for i in fold.tolist() if i // 10 == g}) == 1 for g in range(4))
    assert [len(fold) for fold in simple_model._folds(np.arange(9), ["one"] * 9)] == [3, 3, 3]  # one group: by rows
    chance = np.random.default_rng(1)
    label = np.repeat(np.arange(8) % 2, 30)
    voice = np.repeat(chance.normal(size=(8, 20)), 30, axis=0) + 0.1 * chance.normal(size=(240, 20))
    answer = answers.OneClass(classes=["a", "b"], counts=[120, 120])
    named = [str(i // 30) for i in range(240)]
    by_rows, by_groups = (
        simple_model._chosen(answer, voice, torch.from_numpy(label), given)[0] for given in ((), named)
    )  # fmt: skip
    assert np.abs(by_groups).sum() < np.abs(by_rows).sum()  # a voice that was never heard is not known: a stronger penalty


def test_the_groups_of_sounds_are_what_parts_them(tmp_path):
    for name in ("no_ann_1", "yes_ann_2", "no_bob_1", "yes_bob_2", "no_cy_1", "yes_cy_2", "no_dee_1", "yes_dee_2"):
        samples = (np.random.default_rng(len(name) + ord(name[3])).normal(size=1600) * 3000).astype("<i2")
        with wave.open(str(tmp_path / f"{name}.wav"), "wb") as file:
            file.setparams((1, 2, 8000, 0, "NONE", ""))
            file.writeframes((samples + ord(name[-3]) + ord(name[-1])).astype("<i2").tobytes())
    data = {
        "task": "sounds", "train": str(tmp_path), "pattern": "{label}_{speaker}_{index}",
        "where": {"validation": {"speaker": ["ann"]}, "test": {"speaker": ["bob"]}},
    }  # fmt: skip
    made = {
        "title": "said",
        "data": data,
        "model": {"width": 8, "block": {"attention": {"heads": 2}}},
        "budget": {"steps": 1, "batch": 2},
    }
    assert open_task(recipe(made)).simple_groups("train") == ["cy", "dee", "cy", "dee"]
