"""How long does dropout take, forward and backward, on this CPU? torch's and ours, plainly and compiled.

    python -m benchmarks.dropout            the rows of one layer at 6x384, 64 passages of 256: a table, and benchmarks/results
    python -m benchmarks.dropout --quick    a few rows, nothing is saved

Turn by turn in one process, medians. Compiled, dropout stands between two products by a number, as it does in a layer.
"""

import argparse
import datetime
import json
import time

import torch
from benchmarks.machine import ROOT, machine, versions
from torch import nn

from equiscope.blocks import Dropout

SHARE, DTYPES = 0.2, {"float32": torch.float32, "bfloat16": torch.bfloat16}


def contestants():
    """What drops, by name."""
    for compiled in ("", ", compiled"):
        for name, kind in (("torch", nn.Dropout), ("ours", Dropout)):
            drop = kind(SHARE).train()
            yield name + compiled, torch.compile(lambda x, drop=drop: drop(x * 2) * 2) if compiled else drop


def measured(rows, width, turns):
    """Seconds by dtype, name and way, of every turn; the first, which compiles, is not one."""
    found = {}
    for name, dtype in DTYPES.items():
        x, own = torch.randn(rows, width).to(dtype).requires_grad_(), dict(contestants())
        given = torch.ones_like(x)
        times = found[name] = {one: {"forward": [], "backward": []} for one in own}
        for turn in range(turns + 1):
            for one, drop in own.items():
                begin = time.perf_counter()
                out = drop(x)
                middle = time.perf_counter()
                torch.autograd.grad(out, x, given)
                if turn:
                    times[one]["forward"].append(middle - begin)
                    times[one]["backward"].append(time.perf_counter() - middle)
    return found


def markdown(results):
    lines = [f"# Dropout ({results['date']})", "", f"{results['machine']}", "", f"{results['versions']}", ""]
    lines += [f"{results['rows']} x {results['width']} numbers, a share of {SHARE}.", ""]
    for dtype, found in results["seconds"].items():
        lines += [f"## {dtype}", "", "| who | forward, ms | middle half | backward, ms | speed over torch's |", "| --- " * 5 + "|"]
        middle = {name: [sorted(times)[len(times) // 2] for times in ways.values()] for name, ways in found.items()}
        for name, (there, back) in middle.items():
            over = sum(middle[name.replace("ours", "torch")]) / (there + back)
            ordered = sorted(1e3 * t for t in found[name]["forward"])
            half = f"{ordered[len(ordered) // 4]:.2f}-{ordered[-1 - len(ordered) // 4]:.2f}"
            lines.append(f"| {name} | {there * 1e3:.2f} | {half} | {back * 1e3:.2f} | {over:.2f} |")
        lines.append("")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a few rows, nothing saved")
    parser.add_argument("--turns", type=int, default=15)
    chosen = parser.parse_args()
    rows, width, turns = (64, 128, 2) if chosen.quick else (64 * 256, 384, chosen.turns)
    results = {
        "date": datetime.date.today().isoformat(),
        "machine": machine(),
        "versions": versions(),
        "rows": rows,
        "width": width,
    }
    results["seconds"] = measured(rows, width, turns)
    print(markdown(results))
    if not chosen.quick:
        stem = ROOT / "benchmarks" / "results" / f"dropout-{results['date']}"
        stem.with_suffix(".json").write_text(json.dumps(results, indent=1) + "\n")
        stem.with_suffix(".md").write_text(markdown(results) + "\n")


if __name__ == "__main__":
    main()
