"""`equiscope generate`: continue a text with a checkpoint."""

import io
import json as json_text
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from torch import Tensor

from equiscope.checkpoints import load
from equiscope.cli.standard_input import read_standard_input
from equiscope.cli.tokenizer import no_tokenizer, tokenizer
from equiscope.errors import InputError, counted
from equiscope.geometry import SpaceModel
from equiscope.models import Beams, CPUDecoder, Draft, Model, Sampling, generate, stream, windowed
from equiscope.models.speculate import speculate
from equiscope.spec_base import read_object
from equiscope.tokens import Tokenizer


def run(
    folder: Path, prompt: str, steps: int, sampling: dict[str, Any], beams: Beams | None, window: int | None, draft: Path | None,
    seed: int, ids: bool, json: bool,
) -> None:  # fmt: skip
    if prompt == "-":
        prompt = read_standard_input("a prompt", "equiscope generate DIR - < FILE").removesuffix("\n").removesuffix("\r")
    model = load(folder)
    if not isinstance(model, Model) and (window is not None or beams is not None):
        raise InputError(f"{folder} holds a baseline, which generates token by token. Leave --window and --beams out.")
    if isinstance(model, SpaceModel):
        raise InputError(f"{folder} holds a model of points in space, which generates no text. Use equiscope predict.")
    if draft is not None and (beams is not None or not isinstance(model, Model)):
        raise InputError("--draft needs a model with attention, and no --beams. Leave --draft out.")
    model = windowed(model, window) if window is not None and isinstance(model, Model) else model
    decoder = CPUDecoder(model) if isinstance(model, Model) else model
    text = None if ids else _tokenizer(folder)
    numbers = _numbers(prompt) if text is None else Tokenizer(text).encode(prompt)
    prompt_ids, source = torch.tensor(numbers, dtype=torch.long), None
    if model.encoder is not None:  # the prompt is the input of the encoder
        prompt_ids, source = torch.tensor([_decoder_start(folder)]), prompt_ids
    new_ids: list[int] = []
    banned = _banned_ids(folder)
    start = perf_counter()
    if beams is not None:
        if Sampling(**sampling) != Sampling():
            raise InputError("--beams is a beam search, which samples nothing. Leave the sampling options out.")
        best = generate(decoder, prompt_ids, steps, stop=_stop_ids(folder), source=source, beams=replace(beams, banned=banned))[0]
        tokens = iter(best[:, None])
    elif draft is not None and isinstance(decoder, CPUDecoder):
        draft_model, settings = Draft(_draft(draft)), Sampling(**sampling, banned=banned)
        tokens = speculate(decoder, prompt_ids, steps, draft_model, settings, _stop_ids(folder), seed, source)
    else:
        tokens = stream(decoder, prompt_ids, steps, Sampling(**sampling, banned=banned), _stop_ids(folder), seed, source)
    pieces = _text_pieces(_with_progress(tokens, new_ids, json), prompt_ids if source is None else prompt_ids[:0], text, new_ids)
    if json:
        new_text = "".join(pieces)
        print(json_text.dumps({"prompt": prompt, "ids": numbers, "new_ids": new_ids, "text": new_text, "seed": seed}))
    else:
        first = next(pieces, "")  # an error appears before any output
        _print(chain([(prompt if text is not None and source is None else "") + first], pieces, ["\n"]))
    seconds = perf_counter() - start
    print(f"{counted(len(new_ids), 'token')} in {seconds:.2f} s, {len(new_ids) / seconds:.1f} a second", file=sys.stderr)


def _print(pieces: Iterable[str]) -> None:
    """Print each piece at once. Raises InputError where that fails, such as on a full disk."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # characters that the output cannot encode
    for piece in pieces:
        try:
            sys.stdout.write(piece)
            sys.stdout.flush()
        except BrokenPipeError:  # the reader has closed the pipe
            raise
        except OSError as error:
            raise InputError(f"The text cannot be written: {error.strerror or error}.") from error


def _draft(folder: Path) -> CPUDecoder:
    """The draft model. Raises InputError where the folder holds none with attention."""
    model = load(folder)
    if not isinstance(model, Model):
        raise InputError(f"{folder} holds no model with attention, so it cannot be a draft. Leave --draft out.")
    return CPUDecoder(model)


def _with_progress(tokens: Iterator[Tensor], new_ids: list[int], json: bool) -> Iterator[Tensor]:
    """The same tokens, with a count and a rate on standard error where it is a terminal and the text is not shown there."""
    show = sys.stderr.isatty() and (json or not sys.stdout.isatty())
    start = perf_counter()
    for token in tokens:
        yield token
        if show:
            sys.stderr.write(f"\r{counted(len(new_ids), 'token')}, {len(new_ids) / (perf_counter() - start):.1f} a second ")
            sys.stderr.flush()
    if show:
        sys.stderr.write("\r")


def _text_pieces(tokens: Iterator[Tensor], prompt_ids: Tensor, text: Any, new_ids: list[int]) -> Iterator[str]:
    """The text that each token adds; a character of several tokens is emitted once it is complete."""
    before = whole = "" if text is None else text.decode(prompt_ids.tolist())
    for token in tokens:
        new_ids.append(int(token))
        if text is None:
            yield f"{int(token)} "
            continue
        whole = text.decode([*prompt_ids.tolist(), *new_ids])
        if not whole.endswith("\ufffd"):
            yield whole[len(before) :]
            before = whole
    if whole != before:
        yield whole[len(before) :]


def _tokenizer(folder: Path) -> Any:
    file = tokenizer(folder)
    if file is None:
        raise no_tokenizer(folder, "pass ids: --ids '1 2 3'")
    return file


def _numbers(prompt: str) -> list[int]:
    words = prompt.replace(",", " ").split()
    if not all(word.isascii() and word.isdigit() and len(word) < 19 for word in words):
        raise InputError(f"With --ids the prompt is a list of ids, such as '1 2 3', but got {prompt[:80]!r}.")
    return [int(word) for word in words]


def _stop_ids(folder: Path) -> list[int]:
    """The ids that end a sequence."""
    value = _config_field(folder, "eos_token_id")
    ends = [] if value is None else value if isinstance(value, list) else [value]
    if not all(map(_is_id, ends)):
        raise InputError(f"eos_token_id in {folder} is {value!r}, but should be an id or a list of ids.")
    return ends


def _banned_ids(folder: Path) -> tuple[int, ...]:
    """`bad_words_ids` of one token (Marian's padding); longer ones are ignored."""
    value = _config_field(folder, "bad_words_ids") or []
    if not isinstance(value, list) or not all(isinstance(word, list) and all(map(_is_id, word)) for word in value):
        raise InputError(f"bad_words_ids in {folder} is {value!r}, but should be a list of lists of ids.")
    return tuple(sorted({word[0] for word in value if len(word) == 1}))


def _is_id(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


def _decoder_start(folder: Path) -> int:
    """The first token of a decoder. Raises InputError where the folder has none."""
    value = _config_field(folder, "decoder_start_token_id")
    value = _config_field(folder, "pad_token_id") if value is None else value  # T5's configs of old
    if not _is_id(value):
        raise InputError(f"{folder} has no first token of the decoder. Add decoder_start_token_id to its config.json.")
    return int(value)


def _config_field(folder: Path, field: str) -> Any:
    """A field of generation_config.json, or else of config.json."""
    for name in ("generation_config.json", "config.json"):
        path = folder / name
        if path.exists() and (value := read_object(path).get(field)) is not None:
            return value
    return None
