"""Evaluate a run of every recipe again, and compare the metrics with those that the run recorded.

    python recipes/evaluated.py WORK              every recipe, and docs/why/evaluated.md (about 25 minutes of one core)
    python recipes/evaluated.py WORK copy qm7     some of them, printed
    python recipes/evaluated.py WORK copy --small --steps 2

The run of a recipe is the folder WORK/NAME. Where there is none, one of few steps is trained there, with all of the recipe's data;
or with its table [small] and the samples of this repository, where data is missing, or where `SLOW` names the recipe, since
measuring a model that has learned nothing takes long there. Runs of recipes/trained are the models that come along, with all of
their steps.

`eq.evaluate(run)` measures each part but train. Where a part has files of its own, `eq.evaluate(run, files)` measures them as new
data.
The exit code is 1 if a metric differs by more than rounding, or is missing.
"""

import argparse
import csv
import math
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import equiscope as eq
from equiscope import trained
from equiscope.data import Missing
from equiscope.record.evaluation import EvaluationRecord
from equiscope.record.run import Run, read_run
from equiscope.training import read_recipe

FOLDER = Path(__file__).resolve().parent
PAGE = FOLDER.parent / "docs" / "why" / "evaluated.md"
STEPS = 20
SLOW = ("eltec", "fashion-mnist", "fashion-mnist-plain", "multi30k", "multi30k-lower", "shakespeare-char")
MADE = ("angles", "pitch")  # recipes whose data recipes/tables/make.py makes without further packages
SAME = 1e-5  # relative difference of float32 sums
NOISE = 1e-2  # meV: below it, the change of a prediction under a rotation is rounding itself
# Tasks whose recipes have no test files of their own, with such made of the sample proverbs: their languages, the capitals of words
GENERATED = {"languages": "texts", "capitals": "tags"}
HEADS = ["recipe", "task", "run", "part", "first metric", "recorded", "evaluated", "metrics", "largest difference"]


class Compared(NamedTuple):
    """A part of a run's data, measured again. found: recorded and evaluated values by metric. files: measured as new data."""

    recipe: str
    task: str
    run: str
    part: str
    found: dict[str, tuple[float, float | None]]
    files: bool

    @property
    def difference(self) -> float:
        """The largest relative difference."""
        return max(difference(name, *both) for name, both in self.found.items())

    @property
    def cells(self) -> list[str]:
        name, (recorded, evaluated) = next(iter(self.found.items()))
        values = [f"{recorded:.6g}", "none" if evaluated is None else f"{evaluated:.6g}"]
        part = f"{self.part}, its files as new data" if self.files else self.part
        largest = "0" if not self.difference else f"{self.difference:.1e}"
        return [self.recipe, self.task, self.run, part, name, *values, str(len(self.found)), largest]


def difference(name: str, recorded: float, evaluated: float | None) -> float:
    """The relative difference; infinite for a metric that is missing."""
    if evaluated is None:
        return math.inf
    if recorded == evaluated or (name.startswith("rotated") and max(recorded, evaluated) < NOISE):
        return 0.0
    return abs(recorded - evaluated) / max(abs(recorded), abs(evaluated))


def recipes() -> dict[str, Path]:
    """Every recipe, by the name of its run."""
    files = [path for folder in ("", "synthetic", "tables") for path in sorted((FOLDER / folder).glob("*.toml"))]
    return {path.stem: path for path in files}


def generated(name: str, work: Path) -> dict[str, Any]:
    """The recipe of a task, whose files are written from the sample proverbs."""
    ending = "csv" if name == "languages" else "conll"
    for part in ("train", "test"):
        lines = {
            language: (FOLDER / "samples" / f"proverbs-{part}.{language}").read_text(encoding="utf-8").splitlines()
            for language in ("de", "en")
        }
        with (work / f"{name}-{part}.{ending}").open("w", newline="", encoding="utf-8") as file:
            if name == "languages":
                rows = csv.writer(file)
                rows.writerows([("text", "label"), *((line, language) for language, some in lines.items() for line in some)])
            else:
                tagged = ([f"{word.lower()} {'small' if word.islower() else 'capital'}" for word in x.split()] for x in lines["de"])
                file.writelines("\n".join(words) + "\n\n" for words in tagged)
    files = {part: str(work / f"{name}-{part}.{ending}") for part in ("train", "test")}
    return {
        "title": name, "data": {"task": GENERATED[name], "tokens": "bytes", **files},
        "model": {"width": 32, "layers": 1, "block": {"attention": {"heads": 2}}},
        "budget": {"steps": STEPS, "batch": 16}, "evaluation": {"every": STEPS},
    }  # fmt: skip


