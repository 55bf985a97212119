"""Together: train the runs of several seeds as one batched model (`torch.func`: vmap over stacked parameters and data).

A small model leaves a GPU idle between its kernels, so one kernel for all seeds can take little longer than one for a single seed.
Each seed has its own weights, data, clipping, checkpoints and record. Without dropout the numbers are those of separate runs, up
to rounding. With dropout each seed has its own masks, which differ from those of a separate run.
Measured by benchmarks/together.py: on a GPU faster than one seed after another, but slower than a process for each of eight seeds;
on a CPU, whose core a single small model fills, no faster than one seed after another.
"""

import copy
import time
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Self, cast

import msgspec
import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from equiscope.checkpoints import run_folder
from equiscope.data.sampler import derived_seed
from equiscope.errors import EquiscopeError, InputError
from equiscope.models import Built
from equiscope.record.run import Run
from equiscope.training import folder
from equiscope.training.engine import Diverged, StepResult, TrainingEngine
from equiscope.training.loop import (
    STOPPING,
    TrainingLoop,
    Watcher,
    forked_rng,
    new_run,
    stop_requested,
    untrained_model,
    unwritable,
)
from equiscope.training.optimiser import Average, optimisers, set_rates, share
from equiscope.training.processes import SingleProcess
from equiscope.training.recipe import Recipe
from equiscope.training.task import Batch, Task, resolve_spec

CLOSE = {"float32": 1e-4, "bfloat16": 3e-2}  # largest relative difference between a batched loss and a separate one, untrained
STEP = "step"  # key of the optimiser's state that is one number for all models


class NotTogether(InputError):
    """These runs cannot be trained together; each can be trained by itself."""


def unsupported(recipe: Recipe, task: type[Task]) -> str:
    """The reason why runs of a recipe cannot be trained together; empty if there is none."""
    if not task.stackable:
        return f"the batches of the task {task.name} differ in shape from seed to seed"
    fields = {
        "engine.compile": recipe.engine.compile, "engine.recompute": recipe.engine.recompute,
        "budget.minutes": recipe.budget.minutes is not None,
        "optimiser.sharpness": recipe.optimiser.sharpness > 0,
    }  # fmt: skip
    if wrong := [name for name, set_ in fields.items() if set_]:
        return f"{wrong[0]} is set, which works on one model"
    return ""


def fit_together(
    recipes: Sequence[Recipe], tasks: Sequence[Task], outs: Sequence[Path], watcher: Watcher | None = None,
    recipe_folder: Path | None = None,
) -> list[Run | EquiscopeError]:  # fmt: skip
    """Train recipes that differ in their seeds only, or resume their runs at the last step that all of them have saved.

    tasks    the task of each recipe, with its data
    outs     the folder of each run
    returns  for each recipe its run, finished or stopped, or the error that ended it; an error does not end the other runs
    raises   NotTogether, before anything is trained, if the runs cannot be computed as one model or have no common checkpoint;
             InputError for the same reasons as `fit`
    """
    watcher = watcher or Watcher()
    if reason := unsupported(recipes[0], type(tasks[0])):
        raise NotTogether(f"These runs are not trained together: {reason}.")
    specs = [resolve_spec(task) for task in tasks]
    stack = Stack(recipes, tasks, [untrained_model(*one) for one in zip(recipes, tasks, specs, strict=True)])
    with ExitStack() as context:
        context.enter_context(stack.members[0].products())
        loops = []
        for recipe, task, spec, member, out in zip(recipes, tasks, specs, stack.members, outs, strict=True):
            try:
                context.enter_context(run_folder.locked(out))
                task.folder = out
                fresh = new_run(recipe, task, spec, member, recipe_folder)
                others = ", ".join(str(other.seed) for other in recipes if other is not recipe)
                note = f"Trained as one batched model with the seeds {others}; seconds are this run's share."
                run = folder.start_or_resume(out, msgspec.structs.replace(fresh, notes=[*fresh.notes, note]), task)
            except OSError as error:
                raise unwritable(error, out) from error
            loops.append(TrainingLoop(recipe, task, spec, member, out, run, watcher))
        until = common_step(loops)
        for loop in loops:
            loop.until, loop.spare = until, 1  # killed between two runs' checkpoints, both still have the one before
        stop_signal = context.enter_context(stop_requested(lambda: watcher.message(STOPPING)))
        return _in_step(stack, loops, stop_signal)


