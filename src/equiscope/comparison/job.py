"""Job: one run of a comparison and the measurements on it. Any process that can read the folder can do it."""

import json
import os
import signal
import sys
import time
from pathlib import Path
from threading import Thread

import torch

from equiscope import budgets, outputs
from equiscope.comparison.measurements import MEASUREMENTS, measure_run, write_measurements
from equiscope.comparison.plan import Job, Plan, read_plan
from equiscope.errors import InputError, UnknownName
from equiscope.record import Run, read_run
from equiscope.training import Watcher, fit, open_task

PARENT = "EQUISCOPE_PARENT"  # variable: the process without which a job stops
OUTCOME = "outcome.json"  # in a run's folder: how the job ended, where it ended by itself


def done(folder: Path, job: Job) -> bool:
    """Whether nothing is left to do: the run is trained and measured, or it failed and would fail again."""
    folder_ = folder / job.folder
    return (folder_ / MEASUREMENTS).exists() or (folder_ / OUTCOME).exists()


def run(folder: Path, job: Job, plan: Plan | None = None, watcher: Watcher | None = None) -> Run:
    """Train the run, or resume it; then measure it. Raises what training raises."""
    plan = plan or read_plan(folder)
    torch.set_num_threads(plan.threads)
    folder_, recipe = folder / job.folder, plan.recipe_of(job)
    task = open_task(recipe, Path(plan.recipe_folder))
    run_record = fit(recipe, task, folder_, watcher, recipe_folder=Path(plan.recipe_folder))
    if run_record.state == "finished":
        first = plan.check and job.seed == plan.seeds[0]
        write_measurements(measure_run(folder_, run_record, task, check_symmetry=first, sizes=plan.sizes), folder_)
    return run_record


def record_failure(folder_: Path, reason: str) -> None:
    """Record that a job ended by itself without a whole run. This is a result: the job is not tried again."""
    outputs.make_folder(folder_)
    outputs.write(folder_ / OUTCOME, json.dumps({"reason": reason}) + "\n")


def reason(folder_: Path) -> str:
    """Why a job ended by itself; empty if it did not."""
    try:
        return str(budgets.parsed(budgets.text(folder_ / OUTCOME))["reason"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def job_named(plan: Plan, name: str) -> Job:
    """The job with a name such as "rope/seed-3", as in a list of jobs."""
    for job in plan.jobs():
        if job.folder.endswith(f"/{name}") or job.folder == name:
            return job
    raise UnknownName("run of this comparison", name, sorted(job.folder for job in plan.jobs()))


def state_of(folder_: Path) -> str:
    """The state in a run's record; "" if there is no run yet."""
    try:
        return read_run(folder_, entries=False).state
    except InputError:
        return ""


def main(arguments: list[str]) -> int:
    """Run one job in its own process: folder and name of the run. An error is one sentence on standard error."""
    from equiscope.errors import EquiscopeError

    folder = Path(arguments[0])
    if parent := os.environ.get(PARENT):
        Thread(target=_stop_with_parent, args=(int(parent),), daemon=True).start()
    try:
        plan = read_plan(folder)
        run_record = run(folder, job_named(plan, arguments[1]), plan)
    except EquiscopeError as error:
        print(error, file=sys.stderr)
        return 2
    return 0 if run_record.state == "finished" else 3


def _stop_with_parent(parent: int) -> None:
    """Send this process SIGTERM when its parent has ended."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os.kill(os.getpid(), signal.SIGTERM)
