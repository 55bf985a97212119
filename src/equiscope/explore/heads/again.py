"""Again: the same model on its own tokens in another order, or as if they began somewhere else, and what the weights say to that.

Where tokens change places, the weights of a model that does not notice change places with them; where all places grow by one
number, they stay. Both are measured for each layer, beside what rounding alone may make.
"""

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import replace as with_
from typing import Any

import torch
from msgspec.structs import replace
from torch import Tensor, nn

from equiscope.errors import InputError
from equiscope.models import Model
from equiscope.program.attended.attended import Attended, attended
from equiscope.program.attended.beside import differs, turned
from equiscope.program.attended.nudged import nudged
from equiscope.program.attended.places import places_of
from equiscope.record import Again, Layer, Line, Live
from equiscope.tokens import Tokens

SAFE = 4  # times what nudged modules make of a weight: sums inside of them are rounded too
FARTHEST = 1_000_000  # places that a text may be slid by
MASKS = ("attention_mask", "token_type_ids")  # what tokens take with them
HOW = "Ask for /again?order=2,0,1&from=100: places from 0 on, each once, and what is added to them."


@dataclass(frozen=True)
class Moves:
    """What of a model's inputs can be moved.

    ids      the argument that takes the ids of a text: its name or its number; empty where none does
    length   how many tokens it has
    line     the number of their line
    shuffle  why the tokens cannot be shuffled; empty where they can. slide: why the text cannot be slid
    """

    ids: str
    length: int
    line: int
    shuffle: str
    slide: str

    @property
    def live(self) -> Live:
        return Live(line=self.line, shuffle=self.shuffle, slide=self.slide)


def moves(model: nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any], lines: Sequence[Line]) -> Moves:
    """Of a model, what it was called with, and the lines that its attentions have."""
    name, found = _ids(args, kwargs)
    whole = type(model).__name__
    reads = f"{whole} reads {_kinds(lines)} here"
    if found is None:
        if args and isinstance(args[0], Tokens) and args[0].positions.shape[-1] == 1 and isinstance(model, Model):
            return Moves("", args[0].x.shape[-2], 0, f"{reads}: only tokens of a text are shuffled.", "")
        return Moves("", 0, 0, f"{reads}: only tokens of a text are shuffled.", f"{reads}: only a text or a sound is slid.")
    length = found.shape[-1]
    fits = [i for i, line in enumerate(lines) if len(line.labels) == length and not line.grid]
    if not fits:
        why = f"No attention of {whole} has the {length} tokens of the text as its rows."
        return Moves(name, length, 0, why, why)
    takes = isinstance(model, Model) or "position_ids" in inspect.signature(model.forward).parameters
    no = f"{whole} takes no position_ids: nothing that it is called with says where the text begins, so there is nothing to slide."
    return Moves(name, length, fits[0], "" if length > 1 else "There is one token alone.", "" if takes else no)


def read(asked: Mapping[str, str], what: Moves) -> tuple[list[int], int]:
    """The order and the start of a question. Raises InputError where it is none, or where the model cannot do that."""
    order, start = asked.get("order", ""), asked.get("from", "0")
    if not re.fullmatch(r"([0-9]{1,6}(,[0-9]{1,6})*)?", order) or not re.fullmatch(r"[0-9]{1,9}", start):
        raise InputError(HOW)
    places = [int(word) for word in order.split(",")] if order else []
    if not places and not int(start):
        raise InputError(f"Nothing would be moved. {HOW}")
    if places and what.shuffle:
        raise InputError(what.shuffle)
    if places and sorted(places) != list(range(what.length)):
        raise InputError(f"An order of {what.length} tokens has each place from 0 to {what.length - 1} once. {HOW}")
    if int(start) > FARTHEST:
        raise InputError(f"A text is slid by at most {FARTHEST} places, but from is {start}.")
    if int(start) and what.slide:
        raise InputError(what.slide)
    return places, int(start)


