"""The training loop: batches, steps, evaluation, checkpoints.

The batch and the random numbers of a step depend only on the recipe, the number of the step and the process; the weights and the
state of the optimizer are in the checkpoint. A run that is killed at any moment and resumed therefore equals an uninterrupted run;
on a CPU, bit for bit. With `budget.minutes` the learning rate depends on the clock too: such a run resumes with the weights and the
minutes of its last checkpoint.
"""

import json
import signal
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any, cast

import msgspec
import torch

from equiscope.checkpoints import load, run_folder
from equiscope.checkpoints.run_folder import BEST, STEPS, WEIGHTS, Checkpoint, identity, load_run, weights_of
from equiscope.errors import EquiscopeError, InputError, counted
from equiscope.kernels.private import on_compilation
from equiscope.models import Built, Model, ModelSpec, build, count
from equiscope.models.memory import check_memory
from equiscope.record.run import Entries, Entry, Point, Run, Score, write_run
from equiscope.training import folder, simple_model, state
from equiscope.training.cost import best_rate
from equiscope.training.engine import Diverged, StepResult, TrainingEngine
from equiscope.training.processes import process_count
from equiscope.training.recipe import Recipe
from equiscope.training.task import Batch, Task, resolve_spec, warnings

HEAD = ("output_layer.", "readout.")  # names of the weights after the last block
STOPPING = "Stopping after the current step. Press Ctrl-C again to stop at once."
COMPILING = "The first step compiles the model, which takes a minute or more. Ctrl-C stops that at once."
KEPT = 3  # numbers for each parameter at least: itself, its gradient, and an average (AdamW has two)
SLOW = 1.2  # a message is printed where a product in bfloat16 takes more than so many times as long as in float32
AGAIN = "Step {step} has inputs of another shape, so the model is compiled again. Ctrl-C stops that at once."


@dataclass
class Watcher:
    """Callbacks: `entry` gets each line of the metrics, `message` gets messages, `begin` gets the run before its first step.

    compiling  gets True when a step begins to compile the model, and False when that is done
    """

    entry: Callable[[Entry], None] = field(default=lambda entry: None)
    message: Callable[[str], None] = field(default=lambda sentence: None)
    begin: Callable[[Run], None] = field(default=lambda run: None)
    compiling: Callable[[bool], None] = field(default=lambda begins: None)


def fit(
    recipe: Recipe, task: Task, out: Path, watcher: Watcher | None = None, devices: int = 1, recipe_folder: Path | None = None
) -> Run:  # fmt: skip
    """Train a recipe in a folder, or resume the run in this folder.

    task     of this recipe, with its data; recipe_folder: recorded in the run
    returns  the run: finished, or stopped by SIGTERM or Ctrl-C
    raises   InputError if the folder holds another run, is damaged, or cannot be written; Diverged if a loss is NaN or infinite
    """
    if task.single and (count := process_count(devices)) > 1:
        raise InputError(
            f"The task {task.name} is trained in one process, but {count} were requested. Start one, without --devices."
        )
    spec = resolve_spec(task)
    engine = TrainingEngine(recipe, untrained_model(recipe, task, spec), devices)
    watcher = watcher if watcher and engine.first else Watcher()
    try:
        with ExitStack() as stack, engine.products():

            def begin() -> Run:
                stack.enter_context(run_folder.locked(out))
                task.folder = out
                return folder.start_or_resume(out, new_run(recipe, task, spec, engine, recipe_folder), task)

            run = engine.processes.on_first(begin)
            loop = TrainingLoop(recipe, task, spec, engine, out, run, watcher)
            stop_signal = stack.enter_context(stop_requested(lambda: watcher.message(STOPPING), lambda: loop.compiling))
            return _alone(loop, stop_signal)
    except OSError as error:
        raise unwritable(error, out) from error


def _alone(loop: "TrainingLoop", stop_signal: Callable[[], int]) -> Run:
    """Compute the steps of one run."""
    steps = loop.train(stop_signal)
    try:
        step = next(steps)
        first = step
        while True:
            try:
                with loop.compilation(step, first) if loop.recipe.engine.compile else nullcontext():
                    done = loop.engine.step(loop.task, step, stop_signal, loop.schedule_step)
            except Exception as error:
                step = steps.throw(error)
            else:
                step = steps.send(done)
    except StopIteration as end:
        return cast(Run, end.value)


