"""Run the cases: most in forked processes that have imported the package, some as separate commands.

A case passes if it ends with 0, 1 or 2 within its limits of time and memory, without a traceback, prints a message if it ends
with 2, changes only its outputs, and runs no code from a file.
"""

import contextlib
import multiprocessing
import os
import random
import resource
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

from benchmarks.fuzz import good
from benchmarks.fuzz.kinds import KINDS, ONE, Case, devices
from benchmarks.machine import ROOT

LIMIT = 25  # seconds of a case
SILENCE = 1.0  # seconds in which a pipe says nothing, in forked processes; commands of their own wait for the 10 that they have
MEMORY = 4 * 2**30  # bytes beyond what the loaded package takes
BATCH = 40  # cases of one process
CANARY = "canary"
DISKS = ("full-disk", "read-only")


@dataclass
class Ending:
    """How a case ended. memory: bytes that its process used; fault: empty for a case that passes."""

    kind: str
    number: int
    arguments: list[str]
    code: int
    seconds: float
    memory: float = 0.0
    fault: str = ""


def environment(folder: Path) -> dict[str, str]:
    sources = str(ROOT / "src")
    return os.environ | {
        "PYTHONPATH": os.pathsep.join([sources, os.environ.get("PYTHONPATH", "")]),
        "EQUISCOPE_CACHE": str(folder / ".cache"),
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_VERBOSITY": "critical",
        "OMP_NUM_THREADS": "1",
    }


def case_of(kind: str, number: int, seed: int, begin: Path, folder: Path) -> Case:
    """A case in its own folder, a copy of the valid files."""
    draw = random.Random(f"{seed} {kind} {number}")
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(begin, folder, ignore=shutil.ignore_patterns(".cache", *good.BOMBS), symlinks=True)
    for name in good.BOMBS:
        os.link(begin / name, folder / name)
    case = KINDS[kind][0](draw, folder)
    case.arguments = [word.replace("\0", "") for word in case.arguments]
    return case


# --- one case ---------------------------------------------------------------------------------------------------------
class Hang(BaseException):
    """A case that does not end."""


def _hang(*_: Any) -> None:
    raise Hang


def run_here(case: Case, folder: Path) -> tuple[int, str, str]:
    """Run a case in this process, as the command would: its exit code, stderr, and the fault."""
    os.chdir(folder)
    stderr = folder / ".stderr"
    with _feeding(case, folder) as pipe, _redirected(case, folder, pipe, stderr):
        code, fault = 0, ""
        signal.signal(signal.SIGALRM, _hang)
        signal.alarm(LIMIT)
        try:
            code = _call(case.arguments)
        except Hang:
            code, fault = -1, f"no end within {LIMIT} s"
        except BaseException:
            code, fault = -2, traceback.format_exc()
        finally:
            signal.alarm(0)
    return code, stderr.read_text(errors="replace"), fault


def _call(arguments: list[str]) -> int:
    from equiscope.cli import main
    from equiscope.errors import EquiscopeError

    if arguments[0] == "read":
        try:
            _readers()[arguments[1]](arguments[2])
        except EquiscopeError as error:
            print(error, file=sys.stderr)
            return 2
        return 0
    sys.argv = ["equiscope", *arguments]
    try:
        main()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    return 0


def _readers() -> dict[str, Callable[[Any], Any]]:
    import equiscope as eq
    from equiscope import checkpoints, tokens

    names = ("read_points", "read_frames", "read_image", "read_sound")
    readers = {name: getattr(tokens, name) for name in names}
    return readers | {"tokenizer": tokens.Tokenizer.read, "load": checkpoints.load, "spec": lambda path: eq.Spec.of(Path(path))}


