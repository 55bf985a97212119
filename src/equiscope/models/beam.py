"""Beam search: several beginnings of an answer are kept, and the best whole one is given.

In every step each kept beginning is followed by every token; the best few that go on stay, those that end are set aside with
their score: the sum of the logarithms of their tokens' probabilities, divided by length ** length_penalty.
The rules, also when to stop, are those of transformers 5.23. Sources: Graves 2012; Wu et al. 2016, section 7 (length).
"""

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from equiscope.errors import InputError
from equiscope.models.build import Memory
from equiscope.models.decoding import Decoding, Texts, Writer, counted, known, stops, whole
from equiscope.models.sampling import number, without

NEVER = -1e9  # the score of what must not be chosen, as there
STEEPEST = 10  # power of a length: beyond it, scores leave what float32 holds


@dataclass(frozen=True)
class Beams:
    """How to search.

    count           beginnings that are kept
    length_penalty  scores are divided by length to this power; above 0 longer answers gain
    early           when to stop: True as soon as `count` answers are whole; False when the best beginning would not beat the
                    worst answer at its present length; "never" when it could not at any length
    keep            answers given back, at most `count`
    never           ids that are not written at all, such as padding
    raises          InputError for numbers that make no search
    """

    count: int = 4
    length_penalty: float = 1.0
    early: bool | Literal["never"] = False
    keep: int = 1
    never: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        count, keep = whole(self.count), whole(self.keep)
        if count is None or keep is None or not 1 <= keep <= count:
            raise InputError(f"A search keeps at least 1 beam and gives 1..count answers, but got {self}.")
        if not any(self.early is known for known in (True, False)) and self.early != "never":
            raise InputError(f'early is True, False or "never", but got {self.early!r}.')
        power = number(self.length_penalty)
        if power is None or not -STEEPEST <= power <= STEEPEST:
            raise InputError(f"length_penalty is in -{STEEPEST}..{STEEPEST}, but got {self.length_penalty!r}.")
        kept = {"count": count, "keep": keep, "length_penalty": power, "never": tuple(stops(self.never))}
        for name, value in kept.items():
            object.__setattr__(self, name, value)


@dataclass(frozen=True)
class Found:
    """One answer: its ids [up to `steps`], a stop token included, and its score."""

    ids: Tensor
    score: float


@dataclass
class _State:
    """Of B texts with K beams each: what goes on [B, K, steps] with its score, and what is whole with its own."""

    running: Tensor
    scores: Tensor
    whole: Tensor
    whole_scores: Tensor
    lengths: Tensor  # of whole answers [B, K]; 0: there is none yet
    hope: Tensor  # whether a text's running beams may still beat its answers, bool [B, 1]

    @classmethod
    def of(cls, texts: int, beams: int, steps: int, like: Tensor) -> "_State":
        ids = torch.zeros(texts, beams, steps, dtype=torch.long, device=like.device)
        scores = like.new_full((texts, beams), NEVER)
        first = scores.clone()
        first[:, 0] = 0.0  # all beams are alike at first: only one may be followed
        lengths = torch.zeros(texts, beams, dtype=torch.long, device=like.device)
        return cls(ids, first, ids.clone(), scores, lengths, torch.ones(texts, 1, dtype=torch.bool, device=like.device))


