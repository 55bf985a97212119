"""Rerun: the same model on its tokens in another order, or at shifted positions, and how the attention weights change.

Attention weights that are equivariant to permutations permute with the tokens; weights that are invariant to shifts stay the same
when every position grows by one number. Both are measured for each layer and compared with the error that rounding can cause.
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
from equiscope.program.attended.nudged import nudged
from equiscope.program.attended.position_tables import max_positions
from equiscope.program.attended.side_by_side import angle_rounding, max_difference
from equiscope.record import AttentionLayer, Rerun, RerunOptions, TokenSequence
from equiscope.tokens import Tokens

SAFE = 4  # times the change that nudged modules cause: sums inside the modules are rounded too
MAX_OFFSET = 1_000_000  # the largest shift of a text
MASKS = ("attention_mask", "token_type_ids")  # permuted with the tokens
USAGE = "Request /rerun?order=2,0,1&offset=100: each position from 0 on once, and the number that is added to all positions."


@dataclass(frozen=True)
class RerunSupport:
    """Which changes of the tokens a model's inputs allow.

    ids_argument  the argument that takes token ids: its name or its number; empty where none does
    length   how many tokens it has
    sequence  index of their sequence
    no_shuffle  why the tokens cannot be shuffled; empty where they can. no_shift: why the text cannot be slid
    """

    ids_argument: str
    length: int
    sequence: int
    no_shuffle: str
    no_shift: str

    @property
    def options(self) -> RerunOptions:
        return RerunOptions(sequence=self.sequence, no_shuffle=self.no_shuffle, no_shift=self.no_shift)


def rerun_support(
    model: nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any], sequences: Sequence[TokenSequence]
) -> RerunSupport:
    """Which reruns are possible for a model, its arguments, and the token sequences of its attentions."""
    name, ids = _ids(args, kwargs)
    whole = type(model).__name__
    reads = f"{whole} reads {_kinds(sequences)} here"
    if ids is None:
        if args and isinstance(args[0], Tokens) and args[0].positions.shape[-1] == 1 and isinstance(model, Model):
            return RerunSupport("", args[0].x.shape[-2], 0, f"{reads}: only the tokens of a text can be shuffled.", "")
        return RerunSupport(
            "", 0, 0, f"{reads}: only the tokens of a text can be shuffled.", f"{reads}: only a text or a sound can be shifted."
        )
    length = ids.shape[-1]
    fits = [i for i, one in enumerate(sequences) if len(one.labels) == length and not one.grid]
    if not fits:
        reason = f"No attention of {whole} has the {length} tokens of the text as its rows."
        return RerunSupport(name, length, 0, reason, reason)
    takes = isinstance(model, Model) or "position_ids" in inspect.signature(model.forward).parameters
    no = f"{whole} takes no position_ids: no argument says where the text begins, so it cannot be shifted."
    return RerunSupport(name, length, fits[0], "" if length > 1 else "There is only one token.", "" if takes else no)


def parse_request(query: Mapping[str, str], support: RerunSupport) -> tuple[list[int], int]:
    """Order and offset of a request. Raises InputError for an invalid request, and for one that this model cannot run."""
    order, offset = query.get("order", ""), query.get("offset", "0")
    if not re.fullmatch(r"([0-9]{1,6}(,[0-9]{1,6})*)?", order) or not re.fullmatch(r"[0-9]{1,9}", offset):
        raise InputError(USAGE)
    positions = [int(word) for word in order.split(",")] if order else []
    if not positions and not int(offset):
        raise InputError(f"Nothing would change. {USAGE}")
    if positions and support.no_shuffle:
        raise InputError(support.no_shuffle)
    if positions and sorted(positions) != list(range(support.length)):
        raise InputError(f"An order of {support.length} tokens has each position from 0 to {support.length - 1} once. {USAGE}")
    if int(offset) > MAX_OFFSET:
        raise InputError(f"A text is shifted by at most {MAX_OFFSET} positions, but offset is {offset}.")
    if int(offset) and support.no_shift:
        raise InputError(support.no_shift)
    return positions, int(offset)


def rerun_inputs(
    model: nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any], support: RerunSupport, order: Sequence[int], offset: int
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments of the model for its tokens in this order, with this number added to every position."""
    positional, named = list(args), dict(kwargs)
    put: Callable[[Any], None]
    if support.ids_argument.isdigit():
        number = int(support.ids_argument)
        ids, put = positional[number], lambda value: positional.__setitem__(number, value)
    elif support.ids_argument:
        ids, put = named[support.ids_argument], lambda value: named.__setitem__(support.ids_argument, value)
    else:
        positional[0] = with_(positional[0], positions=positional[0].positions + offset, counted=None)
        return tuple(positional), named
    if order:
        ids = ids[..., list(order)]
        named |= {name: named[name][..., list(order)] for name in MASKS if _is_mask(named.get(name), support.length)}
    put(ids)
    if offset and isinstance(model, Model):
        reader = model.encoder if support.ids_argument == "source" and isinstance(model.encoder, Model) else model
        put(reader.tokens(ids, offset))
    elif offset:
        _check_positions(model, offset + support.length)
        first = (
            named["position_ids"]
            if isinstance(named.get("position_ids"), Tensor)
            else torch.arange(support.length)[None] + _first_position(model)
        )
        named["position_ids"] = first.to(ids.device) + offset
    return tuple(positional), named