def unwritable(error: OSError, out: Path) -> InputError:
    """The sentence for a run's folder that cannot be written: what is complete, and how to resume."""
    kept = run_folder.checkpoints(out)
    return InputError(
        f"{error.filename or out}: {error.strerror or error}. {f'{kept[0]} is complete' if kept else 'Nothing was saved yet'}. "
        "Fix the cause, and repeat the same command to resume."
    )


def untrained_model(recipe: Recipe, task: Task, spec: ModelSpec) -> Built:
    """The model of a run before its first step. Raises InputError if it does not fit the data, before anything is written."""
    torch.manual_seed(recipe.seed)
    model = initial_model(recipe, spec)
    if "start" not in recipe.model:
        model = task.init_model(model)
    return checked_model(model, task)


def initial_model(recipe: Recipe, spec: ModelSpec) -> Built:
    """Build the model with weights from the seed, or from the checkpoint or run that the recipe starts from."""
    if not torch.cuda.is_available():
        check_memory(spec, lambda: count(spec), KEPT)
    model: Built = build(spec)
    if "start" in recipe.model:
        start = load(recipe.model["start"], torch.float32)
        weights = start.state_dict()
        if _output_fields(spec) != _output_fields(start.spec):
            own = {name: tensor for name, tensor in model.state_dict().items() if name.startswith(HEAD)}
            weights = {name: tensor for name, tensor in weights.items() if not name.startswith(HEAD)} | own
        model.load_state_dict(weights, strict=True)
    return model


def _output_fields(spec: ModelSpec) -> list[Any]:
    """What determines the layers after the last block: if the checkpoint has other values, these layers get new weights."""
    return [spec.to_dict().get(name) for name in ("readout", "outputs", "output", "tied")]


@torch.no_grad()
def checked_model(model: Built, task: Task) -> Built:
    """Return the model after a check of the longest positions and a forward pass of one example.

    raises  InputError if the model does not fit the data, before anything is written
    """
    for part, at in task.longest() if isinstance(model, Model) else ():
        inner = cast(Model, model if part == "model" else model.encoder)
        for scheme in inner.schemes:
            scheme.check(at)
            scheme.embed(torch.zeros(len(at), inner.spec.width), at)
    with forked_rng():
        task.loss(model, task.batch(0, 0, task.recipe.budget.batch))
    return model


def new_run(recipe: Recipe, task: Task, spec: ModelSpec, engine: TrainingEngine, recipe_folder: Path | None) -> Run:
    """Return the record of a run that has not started."""
    return Run(
        title=recipe.title, task=task.name, recipe=recipe.to_dict(), spec=json.loads(spec.to_json()), data=task.sources,
        seed=recipe.seed,
        versions=folder.versions(), machine=folder.machine(), recipe_folder=str((recipe_folder or Path()).absolute()),
        processes=engine.processes.count, steps=recipe.budget.steps, parameters=count(spec),
        multiply_adds=task.multiply_adds(spec, task.batch(0)), notes=[*task.notes, *warnings(task, engine.model)],
    )  # fmt: skip


class CompilationStopped(Exception):
    """Ctrl-C while the model was compiled."""


