"""Decoding: texts that a model has read so far, side by side, and what it says comes next.

What greedy, beam and speculative generation share: the caches of all layers, the places of the next tokens, and what an
encoder made of the source. Shorter texts are padded on the left, and counted from where they begin.
"""

import operator
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from equiscope.attention import Cache, KeyValues, Mask
from equiscope.attention.static_cache import StaticCache
from equiscope.errors import InputError, ShapeError
from equiscope.models.build import Memory, Model
from equiscope.models.compiled import Compiled
from equiscope.models.prepared import Prepared, Rows
from equiscope.tokens import Tokens

Writer = Model | Prepared | Compiled
Texts = Sequence[Tensor | Sequence[int]] | Tensor  # ids [N] of each, of any lengths; or [B, N]


class Decoding:
    """A batch in the middle of being written.

    model    a model, or what `prepared` or `Compiled` made of one
    prompts  what stands there already; source: what the encoder reads, of a model that has one (one text a prompt)
    steps    how many tokens will follow at most; spare: how many may be taken back at once
    ids      the prompts side by side [B, N]; real: bool [B, N], False where there is padding
    text     all ids so far [B, n], -1 for padding, of a model whose separators say where a document ends; None of another
    raises   InputError for a model that does not answer with its vocabulary, an empty prompt, and places that a scheme has not;
             ShapeError for prompts that are no lists of ids
    """

    def __init__(
        self, model: Writer, prompts: Texts, steps: int, source: Texts | Memory | None = None, spare: int = 0
    ) -> None:  # fmt: skip
        if not isinstance(model, Writer):
            raise InputError(f"What writes is a model with attention, or prepared or compiled, but got {type(model).__name__}.")
        steps = counted(steps)
        self.short = model.fresh() if isinstance(model, Prepared) and model.layers else None
        self._step = model.step if isinstance(model, Compiled) else None
        self.model = model = model if isinstance(model, Model) else model.model
        _answers_with_words(model)
        self._prompt, self.ids, self.real = _side_by_side(model, rows_of(prompts, model, "Prompts", "A prompt"))
        self.text = None if model.input_layer.separator is None else self.ids.masked_fill(~self.real, -1)
        self.memory = _read(model, source, len(self.ids))
        self.place, self.rank = self._prompt.positions[:, -1:], self._prompt.order[:, -1:]
        self.padded = self._prompt.valid is not None
        _room(model, self._prompt, steps)
        self.caches: list[Any] = list(model.caches())
        self.rows: Rows | None = None  # instead of the caches, where the short way is taken
        self._room = self.ids.shape[1] + steps + spare
        if self._step is not None:
            if odd := next((cache for cache in self.caches if not isinstance(cache, Cache)), None):
                raise InputError(
                    f"A compiled step writes into rows, but this model keeps {type(odd).__name__}. Use the model itself."
                )
            self.caches = [StaticCache(cache.mask, self._room) for cache in self.caches]
        for cache in self.caches if spare or self.short else []:
            cache.spare = self._room if self.short else spare

    def open(self) -> Tensor:
        """Read the prompts. Scores of what comes next, [B, V]. Raises InputError where they are no numbers."""
        prompt = self._prompt
        if self.short is not None and self.ids.numel() <= self.short.prompt:
            self.rows = Rows.empty(self.model, prompt.positions, self._room, self.memory, prompt.valid is not None)
            scores = self.short.step(self.ids, self.rows, prompt.positions, prompt.order, prompt.valid, 1)[:, -1]
            return known(scores.clone())  # an ordinary tensor again, as after a long prompt
        scores = self._answer(prompt, 1)[:, -1]
        if self.short is not None:
            self.rows = Rows.of(self.caches, self.memory, self._room)
        return known(scores)

    def read(self, ids: Tensor) -> Tensor:
        """Read what was chosen, ids [B, n]. Scores of what follows each of them, [B, n, V]."""
        if ids.shape[1] == 1:
            place, rank = self.place + 1, self.rank + 1
        else:
            steps = torch.arange(1, ids.shape[1] + 1, device=ids.device)
            place, rank = self.place + steps.to(self.place.dtype)[:, None], self.rank + steps
        self.place, self.rank = place[:, -1:], rank[:, -1:]
        valid = torch.ones_like(rank, dtype=torch.bool) if self.padded else None
        if self.rows is not None and self.short is not None:
            return self.short.step(ids, self.rows, place, rank, valid)
        return self._answer(
            Tokens(x=self.model.tokens(ids).x, positions=place, order=rank, valid=valid, document=self._documents(ids))
        )

    def pick(self, rows: Tensor) -> None:
        """Keep the texts with these numbers [B'], in this order; one may come several times."""
        if self.rows is not None:
            self.rows.pick(rows)
        for cache in self.caches if self.rows is None else []:
            if not hasattr(cache, "pick"):
                raise InputError(f"A {type(cache).__name__} cannot go on with several texts after one, as beams do.")
            cache.pick(rows)
        self.place, self.rank = self.place[rows], self.rank[rows]
        self.text = None if self.text is None else self.text[rows]

    def repeat(self, times: int) -> None:
        """Every text so many times, the copies side by side."""
        rows = torch.arange(len(self.place), device=self.place.device).repeat_interleave(times)
        self.pick(rows)
        if self.memory is not None:
            self.memory = _picked(self.memory, rows)
            if self.rows is not None:
                self.rows.memory = self.memory

    def back(self, count: int) -> None:
        """Forget the `count` tokens that were read last."""
        if self.rows is not None:
            self.rows.count -= count
        for cache in self.caches if self.rows is None else []:
            if not hasattr(cache, "back"):
                raise InputError(f"A {type(cache).__name__} cannot take tokens back, as speculation does.")
            cache.back(count)
        self.place, self.rank = self.place - count, self.rank - count
        self.text = None if self.text is None else self.text[:, : self.text.shape[1] - count]

    def _documents(self, ids: Tensor) -> Tensor | None:
        """The documents of ids [B, n] that come next, which the separators in all ids before them decide."""
        if self.text is None or self.model.input_layer.separator is None:
            return None
        self.text = torch.cat([self.text, ids], 1)
        documents: Tensor = self.model.input_layer.separator(self.text)
        return documents[:, -ids.shape[1] :]

    def _answer(self, tokens: Tokens, rows: int | None = None) -> Tensor:
        if self._step is not None and rows is None and tokens.x.shape[-2] == 1:
            scores: Tensor = self._step(tokens, self.caches, self.memory)
        else:
            scores = self.model(tokens, self.caches, self.memory, rows)
        return scores if scores.ndim == 3 else scores.unsqueeze(1)