@contextlib.contextmanager
def _feeding(case: Case, folder: Path) -> Iterator[int | None]:
    """A process writes into the pipe of the case; if that is standard input, its read end is returned."""
    if not case.feed:
        yield None
        return
    named = next((path for path in folder.rglob("*") if path.is_fifo()), folder)
    command = case.feed.replace("{pipe}", str(named))
    through = subprocess.PIPE if case.into == "pipe" else subprocess.DEVNULL
    feeder = subprocess.Popen(
        ["sh", "-c", command],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=through,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield feeder.stdout.fileno() if feeder.stdout else None
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(feeder.pid, signal.SIGKILL)
        if feeder.stdout:
            feeder.stdout.close()
        feeder.wait()


@contextlib.contextmanager
def _redirected(case: Case, folder: Path, pipe: int | None, stderr: Path) -> Iterator[None]:
    """Redirect the three standard streams to those of the case."""
    before = [os.dup(number) for number in range(3)]
    streams = sys.argv, sys.stdin, sys.stdout, sys.stderr
    into = os.dup(pipe) if pipe is not None else os.open("/dev/null" if case.into in ("pipe", "closed") else case.into, os.O_RDONLY)
    out = os.open(case.out if case.out.startswith("/") else folder / ".stdout", os.O_CREAT | os.O_WRONLY)
    for number, handle in enumerate((into, out, os.open(stderr, os.O_CREAT | os.O_WRONLY | os.O_TRUNC))):
        os.dup2(handle, number)
        os.close(handle)
    if case.out == "closed":  # nobody reads it
        read, write = os.pipe()
        os.close(read)
        os.dup2(write, 1)
        os.close(write)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", buffering=1, closefd=False)  # noqa: SIM115
    try:
        yield
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        sys.argv, sys.stdin, sys.stdout, sys.stderr = streams
        for number, handle in enumerate(before):
            os.dup2(handle, number)
            os.close(handle)


def run_command(case: Case, folder: Path) -> tuple[int, str, str]:
    """Run a case as a separate command."""
    with _feeding(case, folder) as pipe, open(case.out if case.out.startswith("/") else os.devnull, "wb") as out:
        into = pipe if pipe is not None else os.open("/dev/null" if case.into in ("pipe", "closed") else case.into, os.O_RDONLY)
        try:
            done = subprocess.run(
                [sys.executable, "-m", "equiscope", *map(os.fsencode, case.arguments)], cwd=folder, stdin=into, stdout=out,
                stderr=subprocess.PIPE, timeout=3 * LIMIT, env=environment(folder), check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return -1, "", f"no end within {3 * LIMIT} s"
        finally:
            if pipe is None:
                os.close(into)
    return done.returncode, done.stderr.decode(errors="replace"), ""


def fault_of(code: int, stderr: str, case: Case, folder: Path) -> str:
    """The fault of a command; empty if it passes."""
    if "Traceback (most recent call last)" in stderr:
        return stderr
    if code not in (0, 1, 2):
        return f"exit {code}: {stderr[-500:]}"
    if code == 2 and not stderr.strip() and not case.out:
        return "exit 2 without a word"
    if (folder / CANARY).exists() or (folder.parent / CANARY).exists():
        return "code that a file brought was run"
    if (kept := folder / "kept").exists() and kept.read_text() != "kept":
        return "a file was written that is not the output"
    for name in ("null", "full"):
        if (device := folder / name).exists() and not stat.S_ISCHR(os.lstat(device).st_mode):
            return "a device was replaced by a file"
    return ""


# --- many cases -------------------------------------------------------------------------------------------------------
def _work(kind: str, numbers: list[int], seed: int, begin: Path, place: Path, each: int, pipe: Any) -> None:
    """Run some cases of a kind one after the other; sends the number of each before it begins, and its ending after it."""
    from equiscope import budgets
    from equiscope import outputs as door

    room = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (room, resource.getrlimit(resource.RLIMIT_AS)[1]))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.environ.update(environment(begin))
    budgets.PATIENCE = door.PATIENCE = SILENCE
    for number in numbers:
        pipe.send(number)
        case = case_of(kind, number, seed, begin, place)
        own = bool(each) and number % each == each - 1 and case.arguments[0] != "read"
        started = time.perf_counter()
        code, stderr, fault = (run_command if own else run_here)(case, place)
        seconds = time.perf_counter() - started
        who = resource.RUSAGE_CHILDREN if own else resource.RUSAGE_SELF
        memory = resource.getrusage(who).ru_maxrss * 1024.0
        pipe.send(Ending(kind, number, case.arguments, code, seconds, memory, fault or fault_of(code, stderr, case, place)))
        os.chdir(begin)
    pipe.send(None)
    os._exit(0)


def _batch(kind: str, numbers: list[int], seed: int, begin: Path, place: Path, each: int) -> list[Ending]:
    """Run some cases in a forked process, and the rest in another one if it dies."""
    endings: list[Ending] = []
    while numbers:
        ours, theirs = multiprocessing.Pipe()
        process = multiprocessing.get_context("fork").Process(target=_work, args=(kind, numbers, seed, begin, place, each, theirs))
        process.start()
        theirs.close()
        number = numbers[0]
        while ours.poll() or ours in wait([ours, process.sentinel], 5 * LIMIT):  # nothing is there when it has died, or hangs
            try:
                told = ours.recv()
            except EOFError:
                break
            if told is None:
                numbers = []
                break
            if isinstance(told, Ending):
                endings.append(told)
                numbers = [n for n in numbers if n > told.number]
            else:
                number = told
        if numbers:
            process.kill()
            process.join()
            endings.append(Ending(kind, number, ["?"], -3, 5.0 * LIMIT, 0.0, f"the process ended with {process.exitcode}"))
            numbers = [n for n in numbers if n > number]
        process.join()
    shutil.rmtree(place, ignore_errors=True)
    return endings


@contextlib.contextmanager
def _disks(folder: Path) -> Iterator[str]:
    """A full disk and a read-only disk, where the system permits mounting them."""
    places = []
    try:
        for name in DISKS:
            place = folder / name
            place.mkdir()
            mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(place)]
            if subprocess.run(mount, capture_output=True, check=False).returncode:
                break
            places.append(place)
            (place / "held").write_text("held")
            if name == "full-disk":
                with contextlib.suppress(OSError), open(place / "rest", "wb") as file:
                    while True:
                        file.write(bytes(4096))
                        file.flush()
            elif subprocess.run(["mount", "-o", "remount,ro", str(place)], capture_output=True, check=False).returncode:
                break
        yield os.pathsep.join(map(str, places))
    except FileNotFoundError:  # no such command
        yield ""
    finally:
        for place in places:
            subprocess.run(["umount", "-l", str(place)], capture_output=True, check=False)


