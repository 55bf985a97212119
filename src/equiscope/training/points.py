"""Points: a set of points in space becomes one class, several labels, or numbers, which no rotation or translation changes."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import torch
from torch import Tensor, nn

from equiscope.data.frame import MoleculeFrame
from equiscope.data.point_sets import LabelledPoints, PointSet, PointSets, padded, read
from equiscope.data.targets import target_kind
from equiscope.errors import InputError
from equiscope.geometry.model import POINT, SpaceModel
from equiscope.models import Built
from equiscope.tokens.elements import SYMBOLS
from equiscope.training import answers
from equiscope.training.answer_task import AnswerTask
from equiscope.training.answers import Answer
from equiscope.training.atom_drawing import drawn
from equiscope.training.measures import Outcomes
from equiscope.training.recipe import Recipe
from equiscope.training.task import NEW, Batch, ModelInputs, Prediction, batches

AT_ONCE, PAIRS = 64, 2**18  # sets that are answered together, and pairs of their points


class PointsTask(AnswerTask):
    """A model learns the class, the labels or the numbers of sets of points."""

    name: ClassVar[str] = "points"
    better: Literal["less", "more"] = "more"
    single: ClassVar[bool] = True
    in_space: ClassVar[bool] = True
    ordered = ""  # a set has no order

    points: LabelledPoints  # none in the task of a run without data

    def __init__(self, recipe: Recipe, answer: Answer, points: LabelledPoints | None = None) -> None:
        super().__init__(recipe)
        assert isinstance(recipe.data, PointSets)
        self.config = recipe.data
        self.set_answer(answer)
        if points is not None:
            self.points, self.sources = points, points.sources
            for part, rows in points.parts.items():
                self.encode(part, [row.name for row in rows], [row.target for row in rows])

    @classmethod
    def from_recipe(cls, recipe: Recipe, recipe_folder: Path | None = None) -> Self:
        """Read and check the recipe's points."""
        assert isinstance(recipe.data, PointSets)
        config, points = recipe.data, LabelledPoints(recipe.data, recipe.seed, recipe_folder)
        targets = [row.target for row in points.parts["train"]]
        return cls(recipe, answers.of_targets(target_kind(config), targets, config.numbers), points)

    @classmethod
    def from_run(cls, recipe: Recipe, folder: Path) -> Self:
        return cls(recipe, answers.read(folder))

    @classmethod
    def for_evaluation(cls, recipe: Recipe, folder: Path, names: Sequence[str]) -> Self:
        assert isinstance(recipe.data, PointSets)
        return cls(recipe, answers.read(folder), LabelledPoints.from_files(recipe.data, NEW, names))

    def save(self, folder: Path) -> None:
        answers.save(self.answer, folder)

    def resolved_fields(self, spec: dict[str, Any]) -> dict[str, Any]:
        rows = [row for some in self.points.parts.values() for row in some]
        symbols = [SYMBOLS[n - 1] for n in torch.cat([row.numbers for row in rows]).unique().tolist()]
        there = symbols if rows[0].has_elements else [POINT]
        known = list(spec.get("elements", there))
        if missing := [symbol for symbol in there if symbol not in known]:
            raise InputError(f"The model knows {', '.join(known)}, but the points have {', '.join(missing)} too. Add that.")
        for name, wanted in (("readout", "class"), ("classes", self.answer.outputs)):
            if spec.get(name, wanted) != wanted:
                raise InputError(f"model.{name} is {spec[name]!r}, but the data needs {wanted!r}. Leave it out.")
        if spec.get("cutoff") is None and rows[0].cell is not None:
            raise InputError("The sets are periodic, so every point would have infinitely many neighbours. Set model.cutoff.")
        return spec | {"elements": known, "readout": "class", "classes": self.answer.outputs}

    def batch(self, step: int, share: int = 0, shares: int = 1) -> Batch:
        size = self.recipe.budget.batch
        rows = [example for _, example in self.points.sampler.batch(step, size)[share::shares]]
        tensors = padded([self.points.parts["train"][i] for i in rows]) | {"targets": self.targets["train"][rows]}
        return Batch(tensors, size, int((tensors["numbers"] > 0).sum()), len(rows), tensors["numbers"].shape[1])

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        t = batch.tensors
        return self.answer.loss(model(t["numbers"], t["positions"], t.get("cell")), t["targets"], self.config.smoothing)

    def outcomes(self, model: Built, part: str) -> Outcomes:
        rows = self.points.parts[part]
        return self.answer.outcomes([row.name for row in rows], self._outputs(model, rows), self.targets[part], "sets")

    def visible_inputs(self, part: str, rows: Sequence[int]) -> list[dict[str, str]]:
        sets = [self.points.parts[part][row] for row in rows]
        return [
            {"picture": drawn(MoleculeFrame(one.name, 0, one.numbers, one.positions, 0.0))} if one.has_elements else {}
            for one in sets
        ]

    def simple_features(self, part: str) -> tuple[Any, Tensor] | None:
        """How many points of each element there are, in all, and how far the points spread in three directions."""
        rows = self.points.parts[part]
        counts = torch.stack([torch.bincount(row.numbers, minlength=len(SYMBOLS) + 1) for row in rows]).double()
        spread = torch.stack([torch.linalg.svdvals(_centred(row.positions.double())) / len(row.numbers) ** 0.5 for row in rows])
        features = torch.cat([counts, counts.sum(-1, keepdim=True).log(), spread], -1)
        return features.numpy(), self.targets[part]

    def predict(self, model: Built, inputs: Sequence[str], **options: Any) -> list[Prediction]:
        """The answer for each set. options: top, how many classes with their probabilities; 3 by default.

        inputs: files of points, folders, archives, tables with a column of file names
        """
        top = self.top_of(options)
        rows = [row for name in inputs for row in read(name, self.config, labelled=False)[0]]
        return self.answer.predictions([row.name for row in rows], self._outputs(model, rows), top) if rows else []

    def model_inputs(self, model: Built, example: str) -> ModelInputs:
        raise InputError("A model of points in space has no row of words, patches or slices to look at. Ask it: equiscope predict.")

    def sample(self, model: Built, i: int) -> tuple[str, Tensor]:
        one = self.points.parts["validation"][i]
        return one.name.rpartition("/")[2], self._outputs(model, [one])[0]

    @torch.no_grad()
    def _outputs(self, model: Built, rows: Sequence[PointSet]) -> Tensor:
        """The outputs of sets [N, outputs] on the CPU, computed in batches of similar size."""
        assert isinstance(model, SpaceModel)
        for row in rows:
            try:
                model.elements(row.numbers)
            except InputError as error:
                raise InputError(f"{row.name}: {error}") from error
        device, found = next(model.parameters()).device, [torch.zeros(0)] * len(rows)
        order = sorted(range(len(rows)), key=lambda i: (rows[i].cell is None, len(rows[i].numbers)))
        for periodic in (True, False):
            own = [i for i in order if (rows[i].cell is not None) == periodic]
            for some in batches([len(rows[i].numbers) for i in own], AT_ONCE, PAIRS):
                t = {name: x.to(device) for name, x in padded([rows[i] for i in own[some]]).items()}
                for i, row in zip(own[some], model(t["numbers"], t["positions"], t.get("cell")).float().cpu(), strict=True):
                    found[i] = row
        return torch.stack(found)


def _centred(positions: Tensor) -> Tensor:
    """Positions [max(N, 3), 3] around their mean, with rows of zeros for fewer than three points."""
    x = positions - positions.mean(0)
    return torch.cat([x, x.new_zeros(max(0, 3 - len(x)), 3)])
