"""Synthetic tasks: examples with known answers, generated from the seed and never stored. Each task needs one use of positions.

An example is a row of token ids, with a target at each position that has an answer; the loss and the metrics ignore the other
positions. All examples of a batch have the same length, so there is no padding (as in Delétang et al. 2023). Longer inputs have the
same symbols, so a trained model can be tested on them as it is.
"""

from collections.abc import Callable
from typing import Annotated, Literal

import msgspec
import torch
from msgspec import Struct
from torch import Generator, Tensor

from equiscope.data.language import IGNORED
from equiscope.data.sampler import generator
from equiscope.errors import InputError
from equiscope.spec_base import Size

Generated = Literal["copy", "reverse", "sort", "recall", "induction", "back", "parity", "addition"]
Rows = tuple[Tensor, Tensor]  # token ids [B, N]; the answer at each position [B, N], IGNORED where there is none
SEPARATOR, EQUALS = "|", "="
GUESSES = 2048  # examples in which the most frequent answers are counted


class Synthetic(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="synthetic", tag_field="task"):
    """Generated examples with known answers.

    generate  "copy": x | x. "reverse": x | x backwards. "sort": x | x in ascending order, with repetitions. "recall": pairs of a
              key and its value; when a key is repeated, its value is the answer. "induction": random symbols, then half of them
              repeated in order, starting at a random symbol. "back": at each token, the token `distance` before it. "parity": at
              each token, the sum so far modulo `symbols`. "addition": a b = (a + b) modulo `symbols`, with held-out pairs
    length    L, the longest training input, in symbols (for "recall" in pairs). Each training batch has a random length up to L;
              inputs of the validation and test parts have the length L. "addition" needs 2, its two numbers
    symbols   number of different symbols; for "recall" the number of keys, and of values
    distance  for "back", in tokens
    held_out  for "addition": share of the pairs that are not trained on; half of these are for validation, half for the test
    examples  number of examples of the validation part, and of the test part; "addition" has all pairs of the part instead
    """

    generate: Generated
    length: Size
    symbols: Annotated[int, msgspec.Meta(ge=2)]
    distance: Size = 4
    held_out: Annotated[float, msgspec.Meta(gt=0, lt=1)] = 0.2
    examples: Size = 256

    @property
    def answers_are_read(self) -> bool:
        """Whether answers are also later tokens of the input, which a model without a causal mask could attend to."""
        return self.generate not in ("back", "parity", "addition")

    @property
    def shortest(self) -> int:
        """Length of the shortest input that has an answer, in the unit of `length`."""
        return {"back": self.distance + 1, "recall": 2, "induction": 3, "addition": 2}.get(self.generate, 1)


class SyntheticExamples:
    """The examples of a `Synthetic` recipe.

    words   the word of each token id
    raises  InputError if the fields contradict each other
    """

    def __init__(self, config: Synthetic, seed: int = 0) -> None:
        self.config, self.seed = config, seed
        if config.generate == "addition" and config.length != 2:
            raise InputError(f"data.length is {config.length}, but addition has two numbers. Set it to 2.")
        if config.length < config.shortest:
            raise InputError(
                f"data.length is {config.length}, but the shortest input of {config.generate} with an answer has "
                f"{config.shortest} tokens. Give a larger length{', or a smaller distance' if config.generate == 'back' else ''}."
            )
        symbols = [str(i) for i in range(config.symbols)]
        ends = {"copy": [SEPARATOR], "reverse": [SEPARATOR], "sort": [SEPARATOR], "addition": [EQUALS]}.get(config.generate, [])
        self.words = [f"k{s}" for s in symbols] + [f"v{s}" for s in symbols] if config.generate == "recall" else symbols + ends
        self.pairs = _split_pairs(config, seed) if config.generate == "addition" else {}

    def batch(self, step: int, size: int) -> Rows:
        """The training examples of a step."""
        random = generator(self.seed, "synthetic", step)
        length = int(torch.randint(self.config.shortest, self.config.length + 1, (), generator=random))
        return self._rows("train", length, size, random)

    def examples(self, part: str, length: int | None = None) -> Rows:
        """All examples of a part. length: length of their inputs, by default L. "addition" ignores it."""
        length = length or self.config.length
        return self._rows(part, length, self.config.examples, generator(self.seed, "synthetic", part, length))

    def chance(self, part: str, length: int | None = None) -> float:
        """Accuracy on a part of always guessing the most frequent answer at each position, without the input.

        The frequencies are counted in other examples of the same length.
        """
        length = length or self.config.length
        targets = self.examples(part, length)[1]
        others = self._rows("all", length, GUESSES, generator(self.seed, "synthetic", "guess", length))[1]
        scored = others != IGNORED
        counts = torch.zeros(others.shape[1], len(self.words))
        counts.scatter_add_(1, others.clamp(min=0).T, scored.float().T)
        return float((targets == counts.argmax(1))[targets != IGNORED].float().mean())

    def _rows(self, part: str, length: int, size: int, random: Generator) -> Rows:
        if self.config.generate == "addition":
            return _addition(self.config, self.pairs[part], None if part in ("validation", "test") else size, random)
        return GENERATORS[self.config.generate](self.config, length, size, random)


def _symbols(config: Synthetic, length: int, size: int, random: Generator) -> Tensor:
    """Independent symbols [size, length]."""
    return torch.randint(config.symbols, (size, length), generator=random)


def _answered(question: Tensor, answer: Tensor) -> Rows:
    """The question [B, N] followed by its answer [B, M], without the last token of the answer: ids [B, N + M - 1].

    The target of each position is its next token, from the last token of the question on.
    """
    text = torch.cat([question, answer], 1)
    targets = text[:, 1:].clone()
    targets[:, : question.shape[1] - 1] = IGNORED
    return text[:, :-1], targets


