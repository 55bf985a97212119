"""Fuzz the command line: command lines, files and outputs, randomly corrupted from valid ones.

    python -m benchmarks.fuzz [--count 3200] [--seed 0] [--kind specs] [--show] [--save]

Each case has to end with exit code 0, 1 or 2, within its limits of time and memory, without a traceback, and without running code
from a file: pickles, code in checkpoint folders and shell words are planted, and each would leave a file. Most cases run one after
the other in forked processes that have imported the package; some run as separate commands. The exit code is 1 if a case fails.
Full and read-only disks are mounted, and devices are made, where the system permits it; elsewhere these cases are skipped.
"""

import argparse
import datetime
import sys
import time
from collections import Counter, defaultdict
from dataclasses import asdict
from typing import Any

from benchmarks.fuzz.kinds import KINDS
from benchmarks.fuzz.running import Ending, fuzz
from benchmarks.machine import machine, save, versions


def summary(endings: list[Ending]) -> dict[str, dict[str, Any]]:
    by_kind: dict[str, list[Ending]] = defaultdict(list)
    for ending in endings:
        by_kind[ending.kind].append(ending)
    return {
        kind: {
            "cases": len(some), "exits": dict(sorted(Counter(e.code for e in some).items())),
            "faults": sum(bool(e.fault) for e in some),
            "slowest": round(max(e.seconds for e in some), 2), "memory": round(max(e.memory for e in some) / 1e9, 2),
        }
        for kind, some in by_kind.items()
    }  # fmt: skip


def markdown(results: dict[str, Any]) -> str:
    lines = [f"# Bad input ({results['date']})", "", f"{results['machine']}, {results['versions']}", ""]
    lines += ["| kind | cases | exit 0 | exit 1 | exit 2 | faults | slowest, s | memory, GB |", "| --- |" + " --- |" * 7]
    for kind, row in results["kinds"].items():
        exits = " | ".join(str(row["exits"].get(code, 0)) for code in (0, 1, 2))
        lines.append(f"| {kind} | {row['cases']} | {exits} | {row['faults']} | {row['slowest']:.1f} | {row['memory']:.1f} |")
    count = len(results["faults"])
    lines += ["", f"{results['cases']} cases of seed {results['seed']} in {results['seconds']} s; {count} faults."]
    if not results["mounted"]:
        lines.append("No disk could be mounted here: full and read-only ones are left out.")
    if not results["devices"]:
        lines.append("No device could be made here: those of the system are used.")
    return "\n".join(lines)


def faults(wrong: list[Ending], show: bool) -> str:
    """The faults, grouped by their last line."""
    lines = []
    for (kind, last), many in Counter((e.kind, _last(e)) for e in wrong).most_common():
        first = next(e for e in wrong if e.kind == kind and _last(e) == last)
        lines.append(f"\n{many} × {kind} {first.number}: {' '.join(first.arguments)[:200]!r}\n  {last}")
        lines += [first.fault] * show
    return "\n".join(lines)


def _last(ending: Ending) -> str:
    return ending.fault.strip().splitlines()[-1][:160]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=3200, help="cases")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kind", action="append", default=[], choices=KINDS, help="only these")
    parser.add_argument("--workers", type=int, default=2, help="processes at a time")
    parser.add_argument("--each", type=int, default=40, help="one case in so many is a command of its own; 0 for none")
    parser.add_argument("--save", action="store_true", help="write the table and all faults into benchmarks/results")
    parser.add_argument("--show", action="store_true", help="print whole tracebacks")
    options = parser.parse_args()
    started = time.perf_counter()
    endings, mounted, devices = fuzz(options.count, options.seed, options.kind, options.workers, options.each)
    wrong = [ending for ending in endings if ending.fault]
    results = {
        "date": datetime.date.today().isoformat(), "machine": machine(), "versions": versions("transformers"), "seed": options.seed,
        "seconds": round(time.perf_counter() - started), "cases": len(endings), "mounted": mounted, "devices": devices,
        "kinds": summary(endings), "faults": [asdict(ending) for ending in wrong],
    }  # fmt: skip
    print(markdown(results))
    print(faults(wrong, options.show))
    if options.save:
        save("fuzz", results, markdown(results))
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
