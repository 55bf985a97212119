"""Model inputs: what a user passes to `show` with a model becomes the model's arguments and the token sequences of its rows."""

import inspect
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from equiscope.data.picture_files import address
from equiscope.errors import InputError, counted
from equiscope.program.attended.position_tables import max_positions, patch_side
from equiscope.record import TokenSequence
from equiscope.record.token_sequence import AudioClip, patch_sequence
from equiscope.tokens.labels import labels, words
from equiscope.tokens.sound import resampled

LONGEST = 8192  # tokens of an input
ANSWER = 32  # tokens that an encoder-decoder generates as its decoder's input
FINE, ROUGH, SHORT = 16_000, 8_000, 15.0  # samples a second; seconds up to which a sound keeps the higher rate
LARGEST = 32_767  # of 16 bits
PREFIXES = range(17)  # counts of tokens before the patches: class token, distillation token, registers


@dataclass
class LabelledInputs:
    """Arguments of a model, and the token sequences of its input. title: the input in a few words."""

    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    sequences: list[TokenSequence] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    title: str = ""

    def tensors(self) -> list[tuple[str, Tensor]]:
        """Tensors among the arguments, by their index ("0") or name."""
        named = [(str(i), one) for i, one in enumerate(self.args)] + list(self.kwargs.items())
        return [(name, one) for name, one in named if isinstance(one, Tensor)]


def model_inputs(
    model: nn.Module, inputs: Sequence[Any], kwargs: Mapping[str, Any] | None = None, tokenizer: Any = None,
    labels: Sequence[str] | None = None,
) -> LabelledInputs:  # fmt: skip
    """inputs: positional arguments of the model; or one mapping of names to tensors; or one text, which the tokenizer encodes.

    tokenizer  of transformers or of tokenizers: it also labels the ids of a row
    labels     one per token, where no tokenizer labels them
    raises     InputError where a text has no tokenizer, or one that does not fit the model, and where labels fit no input
    """
    prepared = LabelledInputs(tuple(inputs), dict(kwargs or {}))
    if len(inputs) == 1 and isinstance(inputs[0], Mapping):
        prepared.args, prepared.kwargs = (), {**inputs[0], **prepared.kwargs}
    elif len(inputs) == 1 and isinstance(inputs[0], str):
        _read(prepared, model, inputs[0], tokenizer)
    elif any(isinstance(one, str) for one in inputs):
        raise InputError(f"A text is the only input, but got {len(inputs)} inputs, some of them texts. Give one text.")
    elif tokenizer is not None:
        _name(prepared, tokenizer)
    if labels is not None:
        _label(prepared, list(labels))
    _answer(prepared, model, tokenizer)
    _picture(prepared, model)
    longest = max((len(one.labels) for one in prepared.sequences), default=0)
    if longest > LONGEST:
        raise InputError(f"There are {longest} tokens; at most {LONGEST} are shown. Give fewer.")
    return prepared


def _read(prepared: LabelledInputs, model: nn.Module, text: str, tokenizer: Any) -> None:
    if tokenizer is None:
        raise InputError(
            "A text needs the tokenizer that turns it into ids. Add tokenizer=..., or give the ids: torch.tensor([[12, 7, 3]])."
        )
    if not text.strip():
        raise InputError("The text is empty. Give at least one word.")
    ids, line = encoded(tokenizer, text)
    check_ids(model, ids)
    row = torch.tensor([ids], device=next((p.device for p in model.parameters()), None))
    named = "input_ids" in inspect.signature(model.forward).parameters
    prepared.args, prepared.kwargs = ((), {"input_ids": row, **prepared.kwargs}) if named else ((row,), prepared.kwargs)
    prepared.sequences.append(line)
    prepared.title = text if len(text) <= 48 else text[:47] + "…"


def check_ids(model: nn.Module, ids: Sequence[int]) -> None:
    """Raises InputError for ids outside the model's vocabulary, and for more ids than it has positions."""
    size, most = vocabulary_size(model), max_positions(model)
    if size is not None and max(ids) >= size:
        raise InputError(f"The tokenizer gives the id {max(ids)}, but the model's vocabulary has {size} ids. They do not fit.")
    if most is not None and len(ids) > most:
        raise InputError(
            f"The text has {counted(len(ids), 'token')}, but the model has {counted(most, 'position')}. Give a shorter one."
        )


def encoded(tokenizer: Any, text: str) -> tuple[list[int], TokenSequence]:
    """Ids of a text, and the sequence of their labels.

    raises  InputError where the tokenizer fails, or where it makes no token of the text
    """
    fast = fast_tokenizer(tokenizer)
    try:
        with _without_padding(fast):
            encoding: Any = None if fast is None else fast.encode(text)
            ids = [int(i) for i in (tokenizer(text)["input_ids"] if callable(tokenizer) else encoding.ids)]
    except Exception as error:  # other people's code
        raise InputError(
            f"{type(tokenizer).__name__} did not turn the text into ids: {type(error).__name__}: {error}. "
            "Give a tokenizer of transformers or of tokenizers."
        ) from error
    if not ids:
        raise InputError(f"The tokenizer makes no token of {text!r}. Give another text.")
    same = encoding is not None and encoding.ids == ids
    return ids, token_sequence("text", tokenizer, ids, text if same else None, encoding.offsets if same else ())


@contextmanager
def _without_padding(fast: Any | None) -> Iterator[None]:
    """Inside, the tokenizer neither pads nor truncates. Its settings are restored afterwards."""
    if fast is None:
        yield
        return
    padding, truncation = fast.padding, fast.truncation
    fast.no_padding()
    fast.no_truncation()
    try:
        yield
    finally:
        if padding is not None:
            fast.enable_padding(**padding)
        if truncation is not None:
            fast.enable_truncation(**truncation)


