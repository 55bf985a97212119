"""Task: everything that a loop need not know. What an example is, what is lost on it, what is measured, what is answered."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from equiscope.checkpoints import read_spec
from equiscope.errors import InputError
from equiscope.geometry import PointSpec
from equiscope.models import Baseline, Built, Model, ModelSpec, Spec, describe, spec_of
from equiscope.record import Sample, Source, TokenSequence
from equiscope.symmetry import Permute, derive
from equiscope.training.reading import merged
from equiscope.training.recipe import Recipe

NEW = "data"  # the part that new data is


def batches(sizes: Sequence[int], most: int, pairs: int) -> Iterator[slice]:
    """Consecutive inputs that are computed together. sizes: tokens of each.

    most   inputs in a batch; pairs: of tokens in it, padding counted, unless one input alone has more
    """
    first, longest = 0, 0
    for i, size in enumerate(sizes):
        longest = max(longest, size)
        if i > first and (i - first == most or (i - first + 1) * longest**2 > pairs):
            yield slice(first, i)
            first, longest = i, size
    if sizes:
        yield slice(first, len(sizes))


@dataclass(frozen=True)
class Batch:
    """The share of a step's examples that is computed at once.

    tensors  what the task's `loss` reads, by its own names
    terms    of the loss in the whole step, over all shares and processes: what the sum is divided by
    read     tokens in this share, padding left out
    size     examples in this share, of `length` tokens each (padding counted), and of `source` tokens that an encoder reads
    """

    tensors: dict[str, Tensor]
    terms: int
    read: int
    size: int
    length: int
    source: int = 0

    def to(self, device: Any) -> "Batch":
        pinned = torch.device(device).type == "cuda"  # a copy that nobody waits for
        moved = {name: (t.pin_memory() if pinned else t).to(device, non_blocking=True) for name, t in self.tensors.items()}
        return Batch(moved, self.terms, self.read, self.size, self.length, self.source)

    def again(self, times: int) -> "Batch":
        """The same examples several times, where each tensor has a row for each; `terms` and `read` count every example once."""
        tensors = {name: t.repeat(times, *[1] * (t.dim() - 1)) for name, t in self.tensors.items()}
        return Batch(tensors, self.terms, self.read, self.size * times, self.length, self.source)


@dataclass(frozen=True)
class Prediction:
    """What a model makes of one input.

    more    numbers beside it, e.g. the probability of each class
    alone   the answer is read without what was given, as a translation is
    arrays  what is too long to be read, by name: as JSON only
    """

    given: str
    answer: str
    more: dict[str, float] = field(default_factory=dict)
    alone: bool = False
    arrays: dict[str, Any] = field(default_factory=dict)

    def text(self) -> str:
        """As a person reads it."""
        if self.alone:
            return self.answer
        recipe_folder = ", ".join(f"{name} {value:.3g}" for name, value in self.more.items())
        return f"{self.given}{self.answer}" if not self.more else f"{self.given}: {self.answer} ({recipe_folder})"


def likeliest(called: Sequence[str], chances: Tensor, classes: Sequence[str], top: int) -> list[Prediction]:
    """The `top` likeliest classes of each input. chances: [inputs, classes]."""
    best = chances.topk(top)
    return [
        Prediction(name, classes[which[0]], {classes[i]: p for i, p in zip(which, values, strict=True)})
        for name, values, which in zip(called, best.values.tolist(), best.indices.tolist(), strict=True)
    ]


@dataclass(frozen=True)
class ModelInputs:
    """What a model is called with for one input of a person's, and what then stands in its rows."""

    args: tuple[Any, ...]
    lines: list[TokenSequence]
    kwargs: dict[str, Any] = field(default_factory=dict)