class TrainingLoop:
    """One run: what is evaluated, recorded and saved after which step.

    `train` yields the number of each step; the caller computes the step and sends back its result. So `training.together`
    can compute the same step of several runs at once.

    until  resume from the newest checkpoint up to this step; None: no limit
    spare  checkpoints that are kept beyond those of the recipe, until the run is finished
    compiling  whether the current step has begun to compile the model: Ctrl-C ends that at once
    schedule_step  the step at which the schedule stands: the number of steps done, or more if a larger share of
                   `budget.minutes` has passed
    """

    until: int | None = None
    spare = 0
    compiling = False

    def __init__(
        self, recipe: Recipe, task: Task, spec: ModelSpec, engine: TrainingEngine, out: Path, run: Run, watcher: Watcher
    ) -> None:  # fmt: skip
        self.recipe, self.task, self.spec, self.engine, self.out, self.run, self.watcher = (
            recipe, task, spec, engine, out, run, watcher,
        )  # fmt: skip
        self.steps = recipe.budget.steps
        self.every = recipe.evaluation.every or max(1, self.steps // 10)
        self.save_every = recipe.evaluation.save or self.every
        self.identity = identity(run)
        self.best: float | None = None
        self.seconds = 0.0
        self.schedule_step, self.elapsed, self.began = 0, 0.0, perf_counter()
        self.saved = -1  # the step of the newest checkpoint
        self.entries: Entries | None = None
        self.costs: dict[tuple[int, int], float] = {}

    def train(self, stop_signal: Callable[[], int]) -> Generator[int, StepResult, Run]:
        """Train until all steps are done, or until a stop is requested.

        yields   the number of the next step, counted from 0, and takes its result, or the error that it ended with
        returns  the run
        """
        step = self._resume()
        self.began = perf_counter()
        self.schedule_step = self._schedule_step(step)
        if self.schedule_step >= self.steps and self.run.state == "finished":
            self.watcher.message(f"{self.out} is finished: {counted(step, 'step')}.")
            return self.run
        self._restore_best(step)
        try:
            self._record(state="running", reason="", processes=self.engine.processes.count)
            self.watcher.begin(self.run)
            for note in self.run.notes:
                self.watcher.message(note)
            try:
                return (yield from self._steps(step, stop_signal))
            except Exception as error:
                return self._compilation_failed(error, stop_signal())
        except (EquiscopeError, OSError) as error:
            with suppress(OSError):
                self._record(state="failed", reason=str(error))
            raise
        finally:
            if self.entries is not None:
                self.entries.close()

    def _steps(self, step: int, stop_signal: Callable[[], int]) -> Generator[int, StepResult, Run]:
        peak = self._peak()
        if self.saved < 0:
            self._evaluate(0)
        while self.schedule_step < self.steps:
            try:
                done = yield step
            except Diverged as error:
                raise self._diverged(error, step) from error
            self._record_step(done, step, peak)
            step, before = step + 1, self.schedule_step
            self.schedule_step = self._schedule_step(step)
            if self._due(self.every, before):
                self._evaluate(step)
            if self._due(self.save_every, before) or done.stop:
                self._save(step)
            if done.stop and self.schedule_step < self.steps:
                name = signal.Signals(done.stop).name
                return self._record(state="stopped", reason=f"{name} after step {step} of {self.steps}, which is saved")
        if stop := stop_signal():
            name = signal.Signals(stop).name
            return self._record(state="stopped", reason=f"{name} after the last step, which is saved, before the last measurement")
        return self._finish(step)

    def _peak(self) -> float:
        """Operations per second of the fastest matrix product in the recipe's precision."""
        device = self.engine.device
        if self.recipe.engine.precision == "float32":
            return best_rate(device, torch.float32)
        peak = best_rate(device, torch.bfloat16)
        if device.type == "cpu" and (ratio := best_rate(device, torch.float32) / peak) > SLOW:
            self.watcher.message(
                f"On this CPU a matrix product in bfloat16 takes {ratio:.1f} times as long as in float32. "
                "To train faster: --set engine.precision=float32"
            )
        return peak

    def _schedule_step(self, step: int) -> int:
        """The step at which the schedule stands after `step` steps: the same number in all processes."""
        minutes = self.recipe.budget.minutes
        if minutes is None:
            return step
        elapsed = self.engine.processes.gather_objects(self._clock())[0]
        return min(self.steps, max(step, int(elapsed / (60 * minutes) * self.steps)))

    def _clock(self) -> float:
        """Seconds since the first step, without those between a stop and resuming."""
        return self.elapsed + perf_counter() - self.began

    def _due(self, every: int, before: int) -> bool:
        """Whether an evaluation or a checkpoint is due: at the end, and whenever the schedule passes a multiple of `every`."""
        return self.schedule_step >= self.steps or self.schedule_step // every > before // every

    @contextmanager
    def compilation(self, step: int, first: int) -> Iterator[None]:
        """Around a step, which compiles the model if it is the first, or if its shapes are new.

        raises  CompilationStopped at the first Ctrl-C while it does
        """

        def begin() -> None:
            if not self.compiling:
                self.compiling = True
                self.watcher.message(COMPILING if step == first else AGAIN.format(step=step + 1))
                self.watcher.compiling(True)

        try:
            if step == first:
                begin()
            with on_compilation(begin):
                yield
            if self.compiling:
                self.watcher.compiling(False)
        except KeyboardInterrupt as error:
            if not self.compiling:
                raise
            raise CompilationStopped from error
        finally:
            self.compiling = False

    def _compilation_failed(self, error: Exception, stop: int) -> Run:
        """Handle a failed compilation: a stop signal ends the compiler processes too. Re-raises other errors."""
        own = isinstance(error, CompilationStopped) or type(error).__module__.startswith(("torch._inductor", "torch._dynamo"))
        if not (self.recipe.engine.compile and own):
            raise error
        if stop:
            saved = f"step {self.saved} is saved" if self.saved >= 0 else "nothing was saved yet"
            reason = f"{signal.Signals(stop).name} while the model was compiled; {saved}"
            return self._record(state="stopped", reason=reason)
        raise InputError(
            f"engine.compile could not compile this model here: {str(error).strip().splitlines()[0]}. "
            "Use --set engine.compile=false, or another compiler (the variable CXX)."
        ) from error

    def _record_step(self, done: StepResult, step: int, peak: float) -> None:
        """Record the metrics of a step, counted from 0."""
        self.seconds += done.seconds
        passes = 2 if self.recipe.optimiser.sharpness else 1
        cost = passes * sum(map(self._cost, done.read))
        mfu = 6 * cost / done.seconds / peak  # 2 operations per multiply-add, and twice as many backward as forward
        tokens = self.engine.processes.count * sum(batch.read for batch in done.read) / done.seconds
        self._add(
            Point(
                step=step + 1, loss=done.loss, rate=done.rate, norm=done.norm, seconds=self.seconds, tokens=tokens, mfu=mfu,
            )
        )  # fmt: skip

    def _evaluate(self, step: int) -> None:
        with self.engine.evaluated() as model, forked_rng(), self.task.calibrated(model):
            values = self.engine.processes.gather_objects(self.task.evaluate(model))[0]
            first = next(iter(values.values()))
            better = self._better(first)
            if better:
                self.best = first
                self._write(step, {WEIGHTS: state.weights(model)}, {"values": values}, BEST, 1)
            self._add(Score(step=step, part="validation", values=values, best=better))
            for sample in self.task.samples(model, step) if first == first else []:
                self._add(sample)

    def _better(self, value: float) -> bool:
        if self.best is None or value != value:
            return value == value
        return value < self.best if self.task.better == "less" else value >= self.best  # of equal accuracies the later one

    def _save(self, step: int, keep: int | None = None) -> None:
        if self.saved == step:
            return
        facts = {"best": self.best, "seconds": self.seconds, "versions": folder.versions()}
        if self.recipe.budget.minutes is not None:
            facts["elapsed"] = self._clock()
        try:
            self._write(step, self.engine.state(), facts, run_folder.STEPS, keep or self.recipe.evaluation.keep + self.spare)
        except Diverged as error:
            raise Diverged(f"After step {step}: {error} {self._next_step(step)}") from error
        self.saved = step
        self._record()

    def _write(self, step: int, files: dict[str, dict[str, torch.Tensor]], facts: dict[str, Any], kind: str, keep: int) -> None:
        def written() -> None:
            if self.entries is not None:
                self.entries.sync()
            run_folder.write_checkpoint(run_folder.checkpoint_path(self.out, step, kind), step, files, facts, self.identity)
            run_folder.prune(self.out, keep, step, kind)

        self.engine.processes.on_first(written)

    def _resume(self) -> int:
        """Restore the most recent checkpoint, and return its step; 0 without a checkpoint."""

        def fits(checkpoint: Checkpoint) -> int:
            self.engine.restore(checkpoint.tensors)
            self.best, self.seconds = checkpoint.facts["best"], checkpoint.facts["seconds"]
            self.elapsed = checkpoint.facts["elapsed"] if self.recipe.budget.minutes is not None else 0.0
            return checkpoint.step

        self.engine.processes.on_first(lambda: run_folder.restore(self.out))
        step = run_folder.latest(self.out, fits, self.watcher.message, self.identity, self.until)
        if len(set(self.engine.processes.gather_objects(step))) > 1:
            raise InputError(f"The processes see different checkpoints in {self.out}. Use a folder that all of them share.")
        if self.engine.first:
            self.entries = Entries(self.out, -1 if step is None else step)
        self.saved = -1 if step is None else step
        if step and step < self.steps:
            self.watcher.message(f"Resuming after step {step} of {self.steps}.")
            if other := folder.moved(self.run):
                self.watcher.message(f"From here on, numbers may differ by rounding: {'; '.join(other)}.")
        if step and self.entries is not None and self.entries.steps < step:
            self.watcher.message(f"metrics.jsonl has lines for {self.entries.steps} steps only, although {step} were done.")
        return step or 0

    def _restore_best(self, step: int) -> None:
        """If the best weights are missing or damaged, save the current ones as the best."""

        def lost() -> str:
            try:
                weights_of(self.out, self.run)
            except InputError as error:
                return str(error)
            return ""

        if self.saved < 0 or not (why := self.engine.processes.on_first(lost)):
            return
        self.watcher.message(f"{why} The weights of step {step} replace them, and better ones later.")
        with self.engine.evaluated() as model, forked_rng(), self.task.calibrated(model):
            values = self.engine.processes.gather_objects(self.task.evaluate(model))[0]
            first = next(iter(values.values()))
            self.best = first if first == first else None
            self._write(step, {WEIGHTS: state.weights(model)}, {"values": values}, BEST, 1)

    def _finish(self, step: int) -> Run:
        """Evaluate the best weights on every part except the training data, fit the simple model for comparison, store the input
        domain, and delete surplus checkpoints."""
        result, reason = {}, ""
        if step < self.steps:
            reason = f"{self.recipe.budget.minutes:g} minutes were over after step {step} of {self.steps}"
            self.watcher.message(f"The {reason} (budget.minutes).")
        if self.engine.first:
            model = load_run(self.out).to(self.engine.device)
            with forked_rng():
                result = {part: self.task.final(model, part) for part in self.task.parts if part != "train"}
            if self.task.simple_answer is not None:
                self.watcher.message("Fitting a simple model on the same training part, to stand beside the run.")
            simple_model.fit(self.task, self.out)
            self.task.store_domain(self.out)
            for part in result:
                for name, values in simple_model.values(self.task, part, self.out).items():
                    metric, value = next(iter(values.items()))
                    self.watcher.message(f"{part}: the simple model {name!r} has {metric} {value:.4g}.")
            for kind, keep in ((STEPS, self.recipe.evaluation.keep), (BEST, 1)):  # a killed run may have left more
                run_folder.prune(self.out, keep, step, kind)
        return self._record(state="finished", reason=reason, steps=step, result=result)

    def _diverged(self, error: Diverged, step: int) -> Diverged:
        """Save the last finite state in addition to the other checkpoints, and return an error with advice."""
        with suppress(Diverged):
            self._save(step, keep=self.steps)
        return Diverged(f"{error} {self._next_step(step)}")

    def _next_step(self, step: int) -> str:
        """Where the weights before a divergence are, and what to try."""
        saved = "Nothing was saved yet."
        if self.saved >= 0:
            saved = f"The weights before it are kept in {run_folder.checkpoint_path(self.out, self.saved)}."
        if step == 0:
            return f"{saved} No step has changed the weights yet, so look at the data and at the weights that training begins with."
        return f"{saved} Try a lower optimiser.rate, more warmup, or a smaller optimiser.clip, with another --out."

    def _add(self, entry: Entry) -> None:
        if self.entries is not None:
            self.entries.add(entry)
        self.watcher.entry(entry)

    def _record(self, **changes: Any) -> Run:
        self.run = msgspec.structs.replace(self.run, seconds=self.seconds, **changes)
        if self.engine.first:
            write_run(self.run, self.out)
        return self.run

    def _cost(self, batch: Batch) -> float:
        """Return the multiply-adds of a forward pass of a batch."""
        key = (batch.length, batch.source)
        if key not in self.costs:
            self.costs[key] = self.task.multiply_adds(self.spec, batch) / max(batch.size, 1)
        return self.costs[key] * batch.size


@contextmanager
def stop_requested(
    on_signal: Callable[[], None] = lambda: None, at_once: Callable[[], bool] = lambda: False
) -> Iterator[Callable[[], int]]:  # fmt: skip
    """Context that records SIGTERM and Ctrl-C: the yielded function returns the signal, or 0. A second Ctrl-C interrupts at once.

    on_signal  called at the first signal; at_once: whether the first Ctrl-C interrupts now
    """
    signals: list[int] = []
    before = {}

    def notice(number: int, frame: Any) -> None:
        if signals and number == signal.SIGINT:
            raise KeyboardInterrupt
        signals.append(number)
        if number == signal.SIGINT and at_once():
            raise KeyboardInterrupt
        if len(signals) == 1:
            with suppress(RuntimeError):  # a reentrant call: the signal interrupted a write to the same stream
                on_signal()

    try:
        for number in (signal.SIGTERM, signal.SIGINT):
            before[number] = signal.signal(number, notice)
    except ValueError:  # only the main thread may set signal handlers
        pass
    try:
        yield lambda: signals[0] if signals else 0
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def forked_rng() -> Iterator[None]:
    """Context that restores the global random generators on exit."""
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        yield
