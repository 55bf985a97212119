"""Launch processes on this machine that are connected by gloo, and get what each of them recorded.

On Linux they are forked, so the function may be defined anywhere; elsewhere they are spawned, and it has to be importable.
"""

import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import multiprocessing

from equiscope.audit.parity.ranks.recording import ModuleCall, Recorded, Recordings
from equiscope.errors import InputError

Work = Callable[[Callable[[str], None]], Recordings]  # gets a function to report the module that is entered


def launch(work: Work, processes: int, seconds: float) -> list[Recordings]:
    """The recordings of every process, by rank.

    work     what each process does
    raises   InputError where a process raises, or does not finish within the time; it names the process and the module
    """
    if not dist.is_available() or not dist.is_gloo_available():
        raise InputError("Several processes need torch.distributed with gloo, which this build of torch lacks.")
    forks = sys.platform == "linux" and not torch.cuda.is_initialized()
    context: Any = multiprocessing.get_context("fork" if forks else "spawn")
    with tempfile.TemporaryDirectory(prefix="equiscope-ranks-") as name:
        folder = Path(name)
        started = [context.Process(target=_rank, args=(work, rank, processes, folder, seconds)) for rank in range(processes)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python 3.12 warns of forks beside threads; the children use one thread
            for process in started:
                process.start()
        try:
            _wait(started, folder, time.monotonic() + seconds)
        finally:
            for process in started:
                if process.is_alive():
                    process.kill()
                process.join()
        return [_read(folder / f"{rank}.pt") for rank in range(processes)]


def _rank(work: Work, rank: int, processes: int, folder: Path, seconds: float) -> None:
    """One process: what it recorded, or its error, goes to a file."""
    torch.set_num_threads(1)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo" if sys.platform == "linux" else "lo0")
    progress = os.open(folder / f"{rank}.module", os.O_CREAT | os.O_WRONLY)

    def entered(path: str) -> None:
        os.ftruncate(progress, 0)
        os.pwrite(progress, path.encode(), 0)

    try:
        dist.init_process_group(
            "gloo", init_method=f"file://{folder / 'store'}", rank=rank, world_size=processes, timeout=timedelta(seconds=seconds)
        )
        recordings = work(entered)
        part = folder / f"{rank}.part"
        torch.save(_plain(recordings), part)
        part.rename(folder / f"{rank}.pt")
        dist.barrier()
        dist.destroy_process_group()
    except BaseException as error:  # the user's own code
        text = f"{type(error).__name__}: {' '.join(str(error).split())[:240]}"
        (folder / f"{rank}.error").write_text(str(error) if isinstance(error, InputError) else text)
        os._exit(1)


def _wait(started: list[Any], folder: Path, deadline: float) -> None:
    """Until all have finished. Raises InputError for the first that fails."""
    while any(process.is_alive() for process in started) and time.monotonic() < deadline:
        if any(process.exitcode for process in started):
            time.sleep(0.3)  # the others may be about to say more than that a connection was closed
            break
        time.sleep(0.02)
    wrong = {rank: path.read_text() for rank in range(len(started)) if (path := folder / f"{rank}.error").is_file()}
    wrong = {rank: text for rank, text in wrong.items() if "/gloo/" not in text} or wrong
    if wrong:
        rank, text = next(iter(wrong.items()))
        where = _module(folder, rank)
        raise InputError(f"Process {rank} of {len(started)} raised {text}{where}.")
    if dead := [rank for rank, process in enumerate(started) if process.exitcode]:
        raise InputError(f"Process {dead[0]} of {len(started)} ended with exit code {started[dead[0]].exitcode}.")
    if alive := [rank for rank, process in enumerate(started) if process.is_alive()]:
        waiting = "; ".join(f"process {rank} is{_module(folder, rank) or ' not in a module'}" for rank in alive)
        raise InputError(f"The processes did not finish: {waiting}. Each has to call the same collectives in the same order.")


def _module(folder: Path, rank: int) -> str:
    path = folder / f"{rank}.module"
    text = path.read_text() if path.is_file() else ""
    return f" in {text}" if text else ""


def _plain(recordings: Recordings) -> dict[Any, Any]:
    return {
        str(dtype): {
            "calls": [(c.path, c.kind, c.inputs, c.output) for c in one.calls],
            "outputs": one.outputs, "parameters": one.parameters,
        }
        for dtype, one in recordings.items()
    }  # fmt: skip


def _read(path: Path) -> Recordings:
    saved = torch.load(path, weights_only=True)
    return {
        getattr(torch, name.removeprefix("torch.")): Recorded(
            [ModuleCall(*call) for call in one["calls"]], one["outputs"], one["parameters"]
        )
        for name, one in saved.items()
    }