class Task(ABC):
    """Data of a recipe and what to do with it. Made by `open_task` (with data), or `load_task` (for a run's answers, without).

    baselines  that it takes in place of a transformer
    single   whether it is learned in one process only
    better   whether the first number of `evaluate` is to fall or to rise
    notes    sentences about the data that a person should read: what was left out
    signatures  how numbers of the last `final` were counted, where their names do not say it
    folder   of the run, while it is trained: where `final` may leave what it measured
    ordered  a position scheme that suits its tokens, whose order says something; empty where it says nothing
    """

    name: ClassVar[str]
    ordered: ClassVar[str] = "rope"
    better: ClassVar[Literal["less", "more"]] = "less"
    baselines: ClassVar[tuple[str, ...]] = ()
    single: ClassVar[bool] = False
    sources: list[Source]
    notes: Sequence[str] = ()
    signatures: Mapping[str, str] = {}
    folder: Path | None = None

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe

    @abstractmethod
    def resolved_fields(self, spec: dict[str, Any]) -> dict[str, Any]:
        """The fields of a spec with those that the data decides (vocabulary, outputs); refuses those that do not fit."""

    def sizes(self, baseline: str) -> dict[str, Any]:
        """What the data decides of one of its `baselines`."""
        raise NotImplementedError

    def init_model(self, model: Built) -> Built:
        """The model with fresh weights, and what the data decides of them."""
        return model

    def separator(self, known: Sequence[int] | None) -> tuple[int, ...]:
        """The ids that end a document. known: those of the model that a run starts from. Raises InputError where data has none."""
        raise InputError(
            f"The mask keeps documents apart, but the data of the task {self.name} has no documents. Choose another mask."
        )

    @abstractmethod
    def batch(self, step: int, share: int = 0, shares: int = 1) -> Batch:
        """The examples share, share + shares, ... of a step, counted from 0. The same for any number of processes."""

    @abstractmethod
    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """The sum of the loss over the batch's terms, float32."""

    def longest(self) -> Iterator[tuple[Literal["model", "encoder"], Tensor]]:
        """Places [N, A] of the longest inputs of any part, which a scheme that knows so many only has to know."""
        yield from ()

    def calibrated(self, model: Built) -> AbstractContextManager[None]:
        """Inside, the weights that are measured and kept have what the training part decides of them at once; then not any more."""
        return nullcontext()

    @abstractmethod
    def evaluate(self, model: Built, part: str = "validation") -> dict[str, float]:
        """What is measured on all of a part, the number that decides first."""

    def final(self, model: Built, part: str) -> dict[str, float]:
        """What is measured once, of a finished run: as `evaluate`, unless a task measures more that takes longer."""
        return self.evaluate(model, part)

    @property
    @abstractmethod
    def parts(self) -> Sequence[str]:
        """Parts that can be evaluated, e.g. validation, test."""

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write what `load_task` needs into a run's folder: a tokenizer, names of classes."""

    @classmethod
    @abstractmethod
    def from_recipe(cls, recipe: Recipe, recipe_folder: Path | None = None) -> "Task":
        """The task of a recipe with its data, read and looked at before anything is trained.

        recipe_folder  searched first for the data
        """

    @property
    def classes(self) -> Sequence[str]:
        """Names of the outputs, where each is a class."""
        return ()

    @classmethod
    @abstractmethod
    def from_run(cls, recipe: Recipe, folder: Path) -> "Task":
        """The task of a run, without its data."""

    @classmethod
    @abstractmethod
    def for_evaluation(cls, recipe: Recipe, folder: Path, names: Sequence[str]) -> "Task":
        """The task of a run, with new data as its one part, which is called NEW. names: its files, as a recipe names them.

        raises  InputError where columns, classes, elements or characters are not those of the run
        """

    @abstractmethod
    def predict(self, model: Built, inputs: Sequence[str], **options: Any) -> list[Prediction]:
        """Answers to inputs as a person gives them, in batches: texts; or files, folders, archives as `train` reads them."""

    @abstractmethod
    def model_inputs(self, model: Built, example: str) -> ModelInputs:
        """One input as a person gives it, as for `predict`, made ready for the model."""

    def samples(self, model: Built, step: int) -> list[Sample]:
        """What the model makes of fixed examples."""
        return []

    def multiply_adds(self, spec: ModelSpec, batch: Batch) -> float:
        """Of one forward pass over a batch."""
        return float(describe(spec, max(batch.length, 1), max(batch.source, 1)).multiply_adds * batch.size)


def order_warnings(task: Task, model: Built) -> list[str]:
    """A sentence where a model cannot know the order of what it reads, though the order says something."""
    if not task.ordered or not isinstance(model, Model):
        return []
    parts = {"model": model, **({} if model.encoder is None else {"model.encoder": model.encoder})}
    return [
        f"The {name.rpartition('.')[2]} knows no order: without a position scheme and a causal mask, its tokens say the same in any"
        f' order. Say {name}.block.attention.position = "{task.ordered}", unless that is meant.'
        for name, part in parts.items() if _ignores_order(part)
    ]  # fmt: skip


