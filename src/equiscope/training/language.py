"""Language: predict the next token at every position of a passage. Metrics: nats per token and bits per character."""

import copy
import math
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, ClassVar, Self

import msgspec
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from equiscope.data import Language, Passages
from equiscope.data.files import overlap_notes
from equiscope.data.language import IGNORED
from equiscope.data.token_stream import UnknownCharacter, encode_in_memory
from equiscope.errors import InputError, UnknownName
from equiscope.geometry import SpaceModel
from equiscope.models import Built, Model, Sampling, generate
from equiscope.models.guard import LONGEST, guard
from equiscope.record import Sample, TokenSequence
from equiscope.tokens.labels import labels, words
from equiscope.tokens.tokenizer import Tokenizer
from equiscope.training.attention_snapshot import attention_of, snapshot_due, snapshot_length
from equiscope.training.measures import Outcomes, exponential, mean, scaled
from equiscope.training.recipe import Recipe
from equiscope.training.task import NEW, Batch, ModelInputs, Prediction
from equiscope.training.text import TextTask, of_start

AT_ONCE, SCORES = 2**14, 2**25  # tokens that are evaluated together, and scores of the vocabulary for them
FIRST = 60  # tokens with which a passage is named
AHEAD = 32  # tokens that are written before the text is looked at for where it should stop


