"""Subject: the model under check, run many times without being changed.

A `Pass` is the model in one precision and with one set of parameters. It runs without gradients, from one seed and on copies of the
inputs, and restores whatever the model writes into itself, so that one run does not affect the next.
"""

import inspect
import math
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from equiscope.audit.subject.deepcopy import deepcopy
from equiscope.audit.subject.no_dropout import in_mode, no_dropout
from equiscope.audit.subject.outputs import BatchLayout, SelectedOutputs, differing, flat
from equiscope.audit.subject.promote_float64 import promote_float64
from equiscope.audit.subject.settings import current_settings, restore_settings
from equiscope.audit.subject.state import State
from equiscope.errors import EquiscopeError, did_you_mean
from equiscope.symmetry.inputs import WORDS, Inputs

Outputs = dict[str, Tensor]
Pick = str | tuple[str, ...] | Callable[[Any], Any] | None


class ModelError(EquiscopeError):
    """The model itself raised on inputs that the check made; the message says what."""


class Subject:
    """A model, its inputs, and the outputs to compare.

    pick  the name of an output, several names, or a function of what the model returns; None compares all except caches
    mode  "eval" or "train"; in training mode dropout is switched off
    """

    def __init__(
        self, model: nn.Module, inputs: Inputs, pick: Pick = None, mode: str = "eval", seed: int = 0
    ) -> None:  # fmt: skip
        self.model, self.inputs, self.pick, self.mode, self.seed = model, inputs, pick, mode, seed
        self.passes: Counter[str] = Counter()  # calls of the model, by dtype
        self.sequences: Counter[str] = Counter()  # rows of the batches that these calls were given
        self.gradients = False  # whether the model needs them in its forward
        self.no_dropout = False  # whether dropout that is on in evaluation mode too is switched off
        self.random = True  # whether random parameters are measured too
        self.workarounds: list[str] = []  # how side effects are excluded, in words: "on copies of its inputs"
        self.effects: Any = None  # side effects of a call, once measured (`numerics.pure.Effects`)
        self.writes_parameters = False  # whether a call changes parameters: then only copies are run
        self.notes: list[str] = []
        floats = [p for p in model.parameters() if p.is_floating_point()]
        self.dtype = floats[0].dtype if floats else torch.get_default_dtype()
        self.length_ladder: Any = None  # the lengths to measure at, once computed (`lengths.LengthLadder`)
        self.mask_forms: dict[str, tuple[torch.dtype, bool]] = {}  # padding masks: dtype, and whether they are true at padding
        self.batch_layout = BatchLayout()
        self._axes: dict[str, tuple[int, ...]] | None = None

    def like(self, model: nn.Module | None = None, inputs: Inputs | None = None, mode: str | None = None) -> "Subject":
        """A subject with another model, other inputs or another mode. Its calls are counted with those of this one."""
        model, inputs = self.model if model is None else model, self.inputs if inputs is None else inputs
        copy = Subject(model, inputs, self.pick, mode or self.mode, self.seed)
        copy.passes, copy.sequences, copy.gradients, copy.writes_parameters = (
            self.passes,
            self.sequences,
            self.gradients,
            self.writes_parameters,
        )
        copy.batch_layout, copy.mask_forms = self.batch_layout, self.mask_forms
        return copy

    def adopt(self, other: "Subject") -> None:
        """Take over what another subject has learned about the same model."""
        self.passes, self.sequences, self.workarounds, self.writes_parameters = (
            other.passes,
            other.sequences,
            other.workarounds,
            other.writes_parameters,
        )
        self.gradients, self.no_dropout, self.effects = other.gradients, other.no_dropout, other.effects
        self.mask_forms = other.mask_forms

    def in_dtype(self, dtype: torch.dtype, random: bool = False) -> "Pass":
        """The model in this dtype. In its own dtype and at the given parameters it is the model itself, not a copy."""
        return Pass(self, dtype, random)

    def on_copy(self) -> "Pass":
        """A copy of the model in its own dtype, whose parameters are compared and restored after every call; the model itself where
        it cannot be copied."""
        other = self.like()
        other.writes_parameters = True
        try:
            return other.in_dtype(self.dtype)
        except ModelError:
            return self.in_dtype(self.dtype)

    def select_outputs(self, output: Any) -> Outputs:
        """The outputs to compare. Raises ModelError where there is none."""
        if isinstance(output, SelectedOutputs):
            return output
        if callable(self.pick):
            output = self.pick(output)
        outputs = flat(output)
        if isinstance(self.pick, str | tuple):
            picked = (self.pick,) if isinstance(self.pick, str) else self.pick
            missing = [n for n in picked if n not in outputs]
            if missing:
                near = did_you_mean(missing[0], outputs)
                names = ", ".join(map(repr, outputs)) or "no tensor"
                raise ModelError(f"the model returns no {missing[0]!r}; it returns {names}" + (f". {near}" if near else ""))
            outputs = {n: outputs[n] for n in picked}
        if not outputs:
            choose = "" if callable(self.pick) else "; pass pick=, a function of what it returns that gives tensors"
            raise ModelError(f"the model returned no tensor, but {type(output).__name__}{choose}")
        return self.batch_layout.applied(outputs)

    def axes(self, run: "Pass") -> dict[str, tuple[int, ...]]:
        """Axes of each output that have one entry a token: those that change when a token is removed."""
        if self._axes is None:
            n, original = self.inputs.length, run(run.inputs)
            if n is None:
                self._axes = {name: () for name in original}
                return self._axes
            try:
                shorter = run(shortened(run.inputs, n - 1)) if n > 1 else original
                self._axes = {
                    name: differing(t, shorter[name], (n, n - 1)) if name in shorter else () for name, t in original.items()
                }
            except ModelError:  # a model with a fixed length
                self._axes = {name: _axes_of_size(t, n) for name, t in original.items()}
        return self._axes

    def batch_axes(self, run: "Pass", one: Inputs, two: Inputs) -> dict[str, int]:
        """The batch axis of each output: the one that grows with the batch. Outputs of pairs of sequences have none."""
        original, more = run(one), run(two)
        outputs = {n: differing(t, more[n], (one.batch or 1, two.batch or 2)) for n, t in original.items() if n in more}
        return {n: axes[0] for n, axes in outputs.items() if len(axes) == 1}


