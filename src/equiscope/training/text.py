"""Text: the part common to tasks on texts. Their runs store the tokenizer."""

from pathlib import Path
from typing import Any, Self

from equiscope.errors import InputError
from equiscope.tokens.tokenizer import FILE, Tokenizer
from equiscope.training.recipe import Recipe
from equiscope.training.task import Task


class TextTask(Task):
    """A task whose examples are ids of a tokenizer."""

    tokenizer: Tokenizer

    def __init__(self, recipe: Recipe, tokenizer: Tokenizer) -> None:
        super().__init__(recipe)
        self.tokenizer = tokenizer

    @classmethod
    def from_run(cls, recipe: Recipe, folder: Path) -> Self:
        return cls(recipe, Tokenizer.read(folder))

    @property
    def column(self) -> str:
        """The column of a table that has the inputs."""
        data: Any = self.recipe.data
        return str(data.fields[0] if hasattr(data, "fields") else data.field)

    def save(self, folder: Path) -> None:
        self.tokenizer.save(folder / FILE)


def of_start(recipe: Recipe, tokens: str) -> Tokenizer | None:
    """The tokenizer of model.start, if data.tokens names it. Raises InputError if there is no start."""
    if tokens != "checkpoint":
        return None
    if "start" not in recipe.model:
        raise InputError('data.tokens = "checkpoint" takes the tokenizer of model.start, but model has no start.')
    return Tokenizer.read(recipe.model["start"])