def run_of(name: str, path: Path, work: Path, steps: int, small: bool) -> tuple[Path, Run, str]:
    """The run of a recipe, which is trained where there is none; and how it came about."""
    folder = work / name
    if not (folder / "run.json").is_file():
        changes = [f"budget.steps={steps}", f"evaluation.every={steps}", "optimiser.warmup=1", "engine.compile=false"]
        if name in MADE:
            make = [sys.executable, str(FOLDER / "tables" / "make.py"), name, "--out", str(work.resolve() / "data")]
            changes.append(f"data.train={subprocess.run(make, check=True, capture_output=True, text=True).stdout.strip()}")
        try:
            eq.train(path, folder, changes=changes, small=small or name in SLOW)
        except Missing as error:
            print(f"{name}: {error}", file=sys.stderr)
            eq.train(path, folder, changes=changes, small=True)
    run = read_run(folder, entries=False)
    whole = read_recipe(path)
    data = "" if name in MADE or run.recipe["data"] == whole.to_dict()["data"] else ", samples"
    return folder, run, f"{run.steps:,} steps{data}"


def own_files(run: Run, part: str) -> list[str]:
    """The files of a part as a person names them; none where a part is cut from the training files, or frames are left out."""
    data = run.recipe["data"]
    name = data.get(part)
    if name is None or data.get("drop", {}).get(part):
        return []
    names = [name] if isinstance(name, str) else list(name)
    return [str(FOLDER / one) if (FOLDER / one).exists() else one for one in names]


def compared(name: str, folder: str | Path, run: Run, how: str) -> Iterator[Compared]:
    """Each part of a run's data, measured again; then the files of a part as new data."""

    def beside(part: str, record: EvaluationRecord, measured: str, files: bool) -> Compared:
        values, leave = record.result[measured], ("rotated",) if files else ()  # new data is rotated by other random numbers
        found = {key: (x, values.get(key)) for key, x in run.result[part].items() if not key.startswith(leave)}
        return Compared(name, run.task, how, part, found, files)

    whole = eq.evaluate(folder)
    for part in run.result:
        yield beside(part, whole, part, False)
    for part in run.result:
        if files := own_files(run, part):
            yield beside(part, eq.evaluate(folder, files), "data", True)


def all_compared(names: list[str], work: Path, steps: int, small: bool) -> Iterator[Compared]:
    """Every recipe, or those that are named."""
    work.mkdir(parents=True, exist_ok=True)
    for name, path in recipes().items():
        if not names or name in names:
            yield from compared(name, *run_of(name, path, work, steps, small))
    for name in GENERATED:
        if not names or name in names:
            if not (work / name / "run.json").is_file():
                eq.train(generated(name, work), work / name)
            run = read_run(work / name, entries=False)
            yield from compared(f"{name} of proverbs", work / name, run, f"{run.steps:,} steps, samples")
    for name in trained.NAMES:
        if not names or f"trained/{name}" in names:
            run = read_run(trained.path_of(name), entries=False)
            yield from compared(f"trained/{name}", name, run, f"{run.steps:,} steps, comes along")


def main(words: list[str]) -> int:
    """Compare, print and write the page; 1 where a metric differs or is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("names", nargs="*", help="recipes; by default all, and the page is written")
    parser.add_argument("--steps", type=int, default=STEPS, help="of a run that is trained for this")
    parser.add_argument("--small", action="store_true", help="train with the table [small] of each recipe")
    given = parser.parse_args(words)
    lines = [f"| {' | '.join(HEADS)} |", "| --- " * len(HEADS) + "|"]
    print("\n".join(lines))
    found = []
    for one in all_compared(given.names, given.work, given.steps, given.small):
        found.append(one)
        lines.append(f"| {' | '.join(one.cells)} |")
        print(lines[-1], flush=True)
    wrong = [one for one in found if one.difference > SAME]
    if not given.names and not given.small:
        write(found, lines)
    for one in wrong:
        odd = {name: both for name, both in one.found.items() if difference(name, *both) > SAME}
        print(f"{one.recipe}, {one.part}: {odd}", file=sys.stderr)
    return int(bool(wrong) or not found)


def write(found: list[Compared], lines: list[str]) -> None:
    """Write the page."""
    metrics, wrong = sum(len(one.found) for one in found), sum(one.difference > SAME for one in found)
    count = len({one.recipe for one in found})
    head = (__doc__ or "").strip().splitlines()
    text = [
        "<!-- Generated by `python recipes/evaluated.py`. Do not edit. -->", "", "# Recorded and evaluated again", "",
        f"{metrics} metrics of {len(found)} parts of the data of {count} runs: {wrong} parts with a metric that differs by more "
        f"than {SAME:g} of its size. Made by `python recipes/evaluated.py WORK`.", "", *head[6:-1], "",
        f"Sums are float32 or float64, in batches, so a relative difference of up to {SAME:g} is rounding. A change under a "
        f"rotation that is below {NOISE:g} meV is rounding itself, and is not compared. *Metrics*: how many were compared.", "",
    ]  # fmt: skip
    PAGE.write_text("\n".join([*text, *lines]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
