"""Decoding: a batch of token sequences during generation, with the caches of all layers.

Greedy, beam and speculative generation share it: the caches, the positions of the next tokens, and the output of the encoder.
Shorter prompts are padded on the left; positions count from the first real token.
"""

import operator
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from equiscope.attention import Cache, KeyValues, Mask
from equiscope.attention.static_cache import StaticCache
from equiscope.errors import InputError, ShapeError, counted
from equiscope.models.build import EncoderOutput, Model
from equiscope.models.compiled import Compiled
from equiscope.models.cpu_decoder import CPUDecoder, KVBuffer
from equiscope.tokens import Tokens

LanguageModel = Model | CPUDecoder | Compiled
Prompts = Sequence[Tensor | Sequence[int]] | Tensor  # ids [N] of each, of any lengths; or [B, N]


class Decoding:
    """The state of a batch during generation.

    model    a model, or what `prepared` or `Compiled` made of one
    prompts  what stands there already; source: what the encoder reads, of a model that has one (one text a prompt)
    steps    how many tokens will follow at most; spare: how many may be taken back at once
    ids      the prompts side by side [B, N]; real: bool [B, N], False where there is padding
    text     all ids so far [B, n], -1 for padding, of a model whose separators say where a document ends; None of another
    raises   InputError for a model that does not answer with its vocabulary, an empty prompt, and places that a scheme has not;
             ShapeError for prompts that are no lists of ids
    """

    def __init__(
        self, model: LanguageModel, prompts: Prompts, steps: int, source: Prompts | EncoderOutput | None = None, spare: int = 0
    ) -> None:  # fmt: skip
        if not isinstance(model, LanguageModel):
            raise InputError(
                f"Generation takes a model with attention, or a CPUDecoder or Compiled of one, but got {type(model).__name__}."
            )
        steps = step_count(steps)
        self.cpu_decoder = model.verified() if isinstance(model, CPUDecoder) and model.layers else None
        self._compiled_step = model.step if isinstance(model, Compiled) else None
        self.model = model = model if isinstance(model, Model) else model.model
        _check_language_model(model)
        self._prompt, self.ids, self.valid = _left_padded(model, id_tensors(prompts, model, "Prompts", "A prompt"))
        self.all_ids = None if model.input_layer.separator is None else self.ids.masked_fill(~self.valid, -1)
        self.encoder_output = _encoded_source(model, source, len(self.ids))
        self.position, self.rank = self._prompt.positions[:, -1:], self._prompt.order[:, -1:]
        self.padded = self._prompt.valid is not None
        _check_positions(model, self._prompt, steps)
        self.caches: list[Any] = list(model.caches())
        self.buffer: KVBuffer | None = None  # used instead of the caches by the CPU decoder
        self._capacity = self.ids.shape[1] + steps + spare
        if self._compiled_step is not None:
            if odd := next((cache for cache in self.caches if not isinstance(cache, Cache)), None):
                raise InputError(
                    f"A compiled step needs caches of keys and values, but this model has {type(odd).__name__}. "
                    "Use the model itself."
                )
            self.caches = [StaticCache(cache.mask, self._capacity) for cache in self.caches]
        for cache in self.caches if spare or self.cpu_decoder else []:
            cache.spare = self._capacity if self.cpu_decoder else spare

    def prefill(self) -> Tensor:
        """Process the prompts. Returns the logits of the next token, [B, V]. Raises InputError where they are not finite."""
        prompt = self._prompt
        if self.cpu_decoder is not None and self.ids.numel() <= self.cpu_decoder.max_prompt:
            self.buffer = KVBuffer.empty(self.model, prompt.positions, self._capacity, self.encoder_output, self.padded)
            scores = self.cpu_decoder.step(self.ids, self.buffer, prompt.positions, prompt.order, prompt.valid, 1)[:, -1]
            return finite_scores(scores.clone())  # an ordinary tensor again, as after a long prompt
        scores = self._run(prompt, 1)[:, -1]
        if self.cpu_decoder is not None:
            self.buffer = KVBuffer.of(self.caches, self.encoder_output, self._capacity)
        return finite_scores(scores)

    def step(self, ids: Tensor) -> Tensor:
        """Process new ids [B, n]. Returns the logits of the token after each of them, [B, n, V]."""
        if ids.shape[1] == 1:
            position, rank = self.position + 1, self.rank + 1
        else:
            steps = torch.arange(1, ids.shape[1] + 1, device=ids.device)
            position, rank = self.position + steps.to(self.position.dtype)[:, None], self.rank + steps
        self.position, self.rank = position[:, -1:], rank[:, -1:]
        valid = torch.ones_like(rank, dtype=torch.bool) if self.padded else None
        if self.buffer is not None and self.cpu_decoder is not None:
            return self.cpu_decoder.step(ids, self.buffer, position, rank, valid)
        return self._run(
            Tokens(x=self.model.tokens(ids).x, positions=position, order=rank, valid=valid, document=self._documents(ids))
        )

    def select(self, rows: Tensor) -> None:
        """Keep the sequences with these numbers [B'], in this order; a number may occur several times."""
        if self.buffer is not None:
            self.buffer.select(rows)
        for cache in self.caches if self.buffer is None else []:
            if not hasattr(cache, "pick"):
                raise InputError(f"A {type(cache).__name__} cannot select sequences, which beam search needs.")
            cache.pick(rows)
        self.position, self.rank = self.position[rows], self.rank[rows]
        self.all_ids = None if self.all_ids is None else self.all_ids[rows]

    def repeat(self, times: int) -> None:
        """Repeat every sequence `times` times; the copies are adjacent."""
        rows = torch.arange(len(self.position), device=self.position.device).repeat_interleave(times)
        self.select(rows)
        if self.encoder_output is not None:
            self.encoder_output = _select_rows(self.encoder_output, rows)
            if self.buffer is not None:
                self.buffer.encoder_output = self.encoder_output

    def rollback(self, count: int) -> None:
        """Drop the last `count` tokens."""
        if self.buffer is not None:
            self.buffer.count -= count
        for cache in self.caches if self.buffer is None else []:
            if not hasattr(cache, "back"):
                raise InputError(f"A {type(cache).__name__} cannot drop tokens, which speculative decoding needs.")
            cache.back(count)
        self.position, self.rank = self.position - count, self.rank - count
        self.all_ids = None if self.all_ids is None else self.all_ids[:, : self.all_ids.shape[1] - count]

    def _documents(self, ids: Tensor) -> Tensor | None:
        """The document numbers of the new ids [B, n]: they depend on the separators in all ids so far."""
        if self.all_ids is None or self.model.input_layer.separator is None:
            return None
        self.all_ids = torch.cat([self.all_ids, ids], 1)
        documents: Tensor = self.model.input_layer.separator(self.all_ids)
        return documents[:, -ids.shape[1] :]

    def _run(self, tokens: Tokens, rows: int | None = None) -> Tensor:
        if self._compiled_step is not None and rows is None and tokens.x.shape[-2] == 1:
            scores: Tensor = self._compiled_step(tokens, self.caches, self.encoder_output)
        else:
            scores = self.model(tokens, self.caches, self.encoder_output, rows)
        return scores if scores.ndim == 3 else scores.unsqueeze(1)