def _ignores_order(model: Model) -> bool:
    """Whether every part treats tokens alike, or only a read-out of one row does not."""
    claim = next(claim for claim in derive(model) if claim.action == Permute.name)
    return claim.holds or (claim.decided_by == "readout" and model.readout.name in ("first", "last"))


def resolve_spec(task: Task) -> ModelSpec:
    """The model of a recipe: a preset's or a checkpoint's, with the fields that the recipe says and those that the data decides."""
    spec = _resolved(task)
    if not spec.needs_documents:
        return spec
    data = spec.to_dict()
    return Spec.of(merged(data, {"input": {"separator": list(task.separator(data.get("input", {}).get("separator")))}}))


def _resolved(task: Task) -> ModelSpec:
    if task.name == "molecules":
        return _in_space(task)
    model_fields = dict(task.recipe.model)
    preset, start = model_fields.pop("preset", None), model_fields.pop("start", None)
    base: dict[str, Any] = {}
    if start is not None:
        if others := [name for name in task.recipe.model if name not in ("start", "dropout", "drop_path")]:
            raise InputError(
                f"model.start = {start!r} brings its own spec, beside which model may say dropout and drop_path, "
                f"but got {', '.join(others)}. Leave that out, or begin without a start."
            )
        spec = read_spec(start)
        base = spec.to_dict()
        if spec.kind == "baseline":
            return _baseline(task, base | model_fields, f"The checkpoint of model.start = {start!r} has")
        if spec.kind == "points":
            raise InputError(f"The checkpoint of model.start = {start!r} is of points in space, which only molecules begin with.")
    elif "baseline" in model_fields:
        return _baseline(task, model_fields, "The recipe says")
    elif preset is not None:
        base = spec_of(preset).to_dict()
    fields = task.resolved_fields(merged(base, model_fields) if start is None else base | model_fields)
    spec_ = Spec.of({name: value for name, value in fields.items() if value is not None or name in ("vocabulary", "outputs")})
    if task.name in ("language", "translation"):
        _check_language_model(spec_)
    return spec_


def _in_space(task: Task) -> PointSpec | Spec:
    """A model of points in space: the recipe's fields, or those of the run that it starts from, and the elements of the data.

    Where the recipe says a block, it is an ordinary transformer.
    """
    model_fields = dict(task.recipe.model)
    start = model_fields.pop("start", None)
    if start is None:
        fields = task.resolved_fields(model_fields)
        return Spec.of(fields) if "block" in model_fields else PointSpec.of(fields)
    spec = read_spec(start)
    if model_fields or spec.kind != "points":
        what = f"beside which model says nothing, but got {', '.join(model_fields)}" if model_fields else "but that is none"
        raise InputError(f"model.start = {start!r} takes a run of molecules with a spec of its own, {what}.")
    return PointSpec.of(task.resolved_fields(spec.to_dict()))


def _baseline(task: Task, model_fields: dict[str, Any], who: str) -> Baseline:
    """A baseline with what the data decides. Raises InputError where it is of another task, or of other data."""
    kind = str(model_fields["baseline"])
    if kind not in task.baselines:
        alternatives = f"one of {', '.join(task.baselines)}, or a transformer" if task.baselines else "a transformer"
        raise InputError(f'model.baseline is "{kind}", which the task {task.name} has no use for. Choose {alternatives}.')
    sizes = task.sizes(kind)
    for name, size in sizes.items():
        stated = model_fields.get(name, size)
        if (tuple(stated) if isinstance(stated, list) else stated) != size:
            raise InputError(f"{who} {name} = {stated}, but the data has {size}. Leave it out: the data says it.")
    return Baseline.of(model_fields | sizes)


def _check_language_model(spec: Spec) -> None:
    """Refuse a model that would read the token that it is to say, or that does not answer at each place."""
    if not all(block.attention.joint_mask.is_causal for block in spec.blocks):
        raise InputError(
            "model.block.attention.causal is false: each place would read the token that it is to say. Set it to true, "
            "or choose a checkpoint of a model that writes."
        )
    if len({block.attention.mask.needs_documents for block in spec.blocks}) > 1:
        raise InputError(
            "Some layers have the mask documents and others do not, but documents are kept apart in every layer or in none. "
            "Give the mask to all layers, or to none."
        )
    if spec.readout != "each":
        raise InputError(f'model.readout is "{spec.readout}", but the next token is asked at each place. Set it to "each".')