def shortened(inputs: Inputs, length: int) -> Inputs:
    """The first `length` tokens, with everything that belongs to them."""
    shorter = inputs.rows(list(range(length)), (*WORDS, "position_ids", "coordinates"))
    shorter = shorter.each(lambda mask: mask[..., :length, :length], "pairs")
    return shorter.each(lambda t: first_tokens(t, length), "tokens")


def first_tokens(tokens: Any, length: int) -> Any:
    """The first `length` tokens of a Tokens object."""
    from dataclasses import replace

    parts = {"x": tokens.x[..., :length, :], "positions": tokens.positions[..., :length, :], "order": tokens.order[..., :length]}
    parts |= {n: f[..., :length] for n in ("document", "valid") if (f := getattr(tokens, n)) is not None}
    return replace(tokens, counted=None, **parts)


def _axes_of_size(t: Tensor, n: int) -> tuple[int, ...]:
    axes = tuple(i for i, size in enumerate(t.shape) if size == n)
    if len(axes) > 1 and axes[-1] == t.ndim - 1 and axes[:-1] == (t.ndim - 2,):
        return axes[:-1]
    return axes


class Pass:
    """The model in one precision, with given or random parameters.

    Called with Inputs it returns the outputs by name: detached, on the CPU, in float64 (integers stay integers).

    high_precision  whether it runs in float64, with casts inside the model promoted to float64 too
    changed_state   names of the state that calls have changed; changed_settings: of the settings of the process
    """

    def __init__(self, subject: Subject, dtype: torch.dtype, random: bool) -> None:
        self.subject, self.dtype, self.random = subject, dtype, random
        self.high_precision = dtype == torch.float64
        same = not random and not subject.writes_parameters and dtype == subject.dtype and all(
            p.dtype == dtype for p in subject.model.parameters() if p.is_floating_point()
        )  # fmt: skip
        self.model = subject.model if same else copy_in_dtype(subject.model, dtype)
        if random:
            randomize_parameters(self.model, subject.seed)
        self.inputs = subject.inputs.to(dtype)
        self.changed_state: set[str] = set()
        self.changed_settings: set[str] = set()
        self._saved = State(self.model, parameters=subject.writes_parameters)
        self._remembered: list[tuple[Inputs, Outputs]] = []

    def __call__(self, inputs: Inputs) -> Outputs:
        """The outputs. Those of the given Inputs object, and of the last other one, are cached."""
        for entry in self._remembered:
            if entry[0] is inputs:
                return entry[1]
        self._remembered = [entry for entry in self._remembered if entry[0] is self.inputs]
        outputs = self.outputs_of(lambda model: inputs.to(self.dtype).call(model))
        self._remembered.append((inputs, outputs))
        return outputs

    def outputs_of(self, call: Callable[[nn.Module], Any], seed: "int | Seeds | None" = None) -> Outputs:
        """The outputs of any function of the model. Raises ModelError where the model raises."""
        with self.within(seed, self.subject.gradients):
            try:
                outputs = self.subject.select_outputs(call(self.counted_model))
            except ModelError:  # raised by the check itself
                raise
            except (Exception, SystemExit) as error:  # whatever the model's code raises becomes a row of the report
                if self.subject.gradients or "does not require grad" not in str(error):
                    raise ModelError(f"the model raised {type(error).__name__}: {_short(error)}") from error
                outputs = None
            if outputs is None:  # it differentiates inside, for forces: leave gradients on
                self.subject.gradients = True
                return self.outputs_of(call, seed)
            return numbers(outputs)

    @contextmanager
    def within(self, seed: "int | Seeds | None" = None, gradients: bool = False) -> Iterator[None]:
        """Inside: one seed, no gradients, the mode of the subject. State is restored afterwards."""
        seed = self.subject.seed if seed is None else seed
        with ExitStack() as stack:
            stack.enter_context(torch.set_grad_enabled(gradients))
            stack.enter_context(_seeded(seed if isinstance(seed, Seeds) else Seeds(seed, seed, seed)))
            stack.enter_context(in_mode(self.model, self.subject.mode))
            if self.high_precision:
                stack.enter_context(promote_float64())
            if self.subject.mode == "train" or self.subject.no_dropout:
                stack.enter_context(no_dropout())
            settings = current_settings()
            try:
                yield
            finally:
                self.changed_settings |= restore_settings(settings)
                self.changed_state |= self._saved.restore()

    @property
    def counted_model(self) -> Any:
        """The model, with every call counted."""
        return _Counted(self)

    def part(self, module: nn.Module) -> Any:
        """A module of the model; of the model itself, calls are counted."""
        return self.counted_model if module is self.model else module

    def count(self, values: Iterable[Any]) -> None:
        """Count a call of the model with these values, and the sequences of its batch."""
        name = str(self.dtype).removeprefix("torch.")
        batched, axis = self.subject.inputs.batch is not None, 1 if self.subject.inputs.has("steps") else 0
        tensors = (getattr(v, "x", v) for v in values)
        first = next((t for t in tensors if isinstance(t, Tensor) and t.ndim > axis), None)
        self.subject.passes[name] += 1
        self.subject.sequences[name] += int(first.shape[axis]) if batched and first is not None else 1


