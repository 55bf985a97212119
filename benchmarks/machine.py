"""The machine and the versions of a benchmark, which are written beside its numbers."""

import importlib.metadata
import os
import pathlib
import platform
import subprocess

import torch

ROOT = pathlib.Path(__file__).parents[1]


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