def _trained(folder: Path) -> None:
    """A finished run of each recipe."""
    for task in good.RECIPES:
        code, stderr, fault = run_here(Case(["train", f"{task}.toml", ONE, "--out", f"run-{task}"]), folder)
        assert code == 0, stderr + fault


def fuzz(count: int, seed: int, only: list[str], workers: int, each: int) -> tuple[list[Ending], bool, bool]:
    """The endings of all cases; whether disks could be mounted and devices made."""
    import equiscope.cli.check
    import equiscope.cli.compare
    import equiscope.cli.explore
    import equiscope.cli.generate
    import equiscope.cli.heads
    import equiscope.cli.study
    import equiscope.cli.train  # noqa: F401 loaded once, before the processes are forked

    folder, before = Path(tempfile.mkdtemp(prefix="equiscope-fuzz-")), set(os.listdir("/"))
    begin = folder / "good"
    begin.mkdir()
    try:
        with _disks(folder) as mounted:
            os.environ["FUZZ_DISKS"] = mounted
            good.write(begin, str(folder / CANARY))
            context = multiprocessing.get_context("fork")
            training = context.Process(target=_trained, args=(begin,))
            training.start()
            training.join()
            assert training.exitcode == 0, "a good recipe could not be trained"
            shares = {name: share for name, (_, share) in KINDS.items() if not only or name in only}
            whole = sum(shares.values())
            jobs = []
            for name, share in shares.items():
                numbers = list(range(max(1, round(count * share / whole))))
                jobs += [(name, numbers[first : first + BATCH]) for first in range(0, len(numbers), BATCH)]
            with ThreadPoolExecutor(workers) as pool:
                done = [
                    pool.submit(_batch, kind, numbers, seed, begin, folder / f"case-{i}", each)
                    for i, (kind, numbers) in enumerate(jobs)
                ]
                endings = [ending for one in done for ending in one.result()]
        assert not any(folder.rglob(CANARY)), "code that a file brought was run"
        outside = set(os.listdir("/")) - before | {path.name for path in folder.iterdir()} - {"good", *DISKS}
        assert not outside, f"{outside} were written outside of the cases' folders"
        return endings, bool(mounted), devices(begin) == ["null", "full"]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
