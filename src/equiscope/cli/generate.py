"""`equiscope generate`: go on with a text, with a checkpoint of one's own or of the world."""

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
from equiscope.cli.piped import piped
from equiscope.cli.tokenizer import TOKENIZER, tokenizer
from equiscope.errors import InputError
from equiscope.geometry import SpaceModel
from equiscope.models import Beams, Draft, Model, Prepared, Sampling, generate, prepared, stream, windowed
from equiscope.models.speculate import speculate
from equiscope.spec_base import read_object
from equiscope.tokens import Tokenizer


def run(
    folder: Path, prompt: str, steps: int, sampling: dict[str, Any], beams: Beams | None, window: int | None, draft: Path | None,
    seed: int, ids: bool, json: bool,
) -> None:  # fmt: skip
    if prompt == "-":
        prompt = piped("a prompt", "equiscope generate DIR - < FILE").removesuffix("\n").removesuffix("\r")
    model = load(folder)
    if not isinstance(model, Model) and (window is not None or beams is not None):
        raise InputError(f"{folder} holds a baseline, which writes token by token. Leave --window and --beams out.")
    if isinstance(model, SpaceModel):
        raise InputError(f"{folder} holds a model of points in space, which writes no texts. Ask it: equiscope predict.")
    if draft is not None and (beams is not None or not isinstance(model, Model)):
        raise InputError("A draft goes ahead of a model with attention, token by token, not of beams. Leave --draft out.")
    model = windowed(model, window) if window is not None and isinstance(model, Model) else model
    writer = prepared(model) if isinstance(model, Model) else model
    text = None if ids else _tokenizer(folder)
    numbers = _numbers(prompt) if text is None else Tokenizer(text).encode(prompt)
    given, source = torch.tensor(numbers, dtype=torch.long), None
    if model.encoder is not None:  # the prompt is what the encoder reads; the answer begins with a token of its own
        given, source = torch.tensor([_start(folder)]), given
    found: list[int] = []
    never = _never(folder)
    began = perf_counter()
    if beams is not None:
        if Sampling(**sampling) != Sampling():
            raise InputError("--beams search for the best answer, so nothing is sampled. Leave the other choices out.")
        best = generate(writer, given, steps, stop=_stops(folder), source=source, beams=replace(beams, never=never))[0]
        following = iter(best[:, None])
    elif draft is not None and isinstance(writer, Prepared):
        ahead, chosen = Draft(_writer(draft)), Sampling(**sampling, never=never)
        following = speculate(writer, given, steps, ahead, chosen, _stops(folder), seed, source)
    else:
        following = stream(writer, given, steps, Sampling(**sampling, never=never), _stops(folder), seed, source)
    shown = _written(_counted(following, found, json), given if source is None else given[:0], text, found)
    if json:
        made = "".join(shown)
        print(json_text.dumps({"prompt": prompt, "ids": numbers, "new_ids": found, "text": made, "seed": seed}))
    else:
        first = next(shown, "")  # what cannot be written is said before anything is
        _print(chain([(prompt if text is not None and source is None else "") + first], shown, ["\n"]))
    spent = perf_counter() - began
    print(f"{len(found)} tokens in {spent:.2f} s, {len(found) / spent:.1f} a second", file=sys.stderr)


def _print(pieces: Iterable[str]) -> None:
    """Each as it comes. Raises InputError where they cannot be written, such as to a full disk."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # signs that the output's encoding has not
    for piece in pieces:
        try:
            sys.stdout.write(piece)
            sys.stdout.flush()
        except BrokenPipeError:  # nobody reads on
            raise
        except OSError as error:
            raise InputError(f"The text cannot be written: {error.strerror or error}.") from error


def _writer(folder: Path) -> Prepared:
    """The model that goes ahead. Raises InputError where the folder holds none with attention."""
    model = load(folder)
    if not isinstance(model, Model):
        raise InputError(f"{folder} holds no model with attention, so it cannot go ahead of another. Leave --draft out.")
    return prepared(model)


def _counted(following: Iterator[Tensor], found: list[int], json: bool) -> Iterator[Tensor]:
    """The same tokens; how many there are, and how fast they come, on a terminal where no text is seen growing."""
    watched = sys.stderr.isatty() and (json or not sys.stdout.isatty())
    began = perf_counter()
    for token in following:
        yield token
        if watched:
            sys.stderr.write(f"\r{len(found)} tokens, {len(found) / (perf_counter() - began):.1f} a second ")
            sys.stderr.flush()
    if watched:
        sys.stderr.write("\r")


def _written(following: Iterator[Tensor], given: Tensor, text: Any, found: list[int]) -> Iterator[str]:
    """What each token adds to the text; a sign of several tokens appears when it is whole."""
    before = whole = "" if text is None else text.decode(given.tolist())
    for token in following:
        found.append(int(token))
        if text is None:
            yield f"{int(token)} "
            continue
        whole = text.decode([*given.tolist(), *found])
        if not whole.endswith("\ufffd"):
            yield whole[len(before) :]
            before = whole
    if whole != before:
        yield whole[len(before) :]


def _tokenizer(folder: Path) -> Any:
    found = tokenizer(folder)
    if found is None:
        raise InputError(f"{folder} has no {TOKENIZER}, which turns words into ids. Add it, or give the ids: --ids '1 2 3'.")
    return found


def _numbers(prompt: str) -> list[int]:
    words = prompt.replace(",", " ").split()
    if not all(word.isascii() and word.isdigit() and len(word) < 19 for word in words):
        raise InputError(f"With --ids the prompt is a list of ids, such as '1 2 3', but got {prompt[:80]!r}.")
    return [int(word) for word in words]


def _stops(folder: Path) -> list[int]:
    """Where a text ends."""
    said = _said(folder, "eos_token_id")
    ends = [] if said is None else said if isinstance(said, list) else [said]
    if not all(map(_is_id, ends)):
        raise InputError(f"eos_token_id in {folder} is {said!r}, but should be an id or a list of ids.")
    return ends


def _never(folder: Path) -> tuple[int, ...]:
    """Ids that are never written: bad_words_ids of one token (Marian's padding). Longer ones are not looked at."""
    said = _said(folder, "bad_words_ids") or []
    if not isinstance(said, list) or not all(isinstance(word, list) and all(map(_is_id, word)) for word in said):
        raise InputError(f"bad_words_ids in {folder} is {said!r}, but should be a list of lists of ids.")
    return tuple(sorted({word[0] for word in said if len(word) == 1}))


def _is_id(said: Any) -> bool:
    return isinstance(said, int) and not isinstance(said, bool) and 0 <= said < 2**63


def _start(folder: Path) -> int:
    """What a decoder begins with. Raises InputError where the folder does not say."""
    said = _said(folder, "decoder_start_token_id")
    said = _said(folder, "pad_token_id") if said is None else said  # T5's configs of old
    if not _is_id(said):
        raise InputError(f"{folder} does not say what a decoder begins with. Add decoder_start_token_id to its config.json.")
    return int(said)


def _said(folder: Path, field: str) -> Any:
    """A field of generation_config.json, or else of config.json."""
    for name in ("generation_config.json", "config.json"):
        path = folder / name
        if path.exists() and (said := read_object(path).get(field)) is not None:
            return said
    return None
