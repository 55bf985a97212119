"""Task: everything that the loop does not know: examples, loss, metrics and predictions."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor, nn

from equiscope.checkpoints import read_spec
from equiscope.errors import InputError, counted
from equiscope.geometry import PointSpec
from equiscope.models import Baseline, Built, Model, ModelSpec, Spec, describe, spec_of
from equiscope.record import DataFile, Sample, TokenSequence
from equiscope.symmetry import Permute, derive
from equiscope.training.input_domain import InputDomain, InputNumbers
from equiscope.training.measures import Outcomes
from equiscope.training.reading import merged
from equiscope.training.recipe import Recipe

NEW = "data"  # the part that new data is


def batches(sizes: Sequence[int], most: int, pairs: int) -> Iterator[slice]:
    """Consecutive inputs that are computed together. sizes: tokens of each.

    most   inputs in a batch; pairs: of tokens in it, padding included, unless a single input has more
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

    tensors  arguments of the task's `loss`, by name
    terms    of the loss in the whole step, over all shares and processes: the divisor of the sum
    read     tokens in this share, without padding
    size     examples in this share, of `length` tokens each (with padding), and of `source` tokens for an encoder
    """

    tensors: dict[str, Tensor]
    terms: int
    read: int
    size: int
    length: int
    source: int = 0

    def to(self, device: Any) -> "Batch":
        pinned = torch.device(device).type == "cuda"  # an asynchronous copy
        moved = {name: (t.pin_memory() if pinned else t).to(device, non_blocking=True) for name, t in self.tensors.items()}
        return Batch(moved, self.terms, self.read, self.size, self.length, self.source)

    def repeat(self, times: int) -> "Batch":
        """The same examples several times, along the batch axis; `terms` and `read` count every example once."""
        tensors = {name: t.repeat(times, *[1] * (t.dim() - 1)) for name, t in self.tensors.items()}
        return Batch(tensors, self.terms, self.read, self.size * times, self.length, self.source)


@dataclass(frozen=True)
class Prediction:
    """The output for one input.

    more    numbers with it, e.g. the probability of each class
    alone   whether the output is shown without the input, as a translation is
    warning  a sentence on why the output may be far off; empty where nothing is known against it
    arrays  large values, by name: only in JSON
    """

    given: str
    answer: str
    more: dict[str, float] = field(default_factory=dict)
    alone: bool = False
    arrays: dict[str, Any] = field(default_factory=dict)
    warning: str = ""

    def text(self) -> str:
        """As a person reads it."""
        if self.alone:
            return self.answer
        recipe_folder = ", ".join(f"{name} {value:.3g}" for name, value in self.more.items())
        return f"{self.given}{self.answer}" if not self.more else f"{self.given}: {self.answer} ({recipe_folder})"


def likeliest(called: Sequence[str], chances: Tensor, classes: Sequence[str], top: int) -> list[Prediction]:
    """The `top` most probable classes of each input. chances: [inputs, classes]."""
    best = chances.topk(top)
    return [
        Prediction(name, classes[which[0]], {classes[i]: p for i, p in zip(which, values, strict=True)})
        for name, values, which in zip(called, best.values.tolist(), best.indices.tolist(), strict=True)
    ]


def warned(domain: InputDomain, predictions: Sequence[Prediction], numbers: InputNumbers) -> list[Prediction]:
    """Predictions with the distance of each input from the training part, and a warning where it is above 1."""
    found = []
    for row, (one, distance) in enumerate(zip(predictions, domain.distances(numbers).tolist(), strict=True)):
        warning = f"{one.given} is unlike the training part: {domain.reason(numbers, row)}." if distance > 1 else ""
        found.append(replace(one, arrays={**one.arrays, "distance": distance}, warning=warning))
    return found


@dataclass(frozen=True)
class ModelInputs:
    """The arguments of the model for one input, and labels of its tokens."""

    args: tuple[Any, ...]
    sequences: list[TokenSequence]
    kwargs: dict[str, Any] = field(default_factory=dict)


class Task(ABC):
    """The data of a recipe and its use. Opened by `open_task` (with data) or `load_task` (for a run's predictions, without data).

    baselines  that can replace the transformer
    single   whether training is limited to one process
    in_space   whether its model is one of points in space
    stackable  whether batches have the same shapes for every seed, and the loss reads nothing else, so that the models of
             several seeds can be computed as one (see `together`)
    better   whether a lower or a higher first metric of `evaluate` is better
    notes    messages about the data, such as what was left out
    signatures  how metrics of the last `final` were computed, where their names do not say it
    folder   of the run during training, where `final` may write files
    domain   of a run: which inputs are usual; None for a run that has none
    ordered  a suitable position scheme, if the order of the tokens matters; else empty
    writes   whether the model predicts tokens that it then reads, so that it needs a causal mask
    input_names, training_ids  names of `input_numbers`; of texts, the token ids of the training part
    start_fields  fields of the model that may be set beside model.start: those of a new output layer
    """

    name: ClassVar[str]
    ordered: str = "rope"
    writes: bool = False
    start_fields: ClassVar[tuple[str, ...]] = ()
    input_names: ClassVar[tuple[str, ...]] = ()
    training_ids: str = ""
    better: Literal["less", "more"] = "less"
    baselines: ClassVar[tuple[str, ...]] = ()
    single: ClassVar[bool] = False
    in_space: ClassVar[bool] = False
    stackable: ClassVar[bool] = False
    sources: list[DataFile]
    notes: Sequence[str] = ()
    signatures: Mapping[str, str] = {}
    folder: Path | None = None
    domain: InputDomain | None = None

    def __init__(self, recipe: Recipe) -> None:
        self.recipe, self.sources = recipe, []

    @classmethod
    def better_for(cls, recipe: Recipe) -> Literal["less", "more"]:
        """Whether a lower or a higher first metric is better, for runs of a recipe."""
        return cls.better

    @abstractmethod
    def resolved_fields(self, spec: dict[str, Any]) -> dict[str, Any]:
        """The fields of a spec with those that the data determines (vocabulary, outputs); refuses contradictions."""

    def check_stated(self, sizes: Mapping[str, Any], fact: str) -> None:
        """Raise InputError if the recipe states another size than the data has.

        sizes  by the path of a field of the model; fact: what the data has, with {} for the size
        """
        for path, size in sizes.items():
            stated: Any = self.recipe.model
            for name in path.split("."):
                stated = (stated or {}).get(name)
            if stated not in (None, size):
                raise InputError(f"model.{path} is {stated}, but {fact.format(size)}. Leave it out: the data determines it.")

    def sizes(self, baseline: str) -> dict[str, Any]:
        """The fields of a baseline that the data determines."""
        raise NotImplementedError

    def init_model(self, model: Built) -> Built:
        """The model with new weights, initialised from the data where needed."""
        return model

    def separator(self, model_separator: Sequence[int] | None) -> tuple[int, ...]:
        """The ids that end a document. known: those of the model that a run starts from. Raises InputError if the data has none."""
        raise InputError(
            f"The mask separates documents, but the data of the task {self.name} has no documents. Choose another mask."
        )

    @abstractmethod
    def batch(self, step: int, share: int = 0, shares: int = 1) -> Batch:
        """The examples share, share + shares, ... of a step, counted from 0; independent of the number of processes."""

    def stacked(self, parts: Sequence[Batch]) -> Batch:
        """The same step's batches of several seeds, stacked along a first axis; the counts are those of one of them.

        For `stackable` tasks.
        """
        tensors = {name: torch.stack([part.tensors[name] for part in parts]) for name in parts[0].tensors}
        return replace(parts[0], tensors=tensors)

    @abstractmethod
    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """The sum of the loss over the batch's terms, in float32."""

    def longest(self) -> Iterator[tuple[Literal["model", "encoder"], Tensor]]:
        """Positions [N, A] of the longest inputs of any part, for schemes with a limited table."""
        yield from ()

    def calibrated(self, model: Built) -> AbstractContextManager[None]:
        """Inside, weights that the training part determines in closed form are set, for evaluation and saving; then they are
        restored.
        """
        return nullcontext()

    @abstractmethod
    def evaluate(self, model: Built, part: str = "validation") -> dict[str, float]:
        """Metrics over a whole part, the decisive one first."""

    def final(self, model: Built, part: str) -> dict[str, float]:
        """Metrics of a finished run: as `evaluate`, unless a task has further ones that take longer."""
        return self.evaluate(model, part)

    def outcomes(self, model: Built, part: str) -> Outcomes | None:
        """What the model answers on a part, example by example; None where a task has metrics of the whole part only."""
        return None

    def visible_inputs(self, part: str, rows: Sequence[int]) -> list[dict[str, str]]:
        """The inputs of examples of a part as a person sees them: `text`, or `picture`, the data: URL of a PNG; empty where the
        name of an example says all.

        rows  places in `outcomes`
        """
        return [{} for _ in rows]

    def store_domain(self, folder: Path) -> None:
        """Store in a run's folder what recognises inputs that are unlike the training part."""
        if "validation" in self.parts and (train := self.input_numbers("train")) and (held := self.input_numbers("validation")):
            InputDomain.of(train, held, self.training_ids).write(folder)

    def far(self, part: str, folder: Path, outcomes: Outcomes) -> tuple[np.ndarray, str] | None:
        """How far each example of a part lies from the training part, far above 1, and a sentence; None where that is unknown."""
        known = InputDomain.read(folder, self.input_names)
        if known is None or (numbers := self.input_numbers(part, known.training_ids)) is None:
            return None
        return known.far(numbers, outcomes)

    def input_numbers(self, part: str, training_ids: str = "") -> InputNumbers | None:
        """Numbers of the inputs of a part that say whether they are usual; None for a task without them."""
        return None

    @property
    def simple_answer(self) -> Any:
        """What the outputs mean, an `answers.Answer`, for the simple models beside a run; None for a task without them."""
        return None

    def simple_features(self, part: str) -> tuple[Any, Tensor] | None:
        """Simple features of a part, and its targets; None where scikit-learn is needed and missing.

        The features are an array [N, F], or a list of sparse counts, of each kind [N, F], such as those of words.
        """
        return None

    def simple_groups(self, part: str) -> Sequence[str]:
        """The group of each row of `simple_features`, such as a speaker, which the folds of the simple model do not divide.

        An empty text for a row that belongs to none; empty where there are no groups.
        """
        return ()

    def simple_metrics(self, part: str) -> dict[str, dict[str, float]]:
        """Metrics of simple answers that are no linear model, by their name; empty without the training part."""
        return {}

    @property
    @abstractmethod
    def parts(self) -> Sequence[str]:
        """Parts that can be evaluated, e.g. validation, test."""

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write the files that `load_task` needs into a run's folder: a tokenizer, class names."""

    @classmethod
    @abstractmethod
    def from_recipe(cls, recipe: Recipe, recipe_folder: Path | None = None) -> "Task":
        """The task of a recipe with its data, read and checked before training.

        recipe_folder  searched first for the data
        """

    @property
    def classes(self) -> Sequence[str]:
        """Names of the outputs, if each is a class."""
        return ()

    def class_counts(self, part: str) -> Mapping[str, int]:
        """Examples of each class in a part; empty where outputs are no classes."""
        return {}

    def label_counts(self, part: str) -> Mapping[str, int]:
        """Examples that have each label in a part; empty where an example has no labels."""
        return {}

    def number_count(self, part: str) -> int:
        """Examples of a part whose answers are numbers, of which the mean error decides; 0 for other tasks."""
        return 0

    @classmethod
    @abstractmethod
    def from_run(cls, recipe: Recipe, folder: Path) -> "Task":
        """The task of a run, without its data."""

    @classmethod
    @abstractmethod
    def for_evaluation(cls, recipe: Recipe, folder: Path, names: Sequence[str]) -> "Task":
        """The task of a run with new data as its one part, NEW. names: its files, as a recipe names them.

        raises  InputError if columns, classes, elements or characters differ from those of the run
        """

    @abstractmethod
    def predict(self, model: Built, inputs: Sequence[str], **options: Any) -> list[Prediction]:
        """Predictions for inputs from a person, in batches: texts; or files, folders, archives as `train` reads them."""

    @abstractmethod
    def model_inputs(self, model: Built, example: str) -> ModelInputs:
        """The model's arguments for one input from a person, as for `predict`."""

    def samples(self, model: Built, step: int) -> list[Sample]:
        """The model's outputs for fixed examples."""
        return []

    def multiply_adds(self, spec: ModelSpec, batch: Batch) -> float:
        """Of one forward pass over a batch."""
        return float(describe(spec, max(batch.length, 1), max(batch.source, 1)).multiply_adds * batch.size)


def warnings(task: Task, model: Built) -> list[str]:
    """What a run may be fooled by, before its first step."""
    return [*size_warnings(task), *order_warnings(task, model)]


FEW = 10  # training examples of a class, of which fewer are named
UNSURE = 0.2  # half of the 95 % interval of a mean error, as a share of it, above which a part is too small to choose by
WIDE = 0.05  # half of the 95 % interval of an accuracy of one half, above which a part is too small to choose by


def size_warnings(task: Task) -> list[str]:
    """Warnings about classes with few training examples, and about a validation part that cannot tell two models apart.

    A mean error is known to 1.48 / sqrt(n) of itself if the errors of n examples are normal: the standard deviation of their sizes
    is 0.756 of their mean.
    """
    found = []
    for what, counts in (("classes", task.class_counts("train")), ("labels", task.label_counts("train"))):
        if few := {name: count for name, count in counts.items() if count < FEW}:
            named = ", ".join(f"{name} ({count})" for name, count in list(few.items())[:8]) + (", …" if len(few) > 8 else "")
            found.append(f"{len(few)} of {len(counts)} {what} have fewer than {FEW} training examples: {named}.")
    numbers = task.number_count("validation")
    if numbers and (share := 1.48 / numbers**0.5) > UNSURE:
        found.append(
            f"The validation part has {counted(numbers, 'example')}, so a mean error on it is known to about "
            f"±{share:.0%} of itself (95 % "
            "interval, if errors are normal): smaller differences between two models mean little."
        )
    count = sum(task.class_counts("validation").values())
    if count and (half := 1.96 * (0.25 / count) ** 0.5) > WIDE:
        sure = 1.96 * (0.09 / count) ** 0.5
        found.append(
            f"The validation part has {counted(count, 'example')}, so an accuracy near 50 % is known to ±{half:.0%} "
            "(95 % interval), and "
            f"one near 90 % to ±{sure:.1%}: smaller differences between two models mean little."
        )
    return found


def order_warnings(task: Task, model: Built) -> list[str]:
    """A warning if a model cannot depend on the order of its input although the order matters."""
    if not task.ordered or not isinstance(model, Model):
        return []
    parts = {"model": model, **({} if model.encoder is None else {"model.encoder": model.encoder})}
    return [
        f"The {name.rpartition('.')[2]} ignores the order of its tokens: it has neither a position scheme nor a causal mask."
        f' Set {name}.block.attention.position = "{task.ordered}", unless this is intended.'
        for name, part in parts.items() if _ignores_order(part)
    ]  # fmt: skip


def _ignores_order(model: Model) -> bool:
    """Whether the model is permutation equivariant, up to a read-out of a single row."""
    claim = next(claim for claim in derive(model) if claim.action == Permute.name)
    return claim.holds or (claim.decided_by == "readout" and model.readout.name in ("first", "last"))


def resolve_spec(task: Task) -> ModelSpec:
    """The spec of a recipe: that of a preset or a checkpoint, with the fields of the recipe and those that the data determines."""
    spec = _resolved(task)
    if not spec.needs_documents:
        return spec
    data = spec.to_dict()
    return Spec.of(merged(data, {"input": {"separator": list(task.separator(data.get("input", {}).get("separator")))}}))


def _resolved(task: Task) -> ModelSpec:
    if task.in_space:
        return _in_space(task)
    model_fields = dict(task.recipe.model)
    preset, start = model_fields.pop("preset", None), model_fields.pop("start", None)
    base: dict[str, Any] = {}
    if start is not None:
        if others := [name for name in task.recipe.model if name not in ("start", "dropout", "drop_path", *task.start_fields)]:
            raise InputError(
                f"model.start = {start!r} has its own spec; model may only add dropout and drop_path,  "
                f"but got {', '.join(others)}. Leave that out, or begin without a start."
            )
        spec = read_spec(start)
        base = spec.to_dict()
        if spec.kind == "baseline":
            return _baseline(task, base | model_fields, f"The checkpoint of model.start = {start!r} has")
        if spec.kind == "points":
            raise InputError(f"The checkpoint of model.start = {start!r} is of points in space, which only molecules begin with.")
    elif "baseline" in model_fields:
        return _baseline(task, model_fields, "The recipe sets")
    elif preset is not None:
        base = spec_of(preset).to_dict()
    fields = task.resolved_fields(merged(base, model_fields) if start is None else base | model_fields)
    spec_ = Spec.of({name: value for name, value in fields.items() if value is not None or name in ("vocabulary", "outputs")})
    if task.writes:
        _check_language_model(spec_)
    return spec_


def _in_space(task: Task) -> PointSpec | Spec:
    """A model of points in space: the recipe's fields, or those of the run that it starts from, and the elements of the data.

    If the recipe has a `block`, it is an ordinary transformer.
    """
    model_fields = dict(task.recipe.model)
    start = model_fields.pop("start", None)
    if start is None:
        fields = task.resolved_fields(model_fields)
        return Spec.of(fields) if "block" in model_fields else PointSpec.of(fields)
    spec = read_spec(start)
    if model_fields or spec.kind != "points":
        what = f"so model has no other fields, but got {', '.join(model_fields)}" if model_fields else "but that is none"
        raise InputError(f"model.start = {start!r} takes a run of molecules with a spec of its own, {what}.")
    return PointSpec.of(task.resolved_fields(spec.to_dict()))


def _baseline(task: Task, model_fields: dict[str, Any], who: str) -> Baseline:
    """A baseline with the fields that the data determines. Raises InputError if it belongs to another task, or the data differs."""
    kind = str(model_fields["baseline"])
    if kind not in task.baselines:
        alternatives = f"one of {', '.join(task.baselines)}, or a transformer" if task.baselines else "a transformer"
        raise InputError(f'model.baseline is "{kind}", which the task {task.name} has no use for. Choose {alternatives}.')
    sizes = task.sizes(kind)
    for name, size in sizes.items():
        stated = model_fields.get(name, size)
        if (tuple(stated) if isinstance(stated, list) else stated) != size:
            raise InputError(f"{who} {name} = {stated}, but the data has {size}. Leave it out: the data determines it.")
    return Baseline.of(model_fields | sizes)


def _check_language_model(spec: Spec) -> None:
    """Refuse a model that would attend to the token that it predicts, or that has no output at each position."""
    if not all(block.attention.joint_mask.is_causal for block in spec.blocks):
        raise InputError(
            "model.block.attention.causal is false: each position would attend to the token that it predicts. Set it to true, "
            "or choose a checkpoint of a model that writes."
        )
    if len({block.attention.mask.needs_documents for block in spec.blocks}) > 1:
        raise InputError(
            "Some layers have the mask documents and others do not, but documents must be separated in every layer or in none. "
            "Give the mask to all layers, or to none."
        )
    if spec.readout != "each":
        raise InputError(f'model.readout is "{spec.readout}", but the next token is predicted at each position. Set it to "each".')
