"""Answers: what a model's outputs mean: one class, several labels, numbers, or a label of each word. Each has its loss and
metrics.

A run stores its answer as `answer.json`. Tasks that read texts, pictures or sounds share these.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import torch
import torch.nn.functional as F
from msgspec import Struct
from torch import Tensor

from equiscope.errors import InputError
from equiscope.training import measures
from equiscope.training.folder import read_settings, write_settings
from equiscope.training.measures import Measure, Outcomes, TrueAndPredicted
from equiscope.training.task import Prediction, likeliest

FILE = "answer.json"
Reduction = Literal["sum", "none"]
MANY = 24  # labels, up to which each has its own F1
CHOSEN = 0.5  # the probability from which a label is given


class OneClass(Struct, frozen=True, kw_only=True, tag="class"):
    """One of several classes: outputs are logits [N, C], targets indices [N].

    counts  examples of each class in the training part
    """

    classes: list[str]
    counts: list[int] = []
    without_input: ClassVar[str] = "majority"

    def __post_init__(self) -> None:
        """Check values from a file."""
        if len(self.classes) < 2 or len(set(self.classes)) != len(self.classes):
            raise ValueError("two classes or more are needed, each once")

    @property
    def outputs(self) -> int:
        return len(self.classes)

    def encoded(self, targets: Sequence[Any]) -> Tensor:
        """Class names as indices."""
        index = {name: i for i, name in enumerate(self.classes)}
        return torch.tensor([index[target] for target in targets])

    def loss(self, outputs: Tensor, targets: Tensor, smoothing: float = 0.0, reduction: Reduction = "sum") -> Tensor:
        """Cross-entropy, summed over examples, or of each."""
        return F.cross_entropy(outputs.float(), targets, reduction=reduction, label_smoothing=smoothing)

    def outcomes(self, names: Sequence[str], outputs: Tensor, targets: Tensor, of: str) -> Outcomes:
        """accuracy, macro F1 and loss (nats an example). outputs: on the CPU; of: the word that counts examples."""
        logs = outputs.double().log_softmax(-1)
        lost = -logs.gather(-1, targets[:, None])[:, 0].numpy()
        predicted, true = outputs.argmax(-1).numpy(), targets.numpy()
        eye = np.eye(len(self.classes))
        probabilities = logs.exp().numpy()
        return Outcomes(
            names, [f"{self.classes[i]} ({probabilities[row, i]:.0%})" for row, i in enumerate(predicted)],
            [self.classes[i] for i in true], lost,
            [measures.rate("accuracy", predicted == true), measures.f1("f1", eye[true], eye[predicted]),
             measures.mean("loss", lost, unit="nats")],
            {of: float(len(true))}, self.classes, true, predicted,
            more=[dict(zip(self.classes, row.tolist(), strict=True)) for row in probabilities],
        )  # fmt: skip

    def constant(self) -> Tensor:
        """The outputs without an input: the logarithm of the share of each class in training. They answer the majority."""
        counts = torch.tensor(self.counts, dtype=torch.float64)
        return ((counts + 1) / (counts + 1).sum()).log().float()

    def predictions(self, names: Sequence[str], outputs: Tensor, top: int) -> list[Prediction]:
        """The most probable class, and the probabilities of the `top` most probable ones."""
        return likeliest(names, outputs.float().softmax(-1), self.classes, min(top, len(self.classes)))

    def text_of(self, outputs: Tensor) -> str:
        """The answer of one example [C] as a person reads it."""
        probabilities = outputs.float().softmax(-1)
        best = int(probabilities.argmax())
        return f"{self.classes[best]} ({float(probabilities[best]):.0%})"

    def written(self, target: Tensor) -> str:
        """A target as a person reads it."""
        return self.classes[int(target)]


class WordLabels(OneClass, frozen=True, kw_only=True, tag="word labels"):
    """One of several labels for each word: outputs are logits [W, C] of the words of all texts one after another, targets [W].

    usual  the most frequent label of each word in the training part
    """

    usual: dict[str, str] = {}

    @property
    def in_spans(self) -> bool:
        """Whether labels mark spans: B-X begins one, I-X goes on, O is outside."""
        return any(name.startswith("B-") for name in self.classes) and all(
            name == "O" or name[:2] in ("B-", "I-") for name in self.classes
        )

    def of_texts(self, texts: Sequence[Sequence[str]], predicted: np.ndarray, true: np.ndarray) -> list[Measure]:
        """Metrics of labels [W] over texts: accuracy of words, F1 of spans, macro F1, exact: texts without a mistake."""
        text_of = np.repeat(np.arange(len(texts)), list(map(len, texts)))
        shape, eye = len(texts), np.eye(len(self.classes))
        right = np.bincount(text_of, predicted == true, shape)
        counts = np.bincount(text_of, minlength=shape)
        sums = np.zeros((3, shape, len(self.classes)))  # hits, predicted and true, of each text and label
        for into, one in zip(sums, (eye[predicted] * eye[true], eye[predicted], eye[true]), strict=True):
            np.add.at(into, text_of, one)
        found = [measures.mean("accuracy", right, counts)]
        if self.in_spans:
            each = np.split(np.stack([predicted, true]), np.cumsum(counts)[:-1], axis=-1)
            spans = [[self._spans(row) for row in rows] for rows in each]
            matched = np.array([[len(given & wanted), len(given), len(wanted)] for given, wanted in spans], dtype=np.float64)
            found.append(Measure("span f1", matched, measures._f1))
        return [*found, Measure("f1", np.concatenate(list(sums), -1), measures._f1), measures.rate("exact", right == counts)]

    def of_labels(self, texts: Sequence[Sequence[str]], predicted: np.ndarray, true: np.ndarray) -> list[Measure]:
        """F1 of each label, if there are few."""
        if len(self.classes) > MANY:
            return []
        ends = np.cumsum(list(map(len, texts)))[:-1]
        found = []
        for k, name in enumerate(self.classes):
            each = ((predicted == k) & (true == k), predicted == k, true == k)
            sums = [[row.sum() for row in np.split(one, ends)] for one in each]
            found.append(Measure(f"f1 {name}", np.array(sums, dtype=np.float64).T, measures._f1))
        return found

    def outcomes_of_texts(self, texts: Sequence[Sequence[str]], names: Sequence[str], outputs: Tensor, targets: Tensor) -> Outcomes:
        """The metrics of `of_texts`, loss (nats a word), and those of `of_labels`. outputs: on the CPU."""
        logs = outputs.double().log_softmax(-1)
        lost = -logs.gather(-1, targets[:, None])[:, 0].numpy()
        predicted, true = outputs.argmax(-1).numpy(), targets.numpy()
        ends = np.cumsum(list(map(len, texts)))[:-1]
        each = list(zip(texts, *(np.split(x, ends) for x in (predicted, true, lost)), strict=True))
        counts = [len(text) for text in texts]
        totals = [float(row.sum()) for *_, row in each]
        return Outcomes(
            names, [self.joined(text, row.tolist()) for text, row, _, _ in each],
            [self.joined(text, row.tolist()) for text, _, row, _ in each],
            np.array([total / count for total, count in zip(totals, counts, strict=True)]),
            [*self.of_texts(texts, predicted, true), measures.mean("loss", totals, counts, "nats"),
             *self.of_labels(texts, predicted, true)],
            {"texts": float(len(texts)), "words": float(len(true))}, self.classes, true, predicted,
            more=[{"words": list(text), "labels": [self.classes[i] for i in row]} for text, row, _, _ in each],
        )  # fmt: skip

    def joined(self, words: Sequence[str], labels: Iterable[int]) -> str:
        """A text as a person reads it: word/label."""
        return " ".join(f"{word}/{self.classes[i]}" for word, i in zip(words, labels, strict=True))

    def most_frequent(self, texts: Sequence[Sequence[str]]) -> np.ndarray:
        """The most frequent label of each word [W]; of an unknown word, that of all words."""
        index = {name: i for i, name in enumerate(self.classes)}
        return np.array([index[self.usual[w]] if w in self.usual else int(np.argmax(self.counts)) for t in texts for w in t])

    def _spans(self, labels: np.ndarray) -> set[tuple[str, int, int]]:
        """The spans of a text: kind, first word, word after the last. An I-X without a span of X before it begins one."""
        found, kind, begins = set(), "", 0
        for i, name in enumerate([*(self.classes[k] for k in labels), "O"]):
            if kind and not (name[:2] == "I-" and name[2:] == kind):
                found.add((kind, begins, i))
                kind = ""
            if name != "O" and not kind:
                kind, begins = name[2:], i
        return found


class SeveralLabels(Struct, frozen=True, kw_only=True, tag="labels"):
    """Any number of labels: outputs are logits [N, L], one of each label; targets 0 or 1 [N, L].

    counts, examples  how many examples of the training part have each label, and how many there are
    """

    labels: list[str]
    counts: list[int] = []
    examples: int = 0
    without_input: ClassVar[str] = "most frequent labels"

    def __post_init__(self) -> None:
        """Check values from a file."""
        if not self.labels or len(set(self.labels)) != len(self.labels):
            raise ValueError("one label or more is needed, each once")

    @property
    def outputs(self) -> int:
        return len(self.labels)

    def encoded(self, targets: Sequence[Any]) -> Tensor:
        """Lists of labels as 0 and 1."""
        return torch.tensor([[float(label in target) for label in self.labels] for target in targets])

    def loss(self, outputs: Tensor, targets: Tensor, smoothing: float = 0.0, reduction: Reduction = "sum") -> Tensor:
        """Binary cross-entropy of each label, its mean over labels; summed over examples, or of each."""
        wanted = targets * (1 - smoothing) + smoothing / 2
        each = F.binary_cross_entropy_with_logits(outputs.float(), wanted, reduction="none").mean(-1)
        return each.sum() if reduction == "sum" else each

    def outcomes(self, names: Sequence[str], outputs: Tensor, targets: Tensor, of: str) -> Outcomes:
        """F1 over all labels (micro), F1 as the mean over labels (macro), exact: share of examples with all labels right; loss."""
        lost = F.binary_cross_entropy_with_logits(outputs.double(), targets.double(), reduction="none").mean(-1).numpy()
        probabilities, true = outputs.double().sigmoid().numpy(), targets.numpy() > CHOSEN
        given = probabilities >= CHOSEN
        hits, predicted, wanted = (x.sum(-1, keepdims=True) for x in (given & true, given, true))
        micro = Measure("f1", np.concatenate([hits, predicted, wanted], -1).astype(np.float64), measures._f1)
        return Outcomes(
            names, [self._listed(row.tolist()) for row in given], [self._listed(row.tolist()) for row in true], lost,
            [micro, measures.f1("f1 macro", true, given), measures.rate("exact", (given == true).all(-1)),
             measures.mean("loss", lost, unit="nats")],
            {of: float(len(true))},
            more=[dict(zip(self.labels, row.tolist(), strict=True)) for row in probabilities],
        )  # fmt: skip

    def constant(self) -> Tensor:
        """The outputs without an input: the logit of each label's share in training."""
        share = (torch.tensor(self.counts, dtype=torch.float64) + 0.5) / (self.examples + 1)
        return share.logit().float()

    def predictions(self, names: Sequence[str], outputs: Tensor, top: int) -> list[Prediction]:
        """The labels with a probability of one half or more, and the `top` most probable ones."""
        found = []
        for name, row in zip(names, outputs.float().sigmoid(), strict=True):
            best = row.topk(min(top, len(self.labels)))
            more = {self.labels[i]: p for i, p in zip(best.indices.tolist(), best.values.tolist(), strict=True)}
            found.append(Prediction(name, self._listed((row >= CHOSEN).tolist()), more))
        return found

    def text_of(self, outputs: Tensor) -> str:
        """The answer of one example [L] as a person reads it."""
        return self.written(outputs.float().sigmoid())

    def written(self, target: Tensor) -> str:
        """A target as a person reads it."""
        return self._listed((target >= CHOSEN).tolist())

    def _listed(self, given: Iterable[bool]) -> str:
        return ", ".join(label for label, there in zip(self.labels, given, strict=True) if there) or "none"