def common_step(loops: Sequence[TrainingLoop]) -> int | None:
    """The last step that all runs have saved; None if no run has saved one. Raises NotTogether if the runs share no saved step."""
    saved = []
    for loop in loops:
        run_folder.restore(loop.out)
        saved.append(set(_saved_steps(loop)))
    if not any(saved):
        return None
    if common := set.intersection(*saved):
        return max(common)
    raise NotTogether("These runs have no checkpoint of the same step, so each goes on by itself.")


def _saved_steps(loop: TrainingLoop) -> Iterator[int]:
    for path in run_folder.checkpoints(loop.out):
        try:
            checkpoint = run_folder.read_checkpoint(path, loop.identity)
            for name in checkpoint.files:
                checkpoint.tensors(name)
        except InputError:  # damaged: resuming the run reports it
            continue
        yield checkpoint.step


def _in_step(stack: "Stack", loops: Sequence[TrainingLoop], stop_signal: Callable[[], int]) -> list[Run | EquiscopeError]:
    """Train all runs in lockstep: each step is computed once for those that have not ended."""
    ended: dict[int, Run | EquiscopeError] = {}
    runs = [loop.train(stop_signal) for loop in loops]
    next_step: dict[int, int] = {}

    def go_on(i: int, done: StepResult | Diverged | None = None) -> None:
        """Give a run the result of its step, and let it continue until it needs the next step or ends."""
        next_step.pop(i, None)
        try:
            if isinstance(done, Diverged):
                next_step[i] = runs[i].throw(done)
            else:
                next_step[i] = next(runs[i]) if done is None else runs[i].send(done)
        except StopIteration as end:
            ended[i] = end.value
        except OSError as error:
            ended[i] = unwritable(error, loops[i].out)
        except EquiscopeError as error:
            ended[i] = error

    for i in range(len(loops)):
        go_on(i)
    while next_step:
        for i, done in stack.step(next(iter(next_step.values())), stop_signal, list(next_step)):
            go_on(i, done)
    return [ended[i] for i in range(len(loops))]


