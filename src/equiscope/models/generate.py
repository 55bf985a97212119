"""Generation: one token after another, each read once, with a cache for every layer."""

from collections.abc import Collection, Iterator

import torch
from torch import Tensor

from equiscope.errors import InputError, ShapeError, counted
from equiscope.models.beam import Beams, search
from equiscope.models.build import EncoderOutput, Model
from equiscope.models.decoding import (
    Decoding,
    LanguageModel,
    Prompts,
    finite_scores,
    id_tensors,
    random_generator,
    step_count,
    stop_ids,
)
from equiscope.models.networks import Network
from equiscope.models.recurrent_decoding import RecurrentDecoding
from equiscope.models.sampling import Sampling, seen_ids
from equiscope.models.speculate import Draft, speculate
from equiscope.models.window import windowed


def generate(
    model: LanguageModel | Network, prompts: Prompts, steps: int, sampling: Sampling | None = None, stop: Collection[int] = (),
    seed: int | None = None, source: Prompts | EncoderOutput | None = None, beams: Beams | None = None, window: int | None = None,
    draft: Draft | None = None,
) -> list[Tensor]:  # fmt: skip
    """The continuation of each prompt, ids [up to `steps`] each; a sequence ends with its first `stop` token.

    model    a model, or `CPUDecoder(model)` or `Compiled(model)`, which are faster; or an LSTM baseline
    prompts  ids [N] of each, of any lengths; or [B, N]. For a model with an encoder: the first tokens of the decoder
    source   the input of the encoder, one sequence a prompt; or the result of `model.encode`
    beams    beam search instead of sampling (`beam.search` returns several hypotheses with scores)
    window   attend to the last `window` tokens only, as the same parameters do with Attention(window=...); see `windowed`
    draft    speculative decoding with a smaller model; the results are those of the model
    raises   as `stream`, and InputError for beams together with sampling or a draft
    """
    stop = stop_ids(stop)
    if isinstance(model, Network):
        if (source, beams, window, draft) != (None, None, None, None):
            raise InputError("A baseline generates token by token: leave source, beams, window and draft out.")
        return _rows(model, prompts, steps, sampling, stop, seed)
    if draft is not None and not isinstance(draft, Draft):
        raise InputError(f"A draft is Draft(model), but got {type(draft).__name__}.")
    model = model if window is None else _narrowed(model, window)
    if beams is not None:
        if sampling is not None and sampling != Sampling():
            raise InputError("Beam search samples nothing. Leave sampling or beams out.")
        if draft is not None:
            raise InputError("Beam search takes no draft. Leave one of them out.")
        return [hypotheses[0].ids for hypotheses in search(model, prompts, steps, beams, stop, source)]
    if draft is not None:
        return _drafted(model, prompts, steps, sampling, stop, seed, source, draft)
    return _rows(model, prompts, steps, sampling, stop, seed, source)


def _rows(
    model: LanguageModel | Network, prompts: Prompts, steps: int, sampling: Sampling | None, stop: Collection[int],
    seed: int | None, source: Prompts | EncoderOutput | None = None,
) -> list[Tensor]:  # fmt: skip
    rows = torch.stack(list(stream(model, prompts, steps, sampling, stop, seed, source)), -1)
    return [ended(row, stop) for row in rows]


def _narrowed(model: LanguageModel, window: int) -> Model:
    if not isinstance(model, Model):
        raise InputError(
            "This was made of the model without a window. Use windowed(model, size) first: CPUDecoder(windowed(model, size))."
        )
    return windowed(model, window)


def _drafted(
    model: LanguageModel, prompts: Prompts, steps: int, sampling: Sampling | None, stop: Collection[int], seed: int | None,
    source: Prompts | EncoderOutput | None, draft: Draft,
) -> list[Tensor]:  # fmt: skip
    """Text after text: each is kept for a length of its own."""
    if isinstance(source, EncoderOutput):
        raise InputError("A draft reads the source itself. Give ids as source=.")
    inner = model if isinstance(model, Model) else model.model
    texts = id_tensors(prompts, inner, "Prompts", "A prompt")
    sources = [None] * len(texts) if source is None else id_tensors(source, inner, "Sources", "A source")
    if len(sources) != len(texts):
        raise ShapeError(
            f"Each source takes one prompt, but got {counted(len(sources), 'source')} and {counted(len(texts), 'prompt')}."
        )
    numbers = random_generator(seed, texts[0].device)
    return [
        torch.cat(list(speculate(model, text, steps, draft, sampling, stop, numbers, read)))
        for text, read in zip(texts, sources, strict=True)
    ]


def ended(row: Tensor, stop: Collection[int]) -> Tensor:
    """Ids [N] up to the first stop token, that one too."""
    ends = torch.isin(row, torch.tensor(sorted(stop), dtype=row.dtype, device=row.device)).nonzero()
    return row[: int(ends[0]) + 1] if len(ends) else row


@torch.no_grad()
def stream(
    model: LanguageModel | Network, prompts: Prompts, steps: int, sampling: Sampling | None = None, stop: Collection[int] = (),
    seed: int | None = None, source: Prompts | EncoderOutput | None = None,
) -> Iterator[Tensor]:  # fmt: skip
    """The next token of every sequence [B], one step after another; a sequence that has ended goes on with its stop token.

    raises  InputError for fewer steps than 1, a model that does not answer with its vocabulary, an empty prompt, a source without
            an encoder or an encoder without a source, and places that the scheme has not (before the first step), and for answers
            that are no numbers (before the first step, or after the last); ShapeError for prompts that are no lists of ids
    """
    steps, stop = step_count(steps), stop_ids(stop)
    decoding = RecurrentDecoding(model, prompts) if isinstance(model, Network) else Decoding(model, prompts, steps, source)
    ids, sampling = decoding.ids, sampling or Sampling()
    generator = random_generator(seed, ids.device)
    seen = seen_ids(decoding)
    ending = torch.tensor(sorted(stop), dtype=ids.dtype, device=ids.device)
    done = torch.zeros(len(ids), dtype=torch.bool, device=ids.device)
    last, scores = ids[:, -1], decoding.prefill()
    for step in range(steps):
        following = sampling.sample(scores, seen, generator)
        last = torch.where(done, last, following) if stop else following
        if sampling.repetition_penalty != 1:
            seen = seen.scatter(1, last[:, None], True)
        yield last
        if stop:
            done = done | torch.isin(last, ending)
        if step + 1 == steps or (stop and bool(done.all())):
            finite_scores(scores)  # what is no number once stays so
            return
        scores = decoding.step(last[:, None])[:, -1]