def fast_tokenizer(tokenizer: Any) -> Any | None:
    """The `tokenizers.Tokenizer` inside a fast tokenizer of transformers; None for others."""
    backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
    return backend if hasattr(backend, "id_to_token") else None


def token_sequence(
    name: str, tokenizer: Any, ids: list[int], text: str | None = None, offsets: Sequence[tuple[int, int]] = ()
) -> TokenSequence:
    """The sequence of these ids: decoded by the tokenizer, or as numbers without one."""
    fast = fast_tokenizer(tokenizer)
    if fast is not None:
        decoded = labels(fast, ids, text, offsets)
        return TokenSequence(name=name, kind="words", labels=decoded, words=words(fast, ids, decoded))
    decoded = [str(i) if tokenizer is None else tokenizer.decode([i]) or f"<{i}>" for i in ids]
    return TokenSequence(name=name, kind="words", labels=decoded)


def _name(prepared: LabelledInputs, tokenizer: Any) -> None:
    """A sequence for each input that holds token ids."""
    for name, ids in prepared.tensors():
        if ids.ndim == 2 and ids.dtype == torch.long and name not in ("attention_mask", "token_type_ids", "position_ids", "labels"):
            short = {"decoder_input_ids": "answer"}.get(name, "text")
            prepared.sequences.append(token_sequence(short, tokenizer, ids[0].tolist()))


def _label(prepared: LabelledInputs, names: list[str]) -> None:
    lengths = sorted({size for _, one in prepared.tensors() for size in one.shape})
    if lengths and len(names) not in lengths:
        sizes = ", ".join(map(str, lengths))
        raise InputError(f"There are {len(names)} labels, but axes of the inputs are {sizes} long. Give one a token.")
    prepared.sequences.insert(0, TokenSequence(name="text", kind="words", labels=names))


def _answer(prepared: LabelledInputs, model: Any, tokenizer: Any) -> None:
    """The decoder input of an encoder-decoder: its own greedy answer to the text."""
    takes = inspect.signature(model.forward).parameters
    ids = prepared.kwargs.get("input_ids", prepared.args[0] if prepared.args else None)
    wanted = "decoder_input_ids" in takes and not {"decoder_input_ids", "labels", "decoder_inputs_embeds"} & set(prepared.kwargs)
    if not wanted or not isinstance(ids, Tensor) or ids.is_floating_point() or len(prepared.args) > 1:
        return
    try:
        with torch.no_grad():
            answer = model.generate(ids, max_new_tokens=ANSWER, do_sample=False, num_beams=1)[:1]
    except Exception:  # the model has no language-model head and cannot generate
        begin = getattr(getattr(model, "config", None), "decoder_start_token_id", None) or 0
        answer = torch.full((1, 1), begin, device=ids.device)
        prepared.notes.append("The model cannot generate text, so its decoder reads only the start token.")
    answer = answer[:, :-1] if answer.shape[1] > 1 else answer  # the decoder does not read the last token
    prepared.kwargs["decoder_input_ids"] = answer
    prepared.sequences.append(token_sequence("answer", tokenizer, answer[0].tolist()))


def _picture(prepared: LabelledInputs, model: nn.Module) -> None:
    """Patches of the first input that is a picture, [B, C, H, W]. Colours range from its smallest to its largest number."""
    pixels = next((one[0] for _, one in prepared.tensors() if one.ndim == 4 and one.is_floating_point()), None)
    if pixels is None or pixels.shape[0] not in (1, 3):
        return
    values = pixels.detach().cpu().float()
    low, high = values.min(), values.max()
    shown = (255 * (values - low) / (high - low).clamp(min=1e-12)).byte().numpy()
    sequences = patch_sequences(model, (pixels.shape[1], pixels.shape[2]), address(np.ascontiguousarray(shown)))
    if sequences:
        prepared.sequences += sequences
        prepared.notes.append("The picture is shown as the model reads it: its smallest number is black, its largest white.")


def patch_sequences(model: Any, size: tuple[int, int], picture: str) -> list[TokenSequence]:
    """Possible sequences of the patches of a picture of this size, most likely first; the caller takes the one of the right length.

    The patch size comes from the spec, or from the first convolution whose stride equals its kernel. For other models patches are
    assumed square, with at most a class token before them.
    """
    side, input_layer = patch_side(model), getattr(getattr(model, "spec", None), "input", None)
    sides = getattr(input_layer, "patch", None) or ((side, side) if side is not None else None)
    if sides is not None and len(sides) == 2:
        grids, fronts = [[size[0] // sides[0], size[1] // sides[1]]], PREFIXES
    else:
        squares = (n for n in range(2, min(size) // 2 + 1) if size[0] % n == size[1] % n == 0)
        grids, fronts = [[size[0] // n, size[1] // n] for n in squares], range(2)
    return [patch_sequence(grid, front, picture) for front in fronts for grid in grids]


def vocabulary_size(model: Any) -> int | None:
    """The vocabulary size of a model of transformers; None where it does not say."""
    try:
        rows = model.get_input_embeddings().num_embeddings
    except Exception:  # not every class has one
        return None
    return rows if isinstance(rows, int) else None


def sound_clip(wave: Tensor, rate: int) -> AudioClip:
    """Samples [T] in [-1, 1] at a rate in hertz, as 16-bit integers; louder samples are clipped."""
    to = FINE if rate > ROUGH and len(wave) <= SHORT * rate else ROUGH
    samples = (resampled(wave.float().cpu(), rate, to).clamp(-1, 1) * LARGEST).round().numpy().astype("<i2")
    return AudioClip(rate=to, samples=b64encode(samples.tobytes()).decode("ascii"))