class _Counted:
    """Wraps the model of a pass to count its calls. A hook would disable the fast paths of torch's layers.

    `isinstance` sees the class of the model.
    """

    def __init__(self, run: Pass) -> None:
        self._run = run

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return type(self._run.model)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self._run.count((*args, *kwargs.values()))
        return self._run.model(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._run.model, name)


class Seeds(NamedTuple):
    """The seed of each source of random numbers."""

    torch: int
    python: int
    numpy: int


@contextmanager
def _seeded(seeds: Seeds) -> Iterator[None]:
    """Inside, torch, Python and NumPy draw from these seeds; afterwards their states are restored."""
    numpy = sys.modules.get("numpy")
    python, numbers = random.getstate(), numpy.random.get_state() if numpy is not None else None
    with torch.random.fork_rng(devices=[]):
        reseed(seeds)
        try:
            yield
        finally:
            random.setstate(python)
            if numpy is not None:
                numpy.random.set_state(numbers)


def reseed(seeds: Seeds) -> None:
    """Set the seed of torch, of Python and of NumPy, if it is loaded."""
    _seed_torch(seeds.torch)
    random.seed(seeds.python)
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.seed(seeds.numpy)


def _seed_torch(seed: int) -> None:
    """`torch.manual_seed`. Without an accelerator only the generator of the CPU is seeded: for the others torch would format the
    stack of calls three times, which takes longer than a small model.
    """
    if torch.accelerator.is_available():
        torch.manual_seed(seed)
    else:
        torch.default_generator.manual_seed(seed)