def finite_scores(scores: Tensor) -> Tensor:
    """The logits [..., V] themselves. Raises InputError where one of them is NaN or infinite."""
    if not bool((scores.amax(-1) < torch.inf).all()):  # the maximum is NaN where one is
        kind = str(scores.dtype).removeprefix("torch.")
        raise InputError(
            f"The model's logits are not finite ({kind}). Its weights hold NaN or infinity, or an intermediate result is too large "
            "for their dtype: check the weights, or load them in float32."
        )
    return scores


def id_tensors(texts: Prompts, model: nn.Module, what: str, one: str) -> list[Tensor]:
    """Sequences as tensors on the model's device. Raises ShapeError where they are not ids, InputError where one is empty."""
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
    """A list, a range or a numpy array as a new tensor."""
    own = row.copy() if hasattr(row, "copy") else list(row)
    return torch.as_tensor(own, dtype=None if len(own) else torch.long)


def as_int(value: Any) -> int | None:
    """An integer of Python, numpy or torch as int; None for anything else."""
    try:
        return None if str(getattr(value, "dtype", type(value))).endswith(("bool", "bool'>")) else operator.index(value)
    except TypeError:
        return None


def step_count(steps: int) -> int:
    """Steps as an int. Raises InputError where they are not a positive integer."""
    count = as_int(steps)
    if count is None or count < 1:
        raise InputError(f"steps is a number of tokens of 1 or more, but got {steps!r}.")
    return count


def stop_ids(stop: Iterable[int]) -> list[int]:
    """The ids that end a sequence. Raises InputError where they are not ids."""
    try:
        ids = [as_int(i) for i in stop]
    except TypeError:  # not iterable, such as a tensor of one number
        ids = [None]
    valid = [i for i in ids if i is not None]
    if len(valid) < len(ids):
        raise InputError(f"stop is a list of ids, such as [2], but got {stop!r}.")
    return valid


def random_generator(seed: int | torch.Generator | None, device: torch.device) -> torch.Generator | None:
    """A random generator; None for torch's global one. Raises InputError where a seed is not an integer."""
    if seed is None or isinstance(seed, torch.Generator):
        return seed
    number = as_int(seed)
    if number is None or not -(2**63) <= number < 2**64:
        raise InputError(f"A seed is a whole number of 64 bits, but got {seed!r}.")
    return torch.Generator(device).manual_seed(number)


