"""Tasks whose examples have an answer: a class, several labels, or numbers. `answers` says what the outputs of each mean."""

from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor

from equiscope.data.targets import OtherCells
from equiscope.errors import InputError, UnknownName
from equiscope.models import Built, Model
from equiscope.record import Sample
from equiscope.training.answers import Answer, Numbers, OneClass, SeveralLabels
from equiscope.training.attention_snapshot import snapshot_due
from equiscope.training.input_domain import InputNumbers
from equiscope.training.metadata_columns import MetadataColumns
from equiscope.training.recipe import Recipe
from equiscope.training.task import Prediction, Task, warned

TOP = 3  # classes or labels whose probabilities a prediction has


class AnswerTask(Task):
    """A task with one answer for each example.

    answer   what the outputs of the model mean
    metadata  the columns of a table that are read with each example; columns: their tokens, of each part
    targets  of each part, as the loss takes them
    """

    answer: Answer
    targets: dict[str, Tensor]
    columns: dict[str, Tensor]
    metadata: MetadataColumns = MetadataColumns()

    def set_answer(self, answer: Answer, metadata: MetadataColumns | None = None) -> None:
        """Begin without targets."""
        self.answer, self.targets, self.columns = answer, {}, {}
        self.metadata = metadata or MetadataColumns()
        self.better = self.better_for(self.recipe)

    @classmethod
    def better_for(cls, recipe: Recipe) -> Literal["less", "more"]:
        """Of numbers, the first metric is an error."""
        return "less" if getattr(recipe.data, "numbers", ()) else cls.better

    def encode(self, part: str, names: Sequence[str], targets: Sequence[Any], others: Sequence[OtherCells] = ()) -> None:
        """Set the targets of a part, and the tokens of its columns. Raises InputError for a class that training does not have.

        names   of its examples; others: cells of each in further columns
        """
        self.columns[part] = self.metadata.tokens([one.metadata for one in others])
        if self.metadata.columns and (unknown := sum(not one.metadata for one in others)):
            named = ", ".join(column.name for column in self.metadata.columns)
            self.notes = [
                *self.notes,
                f"{unknown} of {len(others)} examples of the {part} part are not from a table: what stands in {named} is unknown.",
            ]
        if isinstance(self.answer, OneClass):
            known = set(self.answer.classes)
            if new := [i for i, target in enumerate(targets) if target not in known]:
                raise InputError(
                    f"{names[new[0]]} has the class {targets[new[0]]!r}, which is none of: {', '.join(self.answer.classes)}"
                    f"{f'; and so have {len(new) - 1} others of the {part} part' if len(new) > 1 else ''}. "
                    "Give training examples of that class, or take them out."
                )
        self.targets[part] = self.answer.encoded(targets)

    def with_columns(self, fields: dict[str, Any]) -> dict[str, Any]:
        """The fields of a spec with the tokens of the columns. Raises InputError if a checkpoint has none for them."""
        sizes, layer = self.metadata.sizes, fields.get("input") or {}
        if sizes and "start" in self.recipe.model:
            raise InputError("data.metadata adds tokens that the checkpoint of model.start does not have. Leave one of them out.")
        self.check_stated({"input.columns": sizes or None}, "the data needs {}")
        return fields | {"input": layer | {"columns": sizes}} if sizes else fields

    def check_baseline(self, baseline: str) -> None:
        """Raises InputError where a baseline would have to read columns."""
        if self.metadata.columns:
            raise InputError(f'model.baseline "{baseline}" reads no columns beside its input. Leave data.metadata out.')

    def front_names(self, model: Built) -> list[str]:
        """Labels of the tokens in front of an example that is not from a table."""
        names = model.spec.prefix_names if isinstance(model, Model) else []
        return [*names[: len(names) - len(self.metadata.columns)], *(f"{one.name}: unknown" for one in self.metadata.columns)]

    def column_inputs(self, tokens: Tensor) -> dict[str, Tensor]:
        """What a model takes beside its input: the tokens of columns [B, columns], if there are any."""
        return {"columns": tokens} if self.metadata.columns else {}

    def check_readout(self, readout: str, of: str, choices: str = '"mean", "class", "first" or "last"') -> None:
        """Raise InputError for a read-out that gives no one answer an example. of: the word for an example."""
        if readout in ("each", "concatenation"):
            raise InputError(f"model.readout {readout!r} gives no one answer a {of}. Use {choices}.")

    @property
    def parts(self) -> Sequence[str]:
        return tuple(self.targets)

    @property
    def classes(self) -> Sequence[str]:
        return self.answer.classes if isinstance(self.answer, OneClass) else ()

    def class_counts(self, part: str) -> dict[str, int]:
        if part not in self.targets or not self.classes:
            return {}
        counts = torch.bincount(self.targets[part], minlength=len(self.classes)).tolist()
        return dict(zip(self.classes, counts, strict=True))

    def label_counts(self, part: str) -> dict[str, int]:
        if part not in self.targets or not isinstance(self.answer, SeveralLabels):
            return {}
        return dict(zip(self.answer.labels, self.targets[part].sum(0).int().tolist(), strict=True))

    def number_count(self, part: str) -> int:
        return len(self.targets.get(part, ())) if isinstance(self.answer, Numbers) else 0

    @property
    def simple_answer(self) -> Answer:
        return self.answer

    def evaluate(self, model: Built, part: str = "validation") -> dict[str, float]:
        """The metrics of the answer (`answers`) over a part, and the number of examples."""
        found = self.outcomes(model, part)
        assert found is not None
        return found.values

    def samples(self, model: Built, step: int) -> list[Sample]:
        """Answers for examples at regular intervals in the validation part, with the attention of the first."""
        targets, found = self.targets["validation"], list[Sample]()
        count = min(self.recipe.evaluation.samples, len(targets))
        for i in [k * len(targets) // count for k in range(count)]:
            prompt, outputs = self.sample(model, i)
            snapshot = {} if found or not snapshot_due(self.recipe, step) else self.snapshot(model, i)
            answer, target = self.answer.text_of(outputs), self.answer.written(targets[i])
            found.append(Sample(step=step, prompt=prompt, answer=answer, target=target, **snapshot))
        return found

    def sample(self, model: Built, i: int) -> tuple[str, Tensor]:
        """What names an example of the validation part, and its outputs [outputs] on the CPU."""
        raise NotImplementedError

    def snapshot(self, model: Built, i: int) -> dict[str, Any]:
        """The fields of a `Sample` that show the attention of an example of the validation part."""
        return {}

    def top_of(self, options: dict[str, Any]) -> int:
        """How many classes a prediction names with their probabilities, the only option. Raises InputError for others."""
        top = int(options.pop("top", TOP))
        if options:
            raise UnknownName(f"option of the task {self.name}", next(iter(options)), ["top"])
        if top < 1:
            raise InputError(f"top is the number of classes to return, 1 or more, but got {top}.")
        return top

    def predictions(self, names: Sequence[str], outputs: Tensor, top: int, numbers: InputNumbers | None = None) -> list[Prediction]:
        """The predictions of outputs. numbers: of the inputs, to warn of unusual ones."""
        found = self.answer.predictions(names, outputs, top)
        return found if self.domain is None or numbers is None else warned(self.domain, found, numbers)
