"""Sampling: how the next token is chosen from the logits.

Filters are applied in the order of transformers: repetition penalty, temperature, top-k, top-p, min-p.
Sources: Holtzman et al. 2020 (top-p); Fan et al. 2018 (top-k); Nguyen et al. 2024 (min-p); Keskar et al. 2019 (repetition).
"""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from equiscope.errors import InputError
from equiscope.models.decoding import Decoding, as_int, stop_ids
from equiscope.models.recurrent_decoding import RecurrentDecoding

MIN_TEMPERATURE = 1e-30  # below it, scores overflow float32


@dataclass(frozen=True)
class Sampling:
    """How the next token is chosen from the logits.

    temperature         0 is greedy, and the next three must be left out; a larger one makes the distribution more uniform
    top_k               only the k most probable tokens
    top_p               only the most probable tokens whose probabilities sum to this
    min_p               only tokens with at least this share of the largest probability
    repetition_penalty  logits of tokens that occurred before are divided by it (multiplied where negative)
    banned              ids that are never generated, such as padding
    raises              InputError for a value outside its range
    """

    temperature: float = 0.0
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    repetition_penalty: float = 1.0
    banned: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        ranges = {
            "temperature": (0.0, math.inf), "top_k": (1, math.inf), "top_p": (0.0, 1.0), "min_p": (0.0, 1.0),
            "repetition_penalty": (1e-9, math.inf),
        }  # fmt: skip
        for name, (low, high) in ranges.items():
            setting = getattr(self, name)
            value = as_int(setting) if name == "top_k" else number(setting)
            if setting is None and name in ("top_k", "top_p", "min_p"):
                continue
            if value is None or not low <= value <= high:
                raise InputError(f"{name} is in {low:g}..{high:g}, but got {setting!r}.")
            object.__setattr__(self, name, value)
        if 0 < self.temperature < MIN_TEMPERATURE:
            raise InputError(f"temperature is 0, or {MIN_TEMPERATURE:g} or more, but got {self.temperature}.")
        neutral = {"top_k": None, "top_p": 1.0, "min_p": 0.0}  # values that keep all tokens
        active = next((name for name, value in neutral.items() if getattr(self, name) not in (None, value)), None)
        if self.temperature == 0 and active:
            raise InputError(f"{active} filters samples, but temperature 0 samples nothing. Set temperature=1 too.")
        object.__setattr__(self, "banned", tuple(stop_ids(self.banned)))

    def filtered(self, scores: Tensor, seen: Tensor) -> Tensor:
        """Logits [B, V], with minus infinity for tokens that the filters remove. seen: which occurred before, bool [B, V]."""
        scores = ban(scores, self.banned)
        if (penalty := self.repetition_penalty) != 1:
            scores = torch.where(seen, torch.where(scores < 0, scores * penalty, scores / penalty), scores)
        if self.temperature == 0:
            return scores
        scores = scores / self.temperature
        if self.top_k is not None and self.top_k < scores.shape[-1]:
            scores = scores.masked_fill(scores < scores.topk(self.top_k).values[..., -1:], -math.inf)
        if self.top_p is not None and self.top_p < 1:
            ordered, index = scores.sort(descending=False)
            beyond = ordered.softmax(-1).cumsum(-1) <= 1 - self.top_p
            beyond[..., -1] = False  # the best one stays
            scores = scores.masked_fill(torch.zeros_like(beyond).scatter(-1, index, beyond), -math.inf)
        if self.min_p is not None:
            shares = scores.softmax(-1)
            scores = scores.masked_fill(shares < self.min_p * shares.amax(-1, keepdim=True), -math.inf)
        return scores

    def probabilities(self, scores: Tensor, seen: Tensor) -> Tensor:
        """The probability of every token, [B, V]; at temperature 0 the best one has 1."""
        scores = self.filtered(scores.to(torch.promote_types(scores.dtype, torch.float32)), seen)
        if self.temperature == 0:
            return torch.zeros_like(scores).scatter(-1, scores.argmax(-1, keepdim=True), 1.0)
        return scores.softmax(-1)

    def sample(self, scores: Tensor, seen: Tensor, generator: torch.Generator | None) -> Tensor:
        """One token a sequence, [B]."""
        scores = self.filtered(scores.to(torch.promote_types(scores.dtype, torch.float32)), seen)
        if self.temperature == 0:
            return scores.max(-1).indices  # the first of the largest, as argmax, in a third of its time
        return torch.multinomial(scores.softmax(-1), 1, generator=generator)[..., 0]


def number(value: Any) -> float | None:
    """A number of Python, numpy or torch as float; None for anything else."""
    if isinstance(value, bool | str | bytes) or str(getattr(value, "dtype", "")).endswith("bool"):
        return None
    try:
        return float(value)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        return None


def ban(scores: Tensor, banned: tuple[int, ...]) -> Tensor:
    """Logits [..., V] with minus infinity for the banned ids. Raises InputError for an id outside the vocabulary."""
    if not banned:
        return scores
    if not all(0 <= i < scores.shape[-1] for i in banned):
        raise InputError(f"banned holds ids in 0..{scores.shape[-1] - 1}, but got {list(banned)}.")
    if len(set(banned)) == scores.shape[-1]:
        raise InputError("banned holds all ids of the vocabulary, so no token is left to generate.")
    return scores.index_fill(-1, torch.tensor(banned, device=scores.device), -math.inf)


def seen_ids(decoding: Decoding | RecurrentDecoding) -> Tensor:
    """Which ids occur in each prompt, bool [B, V]."""
    vocabulary = decoding.model.spec.vocabulary or 0
    seen = torch.zeros(len(decoding.ids), vocabulary + 1, dtype=torch.bool, device=decoding.ids.device)
    return seen.scatter(1, decoding.ids.masked_fill(~decoding.valid, vocabulary), True)[:, :vocabulary]
