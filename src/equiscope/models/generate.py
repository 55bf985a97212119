"""Generation: one token after another, each read once, with a cache for every layer.

Filters come in the order of transformers: repetition, temperature, top-k, top-p, min-p.
Sources: Holtzman et al. 2020 (top-p); Fan et al. 2018 (top-k); Nguyen et al. 2024 (min-p); Keskar et al. 2019 (repetition).
"""

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from equiscope.errors import InputError
from equiscope.models.beam import Beams, search
from equiscope.models.build import Memory, Model
from equiscope.models.decoding import Decoding, Texts
from equiscope.models.prepared import Prepared


@dataclass(frozen=True)
class Sampling:
    """How the next token is chosen from the scores.

    temperature  0 takes the best; larger is more even
    top_k        only the k best
    top_p        only the best that together have this much probability
    min_p        only those with at least this share of the best one's probability
    repetition   scores of tokens that were there already are divided by it (multiplied where negative)
    raises       InputError for a number outside its range
    """

    temperature: float = 0.0
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    repetition: float = 1.0

    def __post_init__(self) -> None:
        ranges = {
            "temperature": (0.0, math.inf), "top_k": (1, math.inf), "top_p": (0.0, 1.0), "min_p": (0.0, 1.0),
            "repetition": (1e-9, math.inf),
        }  # fmt: skip
        for name, (low, high) in ranges.items():
            value = getattr(self, name)
            if value is not None and not low <= value <= high:
                raise InputError(f"{name} is in {low:g}..{high:g}, but got {value}.")

    def filtered(self, scores: Tensor, seen: Tensor) -> Tensor:
        """scores [B, V], and which tokens were there already, bool [B, V]; ruled-out ones come back as minus infinity."""
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

    def pick(self, scores: Tensor, seen: Tensor, generator: torch.Generator | None) -> Tensor:
        """One token a sequence, [B]."""
        scores = self.filtered(scores.to(torch.promote_types(scores.dtype, torch.float32)), seen)
        if self.temperature == 0:
            return scores.argmax(-1)
        return torch.multinomial(scores.softmax(-1), 1, generator=generator)[..., 0]


def generate(
    model: Model | Prepared, prompts: Texts, steps: int, sampling: Sampling | None = None, stop: Collection[int] = (),
    seed: int | None = None, source: Texts | Memory | None = None, beams: Beams | None = None,
) -> list[Tensor]:  # fmt: skip
    """What follows each prompt, ids [up to `steps`] each; a sequence ends with the first of its `stop` tokens.

    prompts  ids [N] of each, of any lengths; or [B, N]. Of a model with an encoder: the first tokens of the answers
    source   what an encoder reads, one text a prompt; or what `model.read` made of it
    beams    search for the best whole answer, instead of choosing token by token (`beam.search` gives several, with scores)
    raises   as `stream`, and InputError for beams beside sampling
    """
    if beams is not None:
        if sampling is not None and sampling != Sampling():
            raise InputError("Beams search for the best answer, so nothing is sampled. Leave sampling or beams out.")
        return [found[0].ids for found in search(model, prompts, steps, beams, stop, source)]
    rows = torch.stack(list(stream(model, prompts, steps, sampling, stop, seed, source)), -1)
    return [ended(row, stop) for row in rows]


def ended(row: Tensor, stop: Collection[int]) -> Tensor:
    """Ids [N] up to the first stop token, that one too."""
    ends = torch.isin(row, torch.tensor(sorted(stop), dtype=row.dtype, device=row.device)).nonzero()
    return row[: int(ends[0]) + 1] if len(ends) else row


@torch.no_grad()
def stream(
    model: Model | Prepared, prompts: Texts, steps: int, sampling: Sampling | None = None, stop: Collection[int] = (),
    seed: int | None = None, source: Texts | Memory | None = None,
) -> Iterator[Tensor]:  # fmt: skip
    """The next token of every sequence [B], one step after another; a sequence that has ended goes on with its stop token.

    raises  InputError for a model that does not answer with its vocabulary, an empty prompt, a source without an encoder or an
            encoder without a source, and places that the scheme has not (before the first step); ShapeError for prompts that are
            no lists of ids
    """
    decoding = Decoding(model, prompts, steps, source)
    ids, sampling = decoding.ids, sampling or Sampling()
    generator = None if seed is None else torch.Generator(ids.device).manual_seed(seed)
    seen = there(decoding)
    ending = torch.tensor(sorted(stop), dtype=ids.dtype, device=ids.device)
    done = torch.zeros(len(ids), dtype=torch.bool, device=ids.device)
    last, scores = ids[:, -1], decoding.open()
    for step in range(steps):
        following = sampling.pick(scores, seen, generator)
        last = torch.where(done, last, following)
        done = done | torch.isin(last, ending)
        seen = seen.scatter(1, last[:, None], True)
        yield last
        if step + 1 == steps or bool(done.all()):
            return
        scores = decoding.read(last[:, None])[:, -1]


def there(decoding: Decoding) -> Tensor:
    """Which tokens stand in each prompt, bool [B, V]."""
    vocabulary = decoding.model.spec.vocabulary or 0
    seen = torch.zeros(len(decoding.ids), vocabulary + 1, dtype=torch.bool, device=decoding.ids.device)
    return seen.scatter(1, decoding.ids.masked_fill(~decoding.real, vocabulary), True)[:, :vocabulary]
