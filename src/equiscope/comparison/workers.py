"""Who does the jobs: processes of this machine, a Ray cluster, or whoever reads a list of commands. The runs are the same.

Each job is a process of its own, so that one that crashes is a result and the others go on.
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
from equiscope.comparison.job import PARENT, done, note, state_of
from equiscope.comparison.plan import Job, Plan
from equiscope.tokens.extra import needed

LOGS = "logs"
EVERY = 0.25  # seconds between two looks
Tick = Callable[[Sequence[Job]], None]


def command(folder: Path, job: Job) -> list[str]:
    """The process that does one job."""
    return [sys.executable, "-m", "equiscope.comparison", str(folder.absolute()), job.folder]


def alone(folder: Path, job: Job, threads: int) -> int:
    """Do one job in a process of its own, and keep what became of it."""
    process = _begun(folder, job, threads)
    return _ended(folder, job, process.wait())


def together(folder: Path, plan: Plan, processes: int = 1, tick: Tick = lambda running: None) -> None:
    """All jobs that are left, so many at a time. A killed comparison leaves no processes behind, and goes on where they were.

    tick  is called a few times a second with the jobs that run
    """
    left = [job for job in plan.jobs() if not done(folder, job)]
    running: dict[str, tuple[Job, subprocess.Popen[bytes]]] = {}
    with _terminable():
        try:
            while left or running:
                while left and len(running) < processes:
                    job = left.pop(0)
                    running[job.folder] = job, _begun(folder, job, plan.threads)
                tick([job for job, _ in running.values()])
                time.sleep(EVERY)
                for name, (job, process) in list(running.items()):
                    if process.poll() is not None:
                        del running[name]
                        _ended(folder, job, process.returncode)
        finally:
            for _, process in running.values():
                process.terminate()
            for _, process in running.values():
                process.wait()


@contextmanager
def _terminable() -> Iterator[None]:
    """Inside, SIGTERM is an exception, so that processes are ended first."""

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


def with_ray(folder: Path, plan: Plan, tick: Tick = lambda running: None) -> None:
    """All jobs that are left, on the cluster that Ray knows, or on this machine. The folder is one that all machines share.

    raises  InputError where Ray is not installed
    """
    ray = needed("ray", "ray", "--ray", "use --processes")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is sent anywhere
    ray.init(ignore_reinit_error=True, log_to_driver=False, include_dashboard=False)
    do = ray.remote(num_cpus=plan.threads, max_retries=0)(alone)
    left = {do.remote(folder.absolute(), job, plan.threads): job for job in plan.jobs() if not done(folder, job)}
    try:
        while left:
            ready, _ = ray.wait(list(left), timeout=EVERY)
            tick(list(left.values()))
            for one in ready:
                ray.get(one)
                del left[one]
    finally:
        for one in left:
            ray.cancel(one, force=True)
        ray.shutdown()


def listed(folder: Path, plan: Plan) -> Path:
    """One command a line for every job that is left, and a Slurm script that runs them as an array. Returns the list."""
    commands = [shlex.join(command(folder, job)) for job in plan.jobs() if not done(folder, job)]
    path = folder / "jobs.txt"
    outputs.write(path, "".join(f"OMP_NUM_THREADS={plan.threads} {one}\n" for one in commands))
    script = f"""#!/bin/sh
#SBATCH --array=1-{max(len(commands), 1)}
#SBATCH --cpus-per-task={plan.threads}
eval "$(sed -n "${{SLURM_ARRAY_TASK_ID}}p" {shlex.quote(str(path.absolute()))})"
"""
    outputs.write(folder / "jobs.slurm", script)
    return path


def _begun(folder: Path, job: Job, threads: int) -> subprocess.Popen[bytes]:
    path = log(folder, job)
    path.parent.mkdir(parents=True, exist_ok=True)
    said = {"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads), "PYTHONUNBUFFERED": "1", PARENT: str(os.getpid())}
    with path.open("ab") as file:
        return subprocess.Popen(command(folder, job), stdout=file, stderr=file, env=os.environ | said)


def log(folder: Path, job: Job) -> Path:
    """What the process of a job says."""
    return folder / LOGS / f"{'-'.join(Path(job.folder).parts[1:])}.txt"


def _ended(folder: Path, job: Job, code: int) -> int:
    """A job that ended by itself without a whole run is a result; one that was killed from outside goes on next time."""
    place = folder / job.folder
    if code in (0, 3) or (code in (-15, -2, 130, 143) and state_of(place) in ("", "running", "stopped")):
        return code
    lines = [line for line in _last(log(folder, job)) if line.strip()]
    said = lines[-1] if lines else "nothing was said"
    note(place, said if code == 2 else f"the process ended with {_told(code)}: {said}")
    return code


def _told(code: int) -> str:
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


def _last(path: Path) -> Iterator[str]:
    try:
        yield from path.read_text(encoding="utf-8", errors="replace").splitlines()[-20:]
    except OSError:
        return
