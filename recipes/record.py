"""Record the results of runs in recipes/results, and write the table of recipes/README.md from them.

    python recipes/record.py RUN...       record finished runs of one recipe that differ only in their seed
    python recipes/record.py --table      write the table; with --check, report whether it is out of date

Each recipe has one file: its fields, the machine, the time, the curve with at most 60 points, and the results. It holds no paths of
the machine.
"""

import argparse
import json
import math
import sys
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import msgspec

from equiscope.record import Run, read_run
from equiscope.training import load_task, read_recipe, recipe
from equiscope.training.reading import differences

FOLDER = Path(__file__).parent  # of the recipes, results/ and README.md
BEGIN, END = "<!-- table: python recipes/record.py --table -->", "<!-- end of the table -->"
PUBLISHED = "<!-- beside published numbers: python recipes/record.py --table -->"
# Of rMD17, forces in meV/Å and energy in meV: in the paper, and after 1,000 epochs in github.com/kcheng0407/mace-rmd17-benchmark
MACE = {
    "ethanol": ((2.1, 0.4), (2.7, 0.4)),
    "malonaldehyde": ((4.1, 0.8), (6.0, 0.8)),
    "uracil": ((2.1, 0.5), (3.6, 0.6)),
    "aspirin": ((6.6, 2.2), (8.9, 2.4)),
}
POINTS = 60


def main(words: list[str], folder: Path = FOLDER) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="*", type=Path)
    parser.add_argument("--table", action="store_true", help="write the table of recipes/README.md")
    parser.add_argument("--check", action="store_true", help="only report whether that table is out of date")
    arguments = parser.parse_args(words)
    if arguments.runs:
        name = record([read_run(run) for run in arguments.runs], signatures(arguments.runs[0]), folder)
        print(f"wrote recipes/results/{name}.json")
    if arguments.runs or arguments.table or arguments.check:
        return table(arguments.check, folder)
    parser.print_usage()
    return 2


def record(runs: list[Run], signatures: dict[str, str], folder: Path) -> str:
    """Write the results of runs of one recipe, and return the name of that recipe in the folder.

    signatures  how some numbers are computed, by name
    """
    name = recipe_of(runs[0], folder)
    for run in runs:
        if run.state != "finished":
            sys.exit(f"A run is {run.state}, not finished: {run.title}, seed {run.seed}.")
        others = [d for d in differences(runs[0].recipe, run.recipe) if not d.startswith("seed:")]
        if others:
            sys.exit(f"These runs are of two recipes: {'; '.join(others)}.")
    (folder / "results").mkdir(exist_ok=True)
    text = json.dumps({"recipe": name, **recorded(runs), "signatures": signatures}, ensure_ascii=False)
    text = msgspec.json.format(text, indent=1) + "\n"
    (folder / "results" / f"{name}.json").write_text(text, encoding="utf-8")
    return name


def signatures(folder: Path) -> dict[str, str]:
    """How the numbers of a run are computed: signatures of its task, and of the files of its translations."""
    collected = dict(load_task(folder)[1].signatures)
    for path in sorted(folder.glob("*.json")):
        content = json.loads(path.read_text(encoding="utf-8"))
        collected |= content.get("signatures", {}) if isinstance(content, dict) else {}
    return collected


def recipe_of(run: Run, folder: Path) -> str:
    """The name of the recipe in the folder that a run has trained: all fields but the seed and the title are equal."""
    near: list[tuple[int, str, list[str]]] = []
    fields = recipe(run.recipe).to_dict()  # fields that are newer than the run have their defaults
    for path in sorted(folder.glob("*.toml")):
        wrong = [d for d in differences(read_recipe(path).to_dict(), fields) if not d.startswith(("seed:", "title:"))]
        if not wrong:
            return path.stem
        near.append((len(wrong), path.stem, wrong))
    _, closest, wrong = min(near)
    sys.exit(f"No recipe here is that of {run.title}. The most similar is {closest}, with other fields: {'; '.join(wrong[:5])}.")


def recorded(runs: list[Run]) -> dict[str, Any]:
    """The record of runs that differ in their seed: the result of each, and the mean."""
    first = runs[0]
    parts = {
        part: {what: spread([run.result[part][what] for run in runs]) for what in values} for part, values in first.result.items()
    }
    return {
        "task": first.task,
        "title": first.title,
        "seeds": [run.seed for run in runs],
        "result": parts,
        "each": [{"seed": run.seed, "seconds": round(run.seconds, 1), "result": run.result} for run in runs],
        "parameters": first.parameters,
        "steps": first.steps,
        "processes": first.processes,
        "machine": first.machine,
        "versions": first.versions,
        "data": [{"name": s.name, "part": s.part, "bytes": s.bytes, "sha256": s.sha256} for s in first.data],
        "fields": first.recipe,
        "curve": curve(first),
    }


