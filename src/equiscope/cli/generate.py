"""`equiscope generate`: go on with a text, with a checkpoint of one's own or of the world."""

import json as json_text
import sys
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from torch import Tensor

from equiscope.errors import InputError
from equiscope.models import Sampling, stream
from equiscope.models.spec import read_object
from equiscope.pretrained import load

TOKENIZER = "tokenizer.json"


def run(folder: Path, prompt: str, steps: int, sampling: dict[str, Any], seed: int, ids: bool, json: bool) -> None:
    model = load(folder)
    text = None if ids else _tokenizer(folder)
    numbers = _numbers(prompt) if text is None else text.encode(prompt).ids
    given = torch.tensor(numbers, dtype=torch.long)
    found: list[int] = []
    began = perf_counter()
    following = stream(model, given, steps, Sampling(**sampling), _stops(folder), seed)
    shown = _written(following, given, text, found)
    if json:
        made = "".join(shown)
        print(json_text.dumps({"prompt": prompt, "ids": numbers, "new_ids": found, "text": made, "seed": seed}))
    else:
        sys.stdout.write(prompt if text is not None else "")
        for piece in shown:
            sys.stdout.write(piece)
            sys.stdout.flush()
        sys.stdout.write("\n")
    spent = perf_counter() - began
    print(f"{len(found)} tokens in {spent:.2f} s, {len(found) / spent:.1f} a second", file=sys.stderr)


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
    from tokenizers import Tokenizer

    path = folder / TOKENIZER
    if not path.exists():
        raise InputError(f"{folder} has no {TOKENIZER}, which turns words into ids. Add it, or give the ids: --ids '1 2 3'.")
    try:
        return Tokenizer.from_file(str(path))
    except Exception as error:  # tokenizers raises nothing narrower
        raise InputError(f"{path} is no tokenizer: {error}.") from error


def _numbers(prompt: str) -> list[int]:
    try:
        return [int(word) for word in prompt.replace(",", " ").split()]
    except ValueError as error:
        raise InputError(f"With --ids the prompt is a list of whole numbers, such as '1 2 3', but got {prompt!r}.") from error


def _stops(folder: Path) -> list[int]:
    """eos_token_id of generation_config.json, or else of config.json."""
    for name in ("generation_config.json", "config.json"):
        path = folder / name
        if path.exists() and (said := read_object(path).get("eos_token_id")) is not None:
            return said if isinstance(said, list) else [said]
    return []
