"""Engine: one training step, on any device and any number of processes.

All random numbers of a step are seeded by the run's seed, the step and the process, so no generator state has to be saved.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn

from equiscope import blocks
from equiscope.checkpoints.run_folder import AVERAGE, WEIGHTS, build_from
from equiscope.data.sampler import derived_seed
from equiscope.errors import InputError
from equiscope.geometry import SpaceModel
from equiscope.models import Built, Mixed
from equiscope.training import state
from equiscope.training.nan_source import nan_source
from equiscope.training.optimiser import Average, optimisers, set_rates, share, uphill
from equiscope.training.processes import processes
from equiscope.training.recipe import Recipe
from equiscope.training.task import Batch, Task


@dataclass(frozen=True)
class StepResult:
    """Results of a step: the loss before it, the gradient norm before clipping, the learning rate, and the batches of this process.

    stop     the largest stop signal of all processes: all stop after the same step
    seconds  that the step took
    """

    loss: float
    norm: float
    rate: float
    read: list[Batch]
    seconds: float
    stop: int = 0


class Diverged(InputError):
    """A loss or a gradient that is NaN or infinite."""


def _compiler() -> None:
    """Raises InputError if torch finds no working C++ compiler."""
    from torch._inductor.cpp_builder import get_cpp_compiler

    try:
        get_cpp_compiler()
    except Exception as error:
        raise InputError(
            f"engine.compile needs a C++ compiler, and none works here: {str(error).strip().splitlines()[0]}. "
            "Install one (on Debian and Ubuntu: apt install g++), or use --set engine.compile=false."
        ) from error


@contextmanager
def onednn_products() -> Iterator[None]:
    """Inside, this process multiplies float32 matrices on a CPU through oneDNN; afterwards the previous setting is restored.

    torch leaves float32 products to MKL unless their precision is "bf16", which oneDNN treats as a permission. On AMD's Zen 5 the
    result keeps the precision of float32 (relative error 5e-7, MKL's 3e-7); a CPU with AMX multiplies in bfloat16 (2e-3).
    Measured: benchmarks/results/README.md.
    """
    if not torch.backends.mkldnn.is_available():
        raise InputError('engine.products is "onednn", but this build of torch has no oneDNN. Leave it out.')
    switch = torch.backends.mkldnn.matmul  # type: ignore[attr-defined]  # its class is made when torch is loaded
    before = switch.fp32_precision
    switch.fp32_precision = "bf16"
    try:
        yield
    finally:
        switch.fp32_precision = before


class TrainingEngine:
    """Trains a model by a recipe. `model` is the bare module, without wrappers.

    devices  processes on this machine; under torchrun, torchrun decides
    """

    def __init__(self, recipe: Recipe, model: Built, devices: int = 1) -> None:
        self.recipe, self.model = recipe, model.train()
        self.processes = processes(recipe, devices)
        self.device = self.processes.device
        if self.device.type == "cpu" and recipe.engine.compile:
            _compiler()
        half = recipe.engine.precision == "bfloat16" and not self.processes.spread  # FSDP makes its own copies in bfloat16
        self._mixed = Mixed(model.to(self.device)) if half else None
        self._computing = self._mixed.inner if self._mixed else model
        if recipe.engine.recompute:
            _recompute(self._computing)
        if recipe.engine.compile and not isinstance(model, SpaceModel):  # whose task compiles its slopes
            # on a CPU the draws of torch itself: those that the compiler generates take longer than all else that it saves
            options = {"fallback_random": True} if self.device.type == "cpu" else None
            self._computing.compile(options=options)
        self._wrapped = self.processes.wrapped(self._computing)
        if self._mixed is not None:
            self._mixed.inner = self._wrapped
        self._called = self._mixed or self._wrapped
        self.optimisers = optimisers(model, recipe.optimiser)
        self.average = Average(model, recipe.optimiser.average) if recipe.optimiser.average else None
        self._next: dict[int, Batch] = {}

    @property
    def first(self) -> bool:
        """Whether this process writes files."""
        return self.processes.first

    def step(self, task: Task, step: int, stop_signal: Callable[[], int] = lambda: 0, position: int | None = None) -> StepResult:
        """One step, counted from 0.

        stop_signal  returns a signal number; if it is not 0, all processes stop after this step
        position     in the schedule of the learning rate; by default the step
        raises  Diverged if the loss or the gradient is NaN or infinite; the weights are then those before the step
        """
        recipe, began = self.recipe, time.perf_counter()
        read = [self._next.pop(step, None) or self._batch(task, step, 0)]
        read += [self._batch(task, step, turn) for turn in range(1, recipe.budget.accumulate)]
        total = self._gradient(task, step, read)
        if recipe.optimiser.sharpness:
            with uphill(self.model, recipe.optimiser.sharpness):
                if self._mixed is not None:
                    self._mixed.update_copy()
                self._gradient(task, step, read)
        norm = _clipped(self.model, recipe.optimiser.clip)
        if step + 1 < recipe.budget.steps:  # a GPU is still busy with this step
            self._next = {step + 1: self._batch(task, step + 1, 0)}
        gathered = self.processes.gather_values(torch.stack([total, norm, torch.full_like(total, stop_signal())]))
        loss, length, stop = sum(each[0] for each in gathered), gathered[0][1], int(max(each[2] for each in gathered))
        if not (_finite(loss) and _finite(length)):
            self._clear()
            raise Diverged(self._divergence_message(task, step, loss, length))
        rate = set_rates(self.optimisers, share(recipe.optimiser, step if position is None else position, recipe.budget.steps))
        for optimiser in self.optimisers:
            optimiser.step()
        self._clear()
        if self._mixed is not None:
            self._mixed.update_copy()
        if self.average is not None:
            self.average.follow(self.model, step + 1)
        return StepResult(loss, length, rate, read, time.perf_counter() - began, stop)

    def _gradient(self, task: Task, step: int, read: Sequence[Batch]) -> Tensor:
        """Add the gradients of a step's batches to `.grad`; returns the loss. Dropout masks are the same in every call for a
        step.
        """
        torch.manual_seed(self._seed(step))
        total = torch.zeros((), device=self.device)
        for turn, batch in enumerate(read):
            with self.processes.sync_gradients(self._wrapped, now=turn + 1 == len(read) or self._mixed is not None):
                loss = task.loss(self._called, batch) / batch.terms
                (loss * self.processes.count).backward()  # gradients of processes are averaged
            if self._mixed is not None:
                self._mixed.accumulate_gradients()
            total += loss.detach()
        return total

    @contextmanager
    def evaluated(self) -> Iterator[Built]:
        """Inside, the model in eval mode with the weights that are evaluated and saved: the averaged ones, if the recipe averages.

        Weights that are sharded over processes are gathered in each of them. Nothing is compiled: parts of a few examples, and
        texts that are continued, have so many shapes that compiling them would take longer than all of them.
        """
        if self.processes.spread:
            weights = state.weights(self.model) if self.average is None else state.gather(self.average.weights)
            yield build_from(self.model.spec, weights).to(self.device)
            return
        if self.average is not None:
            self.average.swap(self.model)
        self.model.eval()
        eager = torch.compiler.set_stance("force_eager") if self.recipe.engine.compile else nullcontext()
        try:
            with eager:
                yield self.model
        finally:
            self.model.train()
            if self.average is not None:
                self.average.swap(self.model)

    def state(self) -> dict[str, dict[str, Tensor]]:
        """Files of a checkpoint; every process must call it. Raises Diverged if a weight is NaN or infinite."""
        weights = state.weights(self.model)
        if wrong := next((name for name, tensor in weights.items() if not torch.isfinite(tensor).all()), None):
            raise Diverged(f"The weights {wrong} are NaN or infinite.")
        averaged = {} if self.average is None else state.gather(self.average.weights)
        return {WEIGHTS: weights, state.OPTIMISER: state.optimiser_state(self.model, self.optimisers), AVERAGE: averaged}

    def restore(self, files: Callable[[str], dict[str, Tensor]]) -> None:
        """Load what `state` returned. Raises InputError if a file is damaged or missing, before anything has changed."""
        weights, held, averaged = (files(name) for name in (WEIGHTS, state.OPTIMISER, AVERAGE))
        own = {} if self.average is None else self.average.weights
        if own.keys() != averaged.keys():
            raise InputError(f"The checkpoint has {'no' if own else 'an'} average of the weights: it is of another recipe.")
        state.load_weights(self.model, weights)
        state.load_optimiser_state(self.model, self.optimisers, held)
        state.copy_into(own, averaged)
        if self._mixed is not None:
            self._mixed.update_copy()

    def products(self) -> AbstractContextManager[None]:
        """Inside, float32 products on a CPU use the recipe's backend. Raises InputError if this build of torch has no oneDNN."""
        return onednn_products() if self.recipe.engine.products == "onednn" else nullcontext()

    def _batch(self, task: Task, step: int, turn: int) -> Batch:
        count, rank = self.processes.count, self.processes.rank
        return task.batch(step, turn * count + rank, self.recipe.budget.accumulate * count).to(self.device)

    def _seed(self, step: int) -> int:
        return derived_seed(self.recipe.seed, "step", step, self.processes.rank)

    def _divergence_message(self, task: Task, step: int, loss: float, norm: float) -> str:
        """The value that diverged in a step, and its module: the step is computed again with hooks on every module."""
        torch.manual_seed(self._seed(step))

        def recomputed_loss() -> Tensor:
            batches = [self._batch(task, step, turn) for turn in range(self.recipe.budget.accumulate)]
            return torch.stack([task.loss(self._called, batch) / batch.terms for batch in batches]).sum()

        sources = self.processes.gather_objects(nan_source(self._computing, recomputed_loss))
        self._clear()
        value = f"the loss is {loss}" if not _finite(loss) else f"the loss is {loss:.4g}, but the gradient's length is {norm}"
        source = next((source for source in sources if not source.startswith("the gradient of")), sources[0])
        return f"Step {step + 1}: {value}. It begins with {source}."

    def _clear(self) -> None:
        for optimiser in self.optimisers:
            optimiser.zero_grad(set_to_none=True)


def _recompute(model: nn.Module) -> None:
    """Activation checkpointing: recompute the activations of a layer in the backward pass (Chen et al. 2016)."""
    from torch.utils.checkpoint import checkpoint as recomputed

    for part in model.modules():
        if isinstance(part, blocks.TransformerBlock):
            part.forward = partial(recomputed, part.forward, use_reentrant=False)  # type: ignore[method-assign]


def _clipped(model: nn.Module, clip: float | None) -> Tensor:
    """The norm of the gradient, which is then clipped to `clip`."""
    parameters = [p for p in model.parameters() if p.grad is not None]
    norm: Any = nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None])
    if clip is not None:
        nn.utils.clip_grads_with_norm_(parameters, clip, norm)
    return cast(Tensor, norm.full_tensor() if hasattr(norm, "full_tensor") else norm)


def _finite(number: float) -> bool:
    return number - number == 0
