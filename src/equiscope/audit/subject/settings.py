"""Settings: what a call may change for the whole process, beside the model."""

import os
from collections.abc import Callable
from typing import Any

import torch


def _environment() -> dict[Any, Any]:
    """The variables as `os.environ` stores them: bytes on POSIX. To decode them at every call takes longer than a small model."""
    return dict(getattr(os.environ, "_data", os.environ))


def _set_environment(variables: dict[Any, Any]) -> None:
    environment: Any = os.environb if os.supports_bytes_environ else os.environ
    environment.clear()
    environment.update(variables)


SETTINGS: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "the default dtype": (torch.get_default_dtype, torch.set_default_dtype),
    "the number of threads": (torch.get_num_threads, torch.set_num_threads),
    "the precision of float32 products": (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
    "whether gradients are recorded": (torch.is_grad_enabled, torch.set_grad_enabled),
    "deterministic algorithms": (torch.are_deterministic_algorithms_enabled, torch.use_deterministic_algorithms),
    "the environment": (_environment, _set_environment),
    "the working directory": (os.getcwd, os.chdir),
}


def current_settings() -> dict[str, Any]:
    """The settings of torch and of the process, by name."""
    return {name: read() for name, (read, _) in SETTINGS.items()}


def restore_settings(before: dict[str, Any]) -> set[str]:
    """Restore them; the names of those that had changed."""
    changed = {name for name, value in current_settings().items() if value != before[name]}
    for name in changed:
        SETTINGS[name][1](before[name])
    return changed