class Numbers(Struct, frozen=True, kw_only=True, tag="numbers"):
    """One or several numbers: outputs [N, K] are in units of `deviation` around `mean`; so are targets.

    names            of the numbers; mean, deviation: of each in the training part
    """

    names: list[str]
    mean: list[float]
    deviation: list[float]
    without_input: ClassVar[str] = "mean"

    def __post_init__(self) -> None:
        """Check values from a file."""
        if not self.names or not len(self.names) == len(self.mean) == len(self.deviation):
            raise ValueError("names, and as many means and deviations are needed")
        if not all(map(math.isfinite, self.mean)) or not all(0 < one < math.inf for one in self.deviation):
            raise ValueError("means are finite, and deviations positive")

    @property
    def outputs(self) -> int:
        return len(self.names)

    def encoded(self, targets: Sequence[Any]) -> Tensor:
        """Numbers in units of the deviation."""
        raw = torch.tensor([list(target) for target in targets], dtype=torch.float64)
        return ((raw - torch.tensor(self.mean).double()) / torch.tensor(self.deviation).double()).float()

    def raw(self, scaled: Tensor) -> Tensor:
        """Outputs or targets in the units of the data, float64."""
        return scaled.double() * torch.tensor(self.deviation).double() + torch.tensor(self.mean).double()

    def loss(self, outputs: Tensor, targets: Tensor, smoothing: float = 0.0, reduction: Reduction = "sum") -> Tensor:
        """Squared error in units of the deviation, its mean over numbers; summed over examples, or of each."""
        each = F.mse_loss(outputs.float(), targets, reduction="none").mean(-1)
        return each.sum() if reduction == "sum" else each

    def outcomes(self, names: Sequence[str], outputs: Tensor, targets: Tensor, of: str) -> Outcomes:
        """MAE, root mean square error and R² of each number; of several, their means come first, in units of the deviation."""
        predicted, true = self.raw(outputs).numpy(), self.raw(targets).numpy()
        missed = np.abs(predicted - true)
        relative = missed / np.array(self.deviation)
        found: list[Measure] = []
        if len(self.names) > 1:
            found.append(measures.mean("mae", relative.mean(-1), unit="deviations"))
        for k, name in enumerate(self.names):
            end = f" {name}" if len(self.names) > 1 else ""
            found += [
                measures.mean(f"mae{end}", missed[:, k]), measures.root_mean_square(f"rmse{end}", missed[:, k] ** 2),
                measures.explained(f"r2{end}", true[:, k], predicted[:, k]),
            ]  # fmt: skip
        return Outcomes(
            names, [self._numbers(row) for row in predicted], [self._numbers(row) for row in true], relative.max(-1), found,
            {of: float(len(true))},
            parity=[TrueAndPredicted(name, "", true[:, k], predicted[:, k]) for k, name in enumerate(self.names)],
            more=[dict(zip(self.names, row.tolist(), strict=True)) for row in predicted],
        )  # fmt: skip

    def constant(self) -> Tensor:
        """The outputs without an input: the mean of the training part."""
        return torch.zeros(len(self.names))

    def predictions(self, names: Sequence[str], outputs: Tensor, top: int) -> list[Prediction]:
        """The numbers."""
        rows = self.raw(outputs.cpu()).tolist()
        return [
            Prediction(name, self._numbers(row), dict(zip(self.names, row, strict=True)))
            for name, row in zip(names, rows, strict=True)
        ]

    def text_of(self, outputs: Tensor) -> str:
        """The answer of one example [K] as a person reads it."""
        return self.written(outputs)

    def written(self, target: Tensor) -> str:
        """A target as a person reads it."""
        return self._numbers(self.raw(target).tolist())

    def _numbers(self, row: Iterable[float]) -> str:
        written = [f"{value:.4g}" for value in row]
        return written[0] if len(written) == 1 else ", ".join(f"{n} {v}" for n, v in zip(self.names, written, strict=True))