def _check_language_model(model: Model) -> None:
    s = model.spec
    if s.vocabulary is None or s.outputs != s.vocabulary or s.readout not in ("each", "last"):
        raise InputError("Only a model whose outputs are its vocabulary (outputs = vocabulary, readout each or last) can generate.")
    masks = [getattr(getattr(block, "attention", None), "mask", None) for block in model.blocks]
    if any(isinstance(mask, Mask) and not mask.is_causal for mask in masks):
        raise InputError("This model is bidirectional: tokens attend to later ones, so it cannot generate one token after another. "
                         "Generation needs a causal mask, Attention(causal=True), as GPT-2, Llama or T5 have.")  # fmt: skip


def _left_padded(model: Model, rows: list[Tensor]) -> tuple[Tokens, Tensor, Tensor]:
    """Tokens, ids and which of them are valid; shorter sequences are padded on the left."""
    longest = max(len(row) for row in rows)
    ids = torch.stack([torch.nn.functional.pad(row, (longest - len(row), 0)) for row in rows])
    tokens = model.tokens(ids)
    if len({len(row) for row in rows}) == 1:
        at, order = tokens.positions.expand(len(rows), longest, 1), tokens.order.expand(len(rows), longest)
        return replace(tokens, positions=at, order=order, counted=None), ids, torch.ones_like(ids, dtype=torch.bool)
    start = torch.tensor([longest - len(row) for row in rows], device=ids.device)[:, None]
    rank = torch.arange(longest, device=ids.device) - start
    at = rank.clamp(min=0).to(tokens.positions.dtype)[..., None]
    separator, valid = model.input_layer.separator, rank >= 0
    document = None if separator is None else separator(ids.masked_fill(~valid, -1))
    return Tokens(x=tokens.x, positions=at, order=rank, document=document, valid=valid), ids, valid


def _encoded_source(model: Model, source: Prompts | EncoderOutput | None, texts: int) -> EncoderOutput | None:
    """The output of the encoder, computed once for all steps."""
    if source is None:
        if model.encoder is not None:
            raise InputError("This model has an encoder: give its input as source=, and the decoder's first tokens as prompts.")
        return None
    if not isinstance(source, EncoderOutput):
        if model.encoder is None:
            raise InputError("This model has no encoder, so source= must be left out.")
        source = model.encode(_left_padded(model.encoder, id_tensors(source, model, "Sources", "A source"))[0])
    if source.tokens.x.ndim != 3:
        raise ShapeError("This source was encoded without a batch, [M]. Encode it as a batch of one: model.encode(ids[None]).")
    if len(source.tokens.x) != texts:
        raise ShapeError(
            f"Each source takes one prompt, but got {counted(len(source.tokens.x), 'source')} and {counted(texts, 'prompt')}."
        )
    return source


def _select_rows(encoder_output: EncoderOutput, rows: Tensor) -> EncoderOutput:
    t = encoder_output.tokens
    flags = {name: f[rows] for name in ("positions", "order", "document", "valid") if (f := getattr(t, name)) is not None}
    if t.positions.ndim < 3:
        flags["positions"] = t.positions
    flags |= {name: f for name in ("order", "document", "valid") if (f := getattr(t, name)) is not None and f.ndim < 2}
    tokens = replace(t, x=t.x[rows], counted=None, **flags)
    return EncoderOutput(tokens, tuple(KeyValues(h.k[rows], h.v[rows], tokens) for h in encoder_output.key_values))


def _check_positions(model: Model, tokens: Tokens, steps: int) -> None:
    """Raise InputError, before the first step, where a scheme has no position for the last step of the longest sequence."""
    error = _position_error(model, tokens, steps)
    if error is None:
        return
    if any(block.attention.joint_mask.window for block in model.spec.blocks):
        raise InputError(f"{error} A window limits the mask, not the positions.") from error
    low, high = 0, steps  # the largest known to fit, the smallest known not to
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _position_error(model, tokens, middle) else (middle, high)
    if not low:
        raise error
    longest = " the longest" if len(tokens.positions) > 1 else " this"
    raise InputError(f"{error} After{longest} prompt there is room for {counted(low, 'token')}.") from error


def _position_error(model: Model, tokens: Tokens, steps: int) -> InputError | None:
    """The error that a scheme raises at the last of this many steps, if any."""
    end = tokens.positions[:, -1:].amax(0, keepdim=True) + max(steps - 1, 0)
    try:
        for scheme in model.schemes:
            scheme.check(end)
            scheme.embed(tokens.x[:1, -1:], end)
    except InputError as error:
        return error
    return None
