"""Language: texts become one long line of ids, cut into passages; the wanted answer at each place is the next id.

The line is held in a file and mapped, so it may be larger than memory. Source of the task: every prefix of a passage is an
example, all learned at once under the causal mask.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np
import torch
from msgspec import Struct
from torch import Tensor

from equiscope.data.files import found, sources
from equiscope.data.order import Order, number
from equiscope.data.texts import texts
from equiscope.errors import InputError
from equiscope.record import Source
from equiscope.tokens.text import characters
from equiscope.tokens.tokenizer import Tokenizer, by_bytes, by_characters, by_pieces

Size = Annotated[int, msgspec.Meta(ge=1)]


class Language(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="language", tag_field="task"):
    """Texts to learn to continue.

    train       files: plain text, JSONL or CSV (with `field`), TEI XML, or archives of these; with * for many
    validation  other files; without them the last `held` of the characters are held out
    test        files that are measured once, at the end
    context     T, tokens of a passage
    tokens      "characters", "bytes", "pieces" (byte pairs, taught by the training part), "checkpoint" (of model.start), or a
                tokenizer.json
    vocabulary  how many pieces there are to be
    field       of a line of JSONL or a column of CSV that holds the text
    """

    train: str
    validation: str | None = None
    test: str | None = None
    held: Annotated[float, msgspec.Meta(gt=0, lt=1)] = 0.1
    context: Size
    tokens: str = "characters"
    vocabulary: Size = 4096
    field: str = "text"


class Passages:
    """The texts of a `Language`, opened and looked at: a tokenizer, and a line of ids for each part.

    raises  InputError for files that are missing, empty, undecodable, or shorter than one passage
    """

    def __init__(self, config: Language, seed: int = 0, beside: Path | None = None, tokenizer: Tokenizer | None = None) -> None:
        self.config = config
        named = {"train": config.train, "validation": config.validation, "test": config.test}
        paths = {part: found(name, beside) for part, name in named.items() if name is not None}
        self.sources: list[Source] = sources(paths)
        whole = {part: "\n\n".join(texts(p, config.field)) for part, p in paths.items()}
        if "validation" not in whole:
            cut = round(len(whole["train"]) * (1 - config.held))
            whole["validation"], whole["train"] = whole["train"][cut:], whole["train"][:cut]
        self.tokenizer = tokenizer or made(config, whole)
        self.characters = {part: len(text) for part, text in whole.items()}
        self.ids = {part: _line(self.tokenizer, text) for part, text in whole.items()}
        for part, ids in self.ids.items():
            if len(ids) <= config.context:
                raise InputError(
                    f"The {part} part has {len(ids)} tokens, but one passage takes context + 1 = {config.context + 1}. "
                    "Give more text, or a shorter context."
                )
        self.seed, span = seed, config.context
        self.order = Order((len(self.ids["train"]) - 1 - span) // span + 1, seed)

    def batch(self, step: int, size: int) -> tuple[Tensor, Tensor]:
        """Passages of a step and what follows each of their places, ids [size, T] both.

        In an epoch every place is read once; where passages begin changes from epoch to epoch.
        """
        ids, span = self.ids["train"], self.config.context
        room = (len(ids) - 1) - ((len(ids) - 1 - span) // span + 1) * span  # what the passages of an epoch leave over
        rows = []
        for epoch, passage in self.order.batch(step, size):
            shift = number(self.seed, "shift", epoch) % (room + 1)
            rows.append(ids[shift + passage * span : shift + (passage + 1) * span + 1])
        both = torch.from_numpy(np.stack(rows).astype(np.int64))
        return both[:, :-1], both[:, 1:]

    def passages(self, part: str, size: int) -> Iterator[tuple[Tensor, Tensor]]:
        """All passages of a part, one after the other, `size` at a time; the last one may be shorter and stands alone."""
        ids, span = self.ids[part], self.config.context
        count = (len(ids) - 1) // span
        for first in range(0, count, size):
            rows = ids[first * span : min(first + size, count) * span + 1].astype(np.int64)
            x = torch.from_numpy(rows[:-1]).view(-1, span)
            yield x, torch.from_numpy(rows[1:]).view(-1, span)
        if (rest := (len(ids) - 1) % span) > 0:
            tail = torch.from_numpy(ids[-rest - 1 :].astype(np.int64))
            yield tail[None, :-1], tail[None, 1:]


def made(config: Language, whole: dict[str, str]) -> Tokenizer:
    """The tokenizer that a recipe asks for. Characters are those of all parts: a list of signs tells nothing of a text."""
    if config.tokens == "characters":
        return by_characters(sorted(set().union(*(characters(text) for text in whole.values()))))
    if config.tokens == "bytes":
        return by_bytes()
    if config.tokens == "pieces":
        return by_pieces(whole["train"].splitlines(keepends=True), config.vocabulary)
    return Tokenizer.read(config.tokens)


def _line(tokenizer: Tokenizer, text: str) -> np.ndarray:
    """Ids of a text, two bytes each where they fit."""
    kind = np.uint16 if tokenizer.size <= 2**16 else np.uint32
    chunks = [np.array(tokenizer.encode(chunk), dtype=kind) for chunk in _chunks(text)]
    return np.concatenate(chunks) if chunks else np.zeros(0, kind)


def _chunks(text: str, size: int = 2**18) -> Iterator[str]:
    """Stretches of a text that end where a line does."""
    first = 0
    while first < len(text):
        end = text.find("\n", first + size)
        end = len(text) if end < 0 else end + 1
        yield text[first:end]
        first = end
