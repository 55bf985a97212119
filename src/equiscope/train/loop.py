"""The loop: batches in, steps out, and nothing lost on the way.

What a step does depends on the recipe and the step's number alone, so a run that was killed at any moment and goes on is, bit
for bit on a CPU, the run that would have been.
"""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import torch

from equiscope.errors import InputError
from equiscope.models import Model, Spec, build
from equiscope.pretrained.runs import BEST, WEIGHTS
from equiscope.record.run import Entry, Point, Run, Score, write_run
from equiscope.train import checkpoint, folder
from equiscope.train.cost import best_rate, wait
from equiscope.train.engine import Diverged, Engine
from equiscope.train.recipe import Recipe
from equiscope.train.task import Task, settle


@dataclass
class Watcher:
    """Who wants to know: `entry` is called with each line of the run's metrics, `say` with sentences, `begin` with the run."""

    entry: Callable[[Entry], None] = field(default=lambda entry: None)
    say: Callable[[str], None] = field(default=lambda sentence: None)
    begin: Callable[[Run], None] = field(default=lambda run: None)


def train(
    recipe: Recipe, task: Task, out: Path, watcher: Watcher | None = None, devices: int = 1, beside: Path | None = None
) -> Run:  # fmt: skip
    """Train by a recipe in a folder, or go on where the run that is there stopped.

    task     of this recipe, with its data; beside: the recipe's folder, which the run remembers
    returns  the run, finished; or stopped, where SIGTERM or Ctrl-C asked for that
    raises   InputError where the folder holds another run, or nothing whole; Diverged where a loss is no number
    """
    watcher = watcher or Watcher()
    spec = settle(task)
    torch.manual_seed(recipe.seed)
    engine = Engine(recipe, begun_model(recipe, spec), devices)
    with folder.held(out) if engine.first else nullcontext():
        run = fresh(recipe, task, spec, engine, beside)
        if engine.first:
            run = folder.begun(out, run)
        if engine.first:
            task.save(out)
        return _Loop(recipe, task, spec, engine, out, run, watcher).go()


def begun_model(recipe: Recipe, spec: Spec) -> Model:
    """Fresh weights by the seed, or those of the checkpoint or run that a recipe starts from."""
    if "start" not in recipe.model:
        return build(spec)
    from equiscope.pretrained import load

    model, begun = build(spec), load(recipe.model["start"])
    model.load_state_dict(begun.state_dict(), strict=True)
    return model


def fresh(recipe: Recipe, task: Task, spec: Spec, engine: Engine, beside: Path | None) -> Run:
    """The record of a run that has not begun."""
    batch = task.batch(0)
    return Run(
        title=recipe.title, task=task.name, recipe=recipe.to_dict(), spec=spec.to_dict(), data=task.sources, seed=recipe.seed,
        versions=folder.versions(), machine=folder.machine(), beside=str((beside or Path()).absolute()), processes=engine.processes, steps=recipe.budget.steps,
        parameters=spec.describe(1, 1).parameters, multiply_adds=task.multiply_adds(spec, batch),
    )  # fmt: skip