class Stack:
    """S models that differ in their weights only, computed as one: their parameters are stacked along a first axis.

    model    a module that holds the stacked parameters [S, ...]; it is never called directly
    members  an engine for each model, whose parameters are views of the stacked ones
    raises   NotTogether if vmap does not support the model, or if its losses differ from those of the separate models
    """

    def __init__(self, recipes: Sequence[Recipe], tasks: Sequence[Task], models: Sequence[Built]) -> None:
        self.recipe, self.tasks = recipes[0], tasks
        self.device = SingleProcess().device
        models = [model.to(self.device).train() for model in models]
        self.model: nn.Module = copy.deepcopy(models[0])
        named = [dict(model.named_parameters()) for model in models]
        for name, p in self.model.named_parameters():
            p.data = torch.stack([of[name].data for of in named])
            for i, of in enumerate(named):
                of[name].data = p.data[i]
        # collected once, since a walk through the modules of each model takes time in every step
        self.parameters = dict(self.model.named_parameters())
        self.of_members = {name: [of[name] for of in named] for name in self.parameters}
        self.buffers = _different_buffers(models)
        self.optimisers = optimisers(self.model, self.recipe.optimiser, models)
        average = self.recipe.optimiser.average
        self.average = Average(self.model, average) if average else None
        self.members = [Member(self, i, recipe, model) for i, (recipe, model) in enumerate(zip(recipes, models, strict=True))]
        self._next: tuple[int, list[Batch]] = (-1, [])
        self._check()

    def step(self, step: int, stop_signal: Callable[[], int], going: Sequence[int]) -> Iterator[tuple[int, StepResult | Diverged]]:
        """One step of all models. Yields the result of each model that is still training.

        step   counted from 0
        going  indices of the models that are still training
        Models that diverged are yielded before the optimiser's step, so that their weights are still those before it.
        """
        began = time.perf_counter()
        batches = self._next[1] if self._next[0] == step else [self._batch(step, 0)]
        batches += [self._batch(step, turn) for turn in range(1, self.recipe.budget.accumulate)]
        total = self._gradient(step, batches)
        norms = self._clipped()
        if step + 1 < self.recipe.budget.steps:  # prepared while a GPU is still busy with this step
            self._next = (step + 1, [self._batch(step + 1, 0)])
        losses, lengths = torch.stack([total, norms]).tolist()
        finite = [loss - loss == 0 and length - length == 0 for loss, length in zip(losses, lengths, strict=True)]
        for i in going:
            if not finite[i]:
                yield i, self.members[i].diverged(self.tasks[i], step, losses[i], lengths[i])
        rate = set_rates(self.optimisers, share(self.recipe.optimiser, step, self.recipe.budget.steps))
        for optimiser in self.optimisers:
            optimiser.step()
        for name, p in self.parameters.items():
            p.grad = None
            for own in self.of_members[name]:
                own.grad = None
        if self.average is not None:
            self.average.follow(self.model, step + 1)
        stop, seconds = stop_signal(), (time.perf_counter() - began) / len(going)
        for i in going:
            if finite[i]:
                yield i, StepResult(losses[i], lengths[i], rate, batches, seconds, stop)

    def _batch(self, step: int, turn: int) -> Batch:
        """The examples of all models, stacked along a first axis. Counts such as `terms` are those of one model."""
        parts = [task.batch(step, turn, self.recipe.budget.accumulate) for task in self.tasks]
        return self.tasks[0].stacked(parts).to(self.device)

    def _gradient(self, step: int, batches: Sequence[Batch]) -> Tensor:
        """Compute the gradients of the stacked parameters. Returns the loss of each model [S]."""
        torch.manual_seed(derived_seed(self.recipe.seed, "step", step, 0))
        total = torch.zeros(len(self.tasks), device=self.device)
        for batch in batches:
            losses = self.losses(batch) / batch.terms
            losses.sum().backward()
            total += losses.detach()
        return total

    def losses(self, batch: Batch) -> Tensor:
        """The loss of each model on its own examples [S], summed over the terms of the loss."""
        dtype = torch.bfloat16 if self.recipe.engine.precision == "bfloat16" else None  # as `Mixed` does
        parameters = {name: p if dtype is None else p.to(dtype) for name, p in self.parameters.items()}

        def one(parameters: dict[str, Tensor], buffers: dict[str, Tensor], tensors: dict[str, Tensor]) -> Tensor:
            called = _Called(self.model, parameters | buffers, dtype)
            return self.tasks[0].loss(called, replace(batch, tensors=tensors))

        losses: Tensor = vmap(one, randomness="different")(parameters, self.buffers, batch.tensors)
        return losses

    def _clipped(self) -> Tensor:
        """Clip each model's gradient to the recipe's `clip`. Returns the norms [S] before clipping."""
        gradients = [p.grad for p in self.parameters.values() if p.grad is not None]
        norms = torch.stack([torch.linalg.vector_norm(g.flatten(1), dim=1) for g in gradients]).norm(dim=0)
        clip = self.recipe.optimiser.clip
        if clip is not None:
            factors = (clip / (norms + 1e-6)).clamp(max=1.0)  # as torch.nn.utils.clip_grads_with_norm_
            for g in gradients:
                g.mul_(factors.to(g.dtype).view(-1, *[1] * (g.ndim - 1)))
        if len(self.optimisers) > 1:  # Muon reads the gradients of the members
            for name, p in self.parameters.items():
                for i, own in enumerate(self.of_members[name]):
                    own.grad = None if p.grad is None else p.grad[i]
        return norms

    @torch.no_grad()
    def _check(self) -> None:
        """Compare the losses of one batch with those of the separate models. Raises NotTogether if they differ beyond rounding."""
        models = [self.model, *(member.model for member in self.members)]
        for model in models:
            model.eval()  # no dropout
        try:
            with forked_rng():
                batch = self._batch(0, 0)
                together = self.losses(batch)
        except Exception as error:  # of vmap: a function without a batching rule, or a branch on values
            raise NotTogether(f"This model cannot be computed for several seeds at once: {_first_line(error)}") from error
        each = [replace(batch, tensors={name: t[i] for name, t in batch.tensors.items()}) for i in range(len(self.members))]
        apart = torch.stack([t.loss(m.model, b) for t, m, b in zip(self.tasks, self.members, each, strict=True)])
        for model in models:
            model.train()
        difference = float(((together - apart).abs() / apart.abs().clamp_min(batch.terms)).max())
        if not difference < CLOSE[self.recipe.engine.precision]:
            raise NotTogether(
                f"The batched losses differ from separate ones by {difference:.2g} of their size, more than by rounding."
            )


