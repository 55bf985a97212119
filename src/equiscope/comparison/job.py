"""Job: one run of a comparison, or all seeds of a candidate, and the measurements. Any process that reads the folder does it."""

import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from threading import Thread
from typing import Any

import torch

from equiscope import budgets, outputs
from equiscope.comparison.measurements import MEASUREMENTS, measure_run, write_measurements
from equiscope.comparison.plan import Job, Plan, read_plan
from equiscope.errors import EquiscopeError, GuardFailed, InputError, UnknownName
from equiscope.record import Run, read_run
from equiscope.training import Recipe, Task, Watcher, fit, open_task
from equiscope.training.together import NotTogether, fit_together

PARENT = "EQUISCOPE_PARENT"  # variable: the process without which a job stops
GUARDED = 4  # exit code of a job that the guard of its recipe ended
OUTCOME = "outcome.json"  # in a run's folder: how the job ended, where it ended by itself


def done(folder: Path, job: Job) -> bool:
    """Whether nothing is left to do: the run is trained and measured, or it failed and would fail again."""
    folder_ = folder / job.folder
    return (folder_ / MEASUREMENTS).exists() or (folder_ / OUTCOME).exists()


def run(folder: Path, job: Job, plan: Plan | None = None, watcher: Watcher | None = None) -> Run:
    """Train the run, or resume it; then measure it. Raises what training raises."""
    plan = plan or read_plan(folder)
    torch.set_num_threads(plan.threads)
    recipe, task = _opened(plan, job)
    run_record = fit(recipe, task, folder / job.folder, watcher, recipe_folder=Path(plan.recipe_folder))
    _measure(folder, job, plan, run_record, task)
    return run_record


def run_together(folder: Path, jobs: Sequence[Job], plan: Plan) -> list[Run | EquiscopeError]:
    """Train the runs of several seeds as one model, or resume them; then measure each.

    returns  each run, or the error that ended it; where they cannot be trained together, each was trained by itself
    """
    torch.set_num_threads(plan.threads)
    trained = [job for job in jobs if state_of(folder / job.folder) == "finished"]  # and not measured
    jobs_left = [job for job in jobs if job not in trained]
    result_of_folder: dict[str, Run | EquiscopeError] = {}
    if len(jobs_left) > 1:
        recipes, tasks = zip(*(_opened(plan, job) for job in jobs_left), strict=True)
        outs = [folder / job.folder for job in jobs_left]
        try:
            results = fit_together(recipes, tasks, outs, recipe_folder=Path(plan.recipe_folder))
        except (NotTogether, torch.OutOfMemoryError) as error:
            print(f"{error} Each seed is trained by itself.", file=sys.stderr)
        else:
            for job, task, result in zip(jobs_left, tasks, results, strict=True):
                result_of_folder[job.folder] = result
                if isinstance(result, Run):
                    _measure(folder, job, plan, result, task)
    for job in jobs:
        if job.folder not in result_of_folder:
            try:
                result_of_folder[job.folder] = run(folder, job, plan)
            except EquiscopeError as error:
                result_of_folder[job.folder] = error
    return [result_of_folder[job.folder] for job in jobs]


def _opened(plan: Plan, job: Job) -> tuple[Recipe, Task]:
    recipe = plan.recipe_of(job)
    return recipe, open_task(recipe, Path(plan.recipe_folder))


def _measure(folder: Path, job: Job, plan: Plan, run_record: Run, task: Task) -> None:
    if run_record.state == "finished":
        measurements = measure_run(folder / job.folder, run_record, task, check_symmetry=plan.checks(job), sizes=plan.sizes)
        write_measurements(measurements, folder / job.folder)


def record_failure(folder_: Path, reason: str, guarded: bool = False) -> None:
    """Record that a job ended by itself without a whole run. This is a result: the job is not tried again.

    guarded  whether the guard of its recipe ended it
    """
    outputs.make_folder(folder_)
    outputs.write(folder_ / OUTCOME, json.dumps({"reason": reason, "guarded": guarded}) + "\n")


def reason(folder_: Path) -> str:
    """Why a job ended by itself; empty if it did not."""
    return str(_outcome(folder_).get("reason", ""))


def guarded(folder_: Path) -> bool:
    """Whether the guard of its recipe ended a job."""
    return bool(_outcome(folder_).get("guarded"))


def _outcome(folder_: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = budgets.parsed(budgets.text(folder_ / OUTCOME))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


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
    """Run jobs in their own process: folder and names of the runs, which are trained together. Errors are sentences on standard
    error.
    """
    folder = Path(arguments[0])
    if parent := os.environ.get(PARENT):
        Thread(target=_stop_with_parent, args=(int(parent),), daemon=True).start()
    try:
        plan = read_plan(folder)
        jobs = [job_named(plan, name) for name in arguments[1:]]
        results = [run(folder, jobs[0], plan)] if len(jobs) == 1 else run_together(folder, jobs, plan)
    except EquiscopeError as error:
        print(error, file=sys.stderr)
        return GUARDED if isinstance(error, GuardFailed) else 2
    for job, result in zip(jobs, results, strict=True):
        if not isinstance(result, Run):
            record_failure(folder / job.folder, str(result), isinstance(result, GuardFailed))
    return 0 if all(not isinstance(result, Run) or result.state == "finished" for result in results) else 3


def _stop_with_parent(parent: int) -> None:
    """Send this process SIGTERM when its parent has ended."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os.kill(os.getpid(), signal.SIGTERM)