class _Loop:
    def __init__(
        self, recipe: Recipe, task: Task, spec: Spec, engine: Engine, out: Path, run: Run, watcher: Watcher
    ) -> None:  # fmt: skip
        self.recipe, self.task, self.spec, self.engine, self.out, self.run, self.watcher = (
            recipe, task, spec, engine, out, run, watcher,
        )  # fmt: skip
        steps = recipe.budget.steps
        self.every = recipe.evaluation.every or max(1, steps // 10)
        self.save_every = recipe.evaluation.save or self.every
        self.best: float | None = None
        self.facts: dict[str, Any] = {"seconds": 0.0, "fast": None}
        self.costs: dict[tuple[int, int], float] = {}

    def go(self) -> Run:
        """Steps until there are enough, or somebody says stop."""
        step, steps = self._resume(), self.recipe.budget.steps
        if step == steps and self.run.state == "finished":
            self.watcher.say(f"{self.out} is finished: {steps} steps.")
            return self.run
        self._record(state="running", reason="", processes=self.engine.processes)
        self.watcher.begin(self.run)
        for note in self.task.notes:
            self.watcher.say(note)
        self.peak = self._peak()
        with self._entries() as self.add, asked_to_stop() as asked, self.engine.fast(self.task, self.facts["fast"]) as used:
            self.facts["fast"] = used
            if step == 0:
                self._evaluate(0)
            while step < steps:
                step = self._step(step)
                stop = self._together(asked())
                if step % self.every == 0 or step == steps:
                    self._evaluate(step)
                if step % self.save_every == 0 or step == steps or stop:
                    self._save(step)
                if stop and step < steps:
                    return self._record(state="stopped", reason=f"stopped after step {step} of {steps}, and saved")
            return self._finish()

    def _step(self, step: int) -> int:
        wait(self.engine.fabric.device)
        begin = time.perf_counter()
        try:
            loss, norm, read = self.engine.step(self.task, step)
        except Diverged as error:
            raise self._diverged(error, step) from error
        wait(self.engine.fabric.device)
        took = time.perf_counter() - begin
        self.facts["seconds"] += took
        many, cost = self.engine.processes, sum(self._cost(batch) for batch in read)
        busy = 6 * cost / took / self.peak if self.peak else None
        tokens = many * sum(batch.read for batch in read) / took
        self.add(
            Point(
                step=step + 1, loss=loss, rate=self.engine.rate, norm=norm, seconds=self.facts["seconds"], tokens=tokens, busy=busy
            )
        )
        return step + 1

    def _evaluate(self, step: int) -> None:
        with self.engine.evaluated() as model, kept_random():
            values = self.task.evaluate(model)
            first = next(iter(values.values()))
            better = self.best is None or (first < self.best if self.task.better == "less" else first > self.best)
            if better:
                self.best = first
                tensors = checkpoint.weights(model)
                if self.engine.first and step:
                    self._write(checkpoint.place(self.out, step, BEST), step, {WEIGHTS: tensors}, {"values": values})
                    checkpoint.thin(self.out, 1, BEST)
            self.add(Score(step=step, part="validation", values=values, best=better))
            for sample in self.task.samples(model, step):
                self.add(sample)

    def _save(self, step: int) -> None:
        files = self.engine.state()
        if self.engine.first:
            facts = self.facts | {"best": self.best, "versions": folder.versions()}
            self._write(checkpoint.place(self.out, step), step, files, facts)
            checkpoint.thin(self.out, self.recipe.evaluation.keep)
            self._record()

    def _write(self, place: Path, step: int, files: Any, facts: dict[str, Any]) -> None:
        try:
            checkpoint.write(place, step, files, facts)
        except OSError as error:
            kept = [p.name for p in checkpoint.checkpoints(self.out)]
            self._record(state="failed", reason=f"step {step} could not be saved: {error.strerror}")
            raise InputError(
                f"{place} cannot be written: {error.strerror}. "
                f"{f'{kept[0]} is whole' if kept else 'Nothing was saved yet'}; make room, and give the same command to go on."
            ) from error

    def _resume(self) -> int:
        def fits(found: checkpoint.Checkpoint) -> int:
            self.engine.restore(found.tensors)
            self.facts = {name: found.facts[name] for name in self.facts}
            self.best = found.facts["best"]
            return found.step

        step = checkpoint.newest(self.out, fits, self.watcher.say) or 0
        self.entries = folder.cut(self.out, step - (step == 0)) if self.engine.first else []
        if step:
            self.watcher.say(f"Going on after step {step} of {self.recipe.budget.steps}.")
        return int(step)

    def _finish(self) -> Run:
        """Measure every part with the best weights, once."""
        from equiscope.pretrained.runs import load_run

        result = {}
        if self.engine.first:
            model = load_run(self.out).to(self.engine.fabric.device)
            with kept_random():
                result = {part: self.task.final(model, part) for part in self.task.parts if part != "train"}
        return self._record(state="finished", result=result)

    def _diverged(self, error: Diverged, step: int) -> InputError:
        """Save what was good, and say what to do."""
        self._save(step)
        self._record(state="failed", reason=str(error))
        return InputError(
            f"{error} The weights before that step are kept in {checkpoint.place(self.out, step)}. "
            "Try a lower optimiser.rate, more warmup, or a smaller optimiser.clip, with another --out."
        )

    @contextmanager
    def _entries(self) -> Iterator[Callable[[Entry], None]]:
        if not self.engine.first:
            yield lambda entry: None
            return
        with folder.appended(self.out) as write:

            def add(entry: Entry) -> None:
                write(entry)
                self.watcher.entry(entry)

            yield add

    def _record(self, **changes: Any) -> Run:
        self.run = msgspec.structs.replace(self.run, seconds=self.facts["seconds"], **changes)
        if self.engine.first:
            write_run(self.run, self.out)
        return self.run

    def _cost(self, batch: Any) -> float:
        key = (batch.length, batch.source)
        if key not in self.costs:
            self.costs[key] = self.task.multiply_adds(self.spec, batch) / max(batch.size, 1)
        return self.costs[key] * batch.size

    def _peak(self) -> float:
        dtype = torch.bfloat16 if self.recipe.engine.precision == "bfloat16" else torch.float32
        return best_rate(self.engine.fabric.device, dtype)

    def _together(self, stop: bool) -> bool:
        """Whether any process was asked to stop: all have to stop after the same step."""
        if self.engine.processes == 1:
            return stop
        return bool(self.engine.fabric.all_reduce(torch.tensor(float(stop)), reduce_op="sum"))


@contextmanager
def asked_to_stop() -> Iterator[Callable[[], bool]]:
    """Inside, SIGTERM and Ctrl-C are noticed after a step; the second Ctrl-C ends at once."""
    asked = []
    before = {}

    def notice(number: int, frame: Any) -> None:
        if asked and number == signal.SIGINT:
            raise KeyboardInterrupt
        asked.append(number)

    try:
        for number in (signal.SIGTERM, signal.SIGINT):
            before[number] = signal.signal(number, notice)
    except ValueError:  # another thread than the first: its owner decides
        pass
    try:
        yield lambda: bool(asked)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def kept_random() -> Iterator[None]:
    """Random numbers drawn inside change nothing outside."""
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        yield