def numbers(outputs: Mapping[str, Tensor]) -> Outputs:
    """The outputs as they are compared: copies on the CPU, in float64."""
    return {n: _numbers(t) for n, t in outputs.items()}


def _numbers(t: Tensor) -> Tensor:
    """A copy on the CPU in float64; integers stay integers, complex numbers become two. Raises ModelError for a nested tensor.

    It is a copy because a model may return an input or a buffer, which is restored afterwards.
    """
    if t.is_nested:
        raise ModelError("the model returned a nested tensor, which has no axes that can be compared; return a padded one")
    t = t.detach().cpu()
    t = t.to_dense() if t.layout != torch.strided else t
    t = torch.view_as_real(t.resolve_conj()) if t.is_complex() else t
    return t.to(torch.float64, copy=True) if t.is_floating_point() else t.clone()


def copy_in_dtype(model: nn.Module, dtype: torch.dtype) -> nn.Module:
    """A copy in another dtype, including tensors in plain attributes. Raises ModelError for what cannot be copied."""
    try:
        copy = deepcopy(model)
    except Exception as error:
        raise ModelError(
            f"the model cannot be copied ({type(error).__name__}: {_short(error)}), so it was measured in its own precision only"
        ) from error
    copy._apply(lambda t: _cast(t, dtype))
    for module in copy.modules():
        for name, value in list(vars(module).items()):
            if isinstance(value, Tensor):
                setattr(module, name, _cast(value, dtype))
    return copy


def _cast(t: Tensor, dtype: torch.dtype) -> Tensor:
    """The tensor in another dtype. Complex ones stay complex: `.to(float64)` would discard the imaginary part."""
    if t.is_complex():
        return t.to(torch.complex128 if dtype == torch.float64 else torch.complex64)
    return t.to(dtype) if t.is_floating_point() else t


@torch.no_grad()
def randomize_parameters(model: nn.Module, seed: int) -> None:
    """Randomize the parameters: a position table initialised at zero, or norm weights of one, hide what a model can do.

    Matrices are drawn with a spread that preserves the scale of activations; noise is added to vectors. Buffers stay, and so do
    parameters without gradients beside trainable ones, such as a fixed table of sinusoids.
    """
    generator = torch.Generator().manual_seed(seed + 1)
    learns = any(p.requires_grad for p in model.parameters())
    for module in model.modules():
        for name, p in module._parameters.items():
            if p is None or not p.is_floating_point() or (learns and not p.requires_grad):
                continue
            noise = torch.randn(p.shape, generator=generator, dtype=torch.float64).to(p.dtype)
            if p.ndim < 2 or min(p.shape) == 1:
                p.copy_(p.to(torch.float64).to(p.dtype) + 0.3 * noise.to(p.device))
            elif isinstance(module, nn.Embedding) or "embed" in name or "table" in name or "position" in name:
                p.copy_(noise)
            else:
                fan_in = math.prod(p.shape[1:]) if isinstance(module, (nn.Linear, nn.modules.conv._ConvNd)) else p.shape[-2]
                p.copy_(1.5 * noise / max(fan_in, 1) ** 0.5)


def arguments(model: nn.Module) -> tuple[str, ...]:
    """Names of the arguments of `forward`."""
    try:
        parameters = inspect.signature(model.forward).parameters.values()
    except (TypeError, ValueError):
        return ()
    return tuple(p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY))


def _short(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return text if len(text) <= 160 else text[:157] + "..."