def _with_separator(config: Synthetic, x: Tensor) -> Tensor:
    return torch.cat([x, torch.full_like(x[:, :1], config.symbols)], 1)


def _copy(config: Synthetic, length: int, size: int, random: Generator) -> Rows:
    """x | x. Source: Jelassi et al. 2024, "Repeat After Me", section 3; positions and lengths: Kazemnejad et al. 2023."""
    x = _symbols(config, length, size, random)
    return _answered(_with_separator(config, x), x)


def _reverse(config: Synthetic, length: int, size: int, random: Generator) -> Rows:
    """x | x backwards. Source: Delétang et al. 2023, "Neural Networks and the Chomsky Hierarchy", Reverse String."""
    x = _symbols(config, length, size, random)
    return _answered(_with_separator(config, x), x.flip(1))


def _sort(config: Synthetic, length: int, size: int, random: Generator) -> Rows:
    """x | x in ascending order, with repetitions. Source: Delétang et al. 2023, Bucket Sort."""
    x = _symbols(config, length, size, random)
    return _answered(_with_separator(config, x), x.sort(1).values)


def _recall(config: Synthetic, length: int, size: int, random: Generator) -> Rows:
    """k v k v ...: each key has the same value throughout the example. Answers: the values of keys that occurred before.

    The last key of an example always occurred before.
    Source: Arora et al. 2023, "Zoology", multi-query associative recall.
    """
    keys = _symbols(config, length, size, random)
    earlier = torch.randint(length - 1, (size, 1), generator=random)
    keys[:, -1:] = keys.gather(1, earlier)
    values = _symbols(config, config.symbols, size, random).gather(1, keys) + config.symbols
    repeated = (keys[:, :, None] == keys[:, None, :]).tril(-1).any(2)
    text = torch.stack([keys, values], 2).flatten(1)
    targets = torch.full_like(text, IGNORED)
    targets[:, ::2] = torch.where(repeated, values, IGNORED)
    return text[:, :-1], targets[:, :-1]


def _induction(config: Synthetic, length: int, size: int, random: Generator) -> Rows:
    """Random symbols s, then half of them repeated in order, starting at a random symbol.

    The first symbol of the repetition is no answer, since nothing predicts it. A later one is an answer unless the repetition
    so far occurs several times in s, followed by different symbols.
    Source: Olsson et al. 2022, "In-context Learning and Induction Heads", repeated random tokens.
    """
    s, half = _symbols(config, length, size, random), (length + 1) // 2
    first = torch.randint(length - half + 1, (size, 1), generator=random)
    repetition = s.gather(1, first + torch.arange(half))
    text = torch.cat([s, repetition], 1)[:, :-1]
    targets = torch.full_like(text, IGNORED)
    matches = s == repetition[:, :1]  # whether the repetition so far occurs in s from each symbol on
    for i in range(1, half):
        matches, same = matches[:, : length - i], s[:, i:] == repetition[:, i : i + 1]
        targets[:, length + i - 1] = torch.where((~matches | same).all(1), repetition[:, i], IGNORED)
        matches = matches & same
    return text, targets


def _back(config: Synthetic, length: int, size: int, random: Generator) -> Rows:
    """At each token, the token `distance` before it: needs attention at a fixed distance."""
    x = _symbols(config, length, size, random)
    targets = torch.full_like(x, IGNORED)
    targets[:, config.distance :] = x[:, : -config.distance]
    return x, targets


def _parity(config: Synthetic, length: int, size: int, random: Generator) -> Rows:
    """At each token, the sum of all tokens so far modulo `symbols`. Source: Delétang et al. 2023, Parity Check, at every prefix."""
    x = _symbols(config, length, size, random)
    return x, x.cumsum(1) % config.symbols


GENERATORS: dict[str, Callable[[Synthetic, int, int, Generator], Rows]] = {
    "copy": _copy,
    "reverse": _reverse,
    "sort": _sort,
    "recall": _recall,
    "induction": _induction,
    "back": _back,
    "parity": _parity,
}


def _addition(config: Synthetic, pairs: Tensor, size: int | None, random: Generator) -> Rows:
    """a b = with the target (a + b) modulo `symbols` at "="; the answer is not an input. Source: Power et al. 2022, "Grokking".

    pairs  [P, 2] pairs of the part, with a <= b
    size   number of examples of a random batch, each pair in a random order; None: all pairs, in both orders
    """
    if size is None:
        x = torch.cat([pairs, pairs.flip(1)]).unique(dim=0)
    else:
        x = pairs[torch.randint(len(pairs), (size,), generator=random)]
        swapped = torch.rand(size, 1, generator=random) < 0.5
        x = torch.where(swapped, x.flip(1), x)
    targets = torch.full((len(x), 3), IGNORED)
    targets[:, 2] = x.sum(1) % config.symbols
    return torch.cat([x, torch.full_like(x[:, :1], config.symbols)], 1), targets


def _split_pairs(config: Synthetic, seed: int) -> dict[str, Tensor]:
    """The unordered pairs of each part, and of all parts: if (a, b) is in the test, neither (a, b) nor (b, a) is in training.

    raises  InputError if a part has no pair
    """
    pairs = torch.combinations(torch.arange(config.symbols), with_replacement=True)
    pairs = pairs[torch.randperm(len(pairs), generator=generator(seed, "pairs"))]
    each = round(len(pairs) * config.held_out / 2)
    if not 1 <= each <= (len(pairs) - 1) // 2:
        raise InputError(
            f"data.held_out is {config.held_out:g} of {len(pairs)} pairs, which leaves a part empty. "
            "Use more symbols, or another share."
        )
    return {"validation": pairs[:each], "test": pairs[each : 2 * each], "train": pairs[2 * each :], "all": pairs}
