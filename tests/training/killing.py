"""Runs that are killed: a process of its own, which forks one for each life of a run, so that torch is imported once.

    python tests/training/killing.py RUNS       one line of JSON for each run: how its lives ended

RUNS: a file, [{"folder": ..., "recipe": {...}, "lives": [{"after": seconds} or {"event": n} or {}, ...]}, ...]; without lives it
runs in this process. `after` is SIGKILL from outside, after so long; `event` is SIGKILL of itself just before the n-th time that
it opens, renames, makes or removes a file of the run.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path


def main(runs: list) -> None:
    import torch

    torch.set_num_threads(1)
    from equiscope.training import fit, open_task, recipe

    for run in runs:
        found, folder = recipe(run["recipe"]), Path(run["folder"])
        task = open_task(found)
        if not run["lives"]:
            fit(found, task, folder)
        ended = [_live(lambda: fit(found, task, folder), str(folder), life) for life in run["lives"]]  # noqa: B023
        print(json.dumps(ended), flush=True)


def _live(work, folder: str, life: dict) -> int:
    """Exit code of a life, or the signal that ended it, negative."""
    child = os.fork()
    if child == 0:
        if "event" in life:
            sys.addaudithook(_killer(folder, life["event"]))
        try:
            work()
            os._exit(0)
        except BaseException as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
            os._exit(1)
    if "after" in life:
        time.sleep(life["after"])
        os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _killer(folder: str, last: int):
    seen = 0

    def hook(event: str, arguments: tuple) -> None:
        nonlocal seen
        if event in ("open", "os.rename", "os.mkdir", "os.rmdir", "os.remove", "os.truncate") and folder in str(arguments[0]):
            seen += 1
            if seen == last:
                os.kill(os.getpid(), signal.SIGKILL)

    return hook


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text()))
