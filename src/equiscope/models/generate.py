"""Generation: one token after another, each read once, with a cache for every layer.

Filters come in the order of transformers: repetition, temperature, top-k, top-p, min-p.
Sources: Holtzman et al. 2020 (top-p); Fan et al. 2018 (top-k); Nguyen et al. 2024 (min-p); Keskar et al. 2019 (repetition).
"""

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from equiscope.errors import InputError, ShapeError
from equiscope.models.build import Model
from equiscope.tokens import Tokens


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
    model: Model, prompts: Sequence[Tensor] | Tensor, steps: int, sampling: Sampling | None = None, stop: Collection[int] = (),
    seed: int | None = None,
) -> list[Tensor]:  # fmt: skip
    """What follows each prompt, ids [up to `steps`] each; a sequence ends with the first of its `stop` tokens.

    prompts  ids [N] of each, of any lengths; or [B, N]
    raises   as `stream`
    """
    rows = torch.stack(list(stream(model, prompts, steps, sampling, stop, seed)), -1)
    found = []
    for row in rows:
        ends = torch.isin(row, torch.tensor(sorted(stop), dtype=row.dtype, device=row.device)).nonzero()
        found.append(row[: int(ends[0]) + 1] if len(ends) else row)
    return found


@torch.no_grad()
def stream(
    model: Model, prompts: Sequence[Tensor] | Tensor, steps: int, sampling: Sampling | None = None, stop: Collection[int] = (),
    seed: int | None = None,
) -> Iterator[Tensor]:  # fmt: skip
    """The next token of every sequence [B], one step after another; a sequence that has ended goes on with its stop token.

    raises  InputError for a model that does not answer with its vocabulary, an empty prompt, and places that the scheme has not
            (before the first step); ShapeError for prompts that are no lists of ids
    """
    tokens, ids = _opened(model, prompts)
    _room(model, tokens, steps)
    sampling = sampling or Sampling()
    generator = None if seed is None else torch.Generator(ids.device).manual_seed(seed)
    vocabulary = model.spec.vocabulary or 0
    real = tokens.valid if tokens.valid is not None else torch.ones_like(ids, dtype=torch.bool)
    seen = torch.zeros(len(ids), vocabulary + 1, dtype=torch.bool, device=ids.device)
    seen = seen.scatter(1, ids.masked_fill(~real, vocabulary), True)[:, :vocabulary]
    ending = torch.tensor(sorted(stop), dtype=ids.dtype, device=ids.device)
    done = torch.zeros(len(ids), dtype=torch.bool, device=ids.device)
    last, caches = ids[:, -1], model.caches()
    place, rank = tokens.at[:, -1:], tokens.order[:, -1:]
    for _ in range(steps):
        scores = model(tokens, caches)
        following = sampling.pick(scores[:, -1] if scores.ndim == 3 else scores, seen, generator)
        last = torch.where(done, last, following)
        done = done | torch.isin(last, ending)
        seen = seen.scatter(1, last[:, None], True)
        yield last
        if bool(done.all()):
            return
        place, rank = place + 1, rank + 1
        valid = None if tokens.valid is None else torch.ones_like(rank, dtype=torch.bool)
        tokens = Tokens(x=model.tokens(last[:, None]).x, at=place, order=rank, valid=valid)


def _opened(model: Model, prompts: Sequence[Tensor] | Tensor) -> tuple[Tokens, Tensor]:
    """Prompts side by side, shorter ones padded on the left, and their ids."""
    if model.spec.vocabulary is None or model.spec.outputs != model.spec.vocabulary or model.spec.readout not in ("each", "last"):
        raise InputError("Only a model that answers with its vocabulary (outputs = vocabulary, readout each or last) can go on.")
    rows = list(prompts) if not isinstance(prompts, Tensor) or prompts.ndim > 1 else [prompts]
    if not rows or any(row.ndim != 1 or row.is_floating_point() for row in rows):
        shapes = [tuple(row.shape) for row in rows]
        raise ShapeError(f"Prompts are lists of ids [N], or ids [B, N], but their shapes are {shapes}.")
    if min(len(row) for row in rows) == 0:
        raise InputError("A prompt is empty. Begin with one token, such as the one that begins every text.")
    longest = max(len(row) for row in rows)
    ids = torch.stack([torch.nn.functional.pad(row, (longest - len(row), 0)) for row in rows])
    tokens = model.tokens(ids)
    if len({len(row) for row in rows}) == 1:
        at, order = tokens.at.expand(len(rows), longest, 1), tokens.order.expand(len(rows), longest)
        return Tokens(x=tokens.x, at=at, order=order), ids
    start = torch.tensor([longest - len(row) for row in rows], device=ids.device)[:, None]
    rank = torch.arange(longest, device=ids.device) - start
    return Tokens(x=tokens.x, at=rank.clamp(min=0).to(tokens.at.dtype)[..., None], order=rank, valid=rank >= 0), ids


def _room(model: Model, tokens: Tokens, steps: int) -> None:
    """Let the scheme say, before the first step, whether it has a place for the last one."""
    end = tokens.at[:1, -1:] + max(steps - 1, 0)
    model.position.check(end)
    model.position.embed(tokens.x[:1, -1:], end)
