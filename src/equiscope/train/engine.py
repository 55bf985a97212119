"""Engine: one step of learning, on whatever computes. Lightning Fabric starts the processes and joins their gradients.

Whatever is random in a step is seeded by the run's seed, the step and the process, so nothing random has to be saved.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from equiscope import blocks
from equiscope.data.order import number
from equiscope.errors import InputError
from equiscope.models import Mixed, Model, Probe, fast_products, probe
from equiscope.pretrained.runs import AVERAGE, WEIGHTS
from equiscope.train import checkpoint
from equiscope.train.optimiser import Average, optimisers, set_rates, share
from equiscope.train.recipe import Recipe, shared
from equiscope.train.task import Batch, Task


class Engine:
    """A model that learns by a recipe. `model` is the bare one, whatever is wrapped around it.

    devices  processes on this machine; under torchrun, as it says
    raises   InputError where the extra `train` is not installed
    """

    def __init__(self, recipe: Recipe, model: Model, devices: int = 1) -> None:
        self.recipe, self.model = recipe, model
        self.fabric = _fabric(recipe, devices)
        self.fabric.launch()
        shared(recipe, self.processes)
        self.model.train()
        self._mixed: Mixed | None = None
        if recipe.engine.recompute:
            _recomputed(model)
        inner: nn.Module = model
        if recipe.engine.precision == "bfloat16" and self.processes == 1:
            inner = self._mixed = Mixed(model.to(self.fabric.device))
        if recipe.engine.compile:
            (self._mixed.inner if self._mixed else inner).compile()
        self._called = self.fabric.setup_module(inner, _reapply_compile=False)
        self.optimisers = [self.fabric.setup_optimizers(o) for o in optimisers(model, recipe.optimiser)]
        self._bare = [getattr(o, "optimizer", o) for o in self.optimisers]
        self.average = Average(model, recipe.optimiser.average) if recipe.optimiser.average else None
        self.products: Probe | None = None

    @property
    def processes(self) -> int:
        return int(self.fabric.world_size)

    @property
    def first(self) -> bool:
        """Whether this process writes."""
        return bool(self.fabric.is_global_zero)

    def step(self, task: Task, step: int) -> tuple[float, float, list[Batch]]:
        """One step, counted from 0: the loss before it, the length of the gradient, and what was read here.

        raises  Diverged where one of the two is no number; the weights are then as before the step
        """
        recipe, turns = self.recipe, self.recipe.budget.accumulate
        rate = share(recipe.optimiser, step, recipe.budget.steps)
        torch.manual_seed(number(recipe.seed, "step", step, self.fabric.global_rank))
        shares, total, read = turns * self.processes, torch.zeros((), device=self.fabric.device), []
        for turn in range(turns):
            batch = task.batch(step, turn * self.processes + self.fabric.global_rank, shares).to(self.fabric.device)
            with self.fabric.no_backward_sync(self._called, enabled=turn + 1 < turns):
                loss = task.loss(self._called, batch) / batch.terms
                self.fabric.backward(loss * self.processes)  # gradients of processes are averaged
            total += loss.detach()
            read.append(batch)
        if self._mixed is not None:
            self._mixed.collect()
        norm = _norm(self.model, recipe.optimiser.clip)
        lost, length = float(self.fabric.all_reduce(total, reduce_op="sum")), float(norm)
        if not (_finite(lost) and _finite(length)):
            self._clear()
            raise Diverged(step, lost, length)
        set_rates(self._bare, rate)
        for optimiser in self.optimisers:
            optimiser.step()
        self._clear()
        if self._mixed is not None:
            self._mixed.spread()
        if self.average is not None:
            self.average.follow(self.model, step + 1)
        return lost, length, read

    @property
    def rate(self) -> float:
        return float(self._bare[0].param_groups[0]["lr"])

    @contextmanager
    def evaluated(self) -> Iterator[Model]:
        """Inside, the model in eval mode with the weights that are kept: averaged ones, where the recipe averages."""
        if self.average is not None:
            self.average.swap(self.model)
        self.model.eval()
        try:
            yield self.model
        finally:
            self.model.train()
            if self.average is not None:
                self.average.swap(self.model)

    def state(self) -> dict[str, dict[str, Tensor]]:
        """Files of a checkpoint; every process has to ask."""
        averaged = {} if self.average is None else {n: _whole(t) for n, t in self.average.weights.items()}
        return {
            WEIGHTS: checkpoint.weights(self.model),
            checkpoint.OPTIMISER: checkpoint.optimiser_state(self.model, self._bare),
            AVERAGE: averaged,
        }

    def restore(self, files: Callable[[str], dict[str, Tensor]]) -> None:
        """Take what `state` gave. Raises InputError where a file is damaged, before anything has changed."""
        weights, held, averaged = (files(name) for name in (WEIGHTS, checkpoint.OPTIMISER, AVERAGE))
        checkpoint.set_weights(self.model, weights)
        checkpoint.set_optimiser_state(self.model, self._bare, held)
        if self.average is not None:
            for name, tensor in self.average.weights.items():
                _fill(tensor, averaged[name])
        if self._mixed is not None:
            self._mixed.spread()

    @contextmanager
    def fast(self, task: Task, used: bool | None) -> Iterator[bool]:
        """Inside, products go the faster way on a CPU, as measured; or as before (`used`), so that a resumed run stays the same."""
        plain = self.recipe.engine.precision != "float32" or self.fabric.device.type != "cpu"
        if plain or task.name == "translation" or used is False:
            yield False
            return
        inputs = task.batch(0, 0, self.recipe.budget.accumulate * self.processes).tensors["inputs"]
        found = Probe(2.0, 1.0, 1.0, 1.0) if used else probe(self.model, inputs)
        with fast_products(self.model, inputs, found):
            yield found is not None and found.used

    def _clear(self) -> None:
        for optimiser in self.optimisers:
            optimiser.zero_grad(set_to_none=True)


class Diverged(InputError):
    """A loss or a gradient that is no number. step: counted from 0."""

    def __init__(self, step: int, loss: float, norm: float) -> None:
        what = f"the loss is {loss}" if not _finite(loss) else f"the loss is {loss:.4g}, but the gradient's length is {norm}"
        super().__init__(f"Step {step + 1}: {what}.")
        self.step = step


def _fabric(recipe: Recipe, devices: int) -> Any:
    try:
        import lightning_fabric as fabric
    except ImportError as error:
        raise InputError(
            "Training needs lightning-fabric, which is not installed. Install the extra: pip install 'equiscope[train]'."
        ) from error
    nodes = 1
    if "TORCHELASTIC_RUN_ID" in os.environ:
        devices = int(os.environ["LOCAL_WORLD_SIZE"])
        nodes = int(os.environ["WORLD_SIZE"]) // devices
    many = devices * nodes > 1
    strategy: Any = "auto"
    if many and recipe.engine.strategy == "fsdp":
        from lightning_fabric.strategies import ModelParallelStrategy

        strategy = ModelParallelStrategy(parallelize_fn=_spread, save_distributed_checkpoint=False)
    elif many:
        strategy = "ddp"
    precision: Any = "bf16-mixed" if many and recipe.engine.precision == "bfloat16" else "32-true"
    return fabric.Fabric(accelerator="auto", devices=devices, num_nodes=nodes, strategy=strategy, precision=precision)


def _spread(model: Any, mesh: Any) -> Any:
    """Every process holds a share of each layer's weights (FSDP2)."""
    from torch.distributed.fsdp import fully_shard

    dimension = mesh["data_parallel"]
    for block in model.blocks:
        fully_shard(block, mesh=dimension)
    return fully_shard(model, mesh=dimension)


def _recomputed(model: nn.Module) -> None:
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import apply_activation_checkpointing

    apply_activation_checkpointing(model, check_fn=lambda part: isinstance(part, blocks.Block))


def _norm(model: nn.Module, clip: float | None) -> Tensor:
    grads: Sequence[Tensor] = [p for p in model.parameters() if p.grad is not None]
    found = nn.utils.clip_grad_norm_(grads, clip if clip is not None else float("inf"))
    return found.full_tensor() if hasattr(found, "full_tensor") else found


def _whole(tensor: Tensor) -> Tensor:
    return (tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor).cpu()


@torch.no_grad()
def _fill(tensor: Tensor, whole: Tensor) -> None:
    if hasattr(tensor, "device_mesh"):
        from torch.distributed.tensor import distribute_tensor

        whole = distribute_tensor(whole.to(tensor.device), tensor.device_mesh, tensor.placements)  # type: ignore[attr-defined]
    tensor.copy_(whole)


def _finite(number: float) -> bool:
    return number - number == 0
