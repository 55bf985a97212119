"""Sampling: how the next token is chosen from the scores.

Filters come in the order of transformers: repetition, temperature, top-k, top-p, min-p.
Sources: Holtzman et al. 2020 (top-p); Fan et al. 2018 (top-k); Nguyen et al. 2024 (min-p); Keskar et al. 2019 (repetition).
"""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from equiscope.errors import InputError
from equiscope.models.decoding import Decoding, stops, whole
from equiscope.models.recurrence import Recurrence

COLDEST = 1e-30  # a temperature below would take scores beyond what float32 holds


@dataclass(frozen=True)
class Sampling:
    """How the next token is chosen from the scores.

    temperature  0 takes the best, and the next three are left out; larger is more even
    top_k        only the k best
    top_p        only the best that together have this much probability
    min_p        only those with at least this share of the best one's probability
    repetition   scores of tokens that were there already are divided by it (multiplied where negative)
    never        ids that are not written at all, such as padding
    raises       InputError for a number outside its range
    """

    temperature: float = 0.0
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    repetition: float = 1.0
    never: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        ranges = {
            "temperature": (0.0, math.inf), "top_k": (1, math.inf), "top_p": (0.0, 1.0), "min_p": (0.0, 1.0),
            "repetition": (1e-9, math.inf),
        }  # fmt: skip
        for name, (low, high) in ranges.items():
            said = getattr(self, name)
            value = whole(said) if name == "top_k" else number(said)
            if said is None and name in ("top_k", "top_p", "min_p"):
                continue
            if value is None or not low <= value <= high:
                raise InputError(f"{name} is in {low:g}..{high:g}, but got {said!r}.")
            object.__setattr__(self, name, value)
        if 0 < self.temperature < COLDEST:
            raise InputError(f"temperature is 0, or {COLDEST:g} or more, but got {self.temperature}.")
        nothing = {"top_k": None, "top_p": 1.0, "min_p": 0.0}  # what leaves all tokens in
        chooses = next((name for name, all_in in nothing.items() if getattr(self, name) not in (None, all_in)), None)
        if self.temperature == 0 and chooses:
            raise InputError(
                f"{chooses} chooses among what is drawn, but temperature 0 draws nothing. Say temperature=1 beside it."
            )
        object.__setattr__(self, "never", tuple(stops(self.never)))

    def filtered(self, scores: Tensor, seen: Tensor) -> Tensor:
        """scores [B, V], and which tokens were there already, bool [B, V]; ruled-out ones come back as minus infinity."""
        scores = without(scores, self.never)
        if self.repetition != 1:
            scores = torch.where(seen, torch.where(scores < 0, scores * self.repetition, scores / self.repetition), scores)
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

    def chances(self, scores: Tensor, seen: Tensor) -> Tensor:
        """The probability of every token, [B, V]: all on the best one at temperature 0."""
        scores = self.filtered(scores.to(torch.promote_types(scores.dtype, torch.float32)), seen)
        if self.temperature == 0:
            return torch.zeros_like(scores).scatter(-1, scores.argmax(-1, keepdim=True), 1.0)
        return scores.softmax(-1)

    def pick(self, scores: Tensor, seen: Tensor, generator: torch.Generator | None) -> Tensor:
        """One token a sequence, [B]."""
        scores = self.filtered(scores.to(torch.promote_types(scores.dtype, torch.float32)), seen)
        if self.temperature == 0:
            return scores.max(-1).indices  # the first of the largest, as argmax, in a third of its time
        return torch.multinomial(scores.softmax(-1), 1, generator=generator)[..., 0]


def number(value: Any) -> float | None:
    """A number, also one of numpy or torch; None for anything else."""
    if isinstance(value, bool | str | bytes) or str(getattr(value, "dtype", "")).endswith("bool"):
        return None
    try:
        return float(value)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        return None


def without(scores: Tensor, never: tuple[int, ...]) -> Tensor:
    """Scores [..., V] with minus infinity for some ids. Raises InputError for an id that there is not."""
    if not never:
        return scores
    if not all(0 <= i < scores.shape[-1] for i in never):
        raise InputError(f"never holds ids in 0..{scores.shape[-1] - 1}, but got {list(never)}.")
    if len(set(never)) == scores.shape[-1]:
        raise InputError("never holds all ids that there are, so nothing is left to write.")
    return scores.index_fill(-1, torch.tensor(never, device=scores.device), -math.inf)


def there(decoding: Decoding | Recurrence) -> Tensor:
    """Which tokens stand in each prompt, bool [B, V]."""
    vocabulary = decoding.model.spec.vocabulary or 0
    seen = torch.zeros(len(decoding.ids), vocabulary + 1, dtype=torch.bool, device=decoding.ids.device)
    return seen.scatter(1, decoding.ids.masked_fill(~decoding.real, vocabulary), True)[:, :vocabulary]
