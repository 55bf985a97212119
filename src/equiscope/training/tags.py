"""Tags: each word of a text becomes one label, by the output at its first token."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from equiscope.data.labelled_texts import LabelledText, LabelledTexts
from equiscope.data.tagged_texts import TaggedTexts, Tags, read
from equiscope.data.texts import named_files
from equiscope.errors import InputError
from equiscope.models import Built
from equiscope.record import Sample, TokenSequence
from equiscope.tokens.labels import labels
from equiscope.tokens.tokenizer import Tokenizer
from equiscope.training import answers
from equiscope.training.answers import Answer, OneClass, WordLabels
from equiscope.training.attention_snapshot import snapshot_due
from equiscope.training.labelled_texts import TextsTask, excerpt, make_tokenizer, padded
from equiscope.training.measures import Outcomes
from equiscope.training.metadata_columns import MetadataColumns
from equiscope.training.recipe import Recipe
from equiscope.training.task import NEW, Batch, ModelInputs, Prediction
from equiscope.training.text import of_start

NEIGHBOURS = (-2, -1, 0, 1, 2)  # words whose features the simple model reads
ENDS = 3  # letters at the end of a word that are a feature
HASHED = 2**16  # features of the simple model


class TagsTask(TextsTask):
    """A model learns the label of each word.

    words  of each part, the index of the first token of each word of each text, -1 for a word that is not read
    """

    name: ClassVar[str] = "tags"
    answer: WordLabels

    def __init__(
        self, recipe: Recipe, tokenizer: Tokenizer, answer: Answer, texts: LabelledTexts | None = None,
        metadata: MetadataColumns | None = None,
    ) -> None:  # fmt: skip
        self.words: dict[str, list[list[int]]] = {}
        super().__init__(recipe, tokenizer, answer, texts, metadata)

    @classmethod
    def from_recipe(cls, recipe: Recipe, recipe_folder: Path | None = None) -> Self:
        """Read and check the recipe's texts."""
        assert isinstance(recipe.data, Tags)
        config, texts = recipe.data, TaggedTexts(recipe.data, recipe.seed, recipe_folder)
        train = texts.parts["train"]
        answer = answers.word_labels([row.text for row in train], [row.target for row in train])
        known = [word for row in train for word in row.text]
        tokenizer = of_start(recipe, config.tokens) or make_tokenizer(config, known, recipe_folder)
        return cls(recipe, tokenizer, answer, texts)

    @classmethod
    def for_evaluation(cls, recipe: Recipe, folder: Path, names: Sequence[str]) -> Self:
        assert isinstance(recipe.data, Tags)
        return cls(recipe, Tokenizer.read(folder), answers.read(folder), TaggedTexts.from_files(recipe.data, NEW, names))

    def _readout(self, spec: dict[str, Any]) -> str:
        if (readout := self.recipe.model.get("readout", "each")) != "each":
            raise InputError(f'model.readout {readout!r} gives one answer a text, but each word has a label. Use "each".')
        return "each"

    def _encode(self, part: str, rows: Sequence[LabelledText]) -> None:
        names = [f"{row.where}: {word}" for row in rows for word in row.text]
        self.encode(part, names, [label for row in rows for label in row.target])
        both = [self._tokens(row.text, row.where) for row in rows]
        self.ids[part], self.words[part] = [ids for ids, _ in both], [words for _, words in both]
        if unread := sum(at < 0 for words in self.words[part] for at in words):
            cut = (
                f"{unread} of {len(names)} words of the {part} part are not read: their texts have more than {self.config.length} "
            )
            self.notes = [*self.notes, f"{cut}tokens (data.length). They get the most frequent label."]

    def _tokens(self, words: Sequence[str], where: str) -> tuple[list[int], list[int]]:
        """The ids of a text, and the index of the first of each word; -1 for one that is not read."""
        ids, first = self.tokenizer.encode_words(words)
        if not ids:
            raise InputError(f"{where} has no token. Give at least one word.")
        most = self.config.length
        return ids[:most], [-1 if at is None or at >= most else at for at in first]

    def batch(self, step: int, share: int = 0, shares: int = 1) -> Batch:
        every = self.texts.sampler.similar(step, self.recipe.budget.batch, self.lengths)
        rows = every[share::shares]
        ids, valid = padded([self.ids["train"][i] for i in rows])
        of_text = self.targets["train"].split([len(words) for words in self.words["train"]])
        at = torch.tensor([i * ids.shape[1] + at for i, row in enumerate(rows) for at in self.words["train"][row] if at >= 0])
        read = [torch.tensor(self.words["train"][row]) >= 0 for row in rows]
        wanted = torch.cat([of_text[row][there] for row, there in zip(rows, read, strict=True)])
        terms = sum(at >= 0 for row in every for at in self.words["train"][row])
        tensors = {"inputs": ids, "valid": valid, "words": at, "targets": wanted}
        return Batch(tensors, terms, int(valid.sum()), len(rows), ids.shape[1])

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        t = batch.tensors
        outputs = model(t["inputs"], valid=t["valid"]).flatten(0, 1)[t["words"]]
        return self.answer.loss(outputs, t["targets"], self.config.smoothing)

    def evaluate(self, model: Built, part: str = "validation") -> dict[str, float]:
        """The metrics of `outcomes`, without those of each label."""
        each = {f"f1 {name}" for name in self.classes}
        return {name: value for name, value in self.outcomes(model, part).values.items() if name not in each}

    def outcomes(self, model: Built, part: str) -> Outcomes:
        rows = self.texts.parts[part]
        outputs = torch.cat(self._of_words(model, self.ids[part], self.words[part]))
        return self.answer.outcomes_of_texts([row.text for row in rows], list(map(excerpt, rows)), outputs, self.targets[part])

    @property
    def simple_answer(self) -> OneClass:
        return OneClass(classes=self.answer.classes, counts=self.answer.counts)

    def texts_of(self, part: str) -> Sequence[str]:
        """None: an example is a word here."""
        return ()

    def simple_groups(self, part: str) -> Sequence[str]:
        """The text of each word: a text is in one part."""
        return [str(i) for i, row in enumerate(self.texts.parts[part]) for _ in row.text]

    def simple_features(self, part: str) -> tuple[Any, Tensor] | None:
        """Hashed words, their ends and whether they begin with a capital: of each word, and of two on either side."""
        try:
            from sklearn.feature_extraction import FeatureHasher  # type: ignore[import-untyped]
        except ImportError:
            return None
        rows = [
            [
                f"{shift}{kind}{value}"
                for shift in NEIGHBOURS
                for kind, value in (_described(text[i + shift]) if 0 <= i + shift < len(text) else [("outside", "")])
            ]
            for text in (row.text for row in self.texts.parts[part])
            for i in range(len(text))
        ]
        return FeatureHasher(HASHED, input_type="string").transform(rows), self.targets[part]

    def simple_metrics(self, part: str) -> dict[str, dict[str, float]]:
        """The most frequent label of each word in the training part."""
        texts = [row.text for row in self.texts.parts[part]]
        found = self.answer.of_texts(texts, self.answer.most_frequent(texts), self.targets[part].numpy())
        return {"most frequent label": {one.name: one.point for one in found}}

    def predict(self, model: Built, inputs: Sequence[str], **options: Any) -> list[Prediction]:
        """The label of each word. options: none.

        inputs: texts, whose words are those between spaces; or files of words, as those that the run was trained on
        """
        self.top_of(options)
        rows = [row for text in inputs for row in self._read(text)]
        if not rows:
            return []
        both = [self._tokens(row.text, row.where) for row in rows]
        found = []
        for row, outputs in zip(rows, self._of_words(model, *zip(*both, strict=True)), strict=True):
            probabilities, best = outputs.softmax(-1).max(-1)
            named = [self.answer.classes[i] for i in best.tolist()]
            arrays = {"words": list(row.text), "labels": named, "probabilities": probabilities.tolist()}
            found.append(Prediction(excerpt(row), self.answer.joined(row.text, best.tolist()), alone=True, arrays=arrays))
        return found

    def model_inputs(self, model: Built, example: str) -> ModelInputs:
        ids, _ = self._tokens(example.split(), "The text")
        line = TokenSequence(name="text", kind="words", labels=labels(self.tokenizer.inner, ids))
        return ModelInputs((torch.tensor([ids], device=next(model.parameters()).device),), [line])

    def samples(self, model: Built, step: int) -> list[Sample]:
        """Answers for texts at regular intervals in the validation part."""
        rows, count = self.texts.parts["validation"], self.recipe.evaluation.samples
        of_text = self.targets["validation"].split([len(words) for words in self.words["validation"]])
        found: list[Sample] = []
        for i in [k * len(rows) // count for k in range(min(count, len(rows)))]:
            (outputs,) = self._of_words(model, [self.ids["validation"][i]], [self.words["validation"][i]])
            snapshot = {} if found or not snapshot_due(self.recipe, step) else self.snapshot(model, i)
            answer, target = (self.answer.joined(rows[i].text, x.tolist()) for x in (outputs.argmax(-1), of_text[i]))
            found.append(Sample(step=step, prompt=" ".join(rows[i].text)[:500], answer=answer, target=target, **snapshot))
        return found

    def _read(self, text: str) -> list[LabelledText]:
        """A text itself, or those of a file or folder of this name."""
        assert isinstance(self.config, Tags)
        if paths := named_files(text):
            return read(paths, self.config, labelled=False)
        if not text.split():
            raise InputError("The text has no word. Give at least one.")
        return [LabelledText(tuple(text.split()), None, f"The text {text[:40]!r}")]

    @torch.no_grad()
    def _of_words(self, model: Built, ids: Sequence[list[int]], words: Sequence[list[int]]) -> list[Tensor]:
        """The outputs of the words of each text [words, labels] on the CPU; of words that are not read, those without an input."""
        found = [torch.zeros(0)] * len(ids)
        for i, row in self._computed(model, ids, torch.zeros(len(ids), 0)):
            at = torch.tensor(words[i])
            found[i] = torch.where((at >= 0)[:, None], row[at.clamp(min=0)], self.answer.constant())
        return found


def _described(word: str) -> list[tuple[str, str]]:
    """Features of a word, by their kind."""
    return [("word", word.lower()), ("end", word[-ENDS:].lower()), ("capital", str(word[:1].isupper()))]
