"""Start-up time: imports beyond torch, of this package and of others, and the help of the command, each in a fresh process.

    python -m benchmarks.cold [--turns 7] [--quick]

Each number is the median over fresh processes that take turns. The time of an import is measured inside its process, after torch
has been imported.
"""

import argparse
import datetime
import importlib.util
import statistics
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.machine import RESULTS, machine, save, versions

TIMED = "import torch, time; t = time.perf_counter(); {}; print(time.perf_counter() - t)"
IMPORTS = {
    "equiscope": ("import equiscope", None),
    "equiscope, all that builds and loads a model": ("import equiscope as eq; eq.build, eq.load, eq.watch", None),
    "x-transformers": ("import x_transformers", "x_transformers"),
    "transformers GPT-2 class": ("from transformers import GPT2LMHeadModel", "transformers"),
    "litgpt": ("from litgpt.model import GPT", "litgpt"),
}  # fmt: skip


def imported(statement):
    done = subprocess.run([sys.executable, "-c", TIMED.format(statement)], capture_output=True, text=True)
    return float(done.stdout.split()[-1]) if done.returncode == 0 else None


def helped():
    command = Path(sys.executable).with_name("equiscope")
    begin = time.perf_counter()
    subprocess.run([str(command), "--help"], capture_output=True, check=True)
    return time.perf_counter() - begin


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--quick", action="store_true", help="two turns, nothing saved")
    parser.add_argument("--out", default=RESULTS, help="folder of the table")
    chosen = parser.parse_args()
    some = {n: s for n, (s, package) in IMPORTS.items() if package is None or importlib.util.find_spec(package)}
    spent = {name: [] for name in some} | {"equiscope --help": []}
    for turn in range((2 if chosen.quick else chosen.turns) + 1):
        for name, statement in some.items():
            if turn and (seconds := imported(statement)) is not None:
                spent[name].append(seconds)
        seconds = helped()
        if turn:  # the first warms the disk
            spent["equiscope --help"].append(seconds)
    results = {
        "date": datetime.date.today().isoformat(),
        "machine": machine(),
        "versions": versions("transformers"),
        "seconds": spent,
    }
    lines = [f"# Cold start ({results['date']})", "", f"{results['machine']}, {results['versions']}", ""]
    lines += ["| what | median, s | spread |", "| --- | --- | --- |"]
    for name, times in spent.items():
        if times:
            lines.append(f"| {name} | {statistics.median(times):.3f} | {min(times):.3f}-{max(times):.3f} |")
    print("\n".join(lines))
    if not chosen.quick:
        save("cold", results, "\n".join(lines), chosen.out)


if __name__ == "__main__":
    main()
