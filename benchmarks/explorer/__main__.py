"""Measure explorer pages: ours, and those of bertviz, circuitsvis and inspectus, in turns in one run.

    python -m benchmarks.explorer                          everything, 5 repetitions
    python -m benchmarks.explorer --quick --only peers     16 tokens, without ours
    python -m benchmarks.explorer --only heads             our page of 12 x 12 heads, without peers
    python -m benchmarks.explorer --depths 12 --sizes 64 256 1024    that page beside the peers
    python -m benchmarks.explorer --setup                  also the time of `python3 run.py setup` in a fresh clone

A turn writes one page in its own process and opens it in a fresh browser in another process; then the next page has its turn. A
slow minute of the machine therefore affects all pages. A page that fails (time limit, dead tab) is not tried again, nor with
more tokens. Needs `playwright` in this environment and a Chromium on PATH.
"""

import argparse
import datetime
import gzip
import importlib.metadata
import json
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time

from benchmarks.machine import RESULTS, save

from . import entries, peers, table

ROOT = pathlib.Path(__file__).resolve().parents[2]


def without_paths(message):
    """The last line of an error, without paths of this machine."""
    return re.sub(r"(/[^\s/'\"]+){2,}", "(path)", message.strip().splitlines()[-1])


def run_limited(command, limit, **options):
    """Run a command; returns (seconds, output, problem). The problem is None if the command ended well in time."""
    start = time.perf_counter()
    process = subprocess.Popen(
        [str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options
    )
    try:
        output, errors = process.communicate(timeout=limit)
        problem = None if process.returncode == 0 else without_paths(errors.strip() or f"exit code {process.returncode}")
    except subprocess.TimeoutExpired:
        process.kill()  # Playwright's driver notices and closes its browser
        output, _ = process.communicate()
        problem = f"over the limit of {limit} s"
    return time.perf_counter() - start, output, problem


def browse(entry, settings):
    """The results of `browser.py` by stage, and the problem if it did not reach the end."""
    spec = {
        "page": str(entry.page),
        "chromium": settings.chromium,
        "libraries": settings.libraries and str(settings.libraries),
        **entry.browse,
    }
    command = [sys.executable, entries.HERE / "browser.py", json.dumps(spec)]
    _, output, problem = run_limited(command, settings.limit)
    found = {stage.pop("stage"): stage for stage in map(json.loads, output.splitlines())}
    for name in ("load", "hover", "hover_first", "drag"):
        wanted = name == "load" or name in entry.browse
        if "failed" in found.get(name, {}):
            return found, f"{name}: {found[name]['failed']}"
        if wanted and name not in found and problem:
            return found, f"{name}: {problem}"
    return found, problem


def turn(entry, record, settings):
    """Write the page and open it once; adds to the record."""
    seconds, _, problem = run_limited(entry.export, settings.limit)
    if problem:
        record["failed"] = f"export: {problem}"
        return
    if "bytes" not in record:
        content = entry.page.read_bytes()
        record |= {"bytes": len(content), "gzip_bytes": len(gzip.compress(content, 6))}
    found, problem = browse(entry, settings)
    record["turns"].append({"export": {"seconds": seconds}, **found})
    if problem:
        record["failed"] = problem


def measure(pages, settings):
    """All pages, `settings.repeat` times, in turns; yields the results so far after each turn."""
    failed = {}  # (page, layers): tokens that it failed with
    records = [{"name": e.name, "layers": e.layers, "tokens": e.tokens, "note": e.note, "turns": []} for e in pages]
    for repetition in range(settings.repeat):
        for entry, record in zip(pages, records, strict=True):
            kind = (entry.name, entry.layers)
            if failed.get(kind, entry.tokens) < entry.tokens:
                record["failed"] = f"not tried: it failed with {failed[kind]} tokens"
            elif "failed" not in record:
                turn(entry, record, settings)
                if "failed" in record:
                    failed[kind] = entry.tokens
                print(f"{repetition + 1}/{settings.repeat} {entry.label}: {record.get('failed', 'done')}", flush=True)
            entry.page.unlink(missing_ok=True)  # a page can have 260 MB
        yield repetition + 1, records


def command_times(settings):
    """Wall time of `equiscope --help` (`--repeat` times) and, if requested, of the set-up in a fresh clone."""
    times = {}
    if settings.only != "peers":
        command = [entries.equiscope_command(), "--help"]
        times["equiscope --help"] = [run_limited(command, settings.limit)[0] for _ in range(settings.repeat)]
    if settings.setup:
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(["git", "clone", "--quiet", ROOT, folder], check=True)
            seconds, _, problem = run_limited(["python3", "run.py", "setup"], 3600, cwd=folder)
        times["python3 run.py setup" + (f" (failed: {problem})" if problem else "")] = [seconds]
    return times


def cpu_model():
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def our_versions():
    names = ("equiscope", "torch", "numpy", "playwright")
    installed = {distribution.name: distribution.version for distribution in importlib.metadata.distributions()}
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True).stdout.strip()
    return {
        "python": platform.python_version(),
        **{name: installed[name] for name in names if name in installed},
        **({"commit": commit} if commit else {}),
    }