class LanguageTask(TextTask):
    """A decoder learns to continue texts."""

    name: ClassVar[str] = "language"
    stackable: ClassVar[bool] = True
    writes = True
    baselines: ClassVar[tuple[str, ...]] = ("lstm",)

    passages: Passages  # none in the task of a run without data

    def __init__(self, recipe: Recipe, tokenizer: Tokenizer, passages: Passages | None = None) -> None:
        super().__init__(recipe, tokenizer)
        assert isinstance(recipe.data, Language)
        self.config = recipe.data
        if passages is not None:
            self.passages, self.sources = passages, passages.sources
            self.notes = [*passages.notes, *overlap_notes(self.sources)]

    @classmethod
    def from_recipe(cls, recipe: Recipe, recipe_folder: Path | None = None) -> Self:
        """Read and check the recipe's data."""
        assert isinstance(recipe.data, Language)
        passages = Passages(recipe.data, recipe.seed, recipe_folder, of_start(recipe, recipe.data.tokens))
        return cls(recipe, passages.tokenizer, passages)

    @classmethod
    def for_evaluation(cls, recipe: Recipe, folder: Path, names: Sequence[str]) -> Self:
        task = cls.from_run(recipe, folder)
        return cls(recipe, task.tokenizer, Passages.from_files(task.config, task.tokenizer, NEW, names))

    def resolved_fields(self, spec: dict[str, Any]) -> dict[str, Any]:
        size = self.tokenizer.size
        if "start" in self.recipe.model:
            if spec.get("vocabulary") is None or spec.get("encoder") is not None:
                what = "reads a source" if spec.get("encoder") is not None else "has no vocabulary"
                raise InputError(f"The model of model.start {what}, so it continues no texts. Choose a language model.")
            self.check_vocabulary(spec["vocabulary"])
            return spec
        self.check_stated({"vocabulary": size, "outputs": size}, "the texts have {} tokens")
        return spec | {"vocabulary": size, "outputs": size}

    def sizes(self, baseline: str) -> dict[str, Any]:
        return {"vocabulary": self.tokenizer.size, "outputs": self.tokenizer.size}

    def separator(self, model_separator: Sequence[int] | None) -> tuple[int, ...]:
        return tuple(model_separator) if model_separator and self.config.separator is None else self.passages.separator()

    def with_context(self, context: int) -> "LanguageTask":
        """The same data in passages of another length, for evaluation."""
        other, passages = copy.copy(self), copy.copy(self.passages)
        other.config = passages.config = msgspec.structs.replace(self.config, context=context)
        other.passages = passages
        return other

    def batch(self, step: int, share: int = 0, shares: int = 1) -> Batch:
        size, span = self.recipe.budget.batch, self.config.context
        inputs, targets = (ids[share::shares] for ids in self.passages.batch(step, size))
        return Batch({"inputs": inputs, "targets": targets}, size * span, inputs.numel(), len(inputs), span)

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """Cross-entropy at every position: under the causal mask, one pass trains on every prefix of a passage."""
        answers = model(batch.tensors["inputs"])
        return F.cross_entropy(answers.flatten(0, -2).float(), batch.tensors["targets"].flatten(), reduction="sum")

    @property
    def parts(self) -> Sequence[str]:
        return tuple(self.passages.ids)

    @torch.no_grad()
    def evaluate(self, model: Built, part: str = "validation", most: int | None = None) -> dict[str, float]:
        """loss: nats per token over all passages of the part; bits: per character, left out if the ids do not encode all of the
        text: an unknown token, or a text without its capitals, is far easier to predict than what it replaces.

        Each passage is read from its own beginning, or with the end of the previous one as context (data.overlap).
        most    passages that are read, from the beginning of the part; by default all
        raises  GuardFailed for a model that reads later tokens, if the recipe's `evaluation.guard` is on
        """
        if self.recipe.evaluation.guard and self.config.context > 1:
            guard(model, self.tokenizer.size, longest=min(self.config.context, LONGEST))
        device, span = next(model.parameters()).device, self.config.context
        total, count, hidden = 0.0, 0, not self.passages.whole
        at_once, left = max(1, min(AT_ONCE, SCORES // self.tokenizer.size) // span), math.inf if most is None else most
        for inputs, targets in self.passages.passages(part, at_once if most is None else min(at_once, most)):
            if left <= 0:
                break
            left -= len(inputs)
            answers = model(inputs.to(device)).flatten(0, -2).float()
            total += float(F.cross_entropy(answers, targets.flatten().to(device), reduction="sum", ignore_index=IGNORED))
            count += int((targets != IGNORED).sum())
            hidden = hidden or (self.passages.unknown is not None and bool((targets == self.passages.unknown).any()))
        loss = total / count
        first_token = self.tokenizer.decode(self.passages.ids[part][:1].tolist())  # the first token is never asked for
        characters = max(self.passages.characters[part] - len(first_token), 1)
        tokens = count if most is None else len(self.passages.ids[part]) - 1  # for each character, over the whole part
        bits = loss * (tokens / characters) / math.log(2)
        return {"loss": loss, "perplexity": math.exp(min(loss, 700.0))} | ({} if hidden else {"bits per character": bits})

    @torch.no_grad()
    def outcomes(self, model: Built, part: str) -> Outcomes:
        """An example is a passage; its error is the loss of its tokens."""
        values, device = self.evaluate(model, part), next(model.parameters()).device
        lost, counts, first = [], [], []  # type: list[Tensor], list[Tensor], list[list[int]]
        for inputs, targets in self.passages.passages(
            part, max(1, min(AT_ONCE, SCORES // self.tokenizer.size) // self.config.context)
        ):
            outputs = model(inputs.to(device)).float().cpu()
            each = F.cross_entropy(outputs.flatten(0, -2), targets.flatten(), reduction="none", ignore_index=IGNORED)
            lost.append(each.view(targets.shape).double().sum(-1))
            counts.append((targets != IGNORED).sum(-1))
            first += inputs[:, :FIRST].tolist()
        total, count = torch.cat(lost).numpy(), torch.cat(counts).numpy()
        loss = mean("loss", total, count, "nats")
        found = [loss, exponential("perplexity", loss)]
        if "bits per character" in values:
            found.append(scaled("bits per character", loss, values["bits per character"] / values["loss"]))
        each_loss = total / count.clip(1)
        return Outcomes(
            [f"passage {i + 1}: {' '.join(self.tokenizer.decode(ids).split())}" for i, ids in enumerate(first)],
            [f"{one:.4g} nats a token" for one in each_loss], [""] * len(total), each_loss, found, {"passages": float(len(total))},
        )  # fmt: skip

    def visible_inputs(self, part: str, rows: Sequence[int]) -> list[dict[str, str]]:
        wanted, texts, first = set(rows), dict[int, str](), 0
        for inputs, _ in self.passages.passages(part, AT_ONCE // self.config.context + 1):
            texts |= {row: self.tokenizer.decode(inputs[row - first].tolist()) for row in wanted if 0 <= row - first < len(inputs)}
            first += len(inputs)
        return [{"text": texts[row]} for row in rows]

    def predict(self, model: Built, inputs: Sequence[str], **options: Any) -> list[Prediction]:
        """Continue each text.

        options  steps: new tokens at most, 200 by default; stop: a text (or several) before which the output ends; seed; and those
                 of `Sampling`, temperature 0.8 by default
        raises   InputError for another option, and for a text that is empty or has characters without an id
        """
        steps, seed, stop = options.pop("steps", 200), options.pop("seed", 0), options.pop("stop", ())
        stops = [stop] if isinstance(stop, str) else list(stop)
        sampling_options = [f.name for f in fields(Sampling)]
        if unknown := [name for name in options if name not in sampling_options]:
            raise UnknownName("option of the task language", unknown[0], ["steps", "stop", "seed", *sampling_options])
        if steps < 1 or "" in stops:
            raise InputError(f"steps is 1 or more and stop a text of a character or more, but got steps={steps}, stop={stop!r}.")
        sampling = Sampling(**{"temperature": 0.8, **options})
        prompts = []
        for number, text in enumerate(inputs, 1):  # before any answer is made
            try:
                prompts.append(self._ids(text))
            except InputError as error:
                raise error if len(inputs) == 1 else InputError(f"Text {number} of {len(inputs)}: {error}") from error
        continuations = (self._continued(model, ids, steps, sampling, seed, stops) for ids in prompts)
        return [Prediction(text, answer) for text, answer in zip(inputs, continuations, strict=True)]

    def model_inputs(self, model: Built, example: str) -> ModelInputs:
        ids = self._ids(example)
        inner, row = self.tokenizer.inner, torch.tensor([ids], device=next(model.parameters()).device)
        token_labels = labels(inner, ids)
        line = TokenSequence(name="text", kind="words", labels=token_labels, words=words(inner, ids, token_labels))
        return ModelInputs((row,), [line])

    def _ids(self, text: str) -> list[int]:
        try:
            ids: list[int] = encode_in_memory(self.tokenizer, [text], self.config.separator).ids.tolist()
        except UnknownCharacter as error:
            raise InputError(f"{error} This model knows the characters of its texts only; leave {error.sign!r} out.") from error
        if not ids:
            raise InputError("There is no text to continue. Give at least one character.")
        return ids

    def _continued(self, model: Built, ids: list[int], steps: int, sampling: Sampling, seed: int, stops: Sequence[str] = ()) -> str:
        """No context is longer than in training: when it is full, its later half starts the next one."""
        assert not isinstance(model, SpaceModel)
        span, device, new = self.config.context, next(model.parameters()).device, []  # type: int, Any, list[int]
        while len(new) < steps:
            context = [*ids, *new]
            if len(context) >= span:
                context = context[-max(1, span // 2) :]
            room = min(steps - len(new), span - len(context) + 1, AHEAD if stops else steps)  # the last one is not read
            output = generate(model, torch.tensor([context], device=device), room, sampling, seed=seed + len(new))
            new += output[0].tolist()
            text = self.tokenizer.decode(new)
            if stop_positions := [position for stop in stops if (position := text.find(stop)) >= 0]:
                return text[: min(stop_positions)]
        return self.tokenizer.decode(new)

    def samples(self, model: Built, step: int) -> list[Sample]:
        line = self.passages.ids["validation"]
        span = self.config.context
        samples: list[Sample] = []
        passages = -(-len(line) // span)  # a short part has fewer than are asked for
        for i in range(min(self.recipe.evaluation.samples, passages)):
            prompt = self.tokenizer.decode([int(t) for t in line[i * span : i * span + span // 2]])
            if not prompt:  # of part of a character, or of tokens without a text
                continue
            answer = self.predict(model, [prompt], steps=span - span // 2)[0]
            take_snapshot = isinstance(model, Model) and not samples and snapshot_due(self.recipe, step)
            snapshot = self._attention_snapshot(model, line[i * span :][: snapshot_length(model)]) if take_snapshot else {}
            samples.append(Sample(step=step, prompt=prompt, answer=answer.answer, **snapshot))
        return samples

    def _attention_snapshot(self, model: Built, line: Any) -> dict[str, Any]:
        """The tokens of an excerpt and the attention of each token to earlier tokens."""
        ids = [int(t) for t in line][: self.config.context]
        attention = attention_of(model, torch.tensor([ids], device=next(model.parameters()).device))
        return {"tokens": [self.tokenizer.decode([t]) for t in ids], "attention": attention}