def known(scores: Tensor) -> Tensor:
    """Scores [..., V]. Raises InputError where one of them is no number, or is larger than any."""
    if not bool((scores.amax(-1) < torch.inf).all()):  # of NaN and others the largest is NaN
        kind = str(scores.dtype).removeprefix("torch.")
        raise InputError(
            f"The model's answers are no numbers ({kind}). Its weights hold some that are none, or what it computes grows too "
            "large for their dtype: look at the weights, or load them in float32."
        )
    return scores


def rows_of(texts: Texts, model: nn.Module, what: str, one: str) -> list[Tensor]:
    """A list of texts, where the model is. Raises ShapeError where they are no ids, InputError where one is empty."""
    if isinstance(texts, Tensor):
        rows = list(texts) if texts.ndim > 1 else [texts]
    else:
        try:
            rows = [row if isinstance(row, Tensor) else _numbers(row) for row in texts]
        except (TypeError, ValueError, RuntimeError) as error:
            raise ShapeError(f"{what} are lists of ids, or tensors of them, but got {str(texts)[:80]}.") from error
    if not rows or any(row.ndim != 1 or row.is_floating_point() or row.is_complex() or row.dtype is torch.bool for row in rows):
        shapes = [(tuple(row.shape), str(row.dtype).removeprefix("torch.")) for row in rows]
        raise ShapeError(f"{what} are lists of ids [N], or ids [B, N], but got {shapes}.")
    if min(len(row) for row in rows) == 0:
        raise InputError(f"{one} is empty. Begin with one token, such as the one that begins every text.")
    device = next(model.parameters()).device
    return [row.to(device, row.dtype if row.dtype in (torch.int32, torch.int64) else torch.long) for row in rows]


def _numbers(row: Any) -> Tensor:
    """A list, a range or an array of numpy as a tensor of its own."""
    own = row.copy() if hasattr(row, "copy") else list(row)
    return torch.as_tensor(own, dtype=None if len(own) else torch.long)


def whole(value: Any) -> int | None:
    """A whole number, also one of numpy or torch; None for anything else."""
    try:
        return None if str(getattr(value, "dtype", type(value))).endswith(("bool", "bool'>")) else operator.index(value)
    except TypeError:
        return None


def counted(steps: int) -> int:
    """Steps, as an int. Raises InputError where they are no number of tokens."""
    many = whole(steps)
    if many is None or many < 1:
        raise InputError(f"A text goes on by steps=1 or more tokens, but got {steps!r}.")
    return many


def stops(stop: Iterable[int]) -> list[int]:
    """Tokens that end a text. Raises InputError where they are no ids."""
    try:
        ids = [whole(i) for i in stop]
    except TypeError:  # nothing to go through, as a tensor of one number
        ids = [None]
    known = [i for i in ids if i is not None]
    if len(known) < len(ids):
        raise InputError(f"Tokens are said by their ids, such as [2], but got {stop!r}.")
    return known


