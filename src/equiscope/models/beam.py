"""Beam search: the `count` best partial sequences are extended in every step, and the best finished one is returned.

Every step extends each beam by every token and keeps the best unfinished ones. Those that end with a stop token are stored with
their score: the sum of the log probabilities of their tokens, divided by length ** length_penalty.
The rules, stopping included, are those of transformers 5.23. Sources: Graves 2012; Wu et al. 2016, section 7 (length).
"""

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from equiscope.errors import InputError, wrong_choice
from equiscope.models.build import EncoderOutput
from equiscope.models.decoding import Decoding, LanguageModel, Prompts, as_int, finite_scores, step_count, stop_ids
from equiscope.models.sampling import ban, number

IMPOSSIBLE = -1e9  # the score of a candidate that must not be chosen, as in transformers
MAX_LENGTH_PENALTY = 10  # beyond it, scores overflow float32


@dataclass(frozen=True)
class Beams:
    """Settings of a beam search.

    count           number of beams
    length_penalty  scores are divided by length to this power; a value above 0 favours longer sequences
    early_stopping  when to stop: True as soon as `count` sequences are finished; False when the best beam could not beat the
                    worst finished sequence at its present length; "never" when it could not at any length
    returned        how many hypotheses `search` returns, at most `count`
    banned          ids that are never generated, such as padding
    raises          InputError for values outside their range
    """

    count: int = 4
    length_penalty: float = 1.0
    early_stopping: bool | Literal["never"] = False
    returned: int = 1
    banned: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        count, returned = as_int(self.count), as_int(self.returned)
        if count is None or returned is None or not 1 <= returned <= count:
            raise InputError(f"A search has at least 1 beam and returns 1..count hypotheses, but got {self}.")
        if not isinstance(self.early_stopping, bool) and self.early_stopping != "never":
            raise wrong_choice("Beams.early_stopping", self.early_stopping, [True, False, "never"])
        power = number(self.length_penalty)
        if power is None or not -MAX_LENGTH_PENALTY <= power <= MAX_LENGTH_PENALTY:
            raise InputError(f"length_penalty is in -{MAX_LENGTH_PENALTY}..{MAX_LENGTH_PENALTY}, but got {self.length_penalty!r}.")
        chosen = {"count": count, "returned": returned, "length_penalty": power, "banned": tuple(stop_ids(self.banned))}
        for name, value in chosen.items():
            object.__setattr__(self, name, value)


@dataclass(frozen=True)
class Hypothesis:
    """A finished sequence: its ids [up to `steps`], a stop token included, and its score."""

    ids: Tensor
    score: float


@dataclass
class _State:
    """Of B prompts with K beams each: the running and the finished sequences [B, K, steps], with their scores."""

    running: Tensor
    scores: Tensor
    finished: Tensor
    finished_scores: Tensor
    lengths: Tensor  # of finished sequences [B, K]; 0: none yet
    improvable: Tensor  # whether a running beam may still beat the finished ones, bool [B, 1]

    @classmethod
    def of(cls, texts: int, beams: int, steps: int, like: Tensor) -> "_State":
        ids = torch.zeros(texts, beams, steps, dtype=torch.long, device=like.device)
        scores = like.new_full((texts, beams), IMPOSSIBLE)
        first = scores.clone()
        first[:, 0] = 0.0  # all beams are equal at first: only one may be extended
        lengths = torch.zeros(texts, beams, dtype=torch.long, device=like.device)
        return cls(ids, first, ids.clone(), scores, lengths, torch.ones(texts, 1, dtype=torch.bool, device=like.device))


