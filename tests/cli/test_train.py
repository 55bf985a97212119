"""`equiscope train`, `evaluate`, `predict` on the command line: what is printed where, and which words do not go together."""

import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.cli.test_cli import equi, refused  # noqa: F401

from equiscope.cli.train import TrainingProgress, clock, encoded, numbers, recorded_time
from equiscope.record.run import Point
from equiscope.training.verbs import folder_name

WORDS = """title = "Words"
data = { task = "language", train = "words.txt", context = 8 }
model = { width = 8, layers = 1, block = { attention = { heads = 2, position = "rope", causal = true } } }
budget = { steps = 4, batch = 2 }
evaluation = { every = 2 }
"""


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """A folder with a recipe and its text."""
    (tmp_path / "words.toml").write_text(WORDS)
    (tmp_path / "words.txt").write_text("to be or not to be, that is the question\n" * 20)
    monkeypatch.chdir(tmp_path)


def test_a_run_lies_where_its_recipe_and_changes_say(equi, tmp_path):  # noqa: F811
    assert equi("train", "words.toml")[0] == 0
    assert equi("train", "words.toml", "--set", "seed=1")[0] == 0
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == ["words", "words-seed=1"]


def test_many_changes_make_no_long_name():
    some = [f"optimiser.rate={n}e-4" for n in range(9)]
    names = {folder_name(Path("words.toml"), True, some[:n]) for n in range(10)} | {folder_name(Path("words.toml"), False, some)}
    assert len(names) == 11
    assert "words-small-optimiser.rate=0e-4" in names
    assert all(len(name) <= 80 for name in names)
    assert len(folder_name(Path(f"{'ü' * 100}.toml"), False, []).encode()) <= 80


def test_progress_is_on_the_error_stream_and_the_answer_on_the_output(equi, tmp_path):  # noqa: F811
    code, out, err = equi("train", "words.toml", "--out", "run", "--json")
    assert code == 0
    said = json.loads(out)
    assert (said["state"], said["folder"], said["steps"]) == ("finished", "run", 4)
    assert "points" not in said
    assert err.splitlines()[0] == "Words: run"
    assert [line.split(":")[0] for line in err.splitlines() if line.startswith("step")] == ["step 0", "step 2", "step 4"]
    code, out, err = equi("train", "run")
    assert (code, "run is finished: 4 steps." in err) == (0, True)
    assert out.splitlines()[0].startswith("Words: finished, 0:0")


def test_a_recipe_with_a_recorded_run_says_how_long_that_took():
    folder = Path(__file__).parents[2] / "recipes"
    for path in sorted((folder / "results").glob("*.json")):
        said = recorded_time(folder / f"{path.stem}.toml")
        assert re.fullmatch(r"The recorded run took [\d:]+ of training on \d+ cores? \(.+\)\.", said), path
    assert recorded_time(folder / "nowhere.toml") == ""


def test_without_a_terminal_a_line_tells_the_step_and_the_time_left(capsys):
    with TrainingProgress(100, quiet=True, every=0.0, recorded="The recorded run took 5:00.") as progress:
        for step, seconds in ((1, 60.0), (2, 61.0), (51, 110.0)):  # the first step compiles, and does not count
            progress.entry(Point(step=step, loss=2.0, rate=1e-3, norm=1.0, seconds=seconds, tokens=1234.5))
    lines = capsys.readouterr().err.splitlines()
    said = "The other steps take about 0:49 here, and evaluations besides. The recorded run took 5:00."
    assert lines.pop(2) == said
    assert [line.rpartition(" (")[0] for line in lines] == [
        "step 1 of 100: loss 2.000, 1,234 tokens/s",
        "step 2 of 100: loss 2.000, 1,234 tokens/s, about 1:38 left",
        "step 51 of 100: loss 2.000, 1,234 tokens/s, about 0:49 left",
    ]


def test_evaluate_measures_the_parts_and_predict_answers(equi, monkeypatch):  # noqa: F811
    equi("train", "words.toml", "--out", "run")
    code, out, _ = equi("evaluate", "run")
    assert code == 0
    assert out.startswith("validation:\n  loss ")
    best, last = (json.loads(equi("evaluate", "run", *more, "--json")[1]) for more in ([], ["--last"]))
    assert (best["weights"], last["weights"]) == ("best", "last")
    refused(equi("evaluate", "run", "--part", "exam"), "There is no part of this run's data called 'exam'. Known: ", "validation")
    code, out, _ = equi("predict", "run", "to be", "or", "--steps", 5, "--temperature", 0, "--json")
    assert code == 0
    assert [(one["input"], len(one["answer"])) for one in json.loads(out)] == [("to be", 5), ("or", 5)]
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(b"to be\r\nor\n")))
    assert equi("predict", "run", "-", "--steps", 5, "--temperature", 0, "--json")[1] == out
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(b"\xff")))
    refused(equi("predict", "run", "-"), "What is piped in is not UTF-8")
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO()))
    refused(equi("predict", "run", "-"), "Nothing is piped in")
    assert equi("predict", "run", "to", "--steps", 5, "--seed", 3)[1] == equi("predict", "run", "to", "--steps", 5, "--seed", 3)[1]


