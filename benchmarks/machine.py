"""The machine and the versions of a benchmark, which are written beside its numbers, and where they are saved."""

import importlib.metadata
import json
import os
import pathlib
import platform
import subprocess

import torch

ROOT = pathlib.Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"


def machine(device="cpu"):
    """The processor (and the accelerator, where one is used), its cores, and its load."""
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
        cpu = next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        cpu = platform.processor() or platform.machine()
    found = {"cpu": cpu, "cores": os.cpu_count(), "threads": torch.get_num_threads(), "load": round(os.getloadavg()[0], 2)}
    return found | ({"gpu": torch.cuda.get_device_name()} if device == "cuda" else {})


def versions(*packages):
    """Versions of Python and of these packages, where they are installed, and the commit of this tree."""
    installed = {d.name.lower(): d.version for d in importlib.metadata.distributions()}
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True).stdout.strip()
    named = {name: installed[name] for name in ("equiscope", "torch", *packages) if name in installed}
    return {"python": platform.python_version(), **named, **({"commit": commit} if commit else {})}


def named(benchmark, *choices):
    """The name of a table: that of its benchmark, and what was chosen where not all of it was; choices: (chosen, all) pairs."""
    parts = [str(one) for chosen, everything in choices if list(chosen) != list(everything) for one in chosen]
    return "-".join([benchmark, *parts])


def save(name, results, text, folder=RESULTS):
    """Save the table of a benchmark as `name`.md and its numbers as `name`.json, in place of those of its last run."""
    folder = ROOT / folder
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.md").write_text(text.rstrip() + "\n", encoding="utf-8")
    (folder / f"{name}.json").write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
