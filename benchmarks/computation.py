"""Energy and forces of a model in the page, beside PyTorch. The page's code runs in Node, which has the engine of Chromium.

    python -m benchmarks.computation                 ethanol and 60 atoms, both in float64, PyTorch with one thread; saved
    python -m benchmarks.computation --quick         ethanol and a small model, two turns, nothing saved

Each time is the median over several calls after a warm-up; the two sides take turns. The first call of a page, which plans and
compiles, is a separate number. The difference to PyTorch is the largest one, relative to the largest force.
"""

import argparse
import datetime
import json
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import msgspec
import numpy as np
import torch
from benchmarks.machine import RESULTS, ROOT, machine, save, versions

from equiscope.explore.space.in_space import in_space
from equiscope.geometry import PointSpec, SpaceModel

WEB = ROOT / "web"
ELEMENTS = ("H", "C", "O")
ETHANOL = torch.tensor([6, 6, 8, 1, 1, 1, 1, 1, 1])
BUNDLE = """
import { build } from "vite";
const lib = { entry: "src/core/computation/index.ts", formats: ["es"], fileName: () => "computation.mjs" };
await build({ configFile: false, logLevel: "silent", build: { outDir: process.argv[1], emptyOutDir: false, minify: false, lib } });
"""
ANSWERS = """
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
const { computation } = await import(process.argv[1] + "/computation.mjs");
const models = new Map();
for await (const line of createInterface({ input: process.stdin })) {
  const { file, positions, wanted, times } = JSON.parse(line);
  if (!models.has(file)) models.set(file, computation(JSON.parse(readFileSync(file, "utf8"))));
  const [run, at, spent] = [models.get(file), Float64Array.from(positions), []];
  let found;
  for (let i = 0; i < times; i++) {
    const begin = performance.now();
    found = run({ positions: at }, wanted);
    spent.push(performance.now() - begin);
  }
  const numbers = Object.fromEntries(Object.entries(found).map(([name, x]) => [name, [...x]]));
  console.log(JSON.stringify({ spent, found: numbers }));
}
"""


def cases(quick):
    """By name: a model and its atoms."""
    generator = torch.Generator().manual_seed(0)
    many = torch.tensor([1, 6, 8])[torch.randint(0, 3, (60,), generator=generator)]
    size = {"width": 16, "vectors": 8, "layers": 1} if quick else {"layers": 3}
    torch.manual_seed(0)
    plain = SpaceModel(PointSpec(ELEMENTS, **size))
    near = SpaceModel(PointSpec(ELEMENTS, **size, cutoff=5.0, filtered=True, products=16))
    all_of_them = {"all see all": plain, "cutoff, filters, products": near}
    atoms = {"ethanol": ETHANOL} if quick else {"ethanol": ETHANOL, "60 atoms": many}
    return {f"{name}, {how}": (model, numbers) for name, numbers in atoms.items() for how, model in all_of_them.items()}


def asked(node, file, at, wanted, times):
    node.stdin.write(json.dumps({"file": str(file), "positions": at.flatten().tolist(), "wanted": wanted, "times": times}) + "\n")
    node.stdin.flush()
    return json.loads(node.stdout.readline())


def by_torch(model, numbers, at, times):
    spent = []
    for _ in range(times):
        begin = time.perf_counter()
        said = model.energy_and_forces(numbers[None], at[None])
        spent.append(1e3 * (time.perf_counter() - begin))
    return spent, said


def measured(node, folder, model, numbers, turns, times):
    """Milliseconds of the page (energy; energy and forces; first call) and of PyTorch (energy and forces)."""
    at = torch.randn(len(numbers), 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64) * len(numbers) ** (1 / 3)
    file = folder / f"{time.monotonic_ns()}.json"
    file.write_bytes(msgspec.json.encode(in_space(model, numbers, at)))
    model = model.double().eval().requires_grad_(False)
    both = ["energy", "forces"]
    first = asked(node, file, at, both, 1)["spent"][0]
    asked(node, file, at, ["energy"], 3)
    spent = {"energy": [], "energy and forces": [], "PyTorch, energy and forces": []}
    for _ in range(turns):
        page = asked(node, file, at, both, times)
        spent["energy and forces"].append(statistics.median(page["spent"]))
        spent["energy"].append(statistics.median(asked(node, file, at, ["energy"], times)["spent"]))
        theirs, said = by_torch(model, numbers, at, times)
        spent["PyTorch, energy and forces"].append(statistics.median(theirs))
    forces = said.forces[0].flatten().numpy()
    apart = float(np.abs(np.array(page["found"]["forces"]) - forces).max() / np.abs(forces).max())
    return {"ms": spent, "first ms": first, "apart": apart, "bytes": file.stat().st_size}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--times", type=int, default=9, help="answers of a turn")
    parser.add_argument("--quick", action="store_true", help="a small model, two turns, nothing saved")
    parser.add_argument("--out", default=RESULTS, help="folder of the table")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    results = {"date": datetime.date.today().isoformat(), "machine": machine(), "versions": versions("numpy"), "cases": {}}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        subprocess.run(["node", "--input-type=module", "-e", BUNDLE, name], cwd=WEB, check=True)
        command = ["node", "--input-type=module", "-e", ANSWERS, name]
        with subprocess.Popen(command, cwd=WEB, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as node:
            for case, (model, numbers) in cases(chosen.quick).items():
                turns, times = (2, 2) if chosen.quick else (chosen.turns, chosen.times)
                results["cases"][case] = measured(node, folder, model, numbers, turns, times)
            node.stdin.close()
    lines = [f"# Energies and forces in the page ({results['date']})", "", f"{results['machine']}, {results['versions']}", ""]
    lines += ["| what | asked | median, ms | spread | first, ms | apart | MB |", "| --- | --- | --- | --- | --- | --- | --- |"]
    for case, found in results["cases"].items():
        once = f"{found['first ms']:.0f} | {found['apart']:.0e} | {found['bytes'] / 1e6:.2f}"
        for what, times in found["ms"].items():
            more = once if what == "energy and forces" else "| |"
            lines.append(f"| {case} | {what} | {statistics.median(times):.1f} | {min(times):.1f}-{max(times):.1f} | {more} |")
    print("\n".join(lines))
    if not chosen.quick:
        save("computation", results, "\n".join(lines), chosen.out)


if __name__ == "__main__":
    main()