def test_evaluate_refuses_data_that_is_not_the_runs(equi, tmp_path):  # noqa: F811
    equi("train", "words.toml", "--out", "run")
    words = tmp_path / "words.txt"
    words.write_text(words.read_text().replace("q", "Q"))  # as many signs, other ones
    refused(equi("evaluate", "run"), "run was trained on other data: ", "words.txt with sha256", "Bring the old file back")


def test_mistakes_are_sentences(equi, tmp_path):  # noqa: F811
    refused(equi("train", "nowhere.toml"), "There is no recipe nowhere.toml. This folder has words.toml.")
    refused(equi("train", "."), "is a folder without run.json")
    refused(equi("train", "n" * 300), "cannot be read: File name too long")
    refused(equi("train", "words.toml", "--out", "n" * 300), "File name too long. Choose another folder with --out.")
    refused(equi("evaluate", "words.toml"), "words.toml is a file, but a run is a folder with run.json. Give a folder")
    refused(equi("predict", "words.txt", "x"), "words.txt is a file, but a run is a folder with run.json. Give a folder")
    refused(equi("evaluate", "."), "is no run: it has no run.json")
    refused(equi("predict", "nowhere", "x"), "is no run")
    equi("train", "words.toml", "--out", "run")
    refused(equi("train", "run", "--small"), "is a run, which goes on by its own recipe")
    for verb in ("evaluate", "predict"):
        refused(equi(verb, "run", "to", "--out", "a.extxyz"), "--out writes .csv, .json, .jsonl by the suffix, but got 'a.extxyz'.")
    code, out, _ = equi("predict", "run", "to", "--steps", 1, "--out", "a.csv")
    assert (code, out) == (0, "1 prediction: a.csv\n")
    refused(equi("train", "run", "--set", "seed=2"), "is a run, which goes on by its own recipe")
    refused(equi("train", "run", "--out", "other"), "is a run, which goes on by its own recipe, where it is", "--out")
    refused(equi("predict", "run", "to", "--top", 2), "There is no option of the task language called 'top'. Did you mean top_p?")
    refused(equi("predict", "run", ""), "There is no text to continue")
    refused(equi("predict", "run", "Ω"), "Ω")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "mine.txt").write_text("mine")
    refused(equi("train", "words.toml", "--out", "other"), "other holds other files, and no run")
    assert [path.name for path in (tmp_path / "other").iterdir() if path.name != ".lock"] == ["mine.txt"]


def test_a_number_that_is_none_is_null():
    assert json.loads(encoded({"loss": float("nan"), "far": [float("inf"), 1.5]})) == {"loss": None, "far": [None, 1.5]}


def test_numbers_are_short():
    assert numbers({"loss": 1.234567, "accuracy": 0.5}) == "loss 1.235, accuracy 0.5"
    assert [clock(seconds) for seconds in (5, 65, 3725)] == ["0:05", "1:05", "1:02:05"]


def test_a_mask_by_documents_takes_texts_that_have_some(equi, tmp_path):  # noqa: F811
    (tmp_path / "words.txt").write_text("to be or\n\nnot to be, that is the question\n\n" * 20)
    masked = ("train", "words.toml", "--out", "run", "--set", "model.block.attention.mask=documents")
    refused(equi(*masked), "there is no data.separator", "Set it, such as")
    refused(equi("compare", "words.toml", "--vary", "mask=causal,documents", "--out", "both"), "Candidate 'documents'")
    assert not [path for path in (tmp_path / "run", tmp_path / "both") if path.exists()]
    assert equi(*masked, "--set", r'data.separator="\n\n"')[0] == 0
    assert equi("predict", "run", "to be\n\nnot")[0] == 0


LEAKY = """
import equiscope as eq


class Leaky(eq.attention.MultiHeadAttention):
    name = "leaky"

    def forward(self, *args, **kwargs):
        return (y := super().forward(*args, **kwargs)) + y.mean(-2, keepdim=True)
"""


@pytest.mark.parametrize("verb", ["train", pytest.param("compare", marks=pytest.mark.thorough)])
def test_a_leaking_model_ends_the_command_with_1_before_a_number_is_reported(tmp_path, verb):
    (tmp_path / "sitecustomize.py").write_text(LEAKY)  # what Python imports at its start, in every process
    recipe = WORDS.replace("causal = true", 'causal = true, kind = "leaky"').replace("every = 2", "every = 2, guard = true")
    (tmp_path / "words.toml").write_text(recipe)
    options = ["--vary", "heads=1,2", "--seeds", "1", "--processes", "2"] if verb == "compare" else []
    command = [sys.executable, "-m", "equiscope.cli", verb, "words.toml", "--out", "run", *options]
    path = os.pathsep.join(filter(None, (str(tmp_path), os.environ.get("PYTHONPATH"))))
    environment = os.environ | {"PYTHONPATH": path}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 1, done.stderr
    assert re.search(
        r"the output at position \d+ changes by .* when token \d+ is replaced .*: it reads later tokens\.", done.stderr
    )
    assert "Traceback" not in done.stderr
    assert done.stdout == "" or done.stdout.startswith("No run has a number yet, so nothing can be compared.")
    assert not re.search(r"^step ", done.stderr, re.MULTILINE)
