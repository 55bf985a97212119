"""Workers: run the jobs in processes of this machine, on a Ray cluster, or from a list of commands. The runs are the same.

Each job is a process of its own, so a crash is a result of that job and the others continue. Seeds that are trained together share
a process, so a crash ends all of them.
"""

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from equiscope import outputs
from equiscope.comparison.job import GUARDED, PARENT, done, record_failure, state_of
from equiscope.comparison.plan import Job, Plan
from equiscope.tokens.extra import needed

LOGS = "logs"
EVERY = 0.25  # seconds between two looks
Group = tuple[Job, ...]  # what one process does: a job, or all seeds of a candidate that are trained together
Tick = Callable[[Sequence[Job]], None]


def left(folder: Path, plan: Plan) -> list[Group]:
    """What is not done yet, as processes do it."""
    return plan.groups(job for job in plan.jobs() if not done(folder, job))


def command(folder: Path, group: Group) -> list[str]:
    """The command line of one job, or of several that are trained together."""
    return [sys.executable, "-m", "equiscope.comparison", str(folder.absolute()), *(job.folder for job in group)]


def run_one(folder: Path, group: Group, threads: int) -> int:
    """Run a group of jobs in their own process, and record how they ended."""
    process = _start(folder, group, threads)
    return _finish(folder, group, process.wait())


def run_all(folder: Path, plan: Plan, processes: int = 1, tick: Tick = lambda running: None) -> None:
    """Run all remaining jobs, `processes` at a time. If the comparison is killed, so are its processes, and it can be resumed.

    tick  is called a few times a second with the running jobs
    """
    waiting = left(folder, plan)
    running: list[tuple[Group, subprocess.Popen[bytes]]] = []
    with _terminable():
        try:
            while waiting or running:
                while waiting and len(running) < processes:
                    group = waiting.pop(0)
                    running.append((group, _start(folder, group, plan.threads)))
                tick([job for group, _ in running for job in group])
                time.sleep(EVERY)
                for each in list(running):
                    if each[1].poll() is not None:
                        running.remove(each)
                        _finish(folder, each[0], each[1].returncode)
            tick([])
        finally:
            for _, process in running:
                process.terminate()
            for _, process in running:
                process.wait()


@contextmanager
def _terminable() -> Iterator[None]:
    """Inside, SIGTERM raises SystemExit, so that child processes are ended first."""

    def end(number: int, frame: Any) -> NoReturn:
        sys.exit(128 + number)

    try:
        before = signal.signal(signal.SIGTERM, end)
    except ValueError:  # another thread than the first: its owner decides
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def run_with_ray(folder: Path, plan: Plan, tick: Tick = lambda running: None) -> None:
    """Run all remaining jobs on a Ray cluster, or on this machine. All machines must share the folder.

    raises  InputError if Ray is not installed
    """
    ray = needed("ray", "ray", "--ray", "use --processes")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is sent anywhere
    ray.init(ignore_reinit_error=True, log_to_driver=False, include_dashboard=False)
    do = ray.remote(num_cpus=plan.threads, max_retries=0)(run_one)
    remote = {do.remote(folder.absolute(), group, plan.threads): group for group in left(folder, plan)}
    try:
        while remote:
            ready, _ = ray.wait(list(remote), timeout=EVERY)
            tick([job for group in remote.values() for job in group])
            for one in ready:
                ray.get(one)
                del remote[one]
    finally:
        for one in remote:
            ray.cancel(one, force=True)
        ray.shutdown()


def write_job_list(folder: Path, plan: Plan) -> Path:
    """Write one command per line for all that is left to do, and a Slurm array script. Returns the path of the list."""
    commands = [shlex.join(command(folder, group)) for group in left(folder, plan)]
    path = folder / "jobs.txt"
    outputs.write(path, "".join(f"OMP_NUM_THREADS={plan.threads} {one}\n" for one in commands))
    script = f"""#!/bin/sh
#SBATCH --array=1-{max(len(commands), 1)}
#SBATCH --cpus-per-task={plan.threads}
eval "$(sed -n "${{SLURM_ARRAY_TASK_ID}}p" {shlex.quote(str(path.absolute()))})"
"""
    outputs.write(folder / "jobs.slurm", script)
    return path


def _start(folder: Path, group: Group, threads: int) -> subprocess.Popen[bytes]:
    path = log(folder, group[0])
    path.parent.mkdir(parents=True, exist_ok=True)
    variables = {
        "OMP_NUM_THREADS": str(threads),
        "MKL_NUM_THREADS": str(threads),
        "PYTHONUNBUFFERED": "1",
        PARENT: str(os.getpid()),
    }
    with path.open("ab") as file:
        return subprocess.Popen(command(folder, group), stdout=file, stderr=file, env=os.environ | variables)


def log(folder: Path, job: Job) -> Path:
    """The log file of a job; of several that are trained together, that of the first."""
    return folder / LOGS / f"{'-'.join(Path(job.folder).parts[1:])}.txt"


def _finish(folder: Path, group: Group, code: int) -> int:
    """Record the end of a group. An exit without a whole run is a result; a job that was killed from outside can be resumed."""
    for job in group:
        run_folder = folder / job.folder
        killed = code in (-15, -2, 130, 143) and state_of(run_folder) in ("", "running", "stopped")
        if code in (0, 3) or killed or (len(group) > 1 and done(folder, job)):
            continue
        lines = [line for line in _last_lines(log(folder, group[0])) if line.strip()]
        message = lines[-1] if lines else "nothing was said"
        ended = f"the process ended with {_exit_text(code)}: {message}"
        record_failure(run_folder, message if code in (2, GUARDED) else ended, code == GUARDED)
    return code


def _exit_text(code: int) -> str:
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


def _last_lines(path: Path) -> Iterator[str]:
    try:
        yield from path.read_text(encoding="utf-8", errors="replace").splitlines()[-20:]
    except OSError:
        return