@torch.no_grad()
def search(
    model: LanguageModel, prompts: Prompts, steps: int, beams: Beams | None = None, stop: Collection[int] = (),
    source: Prompts | EncoderOutput | None = None,
) -> list[list[Hypothesis]]:  # fmt: skip
    """The best hypotheses for each prompt, best first.

    raises  as `stream`; InputError where the vocabulary is smaller than twice the number of beams
    """
    beams, stop, steps = beams or Beams(), stop_ids(stop), step_count(steps)
    if not isinstance(beams, Beams):
        raise InputError(f"beams is Beams(4) or alike, but got {beams!r}.")
    decoding = Decoding(model, prompts, steps, source)
    k, vocabulary, texts = beams.count, decoding.model.spec.vocabulary or 0, len(decoding.ids)
    width = max(2, 1 + len(set(stop))) * k  # so many candidates that k go on, even where all others end
    if width > vocabulary - len(set(beams.banned)):
        less = f", {len(set(beams.banned))} of which are banned" if beams.banned else ""
        raise InputError(f"{k} beams need a vocabulary of {width} or more, but the model's is {vocabulary}{less}. Use fewer beams.")
    ending = torch.tensor(sorted(stop), dtype=torch.long, device=decoding.ids.device)
    answer = decoding.prefill()
    decoding.repeat(k)
    answer = answer.repeat_interleave(k, 0)
    state = _State.of(texts, k, steps, answer.to(torch.promote_types(answer.dtype, torch.float32)))
    first = torch.arange(texts, device=answer.device)[:, None] * k
    for step in range(steps):
        log_p = ban(answer.to(state.scores.dtype).log_softmax(-1), beams.banned)  # as in transformers: the rest is not renormalised
        added = log_p.view(texts, k, vocabulary) + state.scores[..., None]
        best, where = added.flatten(1).topk(width)
        beam, token = where // vocabulary, where % vocabulary
        candidates = _gather(state.running, beam)
        candidates[..., step] = token
        ends = torch.isin(token, ending) | (step + 1 == steps)
        _add_finished(state, beams, candidates, best, ends, step + 1)
        going = (best + ends * IMPOSSIBLE).topk(k).indices
        state.running, state.scores = _gather(candidates, going), _gather(best + ends * IMPOSSIBLE, going)
        state.improvable = state.improvable & _improvable(state, beams, step + 1, steps)
        full = beams.early_stopping is True and bool((state.lengths > 0).all())
        if full or bool(ends.all()) or not bool(state.improvable.any()):
            break
        rows = (first + _gather(beam, going)).flatten()
        if bool((rows != torch.arange(len(rows), device=rows.device)).any()):
            decoding.select(rows)
        answer = finite_scores(decoding.step(state.running[..., step].reshape(-1, 1))[:, -1])
    return [_hypotheses(state, text, beams.returned) for text in range(texts)]


def _add_finished(state: _State, beams: Beams, candidates: Tensor, best: Tensor, ends: Tensor, length: int) -> None:
    """Merge newly finished sequences with earlier ones; only the first k candidates count, as in transformers."""
    k = beams.count
    among = torch.arange(best.shape[1], device=best.device) < k
    new = ends & among
    full = (state.lengths > 0).all(-1, keepdim=True) & (beams.early_stopping is True)
    shut = full.to(best.dtype) + (~state.improvable).to(best.dtype) + (~new).to(best.dtype)
    scores = torch.cat([state.finished_scores, best / length**beams.length_penalty + shut * IMPOSSIBLE], 1)
    lengths = torch.cat([state.lengths, new * length], 1)
    chosen = scores.topk(k).indices
    state.finished = _gather(torch.cat([state.finished, candidates], 1), chosen)
    state.finished_scores, state.lengths = _gather(scores, chosen), _gather(lengths, chosen)


def _improvable(state: _State, beams: Beams, length: int, steps: int) -> Tensor:
    """Whether the best running beam could still beat the worst finished one of its prompt, [B, 1]."""
    reached = steps if beams.early_stopping == "never" and beams.length_penalty > 0 else length
    possible = state.scores[:, :1] / reached**beams.length_penalty
    worst = torch.where(state.lengths > 0, state.finished_scores.amin(1, keepdim=True), IMPOSSIBLE)
    return (possible > worst).any(-1, keepdim=True)


def _gather(x: Tensor, index: Tensor) -> Tensor:
    """Of each prompt's candidates [B, C, ...], those with these numbers [B, K]."""
    return x.gather(1, index[(...,) + (None,) * (x.ndim - 2)].expand(*index.shape, *x.shape[2:]))


def _hypotheses(state: _State, text: int, keep: int) -> list[Hypothesis]:
    rows = zip(state.finished[text], state.finished_scores[text], state.lengths[text], strict=True)
    return [Hypothesis(ids[:n], float(score)) for ids, score, n in list(rows)[:keep] if n > 0 and math.isfinite(score)]