def load_average():
    return round(os.getloadavg()[0], 2)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="16 tokens only")
    parser.add_argument("--sizes", type=int, nargs="+", default=[16, 64, 256], help="numbers of tokens (default 16 64 256)")
    parser.add_argument("--depths", type=int, nargs="+", default=[12, 1], help="layers (default 12 1)")
    parser.add_argument("--only", choices=["peers", "ours", "heads"], help="leave the others out; heads: our page of all heads")
    parser.add_argument("--repeat", type=int, default=5, help="repetitions (default 5)")
    parser.add_argument("--limit", type=float, default=180, help="seconds for one export or one visit (default 180)")
    parser.add_argument("--setup", action="store_true", help="also time the set-up in a fresh clone")
    parser.add_argument("--peers", type=pathlib.Path, help="folder of the peers' environment")
    parser.add_argument("--constraints", type=pathlib.Path, default=ROOT / "constraints.txt", help="pip constraints for it")
    parser.add_argument("--out", type=pathlib.Path, default=RESULTS, help="folder of the table")
    parser.add_argument(
        "--chromium",
        default=os.environ.get("EQUISCOPE_BROWSER")
        or shutil.which("chromium")
        or shutil.which("chromium-browser")
        or shutil.which("google-chrome"),
    )
    settings = parser.parse_args()
    if settings.chromium is None:
        parser.error("No Chromium on the path. Install one, or name it with --chromium.")
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
    settings.peers = (settings.peers or cache / "equiscope" / "peers").resolve()
    settings.libraries = None
    return settings


def main():
    settings, load_before = arguments(), load_average()
    sizes, versions = [16] if settings.quick else settings.sizes, our_versions()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        pages = [entries.empty_entry(folder)]
        if settings.only in (None, "peers"):
            settings.peers.mkdir(parents=True, exist_ok=True)
            python = peers.environment(settings.peers, settings.constraints)
            settings.libraries = peers.libraries(settings.peers)
            pages += entries.peer_entries(folder, sizes, python, settings.depths)
            versions |= peers.versions(python)
        if settings.only in (None, "ours") and 1 in settings.depths:
            pages += entries.our_entries(folder, sizes)
        if settings.only != "peers" and 12 in settings.depths:
            pages += entries.heads_entries(folder, sizes)
        pages.sort(key=lambda entry: (entry.tokens, entry.layers))
        for repeat, records in measure(pages, settings):  # saved each time: who stops it keeps what there is
            chromium = next(turn["start"]["chromium"] for record in records for turn in record["turns"])
            machine = {"cpu": cpu_model(), "cores": os.cpu_count(), "load_before": load_before, "load_after": load_average()}
            results = {
                "date": datetime.date.today().isoformat(),
                "machine": machine,
                "versions": versions | {"chromium": chromium},
                "repeat": repeat,
                "limit_s": settings.limit,
                "commands": command_times(settings) if repeat == settings.repeat else {},
                "pages": records,
            }
            save("explorer", results, table.markdown(results), settings.out)
    print(table.markdown(results))


if __name__ == "__main__":
    main()
