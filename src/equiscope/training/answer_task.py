"""Tasks whose examples have an answer: a class, several labels, or numbers. `answers` says what the outputs of each mean."""

from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor

from equiscope.errors import InputError, UnknownName
from equiscope.models import Built
from equiscope.training.answers import Answer, Numbers, OneClass, SeveralLabels
from equiscope.training.input_domain import InputDomain, InputNumbers
from equiscope.training.recipe import Recipe
from equiscope.training.task import Prediction, Task, warned

TOP = 3  # classes or labels whose probabilities a prediction has


class AnswerTask(Task):
    """A task with one answer for each example.

    answer   what the outputs of the model mean
    domain   of a run: which inputs are usual; None for a run that has none
    targets  of each part, as the loss takes them
    """

    answer: Answer
    targets: dict[str, Tensor]
    domain: InputDomain | None = None

    def set_answer(self, answer: Answer) -> None:
        """Begin without targets."""
        self.answer, self.targets = answer, {}
        self.better = self.better_for(self.recipe)

    @classmethod
    def better_for(cls, recipe: Recipe) -> Literal["less", "more"]:
        """Of numbers, the first metric is an error."""
        return "less" if getattr(recipe.data, "numbers", ()) else cls.better

    def encode(self, part: str, names: Sequence[str], targets: Sequence[Any]) -> None:
        """Set the targets of a part. names: of its examples. Raises InputError for a class that training does not have."""
        if isinstance(self.answer, OneClass):
            known = set(self.answer.classes)
            if new := [i for i, target in enumerate(targets) if target not in known]:
                raise InputError(
                    f"{names[new[0]]} has the class {targets[new[0]]!r}, which is none of: {', '.join(self.answer.classes)}"
                    f"{f'; and so have {len(new) - 1} others of the {part} part' if len(new) > 1 else ''}. "
                    "Give training examples of that class, or take them out."
                )
        self.targets[part] = self.answer.encoded(targets)

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
