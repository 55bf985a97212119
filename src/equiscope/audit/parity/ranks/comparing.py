"""Compare a model on one process with the same model on several."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch.distributed as dist
from torch import nn

from equiscope.audit.inputs.targets import named_object, target
from equiscope.audit.parity.ranks.judging import judge
from equiscope.audit.parity.ranks.launching import launch
from equiscope.audit.parity.ranks.recording import Parallel, Recordings, record_process
from equiscope.audit.parity.ranks.values import Processes
from equiscope.errors import EquiscopeError, InputError
from equiscope.record import Parity

SECONDS = 300.0  # for all processes together


@dataclass
class ParallelRun:
    """What every process does: make the parallel model of a copy of A, and record it. a, b: objects, or names of such."""

    a: nn.Module | str
    b: Parallel | str
    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)
    seed: int = 0

    def __call__(self, entered: Any) -> Recordings:
        """The recordings of this process."""
        model = target(self.a, seed=self.seed).model if isinstance(self.a, str) else self.a
        return record_process(model, _function(self.b), self.args, self.kwargs, self.seed, entered)


def compare_processes(
    a: nn.Module, b: Parallel | str, args: tuple[Any, ...], kwargs: Mapping[str, Any], processes: int | None,
    titles: tuple[str, str], seed: int,
) -> Parity:  # fmt: skip
    """The record of A on one process and of what `b` makes of a copy of it on several.

    processes  to launch on this machine, 2 by default; those of torch.distributed where it is initialised: then every process calls
               this function, and gets the same record
    raises     InputError where B raises, or hangs
    """
    parallel = _function(b)
    if not dist.is_available() or not dist.is_initialized():
        count = 2 if processes is None else processes
        if count < 2:
            raise InputError(f"B runs on 2 processes or more, but got processes={count}.")
        many = launch(ParallelRun(a, parallel, args, dict(kwargs), seed), count, SECONDS)
        return judge(Processes(a, args, kwargs, seed, record_process(a, None, args, kwargs, seed), many), titles)
    gathered: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(gathered, record_process(a, parallel, args, kwargs, seed))
    answer: list[Any] = [None]
    if dist.get_rank() == 0:
        try:
            answer = [judge(Processes(a, args, kwargs, seed, record_process(a, None, args, kwargs, seed), gathered), titles)]
        except EquiscopeError as error:
            answer = [str(error)]
    dist.broadcast_object_list(answer, 0)
    if isinstance(answer[0], str):
        raise InputError(answer[0])
    result: Parity = answer[0]
    return result


def _function(b: Parallel | str) -> Parallel:
    found: Any = named_object(b) if isinstance(b, str) else b
    if not callable(found) or isinstance(found, nn.Module):
        raise InputError(
            f"On several processes, B is a function that gets a copy of A and returns it as a parallel model, but {b} is a "
            f"{type(found).__name__}."
        )
    parallel: Parallel = found
    return parallel
