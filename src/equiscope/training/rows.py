"""Rows: a row of a table becomes one class, several labels, or numbers: each of its columns is a token."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch
from torch import Tensor, nn

from equiscope.data.files import overlap_notes
from equiscope.data.labelled_texts import LabelledText
from equiscope.data.table_rows import LabelledRows, Tabular, read
from equiscope.data.targets import target_kind
from equiscope.data.texts import named_files
from equiscope.errors import InputError
from equiscope.models import Built
from equiscope.record import TokenSequence
from equiscope.training import answers
from equiscope.training.answer_task import AnswerTask
from equiscope.training.answers import Answer
from equiscope.training.measures import Outcomes
from equiscope.training.metadata_columns import MetadataColumns, number_in
from equiscope.training.recipe import Recipe
from equiscope.training.task import NEW, Batch, ModelInputs, Prediction

AT_ONCE = 1024  # rows that are answered together
SHOWN = 8  # columns of a row that are shown in a line


class RowsTask(AnswerTask):
    """A model learns the class, the labels or the numbers of the rows of a table."""

    name: ClassVar[str] = "rows"
    better: Literal["less", "more"] = "more"
    ordered = ""  # a row is a set of columns: each has its own tokens

    rows: LabelledRows  # none in the task of a run without data

    def __init__(
        self, recipe: Recipe, answer: Answer, read_columns: MetadataColumns, rows: LabelledRows | None = None
    ) -> None:  # fmt: skip
        super().__init__(recipe)
        assert isinstance(recipe.data, Tabular)
        self.config, self.read_columns = recipe.data, read_columns
        self.set_answer(answer)
        self.ids: dict[str, Tensor] = {}
        if rows is not None:
            self.rows, self.sources = rows, rows.sources
            self.notes = [*rows.notes, *overlap_notes(self.sources)]
            for part, some in rows.parts.items():
                self.encode(part, [row.where for row in some], [row.target for row in some])
                self.ids[part] = self._ids(some)

    @classmethod
    def from_recipe(cls, recipe: Recipe, recipe_folder: Path | None = None) -> Self:
        """Read and check the recipe's tables."""
        assert isinstance(recipe.data, Tabular)
        config, rows = recipe.data, LabelledRows(recipe.data, recipe.seed, recipe_folder)
        train = rows.parts["train"]
        answer = answers.of_targets(target_kind(config), [row.target for row in train], config.numbers)
        columns = MetadataColumns.of(config.columns, [row.text for row in train], "data.columns")
        return cls(recipe, answer, columns, rows)

    @classmethod
    def from_run(cls, recipe: Recipe, folder: Path) -> Self:
        assert isinstance(recipe.data, Tabular)
        return cls(recipe, answers.read(folder), MetadataColumns.read(folder, recipe.data.columns))

    @classmethod
    def for_evaluation(cls, recipe: Recipe, folder: Path, names: Sequence[str]) -> Self:
        assert isinstance(recipe.data, Tabular)
        columns = MetadataColumns.read(folder, recipe.data.columns)
        return cls(recipe, answers.read(folder), columns, LabelledRows.from_files(recipe.data, NEW, names))

    def save(self, folder: Path) -> None:
        answers.save(self.answer, folder)
        self.read_columns.save(folder)

    def resolved_fields(self, spec: dict[str, Any]) -> dict[str, Any]:
        size, outputs = sum(self.read_columns.sizes), self.answer.outputs
        if "start" in self.recipe.model or spec.get("encoder") is not None:
            raise InputError("Rows of a table take a model of their own columns: no model.start, and no encoder. Leave them out.")
        self.check_stated({"vocabulary": size, "outputs": outputs}, "the data needs {}")
        readout = self.recipe.model.get("readout", "mean")
        self.check_readout(readout, "row", '"mean" or "class"')
        return spec | {
            "vocabulary": size, "outputs": outputs, "readout": readout, "tied": False,
            "output": {"bias": True} | self.recipe.model.get("output", {}),
        }  # fmt: skip

    def batch(self, step: int, share: int = 0, shares: int = 1) -> Batch:
        size = self.recipe.budget.batch
        rows = [row for _, row in self.rows.sampler.batch(step, size)[share::shares]]
        ids = self.ids["train"][rows]
        return Batch({"inputs": ids, "targets": self.targets["train"][rows]}, size, ids.numel(), len(rows), ids.shape[1])

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        return self.answer.loss(model(batch.tensors["inputs"]), batch.tensors["targets"], self.config.smoothing)

    def outcomes(self, model: Built, part: str) -> Outcomes:
        names = [self._line(row) for row in self.rows.parts[part]]
        return self.answer.outcomes(names, self._outputs(model, self.ids[part]), self.targets[part], "rows")

    def visible_inputs(self, part: str, rows: Sequence[int]) -> list[dict[str, str]]:
        return [{"text": self._line(self.rows.parts[part][row], len(self.config.columns))} for row in rows]

    def simple_features(self, part: str) -> tuple[Any, Tensor] | None:
        """Numbers as they are, the mean where there is none; and the values of other columns as 0 and 1."""
        tokens = self.read_columns.tokens([row.text for row in self.rows.parts[part]])
        found = [self.read_columns.one_hot(tokens).numpy()[:, self._of_values()]]
        for k, column in enumerate(self.read_columns.columns):
            if column.edges:
                numbers = [number_in(row.text[k]) for row in self.rows.parts[part]]
                middle = column.edges[len(column.edges) // 2]
                found.append(np.array([middle if number is None else number for number in numbers])[:, None])
        return np.concatenate(found, -1), self.targets[part]

    def simple_groups(self, part: str) -> Sequence[str]:
        return [row.others.group for row in self.rows.parts[part]]

    def predict(self, model: Built, inputs: Sequence[str], **options: Any) -> list[Prediction]:
        """The answer for each row of tables, which need the columns that are read only. options: top, how many classes; 3."""
        top = self.top_of(options)
        rows = [row for name in inputs for row in self._read(name)]
        return self.predictions([self._line(row) for row in rows], self._outputs(model, self._ids(rows)), top) if rows else []

    def model_inputs(self, model: Built, example: str) -> ModelInputs:
        row = self._read(example)[0]
        labels = [f"{name} {cell or 'unknown'}" for name, cell in zip(self.config.columns, row.text, strict=True)]
        return ModelInputs(
            (self._ids([row]).to(next(model.parameters()).device),), [TokenSequence(name="row", kind="tokens", labels=labels)]
        )  # fmt: skip

    def sample(self, model: Built, i: int) -> tuple[str, Tensor]:
        return self._line(self.rows.parts["validation"][i]), self._outputs(model, self.ids["validation"][i : i + 1])[0]

    def _ids(self, rows: Sequence[LabelledText]) -> Tensor:
        """The ids of rows [N, columns]: tokens of all columns, counted one after another."""
        sizes = torch.tensor([0, *self.read_columns.sizes[:-1]])
        return self.read_columns.tokens([row.text for row in rows]) + sizes.cumsum(0)

    def _of_values(self) -> np.ndarray:
        """Which of the tokens are values, and not ranges of numbers."""
        return np.concatenate([np.full(column.size, not column.edges) for column in self.read_columns.columns])

    def _line(self, row: LabelledText, most: int = SHOWN) -> str:
        pairs = [f"{name} {cell}" for name, cell in zip(self.config.columns, row.text, strict=True) if cell]
        return ", ".join(pairs[:most]) + (", …" if len(pairs) > most else "")

    def _read(self, name: str) -> list[LabelledText]:
        if not (paths := named_files(name)):
            raise InputError(f"There is no table {name}. Inputs are the rows of one with: {', '.join(self.config.columns)}.")
        return read(paths, self.config, labelled=False)

    @torch.no_grad()
    def _outputs(self, model: Built, ids: Tensor) -> Tensor:
        """The outputs of rows [N, outputs] on the CPU."""
        device = next(model.parameters()).device
        return torch.cat([model(some.to(device)).float().cpu() for some in ids.split(AT_ONCE)])
