"""Recorded results: from runs to recipes/results, and from there to the table of recipes/README.md.

    python recipes/record.py RUN...       record finished runs of one recipe that differ in their seed alone
    python recipes/record.py --table      write the table again; with --check, say whether it has drifted

One file a recipe: what was run, on which machine, how long it took, the curve with at most 60 points, and what came of it.
Paths of a machine are left out.
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
    parser.add_argument("--check", action="store_true", help="only say whether that table has drifted")
    said = parser.parse_args(words)
    if said.runs:
        name = record([read_run(run) for run in said.runs], signatures(said.runs[0]), folder)
        print(f"wrote recipes/results/{name}.json")
    if said.runs or said.table or said.check:
        return table(said.check, folder)
    parser.print_usage()
    return 2


def record(runs: list[Run], signatures: dict[str, str], folder: Path) -> str:
    """Write what came of the runs of one recipe; the recipe is the one in the folder that they are of. Returns its name.

    signatures  how a number was computed, where that has to be said
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
    """How the numbers of a run were computed: what its task says, and what was written beside its translations."""
    said = dict(load_task(folder)[1].signatures)
    for path in sorted(folder.glob("*.json")):
        found = json.loads(path.read_text(encoding="utf-8"))
        said |= found.get("signatures", {}) if isinstance(found, dict) else {}
    return said


def recipe_of(run: Run, folder: Path) -> str:
    """The recipe of the folder that a run is of: all fields but the seed and the title are the same."""
    near: list[tuple[int, str, list[str]]] = []
    said = recipe(run.recipe).to_dict()  # fields that came later have their defaults
    for path in sorted(folder.glob("*.toml")):
        wrong = [d for d in differences(read_recipe(path).to_dict(), said) if not d.startswith(("seed:", "title:"))]
        if not wrong:
            return path.stem
        near.append((len(wrong), path.stem, wrong))
    _, closest, wrong = min(near)
    sys.exit(f"No recipe here is that of {run.title}. The nearest is {closest}; there: {'; '.join(wrong[:5])}.")


def recorded(runs: list[Run]) -> dict[str, Any]:
    """What is kept of runs that differ in their seed: each one's result, and the mean over them."""
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
    found = {"mean": short(mean(values))}
    return found | ({"deviation": short(stdev(values)), "runs": len(values)} if len(values) > 1 else {})


def curve(run: Run) -> dict[str, list[list[float]]]:
    """Loss of the first run, each point the mean of the steps since the one before; and what was measured on the way."""
    stride = math.ceil(len(run.points) / POINTS)
    groups = [run.points[i : i + stride] for i in range(0, len(run.points), stride)]
    found = {"loss": [[group[-1].step, short(mean(point.loss for point in group))] for group in groups]}
    for score in run.scores:
        for what, value in score.values.items():
            found.setdefault(f"{score.part} {what}", []).append([score.step, short(value)])
    return found


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
        found = folder / "results" / f"{path.stem}.json"
        kept = json.loads(found.read_text(encoding="utf-8")) if found.exists() else None
        fields = read_recipe(path).to_dict()
        cells = [f"[{path.stem}]({path.name})", fields["data"]["task"]]
        cells += measured(kept, changed(kept["fields"], fields)) if kept else ["", "not measured", "", ""]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def published_rows(folder: Path) -> str:
    """Molecules whose numbers others have published; on the test part, where there is one here."""
    lines = ["| forces / energy | ours | frames | MACE | MACE, made again |", "| --- | --- | --- | --- | --- |"]
    for name, published in MACE.items():
        found = folder / "results" / f"{name}.json"
        if not found.exists():
            continue
        kept = json.loads(found.read_text(encoding="utf-8"))
        if changed(kept["fields"], read_recipe(folder / f"{name}.toml").to_dict()):
            continue
        result = kept["result"]
        part = "test" if "test" in result else "validation"
        ours, frames = (result[part][what]["mean"] for what in ("forces", "energy")), result[part]["frames"]["mean"]
        cells = [name, " / ".join(f"{x:.3g}" for x in ours), f"{frames:.0f} of the {part} part"]
        lines.append(f"| {' | '.join([*cells, *(f'{forces} / {energy}' for forces, energy in published)])} |")
    return "\n".join(lines) + "\n"


def changed(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """Fields of a recipe that are others than when it was recorded; a field that there was not then had its default."""
    return [d.partition(":")[0] for d in differences(recipe(old).to_dict(), new) if not d.startswith(("seed:", "title:"))]


def measured(kept: dict[str, Any], changes: list[str]) -> list[str]:
    each = sorted(one["seconds"] for one in kept["each"])
    seeds = f" (seeds {', '.join(map(str, kept['seeds']))})" if len(kept["seeds"]) > 1 else f" (seed {kept['seeds'][0]})"
    results = "<br>".join(
        f"{part}: " + ", ".join(f"{what} {said(value, what)}" for what, value in values.items())
        for part, values in sorted(kept["result"].items(), reverse=True)
    )
    machine = kept["machine"]
    return [
        f"{kept['parameters'] / 1e6:.2f} M",
        results + seeds + (f"<br>the recipe has changed since: {', '.join(changes)}" if changes else ""),
        clock(each[len(each) // 2]),
        machine.get("gpu") or f"{machine['cpu']}, {machine.get('threads', '?')} threads",
    ]


def said(value: dict[str, float], what: str) -> str:
    """A number as people read it, with its spread over seeds."""
    deviation = value.get("deviation")
    if what in ("pictures", "recordings", "lines", "pairs"):
        return f"{value['mean']:,.0f}"
    return f"{value['mean']:.4g}" + (f" ± {deviation:.2g}" if deviation is not None else "")


def clock(seconds: float) -> str:
    return f"{seconds / 60:.1f} min" if seconds < 3600 else f"{seconds / 3600:.1f} h"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
