"""Workers: run the jobs in processes of this machine, on a Ray cluster, or from a list of commands. The runs are the same.

Each job is a process of its own, so a crash is a result of that job and the others continue.
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
from equiscope.comparison.job import PARENT, done, record_failure, state_of
from equiscope.comparison.plan import Job, Plan
from equiscope.tokens.extra import needed

LOGS = "logs"
EVERY = 0.25  # seconds between two looks
Tick = Callable[[Sequence[Job]], None]


def left(folder: Path, plan: Plan) -> list[Job]:
    """The jobs that are not done yet."""
    return [job for job in plan.jobs() if not done(folder, job)]


def command(folder: Path, job: Job) -> list[str]:
    """The command line of one job."""
    return [sys.executable, "-m", "equiscope.comparison", str(folder.absolute()), job.folder]


def run_one(folder: Path, job: Job, threads: int) -> int:
    """Run one job in its own process, and record how it ended."""
    process = _start(folder, job, threads)
    return _finish(folder, job, process.wait())


def run_all(folder: Path, plan: Plan, processes: int = 1, tick: Tick = lambda running: None) -> None:
    """Run all remaining jobs, `processes` at a time. If the comparison is killed, so are its processes, and it can be resumed.

    tick  is called a few times a second with the running jobs
    """
    waiting = left(folder, plan)
    running: dict[str, tuple[Job, subprocess.Popen[bytes]]] = {}
    with _terminable():
        try:
            while waiting or running:
                while waiting and len(running) < processes:
                    job = waiting.pop(0)
                    running[job.folder] = job, _start(folder, job, plan.threads)
                tick([job for job, _ in running.values()])
                time.sleep(EVERY)
                for name, (job, process) in list(running.items()):
                    if process.poll() is not None:
                        del running[name]
                        _finish(folder, job, process.returncode)
        finally:
            for _, process in running.values():
                process.terminate()
            for _, process in running.values():
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
    remote = {do.remote(folder.absolute(), job, plan.threads): job for job in left(folder, plan)}
    try:
        while remote:
            ready, _ = ray.wait(list(remote), timeout=EVERY)
            tick(list(remote.values()))
            for one in ready:
                ray.get(one)
                del remote[one]
    finally:
        for one in remote:
            ray.cancel(one, force=True)
        ray.shutdown()


def write_job_list(folder: Path, plan: Plan) -> Path:
    """Write one command per line for every remaining job, and a Slurm array script. Returns the path of the list."""
    commands = [shlex.join(command(folder, job)) for job in left(folder, plan)]
    path = folder / "jobs.txt"
    outputs.write(path, "".join(f"OMP_NUM_THREADS={plan.threads} {one}\n" for one in commands))
    script = f"""#!/bin/sh
#SBATCH --array=1-{max(len(commands), 1)}
#SBATCH --cpus-per-task={plan.threads}
eval "$(sed -n "${{SLURM_ARRAY_TASK_ID}}p" {shlex.quote(str(path.absolute()))})"
"""
    outputs.write(folder / "jobs.slurm", script)
    return path


def _start(folder: Path, job: Job, threads: int) -> subprocess.Popen[bytes]:
    path = log(folder, job)
    path.parent.mkdir(parents=True, exist_ok=True)
    variables = {
        "OMP_NUM_THREADS": str(threads),
        "MKL_NUM_THREADS": str(threads),
        "PYTHONUNBUFFERED": "1",
        PARENT: str(os.getpid()),
    }
    with path.open("ab") as file:
        return subprocess.Popen(command(folder, job), stdout=file, stderr=file, env=os.environ | variables)


def log(folder: Path, job: Job) -> Path:
    """The log file of a job."""
    return folder / LOGS / f"{'-'.join(Path(job.folder).parts[1:])}.txt"


def _finish(folder: Path, job: Job, code: int) -> int:
    """Record the end of a job. An exit without a whole run is a result; a job that was killed from outside can be resumed."""
    run_folder = folder / job.folder
    if code in (0, 3) or (code in (-15, -2, 130, 143) and state_of(run_folder) in ("", "running", "stopped")):
        return code
    lines = [line for line in _last_lines(log(folder, job)) if line.strip()]
    message = lines[-1] if lines else "nothing was said"
    record_failure(run_folder, message if code == 2 else f"the process ended with {_exit_text(code)}: {message}")
    return code


def _exit_text(code: int) -> str:
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


def _last_lines(path: Path) -> Iterator[str]:
    try:
        yield from path.read_text(encoding="utf-8", errors="replace").splitlines()[-20:]
    except OSError:
        return
