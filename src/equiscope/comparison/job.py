"""Job: one run of a comparison, and what is measured on it afterwards. Any process that sees the folder can do it."""

import json
import os
import signal
import sys
import time
from pathlib import Path
from threading import Thread

import torch

from equiscope import budgets, outputs
from equiscope.comparison.after import AFTER, measured, write_after
from equiscope.comparison.plan import Job, Plan, read_plan
from equiscope.errors import InputError
from equiscope.record import Run, read_run
from equiscope.training import Watcher, fit, open_task

PARENT = "EQUISCOPE_PARENT"  # variable: the process without which a job stops
OUTCOME = "outcome.json"  # in a run's folder: how the job ended, where it ended by itself


def done(folder: Path, job: Job) -> bool:
    """Whether there is nothing left to do: it is trained and measured, or it failed by itself and would fail again."""
    place = folder / job.folder
    return (place / AFTER).exists() or (place / OUTCOME).exists()


def run(folder: Path, job: Job, plan: Plan | None = None, watcher: Watcher | None = None) -> Run:
    """Train it, or go on; then measure it. Raises what training raises, and keeps a sentence about it in the run's folder."""
    plan = plan or read_plan(folder)
    torch.set_num_threads(plan.threads)
    place, recipe = folder / job.folder, plan.recipe_of(job)
    task = open_task(recipe, Path(plan.beside))
    made = fit(recipe, task, place, watcher, beside=Path(plan.beside))
    if made.state == "finished":
        write_after(measured(place, made, task, looking=job.seed == plan.seeds[0]), place)
    return made


def note(place: Path, reason: str) -> None:
    """A job ended by itself without a whole run: it is a result, and is not tried again."""
    outputs.make_folder(place)
    outputs.write(place / OUTCOME, json.dumps({"reason": reason}) + "\n")


def reason(place: Path) -> str:
    """Why a job ended by itself; empty where it did not."""
    try:
        return str(budgets.parsed(budgets.text(place / OUTCOME))["reason"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def named(plan: Plan, name: str) -> Job:
    """The job of "rope/seed-3", as a list of jobs has it."""
    for job in plan.jobs():
        if job.folder.endswith(f"/{name}") or job.folder == name:
            return job
    some = ", ".join(sorted(job.folder for job in plan.jobs())[:5])
    raise InputError(f"This comparison has no run {name!r}. Its runs are in {some}, …")


def state_of(place: Path) -> str:
    """What a run's folder says of itself; "" where there is none yet."""
    try:
        return read_run(place, entries=False).state
    except InputError:
        return ""


def main(arguments: list[str]) -> int:
    """One job, in a process of its own: folder and name of the run. What is wrong is one sentence on the error stream."""
    from equiscope.errors import EquiscopeError

    folder = Path(arguments[0])
    if parent := os.environ.get(PARENT):
        Thread(target=_outlived, args=(int(parent),), daemon=True).start()
    try:
        plan = read_plan(folder)
        made = run(folder, named(plan, arguments[1]), plan)
    except EquiscopeError as error:
        print(error, file=sys.stderr)
        return 2
    return 0 if made.state == "finished" else 3


def _outlived(parent: int) -> None:
    """Asks this process to stop, as SIGTERM does, when the one that began it is no more."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os.kill(os.getpid(), signal.SIGTERM)
