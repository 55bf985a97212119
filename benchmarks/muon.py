"""The speed of our Muon in a training step, relative to torch's: ethanol has many small matrices, fashion-mnist-plain larger ones.

    python -m benchmarks.muon            ethanol compiled, as in the recipe (a minute or two): a table, and benchmarks/results
    python -m benchmarks.muon --quick    the small forms of the recipes, two turns, nothing is saved

Torch's Muon multiplies in bfloat16. Ours does so where the CPU has instructions for it, and otherwise in float32. A step is data,
forces or logits, gradient, both optimisers and the average of the weights. The two sides take turns in one process; seconds are CPU
seconds of the process. Our Muon stays if some recipe trains at least 1.2 times as fast with it.
"""

import argparse
import datetime
import time

import torch
from benchmarks.machine import ROOT, machine, save, versions

from equiscope.models import build
from equiscope.training import open_task, read_recipe, resolve_spec
from equiscope.training import optimiser as rules
from equiscope.training.engine import TrainingEngine
from equiscope.training.muon import Muon

WAYS = {"ours": Muon, "torch": torch.optim.Muon}
RECIPES = {  # what differs from each recipe: samples instead of its data, and float32 with products of the model
    "ethanol": ("data.train=samples/ethanol.npz", "data.test=none", "data.train_count=32", "data.held_out=8", "data.drop={}"),
    "fashion-mnist-plain": (
        'data.train=["samples/fashion-images.gz", "samples/fashion-labels.gz"]', "data.test_held_out=100", "data.held_out=100",
        "engine.compile=false", "engine.precision=float32",
    ),
}  # fmt: skip


def engine(name, kind, quick):
    """An engine of the recipe on its samples, with this optimiser for matrices, and its task."""
    path = ROOT / "recipes" / f"{name}.toml"
    recipe = read_recipe(path, ("engine.compile=false", "engine.precision=float32") if quick else RECIPES[name], quick)
    task, ours = open_task(recipe, path.parent), rules.Muon
    torch.manual_seed(0)
    model = task.init_model(build(resolve_spec(task)))
    rules.Muon = kind
    try:
        return TrainingEngine(recipe, model), task
    finally:
        rules.Muon = ours


def measured(recipe, quick, turns, steps=4):
    """Seconds of a step in each turn; the first turn compiles and is not counted."""
    engines = {name: engine(recipe, kind, quick) for name, kind in WAYS.items()}
    spent = {name: [] for name in WAYS}
    for turn in range(turns + 1):
        for name, (made, task) in engines.items():
            begin = time.process_time()
            for step in range(steps):
                made.step(task, turn * steps + step)
            if turn:
                spent[name].append((time.process_time() - begin) / steps)
    return spent


def row(recipe, seconds):
    ours, theirs = (1e3 * sorted(times)[len(times) // 2] for times in seconds.values())
    ratios = sorted(b / a for a, b in zip(*seconds.values(), strict=True))
    n = len(ratios)
    half = f"{ratios[n // 4]:.2f}-{ratios[3 * n // 4]:.2f}"
    return f"| {recipe} | {ours:.2f} | {theirs:.2f} | {ratios[n // 2]:.2f} | {half} |"


def markdown(results):
    lines = [f"# A step with Muon ({results['date']})", "", f"{results['machine']}", "", f"{results['versions']}", ""]
    lines += ["| step | ours, ms | torch, ms | times as fast | middle half |", "| --- " * 5 + "|"]
    return "\n".join([*lines, *(row(recipe, seconds) for recipe, seconds in results["seconds"].items())])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="in small, two turns, nothing saved")
    parser.add_argument("--turns", type=int, default=11)
    chosen = parser.parse_args()
    results = {"date": datetime.date.today().isoformat(), "machine": machine(), "versions": versions()}
    turns = 2 if chosen.quick else chosen.turns
    results["seconds"] = {recipe: measured(recipe, chosen.quick, turns) for recipe in RECIPES}
    print(markdown(results))
    if not chosen.quick:
        save("muon", results, markdown(results))


if __name__ == "__main__":
    main()