class _Called(nn.Module):
    """One model of the stack inside vmap, with its own parameters and buffers, in the form in which a task calls a model."""

    def __init__(self, model: nn.Module, tensors: dict[str, Tensor], dtype: torch.dtype | None) -> None:
        super().__init__()
        self.inner: Callable[..., Any] = lambda *args: functional_call(model, tensors, args)
        self.dtype = dtype

    def forward(self, *args: Tensor) -> Any:
        return self.inner(*(x.to(self.dtype) if self.dtype and x.is_floating_point() else x for x in args))


class Member(TrainingEngine):
    """The engine of one run in a stack: it evaluates, saves and restores one model; the stack computes the steps."""

    def __init__(self, stack: Stack, index: int, recipe: Recipe, model: Built) -> None:
        self.recipe, self.model, self.processes, self.device = recipe, model, SingleProcess(), stack.device
        self._mixed, self._computing, self._called = None, model, model
        names = dict(stack.model.named_parameters())
        pairs = {p: names[name] for name, p in model.named_parameters()}
        self.optimisers = [cast(torch.optim.Optimizer, MemberOptimiser(each, index, pairs)) for each in stack.optimisers]
        self.average = None
        if stack.average is not None:
            self.average = Average(model, stack.average.factor)
            self.average.weights = {name: tensor[index] for name, tensor in stack.average.weights.items()}

    def diverged(self, task: Task, step: int, loss: float, norm: float) -> Diverged:
        """The error of a step whose loss or gradient is NaN or infinite; it names the module where that begins."""
        return Diverged(self._divergence_message(task, step, loss, norm))


class MemberOptimiser(MutableMapping[nn.Parameter, dict[str, Tensor]]):
    """One model's view of an optimiser of the stack: the part of the stacked state that belongs to each parameter of the model.

    of  maps each parameter of the model to the one that the optimiser has: the stacked parameter, or the model's own (Muon)
    """

    def __init__(self, optimiser: torch.optim.Optimizer, index: int, of: dict[nn.Parameter, nn.Parameter]) -> None:
        own = {p for group in optimiser.param_groups for p in group["params"]}
        self.optimiser, self.index = optimiser, index
        self.of = {p: stacked if stacked in own else p for p, stacked in of.items() if stacked in own or p in own}
        self.param_groups = [{"params": list(self.of)}]

    @property
    def state(self) -> Self:
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        for p in self.of:
            p.grad = None

    def __getitem__(self, p: nn.Parameter) -> dict[str, Tensor]:
        known = self.optimiser.state[self.of[p]]
        return known if self.of[p] is p else {what: t if what == STEP else t[self.index] for what, t in known.items()}

    def __setitem__(self, p: nn.Parameter, values: dict[str, Tensor]) -> None:
        known = self.optimiser.state[self.of[p]]
        for what, value in values.items():
            if self.of[p] is p or what == STEP:
                known[what] = value
            else:
                known.setdefault(what, torch.zeros_like(self.of[p]))[self.index] = value

    def __delitem__(self, p: nn.Parameter) -> None:
        """Does nothing: restoring a state deletes the old one first, and then overwrites this model's part."""

    def clear(self) -> None:
        """Does nothing, as `__delitem__`."""

    def __iter__(self) -> Iterator[nn.Parameter]:
        return (p for p, stacked in self.of.items() if self.optimiser.state.get(stacked))

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _different_buffers(models: Sequence[nn.Module]) -> dict[str, Tensor]:
    """Buffers that differ between the models, stacked [S, ...]. Raises NotTogether if their shapes differ."""
    differences = {}
    for name, first in models[0].named_buffers():
        others = [model.get_buffer(name) for model in models]
        if any(other.shape != first.shape for other in others):
            raise NotTogether(f"The models have a {name} of different shapes.")
        if not all(torch.equal(first, other) for other in others):
            differences[name] = torch.stack(others)
    return differences


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