def moved(
    model: nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any], what: Moves, order: Sequence[int], start: int
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """What the model is called with when its tokens stand in this order, and begin at this place."""
    places, named = list(args), dict(kwargs)
    put: Callable[[Any], None]
    if what.ids.isdigit():
        ids, put = places[int(what.ids)], lambda value: places.__setitem__(int(what.ids), value)
    elif what.ids:
        ids, put = named[what.ids], lambda value: named.__setitem__(what.ids, value)
    else:
        places[0] = with_(places[0], positions=places[0].positions + start, counted=None)
        return tuple(places), named
    if order:
        ids = ids[..., list(order)]
        named |= {name: named[name][..., list(order)] for name in MASKS if _beside(named.get(name), what.length)}
    put(ids)
    if start and isinstance(model, Model):
        reader = model.encoder if what.ids == "source" and isinstance(model.encoder, Model) else model
        put(reader.tokens(ids, start))
    elif start:
        _known(model, start + what.length)
        first = (
            named["position_ids"]
            if isinstance(named.get("position_ids"), Tensor)
            else torch.arange(what.length)[None] + _first(model)
        )
        named["position_ids"] = first.to(ids.device) + start
    return tuple(places), named


def relabelled(lines: Sequence[Line], line: Line, order: Sequence[int]) -> list[Line]:
    """The lines with the labels of one in another order: its words are no longer together."""
    return [replace(one, labels=[one.labels[i] for i in order], words=[]) if order and one == line else one for one in lines]


def rounding(model: nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any], first: Sequence[Attended]) -> list[float]:
    """What rounding may make of the weights of each layer: the model runs nudged, and may differ SAFE times as much."""
    with nudged(model):
        now = attended(model, args, kwargs)
    return [SAFE * differs(one, other) if one.q.shape == other.q.shape else 0.0 for one, other in zip(first, now, strict=True)]


def again(
    run: int, first: Sequence[Attended], now: Sequence[Attended], layers: Sequence[Layer], rounded: Sequence[float], what: Moves,
    order: Sequence[int], start: int,
) -> Again:  # fmt: skip
    """What became of the weights, layer by layer. layers, rounded: of the first run. Raises InputError where others ran."""
    if [one.q.shape for one in first] != [one.q.shape for one in now]:
        raise InputError(
            "The model took another way with these tokens: its attentions have other shapes, so nothing can be compared."
        )
    places = torch.tensor(order) if order else None
    far, least = [], []
    for layer, one, other, little in zip(layers, first, now, rounded, strict=True):
        rows, columns = (places if line == what.line else None for line in (layer.asks, layer.answers))
        far.append(differs(one, other, rows, columns))
        least.append(little + (turned(one, start + what.length) if start else 0.0))
    return Again(run=run, line=what.line, order=list(order), start=start, differs=far, floor=least)


def _ids(args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[str, Tensor | None]:
    """The argument that takes the ids of a text: the source of two towers, else input_ids, else the first that could."""
    given = [*kwargs.items(), *((str(i), value) for i, value in enumerate(args))]
    fits = {n: v for n, v in given if isinstance(v, Tensor) and not v.is_floating_point() and v.ndim in (1, 2) and n not in MASKS}
    name = next((n for n in ("source", "input_ids", *fits) if n in fits), "")
    return name, fits.get(name)


def _kinds(lines: Sequence[Line]) -> str:
    return " and ".join(dict.fromkeys(f"{line.kind} of a {line.name}" if line.kind == "patches" else line.kind for line in lines))


def _beside(value: Any, length: int) -> bool:
    return isinstance(value, Tensor) and value.ndim == 2 and value.shape[-1] == length


def _first(model: nn.Module) -> int:
    """Where a model's own places begin: after the place of padding in those that count so, as RoBERTa."""
    counts = next((m for m in model.modules() if hasattr(m, "create_position_ids_from_input_ids")), None)
    padding = getattr(counts, "padding_idx", None)
    return padding + 1 if isinstance(padding, int) else 0


def _known(model: nn.Module, last: int) -> None:
    """Raises InputError where places end before."""
    most = places_of(model)
    if most is not None and last > most:
        raise InputError(
            f"{type(model).__name__} has places 0 to {most - 1}, but the last token would stand at {last - 1}. Slide less."
        )