def permuted_labels(
    sequences: Sequence[TokenSequence], sequence: TokenSequence, order: Sequence[int]
) -> list[TokenSequence]:  # fmt: skip
    """The sequences, with the labels of one of them permuted. Word numbers are dropped: pieces of a word may part."""
    return [
        replace(one, labels=[one.labels[i] for i in order], words=[]) if order and one == sequence else one for one in sequences
    ]


def rounding_floors(model: nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any], first: Sequence[Attended]) -> list[float]:
    """For each layer, how much rounding may change a weight: SAFE times the change in a run with nudged modules."""
    with nudged(model):
        nudged_run = attended(model, args, kwargs)
    return [
        SAFE * max_difference(one, other) if one.q.shape == other.q.shape else 0.0
        for one, other in zip(first, nudged_run, strict=True)
    ]


def rerun(
    run: int, first: Sequence[Attended], second: Sequence[Attended], layers: Sequence[AttentionLayer], floors: Sequence[float],
    support: RerunSupport, order: Sequence[int], offset: int,
) -> Rerun:  # fmt: skip
    """How the weights of each layer changed. layers, floors: of the first run. Raises InputError where other attentions ran."""
    if [one.q.shape for one in first] != [one.q.shape for one in second]:
        raise InputError(
            "The model took another branch for these tokens: its attentions have other shapes, so the runs cannot be compared."
        )
    positions = torch.tensor(order) if order else None
    differences, rounding = [], []
    for layer, one, other, floor in zip(layers, first, second, floors, strict=True):
        rows, columns = (positions if i == support.sequence else None for i in (layer.query_sequence, layer.key_sequence))
        differences.append(max_difference(one, other, rows, columns))
        rounding.append(floor + (angle_rounding(one, offset + support.length) if offset else 0.0))
    return Rerun(
        run=run, sequence=support.sequence, order=list(order), offset=offset, max_differences=differences, rounding_floors=rounding
    )  # fmt: skip


def _ids(args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[str, Tensor | None]:
    """The argument with token ids: the source of an encoder-decoder, else input_ids, else the first tensor that could hold ids."""
    arguments = [*kwargs.items(), *((str(i), value) for i, value in enumerate(args))]
    fits = {
        n: v
        for n, v in arguments
        if isinstance(v, Tensor) and not v.is_floating_point() and v.ndim in (1, 2) and n not in MASKS
    }  # fmt: skip
    name = next((n for n in ("source", "input_ids", *fits) if n in fits), "")
    return name, fits.get(name)


def _kinds(sequences: Sequence[TokenSequence]) -> str:
    names = [f"{one.kind} of a {one.name}" if one.kind == "patches" else one.kind for one in sequences]
    return " and ".join(dict.fromkeys(names))


def _is_mask(value: Any, length: int) -> bool:
    return isinstance(value, Tensor) and value.ndim == 2 and value.shape[-1] == length


def _first_position(model: nn.Module) -> int:
    """The position of a model's first token: after the padding index in models that count from there, such as RoBERTa."""
    module = next((m for m in model.modules() if hasattr(m, "create_position_ids_from_input_ids")), None)
    padding = getattr(module, "padding_idx", None)
    return padding + 1 if isinstance(padding, int) else 0


def _check_positions(model: nn.Module, end: int) -> None:
    """Raises InputError where the model has fewer positions than `end`."""
    most = max_positions(model)
    if most is not None and end > most:
        raise InputError(
            f"{type(model).__name__} has positions 0 to {most - 1}, but the last token would have position {end - 1}. Shift less."
        )