Answer = OneClass | WordLabels | SeveralLabels | Numbers


class _Stored(Struct, frozen=True, kw_only=True):
    answer: Answer


def save(answer: Answer, folder: Path) -> None:
    """Write the answer into a run's folder."""
    write_settings(folder / FILE, _Stored(answer=answer))


def read(folder: Path) -> Answer:
    """The answer of a run. Raises InputError if it cannot be read."""
    return read_settings(folder / FILE, _Stored, "what the outputs of this run mean").answer


def of_targets(kind: str, targets: Sequence[Any], names: Sequence[str] = (), classes: Sequence[str] = ()) -> Answer:
    """The answer of a training part. kind: "class", "labels" or "numbers".

    names    of the numbers
    classes  in the order of the outputs; by default those that occur, sorted
    raises  InputError if there is nothing to learn: one class, no label, or a number that is always the same
    """
    if kind == "class":
        counts = _counted(targets)
        if len(counts) < 2:
            raise InputError(f"Every example of the training part is {next(iter(counts))!r}. Give two classes or more.")
        order = list(classes or counts)
        return OneClass(classes=order, counts=[counts.get(name, 0) for name in order])
    if kind == "labels":
        counts = _counted(label for target in targets for label in target)
        if not counts:
            raise InputError("No example of the training part has a label. Give labels, or name another column.")
        return SeveralLabels(labels=list(counts), counts=list(counts.values()), examples=len(targets))
    rows = np.array(targets, dtype=np.float64)
    deviation = rows.std(0)
    if not deviation.all():
        name = names[int((deviation == 0).argmax())]
        raise InputError(f"{name!r} is {rows[0, int((deviation == 0).argmax())]:g} in the whole training part. Leave it out.")
    return Numbers(names=list(names), mean=rows.mean(0).tolist(), deviation=deviation.tolist())


def word_labels(texts: Sequence[Sequence[str]], labels: Sequence[Sequence[str]]) -> WordLabels:
    """The answer of a training part of words. Raises InputError if there is one label only."""
    of_word: dict[str, Counter[str]] = defaultdict(Counter)
    for text, row in zip(texts, labels, strict=True):
        for word, label in zip(text, row, strict=True):
            of_word[word][label] += 1
    one = of_targets("class", [label for row in labels for label in row])
    assert isinstance(one, OneClass)
    usual = {word: min(counts, key=lambda label: (-counts[label], label)) for word, counts in of_word.items()}
    return WordLabels(classes=one.classes, counts=one.counts, usual=usual)


def _counted(names: Iterable[str]) -> Mapping[str, int]:
    """How often each name occurs: numbers by value, words by the alphabet."""
    counts: dict[str, int] = {}
    for name in names:
        counts[name] = counts.get(name, 0) + 1
    order = sorted(counts, key=lambda name: (0, int(name), "") if name.isdecimal() else (1, 0, name))
    return {name: counts[name] for name in order}