def spread(values: list[float]) -> dict[str, float]:
    """Mean, and standard deviation where there are several."""
    statistics = {"mean": short(mean(values))}
    return statistics | ({"deviation": short(stdev(values)), "runs": len(values)} if len(values) > 1 else {})


def curve(run: Run) -> dict[str, list[list[float]]]:
    """The loss of the first run, each point averaged over the steps since the point before, and the scores during training."""
    stride = math.ceil(len(run.points) / POINTS)
    groups = [run.points[i : i + stride] for i in range(0, len(run.points), stride)]
    curves = {"loss": [[group[-1].step, short(mean(point.loss for point in group))] for group in groups]}
    for score in run.scores:
        for what, value in score.values.items():
            curves.setdefault(f"{score.part} {what}", []).append([score.step, short(value)])
    return curves


def short(value: float) -> float:
    return float(f"{value:.5g}")


def table(check: bool, folder: Path) -> int:
    """Write the table, or compare it."""
    readme = folder / "README.md"
    text = fresh = readme.read_text(encoding="utf-8")
    for begin, lines in ((BEGIN, rows(folder)), (PUBLISHED, published_rows(folder))):
        before, there, rest = fresh.partition(begin)
        _, _, after = rest.partition(END)
        if there or begin == BEGIN:
            fresh = f"{before}{begin}\n\n{lines}\n{END}{after}"
    if check:
        same = fresh == text
        print("recipes/README.md is up to date" if same else "recipes/README.md is stale: python recipes/record.py --table")
        return int(not same)
    readme.write_text(fresh, encoding="utf-8")
    return 0


def rows(folder: Path) -> str:
    lines = ["| recipe | task | parameters | result | took | on |", "| --- | --- | --- | --- | --- | --- |"]
    for path in sorted(folder.glob("*.toml")):
        result_file = folder / "results" / f"{path.stem}.json"
        result = json.loads(result_file.read_text(encoding="utf-8")) if result_file.exists() else None
        fields = read_recipe(path).to_dict()
        cells = [f"[{path.stem}]({path.name})", fields["data"]["task"]]
        cells += measured(result, changed(result["fields"], fields)) if result else ["", "not measured", "", ""]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def published_rows(folder: Path) -> str:
    """The table of molecules with published numbers; on the test part where a result has one."""
    lines = ["| forces / energy | ours | frames | MACE | MACE, reproduced |", "| --- | --- | --- | --- | --- |"]
    for name, published in MACE.items():
        result_file = folder / "results" / f"{name}.json"
        if not result_file.exists():
            continue
        recorded_result = json.loads(result_file.read_text(encoding="utf-8"))
        if changed(recorded_result["fields"], read_recipe(folder / f"{name}.toml").to_dict()):
            continue
        result = recorded_result["result"]
        part = "test" if "test" in result else "validation"
        ours, frames = (result[part][what]["mean"] for what in ("forces", "energy")), result[part]["frames"]["mean"]
        cells = [name, " / ".join(f"{x:.3g}" for x in ours), f"{frames:.0f} of the {part} part"]
        lines.append(f"| {' | '.join([*cells, *(f'{forces} / {energy}' for forces, energy in published)])} |")
    return "\n".join(lines) + "\n"


def changed(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """The fields of a recipe that have changed since it was recorded; a field that is newer had its default then."""
    return [d.partition(":")[0] for d in differences(recipe(old).to_dict(), new) if not d.startswith(("seed:", "title:"))]


def measured(result: dict[str, Any], changes: list[str]) -> list[str]:
    each = sorted(one["seconds"] for one in result["each"])
    seeds = f" (seeds {', '.join(map(str, result['seeds']))})" if len(result["seeds"]) > 1 else f" (seed {result['seeds'][0]})"
    results = "<br>".join(
        f"{part}: " + ", ".join(f"{what} {with_spread(value, what)}" for what, value in values.items())
        for part, values in sorted(result["result"].items(), reverse=True)
    )
    machine = result["machine"]
    return [
        f"{result['parameters'] / 1e6:.2f} M",
        results + seeds + (f"<br>the recipe has changed since: {', '.join(changes)}" if changes else ""),
        clock(each[len(each) // 2]),
        machine.get("gpu") or f"{machine['cpu']}, {machine.get('threads', '?')} threads",
    ]


def with_spread(value: dict[str, float], what: str) -> str:
    """A number in words, with its spread over seeds."""
    deviation = value.get("deviation")
    if what in ("pictures", "recordings", "lines", "pairs"):
        return f"{value['mean']:,.0f}"
    return f"{value['mean']:.4g}" + (f" ± {deviation:.2g}" if deviation is not None else "")


def clock(seconds: float) -> str:
    return f"{seconds / 60:.1f} min" if seconds < 3600 else f"{seconds / 3600:.1f} h"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
