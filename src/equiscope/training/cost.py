"""Cost: the peak rate of matrix products on this machine, of which training reports the share that it uses."""

import time
from functools import cache

import torch

SECONDS = 0.15


def best_rate(device: torch.device, dtype: torch.dtype) -> float:
    """Operations per second of the fastest product of two square matrices; a multiply-add counts as two.

    Measured once in a process for each number of threads.
    """
    return _measured(device, dtype, torch.get_num_threads())


@cache
def _measured(device: torch.device, dtype: torch.dtype, threads: int) -> float:
    size = 4096 if device.type == "cuda" else 1024
    a = torch.randn(size, size, device=device, dtype=dtype)
    best, spent = 0.0, 0.0
    while spent < SECONDS:
        wait(device)
        begin = time.perf_counter()
        a @ a
        wait(device)
        took = time.perf_counter() - begin
        best, spent = max(best, 2 * size**3 / took), spent + took
    return best


def wait(device: torch.device) -> None:
    """Wait until the device has finished all queued work."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
