"""`equiscope parity`: whether two implementations compute the same. The exit code is 1 where they do not,
unless a baseline file accepts it, or where nothing is decided."""

import sys
from pathlib import Path

import msgspec
from rich.console import Console

from equiscope import outputs
from equiscope.audit.integrations.parity_junit import parity_junit
from equiscope.audit.parity.comparing import parity
from equiscope.audit.parity.terminal import lines
from equiscope.cli.check import WIDE, accept, baseline_of
from equiscope.explore import html as page


def run(
    a: str, b: str, processes: int | None, seed: int, html: Path | None, junit: Path | None, save: Path | None,
    baseline: Path | None, update: bool, json: bool,
) -> int:  # fmt: skip
    """The exit code."""
    for option, path in (("--html", html), ("--junit", junit), ("--save", save)):
        if path is not None:
            outputs.check(path, f"Choose another file with {option}.")
    accepted = baseline_of(baseline, update)
    found = accept(accepted, update, parity(a, b, seed=seed, processes=processes), complete=True)
    if json:
        print(msgspec.json.encode(msgspec.structs.replace(found, layers=[])).decode())
    else:
        Console(highlight=False, width=None if sys.stdout.isatty() else WIDE).print(lines(found))
    record = msgspec.json.format(msgspec.json.encode(found), indent=1).decode() + "\n"
    for path, text in ((html, page), (junit, parity_junit), (save, lambda _: record)):
        if path is not None:
            print(f"wrote {outputs.write(path, text(found))}", file=sys.stderr)
    return 1 if found.failed else 0