def seeded(seed: int | torch.Generator | None, device: torch.device) -> torch.Generator | None:
    """A generator of random numbers; None for torch's own. Raises InputError where a seed is none."""
    if seed is None or isinstance(seed, torch.Generator):
        return seed
    number = whole(seed)
    if number is None or not -(2**63) <= number < 2**64:
        raise InputError(f"A seed is a whole number of 64 bits, but got {seed!r}.")
    return torch.Generator(device).manual_seed(number)


def _answers_with_words(model: Model) -> None:
    s = model.spec
    if s.vocabulary is None or s.outputs != s.vocabulary or s.readout not in ("each", "last"):
        raise InputError("Only a model that answers with its vocabulary (outputs = vocabulary, readout each or last) can go on.")
    masks = [getattr(getattr(block, "attention", None), "mask", None) for block in model.blocks]
    if any(isinstance(mask, Mask) and not mask.is_causal for mask in masks):
        raise InputError("This model reads both ways: each token looks at later ones, so none can be written after another. "
                         "What writes has a causal mask, Attention(causal=True), as GPT-2, Llama or T5.")  # fmt: skip


def _side_by_side(model: Model, rows: list[Tensor]) -> tuple[Tokens, Tensor, Tensor]:
    """Tokens, ids and what of them is real; shorter texts are padded on the left."""
    longest = max(len(row) for row in rows)
    ids = torch.stack([torch.nn.functional.pad(row, (longest - len(row), 0)) for row in rows])
    tokens = model.tokens(ids)
    if len({len(row) for row in rows}) == 1:
        at, order = tokens.positions.expand(len(rows), longest, 1), tokens.order.expand(len(rows), longest)
        return replace(tokens, positions=at, order=order, counted=None), ids, torch.ones_like(ids, dtype=torch.bool)
    start = torch.tensor([longest - len(row) for row in rows], device=ids.device)[:, None]
    rank = torch.arange(longest, device=ids.device) - start
    at = rank.clamp(min=0).to(tokens.positions.dtype)[..., None]
    separator, real = model.input_layer.separator, rank >= 0
    document = None if separator is None else separator(ids.masked_fill(~real, -1))
    return Tokens(x=tokens.x, positions=at, order=rank, document=document, valid=real), ids, real


def _read(model: Model, source: Texts | Memory | None, texts: int) -> Memory | None:
    """What the encoder makes of the source, once for all steps."""
    if source is None:
        if model.encoder is not None:
            raise InputError("This model has an encoder: give what it reads as source=, and as prompts the decoder's first tokens.")
        return None
    if not isinstance(source, Memory):
        if model.encoder is None:
            raise InputError("This model has no encoder, so there is no source to read.")
        source = model.read(_side_by_side(model.encoder, rows_of(source, model, "Sources", "A source"))[0])
    if source.tokens.x.ndim != 3:
        raise ShapeError("This source was read as one text [M]. Read it as a batch of one: model.read(ids[None]).")
    if len(source.tokens.x) != texts:
        raise ShapeError(f"There are {len(source.tokens.x)} sources, but {texts} prompts. Give one prompt a source.")
    return source


def _picked(memory: Memory, rows: Tensor) -> Memory:
    t = memory.tokens
    flags = {name: f[rows] for name in ("positions", "order", "document", "valid") if (f := getattr(t, name)) is not None}
    if t.positions.ndim < 3:
        flags["positions"] = t.positions
    flags |= {name: f for name in ("order", "document", "valid") if (f := getattr(t, name)) is not None and f.ndim < 2}
    tokens = replace(t, x=t.x[rows], counted=None, **flags)
    return Memory(tokens, tuple(KeyValues(h.k[rows], h.v[rows], tokens) for h in memory.key_values))


def _room(model: Model, tokens: Tokens, steps: int) -> None:
    """Let the scheme say, before the first step, whether it has a place for the last one of the longest text."""
    error = _outside(model, tokens, steps)
    if error is None:
        return
    if any(block.attention.joint_mask.window for block in model.spec.blocks):
        raise InputError(f"{error} A window bounds what is seen, not the places.") from error
    low, high = 0, steps  # so many steps have room, so many have not
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _outside(model, tokens, middle) else (middle, high)
    if not low:
        raise error
    longest = " the longest" if len(tokens.positions) > 1 else " this"
    raise InputError(f"{error} After{longest} prompt there is room for {low} token{'s' if low > 1 else ''}.") from error


def _outside(model: Model, tokens: Tokens, steps: int) -> InputError | None:
    """What a scheme says against the last of so many steps."""
    end = tokens.positions[:, -1:].amax(0, keepdim=True) + max(steps - 1, 0)
    try:
        for scheme in model.schemes:
            scheme.check(end)
            scheme.embed(tokens.x[:1, -1:], end)
    except InputError as error:
        return error
    return None
