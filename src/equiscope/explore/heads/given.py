"""Given: what a person hands to `show` beside a model becomes what the model is called with, and what stands in its rows."""

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
from equiscope.errors import InputError
from equiscope.program.attended.places import patch, places_of
from equiscope.record import Line
from equiscope.record.heads import Heard, patches
from equiscope.tokens.labels import labels, words
from equiscope.tokens.sound import resampled

LONGEST = 8192  # tokens that are looked at
ANSWER = 32  # tokens that a model with a decoder answers, before they are looked at
FINE, ROUGH, SHORT = 16_000, 8_000, 15.0  # samples a second; seconds up to which a sound keeps the finer rate
LARGEST = 32_767  # of 16 bits
IN_FRONT = range(17)  # tokens that may stand before the patches: class token, one for distillation, registers


@dataclass
class Given:
    """What a model is called with; told: in a few words, for a title."""

    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    lines: list[Line] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    told: str = ""

    def tensors(self) -> list[tuple[str, Tensor]]:
        """Tensors among the arguments, by their place ("0") or name."""
        named = [(str(i), one) for i, one in enumerate(self.args)] + list(self.kwargs.items())
        return [(name, one) for name, one in named if isinstance(one, Tensor)]


def given(
    model: nn.Module, inputs: Sequence[Any], kwargs: Mapping[str, Any] | None = None, tokenizer: Any = None,
    named: Sequence[str] | None = None,
) -> Given:  # fmt: skip
    """inputs: what the model is called with; or one mapping of names to tensors; or one text, which the tokenizer turns into ids.

    tokenizer  of transformers or of tokenizers: it also names the ids of a row
    named      one a token, as people read it, where no tokenizer names them
    raises     InputError where a text has no tokenizer, or one that does not fit the model, and where names fit no input
    """
    made = Given(tuple(inputs), dict(kwargs or {}))
    if len(inputs) == 1 and isinstance(inputs[0], Mapping):
        made.args, made.kwargs = (), {**inputs[0], **made.kwargs}
    elif len(inputs) == 1 and isinstance(inputs[0], str):
        _read(made, model, inputs[0], tokenizer)
    elif any(isinstance(one, str) for one in inputs):
        raise InputError(f"One text is looked at, but got {len(inputs)} inputs, of which some are texts. Give one of them.")
    elif tokenizer is not None:
        _name(made, tokenizer)
    if named is not None:
        _label(made, list(named))
    _answer(made, model, tokenizer)
    _picture(made, model)
    longest = max((len(line.labels) for line in made.lines), default=0)
    if longest > LONGEST:
        raise InputError(f"There are {longest} tokens; at most {LONGEST} are looked at. Give fewer.")
    return made


def _read(made: Given, model: nn.Module, text: str, tokenizer: Any) -> None:
    if tokenizer is None:
        raise InputError(
            "A text needs the tokenizer that turns it into ids. Add tokenizer=..., or give the ids: torch.tensor([[12, 7, 3]])."
        )
    if not text.strip():
        raise InputError("The text is empty. Give at least one word.")
    ids, line = encoded(tokenizer, text)
    fit(model, ids)
    row = torch.tensor([ids], device=next((p.device for p in model.parameters()), None))
    named = "input_ids" in inspect.signature(model.forward).parameters
    made.args, made.kwargs = ((), {"input_ids": row, **made.kwargs}) if named else ((row,), made.kwargs)
    made.lines.append(line)
    made.told = text if len(text) <= 48 else text[:47] + "…"


def fit(model: nn.Module, ids: Sequence[int]) -> None:
    """Raises InputError for ids that a model does not know, and for more of them than it has places for."""
    known, most = vocabulary(model), places_of(model)
    if known is not None and max(ids) >= known:
        raise InputError(f"The tokenizer gives the id {max(ids)}, but the model knows {known} ids. They do not fit.")
    if most is not None and len(ids) > most:
        raise InputError(f"The text has {len(ids)} tokens, but the model has places for {most}. Give a shorter one.")


def encoded(tokenizer: Any, text: str) -> tuple[list[int], Line]:
    """Ids of a text, and the line of what a person reads of each.

    raises  InputError where that is no tokenizer, or it makes no token of the text
    """
    fast = inner(tokenizer)
    try:
        with _as_it_is(fast):
            found: Any = None if fast is None else fast.encode(text)
            ids = [int(i) for i in (tokenizer(text)["input_ids"] if callable(tokenizer) else found.ids)]
    except Exception as error:  # other people's code
        raise InputError(
            f"{type(tokenizer).__name__} did not turn the text into ids: {type(error).__name__}: {error}. "
            "Give a tokenizer of transformers or of tokenizers."
        ) from error
    if not ids:
        raise InputError(f"The tokenizer makes no token of {text!r}. Give another text.")
    same = found is not None and found.ids == ids
    return ids, row_of("text", tokenizer, ids, text if same else None, found.offsets if same else ())


@contextmanager
def _as_it_is(fast: Any | None) -> Iterator[None]:
    """Neither padded nor cut off: a tokenizer may hold both, for batches of somebody's model. After it, it is as it was."""
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


