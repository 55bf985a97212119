"""Processes: how many compute a run together, and how they exchange results.

One process needs torch alone. Several are started and connected by Lightning Fabric: each with all weights and averaged gradients
(DDP), or each with a shard of every weight (FSDP2).
"""

import logging
import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from typing import Any, TypeVar, cast

import torch
from torch import Tensor, nn

from equiscope.errors import EquiscopeError, InputError
from equiscope.tokens.extra import needed
from equiscope.training.recipe import Recipe

T = TypeVar("T")


class SingleProcess:
    """One process, on a GPU if there is one.

    spread  whether each process holds only a shard of every weight
    """

    spread = False

    def __init__(self) -> None:
        self.count, self.rank = 1, 0
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

    @property
    def first(self) -> bool:
        """Whether this process writes files."""
        return self.rank == 0

    def wrapped(self, model: nn.Module) -> nn.Module:
        """The module to call, on this process's device."""
        return model.to(self.device)

    def sync_gradients(self, called: nn.Module, now: bool) -> AbstractContextManager[Any]:
        """Inside, a backward pass averages the gradients of all processes (now = True), or defers that to a later one."""
        return nullcontext()

    def gather_values(self, values: Tensor) -> list[list[float]]:
        """The values [N] of every process, by rank. The only call in a step that waits for the device."""
        return [values.tolist()]

    def gather_objects(self, thing: T) -> list[T]:
        """The object of every process, by rank."""
        return [thing]

    def on_first(self, work: Callable[[], T]) -> T:
        """The result of `work`, computed by the first process; if it fails there, all processes fail."""
        return work()


class DistributedProcesses(SingleProcess):
    """Several processes, started here or by torchrun.

    raises  InputError if the extra `train` is not installed, or there are fewer GPUs than processes
    """

    def __init__(self, recipe: Recipe, devices: int, nodes: int) -> None:
        fabric = needed("lightning_fabric", "train", f"Training with {devices * nodes} processes", "train with one process")
        strategies = import_module("lightning_fabric.strategies")
        logging.getLogger("lightning_fabric").setLevel(logging.WARNING)  # each process says that it is there
        gpus = torch.cuda.device_count()
        if gpus and gpus < devices:
            raise InputError(f"{devices} processes need as many GPUs, but this machine shows {gpus}. Use --devices {gpus}.")
        self.half, self.spread = recipe.engine.precision == "bfloat16", recipe.engine.strategy == "fsdp"
        strategy = strategies.ModelParallelStrategy(self._sharded, data_parallel_size=devices * nodes, tensor_parallel_size=1)
        self.fabric: Any = fabric.Fabric(
            accelerator="cuda" if gpus else "cpu", devices=devices, num_nodes=nodes,
            strategy=strategy if self.spread else strategies.DDPStrategy(),
        )  # fmt: skip
        self.fabric.launch()
        self.count, self.rank, self.device = self.fabric.world_size, self.fabric.global_rank, self.fabric.device

    def wrapped(self, model: nn.Module) -> nn.Module:
        return cast(nn.Module, self.fabric.setup_module(model.to(self.device), _reapply_compile=False))

    def sync_gradients(self, called: nn.Module, now: bool) -> AbstractContextManager[Any]:
        return self.fabric.no_backward_sync(cast(Any, called), enabled=not now)

    def gather_values(self, values: Tensor) -> list[list[float]]:
        everyones = [torch.empty_like(values) for _ in range(self.count)]
        torch.distributed.all_gather(everyones, values)
        return cast(list[list[float]], torch.stack(everyones).tolist())

    def gather_objects(self, thing: T) -> list[T]:
        things: list[Any] = [None] * self.count
        torch.distributed.all_gather_object(things, thing)
        return things

    def on_first(self, work: Callable[[], T]) -> T:
        answer: tuple[Any, str | None] = (None, None)
        if self.first:
            try:
                answer = (work(), None)
            except (EquiscopeError, OSError) as error:
                self.fabric.broadcast((None, str(error)))
                raise
        result, wrong = self.fabric.broadcast(answer)
        if wrong is not None:
            raise InputError(wrong)
        return cast(T, result)

    def _sharded(self, model: Any, mesh: Any) -> Any:
        """Shard each layer's weights over the processes; they are gathered while the layer is computed.

        A model with an encoder is sharded as a whole, since its layers and those that attend to it are called alternately.
        """
        from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

        policy = (
            MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32) if self.half else MixedPrecisionPolicy()
        )
        settings = {"mesh": mesh["data_parallel"], "mp_policy": policy, "reshard_after_forward": True}
        if model.encoder is None:
            for block in model.blocks:
                fully_shard(block, **settings)
        return fully_shard(model, **settings)


def processes(recipe: Recipe, devices: int = 1) -> SingleProcess:
    """The processes of torchrun, or `devices` processes on this machine."""
    nodes = 1
    if "TORCHELASTIC_RUN_ID" in os.environ:
        devices = int(os.environ["LOCAL_WORLD_SIZE"])
        nodes = int(os.environ["WORLD_SIZE"]) // devices
    if devices * nodes == 1:
        return SingleProcess()
    if recipe.budget.batch < recipe.budget.accumulate * devices * nodes:
        raise InputError(
            f"A batch of {recipe.budget.batch} cannot be shared out in {recipe.budget.accumulate} turns to {devices * nodes} "
            "processes. Use a larger budget.batch, or fewer of the others."
        )
    return DistributedProcesses(recipe, devices, nodes)


def process_count(devices: int = 1) -> int:
    """The number of processes: of torchrun, or `devices` on this machine."""
    return int(os.environ["WORLD_SIZE"]) if "TORCHELASTIC_RUN_ID" in os.environ else devices


def first() -> bool:
    """Whether this is the first process; known before `processes` has started the others."""
    return int(os.environ.get("RANK", os.environ.get("LOCAL_RANK", "0"))) == 0
