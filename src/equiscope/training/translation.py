"""Translation: an encoder reads a text, a decoder generates its translation token by token.

Metrics: nats per token during training, and BLEU: of greedy decoding during training, of beam search at the end.
"""

import json
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from equiscope.data.files import overlap_notes
from equiscope.data.translation import END, PADDING, START, EncodedPair, Pairs, SentencePair, Translation, encoded, padded, special
from equiscope.errors import InputError, UnknownName
from equiscope.models import Beams, Built, CPUDecoder, Model, ModelSpec, describe, generate
from equiscope.record import Sample, TokenSequence
from equiscope.tokens.labels import labels, words
from equiscope.tokens.tokenizer import Tokenizer
from equiscope.training import bleu
from equiscope.training.attention_snapshot import attention_of, snapshot_due, snapshot_length
from equiscope.training.measures import Outcomes, edits, mean, rate
from equiscope.training.recipe import Recipe
from equiscope.training.task import NEW, Batch, ModelInputs, Prediction, warned
from equiscope.training.text import TextTask, of_start

AT_ONCE = 64  # texts that are evaluated or translated together
FOLLOWED = 1024  # validation pairs whose greedy BLEU is followed while a model learns
BEAMS = 5


class TranslationTask(TextTask):
    """An encoder-decoder learns to translate.

    signatures  how each metric of the last `final` was computed
    """

    name: ClassVar[str] = "translation"
    writes = True
    better: Literal["less", "more"] = "more"

    pairs: Pairs  # none in the task of a run without data

    def __init__(self, recipe: Recipe, tokenizer: Tokenizer, pairs: Pairs | None = None) -> None:
        super().__init__(recipe, tokenizer)
        assert isinstance(recipe.data, Translation)
        self.data: Translation = recipe.data
        self.end, self.start, self.padding = (special(tokenizer, names) for names in (END, START, PADDING))
        if pairs is not None:
            self.pairs, self.sources = pairs, pairs.sources
            self.notes = [*pairs.notes, *overlap_notes(self.sources)]
        self.signatures: dict[str, str] = {}
        self._cost: np.ndarray | None = None

    @classmethod
    def from_recipe(cls, recipe: Recipe, recipe_folder: Path | None = None) -> Self:
        """Read and check the recipe's data."""
        assert isinstance(recipe.data, Translation)
        pairs = Pairs(recipe.data, recipe.seed, recipe_folder, of_start(recipe, recipe.data.tokens))
        return cls(recipe, pairs.tokenizer, pairs)

    @classmethod
    def for_evaluation(cls, recipe: Recipe, folder: Path, names: Sequence[str]) -> Self:
        task = cls.from_run(recipe, folder)
        return cls(recipe, task.tokenizer, Pairs.from_files(task.data, task.tokenizer, NEW, names))

    def resolved_fields(self, spec: dict[str, Any]) -> dict[str, Any]:
        size, encoder = self.tokenizer.size, spec.get("encoder")
        if not isinstance(encoder, dict):
            raise InputError("Translation needs a model with an encoder. Set model.encoder, or model.preset = 'transformer-base'.")
        if self.data.rdrop and not any(part.get(name) for part in (spec, encoder) for name in ("dropout", "drop_path")):
            raise InputError(
                "data.rdrop compares two forward passes with different dropout, but this model has no dropout. "
                "Set model.dropout, e.g. 0.3; or leave data.rdrop out."
            )
        if "start" in self.recipe.model:
            self.check_vocabulary(min(spec["vocabulary"], encoder["vocabulary"]))
            return spec
        self.check_stated({"vocabulary": size, "outputs": size, "encoder.vocabulary": size}, "the texts have {} tokens")
        return spec | {"vocabulary": size, "outputs": size, "encoder": encoder | {"vocabulary": size}}

    def longest(self) -> Iterator[tuple[Literal["model", "encoder"], Tensor]]:
        """Over all parts; for evaluated parts, the longest translation that is allowed."""
        source_lengths = {part: int(source.lengths.max()) for part, (source, _) in self.pairs.ids.items()}
        target_length = max(int(target.lengths.max()) for _, target in self.pairs.ids.values())
        dtype = torch.get_default_dtype()
        yield "encoder", torch.arange(max(source_lengths.values()), dtype=dtype)[:, None]
        yield (
            "model",
            torch.arange(max(target_length, *(most(n) for part, n in source_lengths.items() if part != "train")), dtype=dtype)[
                :, None
            ],
        )

    def batch(self, step: int, share: int = 0, shares: int = 1) -> Batch:
        whole = self.pairs.batch(step, self.recipe.budget.batch)
        return self.batched(whole[share::shares], sum(len(row.target) for row in whole), whole[0])

    def batched(self, rows: Sequence[EncodedPair], terms: int, instead: EncodedPair) -> Batch:
        """A padded batch of pairs. Without pairs, one pair without targets, so that every process has a forward pass."""
        chosen = rows or [instead]
        source = padded([row.source for row in chosen], self.padding)
        inputs = padded([[self.start, *row.target[:-1].tolist()] for row in chosen], self.padding)
        targets = padded([row.target for row in chosen], self.padding)
        if not rows:
            targets = torch.full_like(targets, self.padding)
        tokens = sum(len(row.source) + len(row.target) for row in rows)
        tensors = {"source": source, "inputs": inputs, "targets": targets}
        return Batch(tensors, terms, tokens, len(chosen), inputs.shape[1], source.shape[1])

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """Cross-entropy with label smoothing. Padding is on the right, behind the causal mask, and has no target.

        With `data.rdrop`, the R-Drop loss of two forward passes.
        """
        if not self.data.rdrop:
            return self._lost(self._answers(model, batch), batch, self.data.smoothing)
        answers = self._answers(model, batch.repeat(2))
        targets = batch.tensors["targets"].flatten()
        return rdrop_loss(answers.unflatten(0, (2, -1)), targets, self.padding, self.data.smoothing, self.data.rdrop)

    def _answers(self, model: nn.Module, batch: Batch) -> Tensor:
        source = batch.tensors["source"]
        answers: Tensor = model(batch.tensors["inputs"], source=source, source_valid=source != self.padding)
        return answers.flatten(0, -2)

    def _lost(self, answers: Tensor, batch: Batch, smoothing: float) -> Tensor:
        targets = batch.tensors["targets"].flatten()
        wide = torch.promote_types(answers.dtype, torch.float32)
        return F.cross_entropy(answers.to(wide), targets, ignore_index=self.padding, reduction="sum", label_smoothing=smoothing)

    @property
    def parts(self) -> Sequence[str]:
        return tuple(self.pairs.ids)

    def evaluate(self, model: Built, part: str = "validation") -> dict[str, float]:
        """greedy bleu: cased, 13a, of the part's first 1024 pairs; loss: nats per token, without label smoothing."""
        pairs = self.pairs.texts[part][:FOLLOWED]
        translations = self.translated(model, [pair.source for pair in pairs], beams=1)
        score = bleu.greedy(translations, [pair.target for pair in pairs], self.language)
        return {"greedy bleu": score, **self.lost(model, part)}

    def final(self, model: Built, part: str = "validation") -> dict[str, float]:
        """BLEU of the whole part with 5 beams, in three ways if the recipe names languages (see `signatures`); exact match and edit
        distance; and the loss.

        Writes the translations and signatures into the run's folder, if there is one.
        """
        return self._measured(model, part)[0]

    def outcomes(self, model: Built, part: str) -> Outcomes:
        """Of each source once: its answer, right if it is one of the targets of this source, and the edits to the nearest one."""
        values, found = self._measured(model, part)
        first = {one.name for one in found.measures}
        return replace(found, extra={name: value for name, value in values.items() if name not in first})

    def _measured(self, model: Built, part: str) -> tuple[dict[str, float], Outcomes]:
        pairs = self.pairs.texts[part]
        translations = self.translated(model, [pair.source for pair in pairs])
        scores = bleu.scores(translations, [pair.target for pair in pairs], self.language, self.data.lower)
        searched = f"{BEAMS} beams, length penalty {self.data.length_penalty:g}"
        found, unit = pair_outcomes(pairs, translations, self.data.lower)
        how = {
            "exact match": "share of the sources whose answer is one of their targets",
            "edit distance": f"insertions, deletions and substitutions for each {unit} of the nearest target",
        }
        self.signatures = {name: f"{way}; {searched}" for name, way in (scores.signatures | how).items()}
        values = scores.values | {one.name: one.point for one in found.measures} | self.lost(model, part)
        if self.folder is not None:
            (self.folder / f"{part}.txt").write_text("".join(f"{text}\n" for text in translations), encoding="utf-8")
            report = {"values": values, "signatures": self.signatures, "words": scores.words}
            (self.folder / f"{part}.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
        return values, found

    def simple_metrics(self, part: str) -> dict[str, dict[str, float]]:
        """Of answers that are the target of the most similar training source, by its one to three characters."""
        try:
            from sklearn.feature_extraction.text import HashingVectorizer  # type: ignore[import-untyped]
        except ImportError:
            return {}
        if "train" not in self.pairs.texts:
            return {}
        train, pairs = self.pairs.texts["train"], self.pairs.texts[part]
        vector = HashingVectorizer(analyzer="char", ngram_range=(1, 3), n_features=2**16)
        known, wanted = vector.transform([pair.source for pair in train]).T, list(dict.fromkeys(pair.source for pair in pairs))
        answer_of: dict[str, str] = {}
        for some in (wanted[first : first + AT_ONCE] for first in range(0, len(wanted), AT_ONCE)):
            near = np.asarray((vector.transform(some) @ known).argmax(axis=1)).ravel()
            answer_of |= {source: train[i].target for source, i in zip(some, near.tolist(), strict=True)}
        found, _ = pair_outcomes(pairs, [answer_of[pair.source] for pair in pairs], self.data.lower)
        return {"most similar source": found.values}

    @property
    def language(self) -> str | None:
        """Of the targets, if they are of one."""
        return None if self.data.languages is None else self.data.languages[1]

    @torch.no_grad()
    def lost(self, model: Built, part: str) -> dict[str, float]:
        """Loss, perplexity and the accuracy of the next token, with the correct previous tokens."""
        device = next(model.parameters()).device
        source, target = self.pairs.ids[part]
        total = right = count = 0.0
        for some in self.pairs.ordered(part, AT_ONCE):
            rows = [EncodedPair(i, source[i], target[i]) for i in some.tolist()]
            batch = self.batched(rows, 1, rows[0]).to(device)
            answers, targets = self._answers(model, batch), batch.tensors["targets"].flatten()
            total += float(self._lost(answers, batch, 0.0))
            counted = targets != self.padding
            right += float((answers.argmax(-1) == targets)[counted].sum())
            count += float(counted.sum())
        loss = total / count
        return {"loss": loss, "perplexity": math.exp(min(loss, 700.0)), "accuracy": right / count}

    def predict(self, model: Built, inputs: Sequence[str], **options: Any) -> list[Prediction]:
        """The translation of each line. options: beams (5 by default; 1 is greedy)."""
        beams = options.pop("beams", BEAMS)
        if options:
            raise UnknownName("option of the task translation", next(iter(options)), ["beams"])
        translations = self.translated(model, inputs, beams)
        found = [Prediction(text, translation, alone=True) for text, translation in zip(inputs, translations, strict=True)]
        if self.domain is None or not found:
            return found
        return warned(self.domain, found, self.text_numbers(list(map(self._plain, inputs)), self.domain.training_ids))

    def texts_of(self, part: str) -> Sequence[str]:
        """Of each source once, as `outcomes`."""
        return [self._plain(source) for source in dict.fromkeys(pair.source for pair in self.pairs.texts[part])]

    def _plain(self, text: str) -> str:
        """A text as it is read."""
        return text.strip().lower() if self.data.lower else text.strip()

    def model_inputs(self, model: Built, example: str) -> ModelInputs:
        """The line, and the model's own translation of it as input of the decoder."""
        if not example.strip():
            raise InputError("There is no text to translate. Give at least one word.")
        device = next(model.parameters()).device
        text = example.strip().lower() if self.data.lower else example.strip()
        source = encoded(self.tokenizer, text, self.end)
        answer = encoded(self.tokenizer, self.translated(model, [example])[0], self.end)
        inputs, inner = [self.start, *answer][: len(answer)], self.tokenizer.inner
        lines = [
            TokenSequence(name=name, kind="words", labels=(written := labels(inner, ids)), words=words(inner, ids, written))
            for name, ids in (("source", source), ("translation", inputs))
        ]
        return ModelInputs((torch.tensor([inputs], device=device),), lines, {"source": torch.tensor([source], device=device)})

    def translated(self, model: Built, texts: Sequence[str], beams: int = BEAMS) -> list[str]:
        """The translations of texts; an empty text stays empty.

        Texts with the same limit on the length (`most`) form a batch, so that no translation depends on the others in its batch.
        """
        device = next(model.parameters()).device
        texts = [text.strip().lower() if self.data.lower else text.strip() for text in texts]
        ids = [encoded(self.tokenizer, text, self.end) for text in texts]
        order = sorted((i for i, text in enumerate(texts) if text), key=lambda i: len(ids[i]))
        translations = [""] * len(texts)
        assert isinstance(model, Model)  # `resolve_spec` lets no baseline translate
        decoder, search = CPUDecoder(model), Beams(beams, self.data.length_penalty) if beams > 1 else None
        for steps, members in groupby(order, lambda i: most(len(ids[i]))):
            group = list(members)
            for some in (group[first : first + AT_ONCE] for first in range(0, len(group), AT_ONCE)):
                source = [torch.tensor(ids[i], device=device) for i in some]
                begin = torch.full((len(some), 1), self.start, device=device)
                outputs = generate(decoder, begin, steps, stop=[self.end], source=source, beams=search)
                for i, row in zip(some, outputs, strict=True):
                    translations[i] = self.tokenizer.decode(row.tolist()).strip()
        return (
            [text.lower() for text in translations] if self.data.lower else translations
        )  # also of a model that wrote capitals before

    def multiply_adds(self, spec: ModelSpec, batch: Batch) -> float:
        """Of one forward pass: a polynomial in both lengths, since describing the model for each pair of lengths would be slow."""
        if self._cost is None:
            lengths = [(8, 8), (16, 8), (24, 8), (8, 16), (8, 24)]
            costs = [describe(spec, t, s).multiply_adds for t, s in lengths]
            self._cost = np.linalg.solve([_powers(*pair) for pair in lengths], costs)
        times = 2 if self.data.rdrop else 1
        return float(_powers(batch.length, batch.source) @ self._cost) * batch.size * times

    def samples(self, model: Built, step: int) -> list[Sample]:
        pairs = self.pairs.texts["validation"][: self.recipe.evaluation.samples]
        translations = self.translated(model, [pair.source for pair in pairs])
        snapshot = self._attention_snapshot(model) if pairs and snapshot_due(self.recipe, step) else {}
        return [
            Sample(step=step, prompt=pair.source, answer=text, target=pair.target, **(snapshot if i == 0 else {}))
            for i, (pair, text) in enumerate(zip(pairs, translations, strict=True))
        ]

    def _attention_snapshot(self, model: Built) -> dict[str, Any]:
        """The cross-attention of the decoder, with the target of the first pair as input, to the tokens of the source."""
        device, most = next(model.parameters()).device, snapshot_length(model)
        source, target = (side[0].tolist()[:most] for side in self.pairs.ids["validation"])
        inputs = [self.start, *target][: len(target)]
        attention = attention_of(model, torch.tensor([inputs], device=device), torch.tensor([source], device=device))
        return {"tokens": list(map(self._sign, inputs)), "source": list(map(self._sign, source)), "attention": attention}

    def _sign(self, token: int) -> str:
        """A token as a person reads it; special tokens by their names."""
        return self.tokenizer.decode([token]) or str(self.tokenizer.inner.id_to_token(token))


def pair_outcomes(pairs: Sequence[SentencePair], answers: Sequence[str], lowered: bool = False) -> tuple[Outcomes, str]:
    """Exact match and edit distance of answers to pairs; pairs with one source are one example with several targets.

    returns  the outcomes, and the unit of edits: "word", of what stands between spaces; "character" where few targets have a space
    """
    targets: dict[str, list[str]] = defaultdict(list)
    for pair in pairs:
        targets[pair.source].append(pair.target.lower() if lowered else pair.target)
    answer_of = {pair.source: answer for pair, answer in zip(pairs, answers, strict=True)}
    spaced = sum(" " in pair.target for pair in pairs) * 2 > len(pairs)
    distances, lengths = [], []
    for source, some in targets.items():
        cut = [one.split() if spaced else list(one) for one in (answer_of[source], *some)]
        distance, near = min(((edits(cut[0], one), one) for one in cut[1:]), key=lambda both: both[0] / max(1, len(both[1])))
        distances.append(distance)
        lengths.append(max(1, len(near)))
    missed = np.array(distances, dtype=np.float64)
    found = Outcomes(
        list(targets), [answer_of[source] for source in targets], [" or ".join(some) for some in targets.values()], missed,
        [rate("exact match", [answer_of[source] in some for source, some in targets.items()]),
         mean("edit distance", missed, lengths)],
    )  # fmt: skip
    return found, "word" if spaced else "character"


def most(read: int) -> int:
    """Most tokens of a translation: 1.5 times the source plus 10 to 25; a multiple of 16, so that there are few different
    limits.
    """
    return 16 * -(-(read * 3 // 2 + 10) // 16)


def _powers(target: int, source: int) -> np.ndarray:
    """The terms of the cost of attention in both lengths."""
    return np.array([target, target**2, source, source**2, target * source], dtype=np.float64)


def rdrop_loss(answers: Tensor, targets: Tensor, left_out: int, smoothing: float, weight: float) -> Tensor:
    """R-Drop: two forward passes with different dropout; both are trained on the targets, and their outputs are pulled together.

    Half of the paper's loss, so that it is comparable to the loss of one pass: mean cross-entropy + weight/2 * mean KL divergence.

    answers    logits [2, N, C] for the same N targets; computed in float32 at least
    targets    classes [N]; `left_out` has no target
    smoothing  label smoothing
    weight     the paper's alpha (5 for translation there)

    returns    the sum over targets, in nats
    source     Liang et al. 2021, "R-Drop: Regularized Dropout for Neural Networks"
    """
    counted = targets != left_out
    wide = torch.promote_types(answers.dtype, torch.float32)
    logs, classes = answers[:, counted].to(wide).log_softmax(-1), targets[counted, None].expand(2, -1, 1)
    cross_entropy = (smoothing - 1) * logs.gather(-1, classes).squeeze(-1) - smoothing * logs.mean(-1)
    first, second = logs
    divergence = ((first.exp() - second.exp()) * (first - second)).sum(-1)  # of both ways: p log(p/q) + q log(q/p)
    return (cross_entropy.mean(0) + weight / 4 * divergence).sum()
