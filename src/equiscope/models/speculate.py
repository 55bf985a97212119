"""Speculative decoding: a small model proposes tokens, and the large one verifies several of them in one step.

Each proposed token x, drawn from q, is kept with probability min(1, p(x) / q(x)); the first that is not is drawn again from
the excess of p over q. So samples follow p, the large model, exactly; greedy text is the same token for token.
Source: Leviathan, Kalman & Matias 2023, section 2 and appendix A.1.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from equiscope.errors import InputError
from equiscope.models.build import EncoderOutput, Model
from equiscope.models.decoding import (
    Decoding,
    LanguageModel,
    Prompts,
    as_int,
    finite_scores,
    random_generator,
    step_count,
    stop_ids,
)
from equiscope.models.sampling import Sampling, seen_ids


@dataclass(frozen=True)
class Draft:
    """model: a smaller model with the same vocabulary; ahead: number of tokens that it proposes at a time."""

    model: LanguageModel
    ahead: int = 4

    def __post_init__(self) -> None:
        if not isinstance(self.model, LanguageModel):
            raise InputError(f"A draft is a model with attention, but got {type(self.model).__name__}.")
        ahead = as_int(self.ahead)
        if ahead is None or ahead < 1:
            raise InputError(f"A draft goes at least 1 token ahead, but got ahead={self.ahead!r}.")
        object.__setattr__(self, "ahead", ahead)


@torch.no_grad()
def speculate(
    model: LanguageModel, prompt: Prompts, steps: int, draft: Draft, sampling: Sampling | None = None, stop: Collection[int] = (),
    seed: int | torch.Generator | None = None, source: Prompts | EncoderOutput | None = None,
) -> Iterator[Tensor]:  # fmt: skip
    """The next tokens of one sequence, [1] each, as `stream` yields them. seed: or a generator, for several sequences.

    raises  as `stream`; InputError for several prompts, for a draft with another vocabulary, and for a model with outputs for the
            last token only
    """
    steps, stop = step_count(steps), stop_ids(stop)
    large = Decoding(model, prompt, steps, source, draft.ahead + 1)
    small = Decoding(draft.model, prompt, steps, source if _reads(draft) else None, draft.ahead + 1)
    if len(large.ids) != 1:
        raise InputError(f"Sequences accept different numbers of drafted tokens: give one prompt at a time, not {len(large.ids)}.")
    if (mine := large.model.spec.vocabulary) != (theirs := small.model.spec.vocabulary):
        raise InputError(f"The draft has a vocabulary of {theirs}, but the model one of {mine}. They must be the same tokens.")
    if large.model.spec.readout == "last":
        raise InputError('A draft is verified token by token, but this model has outputs for the last token only (readout "last").')
    generator = random_generator(seed, large.ids.device)
    text = _Sequence(sampling or Sampling(), seen_ids(large), set(stop), steps)
    unread = text.add(text.sampling.sample(large.prefill(), text.seen_tokens, generator))
    small.prefill()
    yield unread
    behind = unread  # tokens that the small model has not processed yet
    while text.left:
        ahead = min(draft.ahead, text.left - 1)  # the large model adds one more
        proposed, probabilities, seen = _propose(small, behind, ahead, text, generator)
        answers = finite_scores(large.step(torch.cat([unread, proposed])[None])[0])
        kept = 0
        while kept < ahead and text.left:
            p = text.sampling.probabilities(answers[kept : kept + 1], seen[kept])
            x = proposed[kept : kept + 1]
            if _accepted(p, probabilities[kept], int(x), generator):
                kept += 1
                yield text.add(x)
                continue
            unread = text.add(_sample((p - probabilities[kept]).clamp(min=0), p, generator))
            break
        else:
            if not text.left:
                return
            p = text.sampling.probabilities(answers[kept : kept + 1], text.seen_tokens)
            unread = text.add(_sample(p, p, generator))
        yield unread
        large.rollback(ahead - kept)
        small.rollback(max(ahead - 1 - kept, 0))
        behind = torch.cat([proposed[ahead - 1 :], unread]) if kept == ahead else unread


def _reads(draft: Draft) -> bool:
    """Whether the draft has an encoder."""
    model = draft.model if isinstance(draft.model, Model) else draft.model.model
    return model.encoder is not None


@dataclass
class _Sequence:
    """A sequence during generation: which tokens occurred, and how many may follow."""

    sampling: Sampling
    seen_tokens: Tensor
    stop: set[int]
    left: int

    def add(self, token: Tensor) -> Tensor:
        self.seen_tokens = self.seen_tokens.scatter(1, token[:, None], True)
        self.left = 0 if int(token) in self.stop else self.left - 1
        return token


def _propose(
    small: Decoding, behind: Tensor, ahead: int, text: _Sequence, generator: torch.Generator | None
) -> tuple[Tensor, list[Tensor], list[Tensor]]:  # fmt: skip
    """Tokens that the small model proposes [ahead], their probabilities [1, V], and the tokens that occurred before each."""
    seen, probabilities, before, tokens = text.seen_tokens, [], [], [behind[:0]]
    scores = finite_scores(small.step(behind[None])[:, -1])
    for i in range(ahead):
        q = text.sampling.probabilities(scores, seen)
        token = _sample(q, q, generator)
        before.append(seen)
        probabilities.append(q)
        tokens.append(token)
        seen = seen.scatter(1, token[:, None], True)
        if i + 1 < ahead:
            scores = small.step(token[None])[:, -1]
    return torch.cat(tokens), probabilities, before


def _accepted(p: Tensor, q: Tensor, x: int, generator: torch.Generator | None) -> bool:
    ratio = p[0, x] / q[0, x]
    return bool(ratio >= 1) or bool(torch.rand((), generator=generator, device=p.device, dtype=p.dtype) < ratio)


def _sample(weights: Tensor, otherwise: Tensor, generator: torch.Generator | None) -> Tensor:
    """One token [1] sampled by weights; by the other weights where rounding left none."""
    weights = weights if float(weights.sum()) > 0 else otherwise
    best = weights.max(-1)
    if float(best.values) == float(weights.sum()):  # one alone: nothing to draw
        return best.indices
    return torch.multinomial(weights, 1, generator=generator)[:, 0]
