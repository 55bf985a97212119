"""BPE-dropout: words are split differently each time, so that a model learns from their parts.

Byte pair encoding repeatedly merges the most frequent pair. Here every merge is skipped with a probability, each time it is
possible. The possible splits of a word are a function of the seed and the word alone.
Source: Provilkov, Emelianenko & Voita 2020, "BPE-Dropout: Simple and Effective Subword Regularization".
"""

import json
import random
from itertools import pairwise

import numpy as np

from equiscope.data.sampler import derived_seed
from equiscope.errors import InputError
from equiscope.tokens.tokenizer import Tokenizer

WAYS = 32  # of one word; which of them comes is drawn each time


class BpeDropout:
    """Ids of words under byte pair encoding with dropout.

    share   probability of skipping a merge
    raises  InputError for a tokenizer without a list of merges
    """

    def __init__(self, tokenizer: Tokenizer, share: float, seed: int) -> None:
        model = json.loads(tokenizer.inner.to_str())["model"]
        if model["type"] != "BPE" or tokenizer.inner.pre_tokenizer is None:
            raise InputError(
                f"data.dropout leaves out joins of byte pairs, but this tokenizer is a {model['type']}. "
                'Use data.tokens = "pieces", or data.dropout = 0.'
            )
        joins = [join.split(" ") if isinstance(join, str) else join for join in model["merges"]]
        self.rank = {(a, b): i for i, (a, b) in enumerate(joins)}
        self.vocabulary: dict[str, int] = model["vocab"]
        self.split = tokenizer.inner.pre_tokenizer.pre_tokenize_str
        self.share, self.seed = share, seed
        self._numbers: dict[str, int] = {}
        self._words: list[str] = []
        self._made: dict[tuple[int, int], list[int]] = {}

    def words(self, text: str) -> np.ndarray:
        """The words of a text, each as an index."""
        pieces = [word for word, _ in self.split(text)]
        for word in pieces:
            if word not in self._numbers:
                self._numbers[word] = len(self._words)
                self._words.append(word)
        return np.array([self._numbers[word] for word in pieces], dtype=np.uint32)

    def cut(self, words: np.ndarray, draw: np.random.Generator) -> list[int]:
        """Ids of a text's words, each split at random."""
        ways = draw.integers(0, WAYS, len(words)).tolist()
        return [i for pair in zip(words.tolist(), ways, strict=True) for i in self._way(pair)]

    def _way(self, which: tuple[int, int]) -> list[int]:
        if which not in self._made:
            word = self._words[which[0]]
            chance = random.Random(derived_seed(self.seed, "pieces", word, which[1]))
            self._made[which] = [self.vocabulary[piece] for piece in self.joined(word, chance)]
        return self._made[which]

    def joined(self, word: str, chance: random.Random) -> list[str]:
        """The pieces of a word: of the pairs that are not skipped, the most frequent is merged, until none is left."""
        pieces = list(word)
        while len(pieces) > 1:
            there = [
                (self.rank[pair], i)
                for i, pair in enumerate(pairwise(pieces))
                if pair in self.rank and chance.random() >= self.share
            ]
            if not there:
                break
            _, i = min(there)
            pieces[i : i + 2] = [pieces[i] + pieces[i + 1]]
        return pieces
