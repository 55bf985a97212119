"""Generation: one token after another, each read once, with a cache for every layer."""

from collections.abc import Collection, Iterator

import torch
from torch import Tensor

from equiscope.errors import InputError, ShapeError
from equiscope.models.beam import Beams, search
from equiscope.models.build import Memory, Model
from equiscope.models.decoding import Decoding, Texts, Writer, counted, known, rows_of, seeded, stops
from equiscope.models.networks import Network
from equiscope.models.recurrence import Recurrence
from equiscope.models.sampling import Sampling, there
from equiscope.models.speculate import Draft, speculate
from equiscope.models.window import windowed


def generate(
    model: Writer | Network, prompts: Texts, steps: int, sampling: Sampling | None = None, stop: Collection[int] = (),
    seed: int | None = None, source: Texts | Memory | None = None, beams: Beams | None = None, window: int | None = None,
    draft: Draft | None = None,
) -> list[Tensor]:  # fmt: skip
    """What follows each prompt, ids [up to `steps`] each; a sequence ends with the first of its `stop` tokens.

    model    a model, or `prepared(model)` or `Compiled(model)`, which are faster; or a baseline, an LSTM
    prompts  ids [N] of each, of any lengths; or [B, N]. Of a model with an encoder: the first tokens of the answers
    source   what an encoder reads, one text a prompt; or what `model.read` made of it
    beams    search for the best whole answer, instead of choosing token by token (`beam.search` gives several, with scores)
    window   see only so many tokens back: what the same parameters give with Attention(window=...), see `windowed`
    draft    let a smaller model write ahead; the texts stay those of the model
    raises   as `stream`, and InputError for beams beside sampling or a draft
    """
    stop = stops(stop)
    if isinstance(model, Network):
        if (source, beams, window, draft) != (None, None, None, None):
            raise InputError("A baseline writes token by token: leave source, beams, window and draft out.")
        return _rows(model, prompts, steps, sampling, stop, seed)
    if draft is not None and not isinstance(draft, Draft):
        raise InputError(f"A draft is Draft(model), but got {type(draft).__name__}.")
    model = model if window is None else _narrowed(model, window)
    if beams is not None:
        if sampling is not None and sampling != Sampling():
            raise InputError("Beams search for the best answer, so nothing is sampled. Leave sampling or beams out.")
        if draft is not None:
            raise InputError("Beams and a draft do not go together. Leave one of them out.")
        return [found[0].ids for found in search(model, prompts, steps, beams, stop, source)]
    if draft is not None:
        return _drafted(model, prompts, steps, sampling, stop, seed, source, draft)
    return _rows(model, prompts, steps, sampling, stop, seed, source)


def _rows(
    model: Writer | Network, prompts: Texts, steps: int, sampling: Sampling | None, stop: Collection[int], seed: int | None,
    source: Texts | Memory | None = None,
) -> list[Tensor]:  # fmt: skip
    rows = torch.stack(list(stream(model, prompts, steps, sampling, stop, seed, source)), -1)
    return [ended(row, stop) for row in rows]


def _narrowed(model: Writer, window: int) -> Model:
    if not isinstance(model, Model):
        raise InputError(
            "This was made of the model without a window. Use windowed(model, size) first: prepared(windowed(model, size))."
        )
    return windowed(model, window)


def _drafted(
    model: Writer, prompts: Texts, steps: int, sampling: Sampling | None, stop: Collection[int], seed: int | None,
    source: Texts | Memory | None, draft: Draft,
) -> list[Tensor]:  # fmt: skip
    """Text after text: each is kept for a length of its own."""
    if isinstance(source, Memory):
        raise InputError("A draft reads the source itself. Give ids as source=.")
    inner = model if isinstance(model, Model) else model.model
    texts = rows_of(prompts, inner, "Prompts", "A prompt")
    sources = [None] * len(texts) if source is None else rows_of(source, inner, "Sources", "A source")
    if len(sources) != len(texts):
        raise ShapeError(f"There are {len(sources)} sources, but {len(texts)} prompts. Give one prompt a source.")
    numbers = seeded(seed, texts[0].device)
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
    model: Writer | Network, prompts: Texts, steps: int, sampling: Sampling | None = None, stop: Collection[int] = (),
    seed: int | None = None, source: Texts | Memory | None = None,
) -> Iterator[Tensor]:  # fmt: skip
    """The next token of every sequence [B], one step after another; a sequence that has ended goes on with its stop token.

    raises  InputError for fewer steps than 1, a model that does not answer with its vocabulary, an empty prompt, a source without
            an encoder or an encoder without a source, and places that the scheme has not (before the first step), and for answers
            that are no numbers (before the first step, or after the last); ShapeError for prompts that are no lists of ids
    """
    steps, stop = counted(steps), stops(stop)
    decoding = Recurrence(model, prompts) if isinstance(model, Network) else Decoding(model, prompts, steps, source)
    ids, sampling = decoding.ids, sampling or Sampling()
    generator = seeded(seed, ids.device)
    seen = there(decoding)
    ending = torch.tensor(sorted(stop), dtype=ids.dtype, device=ids.device)
    done = torch.zeros(len(ids), dtype=torch.bool, device=ids.device)
    last, scores = ids[:, -1], decoding.open()
    for step in range(steps):
        following = sampling.pick(scores, seen, generator)
        last = torch.where(done, last, following) if stop else following
        if sampling.repetition != 1:
            seen = seen.scatter(1, last[:, None], True)
        yield last
        if stop:
            done = done | torch.isin(last, ending)
        if step + 1 == steps or (stop and bool(done.all())):
            known(scores)  # what is no number once stays so
            return
        scores = decoding.read(last[:, None])[:, -1]
