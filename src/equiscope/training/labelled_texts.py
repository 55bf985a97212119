"""Labelled texts: a text becomes one class, several labels, or numbers, by a read-out over its tokens."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import torch
from torch import Tensor, nn

from equiscope.data.files import find_files, overlap_notes
from equiscope.data.labelled_texts import LabelledText, LabelledTexts, Texts, read
from equiscope.data.tagged_texts import Tags
from equiscope.data.targets import target_kind
from equiscope.data.texts import named_files
from equiscope.errors import InputError
from equiscope.models import Built, Model
from equiscope.record import TokenSequence
from equiscope.tokens.labels import labels, words
from equiscope.tokens.tokenizer import Tokenizer, by_bytes, by_characters, by_pieces
from equiscope.training import answers
from equiscope.training.answer_task import AnswerTask
from equiscope.training.answers import Answer
from equiscope.training.attention_snapshot import attention_of, snapshot_length
from equiscope.training.measures import Outcomes
from equiscope.training.metadata_columns import MetadataColumns
from equiscope.training.recipe import Recipe
from equiscope.training.task import NEW, Batch, ModelInputs, Prediction, batches
from equiscope.training.text import TextTask, of_start

AT_ONCE, PAIRS = 64, 2**22  # texts that are answered together, and pairs of their tokens
UNKNOWN = "<unknown>"
HASHED = 2**20  # features of each kind of the simple model
BEGINNING = 500  # characters of a text whose pieces it counts
SHOWN = 1000  # characters of a text that is shown, at most


class TextsTask(AnswerTask, TextTask):
    """A model learns the class, the labels or the numbers of texts."""

    name: ClassVar[str] = "texts"
    better: Literal["less", "more"] = "more"
    start_fields: ClassVar[tuple[str, ...]] = ("readout", "output")

    texts: LabelledTexts  # none in the task of a run without data

    def __init__(
        self, recipe: Recipe, tokenizer: Tokenizer, answer: Answer, texts: LabelledTexts | None = None,
        metadata: MetadataColumns | None = None,
    ) -> None:  # fmt: skip
        super().__init__(recipe, tokenizer)
        assert isinstance(recipe.data, Texts | Tags)
        self.config = recipe.data
        self.set_answer(answer, metadata)
        self.ids: dict[str, list[list[int]]] = {}
        if texts is not None:
            self.texts, self.sources = texts, texts.sources
            self.notes = [*texts.notes, *overlap_notes(self.sources)]
            for part, rows in texts.parts.items():
                self._encode(part, rows)

    @classmethod
    def from_recipe(cls, recipe: Recipe, recipe_folder: Path | None = None) -> Self:
        """Read and check the recipe's texts."""
        assert isinstance(recipe.data, Texts)
        config, texts = recipe.data, LabelledTexts(recipe.data, recipe.seed, recipe_folder)
        train = texts.parts["train"]
        answer = answers.of_targets(target_kind(config), [row.target for row in train], config.numbers)
        tokenizer = of_start(recipe, config.tokens) or make_tokenizer(config, [row.text for row in train], recipe_folder)
        return cls(recipe, tokenizer, answer, texts, MetadataColumns.of(config.metadata, [row.others.metadata for row in train]))

    @classmethod
    def from_run(cls, recipe: Recipe, folder: Path) -> Self:
        metadata = MetadataColumns.read(folder, getattr(recipe.data, "metadata", ()))
        return cls(recipe, Tokenizer.read(folder), answers.read(folder), metadata=metadata)

    @classmethod
    def for_evaluation(cls, recipe: Recipe, folder: Path, names: Sequence[str]) -> Self:
        assert isinstance(recipe.data, Texts)
        metadata = MetadataColumns.read(folder, recipe.data.metadata)
        texts = LabelledTexts.from_files(recipe.data, NEW, names)
        return cls(recipe, Tokenizer.read(folder), answers.read(folder), texts, metadata)

    def save(self, folder: Path) -> None:
        super().save(folder)
        answers.save(self.answer, folder)
        self.metadata.save(folder)

    def resolved_fields(self, spec: dict[str, Any]) -> dict[str, Any]:
        size, outputs = self.tokenizer.size, self.answer.outputs
        start = "start" in self.recipe.model
        spec = self.with_columns(spec)
        if spec.get("encoder") is not None or (start and spec.get("vocabulary") is None):
            raise InputError(
                "Texts take a model with a vocabulary and no encoder. Leave model.encoder out, or choose another start."
            )
        if start:
            self.check_vocabulary(spec["vocabulary"])
        self.check_stated({"vocabulary": size, "outputs": outputs}, "the data needs {}")
        readout = self._readout(spec)
        head = self.recipe.model.get("output", {})
        if start and "output" not in self.recipe.model and spec.get("outputs") == outputs:  # a run of the same answer goes on
            return spec | {"readout": readout}
        return spec | {
            "vocabulary": spec["vocabulary"] if start else size, "outputs": outputs, "readout": readout, "tied": False,
            "output": {"bias": True} | head,
        }  # fmt: skip

    def _readout(self, spec: dict[str, Any]) -> str:
        """The read-out of the recipe, or the usual one. Raises InputError for one that gives no answer a text."""
        readout = self.recipe.model.get("readout") or ("mean" if spec.get("readout", "each") == "each" else spec["readout"])
        self.check_readout(readout, "text")
        return str(readout)

    def longest(self) -> Iterator[tuple[Literal["model", "encoder"], Tensor]]:
        yield "model", torch.arange(max(len(ids) for part in self.ids.values() for ids in part))[:, None]

    def batch(self, step: int, share: int = 0, shares: int = 1) -> Batch:
        size = self.recipe.budget.batch
        rows = self.texts.sampler.similar(step, size, self.lengths)[share::shares]
        ids, valid = padded([self.ids["train"][i] for i in rows])
        tensors = {"inputs": ids, "valid": valid, "targets": self.targets["train"][rows]} | self.column_inputs(
            self.columns["train"][rows]
        )
        return Batch(tensors, size, int(valid.sum()), len(rows), ids.shape[1])

    @cached_property
    def lengths(self) -> list[int]:
        """How many tokens each training text has."""
        return [len(ids) for ids in self.ids["train"]]

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        t = batch.tensors
        outputs = model(t["inputs"], valid=t["valid"], **({"columns": t["columns"]} if "columns" in t else {}))
        return self.answer.loss(outputs, t["targets"], self.config.smoothing)

    def outcomes(self, model: Built, part: str) -> Outcomes:
        rows = self.texts.parts[part]
        return self.answer.outcomes(
            [excerpt(row) for row in rows], self._outputs(model, self.ids[part], self.columns[part]), self.targets[part], "texts"
        )

    def visible_inputs(self, part: str, rows: Sequence[int]) -> list[dict[str, str]]:
        return [{"text": excerpt(self.texts.parts[part][row], SHOWN)} for row in rows]

    def simple_features(self, part: str) -> tuple[Any, Tensor] | None:
        """Counts, hashed: of words and of pairs of words; of two to four characters within words, at the beginning of a text; and
        the values of further columns.
        """
        try:
            from sklearn.feature_extraction.text import HashingVectorizer  # type: ignore[import-untyped]
        except ImportError:
            return None
        texts = [row.text for row in self.texts.parts[part]]
        counts = [
            HashingVectorizer(
                analyzer=kind, ngram_range=size, n_features=HASHED, norm=None, alternate_sign=False
            ).transform(some)
            for kind, size, some in (("word", (1, 2), texts), ("char_wb", (2, 4), [text[:BEGINNING] for text in texts]))
        ]  # fmt: skip
        if self.metadata.columns:
            from scipy.sparse import csr_matrix  # type: ignore[import-untyped]

            counts.append(csr_matrix(self.metadata.one_hot(self.columns[part]).numpy()))
        return counts, self.targets[part]

    def simple_groups(self, part: str) -> Sequence[str]:
        return [row.others.group for row in self.texts.parts[part]]

    def predict(self, model: Built, inputs: Sequence[str], **options: Any) -> list[Prediction]:
        """The answer for each text. options: top, how many classes with their probabilities; 3 by default.

        inputs: texts; or files and folders of texts, as those that the run was trained on, without targets
        """
        top = self.top_of(options)
        rows = [row for text in inputs for row in self._read(text)]
        if not rows:
            return []
        ids = [self._ids(row.text, row.where) for row in rows]
        outputs = self._outputs(model, ids, self.metadata.tokens([row.others.metadata for row in rows]))
        numbers = None if self.domain is None else self.text_numbers([row.text for row in rows], self.domain.training_ids)
        return self.predictions([excerpt(row) for row in rows], outputs, top, numbers)

    def texts_of(self, part: str) -> Sequence[str]:
        return [row.text for row in self.texts.parts[part]]

    def model_inputs(self, model: Built, example: str) -> ModelInputs:
        ids = self._ids(example, "The text")
        named = labels(self.tokenizer.inner, ids)
        line = TokenSequence(name="text", kind="words", labels=named, words=words(self.tokenizer.inner, ids, named))
        if self.metadata.columns:  # of which a text alone says nothing
            line = TokenSequence(name="text", kind="words", labels=[*self.front_names(model), *named])
        return ModelInputs((torch.tensor([ids], device=next(model.parameters()).device),), [line])

    def sample(self, model: Built, i: int) -> tuple[str, Tensor]:
        outputs = self._outputs(model, [self.ids["validation"][i]], self.columns["validation"][[i]])
        return self.texts.parts["validation"][i].text[:500], outputs[0]

    def snapshot(self, model: Built, i: int) -> dict[str, Any]:
        """The attention between the first tokens of a text; none where other tokens stand in front of them."""
        if not isinstance(model, Model) or model.spec.prefix_tokens:
            return {}
        few = self.ids["validation"][i][: snapshot_length(model)]
        attention = attention_of(model, torch.tensor([few], device=next(model.parameters()).device))
        return {} if attention is None else {"tokens": labels(self.tokenizer.inner, few), "attention": attention}

    def _encode(self, part: str, rows: Sequence[LabelledText]) -> None:
        self.encode(part, [row.where for row in rows], [row.target for row in rows], [row.others for row in rows])
        self.ids[part] = [self._ids(row.text, row.where) for row in rows]
        whole = sum(len(ids) == self.config.length for ids in self.ids[part])
        if whole:
            cut = (
                f"{whole:,} of {len(rows):,} texts of the {part} part have {self.config.length} tokens or more (data.length): "
                "what follows is not read."
            )
            self.notes = [*self.notes, cut]

    def _ids(self, text: str, where: str) -> list[int]:
        """The ids of a text, cut to the length; special tokens at the end, as of BERT, stay."""
        ids, most = self.tokenizer.encode(text), self.config.length
        if not ids:
            raise InputError(f"{where} has no token. Give at least one character.")
        after = self.tokenizer.inner.num_special_tokens_to_add(False) > 1
        return ids if len(ids) <= most else ids[: most - 1] + ids[-1:] if after else ids[:most]

    def _read(self, text: str) -> list[LabelledText]:
        """A text itself, or those of a file or folder of this name."""
        assert isinstance(self.config, Texts)
        if paths := named_files(text):
            return read(paths, self.config, labelled=False)
        return [LabelledText(text, None, f"The text {text[:40]!r}")]

    @torch.no_grad()
    def _outputs(self, model: Built, ids: Sequence[list[int]], columns: Tensor) -> Tensor:
        """The outputs of texts [N, outputs] on the CPU, computed in batches of similar length. columns: tokens [N, columns]."""
        rows = dict(self._computed(model, ids, columns))
        return torch.stack([rows[i] for i in range(len(ids))])

    def _computed(self, model: Built, ids: Sequence[list[int]], columns: Tensor) -> Iterator[tuple[int, Tensor]]:
        """The number of each text and its outputs, those of similar length together."""
        device, order = next(model.parameters()).device, sorted(range(len(ids)), key=lambda i: len(ids[i]))
        for some in batches([len(ids[i]) for i in order], AT_ONCE, PAIRS):
            inputs, valid = padded([ids[i] for i in order[some]])
            outputs = model(inputs.to(device), valid=valid.to(device), **self.column_inputs(columns[order[some]].to(device)))
            yield from zip(order[some], outputs.float().cpu(), strict=True)


def excerpt(row: LabelledText, most: int = 80) -> str:
    """A text for a line: its beginning."""
    text = " ".join(row.text.split() if isinstance(row.text, str) else row.text)
    return text if len(text) <= most else f"{text[:most]}…"


def padded(rows: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """Ids [B, N], with 0 on the right, and which are no padding."""
    counts = torch.tensor([len(row) for row in rows])
    ids = torch.zeros(len(rows), int(counts.max()), dtype=torch.long)
    for into, row in zip(ids, rows, strict=True):
        into[: len(row)] = torch.tensor(row)
    return ids, torch.arange(ids.shape[1]) < counts[:, None]


def make_tokenizer(config: Texts | Tags, train: Sequence[str], recipe_folder: Path | None = None) -> Tokenizer:
    """The tokenizer of a recipe, trained on the training part alone."""
    if config.tokens == "bytes":
        return by_bytes()
    if config.tokens == "characters":
        return by_characters(train, unknown=UNKNOWN)
    if config.tokens == "pieces":
        return by_pieces(train, config.vocabulary)
    return Tokenizer.read(find_files(config.tokens, recipe_folder)[0])
