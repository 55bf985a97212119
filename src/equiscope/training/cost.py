"""Cost: how much of the machine's rate of matrix products the model's own products use."""

import time

import torch

SECONDS = 0.15


def best_rate(device: torch.device, dtype: torch.dtype) -> float:
    """Operations a second of the best product of two square matrices, measured as ours multiply; a multiply-add counts two."""
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
    """Until the device has done what it was told."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
