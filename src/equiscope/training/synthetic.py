"""Synthetic tasks: answers that are known by definition, scored alone. The metric is accuracy of the answer tokens."""

import copy
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import msgspec
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from equiscope.data.language import IGNORED
from equiscope.data.synthetic import EQUALS, SEPARATOR, Synthetic, SyntheticExamples
from equiscope.errors import InputError, counted
from equiscope.geometry import SpaceModel
from equiscope.models import Built, Model, generate
from equiscope.record import Sample, TokenSequence
from equiscope.tokens.tokenizer import Tokenizer, by_words
from equiscope.training.attention_snapshot import attention_of, snapshot_due, snapshot_length
from equiscope.training.recipe import Recipe
from equiscope.training.task import NEW, Batch, ModelInputs, Prediction
from equiscope.training.text import TextTask

AT_ONCE = 2**14  # tokens that are evaluated together


class SyntheticTask(TextTask):
    """A decoder learns to answer generated questions."""

    name: ClassVar[str] = "synthetic"
    better: Literal["less", "more"] = "more"
    baselines: ClassVar[tuple[str, ...]] = ("lstm",)
    parts: Sequence[str] = ("validation", "test")
    config: Synthetic

    def __init__(self, recipe: Recipe, tokenizer: Tokenizer | None = None) -> None:
        assert isinstance(recipe.data, Synthetic)
        self.config = recipe.data
        self.generated = SyntheticExamples(self.config, recipe.seed)
        super().__init__(recipe, tokenizer or by_words(" ".join(self.generated.words)))
        self.ordered = "" if self.config.generate == "addition" else "rope"
        self.writes = self.config.answers_are_read
        self._chances: dict[str, float] = {}

    @classmethod
    def from_recipe(cls, recipe: Recipe, recipe_folder: Path | None = None) -> Self:
        """The task; there are no files to read."""
        return cls(recipe)

    @classmethod
    def for_evaluation(cls, recipe: Recipe, folder: Path, names: Sequence[str]) -> Self:
        """The task at another length of the inputs. names: the length, such as ["128"]."""
        assert isinstance(recipe.data, Synthetic)
        if len(names) != 1 or not names[0].isdecimal() or not 1 <= int(names[0]) < 2**31:
            raise InputError(
                f"The examples of a synthetic task are generated, not read: evaluate takes the length of their inputs, such "
                f"as `evaluate RUN {8 * recipe.data.length}`, but got {', '.join(names)}."
            )
        return cls(recipe, Tokenizer.read(folder)).with_length(int(names[0]), NEW)

    def with_length(self, length: int, part: str | None = None) -> Self:
        """The same task with inputs of another length, for evaluation. part: the name of its one part."""
        other = copy.copy(self)
        other.config = msgspec.structs.replace(self.config, length=length)
        other.generated = SyntheticExamples(other.config, self.recipe.seed)
        other.parts = self.parts if part is None else (part,)
        other._chances = {}
        return other

    def resolved_fields(self, spec: dict[str, Any]) -> dict[str, Any]:
        size = len(self.generated.words)
        if "start" in self.recipe.model and spec.get("vocabulary") != size:
            raise InputError(
                f"The model of model.start has a vocabulary of {spec.get('vocabulary')}, but this task has {size} tokens. "
                "Start from a run of the same task and data.symbols."
            )
        self.check_stated({"vocabulary": size, "outputs": size}, "the task has {} tokens")
        if spec.get("readout", "each") != "each":
            raise InputError(f'model.readout is "{spec["readout"]}", but the answers stand at single tokens. Set it to "each".')
        return spec | {"vocabulary": size, "outputs": size}

    def sizes(self, baseline: str) -> dict[str, Any]:
        return {"vocabulary": len(self.generated.words), "outputs": len(self.generated.words)}

    def longest(self) -> Iterator[tuple[Literal["model", "encoder"], Tensor]]:
        length = self.generated.examples("validation")[0].shape[1]
        yield "model", torch.arange(length)[:, None]

    def batch(self, step: int, share: int = 0, shares: int = 1) -> Batch:
        inputs, targets = self.generated.batch(step, self.recipe.budget.batch)
        terms, mine, answers = int((targets != IGNORED).sum()), inputs[share::shares], targets[share::shares]
        return Batch({"inputs": mine, "targets": answers}, terms, mine.numel(), len(mine), mine.shape[1])

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """Cross-entropy over the answer tokens."""
        outputs = model(batch.tensors["inputs"])
        targets = batch.tensors["targets"]
        return F.cross_entropy(outputs.flatten(0, -2).float(), targets.flatten(), reduction="sum", ignore_index=IGNORED)

    @torch.no_grad()
    def evaluate(self, model: Built, part: str = "validation", most: int | None = None) -> dict[str, float]:
        """accuracy: share of the answer tokens whose most probable token is correct; exact: share of the examples with all answer
        tokens correct, which greedy generation then writes; loss: nats per answer token; chance: accuracy of the best guess
        without the input.

        most  examples that are read, from the beginning of the part; by default all
        """
        inputs, targets = (t[:most] for t in self.generated.examples("test" if part == NEW else part))
        device, right, loss = next(model.parameters()).device, [], 0.0  # type: Any, list[Tensor], float
        for ids, answers in zip(*(t.split(max(1, AT_ONCE // inputs.shape[1])) for t in (inputs, targets)), strict=True):
            outputs, answers = model(ids.to(device)).float(), answers.to(device)
            right.append((outputs.argmax(-1) == answers).cpu())
            loss += float(F.cross_entropy(outputs.flatten(0, -2), answers.flatten(), reduction="sum", ignore_index=IGNORED))
        scored, correct = targets != IGNORED, torch.cat(right)
        if part not in self._chances:
            self._chances[part] = self.generated.chance("test" if part == NEW else part)
        return {
            "accuracy": float(correct[scored].float().mean()),
            "exact": float((correct | ~scored).all(1).float().mean()),
            "loss": loss / int(scored.sum()),
            "chance": self._chances[part],
        }

    @torch.no_grad()
    def predict(self, model: Built, inputs: Sequence[str], **options: Any) -> list[Prediction]:
        """The answer to each question, such as "3 1 4 1" to copy, "k3 v7 k1 v0 k3" to recall, or "5 7" to add.

        raises  InputError for an option, for a word that the task does not have, and for a question without an answer
        """
        if options:
            raise InputError(f"A synthetic task answers a question without options, but got {', '.join(options)}. Leave them out.")
        return [Prediction(text, self.tokenizer.decode(self._answer(model, text)), alone=True) for text in inputs]

    def model_inputs(self, model: Built, example: str) -> ModelInputs:
        ids, _ = self._question(example)
        return ModelInputs(
            (torch.tensor([ids], device=next(model.parameters()).device),),
            [TokenSequence(name="text", kind="words", labels=[self.generated.words[i] for i in ids])],
        )

    def _question(self, text: str) -> tuple[list[int], int]:
        """The ids of a question, and the number of tokens of its answer; 0 if each token has its own."""
        kind, known, words = self.config.generate, self.generated.words, text.split()
        if words and words[-1] in (SEPARATOR, EQUALS) and words[-1] in known:
            words = words[:-1]
        if wrong := [word for word in words if word not in known or word in (SEPARATOR, EQUALS)]:
            raise InputError(
                f"{wrong[0]!r} is not a symbol of this task, which has {known[0]} to {known[self.config.symbols - 1]}"
                f"{f' and v0 to {known[-1]}' if kind == 'recall' else ''}. Separate symbols by spaces."
            )
        ids = [known.index(word) for word in words]
        if kind == "addition" and len(ids) != 2:
            raise InputError(f'Addition is of two numbers, such as "1 2", but got {len(ids)}.')
        if kind in ("recall", "induction") and (not ids or ids[-1] not in ids[:-1]):
            raise InputError(
                f'The last symbol asks what followed it before, such as "{" ".join([*known[:2], known[0]])}", but the text '
                f'"{text}" does not contain it before. Repeat one.'
            )
        if kind == "back" and len(ids) <= self.config.distance:
            raise InputError(
                f"The answer is the token {self.config.distance} before, but got {counted(len(ids), 'token')}. Give more."
            )
        if not ids:
            raise InputError("There is no question. Give at least one symbol.")
        ends = [self.config.symbols] if known[-1] in (SEPARATOR, EQUALS) else []
        return ids + ends, {"back": 0, "parity": 0, "recall": 1, "induction": 1, "addition": 1}.get(kind, len(ids))

    def _answer(self, model: Built, text: str) -> list[int]:
        ids, steps = self._question(text)
        given = torch.tensor([ids], device=next(model.parameters()).device)
        assert not isinstance(model, SpaceModel)
        if steps:
            generated: list[int] = generate(model, given, steps)[0].tolist()
            return generated
        outputs: list[int] = model(given)[0].argmax(-1).tolist()
        return outputs[self.config.distance if self.config.generate == "back" else 0 :]

    @torch.no_grad()
    def samples(self, model: Built, step: int) -> list[Sample]:
        """Examples of the validation part: the input, its answers, and the model's most probable tokens in their place."""
        inputs, targets = (t[: self.recipe.evaluation.samples] for t in self.generated.examples("validation"))
        samples: list[Sample] = []
        for ids, answers in zip(inputs, targets, strict=True):
            scored = answers != IGNORED
            predicted = model(ids[None].to(next(model.parameters()).device))[0].argmax(-1).cpu()
            take_snapshot = isinstance(model, Model) and not samples and snapshot_due(self.recipe, step)
            snapshot = self._attention_snapshot(model, ids) if take_snapshot else {}
            samples.append(
                Sample(
                    step=step, prompt=self.tokenizer.decode(ids.tolist()), answer=self.tokenizer.decode(predicted[scored].tolist()),
                    target=self.tokenizer.decode(answers[scored].tolist()), **snapshot,
                )
            )  # fmt: skip
        return samples

    def _attention_snapshot(self, model: Built, ids: Tensor) -> dict[str, Any]:
        """The last tokens of an example, where the answers are, and the attention between them."""
        last = slice(-snapshot_length(model), None)
        attention = attention_of(model, ids[None].to(next(model.parameters()).device), rows=last, columns=last)
        return {"tokens": [self.generated.words[i] for i in ids[last].tolist()], "attention": attention}
