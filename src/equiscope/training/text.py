"""Text: the part common to tasks on texts. Their runs store the tokenizer."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

from equiscope.errors import InputError
from equiscope.tokens.tokenizer import FILE, Tokenizer
from equiscope.training.input_domain import InputNumbers
from equiscope.training.recipe import Recipe
from equiscope.training.task import Task


class TextTask(Task):
    """A task whose examples are ids of a tokenizer."""

    input_names = ("tokens", "characters a token", "share of tokens that training never had")
    tokenizer: Tokenizer

    def __init__(self, recipe: Recipe, tokenizer: Tokenizer) -> None:
        super().__init__(recipe)
        self.tokenizer = tokenizer

    @classmethod
    def from_run(cls, recipe: Recipe, folder: Path) -> Self:
        return cls(recipe, Tokenizer.read(folder))

    def check_vocabulary(self, vocabulary: int) -> None:
        """Raise InputError if the tokenizer has more ids than the vocabulary of a checkpoint."""
        if self.tokenizer.size > vocabulary:
            raise InputError(
                f"The checkpoint knows {vocabulary} ids, but this tokenizer has {self.tokenizer.size}. "
                'Use data.tokens = "checkpoint", the tokenizer it was trained with.'
            )

    def texts_of(self, part: str) -> Sequence[str]:
        """The texts that are read of a part, one for each example of `outcomes`; none where an example is no whole text."""
        return ()

    @property
    def training_ids(self) -> str:  # type: ignore[override]
        present = np.zeros(self.tokenizer.size, bool)
        for text in self.texts_of("train"):
            present[self.tokenizer.encode(text)] = True
        return np.packbits(present).tobytes().hex()

    def input_numbers(self, part: str, training_ids: str = "") -> InputNumbers | None:
        texts = self.texts_of(part)
        return self.text_numbers(texts, training_ids or self.training_ids) if texts else None

    def text_numbers(self, texts: Sequence[str], training_ids: str) -> InputNumbers:
        """How many tokens a text has, how long they are, and which share of them is new."""
        present = np.unpackbits(np.frombuffer(bytes.fromhex(training_ids), np.uint8)).astype(bool)
        rows = []
        for text in texts:
            ids = self.tokenizer.encode(text)
            new = sum(i >= len(present) or not present[i] for i in ids)
            rows.append([len(ids), len(text) / max(1, len(ids)), new / max(1, len(ids))])
        values = np.array(rows, dtype=np.float64)
        return InputNumbers(self.input_names, [max(2.0, 0.5 * float(np.median(values[:, 0]))), 0.5, 0.05], values)

    @property
    def column(self) -> str:
        """The column of a table that has the inputs; empty for data without a table."""
        data: Any = self.recipe.data
        return str(data.fields[0] if hasattr(data, "fields") else getattr(data, "field", ""))

    def save(self, folder: Path) -> None:
        self.tokenizer.save(folder / FILE)


def of_start(recipe: Recipe, tokens: str) -> Tokenizer | None:
    """The tokenizer of model.start, if data.tokens names it. Raises InputError if there is no start."""
    if tokens != "checkpoint":
        return None
    if "start" not in recipe.model:
        raise InputError('data.tokens = "checkpoint" takes the tokenizer of model.start, but model has no start.')
    return Tokenizer.read(recipe.model["start"])