def inner(tokenizer: Any) -> Any | None:
    """The one of tokenizers that transformers' fast ones are made of; None of others."""
    found = getattr(tokenizer, "backend_tokenizer", tokenizer)
    return found if hasattr(found, "id_to_token") else None


def row_of(name: str, tokenizer: Any, ids: list[int], text: str | None = None, offsets: Sequence[tuple[int, int]] = ()) -> Line:
    """Ids as words; as numbers where nothing reads them."""
    fast = inner(tokenizer)
    if fast is not None:
        written = labels(fast, ids, text, offsets)
        return Line(name=name, kind="words", labels=written, words=words(fast, ids, written))
    return Line(name=name, kind="words", labels=[str(i) if tokenizer is None else tokenizer.decode([i]) or f"<{i}>" for i in ids])


def _name(made: Given, tokenizer: Any) -> None:
    """The rows of the inputs that are ids, by what these stand for."""
    for name, ids in made.tensors():
        if ids.ndim == 2 and ids.dtype == torch.long and name not in ("attention_mask", "token_type_ids", "position_ids", "labels"):
            short = {"decoder_input_ids": "answer"}.get(name, "text")
            made.lines.append(row_of(short, tokenizer, ids[0].tolist()))


def _label(made: Given, names: list[str]) -> None:
    lengths = sorted({size for _, one in made.tensors() for size in one.shape})
    if lengths and len(names) not in lengths:
        told = ", ".join(map(str, lengths))
        raise InputError(f"There are {len(names)} labels, but axes of the inputs are {told} long. Give one a token.")
    made.lines.insert(0, Line(name="text", kind="words", labels=names))


def _answer(made: Given, model: Any, tokenizer: Any) -> None:
    """What a model with a decoder says to the text, and then reads: its own greedy answer."""
    takes = inspect.signature(model.forward).parameters
    ids = made.kwargs.get("input_ids", made.args[0] if made.args else None)
    wanted = "decoder_input_ids" in takes and not {"decoder_input_ids", "labels", "decoder_inputs_embeds"} & set(made.kwargs)
    if not wanted or not isinstance(ids, Tensor) or ids.is_floating_point() or len(made.args) > 1:
        return
    try:
        with torch.no_grad():
            said = model.generate(ids, max_new_tokens=ANSWER, do_sample=False, num_beams=1)[:1]
    except Exception:  # a model that has no head to write with: it begins alone
        begin = getattr(getattr(model, "config", None), "decoder_start_token_id", None) or 0
        said = torch.full((1, 1), begin, device=ids.device)
        made.notes.append("The model writes nothing by itself, so its decoder reads the first token alone.")
    said = said[:, :-1] if said.shape[1] > 1 else said  # the last one is not read
    made.kwargs["decoder_input_ids"] = said
    made.lines.append(row_of("answer", tokenizer, said[0].tolist()))


def _picture(made: Given, model: nn.Module) -> None:
    """Patches of the first input that is a picture, [B, C, H, W]; colours from its smallest to its largest number."""
    pixels = next((one[0] for _, one in made.tensors() if one.ndim == 4 and one.is_floating_point()), None)
    if pixels is None or pixels.shape[0] not in (1, 3):
        return
    values = pixels.detach().cpu().float()
    low, high = values.min(), values.max()
    shown = (255 * (values - low) / (high - low).clamp(min=1e-12)).byte().numpy()
    found = cut(model, (pixels.shape[1], pixels.shape[2]), address(np.ascontiguousarray(shown)))
    if found:
        made.lines += found
        made.notes.append("The picture is shown as the model got it: its smallest number black, its largest white.")


def cut(model: Any, size: tuple[int, int], picture: str) -> list[Line]:
    """The lines that patches of a picture of this size may stand in, likeliest first: that of the right length is taken.

    Patches are those that the model says: its spec, or its first convolution that neither overlaps nor leaves gaps. One that cuts
    in another way has square ones at most, and at most a class token in front.
    """
    side, input_layer = patch(model), getattr(getattr(model, "spec", None), "input", None)
    sides = getattr(input_layer, "patch", None) or ((side, side) if side is not None else None)
    if sides is not None and len(sides) == 2:
        grids, fronts = [[size[0] // sides[0], size[1] // sides[1]]], IN_FRONT
    else:
        squares = (n for n in range(2, min(size) // 2 + 1) if size[0] % n == size[1] % n == 0)
        grids, fronts = [[size[0] // n, size[1] // n] for n in squares], range(2)
    return [patches(grid, front, picture) for front in fronts for grid in grids]


def vocabulary(model: Any) -> int | None:
    """How many ids a model of transformers knows; None where it does not say."""
    try:
        rows = model.get_input_embeddings().num_embeddings
    except Exception:  # not every class has one
        return None
    return rows if isinstance(rows, int) else None


def heard(wave: Tensor, rate: int) -> Heard:
    """Samples [T] in [-1, 1] at a rate in hertz as 16 bits each: what is louder is cut off."""
    to = FINE if rate > ROUGH and len(wave) <= SHORT * rate else ROUGH
    samples = (resampled(wave.float().cpu(), rate, to).clamp(-1, 1) * LARGEST).round().numpy().astype("<i2")
    return Heard(rate=to, samples=b64encode(samples.tobytes()).decode("ascii"))