@torch.no_grad()
def search(
    model: Writer, prompts: Texts, steps: int, beams: Beams | None = None, stop: Collection[int] = (),
    source: Texts | Memory | None = None,
) -> list[list[Found]]:  # fmt: skip
    """The best answers to each prompt, best first.

    raises  as `stream`; InputError where a vocabulary is smaller than twice the beams
    """
    beams, stop, steps = beams or Beams(), stops(stop), counted(steps)
    if not isinstance(beams, Beams):
        raise InputError(f"beams is Beams(4) or alike, but got {beams!r}.")
    decoding = Decoding(model, prompts, steps, source)
    k, vocabulary, texts = beams.count, decoding.model.spec.vocabulary or 0, len(decoding.ids)
    wide = max(2, 1 + len(set(stop))) * k  # so many that k go on, even where all others end
    if wide > vocabulary - len(set(beams.never)):
        less = f", {len(set(beams.never))} of which are never written" if beams.never else ""
        raise InputError(f"{k} beams need a vocabulary of {wide} or more, but the model's is {vocabulary}{less}. Use fewer beams.")
    ending = torch.tensor(sorted(stop), dtype=torch.long, device=decoding.ids.device)
    answer = decoding.open()
    decoding.repeat(k)
    answer = answer.repeat_interleave(k, 0)
    state = _State.of(texts, k, steps, answer.to(torch.promote_types(answer.dtype, torch.float32)))
    first = torch.arange(texts, device=answer.device)[:, None] * k
    for step in range(steps):
        chances = without(answer.to(state.scores.dtype).log_softmax(-1), beams.never)  # as there: what is left is not raised
        added = chances.view(texts, k, vocabulary) + state.scores[..., None]
        best, where = added.flatten(1).topk(wide)
        beam, token = where // vocabulary, where % vocabulary
        followed = _taken(state.running, beam)
        followed[..., step] = token
        ends = torch.isin(token, ending) | (step + 1 == steps)
        _set_aside(state, beams, followed, best, ends, step + 1)
        going = (best + ends * NEVER).topk(k).indices
        state.running, state.scores = _taken(followed, going), _taken(best + ends * NEVER, going)
        state.hope = state.hope & _hope(state, beams, step + 1, steps)
        full = beams.early is True and bool((state.lengths > 0).all())
        if full or bool(ends.all()) or not bool(state.hope.any()):
            break
        rows = (first + _taken(beam, going)).flatten()
        if bool((rows != torch.arange(len(rows), device=rows.device)).any()):
            decoding.pick(rows)
        answer = known(decoding.read(state.running[..., step].reshape(-1, 1))[:, -1])
    return [_found(state, text, beams.keep) for text in range(texts)]


def _set_aside(state: _State, beams: Beams, followed: Tensor, best: Tensor, ends: Tensor, length: int) -> None:
    """Merge answers that have just become whole with those before; only the first k candidates count, as in transformers."""
    k = beams.count
    among = torch.arange(best.shape[1], device=best.device) < k
    new = ends & among
    full = (state.lengths > 0).all(-1, keepdim=True) & (beams.early is True)
    shut = full.to(best.dtype) + (~state.hope).to(best.dtype) + (~new).to(best.dtype)
    scores = torch.cat([state.whole_scores, best / length**beams.length_penalty + shut * NEVER], 1)
    lengths = torch.cat([state.lengths, new * length], 1)
    kept = scores.topk(k).indices
    state.whole = _taken(torch.cat([state.whole, followed], 1), kept)
    state.whole_scores, state.lengths = _taken(scores, kept), _taken(lengths, kept)


def _hope(state: _State, beams: Beams, length: int, steps: int) -> Tensor:
    """Whether the best running beam could still beat the worst answer of its text, [B, 1]."""
    reached = steps if beams.early == "never" and beams.length_penalty > 0 else length
    possible = state.scores[:, :1] / reached**beams.length_penalty
    worst = torch.where(state.lengths > 0, state.whole_scores.amin(1, keepdim=True), NEVER)
    return (possible > worst).any(-1, keepdim=True)


def _taken(x: Tensor, index: Tensor) -> Tensor:
    """Of each text's candidates [B, C, ...], those with these numbers [B, K]."""
    return x.gather(1, index[(...,) + (None,) * (x.ndim - 2)].expand(*index.shape, *x.shape[2:]))


def _found(state: _State, text: int, keep: int) -> list[Found]:
    rows = zip(state.whole[text], state.whole_scores[text], state.lengths[text], strict=True)
    return [Found(ids[:n], float(score)) for ids, score, n in list(rows)[:keep] if n > 0 and math.isfinite(score)]
